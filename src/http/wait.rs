//! Waiting for a job inside a request: how long, and not during shutdown.

use std::time::Duration;

use super::auth::Caller;
use super::error::ApiError;
use super::state::AppState;
use crate::model::job::Job;

/// The longest and the default wait, in seconds.
const MAX_SECONDS: f64 = 600.0;
const DEFAULT_SECONDS: f64 = 60.0;

/// Whether to wait, and for how long.
pub fn patience(wait: Option<bool>, timeout_s: Option<f64>) -> Result<(bool, Duration), ApiError> {
    let seconds = timeout_s.unwrap_or(DEFAULT_SECONDS);
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid_field(
            "timeout_s",
            format!("must be a number of seconds from 0 to {MAX_SECONDS}"),
        ));
    }

    Ok((wait.unwrap_or(false), Duration::from_secs_f64(seconds)))
}

/// Returns the job once it is over or waits for a helper; or its current state when the timeout
/// ends or the service stops.
pub async fn for_job(
    state: &AppState,
    caller: &Caller,
    id: &str,
    patience: Duration,
) -> Result<Job, ApiError> {
    Ok(tokio::select! {
        job = state.jobs.wait(&caller.call, id, patience) => job?,
        () = state.stop.cancelled(), if !patience.is_zero() => state.jobs.find(&caller.call, id).await?,
    })
}
