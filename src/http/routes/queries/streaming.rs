//! A query whose steps are sent while they happen.

use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::receipts::QueryLevelResponse;
use crate::base::ids::QueryId;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::event_stream::{self, event};
use crate::http::idempotency::{Idempotency, Turn};
use crate::http::state::AppState;
use crate::llm::Written;
use crate::queries::{Events, QueryEvent, QuerySettings};
use crate::workbench::runs::RunKind;

/// Bytes of an earlier answer that is sent again.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Runs a query and sends its events.
pub async fn stream(
    state: &AppState,
    caller: &Caller,
    request_id: &str,
    idempotency: &Idempotency,
    ask: QuerySettings,
) -> Result<Response, ApiError> {
    let run = if state.queries.receipts().are_stored() {
        match idempotency
            .turn(state, caller, Duration::from_secs(ask.timeout_s))
            .await?
        {
            Turn::Answered(response) => return earlier(response).await,
            Turn::Mine(run) => Some(run),
        }
    } else {
        match idempotency.answered(&state.store, caller).await? {
            Some(response) => return earlier(response).await,
            None => None,
        }
    };

    let (id, request_id) = (QueryId::new(), request_id.to_owned());
    let first = event("started", &json!({"id": id.as_str()}));
    let running = state
        .workbench
        .runs()
        .begin(&caller.call, Some(id.as_str()), RunKind::Query)?;
    let (queries, call) = (state.queries.clone(), caller.call.clone());
    let (events, steps) = Events::channel();
    let work = async move {
        let answering = Box::pin(async {
            let answering = Box::pin(queries.answer_streaming(id, &call, &ask, &events));
            let outcome = match &run {
                Some(run) => run.during(answering).await,
                None => answering.await,
            };
            outcome.map_err(ApiError::from)
        });

        match running.unless_cancelled(answering).await {
            Ok(result) => {
                let last = event("result", &result);
                if let Some(run) = run {
                    run.keep(&result).await;
                }
                last
            }
            Err(error) => event_stream::problem(&error, &request_id),
        }
    };

    Ok(event_stream::respond(
        Some(first),
        steps,
        show,
        Box::pin(work),
    ))
}

fn show(step: QueryEvent) -> Event {
    match step {
        QueryEvent::Tier(tier) => event("tier", &tier),
        QueryEvent::Level(level) => event("level", &QueryLevelResponse::from(level)),
        QueryEvent::Answer(Written::Piece(text)) => event("answer", &json!({ "text": text })),
        QueryEvent::Answer(Written::Restarted) => event("answer_restarted", &json!({})),
    }
}

/// An earlier answer to the same key, as events.
async fn earlier(response: Response) -> Result<Response, ApiError> {
    let bytes = axum::body::to_bytes(response.into_body(), MAX_BYTES)
        .await
        .map_err(|error| ApiError::internal(error.to_string()))?;
    let result: Value =
        serde_json::from_slice(&bytes).map_err(|error| ApiError::internal(error.to_string()))?;

    let first = event("started", &json!({"id": result["id"]}));
    let (_, steps) = unbounded_channel::<QueryEvent>();
    let work = async move { event("result", &result) };
    Ok(event_stream::respond(
        Some(first),
        steps,
        show,
        Box::pin(work),
    ))
}
