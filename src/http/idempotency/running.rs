//! Requests with a key that take too long for a transaction: the first one runs, the others wait
//! for its response.
//!
//! No transaction and no connection is held in the meantime. If the first request fails or its
//! client disconnects, it releases the key, and exactly one of the waiting requests takes over; if
//! its process dies, that happens when its lease expires.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::{Idempotency, KEEP_SECONDS, Stored, respond, to_json};
use crate::base::clock::Timestamp;
use crate::base::ids::{Space, new_uuid};
use crate::base::problems;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::store::{IdempotentRun, RunClaim, Store};

/// How long a key stays locked after its process has died; the lease is renewed before that.
const LEASE: Duration = Duration::from_secs(30);
const RENEWAL: Duration = Duration::from_secs(10);

/// How often waiting requests check: at first, and at most. A run that ends in their own process
/// notifies them immediately.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The runs of this process; cheap to clone.
#[derive(Clone, Default)]
pub struct Runs {
    /// Notified when a run ends, for whatever reason.
    ended: Arc<Notify>,
    /// Pending writes of runs that have ended.
    writes: TaskTracker,
}

/// What a request has to do.
pub enum Turn {
    /// Nothing: another request with its key has a response.
    Answered(Response),
    /// Run.
    Mine(Run),
}

/// A running request. If it is dropped before [`Run::keep`], it releases its key.
pub struct Run {
    runs: Runs,
    store: Store,
    /// None for a request without a key, or one that is over.
    held: Option<Held>,
    /// The time of the request.
    now: Timestamp,
    /// How many erasures the space had had before it.
    erasures: i64,
}

/// A locked key.
struct Held {
    space: Space,
    key: String,
    route: &'static str,
    body_hash: String,
    owner: String,
}

impl Runs {
    /// Waits for pending writes.
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
    /// A key of the service's own for what one request at a time may do, in all processes. No header
    /// can name it, because the keys of clients have no spaces.
    pub fn alone(route: &'static str, what: &str) -> Self {
        Self {
            key: Some(format!("{route} {what}")),
            route,
            body_hash: String::new(),
        }
    }

    /// The turn to run, once no other request does; `None` if that takes longer than `patience`.
    /// For a key from [`Idempotency::alone`], which never has a response.
    pub async fn exclusive(
        &self,
        state: &AppState,
        caller: &Caller,
        patience: Duration,
    ) -> Result<Option<Run>, ApiError> {
        match self.wait_for_turn(state, caller, patience).await? {
            Some(Turn::Mine(run)) => Ok(Some(run)),
            Some(Turn::Answered(_)) | None => Ok(None),
        }
    }

    /// The turn to run, or the response of the request that ran; waits for it for at most
    /// `patience`.
    pub async fn turn(
        &self,
        state: &AppState,
        caller: &Caller,
        patience: Duration,
    ) -> Result<Turn, ApiError> {
        let turn = self.wait_for_turn(state, caller, patience).await?;
        turn.ok_or_else(still_running)
    }

    async fn wait_for_turn(
        &self,
        state: &AppState,
        caller: &Caller,
        patience: Duration,
    ) -> Result<Option<Turn>, ApiError> {
        let mut run = Run {
            runs: state.runs.clone(),
            store: state.store.clone(),
            held: None,
            now: caller.call.now,
            erasures: 0,
        };

        let Some(key) = &self.key else {
            return Ok(Some(Turn::Mine(run)));
        };
        run.erasures = state.store.count_erasures(&caller.call.space).await?;
        let held = || Held {
            space: caller.call.space.clone(),
            key: key.clone(),
            route: self.route,
            body_hash: self.body_hash.clone(),
            owner: new_uuid(),
        };

        let expired = caller.call.now.minus_seconds(KEEP_SECONDS);
        let end = Instant::now() + patience;
        let mut pause = FIRST_LOOK;

        loop {
            // Subscribes before it checks, so that a run that ends in between is noticed.
            let ended = state.runs.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();

            // Held from before the claim, so that a client that disconnects during it leaves no
            // locked key.
            let wanted = run.held.insert(held()).run();
            match state
                .store
                .claim_idempotency_run(wanted, caller.call.now, expired)
                .await?
            {
                RunClaim::Mine => return Ok(Some(Turn::Mine(run))),
                RunClaim::Answered(answer) => {
                    run.held = None;
                    // Visible as soon as it is committed, which may be before it is on disk.
                    state.store.settle().await?;
                    return Ok(Some(Turn::Answered(self.replay(&answer)?)));
                }

                RunClaim::Running(_) => run.held = None,
            }

            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }

            let _ = tokio::time::timeout(pause.min(left), ended).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }
}

impl Run {
    /// Does the work and holds the key in the meantime.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(held) = &self.held else {
            return work.await;
        };
        tokio::select! {
            result = work => result,
            never = self.renew(held) => match never {},
        }
    }

    /// Renews the lease of the key before it expires.
    async fn renew(&self, held: &Held) -> Infallible {
        loop {
            tokio::time::sleep(RENEWAL).await;
            if let Err(error) = self.store.renew_idempotency_run(held.run()).await {
                tracing::warn!(%error, "cannot extend the lease of an idempotency key");
            }
        }
    }

    /// Stores the response and returns it. A paid response is returned even if it cannot be stored,
    /// and stored even if the client disconnects now.
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
        let written = match stored.to_write(StatusCode::OK, self.now) {
            Ok(written) => written,
            Err(error) => return error.into_response(),
        };
        let (runs, store, erasures) = (self.runs.clone(), self.store.clone(), self.erasures);
        let writing = self.runs.writes.spawn(async move {
            match store
                .finish_idempotency_run(held.names(), &written, erasures)
                .await
            {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(
                        "response not stored: another request has taken over its idempotency key"
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot store the response for an idempotency key");
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

/// The response to a request that has waited long enough, or cannot wait.
pub fn still_running() -> ApiError {
    ApiError::new(
        problems::IDEMPOTENCY_KEY_IN_USE,
        "another request with this Idempotency-Key is still running",
    )
    .header(header::RETRY_AFTER, HeaderValue::from_static("2"))
}
