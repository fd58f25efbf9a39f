//! Jobs that wait for input of their user.

use serde_json::Value;

use super::{Jobs, JobsError, parse};
use crate::model::call::CallContext;
use crate::model::job::{Job, JobState};
use crate::store::Tx;

impl Jobs {
    /// Queues a job whose user has provided the missing input, inside the caller's transaction;
    /// call [`Jobs::announce`] once that is committed.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it awaits no user, or the store's.
    pub async fn resume(&self, tx: &mut Tx, call: &CallContext, id: &str) -> Result<(), JobsError> {
        let found = tx.find_job(&call.space, &parse(id)?).await?;
        let job = found.ok_or_else(|| JobsError::NotFound(id.to_owned()))?;
        if job.state != JobState::AwaitingInput || !tx.requeue_job(&job, call.now).await? {
            return Err(JobsError::WrongState {
                state: job.state,
                wanted: "a job that waits for a helper",
            });
        }

        Ok(())
    }

    /// A job that awaits its user.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it awaits no user, or the store's.
    pub async fn find_waiting(&self, call: &CallContext, id: &str) -> Result<Job, JobsError> {
        check_waiting(self.find(call, id).await?)
    }

    /// A job that awaits its user, locked until the caller's transaction ends.
    ///
    /// # Errors
    /// As [`Jobs::find_waiting`].
    pub async fn hold_waiting(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        id: &str,
    ) -> Result<Job, JobsError> {
        let found = tx.find_job(&call.space, &parse(id)?).await?;
        check_waiting(found.ok_or_else(|| JobsError::NotFound(id.to_owned()))?)
    }

    /// Stores the input that a waiting job has received so far.
    ///
    /// # Errors
    /// As [`Jobs::find_waiting`].
    pub async fn update_waiting(
        &self,
        call: &CallContext,
        id: &str,
        progress: &Value,
    ) -> Result<(), JobsError> {
        let updated = self.store.retry_as("update_waiting", || async {
            let mut tx = self.store.begin().await?;
            let job = self.hold_waiting(&mut tx, call, id).await?;
            tx.update_waiting_job(&job, progress, call.now).await?;
            Ok(tx.commit().await?)
        });
        updated.await.inspect(|()| self.announce())
    }
}

fn check_waiting(job: Job) -> Result<Job, JobsError> {
    match job.state {
        JobState::AwaitingInput => Ok(job),
        state => Err(JobsError::WrongState {
            state,
            wanted: "a job that waits for a helper",
        }),
    }
}
