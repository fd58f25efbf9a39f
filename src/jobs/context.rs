//! What running work may do with its own job. Every write is fenced: after a lost lease it changes nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::{JobError, Jobs};
use crate::base::clock::Clock;
use crate::base::fail_point;
use crate::base::ids::{JobId, Space};
use crate::llm::Llm;
use crate::model::job::{Batch, Claim, ClaimedJob, Job, PaidRecord, Record};
use crate::store::{Ending, StoreError, Tx};

/// A running job's own handle.
#[derive(Clone)]
pub struct JobContext {
    inner: Arc<Inner>,
}

struct Inner {
    jobs: Jobs,
    clock: Arc<dyn Clock>,
    job: Job,
    request: Mutex<Value>,
    claim: Claim,
    saved: Mutex<HashMap<String, Value>>,
    warnings: Mutex<Vec<Value>>,
}

impl JobContext {
    pub(super) fn new(jobs: Jobs, clock: Arc<dyn Clock>, claimed: ClaimedJob, saved: HashMap<String, Value>) -> Self {
        let ClaimedJob { job, request } = claimed;
        let request = Mutex::new(request);
        let claim = Claim { space: job.space.clone(), id: job.id.clone(), fence: job.fence };
        let warnings = Mutex::new(job.warnings.clone());
        Self { inner: Arc::new(Inner { jobs, clock, job, request, claim, saved: Mutex::new(saved), warnings }) }
    }

    pub fn space(&self) -> &Space {
        &self.inner.job.space
    }

    pub fn id(&self) -> &JobId {
        &self.inner.job.id
    }

    /// What was asked for, once: it may be large, and is not kept twice.
    pub fn take_request(&self) -> Value {
        std::mem::take(&mut *self.inner.request.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counted from 1.
    pub fn attempt(&self) -> i64 {
        self.inner.job.attempt
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// What a step left behind, if it was finished before.
    pub fn saved(&self, step: &str) -> Option<Value> {
        self.inner.saved.lock().unwrap_or_else(PoisonError::into_inner).get(step).cloned()
    }

    /// Saves a finished step, at once: whoever resumes the job does not do it again.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn save(&self, step: &str, value: Value) -> Result<(), JobError> {
        self.record(&Record { steps: vec![(step, &value)], ..Record::default() }).await
    }

    /// Writes down finished steps, batches and events together, at once.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn record(&self, record: &Record<'_>) -> Result<(), JobError> {
        let now = self.inner.clock.now();
        held(self.inner.jobs.store.add_job_record(&self.inner.claim, record, now).await?)?;
        fail_point::hit("after_checkpoint");
        self.remember(record);
        Ok(())
    }

    /// The same for steps that were paid for: what they cost is written down with them, never later.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn record_paid(
        &self,
        llm: &Llm,
        steps: Vec<(String, Value)>,
        batches: Vec<Batch>,
    ) -> Result<(), JobError> {
        let (claim, at) = (self.inner.claim.clone(), self.inner.clock.now());
        let record = Arc::new(PaidRecord { claim, steps, batches, at });
        held(llm.write_down(&record).await?)?;
        fail_point::hit("after_checkpoint");
        self.remember(&record.as_record());
        Ok(())
    }

    /// The same inside a transaction that writes an effect; `false`: the lease is lost, drop the transaction.
    ///
    /// # Errors
    /// The store's.
    pub async fn record_in(&self, tx: &mut Tx, record: &Record<'_>) -> Result<bool, StoreError> {
        tx.add_job_record(&self.inner.claim, record, self.inner.clock.now()).await
    }

    /// Makes steps found again by this run; those of [`JobContext::record_in`], once they are committed.
    pub fn remember(&self, record: &Record<'_>) {
        let mut saved = self.inner.saved.lock().unwrap_or_else(PoisonError::into_inner);
        for (step, value) in &record.steps {
            saved.entry((*step).to_owned()).or_insert_with(|| (*value).clone());
        }
    }

    /// What can be read of the steps that are finished.
    pub fn read_saved<T>(&self, read: impl Fn(&str, &Value) -> Option<T>) -> Vec<T> {
        let saved = self.inner.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.iter().filter_map(|(step, value)| read(step, value)).collect()
    }

    /// Tells what the job is doing; whoever watches it sees it.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn report(&self, phase: &str, progress: &Value) -> Result<(), JobError> {
        let store = &self.inner.jobs.store;
        let now = self.inner.clock.now();
        let written = store.retry("update_job_progress", || async {
            let mut tx = store.begin().await?;
            let written = tx.update_job_progress(&self.inner.claim, phase, progress, now).await?;
            tx.commit().await?;
            Ok(written)
        });
        held(written.await?)?;
        self.inner.jobs.announce();
        Ok(())
    }

    /// Adds a warning that stays with the job.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn warn(&self, code: &str, message: &str) -> Result<(), JobError> {
        let warnings = {
            let mut warnings = self.inner.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            let warning = json!({"code": code, "message": message});
            // A resumed job says it again.
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
            warnings.clone()
        };
        let store = &self.inner.jobs.store;
        let now = self.inner.clock.now();
        let written = store.retry("update_job_warnings", || async {
            let mut tx = store.begin().await?;
            let written = tx.update_job_warnings(&self.inner.claim, &warnings, now).await?;
            tx.commit().await?;
            Ok(written)
        });
        held(written.await?)?;
        self.inner.jobs.announce();
        Ok(())
    }

    /// Ends the job inside the transaction that writes its effect: both last, or neither.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`]: drop the transaction. Or the store's.
    pub async fn finish(&self, tx: &mut Tx, result: Value) -> Result<(), JobError> {
        held(self.end(tx, result).await?)
    }

    /// The same, saying which document the job was about after all; `false`: the lease is lost, drop the transaction.
    ///
    /// # Errors
    /// The store's.
    pub async fn finish_about(&self, tx: &mut Tx, source_id: &str, result: Value) -> Result<bool, StoreError> {
        if self.inner.job.source_id.as_deref() != Some(source_id) {
            tx.update_job_source(&self.inner.claim, source_id).await?;
        }
        self.end(tx, result).await
    }

    async fn end(&self, tx: &mut Tx, result: Value) -> Result<bool, StoreError> {
        let ended = tx.end_job(&self.inner.claim, &Ending::Succeeded { result }, self.inner.clock.now()).await?;
        self.inner.jobs.tidy(tx, &self.inner.claim).await?;
        Ok(ended)
    }
}

fn held(written: bool) -> Result<(), JobError> {
    if written { Ok(()) } else { Err(JobError::LeaseLost) }
}
