//! Messages of a thread: store one or many, and list them.

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::conversation::Conversation;
use crate::conversation::context::{ContextInput, Rank};
use crate::conversation::intent::MAX_QUERY_CHARS;
use crate::conversation::messages::{Appended, NewMessage, Wanted};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonListBody, PathId, QueryParams, moment, object_list, objects};
use crate::http::idempotency::{Begun, Idempotency, location};
use crate::http::page;
use crate::http::routes::context::{ContextResponse, context_session};
use crate::http::routes::memories::{MemoryListResponse, MemoryResponse};
use crate::http::state::AppState;
use crate::http::trace::RequestIdentity;
use crate::model::memory::{FileHint, Memory};
use crate::store::TurnPage;

/// A message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    /// `user` (the default), `assistant` or `system`.
    #[serde(default)]
    pub role: Option<String>,
    /// The name of the speaker, if several people share a role. Searches match it too.
    #[serde(default)]
    #[schema(max_length = 100)]
    pub name: Option<String>,
    /// What was said, verbatim.
    #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
    pub content: String,
    /// `chat` (the default), or `external` for a reply from another program, which is stored only
    /// once.
    #[serde(default)]
    pub source: Option<String>,
    /// When it was said, for imports; now if omitted.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    /// Tags to find the message by.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub tags: Vec<String>,
    /// The file that it is about.
    #[serde(default)]
    pub file_path: Option<String>,
    /// SHA-256 of the version of the file that it is about.
    #[serde(default)]
    pub file_sha256: Option<String>,
    /// When that version of the file was last modified.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub file_mtime: Option<String>,
}

/// One message with its options, or a list of messages.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"role": "user", "content": "I want to check on order #5678"}))]
pub struct CreateMessagesRequest {
    /// `user` (the default), `assistant` or `system`.
    #[serde(default)]
    pub role: Option<String>,
    /// The name of the speaker, if several people share a role. Searches match it too.
    #[serde(default)]
    #[schema(max_length = 100)]
    pub name: Option<String>,
    /// What was said, verbatim.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
    pub content: Option<String>,
    /// `chat` (the default), or `external` for a reply from another program, which is stored only
    /// once.
    #[serde(default)]
    pub source: Option<String>,
    /// When it was said, for imports; now if omitted.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    /// Tags to find the message by.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub tags: Vec<String>,
    /// The file that it is about.
    #[serde(default)]
    pub file_path: Option<String>,
    /// SHA-256 of the version of the file that it is about.
    #[serde(default)]
    pub file_sha256: Option<String>,
    /// When that version of the file was last modified.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub file_mtime: Option<String>,
    /// Several messages in the order of the conversation, instead of `content`. The body may also
    /// be just this list.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 1000)]
    pub messages: Option<Vec<MessageRequest>>,
    /// Whether a model classifies the messages in the background; true if omitted.
    #[serde(default)]
    pub enrich: Option<bool>,
    /// Whether a job extracts facts about the user from the user's messages. Each fact names the
    /// message and the characters that state it. False if omitted.
    #[serde(default)]
    pub extract: Option<bool>,
    /// Whether the response contains the context of the message; only for a single message.
    #[serde(default)]
    pub with_context: Option<bool>,
    /// Maximum tokens of that context; 2000 if omitted.
    #[serde(default)]
    #[schema(minimum = 10, maximum = 200_000)]
    pub max_tokens: Option<usize>,
    /// How the memories of that context are found, as for `POST /v1/context`: `search` (the default)
    /// or `staged`.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// For that context, with `rank: search`: 1 adds the messages before and after each message
    /// found; 0 (the default) adds none.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub expand: Option<usize>,
}

/// The body: an object, or a list of messages.
#[derive(Debug)]
pub struct MessagesBody(CreateMessagesRequest);

impl<'de> Deserialize<'de> for MessagesBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = CreateMessagesRequest;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a message, or a list of messages")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                CreateMessagesRequest::deserialize(MapAccessDeserializer::new(map))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                let messages = object_list(SeqAccessDeserializer::new(seq))?;
                Ok(CreateMessagesRequest {
                    role: None,
                    name: None,
                    content: None,
                    source: None,
                    created_at: None,
                    tags: Vec::new(),
                    file_path: None,
                    file_sha256: None,
                    file_mtime: None,
                    messages: Some(messages),
                    enrich: None,
                    extract: None,
                    with_context: None,
                    max_tokens: None,
                    rank: None,
                    expand: None,
                })
            }
        }

        deserializer.deserialize_any(Either).map(Self)
    }
}

/// A stored message.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedMessageResponse {
    #[serde(flatten)]
    pub memory: MemoryResponse,
    /// Whether the message had been stored before; if so, this is the earlier message.
    pub duplicate: bool,
    /// The job that extracts facts from it; null without `extract`.
    pub extraction_job_id: Option<String>,
    /// The context of the message, without the message itself; null without `with_context`.
    pub context: Option<ContextResponse>,
}

/// Stored messages, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedMessagesResponse {
    pub items: Vec<CreatedMessageResponse>,
    /// Number of messages that were stored.
    pub stored: usize,
    /// Number of messages that had been stored before.
    pub duplicates: usize,
}

/// The response to a single message, or to several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum MessagesResponse {
    One(Box<CreatedMessageResponse>),
    Many(CreatedMessagesResponse),
}

/// Filters and pagination of the message list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListMessagesQuery {
    /// The end user; a thread of another user is treated as not found.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    user_id: Option<String>,
    /// Whether the newest come first; by default the oldest do.
    #[serde(default)]
    newest_first: Option<bool>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// Store messages
///
/// Stores a message, or a list of up to 1,000, and returns at once. A model classifies them in the
/// background (`enrichment_state`), with several messages per call. A message with `source:
/// external` or its own `created_at` is stored only once, even if you send it again.
///
/// With `extract`, a job (`extraction_job_id`) also extracts facts from the messages whose role is
/// `user`. A fact is stored only if a quote from its message supports it. A fact that changes an
/// earlier one replaces it (`GET /v1/memories`).
///
/// With `with_context`, the response also contains the context of the message, as `POST
/// /v1/context` would return it just before the message was stored.
#[utoipa::path(
    post, path = "/v1/threads/{id}/messages", tag = "conversations", operation_id = "create_messages", request_body = CreateMessagesRequest,
    params(("id" = String, Path, description = "The thread's id."), super::UserQuery, ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses((status = 201, description = "The stored message, or a list of them.", body = MessagesResponse, headers(("Location" = String, description = "The URL of the first message."))))
)]
pub async fn create_messages(
    caller: Caller,
    State(state): State<AppState>,
    Extension(identity): Extension<RequestIdentity>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<super::UserQuery>,
    headers: HeaderMap,
    JsonListBody {
        value: MessagesBody(request),
        bytes,
        ..
    }: JsonListBody<MessagesBody>,
) -> Result<Response, ApiError> {
    // The thread is part of the request: the same body may go to another one.
    let signed = [id.as_bytes(), b"\n", &bytes].concat();
    let idempotency = Idempotency::of(&headers, "create_messages", &signed)?;
    // Before the thread is looked up, which may be gone.
    if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        return Ok(response);
    }

    let with_context = request.with_context.unwrap_or(false);
    let many = request.messages.is_some();
    if with_context && many {
        return Err(ApiError::invalid_field(
            "with_context",
            "is allowed only for a single message",
        ));
    }

    let asked = ContextInput {
        query: request.content.clone().unwrap_or_default(),
        max_tokens: request.max_tokens,
        rank: request.rank.unwrap_or_default(),
        expand: request.expand.unwrap_or_default(),
        ..ContextInput::default()
    };
    // Before the message is stored: a refused request leaves nothing behind.
    asked.check_size()?;
    let wanted = Wanted {
        enrich: request.enrich.unwrap_or(true),
        extract: request.extract.unwrap_or(false),
    };
    let new = new_messages(request)?;
    let ready = state
        .conversation
        .prepare_messages(
            &caller.space,
            &id,
            query.user_id.as_deref(),
            new,
            wanted,
            caller.now,
        )
        .await?;

    let payer = caller.budget();
    let stored = state.store.retry_as("create_messages", || async {
        let mut tx = match idempotency.begin(&state.store, &caller).await? {
            Begun::Answered(response) => return Ok(response),
            Begun::Fresh(tx) => tx,
        };

        let appended = state
            .conversation
            .append(&mut tx, &caller.space, &ready, payer.as_ref(), caller.now)
            .await?;

        let first = appended.first().map(|one| one.memory.id.to_string());
        let headers = [location(&format!(
            "/v1/memories/{}",
            first.unwrap_or_default()
        ))?];
        let body = shown(&appended, many, &caller);
        idempotency
            .finish(tx, &caller, StatusCode::CREATED, headers, &body)
            .await
    });

    let response = stored.await?;
    state.conversation.announce();
    if !with_context {
        return Ok(response);
    }

    add_context(&caller, &state, &identity, response, asked).await
}

/// List messages
///
/// Returns the messages of a thread in the order of the conversation: by turn, and within a turn as
/// they were stored, whatever their `created_at`. The newest come first if `newest_first` is set.
#[utoipa::path(
    get, path = "/v1/threads/{id}/messages", tag = "conversations", operation_id = "list_messages",
    params(("id" = String, Path, description = "The thread's id."), ListMessagesQuery),
    responses((status = 200, description = "A page of messages.", body = MemoryListResponse))
)]
pub async fn list_messages(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<ListMessagesQuery>,
) -> Result<Json<MemoryListResponse>, ApiError> {
    let thread = conversation
        .thread(&caller.space, &id, query.user_id.as_deref())
        .await?;
    let limit = page::limit(query.limit)?;
    let newest_first = query.newest_first.unwrap_or(false);
    let fingerprint = format!("messages by turn|{}|{newest_first}", thread.id);
    let page = TurnPage {
        from: page::decode_numbers(query.cursor.as_deref(), &fingerprint)?,
        newest_first,
        limit: limit + 1,
    };
    let found = conversation
        .list_messages(&caller.space, &thread.id, &page)
        .await?;

    let key = |memory: &Memory| (memory.turn_index, memory.seq);
    let (items, next_cursor) = page::cut(found, limit, &fingerprint, key);
    let shown = |memory: &Memory| MemoryResponse::of(memory, caller.now);
    Ok(Json(MemoryListResponse {
        items: items.iter().map(shown).collect(),
        next_cursor,
    }))
}

fn new_messages(request: CreateMessagesRequest) -> Result<Vec<NewMessage>, ApiError> {
    let list = match (request.messages, request.content) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid_field(
                "messages",
                "send either `content` or `messages`, not both",
            ));
        }
        (Some(messages), None) => messages,
        (None, content) => vec![MessageRequest {
            role: request.role,
            name: request.name,
            content: content.ok_or_else(|| {
                ApiError::invalid_field("content", "send `content` or `messages`")
            })?,
            source: request.source,
            created_at: request.created_at,
            tags: request.tags,
            file_path: request.file_path,
            file_sha256: request.file_sha256,
            file_mtime: request.file_mtime,
        }],
    };

    let each = list.into_iter().map(|message| {
        Ok(NewMessage {
            role: message.role,
            name: message.name,
            content: message.content,
            source: message.source,
            created_at: moment("created_at", message.created_at.as_deref())?,
            tags: message.tags,
            redacted: false,
            file: FileHint {
                path: message.file_path,
                sha256: message.file_sha256,
                mtime: moment("file_mtime", message.file_mtime.as_deref())?,
            },
        })
    });
    each.collect()
}

fn shown(appended: &[Appended], many: bool, caller: &Caller) -> MessagesResponse {
    let mut items: Vec<CreatedMessageResponse> = appended
        .iter()
        .map(|one| CreatedMessageResponse {
            memory: MemoryResponse::of(&one.memory, caller.now),
            duplicate: one.duplicate,
            extraction_job_id: one.extraction_job.clone(),
            context: None,
        })
        .collect();

    if !many && items.len() == 1 {
        return MessagesResponse::One(Box::new(items.remove(0)));
    }

    let duplicates = items.iter().filter(|item| item.duplicate).count();
    MessagesResponse::Many(CreatedMessagesResponse {
        stored: items.len() - duplicates,
        duplicates,
        items,
    })
}

/// Adds the context to the response of a stored message. It is assembled after the commit, because
/// no transaction may wait for a model; a repeated request gets a new one.
async fn add_context(
    caller: &Caller,
    state: &AppState,
    identity: &RequestIdentity,
    response: Response,
    asked: ContextInput,
) -> Result<Response, ApiError> {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX)
        .await
        .map_err(|error| ApiError::internal(error.to_string()))?;
    let mut value: Value =
        serde_json::from_slice(&bytes).map_err(|error| ApiError::internal(error.to_string()))?;
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let input = ContextInput {
        query: asked.query.chars().take(MAX_QUERY_CHARS).collect(),
        user_id: text("user_id"),
        thread_id: Some(text("thread_id")),
        exclude_message_id: Some(text("id")),
        ..asked
    };

    let (id, session) = context_session(caller, identity, &input.user_id);
    let context = state
        .conversation
        .context(&session, &input, caller.now)
        .await?;
    let context = ContextResponse::of(id, context, &session, caller.now);
    value["context"] =
        serde_json::to_value(context).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Response::from_parts(parts, Body::from(value.to_string())))
}
