//! The leases of one process: renewed in time, checked for loss, and those of dead processes taken
//! over.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::ending::RunEnd;
use crate::base::fail_point::fail_point;
use crate::base::ids::JobId;
use crate::base::metrics as names;
use crate::jobs::error::Failure;
use crate::model::job::{Claim, Job, JobState};

/// How often a process checks whether it still owns its jobs: a cancelled one stops within this
/// time.
const LOOK: Duration = Duration::from_secs(1);

/// Why a run has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Cancelled, or taken over by another process.
    LeaseLost,
    /// The process must stop.
    ShuttingDown,
}

/// The jobs that this process runs. By claim, not by job: a job that was cancelled and retried may
/// be claimed again before its old run has ended.
#[derive(Default)]
pub struct Holds(Mutex<HashMap<Claim, Hold>>);

struct Hold {
    stop: CancellationToken,
    why: Option<Stopped>,
}

impl Holds {
    pub fn add(&self, claim: &Claim) -> CancellationToken {
        let stop = CancellationToken::new();
        self.lock().insert(
            claim.clone(),
            Hold {
                stop: stop.clone(),
                why: None,
            },
        );

        stop
    }

    pub fn remove(&self, claim: &Claim) {
        self.lock().remove(claim);
    }

    pub fn why_stopped(&self, claim: &Claim) -> Option<Stopped> {
        self.lock().get(claim).and_then(|hold| hold.why)
    }

    pub fn stop_all(&self, why: Stopped) {
        for hold in self.lock().values_mut() {
            hold.stop(why);
        }
    }

    /// Stops runs that the database says have ended.
    fn stop_lost(&self, ours: &[Claim], held: &[Claim]) {
        let mut holds = self.lock();
        for claim in ours.iter().filter(|claim| !held.contains(claim)) {
            if let Some(hold) = holds.get_mut(claim) {
                tracing::info!(job_id = %claim.id, "job was cancelled or taken over");
                hold.stop(Stopped::LeaseLost);
            }
        }
    }

    fn claims(&self) -> Vec<Claim> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Claim, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews our leases and takes over expired ones; never ends.
    pub async fn keep(&self, shared: &Shared) {
        let lease = shared.jobs.settings.lease();
        let look = LOOK.min(lease / 4);
        let mut renewed = Instant::now();
        let mut swept: Option<Instant> = None;

        loop {
            tokio::time::sleep(look).await;
            // Taken before the request: a job claimed meanwhile is missing from the answer, but not
            // lost.
            let ours = self.claims();
            if ours.is_empty() {
                renewed = Instant::now();
            } else {
                fail_point!("in_heartbeat");
                match shared.store().list_claims(&shared.owner).await {
                    Ok(held) => self.stop_lost(&ours, &held),
                    Err(error) => tracing::warn!(%error, "cannot check leases"),
                }

                if renewed.elapsed() >= lease / 4 {
                    // Counted from before the request, so that the lease cannot expire earlier than
                    // we think.
                    let asked = Instant::now();
                    let ids: Vec<JobId> = ours.into_iter().map(|claim| claim.id).collect();
                    match shared
                        .store()
                        .renew_leases(&shared.owner, &ids, lease)
                        .await
                    {
                        Ok(()) => renewed = asked,
                        Err(error) => tracing::warn!(%error, "cannot extend leases"),
                    }
                }

                if renewed.elapsed() >= lease {
                    // Another process may run them by now, and pay for it.
                    self.stop_all(Stopped::LeaseLost);
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
    let max_losses = i64::try_from(shared.jobs.settings.max_losses).unwrap_or(i64::MAX);
    let error = |job: &Job| {
        let failure = match job.state {
            JobState::Failed => Failure::workers_lost(job.losses),
            _ => Failure::worker_lost(),
        };
        failure.problem(job.id.as_str())
    };

    match shared
        .store()
        .rescue_jobs(
            max_losses,
            shared.jobs.keeps_records,
            error,
            shared.clock.now(),
        )
        .await
    {
        Ok(rescued) => {
            for job in &rescued {
                let (state, losses) = (job.state.into_str(), job.losses);
                tracing::warn!(job_id = %job.id, kind = job.kind, state, losses, "job taken over");
                metrics::counter!(names::JOBS_RESCUED_TOTAL, "kind" => job.kind.clone())
                    .increment(1);

                if job.state == JobState::Failed {
                    RunEnd::Failed.count(&job.kind);
                }
            }
            if !rescued.is_empty() {
                shared.jobs.announce();
            }
        }
        Err(error) => tracing::warn!(%error, "cannot take over lost jobs"),
    }
}
