//! Prompts: compose one.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::config::llm::Caps;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::llm_call::{LlmCall, Payer};
use crate::workbench::Workbench;
use crate::workbench::compose::ComposedPrompt;
use crate::workbench::input::ComposeInput;
use crate::workbench::runs::{PromptRun, RunKind};

/// A composed prompt, and the model calls that were made for it.
#[derive(Debug, Serialize, ToSchema)]
pub struct PromptResponse {
    #[serde(flatten)]
    pub composed: ComposedPrompt,
    /// Every attempt, in order. Their outputs are returned here and not stored.
    pub responses: Vec<LlmCall>,
}

/// Compose a prompt
///
/// Builds a prompt of up to five blocks, in the order of their authority: hard rules, project
/// memory, injected files, condensed context (`s_ctx`), task. The stages always run in the same
/// order:
///
/// 1. Shape the task: a model states its intent, role and form as headers.
/// 2. Inject the files.
/// 3. Retrieve chunks of the eligible sources, rank them, drop those that do not support the task,
///    and condense the rest to cited facts.
/// 4. Audit the headers against the facts. If the audit changes the scope of the task and cites
///    facts for the change, step 3 runs once more.
/// 5. Build the blocks.
///
/// If a stage fails or takes too long, its fallback applies, and the trace says so. A prompt over a
/// ceiling is rejected with 422 `prompt_over_ceiling`, before any model call if possible. Nothing
/// of the prompt is stored.
#[utoipa::path(
    post, path = "/v1/prompts", tag = "prompts", operation_id = "compose_prompt", request_body = ComposeInput,
    responses(
        (status = 200, description = "The prompt, and the reason for each part of it.", body = PromptResponse),
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
    JsonBody { value: input, .. }: JsonBody<ComposeInput>,
) -> Result<Json<PromptResponse>, ApiError> {
    let id = input.run_id.as_deref();
    let run = workbench.runs().begin(&caller.call, id, RunKind::Compose)?;
    let session = run_session(&caller.call, &run).with_model(input.model.clone());
    let composed = workbench.compose(&session, &run, &input).await?;

    Ok(Json(PromptResponse {
        composed,
        responses: session.calls(),
    }))
}

/// A run pays for its own calls, and gives the same answer to the same request.
pub fn run_session(call: &CallContext, run: &PromptRun) -> Session {
    let payer = Payer::PromptRun(run.id.to_string());
    Session::of(call.clone(), payer, Caps::default()).deterministic(true)
}
