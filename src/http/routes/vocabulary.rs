//! The vocabulary: its lists, what models suggest, and how a suggestion becomes a term.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use memoir_text::presets;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::conversation::Conversation;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, QueryParams};
use crate::http::idempotency::ApiFailure;
use crate::http::state::AppState;
use crate::model::vocabulary::{SuggestionKind, Terms, Vocabulary};

/// How long an approval waits for its job; the job goes on after that.
const BACKFILL_PATIENCE: Duration = Duration::from_secs(10);
const DEFAULT_FREQUENCY: i64 = 5;

/// The current vocabulary.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct VocabularyResponse {
    /// The name of the version, which is stored with every memory that was classified with it.
    pub version: String,
    /// What a message can be about; a message has one to three.
    pub topics: Vec<String>,
    /// The area that a message belongs to; a message has one.
    pub categories: Vec<String>,
    /// What a message does, such as asking or deciding.
    pub message_types: Vec<String>,
    /// The kinds of names, numbers and amounts that are extracted from messages.
    pub entity_types: Vec<String>,
    /// The preset that has exactly these terms; null if there is none.
    pub preset: Option<String>,
    /// The presets to choose from, with `POST /v1/admin/vocabulary/preset`.
    pub presets: Vec<String>,
}

impl From<Vocabulary> for VocabularyResponse {
    fn from(vocabulary: Vocabulary) -> Self {
        let preset = vocabulary.terms.preset();
        let all = presets::all().iter();
        let Terms {
            topics,
            categories,
            message_types,
            entity_types,
        } = vocabulary.terms;
        Self {
            version: vocabulary.version,
            topics,
            categories,
            message_types,
            entity_types,
            preset: preset.map(|preset| preset.name.to_owned()),
            presets: all.map(|preset| preset.name.to_owned()).collect(),
        }
    }
}

/// A complete vocabulary.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"topics": ["billing", "shipping"], "categories": ["question", "complaint"], "message_types": ["request", "statement"], "entity_types": ["order", "product"]}))]
pub struct UpdateVocabularyRequest {
    /// The name of the version; today's date if omitted.
    #[schema(max_length = 32)]
    pub version: Option<String>,
    /// What a message can be about; a message has one to three.
    #[schema(min_items = 1, max_items = 250)]
    pub topics: Vec<String>,
    /// The area that a message belongs to; a message has one.
    #[schema(min_items = 1, max_items = 250)]
    pub categories: Vec<String>,
    /// What a message does, such as asking or deciding.
    #[schema(min_items = 1, max_items = 250)]
    pub message_types: Vec<String>,
    /// The kinds of names, numbers and amounts that are extracted from messages.
    #[schema(min_items = 1, max_items = 250)]
    pub entity_types: Vec<String>,
}

/// Which suggestions to list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListSuggestionsQuery {
    /// `topic` (the default) or `category`.
    #[param(pattern = "^(topic|category)$")]
    kind: Option<String>,
    /// Only terms that were suggested at least this often.
    #[param(minimum = 1, default = 5)]
    min_frequency: Option<i64>,
}

/// Frequent suggestions, most frequent first; at most 20.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SuggestionListResponse {
    pub items: Vec<SuggestionResponse>,
}

/// A term that the vocabulary lacks, according to models.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SuggestionResponse {
    /// The suggested term.
    pub suggestion: String,
    /// `topic` or `category`.
    pub kind: String,
    /// Number of memories that suggest it.
    pub frequency: i64,
    /// The first characters of some of the messages, up to 100 of each.
    pub examples: Vec<String>,
}

/// A suggestion to approve.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"suggestion": "warranty", "kind": "topic"}))]
pub struct ApproveRequest {
    /// The suggested term.
    #[schema(min_length = 1, max_length = 100)]
    pub suggestion: String,
    /// `topic` (the default) or `category`.
    #[schema(pattern = "^(topic|category)$")]
    pub kind: Option<String>,
}

/// An approved suggestion.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ApproveResponse {
    pub vocabulary: VocabularyResponse,
    /// The job that adds the term to the memories that suggested it.
    pub job_id: String,
    /// Number of memories that got the term; null while the job runs.
    pub backfilled: Option<i64>,
}

/// A preset to choose.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "personal"}))]
pub struct ChoosePresetRequest {
    /// `personal` (the life of one person), `project` (the work of a team) or `support` (customers of a
    /// shop).
    #[schema(pattern = "^(personal|project|support)$")]
    pub name: String,
}

/// The vocabulary after a preset was chosen.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChoosePresetResponse {
    #[serde(flatten)]
    pub vocabulary: VocabularyResponse,
    /// The job that has stored messages classified again; null if the preset was in force already and
    /// no messages with other terms are left.
    pub job_id: Option<String>,
}

/// Get the vocabulary
///
/// Returns the lists of terms that messages and questions are classified with. A space without its
/// own vocabulary uses the default one.
#[utoipa::path(
    get, path = "/v1/vocabulary", tag = "conversations", operation_id = "get_vocabulary",
    params(("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The vocabulary.", body = VocabularyResponse, headers(("ETag" = String, description = "The current ETag."))),
        (status = 304, description = "The vocabulary has not changed."),
    )
)]
pub async fn get_vocabulary(
    caller: Caller,
    State(conversation): State<Conversation>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let vocabulary = conversation.vocabulary(&caller.call).await?;
    Ok(etag::respond(
        &headers,
        &VocabularyResponse::from(vocabulary),
    ))
}

/// Replace the vocabulary
///
/// Stores a complete vocabulary as a new version. From then on, messages and questions are
/// classified with it. Memories that are already classified keep their terms and their version.
#[utoipa::path(
    put, path = "/v1/vocabulary", tag = "conversations", operation_id = "update_vocabulary", request_body = UpdateVocabularyRequest,
    responses(
        (status = 200, description = "The new vocabulary.", body = VocabularyResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_vocabulary(
    caller: Caller,
    State(conversation): State<Conversation>,
    JsonBody { value: request, .. }: JsonBody<UpdateVocabularyRequest>,
) -> Result<Json<VocabularyResponse>, ApiError> {
    let terms = Terms {
        topics: request.topics,
        categories: request.categories,
        message_types: request.message_types,
        entity_types: request.entity_types,
    };
    let vocabulary = conversation
        .replace_vocabulary(&caller.call, request.version, terms)
        .await?;
    Ok(Json(vocabulary.into()))
}

/// Choose a preset
///
/// Stores the terms of a preset as a new version of the vocabulary. Messages that were classified
/// before keep their terms until jobs have classified them again, with the model of the stage
/// `enrich`; what users corrected stays. Repeating the request is safe: the vocabulary stays, and
/// `job_id` is the job that is still at work, or a new one if messages with other terms are left.
#[utoipa::path(
    post, path = "/v1/admin/vocabulary/preset", tag = "conversations", operation_id = "choose_preset", request_body = ChoosePresetRequest,
    responses(
        (status = 200, description = "The vocabulary.", body = ChoosePresetResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn choose_preset(
    caller: Caller,
    State(state): State<AppState>,
    JsonBody { value: request, .. }: JsonBody<ChoosePresetRequest>,
) -> Result<Json<ChoosePresetResponse>, ApiError> {
    let chosen = state.store.retry_as("choose_preset", || async {
        let mut tx = state.store.begin().await?;
        let chosen = state
            .conversation
            .choose_preset(&mut tx, &caller.call, &request.name)
            .await?;
        tx.commit().await?;
        Ok::<_, ApiFailure>(chosen)
    });

    let chosen = chosen.await?;
    state.conversation.announce();
    Ok(Json(ChoosePresetResponse {
        vocabulary: chosen.vocabulary.into(),
        job_id: chosen.job_id.map(|id| id.to_string()),
    }))
}

/// List suggestions
///
/// Returns the terms that models suggested most often because the vocabulary lacks them.
#[utoipa::path(
    get, path = "/v1/vocabulary/suggestions", tag = "conversations", operation_id = "list_suggestions", params(ListSuggestionsQuery),
    responses((status = 200, description = "The suggestions.", body = SuggestionListResponse))
)]
pub async fn list_suggestions(
    caller: Caller,
    State(conversation): State<Conversation>,
    QueryParams(query): QueryParams<ListSuggestionsQuery>,
) -> Result<Json<SuggestionListResponse>, ApiError> {
    let kind = kind_of(query.kind.as_deref())?;
    let frequency = query.min_frequency.unwrap_or(DEFAULT_FREQUENCY);
    let found = conversation
        .suggestions(&caller.call, kind, frequency)
        .await?;

    let each = found.into_iter().map(|one| SuggestionResponse {
        suggestion: one.suggestion,
        kind: kind.into_str().to_owned(),
        frequency: one.frequency,
        examples: one.examples,
    });
    Ok(Json(SuggestionListResponse {
        items: each.collect(),
    }))
}

/// Approve a suggestion
///
/// Adds the suggested term to the vocabulary, as a new version. A job then adds the term to the
/// memories whose classification suggested it. The confidence of these memories becomes `high`;
/// they keep the vocabulary version that they were classified with.
#[utoipa::path(
    post, path = "/v1/admin/vocabulary/approve", tag = "conversations", operation_id = "approve_suggestion", request_body = ApproveRequest,
    responses(
        (status = 200, description = "The new vocabulary.", body = ApproveResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn approve_suggestion(
    caller: Caller,
    State(state): State<AppState>,
    JsonBody { value: request, .. }: JsonBody<ApproveRequest>,
) -> Result<Json<ApproveResponse>, ApiError> {
    let kind = kind_of(request.kind.as_deref())?;
    let approved = state.store.retry_as("approve_suggestion", || async {
        let mut tx = state.store.begin().await?;
        let approved = state
            .conversation
            .approve(&mut tx, &caller.call, kind, &request.suggestion)
            .await?;
        tx.commit().await?;
        Ok::<_, ApiFailure>(approved)
    });

    let approved = approved.await?;
    state.conversation.announce();
    let id = approved.job_id.to_string();
    let job = state
        .jobs
        .wait(&caller.call, &id, BACKFILL_PATIENCE)
        .await?;
    Ok(Json(ApproveResponse {
        vocabulary: approved.vocabulary.into(),
        job_id: id,
        backfilled: job.result.and_then(|result| result["memories"].as_i64()),
    }))
}

fn kind_of(given: Option<&str>) -> Result<SuggestionKind, ApiError> {
    match given {
        None | Some("topic") => Ok(SuggestionKind::Topic),
        Some("category") => Ok(SuggestionKind::Category),
        Some(_) => Err(ApiError::invalid_field("kind", "must be topic or category")),
    }
}
