//! What running work may do with its own job. Every write is fenced: after a lost lease it changes
//! nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::{JobError, Jobs};
use crate::base::clock::{Clock, Timestamp};
use crate::base::fail_point::fail_point;
use crate::base::ids::{JobId, Space};
use crate::model::call::CallContext;
use crate::model::job::{
    Claim, ClaimedJob, Detail, FIRST_FENCE, Job, JobLog, JobRecord, Record, Report,
};
use crate::model::llm_call::{KeyBudget, LlmCall};
use crate::store::{Ending, Journal, StoreError, Success, Tx};

/// Events and batches that are written into the row of a job when it succeeds; more get their own
/// rows.
const MAX_LOGGED: usize = 50;

/// The handle of a running job.
#[derive(Clone)]
pub struct JobContext {
    inner: Arc<Inner>,
}

struct Inner {
    jobs: Jobs,
    clock: Arc<dyn Clock>,
    job: Job,
    request: Mutex<Value>,
    budget: Option<KeyBudget>,
    claim: Claim,
    saved: Mutex<HashMap<String, Value>>,
    warnings: Mutex<Vec<Value>>,
    /// What is written with the next record: progress, warnings, and free answers.
    pending: Mutex<Record>,
    /// Whether this run has completed something that will not be repeated.
    progressed: Arc<AtomicBool>,
    /// Whether the job's row still says that it waits for a provider.
    counts_waits: AtomicBool,
    /// Whether this run may have written something about the job.
    touched: AtomicBool,
    /// Held from taking reports until they are written, so that they stay in order.
    recording: tokio::sync::Mutex<()>,
}

/// A job that is about to end, with what is not written yet.
pub struct Ended<'c> {
    context: &'c JobContext,
    pending: Record,
    _recording: tokio::sync::MutexGuard<'c, ()>,
}

impl JobContext {
    pub(super) fn new(
        jobs: Jobs,
        clock: Arc<dyn Clock>,
        claimed: ClaimedJob,
        saved: HashMap<String, Value>,
        progressed: Arc<AtomicBool>,
    ) -> Self {
        let ClaimedJob {
            job,
            request,
            budget,
            ..
        } = claimed;
        let request = Mutex::new(request);
        let claim = Claim {
            space: job.space.clone(),
            id: job.id.clone(),
            fence: job.fence,
        };

        let warnings = Mutex::new(job.warnings.clone());
        let (saved, pending, recording) = (
            Mutex::new(saved),
            Mutex::default(),
            tokio::sync::Mutex::default(),
        );

        let counts_waits = AtomicBool::new(job.waiting_since.is_some());
        let inner = Inner {
            jobs,
            clock,
            job,
            request,
            budget,
            claim,
            saved,
            warnings,
            pending,
            progressed,
            counts_waits,
            touched: AtomicBool::new(false),
            recording,
        };

        Self {
            inner: Arc::new(inner),
        }
    }

    pub fn space(&self) -> &Space {
        &self.inner.job.space
    }

    pub fn id(&self) -> &JobId {
        &self.inner.job.id
    }

    /// The request, once: it may be large, and is not kept twice.
    pub fn take_request(&self) -> Value {
        std::mem::take(
            &mut *self
                .inner
                .request
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The call context of this moment: a job takes a new one where it needs the time.
    pub fn call_now(&self) -> CallContext {
        CallContext {
            budget: self.inner.budget.clone(),
            ..CallContext::new(self.space().clone(), self.inner.clock.now())
        }
    }

    /// Whether the job has never run before: it has saved nothing and called no model.
    pub fn is_first_run(&self) -> bool {
        self.inner.job.fence == FIRST_FENCE
    }

    /// Counted from 1.
    pub fn attempt(&self) -> i64 {
        self.inner.job.attempt
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// The value of a step, if it was finished before.
    pub fn saved(&self, step: &str) -> Option<Value> {
        self.inner
            .saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(step)
            .cloned()
    }

    /// Saves a finished step immediately: a resumed job does not repeat it.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn save(&self, step: &str, value: Value) -> Result<(), JobError> {
        self.record(Record::step(step.to_owned(), value)).await
    }

    /// Writes finished steps, batches and events together, immediately.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn record(&self, record: Record) -> Result<(), JobError> {
        let _recording = self.inner.recording.lock().await;
        let (made, earlier) = self.made(record);
        let written = self.inner.jobs.store.add_job_record(&made).await;
        self.recorded(&made, earlier, written)
    }

    /// Records paid steps: their cost is written with them, never later.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn record_paid(&self, journal: &Journal, record: Record) -> Result<(), JobError> {
        let _recording = self.inner.recording.lock().await;
        let (made, earlier) = self.made(record);
        let made = Arc::new(made);
        let written = journal.record(Arc::clone(&made)).await;
        self.recorded(&made, earlier, written)
    }

    /// Records a moment later: with the next record of the job, or by the runner. Only for steps that
    /// cost nothing, because a killed process repeats them.
    pub fn record_later(&self, record: Record) {
        self.remember(&record);
        let mut pending = self.pending();
        let earlier = std::mem::take(&mut *pending);
        *pending = record;
        pending.follow(earlier);
    }

    fn pending(&self) -> MutexGuard<'_, Record> {
        self.inner
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take_pending(&self) -> Record {
        std::mem::take(&mut *self.pending())
    }

    /// Adds what is pending, and returns that as well.
    fn made(&self, mut record: Record) -> (JobRecord, Record) {
        let earlier = self.take_pending();
        if !record.is_empty() || !earlier.is_empty() {
            self.inner.touched.store(true, Ordering::Relaxed);
        }

        record.follow(earlier.clone());
        let made = JobRecord {
            claim: self.inner.claim.clone(),
            record,
            at: self.inner.clock.now(),
        };

        (made, earlier)
    }

    fn recorded(
        &self,
        made: &JobRecord,
        earlier: Record,
        written: Result<bool, StoreError>,
    ) -> Result<(), JobError> {
        held(written.inspect_err(|error| self.put_back(error, earlier))?)?;
        fail_point!("after_checkpoint");
        if !made.record.reports.is_empty() || made.record.warnings.is_some() {
            self.inner.jobs.announce();
        }

        self.remember(&made.record);
        Ok(())
    }

    /// Writes steps inside a transaction that writes their effect; `false`: the lease is lost, drop
    /// the transaction.
    ///
    /// # Errors
    /// The store's.
    pub async fn record_in(&self, tx: &mut Tx, record: Record) -> Result<bool, StoreError> {
        self.inner.touched.store(true, Ordering::Relaxed);
        let made = JobRecord {
            claim: self.inner.claim.clone(),
            record,
            at: self.inner.clock.now(),
        };
        tx.add_job_record(&made).await
    }

    /// Makes steps available to this run; for those of [`JobContext::record_in`], once they are
    /// committed.
    pub fn remember(&self, record: &Record) {
        let mut saved = self
            .inner
            .saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner);

        for (step, value) in &record.steps {
            saved.entry(step.clone()).or_insert_with(|| value.clone());
        }

        drop(saved);
        if !record.steps.is_empty() && !record.without_progress {
            self.note_progress();
        }
    }

    /// Notes progress that will not be repeated: the wait for a provider starts over after it.
    /// Finished steps do this automatically.
    pub fn note_progress(&self) {
        self.inner.progressed.store(true, Ordering::Relaxed);
    }

    /// The finished steps that `read` can parse.
    pub fn read_saved<T>(&self, read: impl Fn(&str, &Value) -> Option<T>) -> Vec<T> {
        let saved = self
            .inner
            .saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        saved
            .iter()
            .filter_map(|(step, value)| read(step, value))
            .collect()
    }

    /// Reports what the job is doing. Watchers see it shortly: it is written with the next record
    /// of the job, or by the runner, so that a short job does not spend its transactions on
    /// progress.
    pub fn report(&self, phase: &'static str, progress: Value) {
        let report = Report {
            phase,
            progress,
            at: self.inner.clock.now(),
        };
        self.pending().reports.push(report);
    }

    /// What could not be written is written later, unless it may have been written.
    fn put_back(&self, error: &StoreError, record: Record) {
        if !matches!(error, StoreError::Uncertain { .. }) {
            self.pending().follow(record);
        }
    }

    /// Writes what is pending immediately; `false` if the job is known to be lost.
    pub async fn write_reports(&self) -> bool {
        let _recording = self.inner.recording.lock().await;
        let (made, earlier) = self.made(Record::default());
        if earlier.is_empty() {
            return true;
        }

        match self.inner.jobs.store.add_job_record(&made).await {
            Ok(true) => self.inner.jobs.announce(),
            // The new owner of the job reports for itself.
            Ok(false) => return false,
            Err(error) => {
                tracing::debug!(job_id = %self.inner.job.id, %error, "cannot store the progress of a job; will retry");
                self.put_back(&error, earlier);
            }
        }

        true
    }

    /// What the runner writes from time to time while the work runs.
    pub(super) async fn write_meanwhile(&self) {
        self.end_wait().await;
        self.write_reports().await;
    }

    /// Records that a job made progress after waiting for a provider, so that it is known even
    /// after a crash.
    async fn end_wait(&self) {
        let inner = &*self.inner;
        if !inner.progressed.load(Ordering::Relaxed) || !inner.counts_waits.load(Ordering::Relaxed)
        {
            return;
        }

        match inner.jobs.store.end_wait(&inner.claim).await {
            Ok(()) => inner.counts_waits.store(false, Ordering::Relaxed),
            Err(error) => {
                tracing::debug!(job_id = %inner.job.id, %error, "cannot store the progress of a job; will retry");
            }
        }
    }

    /// Adds a warning that stays with the job. Watchers see it shortly, as they see progress.
    pub fn warn(&self, code: &str, message: &str) {
        let warning = json!({"code": code, "message": message});
        let mut warnings = self
            .inner
            .warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);

        // A resumed job repeats it.
        if warnings.contains(&warning) {
            return;
        }

        warnings.push(warning.clone());
        let mut pending = self.pending();
        pending.warnings = Some(warnings.clone());
        pending.events.push(("warning", warning));
    }

    /// All warnings of the job.
    fn warnings(&self) -> Vec<Value> {
        let warnings = self.inner.warnings.lock();
        warnings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Prepares to end the job. Call it before opening the transaction that ends it, because a
    /// reporter may wait for that.
    pub async fn ending(&self) -> Ended<'_> {
        let recording = self.inner.recording.lock().await;
        Ended {
            context: self,
            pending: self.take_pending(),
            _recording: recording,
        }
    }
}

impl Ended<'_> {
    /// The job does not end after all: what it did is pending again.
    pub fn give_back(self) {
        self.context.pending().follow(self.pending);
    }

    /// Ends the job inside the transaction that writes its effect: both are committed, or neither.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`]: drop the transaction. Or the store's.
    pub async fn finish(&self, tx: &mut Tx, result: Value) -> Result<(), JobError> {
        held(self.end(tx, result, &[]).await?)
    }

    /// Ends the job as [`Ended::finish`] does, sets its source, and writes its free calls, unless
    /// logs are not kept; `false`: the lease is lost, drop the transaction.
    ///
    /// # Errors
    /// The store's.
    pub async fn finish_about(
        &self,
        tx: &mut Tx,
        source_id: &str,
        result: Value,
        calls: &[LlmCall],
    ) -> Result<bool, StoreError> {
        let inner = &*self.context.inner;
        if inner.job.source_id.as_deref() != Some(source_id) {
            tx.update_job_source(&inner.claim, source_id).await?;
        }

        self.end(tx, result, calls).await
    }

    async fn end(&self, tx: &mut Tx, result: Value, calls: &[LlmCall]) -> Result<bool, StoreError> {
        let inner = &*self.context.inner;
        let mut record = Record {
            // Nobody resumes it.
            steps: Vec::new(),
            ..self.pending.clone()
        };

        let keeps_records = inner.jobs.keeps_records;
        if !(keeps_records && is_short(&record) || record.is_empty()) {
            let rest = std::mem::take(&mut record);
            if !self.context.record_in(tx, rest).await? {
                return Ok(false);
            }
        }

        let now = inner.clock.now();
        if keeps_records {
            let success = self.success(&result, record, calls.to_vec(), now);
            return tx.succeed_job(&inner.claim, success, now).await;
        }

        let ending = Ending::Succeeded { result };
        let ended = tx.end_job(&inner.claim, &ending, now).await?;
        inner.jobs.tidy(tx, &inner.claim).await?;
        Ok(ended)
    }

    fn success<'s>(
        &'s self,
        result: &'s Value,
        record: Record,
        calls: Vec<LlmCall>,
        now: Timestamp,
    ) -> Success<'s> {
        let inner = &*self.context.inner;
        let reported = self.pending.reports.last();
        let last_report = record.reports.last().map(Report::event);
        let happened = record.events.into_iter();
        let happened = happened.map(|(kind, data)| (kind, data, now));
        let batches = record.details.into_iter();

        Success {
            result,
            progress: reported.map(|report| &report.progress),
            warnings: self.context.warnings(),
            log: JobLog {
                events: last_report.into_iter().chain(happened).collect(),
                batches: batches.map(|Detail::Batch(batch)| batch).collect(),
                calls,
            },
            started_at: inner.job.started_at.unwrap_or(inner.job.created_at),
            is_untouched: inner.job.fence == FIRST_FENCE && !inner.touched.load(Ordering::Relaxed),
        }
    }
}

/// Whether a record fits into the row of its job.
fn is_short(record: &Record) -> bool {
    let plain = |detail: &Detail| matches!(detail, Detail::Batch(batch) if batch.is_plain());
    record.details.iter().all(plain) && record.details.len() + record.events.len() <= MAX_LOGGED
}

fn held(written: bool) -> Result<(), JobError> {
    if written {
        Ok(())
    } else {
        Err(JobError::LeaseLost)
    }
}
