//! Policies: their versions, and a way to try one without a store.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use memoir_policy::prompt_text::prompt_text;
use memoir_policy::{Candidate, MemoryType, Settings, Speaker};
use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::page::{Page, list_query, list_response};
use crate::http::routes::memory_payload::{
    MemoryEntryResponse, PayloadMetadataResponse, StepResponse, payload, steps,
};
use crate::memory_retrieval::{MemoryPolicies, PolicyError, PolicyName, PolicyVersion, RETRIEVAL};

/// The most candidates of a trial.
const MAX_CANDIDATES: usize = 1000;
/// The most characters of the query.
const MAX_QUERY_CHARS: usize = 4_000;
/// The most characters of one text, and of all together.
const MAX_TEXT: usize = 100_000;
const MAX_TEXT_TOGETHER: usize = 1_000_000;

/// One version of a policy.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyResponse {
    #[schema(example = "retrieval")]
    pub name: String,
    /// 0 for the policy as it was first published, 1 for the built-in defaults; each change adds 1.
    pub version: i64,
    #[serde(flatten)]
    pub settings: Settings,
    /// Null for built-in versions.
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
}

impl From<PolicyVersion> for PolicyResponse {
    fn from(stored: PolicyVersion) -> Self {
        Self {
            name: stored.name,
            version: stored.version,
            settings: stored.settings,
            created_at: stored.created_at.map(|time| time.to_string()),
        }
    }
}

/// The current version of every policy.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyListResponse {
    pub items: Vec<PolicyResponse>,
}

list_response! {
    /// A page of versions, newest first.
    PolicyVersionListResponse of PolicyResponse
}

list_query! {
    /// Pagination of the versions.
    ListPolicyVersionsQuery {}
}

/// A policy and the candidates to try it on.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "policy": "retrieval",
    "candidates": [
        {"id": "1", "content": "I drink tea in the morning.", "score": 0.9, "timestamp": "2026-11-15T09:30:00Z"},
        {"id": "2", "content": "I DRINK TEA in the morning!", "score": 0.7, "timestamp": "2026-11-16T09:30:00Z"}
    ]
}))]
pub struct TryPolicyRequest {
    /// A stored policy, with or without a version: `retrieval`, `retrieval@3`. The current version
    /// of `retrieval` if this and `settings` are omitted.
    #[schema(example = "retrieval@0", pattern = "^[a-z0-9_-]{1,64}(@[0-9]{1,18})?$")]
    pub policy: Option<String>,
    /// Settings to try instead of a stored policy.
    pub settings: Option<Settings>,
    /// What the user asks: with `clipping: best`, the sentences that match it are kept.
    #[serde(default)]
    #[schema(max_length = 4000)]
    pub query: String,
    /// Memories that a search could return, in any order, with at most 1,000,000 characters
    /// together.
    #[schema(max_items = 1000)]
    pub candidates: Vec<CandidateRequest>,
}

/// A memory as a search would return it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CandidateRequest {
    /// The id; every candidate needs a different one.
    #[schema(min_length = 1, max_length = 128)]
    pub id: String,
    /// The text.
    #[schema(max_length = 100_000)]
    pub content: String,
    /// Relevance, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub score: f64,
    /// When it was said.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    /// The thread that it belongs to.
    pub session_id: Option<String>,
    /// The id of the message.
    pub message_id: Option<String>,
    /// The type of the memory; `message` if omitted.
    #[serde(default, rename = "type")]
    pub memory_type: Option<MemoryType>,
    /// Who said it.
    pub role: Option<Speaker>,
}

/// The payload that the policy makes of the candidates.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TryPolicyResponse {
    /// The policy and version that was tried; null if the settings came with the request.
    pub policy: Option<String>,
    pub memories: Vec<MemoryEntryResponse>,
    pub metadata: PayloadMetadataResponse,
    /// The memories as text for a system prompt; empty without memories.
    pub system_prompt: String,
    /// Every step in order: what it dropped or changed, and why.
    pub steps: Vec<StepResponse>,
}

/// List policies
///
/// Returns the current version of every policy in the space.
#[utoipa::path(
    get, path = "/v1/policies", tag = "memory", operation_id = "list_policies",
    responses((status = 200, description = "The policies.", body = PolicyListResponse))
)]
pub async fn list_policies(
    caller: Caller,
    State(policies): State<MemoryPolicies>,
) -> Result<Json<PolicyListResponse>, ApiError> {
    let listed = policies.list(&caller.call).await?;
    let items = listed.into_iter().map(PolicyResponse::from).collect();
    Ok(Json(PolicyListResponse { items }))
}

/// List the versions of a policy
///
/// Returns versions, newest first. A version is never changed or deleted, so the settings behind an
/// earlier payload can always be read.
#[utoipa::path(
    get, path = "/v1/policies/{name}/versions", tag = "memory", operation_id = "list_policy_versions",
    params(("name" = String, Path, description = "The name of the policy."), ListPolicyVersionsQuery),
    responses((status = 200, description = "A page of versions.", body = PolicyVersionListResponse))
)]
pub async fn list_policy_versions(
    caller: Caller,
    State(policies): State<MemoryPolicies>,
    PathId(name): PathId,
    QueryParams(query): QueryParams<ListPolicyVersionsQuery>,
) -> Result<Json<PolicyVersionListResponse>, ApiError> {
    let page = Page::new(query.limit, query.cursor, format!("policy {name}"))?;
    let below = page
        .after_texts()?
        .and_then(|[version]| version.parse().ok());

    let name = named(Some(&name)).map(|named| PolicyName {
        version: None,
        ..named
    })?;
    let found = policies
        .versions(&caller.call, &name, below, page.rows())
        .await?;
    let key = |policy: &PolicyVersion| [policy.version.to_string()];
    Ok(page.list(found, key, PolicyResponse::from))
}

/// Try a policy
///
/// Runs a policy over the candidates in the request and shows what every step dropped or changed.
/// Reads nothing except the policy, and stores nothing, so the same request with the same policy
/// always gets the same response. Use it to test settings before you store them, for example in CI.
#[utoipa::path(
    post, path = "/v1/policies/try", tag = "memory", operation_id = "try_policy", request_body = TryPolicyRequest,
    responses(
        (status = 200, description = "The payload and its steps.", body = TryPolicyResponse),
        (status = 404, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn try_policy(
    caller: Caller,
    State(policies): State<MemoryPolicies>,
    JsonBody { value: request, .. }: JsonBody<TryPolicyRequest>,
) -> Result<Json<TryPolicyResponse>, ApiError> {
    if request.policy.is_some() && request.settings.is_some() {
        return Err(ApiError::invalid_field(
            "settings",
            "must be omitted if policy is given",
        ));
    }

    if char_count(&request.query) > MAX_QUERY_CHARS {
        let rule = format!("must have at most {MAX_QUERY_CHARS} characters");
        return Err(ApiError::invalid_field("query", rule));
    }

    let (candidates, query) = (read_candidates(request.candidates)?, request.query);
    let (name, policy, outcome) = if let Some(settings) = request.settings {
        let tried = policies.try_settings(settings, candidates, query).await;
        let (policy, outcome) = tried.map_err(of_settings)?;
        (None, policy, outcome)
    } else {
        let stored = policies
            .find(&caller.call, &named(request.policy.as_deref())?)
            .await?;
        let outcome = policies
            .try_stored(Arc::clone(&stored.policy), candidates, query)
            .await?;
        (Some(stored.label()), stored.policy, outcome)
    };

    let system_prompt = prompt_text(&outcome.entries, 0);
    let (memories, metadata) = payload(&outcome, &policy, "candidates", 0);
    Ok(Json(TryPolicyResponse {
        policy: name,
        memories,
        metadata,
        system_prompt,
        steps: steps(&outcome),
    }))
}

/// The policy that a request names; the retrieval policy if it names none.
pub fn named(policy: Option<&str>) -> Result<PolicyName, ApiError> {
    policy.unwrap_or(RETRIEVAL).parse().map_err(|()| {
        ApiError::invalid_field(
            "policy",
            "must be a name, or a name and a version: retrieval@3",
        )
    })
}

fn of_settings(error: PolicyError) -> ApiError {
    let PolicyError::Invalid(faults) = error else {
        return error.into();
    };
    let of_field =
        |fault: FieldError| FieldError::new(format!("settings.{}", fault.field), fault.message);
    ApiError::invalid(faults.into_iter().map(of_field).collect())
}

fn read_candidates(requests: Vec<CandidateRequest>) -> Result<Vec<Candidate>, ApiError> {
    if requests.len() > MAX_CANDIDATES {
        let rule = format!("must have at most {MAX_CANDIDATES} items");
        return Err(ApiError::invalid_field("candidates", rule));
    }

    let mut ids = HashSet::new();
    let mut together = 0;
    for (index, request) in requests.iter().enumerate() {
        let field = |name: &str| format!("candidates[{index}].{name}");
        if request.id.is_empty() || request.id.len() > 128 {
            return Err(ApiError::invalid_field(
                field("id"),
                "must have 1 to 128 characters",
            ));
        }
        if !ids.insert(&request.id) {
            return Err(ApiError::invalid_field(
                field("id"),
                "is also the id of another candidate",
            ));
        }
        let length = char_count(&request.content);
        together += length;
        if length > MAX_TEXT {
            let rule = format!("has {length} characters; at most {MAX_TEXT} are allowed");
            return Err(ApiError::invalid_field(field("content"), rule));
        }
        if !(0.0..=1.0).contains(&request.score) {
            return Err(ApiError::invalid_field(
                field("score"),
                "must be between 0 and 1",
            ));
        }
    }

    if together > MAX_TEXT_TOGETHER {
        let rule = format!(
            "have {together} characters together; at most {MAX_TEXT_TOGETHER} are allowed: send fewer or shorter ones"
        );
        return Err(ApiError::invalid_field("candidates", rule));
    }

    let read = |request: CandidateRequest| Candidate {
        id: request.id,
        content: request.content,
        score: request.score,
        timestamp_micros: request.timestamp.as_micros(),
        session_id: request.session_id.unwrap_or_default(),
        message_id: request.message_id,
        memory_type: request.memory_type.unwrap_or(MemoryType::Message),
        speaker: request.role,
    };
    Ok(requests.into_iter().map(read).collect())
}
