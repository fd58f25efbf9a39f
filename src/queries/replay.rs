//! Replays a query: on its record, which proves what happened, or live with other settings, which
//! shows the differences.

use std::collections::BTreeSet;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cursor::Page;
use super::finder::{Finder, Record};
use super::input::Faults;
use super::receipt::{Receipt, Totals, fingerprint};
use super::reuse::recalled;
use super::steps::{self, Progress, QueryContext};
use super::{Events, Failed, Queries, QueryError, QueryResult, QuerySettings, RecordedQuery};
use crate::config::query::{MAX_N, StrategyName};
use crate::llm::Session;
use crate::model::call::CallContext;

/// How to replay: with the recorded model outputs (`recorded`), or with new model calls (`live`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayMode {
    #[default]
    Recorded,
    Live,
}

/// How to replay the query.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayQueryRequest, example = json!({"mode": "live", "strategy": "wide_branch"}))]
pub struct ReplayInput {
    /// How to replay; `recorded` if omitted.
    pub mode: Option<ReplayMode>,
    /// `live` only: another strategy.
    pub strategy: Option<StrategyName>,
    /// `live` only: number of categories to select on level 1.
    #[schema(minimum = 1, maximum = 100)]
    pub n: Option<i64>,
    /// `live` only: by how much that number falls or rises from level to level.
    #[schema(minimum = 0, maximum = 100)]
    pub n2: Option<i64>,
    /// `live` only: another model, as `provider:model`.
    pub model: Option<String>,
}

/// What the replay changed; each number is the replay's value minus the original's.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueryDifferencesResponse)]
pub struct Differences {
    pub leaves: LeafDifferences,
    pub calls: i64,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// Null if a price is unknown.
    pub cost_usd: Option<f64>,
    /// Difference in milliseconds.
    pub total_latency: f64,
}

/// Leaves, by path.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueryLeavesResponse)]
pub struct LeafDifferences {
    /// Leaves that both read.
    pub kept: Vec<Vec<String>>,
    /// Leaves that only the replay read.
    pub added: Vec<Vec<String>>,
    /// Leaves that only the original query read.
    pub removed: Vec<Vec<String>>,
}

/// Both results, compared.
#[derive(Debug)]
pub struct Replay {
    pub mode: ReplayMode,
    pub original: RecordedQuery,
    /// Whether everything except times is identical; only for a recorded replay.
    pub identical: Option<bool>,
    pub differences: Differences,
    /// The code of the problem with which the replay failed.
    pub error: Option<String>,
    pub result: Box<QueryResult>,
}

impl ReplayInput {
    pub fn mode(&self) -> ReplayMode {
        self.mode.unwrap_or_default()
    }

    /// Checks everything that needs no database.
    ///
    /// # Errors
    /// [`QueryError::Invalid`].
    pub fn check(&self) -> Result<(), QueryError> {
        let mut faults = Faults::default();
        faults.number("n", self.n, 1..=MAX_N);
        faults.number("n2", self.n2, 0..=MAX_N);
        let live_only = [
            ("strategy", self.strategy.is_some()),
            ("n", self.n.is_some()),
            ("n2", self.n2.is_some()),
            ("model", self.model.is_some()),
        ];

        for (field, is_given) in live_only {
            if is_given && self.mode() == ReplayMode::Recorded {
                let rule =
                    "applies only to mode live: a recorded replay uses the recorded parameters";
                faults.add(field, rule.to_owned());
            }
        }

        faults.into_result()
    }

    /// The query with the other settings of a live replay.
    fn applied_to(self, original: &QuerySettings) -> QuerySettings {
        let number = |given: Option<i64>| given.and_then(|given| u64::try_from(given).ok());
        let base = self.strategy.map_or_else(
            || original.clone(),
            |strategy| original.with_strategy(strategy),
        );

        QuerySettings {
            n: number(self.n)
                .filter(|_| base.strategy != StrategyName::OneShot)
                .unwrap_or(base.n),
            n2: number(self.n2).unwrap_or(base.n2),
            model: self.model.or_else(|| base.model.clone()),
            cursor: None,
            reuse: false,
            ..base
        }
    }
}

impl Differences {
    fn between(original: &Receipt, replay: &QueryResult) -> Self {
        let before: BTreeSet<&Vec<String>> = original
            .paths
            .iter()
            .filter(|path| !path.chunk_ids.is_empty())
            .map(|path| &path.names)
            .collect();
        let after: BTreeSet<&Vec<String>> = replay
            .paths
            .iter()
            .filter(|path| path.chunk_count > 0)
            .map(|path| &path.names)
            .collect();

        let (old, new) = (original.totals, Totals::of(replay));
        let costs = new.cost_usd.zip(old.cost_usd);
        Self {
            leaves: LeafDifferences {
                kept: before.intersection(&after).copied().cloned().collect(),
                added: after.difference(&before).copied().cloned().collect(),
                removed: before.difference(&after).copied().cloned().collect(),
            },
            calls: new.calls - old.calls,
            tokens_prompt: new.tokens_prompt - old.tokens_prompt,
            tokens_completion: new.tokens_completion - old.tokens_completion,
            cost_usd: costs.map(|(new, old)| new - old),
            total_latency: new.total_latency - old.total_latency,
        }
    }
}

impl Queries {
    /// Replays a query.
    ///
    /// # Errors
    /// [`QueryError::NotFound`], or the replay failed before the query could start.
    pub async fn replay(
        &self,
        call: &CallContext,
        id: &str,
        input: ReplayInput,
    ) -> Result<Replay, Failed> {
        let mode = input.mode();
        let original = self.receipts().find(call, id).await?;
        if original.is_erased() {
            return Err(QueryError::Erased(id.to_owned()).into());
        }

        let Some(settings) = Receipt::settings(&original.stored) else {
            return Err(QueryError::NotFound(id.to_owned()).into());
        };

        let outcome = match mode {
            ReplayMode::Recorded => self.replay_recorded(call, &original, &settings).await,
            ReplayMode::Live => {
                let settings = input.applied_to(&settings);
                let model = settings.model.as_deref();
                self.inner.llm.target_name("answer", model)?;
                self.answer(call, &settings).await
            }
        };

        let (mut result, error) = match outcome {
            Ok(result) => (Box::new(result), None),
            Err(Failed {
                error,
                result: Some(result),
            }) => (result, Some(error.code().to_owned())),
            Err(failed) => return Err(failed),
        };

        let receipt = &original.receipt;
        let identical = (mode == ReplayMode::Recorded)
            .then(|| receipt.error == error && fingerprint(&mut result) == receipt.result_sha256);

        Ok(Replay {
            mode,
            identical,
            differences: Differences::between(&original.receipt, &result),
            error,
            result,
            original,
        })
    }

    /// The query on its record. What was recalled is proved by the query whose result it repeated.
    async fn replay_recorded(
        &self,
        call: &CallContext,
        original: &RecordedQuery,
        settings: &QuerySettings,
    ) -> Result<QueryResult, Failed> {
        let auto = original.receipt.auto.as_ref();
        let Some(first) = auto.and_then(|auto| auto.recalled_from.as_ref()) else {
            return self.recorded(call, original, settings).await;
        };

        let first = self.receipts().find(call, first).await?;
        if first.is_erased() {
            return Err(QueryError::Erased(original.id().to_string()).into());
        }

        let result = self.recorded(call, &first, settings).await?;
        Ok(recalled(result, original.id().to_string()))
    }

    /// The query on its record: its options, its models' answers, its chunks by id.
    async fn recorded(
        &self,
        call: &CallContext,
        original: &RecordedQuery,
        settings: &QuerySettings,
    ) -> Result<QueryResult, Failed> {
        let (inner, space) = (&*self.inner, &call.space);
        let id = original.id().to_string();
        let session = Session::of_record(call.unpaid(), id.clone(), original.calls.clone());
        let query = QueryContext {
            inner,
            settings,
            session: &session,
            finder: Finder::Recorded(Record {
                inner,
                space,
                receipt: &original.receipt,
            }),
            page: Page::of(settings, inner.depth())?,
            events: &Events::default(),
            counter: inner.counter(settings),
        };

        let begun = Instant::now();
        let mut progress = Progress::new(id, settings);
        let outcome = steps::run(&query, &mut progress).await;
        let (result, _) = progress.finish(&session, begun, &outcome);
        match outcome {
            Ok(()) => Ok(result),
            Err(error) => Err(Failed {
                error,
                result: Some(Box::new(result)),
            }),
        }
    }
}
