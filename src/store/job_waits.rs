//! Jobs that wait for a provider: hand back, wake up, and note progress.

use super::job_claims::bind_claim;
use super::rows::Stored as _;
use super::{Store, StoreError};
use crate::model::job::{Claim, WAITING_FOR_PROVIDER};

/// How many waiting jobs one transaction wakes up.
const WOKEN_AT_ONCE: usize = 100;

impl Store {
    /// Makes jobs that wait for a provider runnable now; returns how many.
    pub async fn wake_waiting_jobs(&self) -> Result<u64, StoreError> {
        let waiting = "SELECT space, id, fence FROM jobs WHERE state = 'queued' AND finished_at IS NULL AND phase = ? AND run_after > @now \
                       ORDER BY space, id";
        let waiting = self
            .fetch_all(self.sql(waiting).bind(WAITING_FOR_PROVIDER))
            .await?;
        let waiting: Vec<Claim> = waiting.iter().map(Claim::read).collect::<Result<_, _>>()?;
        let mut woken = 0;

        // A few at a time, so that claims need not wait.
        for some in waiting.chunks(WOKEN_AT_ONCE) {
            woken += self
                .retry("wake_waiting_jobs", || async {
                    let mut tx = self.begin().await?;
                    let mut woken = 0;
                    for claim in some {
                        let update = "UPDATE jobs SET run_after = @now \
                                      WHERE space = ? AND id = ? AND fence = ? AND state = 'queued'";
                        woken += tx.execute(bind_claim(tx.sql(update), claim)).await?;
                    }

                    tx.commit().await?;
                    Ok(woken)
                })
                .await?;
        }

        Ok(woken)
    }

    /// Notes that a running job made progress after waiting for a provider.
    pub async fn end_wait(&self, claim: &Claim) -> Result<(), StoreError> {
        self.retry("end_wait", || async {
            let update = "UPDATE jobs SET waiting_since = NULL, waits = 0 \
                          WHERE space = ? AND id = ? AND fence = ? AND state = 'running'";
            let mut tx = self.begin().await?;
            tx.execute(bind_claim(tx.sql(update), claim)).await?;
            tx.commit().await
        })
        .await
    }
}
