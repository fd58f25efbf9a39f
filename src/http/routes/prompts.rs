//! Prompts: compose one.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::config::llm::Caps;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::http::routes::jobs::LlmCallResponse;
use crate::http::trace::RequestIdentity;
use crate::llm::Session;
use crate::model::llm_call::Payer;
use crate::workbench::Workbench;
use crate::workbench::compose::ComposedPrompt;
use crate::workbench::input::ComposeInput;
use crate::workbench::runs::{PromptRun, RunKind};

/// A composed prompt and the model calls that it took.
#[derive(Debug, Serialize, ToSchema)]
pub struct PromptResponse {
    #[serde(flatten)]
    pub composed: ComposedPrompt,
    /// Every attempt, in order. Their outputs are returned here and not stored.
    pub responses: Vec<LlmCallResponse>,
}

/// Compose a prompt
///
/// Builds a prompt of up to five blocks in the order of their authority: hard rules, project memory,
/// injected files, condensed context (`s_ctx`), task. The stages run in a fixed order: the task is
/// shaped, files are injected, chunks of the eligible sources are retrieved, ranked, checked for
/// entailment and condensed to cited facts, the headers are audited, and retrieval runs once more if
/// the audit changes the scope and cites facts for it. A stage that fails or takes too long falls
/// back, which the trace shows. A prompt over a ceiling is refused with 422 `prompt_over_ceiling`,
/// if possible before any model is called. Nothing of the prompt is stored.
#[utoipa::path(
    post, path = "/v1/prompts", tag = "prompts", operation_id = "compose_prompt", request_body = ComposeInput,
    responses(
        (status = 200, description = "The prompt, and why everything is in it.", body = PromptResponse),
        (status = 404, response = crate::http::openapi::ProblemResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
        (status = 422, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn compose_prompt(
    caller: Caller,
    State(workbench): State<Workbench>,
    Extension(identity): Extension<RequestIdentity>,
    JsonBody { value: input, .. }: JsonBody<ComposeInput>,
) -> Result<Json<PromptResponse>, ApiError> {
    let id = input.run_id.as_deref();
    let run = workbench
        .runs()
        .begin(&caller.space, id, RunKind::Compose, caller.now)?;
    let session = run_session(&caller, &identity, &run).with_model(input.model.clone());
    let composed = workbench
        .compose(&session, &run, &input, caller.now)
        .await?;

    Ok(Json(PromptResponse {
        composed,
        responses: session.calls().into_iter().map(Into::into).collect(),
    }))
}

/// A run pays for its own calls, and gives the same answer to the same request.
pub fn run_session(caller: &Caller, identity: &RequestIdentity, run: &PromptRun) -> Session {
    let payer = Payer::PromptRun(run.id.to_string());
    Session::of(caller.space.clone(), payer, Caps::default())
        .deterministic(true)
        .traced_by(Some(identity.traceparent()))
        .within(caller.budget())
}
