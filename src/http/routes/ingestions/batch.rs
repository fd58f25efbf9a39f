//! Many texts in one request: all are checked first, and then all are queued in one transaction, or
//! none.

use std::fmt;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use memoir_text::field_error::FieldError;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{CreateIngestionRequest, parsed, server_file};
use crate::base::problems;
use crate::http::auth::Caller;
use crate::http::body_budget::Reservation;
use crate::http::error::ApiError;
use crate::http::idempotency::Idempotency;
use crate::http::state::AppState;
use crate::http::{body, extract, wait};
use crate::ingestion::NewIngestion;
use crate::model::job::{Job, JobState};

/// Maximum items of one request.
const MAX_ITEMS: usize = 1000;

/// Texts to ingest, each with its metadata.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its description is used")]
#[schema(example = json!({"items": [
    {"text": "The lighthouse on the northern cape was built in 1843.", "path": "/docs/lighthouse.md"},
    {"text": "The harbour freezes from December to March.", "tags": ["coast"]}
]}))]
pub struct IngestionBatchRequest {
    /// The texts. Each item has the fields of `POST /v1/ingestions`; only `wait` cannot be true.
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<CreateIngestionRequest>,
}

/// One item per line, with the fields of `POST /v1/ingestions`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
// Generators make a client that sends bytes only from a file.
#[schema(value_type = String, format = Binary)]
pub struct IngestionBatchLines(String);

/// The jobs of a batch, in the order of its items.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"jobs": [
    {"index": 0, "job_id": "0199a7e0-1c2d-7000-8000-000000000000", "source_id": "0199a7e0-1c2d-7000-8000-000000000001",
     "user_id": "default", "state": "queued", "created_at": "2026-01-31T12:00:00.000000Z"}
]}))]
pub struct IngestionBatchResponse {
    pub jobs: Vec<IngestionBatchJobResponse>,
}

/// The job of one item.
#[derive(Debug, Serialize, ToSchema)]
pub struct IngestionBatchJobResponse {
    /// The position of the item in the request, from 0.
    pub index: usize,
    /// The job, for `GET /v1/jobs/{id}`.
    pub job_id: String,
    /// The source that the text belongs to; the job creates it if it does not exist.
    pub source_id: Option<String>,
    /// The end user within the space.
    pub user_id: String,
    pub state: JobState,
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// Ingest many texts
///
/// Takes 1 to 1,000 texts and queues one job for each, as `POST /v1/ingestions` does for one text.
/// Send JSON, or JSON Lines (`application/x-ndjson`) with one item per line; blank lines are
/// ignored. The limit on the size of a body applies to the whole request, including files on the
/// server that it names.
///
/// The request is all or nothing. If an item is invalid, or if not all jobs fit into the queue,
/// nothing is queued. The response to invalid items is a 422 whose `errors` name the fields, such
/// as `items[3].text`; it lists at most 100, and `context.more_errors` counts the others. A 202
/// means that all texts are stored. Texts for one path or source become versions in the order of
/// the items. Short texts of one request share model calls. Send an `Idempotency-Key` to make the request safe to retry.
#[utoipa::path(
    post, path = "/v1/ingestions/batch", tag = "ingestions", operation_id = "create_ingestion_batch",
    request_body(content(
        (IngestionBatchRequest = "application/json"),
        (IngestionBatchLines = "application/x-ndjson", example = "{\"text\": \"The lighthouse was built in 1843.\"}\n{\"text\": \"The harbour freezes.\"}\n"),
    )),
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 202, description = "The queued jobs, in the order of the items.", body = IngestionBatchResponse),
        (status = 400, response = crate::http::openapi::ProblemResponse),
        (status = 413, response = crate::http::openapi::ProblemResponse),
        (status = 415, response = crate::http::openapi::ProblemResponse),
        (status = 422, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 503, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_ingestion_batch(
    caller: Caller,
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, content) = request.into_parts();
    let lines = extract::is_json_lines(&parts.headers)?;
    let (bytes, mut reservation) = body::read(content, &state).await?;
    let idempotency = Idempotency::of(&parts.headers, "create_ingestion_batch", &bytes)?;

    let length = bytes.len();
    let items = parsed(length, move || read_items(&bytes, lines)).await?;
    // Checked first: a source or a file may have been deleted since the first request.
    if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        return Ok(response);
    }

    let mut refused = Refused::default();
    let taken = (&mut reservation, length);
    let (places, new) = convert(&state, &caller, items, taken, &mut refused).await?;
    let prepared = state.ingestion.prepare_all(&caller.call, new).await?;

    let mut jobs = Vec::with_capacity(prepared.len());
    for (index, prepared) in places.into_iter().zip(prepared) {
        match prepared {
            Ok(job) => jobs.push(job),
            Err(error) => refused.add(index, error.into())?,
        }
    }

    refused.check()?;
    idempotency
        .queue_all(&state, &caller, &jobs, IngestionBatchResponse::of)
        .await
}

/// The valid items as the ingestion module takes them, each with its position in the request.
async fn convert(
    state: &AppState,
    caller: &Caller,
    items: Vec<Result<CreateIngestionRequest, ApiError>>,
    (reservation, mut taken): (&mut Reservation, usize),
    refused: &mut Refused,
) -> Result<(Vec<usize>, Vec<NewIngestion>), ApiError> {
    let (mut places, mut all) = (Vec::new(), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        let converted = match item {
            Ok(item) => one(state, caller, item, reservation, &mut taken).await,
            Err(error) => Err(error),
        };

        match converted {
            Ok(new) => {
                places.push(index);
                all.push(new);
            }
            Err(error) => refused.add(index, error)?,
        }
    }

    Ok((places, all))
}

async fn one(
    state: &AppState,
    caller: &Caller,
    item: CreateIngestionRequest,
    reservation: &mut Reservation,
    taken: &mut usize,
) -> Result<NewIngestion, ApiError> {
    let (wait, _) = wait::patience(item.wait, item.timeout_s)?;
    if wait {
        return Err(ApiError::invalid_field(
            "wait",
            "must not be set to true in a batch; wait for each job with GET /v1/jobs/{id}?wait=60",
        ));
    }

    let item = server_file::fill(item, &state.settings, reservation, taken).await?;
    let new = NewIngestion {
        at: caller.named_now(),
        ..item.into_new()?
    };

    caller.check_model(&state.llm, "options.model", new.options.model.as_deref())?;
    Ok(new)
}

/// Parses the items, each with its own result.
fn read_items(
    bytes: &Bytes,
    lines: bool,
) -> Result<Vec<Result<CreateIngestionRequest, ApiError>>, ApiError> {
    // NUL is removed from a text and rejected everywhere else: PostgreSQL cannot store it.
    let parse = |item: &[u8]| extract::parse_but::<CreateIngestionRequest>(item, "text");
    if lines {
        let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
        let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
        check_count(lines.clone().count())?;
        return lines
            .map(|(number, line): (usize, _)| known_place(parse(line), || format!("line {number}")))
            .collect();
    }

    let Envelope { items } = extract::parse_object(bytes)?;
    check_count(items.count)?;
    let items = items.first.iter().enumerate();
    items
        .map(|(index, item)| {
            let item = parse(item.get().as_bytes());
            known_place(item, || format!("items[{index}]"))
        })
        .collect()
}

/// Rejects the whole request if an item is not JSON; other errors belong to the item.
fn known_place<T>(
    item: Result<T, ApiError>,
    place: impl FnOnce() -> String,
) -> Result<Result<T, ApiError>, ApiError> {
    match item {
        Err(error) if error.status() == StatusCode::BAD_REQUEST => Err(error.at(&place())),
        item => Ok(item),
    }
}

fn check_count(count: usize) -> Result<(), ApiError> {
    if (1..=MAX_ITEMS).contains(&count) {
        return Ok(());
    }
    Err(ApiError::invalid_field(
        "items",
        format!("must have at least 1 and at most {MAX_ITEMS} items; this request has {count}"),
    ))
}

/// A batch as JSON. Its items stay in the body until each is parsed by itself, so that errors in
/// several of them are reported together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'b> {
    #[serde(borrow)]
    items: RawItems<'b>,
}

/// How many items there are; no more than allowed are kept.
struct RawItems<'b> {
    first: Vec<&'b RawValue>,
    count: usize,
}

impl<'de: 'b, 'b> Deserialize<'de> for RawItems<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted;
        impl<'de> Visitor<'de> for Counted {
            type Value = RawItems<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut read = RawItems {
                    first: Vec::new(),
                    count: 0,
                };

                while let Some(item) = items.next_element::<&RawValue>()? {
                    read.count += 1;
                    if read.count <= MAX_ITEMS {
                        read.first.push(item);
                    }
                }

                Ok(read)
            }
        }

        deserializer.deserialize_seq(Counted)
    }
}

/// The errors of all items.
#[derive(Default)]
struct Refused(Vec<(usize, FieldError)>);

impl Refused {
    /// Adds the errors of an item; returns an error that is not about the item's fields.
    fn add(&mut self, index: usize, error: ApiError) -> Result<(), ApiError> {
        let place = format!("items[{index}]");
        let is_about_item = matches!(
            error.status(),
            StatusCode::UNPROCESSABLE_ENTITY
                | StatusCode::NOT_FOUND
                | StatusCode::UNSUPPORTED_MEDIA_TYPE
        );

        if !is_about_item {
            return Err(error.at(&place));
        }

        if error.errors.is_empty() {
            let field = match error.kind.code {
                code if code == problems::NOT_FOUND.code => "source_id",
                code if code == problems::UNSUPPORTED_FILE_TYPE.code => "path",
                _ => "options.model",
            };
            let error = FieldError::new(format!("{place}.{field}"), error.detail.as_str());
            self.0.push((index, error));
            return Ok(());
        }

        for error in &error.errors {
            let field = match error.field.as_str() {
                "(body)" => place.clone(),
                field => format!("{place}.{field}"),
            };
            let error = FieldError::new(field, error.message.as_str());
            self.0.push((index, error));
        }

        Ok(())
    }

    /// Rejects the request if there are errors.
    fn check(mut self) -> Result<(), ApiError> {
        if self.0.is_empty() {
            return Ok(());
        }

        self.0.sort_by_key(|(index, _)| *index);
        let errors = self.0.into_iter().map(|(_, error)| error).collect();
        Err(ApiError::invalid(errors))
    }
}

impl IngestionBatchResponse {
    fn of(jobs: &[Job]) -> Self {
        let jobs = jobs
            .iter()
            .enumerate()
            .map(|(index, job)| IngestionBatchJobResponse {
                index,
                job_id: job.id.to_string(),
                source_id: job.source_id.clone(),
                user_id: job.user_id.clone(),
                state: job.state,
                created_at: job.created_at.to_string(),
            });

        Self {
            jobs: jobs.collect(),
        }
    }
}
