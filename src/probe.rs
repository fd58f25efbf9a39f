//! Probe jobs, whose request defines what they do, for tests of the job engine: steps, waits,
//! failures, panics, an effect.
//!
//! Available only with `testing.probe_jobs`. The effect is a source with the job's id as a tag: a
//! job that ran twice leaves two of them.

use std::io::Write as _;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::base::fail_point::fail_point;
use crate::base::ids::new_uuid;
use crate::base::problems::{self, ProblemKind};
use crate::jobs::{Failure, JobContext, JobError, Outcome, Work};
use crate::llm::tasks::classify::Classify;
use crate::llm::{Hint, Llm};
use crate::sources::{NewSource, SourceError, Sources};
use crate::store::Store;

/// Only for tests, so it is not in the table of problems.
const PROBE_FAILED: ProblemKind = ProblemKind {
    code: "probe_failed",
    title: "Probe failed",
    status: 502,
    remedy: "Ask for another outcome.",
};

/// The name of this kind of job.
pub const KIND: &str = "probe";

/// What a probe job does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbeRequest {
    /// Steps, saved one by one.
    pub steps: u32,
    /// How long each takes.
    pub step_ms: u64,
    /// Attempts that end as `ending` says, before one succeeds.
    pub bad_attempts: i64,
    pub ending: Ending,
    /// Whether it creates a source.
    pub effect: bool,
    /// Whether it first waits for its user.
    pub await_helper: bool,
    /// A warning to add.
    pub warning: Option<String>,
    /// Chunks to file, two at a time; each answer is saved.
    pub classify: Vec<String>,
}

/// How a failing attempt ends.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    #[default]
    Retry,
    Fail,
    Panic,
}

/// Runs probe jobs.
#[derive(Clone)]
pub struct Probe {
    pub store: Store,
    pub sources: Sources,
    pub llm: Llm,
    /// The file that logs which steps were begun and saved; empty: none.
    pub log: String,
}

impl Work for Probe {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let probe = self.clone();
        async move { probe.work(context).await }.boxed()
    }
}

impl Probe {
    async fn work(self, context: JobContext) -> Result<Outcome, JobError> {
        let request: ProbeRequest =
            serde_json::from_value(context.take_request()).map_err(|error| {
                JobError::fail(Failure::new(problems::INVALID_REQUEST, error.to_string()))
            })?;

        if let Some(warning) = &request.warning {
            context.warn("probe", warning);
        }

        if request.await_helper && context.saved("asked").is_none() {
            context.save("asked", json!(true)).await?;
            return Ok(Outcome::AwaitInput(json!({"step": "fields"})));
        }

        for step in 1..=request.steps {
            let name = format!("step-{step}");
            if context.saved(&name).is_none() {
                self.note("begin", &context, step);
                tokio::time::sleep(Duration::from_millis(request.step_ms)).await;
                context.save(&name, json!(step)).await?;
                self.note("saved", &context, step);
            }

            context.report("classifying", json!({"done": step, "total": request.steps}));
        }

        self.classify(&context, &request.classify).await?;
        if context.attempt() <= request.bad_attempts {
            let failure = Failure::new(PROBE_FAILED, "it was asked to fail");
            return Err(match request.ending {
                Ending::Retry => JobError::retry(failure),
                Ending::Fail => JobError::fail(failure),
                Ending::Panic => panic!("the probe was asked to panic"),
            });
        }

        let result = json!({"steps": request.steps});
        if !request.effect {
            return Ok(Outcome::Done(result));
        }

        let new = NewSource {
            path: Some(format!("/probe/{}", new_uuid())),
            tags: vec![context.id().to_string()],
            eligible: true,
            ..NewSource::default()
        };

        let ending = context.ending().await;
        let mut tx = self.store.begin().await?;
        let registered = self
            .sources
            .register(&mut tx, &context.call_now(), new)
            .await;

        registered.map_err(|error| match error {
            SourceError::Store(error) => error.into(),
            error => JobError::fail(Failure::new(PROBE_FAILED, error.to_string())),
        })?;

        fail_point!("in_transaction");
        ending.finish(&mut tx, result).await?;
        fail_point!("before_commit");
        tx.commit().await?;
        fail_point!("after_commit");

        Ok(Outcome::Finished)
    }

    /// Calls a model as filing does: saved answers are not requested again.
    async fn classify(&self, context: &JobContext, texts: &[String]) -> Result<(), JobError> {
        if texts.is_empty() {
            return Ok(());
        }

        let session = self
            .llm
            .job_session(context.call_now(), context.id(), context.is_first_run())
            .await?;
        for (batch, pair) in texts.chunks(2).enumerate() {
            let step = format!("answer-{batch}");
            if context.saved(&step).is_some() {
                continue;
            }

            let chunks = (1..)
                .zip(pair)
                .map(|(id, text)| (id, text.as_str().into()))
                .collect();

            let task = Classify {
                contextual_helper: None,
                is_title: false,
                free_names: false,
                helpers: Vec::new(),
                level: 1,
                depth: 3,
                parent: [].into(),
                categories: [].into(),
                may_create: true,
                chunks,
                hint: Hint::default(),
            };

            let answered = self.llm.ask(&session, task).await;
            self.llm.flush().await?;
            context
                .save(
                    &step,
                    serde_json::to_value(answered?.value).unwrap_or_default(),
                )
                .await?;
        }

        Ok(())
    }

    fn note(&self, what: &str, context: &JobContext, step: u32) {
        if self.log.is_empty() {
            return;
        }

        let line = format!("{what} {} {step}\n", context.id());
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log);

        // One write, so that lines of several processes do not mix.
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::warn!(%error, "cannot write the log of the probe");
        }
    }
}
