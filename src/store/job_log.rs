//! The log of a job that has succeeded, in one column of its row: what was not written while it
//! ran, and its calls of the embedded model. A short text would otherwise need more space for the
//! rows of its log than for itself.
//!
//! `jobs.log_json` is an object:
//!
//! - `after`: the number of the last event before it; the events of the log follow, then the last
//!   state
//! - `events`: `[kind, time, data]`; the data of a warning is its position among the job's warnings
//! - `batches`: `[seq, level, parent_path, chunk_ordinals, latency_ms, time]`
//! - `model`: `[provider, model, mode, params]` of all calls
//! - `calls`: `[seq, stage, level, time, latency_ms, tokens_prompt, tokens_completion, output]`
//!
//! Times are microseconds since the job was started.

use serde_json::{Map, Value, json};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::jobs::read_json;
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::batch::Batch;
use crate::model::job::{JobEvent, JobLog, JobState};
use crate::model::llm_call::{CallOutcome, LlmCall};

/// A log as it is stored, with what it refers to.
pub(super) struct StoredLog {
    log: Value,
    started_at: i64,
    finished_at: i64,
    warnings: Vec<Value>,
}

impl Store {
    /// The log in the row of a job, if it has one.
    pub(super) async fn find_job_log(
        &self,
        space: &Space,
        id: &JobId,
    ) -> Result<Option<StoredLog>, StoreError> {
        let sql = "SELECT started_at, finished_at, warnings_json, log_json FROM jobs \
                   WHERE space = ? AND id = ? AND log_json IS NOT NULL";
        let query = self.sql(sql).bind(space.as_str()).bind(id.as_str());
        self.fetch_all(query)
            .await?
            .first()
            .map(StoredLog::read)
            .transpose()
    }
}

impl StoredLog {
    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        let moment = |column: &str| row.try_get::<Option<i64>, _>(column);
        let warnings = read_json(row, "warnings_json")?.unwrap_or_default();
        Ok(Self {
            log: read_json(row, "log_json")?.unwrap_or_default(),
            started_at: moment("started_at")?.unwrap_or(0),
            finished_at: moment("finished_at")?.unwrap_or(0),
            warnings: warnings.as_array().cloned().unwrap_or_default(),
        })
    }

    /// Its events, and the last state of the job.
    pub fn events(&self) -> Vec<JobEvent> {
        let mut seq = self.log["after"].as_i64().unwrap_or(0);
        let mut events = Vec::new();
        let mut add = |kind: &str, data: Value, created_at: Timestamp| {
            seq += 1;
            events.push(JobEvent {
                seq,
                kind: kind.to_owned(),
                data,
                created_at,
            });
        };

        for event in self.rows("events") {
            let data = match &event[2] {
                Value::Number(place) => self.warning(place.as_u64()),
                data => data.clone(),
            };
            add(text(&event[0]), data, self.moment(&event[1]));
        }

        let state = json!({"state": JobState::Succeeded.into_str()});
        add("state", state, Timestamp::from_micros(self.finished_at));
        events
    }

    pub fn batches(&self) -> impl Iterator<Item = Batch> {
        self.rows("batches").iter().map(|batch| {
            let ordinals = batch[3].as_array().into_iter().flatten();
            let chunk_ordinals: Vec<i64> = ordinals.filter_map(Value::as_i64).collect();
            let chunks = i64::try_from(chunk_ordinals.len()).unwrap_or(0);
            Batch {
                seq: number(&batch[0]),
                level: number(&batch[1]),
                parent_path: text(&batch[2]).to_owned(),
                chunk_ordinals,
                chunks_sent: chunks,
                successes: chunks,
                retries: 0,
                failures: 0,
                latency_ms: batch[4].as_f64().unwrap_or(0.0),
                started_at: self.moment(&batch[5]),
                paid_by: None,
            }
        })
    }

    pub fn calls(&self) -> impl Iterator<Item = LlmCall> {
        let model = &self.log["model"];
        self.rows("calls").iter().map(move |call| LlmCall {
            // Calls in a log are never written again, so nothing needs to recognise them.
            call_id: String::new(),
            seq: number(&call[0]),
            stage: text(&call[1]).to_owned(),
            level: call[2].as_i64(),
            attempt: 1,
            outcome: CallOutcome::Ok.into_str().to_owned(),
            llm_output: call.get(7).cloned(),
            timestamp: self.moment(&call[3]),
            latency_ms: call[4].as_f64().unwrap_or(0.0),
            provider: text(&model[0]).to_owned(),
            model: text(&model[1]).to_owned(),
            mode: text(&model[2]).to_owned(),
            tokens_prompt: number(&call[5]),
            tokens_completion: number(&call[6]),
            tokens_cached: 0,
            cost_usd: Some(0.0),
            provider_params: model[3].clone(),
            key_id: None,
        })
    }

    fn rows(&self, name: &str) -> &[Value] {
        self.log[name].as_array().map_or(&[], Vec::as_slice)
    }

    fn moment(&self, since_start: &Value) -> Timestamp {
        Timestamp::from_micros(self.started_at.saturating_add(number(since_start)))
    }

    fn warning(&self, place: Option<u64>) -> Value {
        let place = place.and_then(|place| usize::try_from(place).ok());
        let warning = place.and_then(|place| self.warnings.get(place));
        warning.cloned().unwrap_or_default()
    }
}

/// A log as it is stored; `warnings` are all warnings of the job.
pub(super) fn written(
    log: &JobLog,
    after: i64,
    started_at: Timestamp,
    warnings: &[Value],
) -> String {
    let since = |moment: Timestamp| moment.as_micros() - started_at.as_micros();
    let mut object = Map::new();
    object.insert("after".to_owned(), after.into());
    let mut add = |name: &str, rows: Vec<Value>| {
        if !rows.is_empty() {
            object.insert(name.to_owned(), rows.into());
        }
    };

    let event = |(kind, data, at): &(&'static str, Value, Timestamp)| {
        let warning = warnings.iter().position(|warning| warning == data);
        let data = warning.map_or_else(|| data.clone(), Value::from);
        json!([kind, since(*at), data])
    };
    add("events", log.events.iter().map(event).collect());

    let batch = |batch: &Batch| {
        json!([
            batch.seq,
            batch.level,
            batch.parent_path,
            batch.chunk_ordinals,
            batch.latency_ms,
            since(batch.started_at)
        ])
    };
    add("batches", log.batches.iter().map(batch).collect());

    if let Some(call) = log.calls.first() {
        let params = call.provider_params.clone();
        let model = json!([call.provider, call.model, call.mode, params]);
        add("model", model.as_array().cloned().unwrap_or_default());
    }

    let call = |call: &LlmCall| {
        let mut row = vec![
            call.seq.into(),
            call.stage.clone().into(),
            call.level.into(),
            since(call.timestamp).into(),
            call.latency_ms.into(),
            call.tokens_prompt.into(),
            call.tokens_completion.into(),
        ];
        row.extend(call.llm_output.clone());
        Value::from(row)
    };
    add("calls", log.calls.iter().map(call).collect());

    Value::from(object).to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(seq: i64, output: Option<Value>) -> LlmCall {
        LlmCall {
            call_id: String::new(),
            seq,
            stage: "classify".to_owned(),
            level: Some(2),
            attempt: 1,
            outcome: "ok".to_owned(),
            llm_output: output,
            timestamp: Timestamp::from_micros(1_000_700),
            latency_ms: 1.5,
            provider: "local".to_owned(),
            model: "embedded".to_owned(),
            mode: "embedded".to_owned(),
            tokens_prompt: 30,
            tokens_completion: 4,
            tokens_cached: 0,
            cost_usd: Some(0.0),
            provider_params: json!({"temperature": 0.0}),
            key_id: None,
        }
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let warnings = vec![json!({"code": "a"}), json!({"code": "b"})];
        let batch = Batch {
            seq: 3,
            level: 2,
            parent_path: "Transport".to_owned(),
            chunk_ordinals: vec![1, 2],
            chunks_sent: 2,
            successes: 2,
            retries: 0,
            failures: 0,
            latency_ms: 1.25,
            started_at: Timestamp::from_micros(1_000_500),
            paid_by: None,
        };

        let calls = vec![call(1, None), call(2, Some(json!({"chunks": []})))];
        let log = JobLog {
            events: vec![
                ("helper", json!({"n": 1}), Timestamp::from_micros(1_000_100)),
                (
                    "warning",
                    warnings[1].clone(),
                    Timestamp::from_micros(999_999),
                ),
            ],
            batches: vec![batch.clone()],
            calls: calls.clone(),
        };

        let text = written(&log, 2, Timestamp::from_micros(1_000_000), &warnings);
        let stored = StoredLog {
            log: serde_json::from_str(&text).unwrap(),
            started_at: 1_000_000,
            finished_at: 1_002_000,
            warnings: warnings.clone(),
        };

        let event = |seq, kind: &str, data, at| JobEvent {
            seq,
            kind: kind.to_owned(),
            data,
            created_at: Timestamp::from_micros(at),
        };
        assert_eq!(
            stored.events(),
            [
                event(3, "helper", json!({"n": 1}), 1_000_100),
                event(4, "warning", json!({"code": "b"}), 999_999),
                event(5, "state", json!({"state": "succeeded"}), 1_002_000),
            ]
        );

        assert!(!text.contains("\"b\""), "a warning is stored once: {text}");
        assert_eq!(stored.batches().collect::<Vec<_>>(), [batch]);
        assert_eq!(stored.calls().collect::<Vec<_>>(), calls);
    }
}
