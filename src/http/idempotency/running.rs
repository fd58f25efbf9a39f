//! Requests with a key whose work takes too long for a transaction: the first runs, the others wait
//! for its answer.
//!
//! No transaction and no connection is held meanwhile. If the first fails, or its client hangs up,
//! it gives the key up, and exactly one of those that wait takes over; if its process dies, that
//! happens when its lease ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{Idempotency, KEEP_SECONDS, Stored, respond, to_json};
use crate::base::ids::{Space, new_uuid};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::store::{IdempotentRun, RunClaim, Store};

/// How long a key stays taken after its process has died, and how often it is taken anew until
/// then.
const LEASE: Duration = Duration::from_secs(30);
const RENEWAL: Duration = Duration::from_secs(10);

/// How often those that wait look: at first, and at the most. An end in their own process is told
/// to them at once.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The runs of this process; cheap to clone.
#[derive(Clone, Default)]
pub struct Runs {
    /// Told when one ends, however it does.
    ended: Arc<Notify>,
    /// What is still to be written about those that have ended.
    writes: TaskTracker,
}

/// What a request has to do.
pub enum Turn {
    /// Nothing: another one with its key was answered.
    Answered(Response),
    /// Run.
    Mine(Run),
}

/// A request that runs. Dropped before [`Run::keep`], it gives its key up.
pub struct Run {
    runs: Runs,
    store: Store,
    /// Nothing for a request without a key, or one that is over.
    held: Option<Held>,
}

/// A key that is taken.
struct Held {
    space: Space,
    key: String,
    route: &'static str,
    body_hash: String,
    owner: String,
}

impl Runs {
    /// Waits for what is still to be written.
    pub async fn close(&self) {
        self.writes.close();
        self.writes.wait().await;
    }
}

impl Held {
    fn run(&self) -> IdempotentRun<'_> {
        let Self {
            space,
            key,
            route,
            body_hash,
            owner,
        } = self;
        IdempotentRun {
            space,
            key,
            route,
            body_hash,
            owner,
            lease: LEASE,
        }
    }

    fn names(&self) -> (&Space, &str, &str) {
        (&self.space, &self.key, &self.owner)
    }
}

impl Idempotency {
    /// The turn to run, or the answer of the request that ran; waits for it as long as `patience`
    /// lasts.
    pub async fn turn(
        &self,
        state: &AppState,
        caller: &Caller,
        patience: Duration,
    ) -> Result<Turn, ApiError> {
        let mut run = Run {
            runs: state.runs.clone(),
            store: state.store.clone(),
            held: None,
        };

        let Some(key) = &self.key else {
            return Ok(Turn::Mine(run));
        };
        let held = || Held {
            space: caller.space.clone(),
            key: key.clone(),
            route: self.route,
            body_hash: self.body_hash.clone(),
            owner: new_uuid(),
        };

        let expired = caller.now.minus_seconds(KEEP_SECONDS);
        let end = Instant::now() + patience;
        let mut pause = FIRST_LOOK;

        loop {
            // Listens before it looks: what ends in between is noticed.
            let ended = state.runs.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();

            // Held from before the claim: a client that hangs up during it leaves nothing taken.
            let wanted = run.held.insert(held()).run();
            match state
                .store
                .claim_idempotency_run(wanted, caller.now, expired)
                .await?
            {
                RunClaim::Mine => return Ok(Turn::Mine(run)),
                RunClaim::Answered(answer) => {
                    run.held = None;
                    // Seen as soon as it is committed, which may be before it is on the disk.
                    state.store.settle().await?;
                    return Ok(Turn::Answered(self.replay(&answer)?));
                }

                RunClaim::Running(_) => run.held = None,
            }

            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(still_running());
            }

            let _ = tokio::time::timeout(pause.min(left), ended).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }
}

impl Run {
    /// Does the work, and holds the key meanwhile.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(held) = &self.held else {
            return work.await;
        };
        tokio::select! {
            result = work => result,
            never = self.renew(held) => match never {},
        }
    }

    /// Takes the key anew each time before its lease ends.
    async fn renew(&self, held: &Held) -> Infallible {
        loop {
            tokio::time::sleep(RENEWAL).await;
            if let Err(error) = self.store.renew_idempotency_run(held.run()).await {
                tracing::warn!(%error, "cannot extend the lease of an idempotency key");
            }
        }
    }

    /// Stores the answer, and gives it. A paid answer is given even where it cannot be stored, and
    /// stored even if the client hangs up now.
    pub async fn keep(mut self, body: &impl Serialize) -> Response {
        let Some(held) = self.held.take() else {
            return axum::Json(body).into_response();
        };
        let stored = match to_json(body) {
            Ok(body) => Stored {
                headers: Vec::new(),
                body,
            },
            Err(error) => return error.into_response(),
        };

        let response = respond(StatusCode::OK, &stored);
        let (runs, store) = (self.runs.clone(), self.store.clone());
        let writing = self.runs.writes.spawn(async move {
            let json = serde_json::to_string(&stored).unwrap_or_default();
            match store
                .finish_idempotency_run(held.names(), StatusCode::OK.as_u16(), &json)
                .await
            {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(
                        "response not stored: another request has taken over its idempotency key"
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot store the response for an idempotency key")
                }
            }

            runs.ended.notify_waiters();
        });

        let _ = writing.await;
        response
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let (runs, store) = (self.runs.clone(), self.store.clone());
        self.runs.writes.spawn(async move {
            if let Err(error) = store.remove_idempotency_run(held.names()).await {
                tracing::warn!(%error, "cannot release the idempotency key of an unfinished request; its lease will \
                     expire");
            }
            runs.ended.notify_waiters();
        });
    }
}

/// The answer to one that has waited long enough, or cannot wait.
pub fn still_running() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "idempotency_key_in_use",
        "Idempotency key in use",
        "another request with this Idempotency-Key is still running",
    )
    .fix("Repeat the request with the same key and body to get its response.")
    .header(header::RETRY_AFTER, HeaderValue::from_static("2"))
}
