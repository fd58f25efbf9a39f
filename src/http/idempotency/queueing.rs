//! Queues the jobs of a request, at most once for each `Idempotency-Key`.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
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
        let new = std::slice::from_ref(new);
        let answer = |jobs: &[Job]| {
            let job = jobs
                .first()
                .ok_or_else(|| ApiError::internal("no job was queued"))?;
            Ok((Some(location(&format!("/v1/jobs/{}", job.id))?), shown(job)))
        };
        self.queue_and(state, caller, new, answer).await
    }

    /// Queues several jobs, all or none, in one transaction; the response has no `Location`.
    pub async fn queue_all<B: Serialize>(
        &self,
        state: &AppState,
        caller: &Caller,
        new: &[NewJob],
        shown: fn(&[Job]) -> B,
    ) -> Result<Response, ApiError> {
        self.queue_and(state, caller, new, |jobs| Ok((None, shown(jobs))))
            .await
    }

    async fn queue_and<B: Serialize>(
        &self,
        state: &AppState,
        caller: &Caller,
        new: &[NewJob],
        answer: impl Fn(&[Job]) -> Result<(Option<(HeaderName, HeaderValue)>, B), ApiError>,
    ) -> Result<Response, ApiError> {
        let queued = state.store.retry_as(self.route, || async {
            let mut tx = match self.begin(&state.store, caller).await? {
                Begun::Answered(response) => return Ok(response),
                Begun::Fresh(tx) => tx,
            };

            let jobs = state.jobs.enqueue_all(&mut tx, &caller.call, new).await?;

            let (place, body) = answer(&jobs)?;
            let later = (header::RETRY_AFTER, HeaderValue::from_static("1"));
            let headers = place.into_iter().chain([later]);
            self.finish(tx, caller, StatusCode::ACCEPTED, headers, &body)
                .await
        });

        let response = queued.await?;
        state.jobs.announce();
        Ok(response)
    }
}
