//! Runs in progress: composing or sending a prompt. They exist in memory only, so that nothing of a
//! prompt is stored, and any of them can be cancelled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strum::IntoStaticStr;
use tokio_util::sync::CancellationToken;

use super::WorkbenchError;
use crate::base::clock::Timestamp;
use crate::base::ids::{RunId, Space};
use crate::model::call::CallContext;

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunKind {
    Compose,
    Send,
    /// A streamed query.
    Query,
}

/// The runs of this process; cheap to clone.
#[derive(Clone, Default)]
pub struct PromptRuns {
    running: Arc<Mutex<HashMap<(Space, RunId), Entry>>>,
}

struct Entry {
    kind: RunKind,
    started_at: Timestamp,
    cancelled: CancellationToken,
}

/// A run that was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelledRun {
    pub id: RunId,
    pub kind: RunKind,
    pub started_at: Timestamp,
}

/// A run in progress; it ends when this is dropped.
pub struct PromptRun {
    pub id: RunId,
    pub space: Space,
    cancelled: CancellationToken,
    runs: PromptRuns,
}

impl PromptRuns {
    /// Begins a run. The caller may choose the id, to be able to cancel before the response.
    ///
    /// # Errors [`WorkbenchError::Invalid`] if the id is not a UUID, [`WorkbenchError::RunExists`].
    pub fn begin(
        &self,
        call: &CallContext,
        id: Option<&str>,
        kind: RunKind,
    ) -> Result<PromptRun, WorkbenchError> {
        let id = match id {
            Some(id) => id
                .parse()
                .map_err(|_| WorkbenchError::invalid("run_id", "must be a UUID"))?,
            None => RunId::new(),
        };

        let key = (call.space.clone(), id.clone());
        let mut running = self.running();
        if running.contains_key(&key) {
            return Err(WorkbenchError::RunExists(id));
        }

        let cancelled = CancellationToken::new();
        let entry = Entry {
            kind,
            started_at: call.now,
            cancelled: cancelled.clone(),
        };
        running.insert(key, entry);
        Ok(PromptRun {
            id,
            space: call.space.clone(),
            cancelled,
            runs: self.clone(),
        })
    }

    /// Cancels a run of this space.
    ///
    /// # Errors
    /// [`WorkbenchError::NoRun`].
    pub fn cancel(&self, call: &CallContext, id: &str) -> Result<CancelledRun, WorkbenchError> {
        let unknown = || WorkbenchError::NoRun(id.chars().take(100).collect());
        let id: RunId = id.parse().map_err(|_| unknown())?;
        let running = self.running();
        let entry = running
            .get(&(call.space.clone(), id.clone()))
            .ok_or_else(unknown)?;
        entry.cancelled.cancel();

        Ok(CancelledRun {
            id,
            kind: entry.kind,
            started_at: entry.started_at,
        })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<(Space, RunId), Entry>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PromptRun {
    /// Does the work unless the run is cancelled first. Then the work is dropped at once, and with
    /// it every connection that it holds.
    ///
    /// # Errors
    /// [`WorkbenchError::Cancelled`], or the error of the work.
    pub async fn unless_cancelled<T, E: From<WorkbenchError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(WorkbenchError::Cancelled(self.id.clone()).into()),
            done = work => done,
        }
    }

    /// Resolves when the run is cancelled, for work that must end itself, such as a stream.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}

impl Drop for PromptRun {
    fn drop(&mut self) {
        let key = (self.space.clone(), self.id.clone());
        self.runs.running().remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_in(space: &str) -> CallContext {
        CallContext::new(space.parse().unwrap(), Timestamp::from_micros(1))
    }

    #[tokio::test]
    async fn a_cancelled_run_drops_its_work_and_frees_its_id() {
        let (runs, call) = (PromptRuns::default(), call_in("default"));
        let run = runs.begin(&call, None, RunKind::Send).unwrap();
        let id = run.id.to_string();
        let again = runs.begin(&call, Some(&id), RunKind::Compose);
        assert!(matches!(again, Err(WorkbenchError::RunExists(_))));

        assert!(runs.cancel(&call_in("other"), &id).is_err());

        let cancelled = runs.cancel(&call, &id).unwrap();
        assert_eq!(cancelled.kind, RunKind::Send);
        let work = std::future::pending::<Result<(), WorkbenchError>>();
        let ended = run.unless_cancelled(work).await;
        assert!(matches!(ended, Err(WorkbenchError::Cancelled(_))));

        drop(run);
        assert!(runs.cancel(&call, &id).is_err());
        assert!(runs.begin(&call, Some(&id), RunKind::Compose).is_ok());
        assert!(runs.begin(&call, Some("x"), RunKind::Compose).is_err());
    }
}
