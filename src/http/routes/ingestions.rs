//! Ingestion of texts: as JSON, as an uploaded file with metadata, by the path of a file on the
//! server, or many in one request.

mod batch;
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
use crate::http::idempotency::{self, Idempotency};
use crate::http::state::AppState;
use crate::http::{body, wait};
use crate::ingestion::NewIngestion;
pub use batch::{__path_create_ingestion_batch, create_ingestion_batch};
pub use wire::{CreateIngestionRequest, IngestionUpload};

/// Bodies above this size are parsed on a separate thread, so that they do not delay other
/// requests.
const LARGE: usize = 128 * 1024;

/// Ingest a text
///
/// Queues a job and returns it immediately. The job splits the text into chunks, generates a
/// contextual helper if the source has none, files every chunk under the hierarchy, and stores
/// everything in one transaction. If the source already has a version with the same content, the
/// new version shares its chunks, and no model is called.
///
/// Send `path` or `source_id` to add a version to an existing source; otherwise each text becomes a
/// new source. Send an `Idempotency-Key` to make the request safe to retry.
#[utoipa::path(
    post, path = "/v1/ingestions", tag = "ingestions", operation_id = "create_ingestion",
    request_body(content((CreateIngestionRequest = "application/json"), (IngestionUpload = "multipart/form-data"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 200, description = "With `wait`: the job after it has ended.", body = JobResponse),
        (status = 202, description = "The job, which is queued, running, or waiting for a helper.", body = JobResponse, headers(("Location" = String, description = "The URL of the job."))),
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
        // A form has a different boundary each time it is sent, so only its content counts.
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
    // Checked first: the source or the file may have been deleted since the first request.
    let response = if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        response
    } else {
        let wanted = if form {
            wanted
        } else {
            server_file::fill(wanted, settings, &mut reservation, &mut 0).await?
        };

        let new = NewIngestion {
            at: caller.named_now(),
            ..wanted.into_new()?
        };

        caller.check_model(&state.llm, "options.model", new.options.model.as_deref())?;
        let new = state.ingestion.prepare(&caller.call, new).await?;

        idempotency
            .queue(&state, &caller, &new, JobResponse::fresh)
            .await?
    };

    // The text is in the database by now, so a waiting request holds no memory.
    drop(reservation);
    if wait {
        finished(&state, &caller, response, patience).await
    } else {
        Ok(response)
    }
}

async fn read_json(bytes: axum::body::Bytes) -> Result<CreateIngestionRequest, ApiError> {
    // NUL is removed from a text and rejected everywhere else: PostgreSQL cannot store it.
    let length = bytes.len();
    let parse = move || extract::parse_but::<CreateIngestionRequest>(&bytes, "text");
    parsed(length, parse).await
}

/// Parses a body of this length.
async fn parsed<T: Send + 'static>(
    length: usize,
    parse: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if length <= LARGE {
        return parse();
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let parsed = tokio::task::spawn_blocking(parse).await;
    parsed.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))
}

/// Returns the job once it is over, or its current state when the timeout ends. Returns immediately
/// if the job waits for a helper.
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
