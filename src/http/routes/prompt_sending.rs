//! Prompts: estimate and send one.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;
use utoipa::ToSchema;

use crate::config::llm::Caps;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::event_stream::{self, event};
use crate::http::extract::JsonBody;
use crate::http::trace::RequestIdentity;
use crate::llm::{Llm, Session, Written};
use crate::model::llm_call::{LlmCall, Payer};
use crate::workbench::ceiling::PromptEstimate;
use crate::workbench::runs::{PromptRun, RunKind};
use crate::workbench::sending::{EstimateInput, ReadyPrompt, SendInput, Sender, SentPrompt, Tell};
use crate::workbench::{Workbench, WorkbenchError};

/// A reply, and the model calls that were made for it.
#[derive(Debug, Serialize, ToSchema)]
pub struct SendPromptResponse {
    #[serde(flatten)]
    pub sent: SentPrompt,
    /// Every attempt, in order. The reply is not part of them and is not stored with them.
    pub responses: Vec<LlmCall>,
}

/// Estimate a prompt
///
/// Returns the token count of a prompt, its maximum cost, and whether it is within the ceilings of
/// the workspace. Nothing is sent or stored.
#[utoipa::path(
    post, path = "/v1/prompts/estimate", tag = "prompts", operation_id = "estimate_prompt", request_body = EstimateInput,
    responses((status = 200, description = "The estimate.", body = PromptEstimate))
)]
pub async fn estimate_prompt(
    caller: Caller,
    State(workbench): State<Workbench>,
    JsonBody { value: input, .. }: JsonBody<EstimateInput>,
) -> Result<Json<PromptEstimate>, ApiError> {
    Ok(Json(workbench.estimate_prompt(&caller.call, &input).await?))
}

/// Send a prompt
///
/// Sends a prompt exactly as it is, and returns the reply. A prompt over a ceiling of the workspace
/// is rejected with 422 `prompt_over_ceiling` before any call. If the model fails, memoir calls the
/// fallback model once. With `thread_id`, the reply is stored as a message of the thread, after
/// `user_message` if you send one. An `external_reply` is stored in the same way, without a call.
/// Nothing else is stored.
///
/// With `stream: true` or `Accept: text/event-stream` the response is a stream of server-sent
/// events, each with JSON as its data:
///
/// - `started`: `{"run_id", "estimate"}`, first.
/// - `reply`: `{"text"}`, the next piece of the reply.
/// - `reply_restarted`: a model begins again; discard the pieces so far.
/// - `result`: the whole response, last.
/// - `problem`: a problem document, instead of `result`, last.
///
/// To end the call immediately, disconnect, or use `POST /v1/runs/{run_id}/cancel`.
#[utoipa::path(
    post, path = "/v1/prompts/send", tag = "prompts", operation_id = "send_prompt", request_body = SendInput,
    responses(
        (status = 200, description = "The reply.", content(
            (SendPromptResponse = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = 404, response = crate::http::openapi::ProblemResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
        (status = 504, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn send_prompt(
    caller: Caller,
    State(workbench): State<Workbench>,
    State(llm): State<Llm>,
    Extension(identity): Extension<RequestIdentity>,
    headers: HeaderMap,
    JsonBody { value: input, .. }: JsonBody<SendInput>,
) -> Result<Response, ApiError> {
    caller.check_model(&llm, "model", input.model.as_deref())?;
    let stream = input.stream || event_stream::is_wanted(&headers);
    let (model, id) = (input.model.clone(), input.run_id.clone());
    let runs = workbench.runs();
    let run = runs.begin(&caller.call, id.as_deref(), RunKind::Send)?;
    let payer = Payer::PromptRun(run.id.to_string());
    let session = Session::of(caller.call.clone(), payer, Caps::default()).with_model(model);
    let ready = run
        .unless_cancelled(workbench.prepare_send(&caller.call, input))
        .await?;

    let sending = Sending {
        workbench,
        session,
        run,
    };
    if stream {
        return Ok(sending.stream(ready, identity.request_id));
    }

    Ok(Json(sending.send(ready, None).await?).into_response())
}

/// A prompt on its way.
struct Sending {
    workbench: Workbench,
    session: Session,
    run: PromptRun,
}

impl Sending {
    async fn send(
        &self,
        ready: ReadyPrompt,
        tell: Option<Tell<'_>>,
    ) -> Result<SendPromptResponse, WorkbenchError> {
        let sender = Sender {
            session: &self.session,
            run: &self.run,
        };
        let sent = self.workbench.send(&sender, ready, tell).await?;
        let responses = self.session.calls();
        Ok(SendPromptResponse { sent, responses })
    }

    fn stream(self, ready: ReadyPrompt, request_id: String) -> Response {
        let started = json!({"run_id": self.run.id.as_str(), "estimate": ready.estimate()});
        let first = event("started", &started);
        let (teller, steps) = unbounded_channel();
        let work = async move {
            let tell = |written: Written| {
                let _ = teller.send(written);
            };
            match self.send(ready, Some(&tell)).await {
                Ok(sent) => event("result", &sent),
                Err(error) => event_stream::problem(&ApiError::from(error), &request_id),
            }
        };

        event_stream::respond(Some(first), steps, show, Box::pin(work))
    }
}

fn show(written: Written) -> Event {
    match written {
        Written::Piece(text) => event("reply", &json!({ "text": text })),
        Written::Restarted => event("reply_restarted", &json!({})),
    }
}
