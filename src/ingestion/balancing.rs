//! The job that keeps the hierarchy in balance after ingestions: large leaves and parents are split, and
//! level 1 is merged until it is short enough.
//!
//! Each correction is planned with no transaction open, and made in one transaction that also checks
//! that the job is still this process's. So an interrupted job leaves whole corrections, and the next
//! run goes on with what it finds. What cannot be corrected now is left to the next job; it stays in
//! the review. The job ends under the lock of the space, which ingestions hold while they queue it, so
//! nothing that has grown is missed.

use std::collections::HashSet;

use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use crate::base::fail_point::fail_point;
use crate::base::problems;
use crate::categories::care::CareOrder;
use crate::categories::care::balance::{Correction, Imbalance};
use crate::categories::{Categories, CategoryError};
use crate::jobs::{Ended, Failure, JobContext, JobError, Outcome, Work};
use crate::model::job::{Lane, NewJob, Record};
use crate::store::{AsStoreError, Store, StoreError};

/// The name of this kind of job.
pub const KIND: &str = "balance";
/// The prefix of the steps, one for each correction.
const CORRECTED: &str = "corrected/";

/// Runs the job.
#[derive(Clone)]
pub struct BalanceWork {
    pub store: Store,
    pub categories: Categories,
}

/// The job that balances a space.
pub fn new_job(max_attempts: i64) -> NewJob {
    NewJob {
        kind: KIND,
        lane: Lane::Background,
        user_id: String::new(),
        source_id: None,
        request: json!({}).to_string(),
        max_attempts,
        group_size: 1,
    }
}

impl Work for BalanceWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let work = self.clone();
        async move { work.balance(&context).await }.boxed()
    }
}

/// Why a correction or the end of the job was not written.
#[derive(Debug, thiserror::Error)]
enum BalanceError {
    #[error(transparent)]
    Category(#[from] CategoryError),
    #[error(transparent)]
    Job(#[from] JobError),
}

impl AsStoreError for BalanceError {
    fn as_store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Category(error) => error.as_store_error(),
            Self::Job(_) => None,
        }
    }
}

impl From<StoreError> for BalanceError {
    fn from(error: StoreError) -> Self {
        Self::Category(error.into())
    }
}

impl From<BalanceError> for JobError {
    fn from(error: BalanceError) -> Self {
        match error {
            BalanceError::Job(error) => error,
            BalanceError::Category(CategoryError::Store(error)) => error.into(),
            BalanceError::Category(other) => {
                Self::fail(Failure::new(problems::INTERNAL_ERROR, other.to_string()))
            }
        }
    }
}

/// What came of an imbalance.
enum Made {
    Corrected,
    /// A limit forbids it for now.
    Full,
    Nothing,
}

/// What this run has tried without success.
#[derive(Default)]
struct Passed {
    hopeless: HashSet<Imbalance>,
    /// Where a limit forbids a correction, until a parent is split.
    full: HashSet<Imbalance>,
}

impl Passed {
    fn has(&self, imbalance: Imbalance) -> bool {
        self.hopeless.contains(&imbalance) || self.full.contains(&imbalance)
    }
}

impl BalanceWork {
    async fn balance(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let mut passed = Passed::default();
        loop {
            let mut left = self.list(context).await?;
            left.retain(|one| !passed.has(*one));
            for imbalance in &left {
                match self.correct(context, *imbalance).await? {
                    Made::Corrected => {
                        context.report("balancing", Self::result(context, &passed));
                        if matches!(imbalance, Imbalance::Parent(_)) {
                            passed.full.clear();
                        }
                    }
                    Made::Full => {
                        passed.full.insert(*imbalance);
                    }
                    Made::Nothing => {
                        passed.hopeless.insert(*imbalance);
                    }
                }
            }

            if left.is_empty() && self.end(context, &passed).await? {
                return Ok(Outcome::Finished);
            }
        }
    }

    async fn list(&self, context: &JobContext) -> Result<Vec<Imbalance>, JobError> {
        let call = context.call_now();
        let listed = self.store.retry_as("list_imbalances", || async {
            let mut tx = self.store.begin().await?;
            let found = self.categories.list_imbalances(&mut tx, &call).await?;
            Ok::<_, BalanceError>(found)
        });
        Ok(listed.await?)
    }

    /// Makes one correction, if there is one.
    async fn correct(&self, context: &JobContext, imbalance: Imbalance) -> Result<Made, JobError> {
        let call = context.call_now();
        let planned = self.categories.plan_correction(&call, imbalance).await;
        let planned = match planned {
            Err(CategoryError::Store(error)) => return Err(error.into()),
            // It is gone.
            Err(_) | Ok(None) => return Ok(Made::Nothing),
            Ok(Some(planned)) => planned,
        };

        fail_point!("after_planned_correction");
        let mut made = Made::Nothing;
        for order in planned.orders() {
            match self.write(context, (&planned, order)).await {
                Ok(true) => return Ok(Made::Corrected),
                Err(BalanceError::Category(CategoryError::Full { .. })) => made = Made::Full,
                // Something has changed since it was planned.
                Ok(false)
                | Err(BalanceError::Category(
                    CategoryError::NotFound(_)
                    | CategoryError::Invalid(_)
                    | CategoryError::Exists { .. },
                )) => {}
                Err(error) => return Err(error.into()),
            }
        }

        Ok(made)
    }

    /// Writes a correction and that it was made; `false` if nothing was left to change.
    async fn write(
        &self,
        context: &JobContext,
        (correction, order): (&Correction, CareOrder<'_>),
    ) -> Result<bool, BalanceError> {
        let call = context.call_now();
        let written = self.store.retry_as("balance", || async {
            let mut tx = self.store.begin().await?;
            let outcome = self
                .categories
                .correct_in(&mut tx, &call, (correction, order));
            let outcome = outcome.await?;
            let Some(change) = &outcome.change else {
                return Ok(None);
            };

            let done = json!({"kind": change.kind, "chunks": outcome.chunks_moved});
            let step = Record::step(format!("{CORRECTED}{}", change.id), done);
            if !context.record_in(&mut tx, step.clone()).await? {
                return Err(JobError::LeaseLost.into());
            }
            fail_point!("in_correction");
            tx.commit().await?;
            Ok::<_, BalanceError>(Some(step))
        });

        let Some(step) = written.await? else {
            return Ok(false);
        };
        context.remember(&step);
        fail_point!("after_correction");
        Ok(true)
    }

    /// Ends the job, unless something has grown meanwhile.
    async fn end(&self, context: &JobContext, passed: &Passed) -> Result<bool, JobError> {
        let result = Self::result(context, passed);
        let ending = context.ending().await;
        let ended = self
            .store
            .retry_as("end_balance", || {
                self.end_once(context, &ending, passed, &result)
            })
            .await;

        if !matches!(ended, Ok(true)) {
            ending.give_back();
        }
        Ok(ended?)
    }

    async fn end_once(
        &self,
        context: &JobContext,
        ending: &Ended<'_>,
        passed: &Passed,
        result: &Value,
    ) -> Result<bool, BalanceError> {
        let call = context.call_now();
        let mut tx = self.store.begin().await?;
        tx.lock_chunks(context.space()).await?;
        let found = self.categories.list_imbalances(&mut tx, &call).await?;
        if found.iter().any(|one| !passed.has(*one)) {
            return Ok(false);
        }

        ending.finish(&mut tx, result.clone()).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// What all runs of the job have done so far, and what they could not.
    fn result(context: &JobContext, passed: &Passed) -> Value {
        let done = context.read_saved(|step, value| {
            step.strip_prefix(CORRECTED)?;
            Some((
                value["kind"].as_str()?.to_owned(),
                value["chunks"].as_i64()?,
            ))
        });
        let of_kind = |kind: &str| done.iter().filter(|(own, _)| own == kind).count();
        json!({
            "splits": of_kind("split"), "merges": of_kind("merge"),
            "chunks_moved": done.iter().map(|(_, chunks)| chunks).sum::<i64>(),
            "left": passed.hopeless.len() + passed.full.len(),
        })
    }
}
