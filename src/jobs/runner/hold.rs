//! The leases of one process: prolonged in time, watched for loss, and those of dead processes taken over.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::base::fail_point;
use crate::base::ids::{JobId, Space};
use crate::base::metrics as names;
use crate::jobs::error::Failure;
use crate::model::job::{Job, JobState};

/// How often a process looks whether its jobs are still its own: a cancelled one stops within this time.
const LOOK: Duration = Duration::from_secs(1);

/// Why a job was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Cancelled, or taken over by another process.
    LeaseLost,
    /// The process is asked to stop.
    ShuttingDown,
}

/// The jobs that this process runs.
#[derive(Default)]
pub struct Holds(Mutex<HashMap<(Space, JobId), Hold>>);

struct Hold {
    fence: i64,
    stop: CancellationToken,
    why: Option<Stopped>,
}

impl Holds {
    pub fn add(&self, job: &Job) -> CancellationToken {
        let stop = CancellationToken::new();
        let hold = Hold { fence: job.fence, stop: stop.clone(), why: None };
        self.lock().insert((job.space.clone(), job.id.clone()), hold);
        stop
    }

    pub fn remove(&self, job: &Job) {
        self.lock().remove(&(job.space.clone(), job.id.clone()));
    }

    pub fn why_stopped(&self, job: &Job) -> Option<Stopped> {
        self.lock().get(&(job.space.clone(), job.id.clone())).and_then(|hold| hold.why)
    }

    pub fn stop_all(&self, why: Stopped) {
        for hold in self.lock().values_mut() {
            hold.stop(why);
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Stops jobs of ours that the database says are not.
    fn stop_lost(&self, held: &[crate::model::job::Claim], claimed_before: &HashMap<(Space, JobId), i64>) {
        let mut holds = self.lock();
        for (key, fence) in claimed_before {
            let still = held.iter().any(|claim| claim.space == key.0 && claim.id == key.1 && claim.fence == *fence);
            if let Some(hold) = holds.get_mut(key).filter(|hold| !still && hold.fence == *fence) {
                tracing::info!(job_id = %key.1, "job was cancelled or taken over");
                hold.stop(Stopped::LeaseLost);
            }
        }
    }

    fn snapshot(&self) -> HashMap<(Space, JobId), i64> {
        self.lock().iter().map(|(key, hold)| (key.clone(), hold.fence)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Space, JobId), Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is ours and takes over what nobody keeps; never ends.
    pub async fn keep(&self, shared: &Shared) {
        let lease = shared.jobs.settings.lease();
        let look = LOOK.min(lease / 4);
        let mut renewed = Instant::now();
        let mut swept: Option<Instant> = None;
        loop {
            tokio::time::sleep(look).await;
            if self.is_empty() {
                renewed = Instant::now();
            } else {
                fail_point::hit("in_heartbeat");
                // Taken before the look: a job claimed meanwhile is not in the answer, and not lost.
                let before = self.snapshot();
                match shared.store().list_claims(&shared.owner).await {
                    Ok(held) => self.stop_lost(&held, &before),
                    Err(error) => tracing::warn!(%error, "leases could not be checked"),
                }
                if renewed.elapsed() >= lease / 4 {
                    let ids: Vec<JobId> = before.into_keys().map(|(_, id)| id).collect();
                    match shared.store().renew_leases(&shared.owner, &ids, lease).await {
                        Ok(()) => renewed = Instant::now(),
                        Err(error) => tracing::warn!(%error, "leases could not be prolonged"),
                    }
                }
            }
            if swept.is_none_or(|swept| swept.elapsed() >= lease / 4) {
                swept = Some(Instant::now());
                rescue(shared).await;
            }
        }
    }
}

impl Hold {
    fn stop(&mut self, why: Stopped) {
        self.why.get_or_insert(why);
        self.stop.cancel();
    }
}

/// Takes over the jobs of processes that have died.
async fn rescue(shared: &Shared) {
    let error = Failure::lease_expired().problem("");
    match shared.store().rescue_jobs(&error, shared.clock.now()).await {
        Ok(rescued) => {
            for job in &rescued {
                tracing::warn!(job_id = %job.id, kind = job.kind, state = job.state.as_str(), "job taken over");
                metrics::counter!(names::JOBS_RESCUED_TOTAL, "kind" => job.kind.clone()).increment(1);
                if job.state == JobState::Failed {
                    metrics::counter!(names::JOBS_FAILED_TOTAL, "kind" => job.kind.clone()).increment(1);
                }
            }
            if !rescued.is_empty() {
                shared.jobs.announce();
            }
        }
        Err(error) => tracing::warn!(%error, "lost jobs could not be taken over"),
    }
}
