//! OpenAI's protocol below `/openai/v1`, and below a path that names the user and the thread. These
//! routes are not in the OpenAPI document: OpenAI's own clients know them.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::{Value, json};

use crate::base::problems;
use crate::connect::openai::{Answer, AnswerMemory, Named, Names, OpenAiError, RequestFault};
use crate::http::auth::Caller;
use crate::http::body;
use crate::http::body_budget::Reservation;
use crate::http::error::ApiError;
use crate::http::extract;
use crate::http::state::AppState;
use crate::llm::forward::{Form, ForwardError, Part};

const THREAD: &str = "x-memoir-thread";
const USER: &str = "x-memoir-user";
const CONTEXT: &str = "x-memoir-context";

/// The models whose provider speaks OpenAI's protocol.
pub async fn list_models(_: Caller, State(state): State<AppState>) -> Json<Value> {
    let models = state.llm.forward_models();
    let models = models.into_iter().map(|model| {
        json!({"id": model.id, "object": "model", "created": 0, "owned_by": model.provider})
    });
    Json(json!({"object": "list", "data": models.collect::<Vec<_>>()}))
}

pub async fn create_chat_completion(
    caller: Caller,
    State(state): State<AppState>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    forward(Form::Chat, &caller, &state, path, request).await
}

pub async fn create_response(
    caller: Caller,
    State(state): State<AppState>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    forward(Form::Responses, &caller, &state, path, request).await
}

pub async fn create_embeddings(
    caller: Caller,
    State(state): State<AppState>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    forward(Form::Embeddings, &caller, &state, path, request).await
}

async fn forward(
    form: Form,
    caller: &Caller,
    state: &AppState,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let path = path.map_err(|_| ApiError::malformed("the path is not UTF-8"))?;
    let (parts, content) = request.into_parts();
    extract::check_media_type(&parts.headers)?;
    let named = Named {
        header: names_in(&parts.headers)?,
        path: names_of(&path),
    };
    let (bytes, reservation) = body::read(content, state).await?;
    let exchange = match state.openai.read(form, &bytes, named) {
        Ok(exchange) => exchange,
        Err(error) => return refusal(error),
    };
    caller.check_model(&state.llm, "model", Some(&exchange.model))?;
    drop(bytes);
    match state.openai.send(&caller.call, exchange).await {
        Ok(answer) => Ok(respond(answer, reservation)),
        Err(error) => refusal(error),
    }
}

fn names_in(headers: &HeaderMap) -> Result<Names, ApiError> {
    let text = |name: &str| match headers.get(name) {
        None => Ok::<_, ApiError>(None),
        // Two headers may come from two proxies that disagree.
        Some(_) if headers.get_all(name).iter().count() > 1 => {
            Err(ApiError::invalid_field(name, "must be sent once"))
        }
        Some(value) => {
            let text = std::str::from_utf8(value.as_bytes());
            let text = text.map_err(|_| ApiError::invalid_field(name, "must be UTF-8"))?;
            Ok((!text.trim().is_empty()).then(|| text.to_owned()))
        }
    };
    Ok(Names {
        thread: text(THREAD)?,
        user: text(USER)?,
        context: text(CONTEXT)?,
    })
}

fn names_of(path: &RawPathParams) -> Names {
    let find = |wanted: &str| {
        let found = path.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| value.to_owned())
    };
    Names {
        thread: find("thread"),
        user: find("user"),
        context: None,
    }
}

/// The reply as it arrives. The memory of the request body is released with it.
fn respond(answer: Answer, reservation: Reservation) -> Response {
    let mut parts = answer.parts;
    let bytes = stream::poll_fn(move |context| {
        let _ = &reservation;
        parts.poll_recv(context).map(|part| {
            part.map(|part| match part {
                Part::Bytes(bytes) => Ok::<_, std::convert::Infallible>(bytes),
                Part::Begun(_) => Ok(Vec::new()),
            })
        })
    });

    let mut response = Response::new(Body::from_stream(bytes));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_str(&answer.content_type);
    let kind = kind.unwrap_or(HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_TYPE, kind);
    if let Some(memory) = answer.memory {
        tell_memory(headers, &memory);
    }

    response
}

fn tell_memory(headers: &mut HeaderMap, memory: &AnswerMemory) {
    let told = [
        ("x-memoir-thread-id", memory.thread_id.clone()),
        ("x-memoir-context-tokens", memory.context_tokens.to_string()),
        ("x-memoir-memories", memory.memories.join(",")),
    ];
    for (name, value) in told {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// A provider's own words pass through; everything else is an error of ours.
fn refusal(error: OpenAiError) -> Result<Response, ApiError> {
    Err(match error {
        OpenAiError::Request(fault) => match &fault {
            RequestFault::Malformed(message) => {
                ApiError::new(problems::MALFORMED_REQUEST, message.clone())
            }
            RequestFault::Unsupported(name) => {
                ApiError::new(problems::UNSUPPORTED_PARAMETER, fault.message()).with("param", *name)
            }
        },
        OpenAiError::Conversation(error) => error.into(),
        OpenAiError::Ended => ApiError::new(problems::SHUTTING_DOWN, "the service is stopping"),
        OpenAiError::Forward(ForwardError::Llm(error)) => error.into(),
        OpenAiError::Forward(ForwardError::Rejected {
            status,
            body,
            retry_after,
        }) => {
            let is_error = serde_json::from_str::<Value>(&body);
            if !is_error.is_ok_and(|body| body["error"].is_object()) {
                let detail = format!("the provider rejected the request with status {status}");
                return Err(ApiError::new(problems::LLM_REJECTED, detail));
            }

            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            let kind = [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )];
            let mut response = (status, kind, body).into_response();
            if let Some(wait) = retry_after {
                let wait = HeaderValue::from(wait.as_secs().max(1));
                response.headers_mut().insert(header::RETRY_AFTER, wait);
            }
            return Ok(response);
        }
    })
}
