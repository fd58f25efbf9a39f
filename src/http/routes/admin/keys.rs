//! API keys over HTTP: create, list, change and revoke. The secret appears only in the response
//! that creates the key.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::config::auth::{DayCaps, KeyLimits, Role};
use crate::http::auth::Admin;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams, moment, object_or_null};
use crate::http::idempotency;
use crate::http::page::{Page, list_query, list_response};
use crate::keys::{Key, KeyChange, Keys, NewKey, Origin, State as KeyState};

/// Usage limits of a key; an omitted field means no limit.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyLimitsRequest {
    /// Maximum requests per minute, counted across all processes; 0 means no limit.
    #[schema(maximum = 1_000_000)]
    pub requests_per_minute: u64,
    /// Models that the key may use, as `provider:model`; a trailing `*` matches any ending. An
    /// empty list allows all models.
    #[schema(max_items = 100)]
    pub models: Vec<String>,
    /// Daily caps on model usage (per UTC day), including the jobs that the key has queued.
    #[serde(deserialize_with = "object_or_null")]
    pub day: Option<KeyDayRequest>,
}

/// What a key may spend per day; 0 means no cap.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyDayRequest {
    /// Maximum number of model calls.
    pub calls: u64,
    /// Maximum number of tokens, sent and received.
    pub tokens: u64,
    /// Maximum cost in US dollars.
    pub usd: f64,
}

/// A key to create.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "name": "reader of the wiki", "space": "default", "role": "read", "expires_at": "2027-01-01T00:00:00Z",
    "limits": {"requests_per_minute": 60, "models": ["local:*"], "day": {"usd": 1.0}}
}))]
pub struct CreateKeyRequest {
    /// A human-readable name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// The only space that the key opens, or `*` for all spaces; the space of this request if
    /// omitted.
    pub space: Option<String>,
    /// The role; `user` if omitted.
    pub role: Option<Role>,
    /// When the key expires. If omitted, the key expires when the key that creates it does, or
    /// never if that key never expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "object_or_null")]
    pub limits: Option<KeyLimitsRequest>,
}

/// A change to a key; omitted fields stay unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "reader of the wiki", "expires_at": "never"}))]
pub struct UpdateKeyRequest {
    /// The new name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// The new expiry: a timestamp, or `never`.
    pub expires_at: Option<String>,
    /// The new limits, which replace all existing ones.
    #[serde(default, deserialize_with = "object_or_null")]
    pub limits: Option<KeyLimitsRequest>,
}

/// A key without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyResponse {
    pub id: String,
    pub name: String,
    /// `api`: created through the API. `config`: defined in `auth.keys`; change it there.
    pub origin: String,
    /// The first characters of the secret; null for a key from the configuration.
    pub prefix: Option<String>,
    /// The only space that the key opens; `*` for all spaces.
    pub space: String,
    pub role: String,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    pub limits: KeyLimitsResponse,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
    /// When the key was last used, accurate to about five minutes; null for a key from the
    /// configuration.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Timestamp>,
}

/// The limits in force; 0 or an empty list means no limit.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyLimitsResponse {
    pub requests_per_minute: u64,
    pub models: Vec<String>,
    pub day: KeyDayResponse,
}

/// The daily caps in force; 0 means no cap.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyDayResponse {
    pub calls: u64,
    pub tokens: u64,
    pub usd: f64,
}

/// A new key with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedKeyResponse {
    /// The secret that callers send as `Authorization: Bearer`. It is shown only once, because
    /// memoir stores only its hash.
    pub secret: String,
    pub key: KeyResponse,
}

list_response! {
    /// A page of keys.
    KeyListResponse of KeyResponse
}

list_query! {
    /// Filters and pagination of the key list.
    ListKeysQuery {
        /// Only keys that are limited to this space.
        space: Option<String>,
    }
}

/// Create a key
///
/// The response contains the secret, which memoir shows only once because it stores only the hash.
/// `Idempotency-Key` is therefore rejected; if you lose the response, revoke the key and create
/// another one.
///
/// No key can create a key with more rights than its own: an admin of one space can create keys
/// only for that space, no key can outlive the key that created it, and a key with limits cannot
/// create keys. The first key of a service must be an admin key for all spaces. Once it exists,
/// every request needs a key.
#[utoipa::path(
    post, path = "/v1/admin/keys", tag = "admin", operation_id = "create_key", request_body = CreateKeyRequest,
    responses(
        (status = 201, description = "The new key with its secret.", body = CreatedKeyResponse, headers(("Location" = String, description = "The URL of the new key."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_key(
    Admin(caller): Admin,
    State(keys): State<Keys>,
    headers: HeaderMap,
    JsonBody { value: request, .. }: JsonBody<CreateKeyRequest>,
) -> Result<Response, ApiError> {
    if headers.contains_key(idempotency::HEADER) {
        let rule =
            "is not supported here: the response contains a secret, which memoir does not store";
        return Err(ApiError::invalid_field("Idempotency-Key", rule));
    }

    let space = match request.space.as_deref() {
        None => Some(caller.call.space.clone()),
        Some("*") => None,
        Some(name) => Some(parse_space("space", name)?),
    };

    let new = NewKey {
        name: request.name,
        space,
        role: request.role.unwrap_or(Role::User),
        expires_at: request.expires_at,
        limits: request.limits.unwrap_or_default().into(),
    };

    let (key, secret) = keys.make(caller.key.as_deref(), new).await?;
    let location = idempotency::location(&format!("/v1/admin/keys/{}", key.id))?;
    let body = CreatedKeyResponse {
        secret,
        key: KeyResponse::of(&key, caller.call.now),
    };

    Ok((StatusCode::CREATED, [location], Json(body)).into_response())
}

/// List keys
///
/// Returns keys without their secrets: first the keys from the configuration, then the others,
/// oldest first. An admin of one space sees only the keys of that space.
#[utoipa::path(
    get, path = "/v1/admin/keys", tag = "admin", operation_id = "list_keys", params(ListKeysQuery),
    responses((status = 200, description = "A page of keys.", body = KeyListResponse))
)]
pub async fn list_keys(
    Admin(caller): Admin,
    State(keys): State<Keys>,
    QueryParams(query): QueryParams<ListKeysQuery>,
) -> Result<Json<KeyListResponse>, ApiError> {
    let space = query
        .space
        .as_deref()
        .map(|name| parse_space("space", name))
        .transpose()?;

    let page = Page::new(query.limit, query.cursor, format!("keys|{space:?}"))?;
    let after: Option<[String; 1]> = page.after_texts()?;
    let mut found = keys.list(caller.key.as_deref(), space.as_ref()).await?;
    found.retain(|key| after.as_ref().is_none_or(|[after]| key.place() > *after));
    Ok(page.list(
        found,
        |key| [key.place()],
        |key| KeyResponse::of(&key, caller.call.now),
    ))
}

/// Get a key
///
/// Returns the key without its secret.
#[utoipa::path(
    get, path = "/v1/admin/keys/{id}", tag = "admin", operation_id = "get_key",
    params(("id" = String, Path, description = "The key's id.")),
    responses((status = 200, description = "The key.", body = KeyResponse))
)]
pub async fn get_key(
    Admin(caller): Admin,
    State(keys): State<Keys>,
    PathId(id): PathId,
) -> Result<Json<KeyResponse>, ApiError> {
    let key = keys.find(caller.key.as_deref(), &id).await?;
    Ok(Json(KeyResponse::of(&key, caller.call.now)))
}

/// Update a key
///
/// Changes the name, the expiry or the limits. The role and the space cannot be changed; create
/// another key instead. Jobs that are already queued keep their daily caps.
#[utoipa::path(
    patch, path = "/v1/admin/keys/{id}", tag = "admin", operation_id = "update_key", request_body = UpdateKeyRequest,
    params(("id" = String, Path, description = "The key's id.")),
    responses(
        (status = 200, description = "The updated key.", body = KeyResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_key(
    Admin(caller): Admin,
    State(keys): State<Keys>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<UpdateKeyRequest>,
) -> Result<Json<KeyResponse>, ApiError> {
    let expires_at = match request.expires_at.as_deref() {
        None => None,
        Some("never") => Some(None),
        Some(text) => Some(moment("expires_at", Some(text))?),
    };

    let change = KeyChange {
        name: request.name,
        expires_at,
        limits: request.limits.map(Into::into),
    };

    let key = keys.update(caller.key.as_deref(), &id, change).await?;
    Ok(Json(KeyResponse::of(&key, caller.call.now)))
}

/// Revoke a key
///
/// The key stops working in every process within two seconds. Requests and jobs that it has already
/// started continue. A key from the configuration cannot be revoked here (409). Revoking a key
/// twice has no further effect.
#[utoipa::path(
    delete, path = "/v1/admin/keys/{id}", tag = "admin", operation_id = "revoke_key",
    params(("id" = String, Path, description = "The key's id.")),
    responses(
        (status = 204, description = "The key is revoked."),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn revoke_key(
    Admin(caller): Admin,
    State(keys): State<Keys>,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    keys.revoke(caller.key.as_deref(), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse_space(field: &str, name: &str) -> Result<Space, ApiError> {
    name.parse()
        .map_err(|()| ApiError::invalid_field(field, format!("must be {}", Space::RULE)))
}

impl KeyResponse {
    fn of(key: &Key, now: Timestamp) -> Self {
        let state = match key.state(now) {
            KeyState::Active => "active",
            KeyState::Expired(_) => "expired",
            KeyState::Revoked(_) => "revoked",
        };

        let day = key.limits.day;
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            origin: if key.origin == Origin::Config {
                "config"
            } else {
                "api"
            }
            .to_owned(),
            prefix: key.prefix.clone(),
            space: key.space.as_ref().map_or("*", Space::as_str).to_owned(),
            role: key.role.into_str().to_owned(),
            state: state.to_owned(),
            limits: KeyLimitsResponse {
                requests_per_minute: key.limits.requests_per_minute,
                models: key.limits.models.clone(),
                day: KeyDayResponse {
                    calls: day.calls,
                    tokens: day.tokens,
                    usd: day.usd,
                },
            },
            expires_at: key.expires_at,
            created_at: key.created_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

impl From<KeyLimitsRequest> for KeyLimits {
    fn from(limits: KeyLimitsRequest) -> Self {
        let day = limits.day.unwrap_or_default();
        let day = DayCaps {
            calls: day.calls,
            tokens: day.tokens,
            usd: day.usd,
        };

        Self {
            requests_per_minute: limits.requests_per_minute,
            models: limits.models,
            day,
        }
    }
}
