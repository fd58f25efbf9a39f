//! Claims jobs, runs them, renews their leases, and hands them back on shutdown.

mod ending;
mod leases;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Failure;
use super::{JobContext, JobError, Jobs, Outcome, Work};
use crate::base::clock::Clock;
use crate::base::fail_point::fail_point;
use crate::base::ids;
use crate::model::job::{ClaimedJob, FIRST_FENCE};
use crate::store::{Store, count_retries};
use leases::{Holds, Stopped};
use waiting::Waited;

/// How often an idle process polls for jobs that another one has queued.
const LOOK_FOR_WORK: Duration = Duration::from_millis(500);
/// How long progress may stay unwritten while the job itself writes nothing.
const REPORTS: Duration = Duration::from_millis(250);
/// How long progress of jobs that run in a group may stay unwritten: each takes moments, and most
/// end before anything about them is written.
const REPORTS_OF_GROUP: Duration = Duration::from_secs(1);
/// How long handing back jobs may take on shutdown.
const HAND_BACK: Duration = Duration::from_secs(3);
/// The pause after the database was unreachable.
const LEAVE_ALONE: Duration = Duration::from_secs(1);

/// Runs the jobs of one process.
pub struct Runner {
    shared: Arc<Shared>,
}

struct Shared {
    jobs: Jobs,
    clock: Arc<dyn Clock>,
    work: HashMap<&'static str, Arc<dyn Work>>,
    /// The id of this process among all that share the database.
    owner: String,
    holds: Holds,
    /// Changes whenever a provider recovers.
    recovered: watch::Receiver<u64>,
}

impl Runner {
    /// A runner for the kinds of work registered here. Jobs that wait for a provider are retried
    /// immediately when `recovered` changes.
    #[must_use]
    pub fn new(
        jobs: Jobs,
        clock: Arc<dyn Clock>,
        work: Vec<Arc<dyn Work>>,
        recovered: watch::Receiver<u64>,
    ) -> Self {
        let work = work.into_iter().map(|work| (work.kind(), work)).collect();
        let shared = Shared {
            jobs,
            clock,
            work,
            owner: ids::new_uuid(),
            holds: Holds::default(),
            recovered,
        };

        Self {
            shared: Arc::new(shared),
        }
    }

    /// Runs jobs until `stop`; then claims no more, gives running ones `grace` to finish, and hands
    /// back the rest.
    pub async fn run(self, stop: CancellationToken, grace: Duration) {
        let shared = self.shared;
        let running = TaskTracker::new();
        let claiming = claim_until_stopped(&shared, &running, &stop);
        let keeping = shared.holds.keep(&shared);
        tokio::pin!(keeping);
        tokio::select! { () = claiming => {}, () = &mut keeping => {}, () = shared.wake_waiting() => {} }

        running.close();
        let finishing = async {
            if tokio::time::timeout(grace, running.wait()).await.is_err() {
                fail_point!("in_shutdown");
                shared.holds.stop_all(Stopped::ShuttingDown);

                // If the database is unreachable, they cannot be handed back; their leases will
                // expire.
                let _ = tokio::time::timeout(HAND_BACK, running.wait()).await;
            }
        };

        tokio::select! { () = finishing => {}, () = keeping => {} }
    }
}

/// Fills free workers with jobs.
async fn claim_until_stopped(
    shared: &Arc<Shared>,
    running: &TaskTracker,
    stop: &CancellationToken,
) {
    let workers = usize::try_from(shared.jobs.settings.workers).unwrap_or(Semaphore::MAX_PERMITS);
    let places = Arc::new(Semaphore::new(workers));
    let kinds: Vec<&'static str> = shared.work.keys().copied().collect();
    if kinds.is_empty() || workers == 0 {
        stop.cancelled().await;
        return;
    }

    let mut changed = shared.jobs.changed.subscribe();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return,
            place = Arc::clone(&places).acquire_owned() => place,
        };

        let Ok(first) = first else { return };
        let mut free = vec![first];
        while let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            free.push(place);
        }

        changed.mark_unchanged();
        let lease = shared.jobs.settings.lease();
        let claiming = shared.jobs.store.claim_jobs(
            &kinds,
            &shared.owner,
            lease,
            free.len(),
            shared.clock.now(),
        );

        let claimed = tokio::select! {
            claimed = claiming => claimed,
            // A shutdown does not wait for an unreachable database; what may have been claimed
            // expires.
            () = async { stop.cancelled().await; tokio::time::sleep(HAND_BACK).await } => return,
        };

        let pause = match claimed {
            Ok(groups) if groups.is_empty() => LOOK_FOR_WORK,
            Ok(groups) => {
                fail_point!("after_claim");
                for (group, place) in groups.into_iter().zip(free.drain(..)) {
                    // Free for others once the whole group has ended.
                    let place = Arc::new(place);
                    let reports = if group.len() > 1 {
                        REPORTS_OF_GROUP
                    } else {
                        REPORTS
                    };

                    for job in group {
                        let (shared, place) = (Arc::clone(shared), Arc::clone(&place));
                        running.spawn(async move { shared.attend(job, place, reports).await });
                    }
                }

                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot claim a job");
                LEAVE_ALONE
            }
        };

        drop(free);
        tokio::select! {
            () = stop.cancelled() => return,
            _ = changed.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl Shared {
    fn store(&self) -> &Store {
        &self.jobs.store
    }

    /// Runs one job from its claim to its end; its progress is written every `reports`.
    async fn attend(
        self: Arc<Self>,
        claimed: ClaimedJob,
        place: Arc<OwnedSemaphorePermit>,
        reports: Duration,
    ) {
        let retries = Arc::<AtomicI64>::default();
        count_retries(
            Arc::clone(&retries),
            self.attend_counted(claimed, place, (retries, reports)),
        )
        .await;
    }

    async fn attend_counted(
        self: Arc<Self>,
        claimed: ClaimedJob,
        place: Arc<OwnedSemaphorePermit>,
        (retries, reports): (Arc<AtomicI64>, Duration),
    ) {
        let job = claimed.job.clone();
        let claim = job.claim();
        let stop = self.holds.add(&claim);
        let began = std::time::Instant::now();
        let (kind, job_id, attempt) = (job.kind.as_str(), &job.id, job.attempt);

        tracing::info!(%job_id, kind, attempt, "job started");
        let (waited, progressed) = (claimed.waited, Arc::<AtomicBool>::default());
        let outcome = self
            .run_work(claimed, &stop, (&retries, reports), &progressed)
            .await;
        if matches!(outcome, Err(JobError::Away)) {
            // The next run resumes here.
            retries.fetch_add(1, Ordering::Relaxed);
        }

        let waited = Waited::before(
            &job,
            waited,
            began.elapsed(),
            progressed.load(Ordering::Relaxed),
        );

        let outcome = self.end(&job, &claim, outcome, waited).await;
        self.holds.remove(&claim);
        drop(place);
        self.jobs.announce();
        let ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;

        tracing::info!(%job_id, kind, attempt, outcome = outcome.into_str(), ms, "job released");
    }

    /// Runs the work in its own task, so that a panic or a stop ends only that.
    async fn run_work(
        self: &Arc<Self>,
        claimed: ClaimedJob,
        stop: &CancellationToken,
        (retries, reports): (&Arc<AtomicI64>, Duration),
        progressed: &Arc<AtomicBool>,
    ) -> Result<Outcome, JobError> {
        let job = &claimed.job.clone();
        let Some(work) = self.work.get(job.kind.as_str()).cloned() else {
            return Err(JobError::Interrupted);
        };

        // On the first run, nothing is saved.
        let saved = match job.fence {
            FIRST_FENCE => HashMap::new(),
            _ => self.store().list_checkpoints(&job.space, &job.id).await?,
        };

        let context = JobContext::new(
            self.jobs.clone(),
            Arc::clone(&self.clock),
            claimed,
            saved,
            Arc::clone(progressed),
        );

        #[expect(clippy::disallowed_methods, reason = "awaited or aborted below")]
        let mut task = tokio::spawn(count_retries(
            Arc::clone(retries),
            work.run(context.clone()),
        ));

        let ended = loop {
            tokio::select! {
                done = &mut task => break done.unwrap_or_else(|panic| {
                    tracing::error!(job_id = %job.id, kind = job.kind, panicked = panic.is_panic(), "job panicked");
                    Err(JobError::retry(Failure::panicked()))
                }),
                () = stop.cancelled() => {
                    task.abort();
                    let _ = task.await;
                    break Err(match self.holds.why_stopped(&job.claim()) {
                        Some(Stopped::ShuttingDown) => JobError::Interrupted,
                        _ => JobError::LeaseLost,
                    });
                }
                // Completed even if the work ends meanwhile: reports taken for writing exist
                // nowhere else.
                () = tokio::time::sleep(reports) => {
                    tokio::select! { () = context.write_meanwhile() => {}, () = stop.cancelled() => {} }
                }
            }
        };

        if !matches!(
            ended,
            Err(JobError::LeaseLost | JobError::Interrupted | JobError::Away)
        ) {
            context.write_reports().await;
        }

        ended
    }
}
