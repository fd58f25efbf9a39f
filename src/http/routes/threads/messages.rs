//! Messages of a thread: store one or many, and list them.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::conversation::Conversation;
use crate::conversation::context::{ContextInput, Rank};
use crate::conversation::intent::MAX_QUERY_CHARS;
use crate::conversation::messages::{Appended, NewMessage, ThreadRef, Wanted, message_fields};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonListBody, PathId, QueryParams, object_list, objects};
use crate::http::idempotency::{Created, Idempotency};
use crate::http::page::{Page, list_query};
use crate::http::routes::context::{ContextResponse, context_session};
use crate::http::routes::memories::{MemoryListResponse, MemoryResponse};
use crate::http::state::AppState;
use crate::model::memory::Memory;
use crate::store::{TurnPage, Tx};

message_fields! {
    /// One message with its options, or a list of messages.
    #[derive(Debug, Default, Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(example = json!({"role": "user", "content": "I want to check on order #5678"}))]
    CreateMessagesRequest {
        content: Option<String>,
        /// Several messages in the order of the conversation, instead of `content`. The body may also
        /// be just this list.
        #[serde(default, deserialize_with = "objects")]
        #[schema(max_items = 1000)]
        pub messages: Option<Vec<NewMessage>>,
        /// Whether a model classifies the messages in the background; true if omitted.
        pub enrich: Option<bool>,
        /// Whether a job extracts facts about the user from the user's messages. Each fact names the
        /// message and the characters that state it. False if omitted.
        pub extract: Option<bool>,
        /// Whether the response contains the context of the message; only for a single message.
        pub with_context: Option<bool>,
        /// Maximum tokens of that context; 2000 if omitted.
        #[schema(minimum = 10, maximum = 200_000)]
        pub max_tokens: Option<usize>,
        /// How the memories of that context are found, as for `POST /v1/context`: `auto` (the default),
        /// `search` or `staged`.
        pub rank: Option<Rank>,
        /// For that context: whether a model analyses the message first; true if omitted. Without, the
        /// response comes as fast as the search.
        pub analyze: Option<bool>,
        /// For that context: 1 adds the messages before and after each message found, as long as there
        /// are fewer than 20 memories; 0 (the default) adds none.
        #[schema(minimum = 0, maximum = 1)]
        pub expand: Option<usize>,
    }
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
                    messages: Some(messages),
                    ..CreateMessagesRequest::default()
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

/// The end user who has the thread.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UserOfNameQuery {
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    pub user_id: Option<String>,
}

list_query! {
    /// Filters and pagination of the message list.
    ListMessagesQuery {
        /// The end user; a thread of another user is treated as not found.
        #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
        user_id: Option<String>,
        /// Whether the newest come first; by default the oldest do.
        newest_first: Option<bool>,
    }
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
    PathId(id): PathId,
    QueryParams(query): QueryParams<super::UserQuery>,
    headers: HeaderMap,
    JsonListBody(body): JsonListBody<MessagesBody>,
) -> Result<Response, ApiError> {
    // The thread is part of the request: the same body may go to another one.
    let signed = [id.as_bytes(), b"\n", &body.bytes].concat();
    let idempotency = Idempotency::of(&headers, "create_messages", &signed)?;
    let user_id = query.user_id.as_deref();
    let to = (ThreadRef::Id(&id), user_id);
    store_messages(&caller, &state, to, &idempotency, body.value).await
}

/// Store messages by the name of their thread
///
/// Stores messages as `POST /v1/threads/{id}/messages` does, in the thread of the user that has this
/// `external_id`. If there is none, it is created with them, so that one request suffices.
#[utoipa::path(
    post, path = "/v1/threads/by-name/{external_id}/messages", tag = "conversations", operation_id = "create_messages_by_name", request_body = CreateMessagesRequest,
    params(("external_id" = String, Path, description = "Your name for the thread: 1 to 128 characters, percent-encoded. A UUID is used as the id.", min_length = 1, max_length = 128), UserOfNameQuery, ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses((status = 201, description = "The stored message, or a list of them.", body = MessagesResponse, headers(("Location" = String, description = "The URL of the first message."))))
)]
pub async fn create_messages_by_name(
    caller: Caller,
    State(state): State<AppState>,
    PathId(name): PathId,
    QueryParams(query): QueryParams<UserOfNameQuery>,
    headers: HeaderMap,
    JsonListBody(body): JsonListBody<MessagesBody>,
) -> Result<Response, ApiError> {
    let user_id = query.user_id.as_deref();
    let place = format!("{}\n{name}\n", user_id.unwrap_or_default());
    let signed = [place.as_bytes(), &body.bytes].concat();
    let idempotency = Idempotency::of(&headers, "create_messages_by_name", &signed)?;
    let to = (ThreadRef::Name(&name), user_id);
    store_messages(&caller, &state, to, &idempotency, body.value).await
}

async fn store_messages(
    caller: &Caller,
    state: &AppState,
    (thread, user_id): (ThreadRef<'_>, Option<&str>),
    idempotency: &Idempotency,
    MessagesBody(request): MessagesBody,
) -> Result<Response, ApiError> {
    // Before the thread is looked up, which may be gone.
    if let Some(response) = idempotency.answered(&state.store, caller).await? {
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
        skip_analysis: request.analyze == Some(false),
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
        .prepare_messages(&caller.call, thread, user_id, new, wanted)
        .await?;

    let ready = &ready;
    let add = |mut tx: Tx| async move {
        let appended = state
            .conversation
            .append(&mut tx, &caller.call, ready)
            .await?;

        let first = appended.first().map(|one| one.memory.id.to_string());
        let path = format!("/v1/memories/{}", first.unwrap_or_default());
        Ok((tx, Created::at(&path, shown(&appended, many, caller))?))
    };

    let response = idempotency.create(state, caller, add).await?;
    state.conversation.announce();
    if !with_context {
        return Ok(response);
    }

    add_context(caller, state, response, asked).await
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
        .thread(&caller.call, &id, query.user_id.as_deref())
        .await?;
    let newest_first = query.newest_first.unwrap_or(false);
    let fingerprint = format!("messages by turn|{}|{newest_first}", thread.id);
    let page = Page::new(query.limit, query.cursor, fingerprint)?;
    let wanted = TurnPage {
        from: page.after()?,
        newest_first,
        limit: page.rows(),
    };
    let found = conversation
        .list_messages(&caller.call, &thread.id, &wanted)
        .await?;

    let key = |memory: &Memory| (memory.turn_index, memory.seq);
    Ok(page.list(found, key, |memory| {
        MemoryResponse::of(&memory, caller.call.now)
    }))
}

fn new_messages(request: CreateMessagesRequest) -> Result<Vec<NewMessage>, ApiError> {
    match (request.messages, request.content) {
        (Some(_), Some(_)) => Err(ApiError::invalid_field(
            "messages",
            "send either `content` or `messages`, not both",
        )),
        (Some(messages), None) => Ok(messages),
        (None, None) => Err(ApiError::invalid_field(
            "content",
            "send `content` or `messages`",
        )),
        (None, Some(content)) => Ok(vec![NewMessage {
            role: request.role,
            name: request.name,
            content,
            source: request.source,
            created_at: request.created_at,
            tags: request.tags,
            file_path: request.file_path,
            file_sha256: request.file_sha256,
            file_mtime: request.file_mtime,
            redacted: false,
        }]),
    }
}

fn shown(appended: &[Appended], many: bool, caller: &Caller) -> MessagesResponse {
    let mut items: Vec<CreatedMessageResponse> = appended
        .iter()
        .map(|one| CreatedMessageResponse {
            memory: MemoryResponse::of(&one.memory, caller.call.now),
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

    let (id, session) = context_session(&caller.call, &input.user_id);
    let context = state.conversation.context(&session, &input).await?;
    let context = ContextResponse::of(id, context, &session, caller.call.now);
    value["context"] =
        serde_json::to_value(context).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Response::from_parts(parts, Body::from(value.to_string())))
}
