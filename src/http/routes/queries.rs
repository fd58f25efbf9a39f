//! Queries: run, estimate, list receipts and replay.

mod receipts;
mod streaming;

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};

use super::jobs::JobSummaryResponse;
use crate::base::user_id;
use crate::config::auth::Role;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::event_stream;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Idempotency, Turn};
use crate::http::page::{Page, list_query};
use crate::http::state::AppState;
use crate::http::trace::RequestIdentity;
use crate::llm::Llm;
use crate::model::job::{Lane, NewJob};
use crate::model::query::StoredQuery;
use crate::queries::{
    Estimates, KIND, Queries, QueryInput, QueryResult, QuerySettings, ReplayInput, ReplayMode,
};
use crate::store::QueryPage;
pub use receipts::{QueryListResponse, QueryReceiptResponse, QueryReplayResponse};

/// The idempotency scope of synchronous queries: their responses contain chunks and are kept only
/// briefly.
pub const ANSWERED: &str = "answer_query";

list_query! {
    /// Filters and pagination of the receipt list.
    ListQueriesQuery {
        /// Only queries that were limited to this end user.
        #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
        user_id: Option<String>,
    }
}

/// Run a query
///
/// Finds chunks, fits them to the token budget, and generates an answer from them with citations.
/// With the default strategy, `auto`, memoir searches first, and a language model picks categories
/// only if the result is uncertain. The other strategies walk the hierarchy level by level and read the
/// chunks of the selected leaves. The response includes every decision on the way. With `mode:
/// retrieve` it contains the chunks without an answer. With `wait: false` the response is a job
/// (202), whose `result` has the same format.
///
/// With an `Idempotency-Key`, a repeated query within an hour returns the stored answer at no cost.
/// If several requests with the same key arrive at once, one runs and the others wait for its
/// answer for up to `timeout_s`, then return 409 `idempotency_key_in_use`; if the running one
/// fails, another takes over. With `audit.persist = false` memoir stores no answers, so none of
/// this applies.
///
/// With `Accept: text/event-stream` the response is a stream of server-sent events. The data of
/// every event is JSON:
///
/// - `started`: `{"id"}`, first.
/// - `tier`: `auto` has completed one of its tiers (`recalled`, `search`, `pick`, `walk`); the data
///   has the form of an entry of `tiers`.
/// - `level`: the choice on one level of a walk, or the pick of `auto`; the data has the form of an
///   entry of `levels` in the receipt.
/// - `answer`: `{"text"}`, the next piece of the answer.
/// - `answer_restarted`: the model begins again; discard the pieces so far.
/// - `result`: the whole result, last.
/// - `problem`: a problem document, instead of `result`, last. Errors before the first event are
///   ordinary responses.
///
/// To end the query and its model calls, disconnect, or use `POST /v1/runs/{id}/cancel` with the id
/// of the query.
///
/// If nothing is found, `auto` returns `found: false`; the other strategies return 404
/// `no_chunks_found` with the partial result as `context`. The `context` of these problems lists
/// the calls made so far (`responses`): `budget_exceeded`, `budget_too_small`,
/// `character_budget_not_met`, `final_prompt_over_budget`, `spend_cap_reached`,
/// `llm_invalid_output`, `llm_unavailable`, `query_timeout`.
#[utoipa::path(
    post, path = "/v1/queries", tag = "queries", operation_id = "create_query", request_body = QueryInput,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body returns the first response: a job \
         for 24 hours, an answer for one hour.")),
    responses(
        (status = 200, description = "The answer and how it was reached.", content(
            (QueryResult = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = 202, description = "A job that runs the query.", body = JobSummaryResponse, headers(("Location" = String, description = "The URL of the job."))),
        (status = 404, response = crate::http::openapi::ProblemResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
        (status = 504, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_query(
    caller: Caller,
    State(state): State<AppState>,
    Extension(identity): Extension<RequestIdentity>,
    headers: HeaderMap,
    JsonBody {
        value: request,
        bytes,
        ..
    }: JsonBody<QueryInput>,
) -> Result<Response, ApiError> {
    let wait = request.wait.unwrap_or(true);
    let ask = state.queries.resolve(request)?;
    caller.check_model(&state.llm, "model", ask.model.as_deref())?;
    if !wait {
        let idempotency = Idempotency::of(&headers, "create_query", &bytes)?;
        return queue(&caller, &state, &idempotency, &ask).await;
    }

    let idempotency = Idempotency::of(&headers, ANSWERED, &bytes)?;
    if event_stream::is_wanted(&headers) {
        let (caller, id) = (&caller, &identity.request_id);
        return streaming::stream(&state, caller, id, &idempotency, ask).await;
    }

    if !state.queries.receipts().are_stored() {
        // No answer is stored that another request could wait for.
        if let Some(response) = idempotency.answered(&state.store, &caller).await? {
            return Ok(response);
        }
        return Ok(Json(state.queries.answer(&caller.call, &ask).await?).into_response());
    }

    let run = match idempotency
        .turn(&state, &caller, Duration::from_secs(ask.timeout_s))
        .await?
    {
        Turn::Answered(response) => return Ok(response),
        Turn::Mine(run) => run,
    };

    let result = Box::pin(run.during(state.queries.answer(&caller.call, &ask))).await?;
    Ok(run.keep(&result).await)
}

async fn queue(
    caller: &Caller,
    state: &AppState,
    idempotency: &Idempotency,
    ask: &QuerySettings,
) -> Result<Response, ApiError> {
    let request =
        serde_json::to_value(ask).map_err(|error| ApiError::internal(error.to_string()))?;
    let user_id = ask
        .user_id
        .clone()
        .unwrap_or_else(|| user_id::DEFAULT.to_owned());
    let new = NewJob {
        kind: KIND,
        lane: Lane::Requested,
        user_id,
        source_id: None,
        request: request.to_string(),
        max_attempts: state.jobs.max_attempts(),
        group_size: 1,
    };

    idempotency
        .queue(state, caller, &new, |job| JobSummaryResponse::from(job))
        .await
}

/// Estimate a query
///
/// Returns the maximum number of calls and tokens for each strategy, based on the current
/// hierarchy. Calls no model. A query whose `max_calls` or `max_cost_usd` is below these numbers is
/// rejected before its first call.
#[utoipa::path(
    post, path = "/v1/queries/estimate", tag = "queries", operation_id = "estimate_query", request_body = QueryInput,
    responses((status = 200, description = "Upper bounds, by strategy.", body = Estimates))
)]
pub async fn estimate_query(
    caller: Caller,
    State(queries): State<Queries>,
    JsonBody { value: request, .. }: JsonBody<QueryInput>,
) -> Result<Json<Estimates>, ApiError> {
    let ask = queries.resolve(request)?;
    Ok(Json(queries.estimate(&caller.call, &ask).await?))
}

/// List receipts
///
/// Returns the receipts of past queries, newest first. The list is empty if `audit.persist` is
/// `false`.
#[utoipa::path(
    get, path = "/v1/queries", tag = "queries", operation_id = "list_queries", params(ListQueriesQuery),
    responses((status = 200, description = "A page of receipts.", body = QueryListResponse))
)]
pub async fn list_queries(
    caller: Caller,
    State(queries): State<Queries>,
    QueryParams(query): QueryParams<ListQueriesQuery>,
) -> Result<Json<QueryListResponse>, ApiError> {
    let fingerprint = format!("queries|{:?}", query.user_id);
    let page = Page::new(query.limit, query.cursor, fingerprint)?;
    let wanted = QueryPage {
        before: page.after_item()?,
        user_id: query.user_id,
        limit: page.rows(),
    };
    let found = queries.receipts().list(&caller.call, &wanted).await?;
    let key = |query: &StoredQuery| (query.created_at.as_micros(), query.id.to_string());
    Ok(page.list(found, key, |query| (&query).into()))
}

/// Get a receipt
///
/// Returns the options, choices and rejections on each level, the paths, everything that was
/// dropped and why, and every model call. A receipt contains no chunk text, but model outputs in it
/// may quote chunks.
#[utoipa::path(
    get, path = "/v1/queries/{id}", tag = "queries", operation_id = "get_query",
    params(("id" = String, Path, description = "The query's id.")),
    responses((status = 200, description = "The receipt.", body = QueryReceiptResponse))
)]
pub async fn get_query(
    caller: Caller,
    State(queries): State<Queries>,
    PathId(id): PathId,
) -> Result<Json<QueryReceiptResponse>, ApiError> {
    Ok(Json(
        queries.receipts().find(&caller.call, &id).await?.into(),
    ))
}

/// Replay a query
///
/// `recorded` uses the recorded options, model outputs and chunks, and calls no model; `identical`
/// tells whether everything except times is the same. `live` calls the models again, optionally
/// with another strategy or model, and stores a new receipt; `differences` shows what changed.
/// `live` requires the role `user`.
#[utoipa::path(
    post, path = "/v1/queries/{id}/replay", tag = "queries", operation_id = "replay_query", request_body = ReplayInput,
    params(("id" = String, Path, description = "The query's id.")),
    responses(
        (status = 200, description = "The query and its replay.", body = QueryReplayResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
        (status = 410, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn replay_query(
    caller: Caller,
    State(queries): State<Queries>,
    State(llm): State<Llm>,
    PathId(id): PathId,
    JsonBody { value: input, .. }: JsonBody<ReplayInput>,
) -> Result<Json<QueryReplayResponse>, ApiError> {
    input.check()?;
    if input.mode() == ReplayMode::Live {
        caller.require(Role::User)?;
        let model = match &input.model {
            Some(model) => Some(model.clone()),
            // Uses the model that the original query specified.
            None => queries
                .receipts()
                .find(&caller.call, &id)
                .await?
                .stored
                .request["model"]
                .as_str()
                .map(str::to_owned),
        };

        caller.check_model(&llm, "model", model.as_deref())?;
    }

    let replaying = Box::pin(queries.replay(&caller.call, &id, input));
    Ok(Json(replaying.await?.into()))
}
