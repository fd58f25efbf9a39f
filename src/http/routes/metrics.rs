//! Metrics in the Prometheus text format.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::http::auth::Admin;
use crate::http::state::AppState;

/// Metrics for Prometheus
///
/// Counters and histograms of this process. Wants an admin key where keys are configured.
#[utoipa::path(
    get, path = "/metrics", tag = "system", operation_id = "get_metrics",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"))
)]
pub async fn get_metrics(_: Admin, State(state): State<AppState>) -> impl IntoResponse {
    let text = (state.settings.render_metrics)();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
