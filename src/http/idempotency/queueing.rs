//! Queues a job for a request, at most once for each `Idempotency-Key`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

use super::{Begun, Idempotency, location};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::model::job::{Job, NewJob};

impl Idempotency {
    /// Queues the job, charges it to the caller's key and answers with 202 and the job as `shown`;
    /// or returns the stored response.
    pub async fn queue<B: Serialize>(
        &self,
        state: &AppState,
        caller: &Caller,
        new: &NewJob,
        shown: fn(&Job) -> B,
    ) -> Result<Response, ApiError> {
        let queued = state.store.retry_as(self.route, || async {
            let mut tx = match self.begin(&state.store, caller).await? {
                Begun::Answered(response) => return Ok(response),
                Begun::Fresh(tx) => tx,
            };

            let job = state
                .jobs
                .enqueue(&mut tx, &caller.space, new, caller.now)
                .await?;

            caller.pay_for(&mut tx, &job.id).await?;
            let later = (header::RETRY_AFTER, HeaderValue::from_static("1"));
            let headers = [location(&format!("/v1/jobs/{}", job.id))?, later];
            self.finish(tx, caller, StatusCode::ACCEPTED, headers, &shown(&job))
                .await
        });

        let response = queued.await?;
        state.jobs.announce();
        Ok(response)
    }
}
