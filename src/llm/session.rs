//! The caller of a model and the payer: a job, a query or an API caller.
//!
//! Contains what was spent so far, so that caps are checked before a call, and every attempt for
//! the record.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::LlmError;
use super::recorded_answers::{Recalled, Record};
use crate::base::ids::{JobId, Space};
use crate::config::llm::Caps;
use crate::model::call::CallContext;
use crate::model::llm_call::{LlmCall, Payer, Spent};
use crate::store::{CallEntry, CallPart, Journal};

/// Free calls of a job that are kept until it ends; if there are more, they go to the ledger.
const MAX_KEPT: usize = 50;

/// One caller.
pub struct Session {
    pub(super) call: CallContext,
    pub(super) payer: Payer,
    /// `provider:model` for every task, instead of the configured models.
    pub(super) model: Option<String>,
    pub(super) deterministic: bool,
    /// Probes this model: no other model may answer instead, and it is called even while it is
    /// avoided.
    pub(super) probing: bool,
    caps: Caps,
    /// Where the free calls of a job go that it does not write itself.
    journal: Option<Journal>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_seq: i64,
    spent: Spent,
    /// Calls in flight, with the tokens that they are expected to send.
    under_way: Spent,
    calls: Vec<LlmCall>,
    /// Free calls of a job that the ledger does not have yet.
    kept: Vec<LlmCall>,
    /// How many of them the sums by day have counted.
    kept_counted: usize,
    /// Whether the ledger has, or will soon have, calls of this session.
    has_listed: bool,
    /// Outputs to recall instead of calling a model.
    record: Record,
}

impl Session {
    /// For an API caller without its own record.
    pub fn of_caller(call: CallContext) -> Self {
        Self::of(call, Payer::Request, Caps::default())
    }

    /// For a job; `spent` and `next_seq` continue the ledger of its earlier attempts.
    pub fn of_job(call: CallContext, id: JobId, caps: Caps, spent: Spent, next_seq: i64) -> Self {
        let session = Self::of(call, Payer::Job(id), caps);
        *session.state() = State {
            next_seq,
            spent,
            ..State::default()
        };

        session
    }

    /// Keeps free calls for the end of the job; those that it does not write go to the journal.
    pub(super) fn keeping_free_calls(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// For a query.
    pub fn of_query(call: CallContext, id: String, caps: Caps) -> Self {
        Self::of(call, Payer::Query(id), caps)
    }

    /// For a payer with its caps.
    pub fn of(call: CallContext, payer: Payer, caps: Caps) -> Self {
        Self {
            call,
            payer,
            model: None,
            deterministic: false,
            probing: false,
            caps,
            journal: None,
            state: Mutex::new(State {
                next_seq: 1,
                ..State::default()
            }),
        }
    }

    /// For a recorded replay: no model is called, and nothing is recorded.
    pub fn of_record(call: CallContext, id: String, calls: Vec<LlmCall>) -> Self {
        let session = Self::of(call, Payer::Query(id), Caps::default());
        session.state().record = Record::alone(calls);
        session
    }

    /// Resumes an interrupted attempt of the same query: its recorded outputs are not requested
    /// again.
    #[must_use]
    pub fn resuming(self, calls: Vec<LlmCall>) -> Self {
        {
            let mut state = self.state();
            state.next_seq = calls.iter().map(|call| call.seq).max().unwrap_or(0) + 1;
            state.spent = calls
                .iter()
                .fold(Spent::default(), |sum, call| sum.plus(call.spent()));
            let (record, useless) = Record::begun(calls);
            state.record = record;

            state.calls = useless;
        }
        self
    }

    /// Whether all its answers come from the record.
    pub(super) fn is_recorded(&self) -> bool {
        self.state().record.is_alone()
    }

    /// The next recorded reply for a stage, with the attempts that led to it.
    pub(super) fn recall(
        &self,
        stage: &'static str,
    ) -> (Vec<LlmCall>, Result<Option<Recalled>, LlmError>) {
        let mut held = self.state();
        let (taken, outcome) = held.record.next(stage);
        held.calls.extend(taken.iter().cloned());
        (taken, outcome)
    }

    /// Uses this model instead of the configured ones.
    #[must_use]
    pub fn with_model(mut self, model: Option<String>) -> Self {
        self.model = model;
        self
    }

    /// Requests the same output for the same input every time, as far as the model supports it.
    #[must_use]
    pub fn deterministic(mut self, yes: bool) -> Self {
        self.deterministic = yes;
        self
    }

    /// Makes it a probe of a model.
    pub(super) fn probing(mut self) -> Self {
        self.probing = true;
        self
    }

    /// The call that it belongs to. Its time is that of the beginning of the session.
    pub fn call(&self) -> &CallContext {
        &self.call
    }

    /// The space that it works in.
    pub fn space(&self) -> &Space {
        &self.call.space
    }

    /// What was spent, including earlier attempts.
    pub fn spent(&self) -> Spent {
        self.state().spent
    }

    /// Every attempt of a query or an API caller, in the order in which they began; those of a job
    /// are in the ledger.
    pub fn calls(&self) -> Vec<LlmCall> {
        let mut calls = self.state().calls.clone();
        calls.sort_by_key(|call| call.seq);
        calls
    }

    /// Takes the next number and counts the call as in flight, unless a cap is reached.
    pub(super) fn begin(&self, expected: Spent) -> Result<i64, LlmError> {
        let mut state = self.state();
        let so_far = state.spent.plus(state.under_way);
        check_cap(self.payer.kind(), &self.caps, so_far, expected)?;
        state.under_way = state.under_way.plus(expected);
        let seq = state.next_seq;

        state.next_seq += 1;
        Ok(seq)
    }

    /// Counts a finished call.
    pub(super) fn end(&self, call: LlmCall, expected: Spent) {
        let mut state = self.state();
        state.under_way = state.under_way.minus(expected);
        state.spent = state.spent.plus(call.spent());

        // A job may make thousands of calls, which are in the ledger.
        if !matches!(self.payer, Payer::Job(_)) {
            state.calls.push(call);
        }
    }

    /// Passes a finished call to the ledger, or keeps it if it is free and nothing is capped: a
    /// short text would otherwise need more space for its calls than for itself.
    pub(super) fn list(&self, journal: &Journal, call: LlmCall, may_keep: bool) {
        let may_keep = may_keep && self.journal.is_some() && self.caps.is_open() && call.is_free();
        let mut state = self.state();
        let fits = state.kept.first().is_none_or(|first| first.is_like(&call));
        if may_keep && fits {
            state.kept.push(call);
            if state.kept.len() > MAX_KEPT {
                self.list_kept(&mut state, journal);
            }

            return;
        }

        state.has_listed = true;
        drop(state);
        journal.add(self.entry(call, CallPart::Whole));
    }

    /// The free calls of a job that are to be written when it ends. From now on, the sums by day
    /// include them.
    pub fn count_kept(&self) -> Vec<LlmCall> {
        let mut state = self.state();
        if let Some(journal) = &self.journal {
            for call in &state.kept[state.kept_counted..] {
                journal.add(self.entry(call.clone(), CallPart::Sums));
            }
        }

        state.kept_counted = state.kept.len();
        state.kept.clone()
    }

    /// The job has ended, and its free calls are written.
    pub fn forget_kept(&self) {
        let mut state = self.state();
        state.kept.clear();
        state.kept_counted = 0;
    }

    /// Whether calls were passed to the ledger, which may not have written them yet.
    pub fn has_listed(&self) -> bool {
        self.state().has_listed
    }

    fn list_kept(&self, state: &mut State, journal: &Journal) {
        let counted = std::mem::take(&mut state.kept_counted);
        for (place, call) in std::mem::take(&mut state.kept).into_iter().enumerate() {
            let part = if place < counted {
                CallPart::Row
            } else {
                CallPart::Whole
            };
            journal.add(self.entry(call, part));
            state.has_listed = true;
        }
    }

    fn entry(&self, call: LlmCall, part: CallPart) -> CallEntry {
        CallEntry {
            space: self.call.space.clone(),
            payer: self.payer.clone(),
            call,
            part,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    /// What the job has not written, because it failed or was cancelled, goes to the ledger.
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            let mut state = std::mem::take(&mut *self.state());
            self.list_kept(&mut state, &journal);
        }
    }
}

/// Whether one more call fits under the caps.
pub(super) fn check_cap(
    scope: &'static str,
    caps: &Caps,
    so_far: Spent,
    expected: Spent,
) -> Result<(), LlmError> {
    let reached = |unit, limit, spent| {
        Err(LlmError::SpendCapReached {
            scope,
            unit,
            limit,
            spent,
            resets_in: None,
        })
    };

    let cap = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
    if caps.calls > 0 && so_far.calls >= cap(caps.calls) {
        return reached("calls", precise(cap(caps.calls)), precise(so_far.calls));
    }

    if caps.tokens > 0 && so_far.tokens.saturating_add(expected.tokens) > cap(caps.tokens) {
        return reached("tokens", precise(cap(caps.tokens)), precise(so_far.tokens));
    }

    if caps.usd > 0.0 && (so_far.usd >= caps.usd || so_far.usd + expected.usd > caps.usd) {
        return reached("usd", caps.usd, so_far.usd);
    }

    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown to people")]
fn precise(number: i64) -> f64 {
    number as f64
}
