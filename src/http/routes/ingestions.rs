//! Bringing texts in: as JSON, as a file with what is said of it, or as the path of a file of the
//! server.

mod server_file;
mod upload;
mod wire;

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::jobs::JobResponse;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{self, media_type};
use crate::http::idempotency::{self, Begun, Idempotency, location};
use crate::http::state::AppState;
use crate::http::{body, wait};
use crate::ingestion::NewIngestion;
use crate::model::job::NewJob;
pub use wire::{CreateIngestionRequest, HelperFieldsRequest, IngestionUpload};

/// A body above this is read apart from the requests of others.
const LARGE: usize = 128 * 1024;

/// Bring a text in
///
/// Answers at once with a job that cuts the text into chunks, describes it, files every chunk
/// under the hierarchy, and writes all of it in one transaction. The same content again becomes a
/// new version that shares the earlier chunks and asks no model. Give `path` (or `source_id`) to
/// add a version to a source; without them each text is a source of its own. Send an
/// `Idempotency-Key` to be able to repeat the request safely.
#[utoipa::path(
    post, path = "/v1/ingestions", tag = "ingestions", operation_id = "create_ingestion",
    request_body(content((CreateIngestionRequest = "application/json"), (IngestionUpload = "multipart/form-data"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeating the request with the same key and body within 24 hours gives the first answer again.")),
    responses(
        (status = 200, description = "With `wait`: the job, which is over.", body = JobResponse),
        (status = 202, description = "The job, which is queued, under way, or awaits its user.", body = JobResponse, headers(("Location" = String, description = "The job."))),
        (status = 404, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_ingestion(
    caller: Caller,
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, content) = request.into_parts();
    let settings = &state.settings;
    let form = media_type(&parts.headers).starts_with("multipart/form-data");
    if !form {
        extract::check_media_type(&parts.headers)?;
    }

    let (bytes, mut reservation) = body::read(content, &state).await?;
    let (wanted, idempotency) = if form {
        let wanted = upload::read(&parts.headers, bytes).await?;
        // A form has another boundary each time it is sent: what it says is what counts.
        let keyed = parts.headers.contains_key(idempotency::HEADER);
        let said = if keyed {
            serde_json::to_vec(&wanted)
        } else {
            Ok(Vec::new())
        };

        let said = said.map_err(|error| ApiError::internal(error.to_string()))?;
        (
            wanted,
            Idempotency::of(&parts.headers, "create_ingestion", &said)?,
        )
    } else {
        let idempotency = Idempotency::of(&parts.headers, "create_ingestion", &bytes)?;
        (read_json(bytes).await?, idempotency)
    };

    let (wait, patience) = wait::patience(wanted.wait, wanted.timeout_s)?;
    // Looked for first: the source, or the file, may be gone by now.
    let response = if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        response
    } else {
        let wanted = if form {
            wanted
        } else {
            server_file::fill(wanted, settings, &mut reservation).await?
        };

        let new = NewIngestion {
            at: caller.named_now(),
            ..wanted.into_new()?
        };

        caller.check_model(&state.llm, "options.model", new.options.model.as_deref())?;
        let new = state
            .ingestion
            .prepare(&caller.space, new, caller.now)
            .await?;

        let response = queue(&state, &caller, &idempotency, &new).await?;
        state.jobs.announce();
        response
    };

    // The text is in the database now: whoever waits for the job holds no memory.
    drop(reservation);
    if wait {
        finished(&state, &caller, response, patience).await
    } else {
        Ok(response)
    }
}

async fn read_json(bytes: axum::body::Bytes) -> Result<CreateIngestionRequest, ApiError> {
    // NUL is taken out of a text, and refused anywhere else (K-50).
    let large = bytes.len() > LARGE;
    let parse = move || extract::parse_but::<CreateIngestionRequest>(&bytes, "text");
    if !large {
        return parse();
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let parsed = tokio::task::spawn_blocking(parse).await;
    parsed.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))
}

async fn queue(
    state: &AppState,
    caller: &Caller,
    idempotency: &Idempotency,
    new: &NewJob,
) -> Result<Response, ApiError> {
    let queued = state.store.retry_as("create_ingestion", || async {
        let mut tx = match idempotency.begin(&state.store, caller).await? {
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
        idempotency
            .finish(
                tx,
                caller,
                StatusCode::ACCEPTED,
                headers,
                &JobResponse::fresh(&job),
            )
            .await
    });
    Ok(queued.await?)
}

/// The job once it is over, or as it is when patience ends; one that awaits its user is told at
/// once (M-6.6).
async fn finished(
    state: &AppState,
    caller: &Caller,
    queued: Response,
    patience: Duration,
) -> Result<Response, ApiError> {
    let place = queued.headers().get(header::LOCATION).cloned();
    let id = place
        .as_ref()
        .and_then(|place| place.to_str().ok())
        .and_then(|place| place.rsplit('/').next());

    let Some(id) = id else { return Ok(queued) };
    let job = wait::for_job(state, caller, id, patience).await?;
    let status = if job.state.is_final() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };

    let location = [(
        header::LOCATION,
        place
            .clone()
            .unwrap_or(HeaderValue::from_static("/v1/jobs")),
    )];

    Ok((status, location, Json(JobResponse::of(state, job).await?)).into_response())
}
