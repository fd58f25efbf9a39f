//! The job that keeps the hierarchy in balance after ingestions: large leaves and parents are split, and
//! level 1 is merged until it is short enough.
//!
//! Each correction is planned with no transaction open, and made in one transaction that also checks
//! that the job is still this process's. So an interrupted job leaves whole corrections, and the next
//! run goes on with what it finds. What cannot be corrected now is left to the next job; it stays in
//! the review. A run makes a limited number of corrections. The job ends under the lock of the space,
//! which ingestions hold while they queue it, so nothing that has grown is missed.

use std::collections::HashSet;

use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::tried_splits::{Refusal, TriedSplits};
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
/// Corrections that a run makes in any hierarchy, and besides for each of its categories. A sound run
/// needs far fewer.
const MAX_CORRECTIONS: i64 = 1000;
const MAX_PER_CATEGORY: i64 = 4;

/// Runs the job.
#[derive(Clone)]
pub struct BalanceWork {
    store: Store,
    categories: Categories,
    tried: TriedSplits,
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
    Refused(Refusal),
    /// What was planned was out of date.
    Nothing,
}

/// What this run has tried without success.
#[derive(Default)]
struct Passed {
    hopeless: HashSet<Imbalance>,
    /// Where a limit forbids a correction, until a parent is split.
    full: HashSet<Imbalance>,
    /// Imbalances for which the run may make no more corrections; `None`: it may.
    unmade: Option<usize>,
}

impl Passed {
    fn has(&self, imbalance: Imbalance) -> bool {
        self.hopeless.contains(&imbalance) || self.full.contains(&imbalance)
    }

    fn add(&mut self, imbalance: Imbalance, refusal: Refusal) {
        match refusal {
            Refusal::Full => self.full.insert(imbalance),
            Refusal::Hopeless => self.hopeless.insert(imbalance),
        };
    }
}

impl BalanceWork {
    pub fn new(store: Store, categories: Categories) -> Self {
        Self {
            store,
            categories,
            tried: TriedSplits::default(),
        }
    }

    async fn balance(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let mut passed = Passed::default();
        let mut allowed = self.max_corrections(context).await?;
        loop {
            let mut left = self.list(context).await?;
            self.tried.keep(context.space(), &left);
            left.retain(|one| !passed.has(*one));
            if allowed == 0 && !left.is_empty() {
                let message = format!(
                    "the job ends after too many corrections; {} remain",
                    left.len()
                );
                tracing::warn!(job_id = %context.id(), "{message}");
                context.warn("too_many_corrections", &message);
                passed.unmade = Some(left.len());
            }

            for imbalance in left.iter().take(allowed) {
                match self.correct(context, *imbalance).await? {
                    Made::Corrected => {
                        allowed = allowed.saturating_sub(1);
                        context.report("balancing", Self::result(context, &passed));
                        if matches!(imbalance, Imbalance::Parent(_)) {
                            passed.full.clear();
                        }
                    }
                    Made::Refused(refusal) => passed.add(*imbalance, refusal),
                    Made::Nothing => passed.add(*imbalance, Refusal::Hopeless),
                }
            }

            let is_over = left.is_empty() || passed.unmade.is_some();
            if is_over && self.end(context, &passed).await? {
                return Ok(Outcome::Finished);
            }
        }
    }

    /// How many corrections a run may make: a backstop, so that two kinds of corrections that undo each
    /// other do not run indefinitely.
    async fn max_corrections(&self, context: &JobContext) -> Result<usize, JobError> {
        let counts = self.store.count_categories(context.space(), None).await?;
        let categories: i64 = counts.values().sum();
        let most = categories
            .saturating_mul(MAX_PER_CATEGORY)
            .saturating_add(MAX_CORRECTIONS);
        Ok(usize::try_from(most).unwrap_or(usize::MAX))
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
        let space = context.space();
        let size = self.categories.measure_split(&call, imbalance).await;
        let size = size.map_err(BalanceError::from)?;
        if let Some(size) = size {
            if size.is_forbidden() {
                return Ok(Made::Refused(Refusal::Full));
            }
            if let Some(refusal) = self.tried.find(space, imbalance, size) {
                return Ok(Made::Refused(refusal));
            }
        }

        let refuse = |refusal| {
            if let Some(size) = size {
                self.tried.note(space, imbalance, size, refusal);
            }
            Made::Refused(refusal)
        };
        let planned = self.categories.plan_correction(&call, imbalance).await;
        let planned = match planned {
            Err(CategoryError::Store(error)) => return Err(error.into()),
            // It is gone.
            Err(_) => return Ok(Made::Nothing),
            Ok(None) => return Ok(refuse(Refusal::Hopeless)),
            Ok(Some(planned)) => planned,
        };

        fail_point!("after_planned_correction");
        let mut made = Made::Nothing;
        for order in planned.orders() {
            match self.write(context, (&planned, order)).await {
                Ok(true) => return Ok(Made::Corrected),
                Err(BalanceError::Category(CategoryError::Full { .. })) => {
                    made = refuse(Refusal::Full);
                }
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
        if passed.unmade.is_none() && found.iter().any(|one| !passed.has(*one)) {
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
            "left": passed.hopeless.len() + passed.full.len() + passed.unmade.unwrap_or(0),
        })
    }
}
