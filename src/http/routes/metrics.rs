//! Metrics in the Prometheus text format.

use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::base::metrics as names;
use crate::http::auth::AdminOfAll;
use crate::http::state::AppState;
use crate::model::job::JobState;

const PATIENCE: Duration = Duration::from_secs(2);

/// Get Prometheus metrics
///
/// Returns counters and histograms of this process for all spaces. The key must be an admin key for
/// all spaces (`*`).
#[utoipa::path(
    get, path = "/metrics", tag = "system", operation_id = "get_metrics",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"))
)]
pub async fn get_metrics(_: AdminOfAll, State(state): State<AppState>) -> impl IntoResponse {
    record_queue(&state).await;
    let text = (state.settings.render_metrics)();
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
}

/// The queue is shared by all processes, so it is counted on each request.
async fn record_queue(state: &AppState) {
    // An unreachable database must not hide the other metrics.
    let Ok(Ok(depth)) = tokio::time::timeout(PATIENCE, state.jobs.queue_depth()).await else {
        return;
    };
    for kind in [JobState::Queued, JobState::Running, JobState::AwaitingInput] {
        let count = depth
            .by_state
            .iter()
            .find(|(state, _)| *state == kind)
            .map_or(0, |(_, count)| *count);
        metrics::gauge!(names::JOBS_QUEUE_DEPTH, "state" => kind.into_str()).set(to_f64(count));
    }

    let age = depth.oldest_queued.map_or(0, |oldest| {
        state.clock.now().as_micros() - oldest.as_micros()
    });
    metrics::gauge!(names::JOBS_OLDEST_QUEUED_SECONDS).set(to_f64(age.max(0)) / 1e6);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn to_f64(count: i64) -> f64 {
    count as f64
}
