//! Contexts: the memories that matter for a question, as text, with the reasons.

use axum::Json;
use axum::extract::State;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::memories::MemoryResponse;
use crate::base::clock::Timestamp;
use crate::base::ids::context_id;
use crate::config::llm::Caps;
use crate::conversation::conflicts::Conflict;
use crate::conversation::context::{Context, ContextInput, Rank, Timings};
use crate::conversation::intent::Intent;
use crate::conversation::scoring::{ContextItem, ScoreParts};
use crate::conversation::stages::RelevanceParts;
use crate::conversation::{Conversation, checked_user};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::llm_call::{LlmCall, Payer};

/// The longest `thread_context`.
const MAX_CONTEXT_CHARS: usize = 100_000;

/// A question, and the end user whose memories may help to answer it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "What did we discuss about my order #5678 in our previous conversations?", "user_id": "U-123", "max_tokens": 1500}))]
pub struct ContextRequest {
    /// What the user asks or says.
    #[schema(min_length = 1, max_length = 4000, pattern = "\\S")]
    pub query: String,
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// The current thread, if there is one.
    pub thread_id: Option<String>,
    /// Maximum tokens of the text, at four characters each; 2000 if omitted.
    #[schema(minimum = 10, maximum = 200_000)]
    pub max_tokens: Option<usize>,
    /// A message to leave out: usually the stored message that contains the question. With `rank:
    /// auto`, a message of the last minute that repeats the question word for word is always left out.
    pub exclude_message_id: Option<String>,
    /// The last messages, as text, for the model that analyses the question.
    #[schema(max_length = 100_000)]
    pub thread_context: Option<String>,
    /// `auto` (the default): by keyword and meaning, over all memories of the user; neighbouring
    /// messages and the aliases of the lexicon count too, and facts, preferences and pinned memories
    /// keep a fifth of the places. `search`: by keyword and meaning alone. `staged`: by the terms of
    /// the vocabulary, in three stages.
    pub rank: Option<Rank>,
    /// Whether a model analyses the question first, which dates and ranks a little better; true if
    /// omitted. Without, the response comes as fast as the search, and `intent` is neutral.
    pub analyze: Option<bool>,
    /// 1 adds the messages before and after each message found, as long as there are fewer than 20
    /// memories (with `rank: auto`, memories that have nothing to do with the question make room);
    /// 0 (the default) adds none. Not with `rank: staged`.
    #[schema(minimum = 0, maximum = 1)]
    pub expand: Option<usize>,
}

/// A question to analyse.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "What did we discuss about my order #5678 last week?"}))]
pub struct AnalyzeRequest {
    /// What the user asks or says.
    #[schema(min_length = 1, max_length = 4000, pattern = "\\S")]
    pub query: String,
    /// The end user. The analysis does not depend on it.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// The current thread. The analysis does not depend on it.
    pub thread_id: Option<String>,
    /// The last messages, as text, for the model that analyses the question.
    #[schema(max_length = 100_000)]
    pub thread_context: Option<String>,
}

/// A context.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContextResponse {
    /// The id under which its model calls are recorded.
    pub id: String,
    /// The text for the prompt; empty if there are no memories.
    pub context: String,
    /// With `rank: auto`: whether anything that was ever said has to do with the question. If not,
    /// the text says so, and has only what lasts about the user. Null with other ranks.
    pub found: Option<bool>,
    pub max_tokens: usize,
    /// Tokens of the text by the tokenizer `o200k_base`.
    pub token_count: usize,
    /// The characters of the text divided by four. This is the number that `max_tokens` limits.
    pub estimated_tokens: usize,
    /// Whether the end of the text was cut off.
    pub truncated: bool,
    pub intent: Intent,
    /// Whether the intent is neutral because no model could analyse the question.
    pub intent_fallback: bool,
    /// The reason for the fallback; null if there was none.
    pub intent_fallback_reason: Option<String>,
    /// The version of the vocabulary that was used.
    pub vocabulary_version: String,
    /// The memories found, best first; at most 20.
    pub memories: Vec<ContextMemoryResponse>,
    /// Memories that were found but are not in the text, and why.
    pub left_out: Vec<LeftOutResponse>,
    /// With `rank: auto`: memories that contradict each other. The newer one comes first, and the
    /// older one has the mark `earlier` in the text.
    pub conflicts: Vec<Conflict>,
    pub timings: ContextTimingsResponse,
    /// The model calls of this context.
    pub responses: Vec<LlmCall>,
}

/// A question's intent, and how it was found.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnalyzeResponse {
    pub intent: Intent,
    /// Whether the intent is neutral because no model could analyse the question.
    pub intent_fallback: bool,
    /// The reason for the fallback; null if there was none.
    pub intent_fallback_reason: Option<String>,
    /// The version of the vocabulary that was used.
    pub vocabulary_version: String,
    pub timings: AnalyzeTimingsResponse,
    /// The model calls of this analysis.
    pub responses: Vec<LlmCall>,
}

/// Timings in milliseconds.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub struct AnalyzeTimingsResponse {
    pub total_ms: f64,
    /// Time taken by the model.
    pub provider_ms: f64,
    /// All other time.
    pub own_ms: f64,
    /// Time to parse the model's answer.
    pub parse_ms: f64,
}

/// A memory with its scores.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContextMemoryResponse {
    #[serde(flatten)]
    pub memory: MemoryResponse,
    /// Where it was found: `current_thread`, `cross_thread` (the user's other threads) or
    /// `expansion` (preferences and other important memories; not in stages, also memories that
    /// belong to no thread).
    pub retrieval_source: &'static str,
    /// The title of its thread.
    pub thread_title: Option<String>,
    /// The score that its stage ranked it by, or that the stage of other threads would have; null in
    /// the last stage, which ranks by importance.
    pub relevance_score: Option<f64>,
    pub relevance_parts: Option<RelevanceParts>,
    /// The final score, at most 100: memories with higher scores come first in the text.
    pub score: f64,
    pub score_parts: ScoreParts,
    /// Whether the memory is in `context`.
    pub included: bool,
}

/// A memory that is not in the text.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeftOutResponse {
    pub memory_id: String,
    /// `duplicate`: it says the same as, or begins like, a memory with a better score; `unrelated`:
    /// nothing was found, and it has nothing to do with the question; `section_full`: its section has
    /// the maximum number of memories (not with `rank: auto`); `over_budget`: it does not fit into `max_tokens`;
    /// `replaced_by_expansion`: it made room for a memory of the last stage.
    pub reason: String,
    /// For a duplicate: the memory that is shown instead.
    pub duplicate_of: Option<String>,
}

/// Timings in milliseconds.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub struct ContextTimingsResponse {
    pub total_ms: f64,
    /// Time taken by models.
    pub provider_ms: f64,
    /// All other time.
    pub own_ms: f64,
    pub analyze_ms: f64,
    pub parse_ms: f64,
    pub current_thread_ms: f64,
    pub cross_thread_ms: f64,
    pub expansion_ms: f64,
    /// The three stages together.
    pub retrieval_ms: f64,
    /// The search, with `rank: auto` and `rank: search`.
    pub search_ms: f64,
    pub score_ms: f64,
    pub dedup_ms: f64,
    pub format_ms: f64,
}

/// Assemble a context
///
/// Classifies the question in terms of the vocabulary (its intent), finds up to 20 memories, scores
/// them, and returns those that fit into `max_tokens` as text with section titles and dates. Memories
/// are found by a search over all memories of the user; facts, preferences and pinned memories keep a
/// fifth of the text. If nothing that was ever said has to do with the question, `found` is false,
/// and the text says so. With `rank: staged`, memories are found by their topics in three places:
/// the current thread, the user's other threads, and preferences and other important memories. The
/// response shows the scores of every memory, and why a memory was left out. If no
/// model can classify the question, memoir returns the context anyway, with an intent that has no
/// topics and no category (`intent_fallback`).
#[utoipa::path(
    post, path = "/v1/context", tag = "conversations", operation_id = "create_context", request_body = ContextRequest,
    responses(
        (status = 200, description = "The context.", body = ContextResponse),
        (status = 404, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_context(
    caller: Caller,
    State(conversation): State<Conversation>,
    JsonBody { value: request, .. }: JsonBody<ContextRequest>,
) -> Result<Json<ContextResponse>, ApiError> {
    let input = ContextInput {
        rank: request.rank.unwrap_or_default(),
        expand: request.expand.unwrap_or_default(),
        skip_analysis: request.analyze == Some(false),
        quick: false,
        query: request.query,
        user_id: checked_user(request.user_id)?,
        thread_id: request.thread_id,
        max_tokens: request.max_tokens,
        exclude_message_id: request.exclude_message_id,
        thread_context: request
            .thread_context
            .filter(|text| !text.trim().is_empty()),
    };

    let (id, session) = context_session(&caller.call, &input.user_id);
    let context = conversation.context(&session, &input).await?;
    Ok(Json(ContextResponse::of(
        id,
        context,
        &session,
        caller.call.now,
    )))
}

/// Analyse a question
///
/// Returns the intent of a question in terms of the vocabulary, without searching memories.
#[utoipa::path(
    post, path = "/v1/context/analyze", tag = "conversations", operation_id = "analyze_context", request_body = AnalyzeRequest,
    responses((status = 200, description = "The intent.", body = AnalyzeResponse))
)]
pub async fn analyze_context(
    caller: Caller,
    State(conversation): State<Conversation>,
    JsonBody { value: request, .. }: JsonBody<AnalyzeRequest>,
) -> Result<Json<AnalyzeResponse>, ApiError> {
    let user_id = checked_user(request.user_id)?;
    if request.thread_context.as_deref().map_or(0, char_count) > MAX_CONTEXT_CHARS {
        let rule = format!("must have at most {MAX_CONTEXT_CHARS} characters");
        return Err(ApiError::invalid_field("thread_context", rule));
    }

    let (_, session) = context_session(&caller.call, &user_id);
    let context = request.thread_context.as_deref();
    let context = context.filter(|text| !text.trim().is_empty());
    let analyzed = conversation
        .analyze(&session, &request.query, context)
        .await?;

    Ok(Json(AnalyzeResponse {
        timings: AnalyzeTimingsResponse {
            total_ms: analyzed.total_ms,
            provider_ms: analyzed.provider_ms,
            own_ms: (analyzed.total_ms - analyzed.provider_ms).max(0.0),
            parse_ms: analyzed.parse_ms,
        },
        intent: analyzed.intent,
        intent_fallback: analyzed.fallback.is_some(),
        intent_fallback_reason: analyzed.fallback,
        vocabulary_version: analyzed.vocabulary_version,
        responses: session.calls(),
    }))
}

/// A new context pays for its own calls. Its id names the user, so that they can be deleted together.
pub fn context_session(call: &CallContext, user_id: &str) -> (String, Session) {
    let id = context_id(user_id);
    let payer = Payer::Context(id.clone());
    (id, Session::of(call.clone(), payer, Caps::default()))
}

impl ContextResponse {
    pub fn of(id: String, context: Context, session: &Session, now: Timestamp) -> Self {
        let memories = context.memories.iter();
        let memories = memories.map(|one| ContextMemoryResponse::of(one, now));
        let dropped = context.dropped().into_iter().map(|one| LeftOutResponse {
            memory_id: one.found.id.to_string(),
            reason: one.decision.reason.to_string(),
            duplicate_of: one.decision.repeats.clone(),
        });
        let left_out = context.left_out.iter().map(|one| LeftOutResponse {
            memory_id: one.memory_id.clone(),
            reason: one.reason.to_owned(),
            duplicate_of: one.repeats.clone(),
        });

        Self {
            id,
            memories: memories.collect(),
            left_out: dropped.chain(left_out).collect(),
            found: context.found,
            conflicts: context.conflicts,
            context: context.text,
            max_tokens: context.max_tokens,
            token_count: context.token_count,
            estimated_tokens: context.estimated_tokens,
            truncated: context.truncated,
            intent: context.analyzed.intent,
            intent_fallback: context.analyzed.fallback.is_some(),
            intent_fallback_reason: context.analyzed.fallback,
            vocabulary_version: context.analyzed.vocabulary_version,
            timings: context.timings.into(),
            responses: session.calls(),
        }
    }
}

impl ContextMemoryResponse {
    fn of(one: &ContextItem, now: Timestamp) -> Self {
        let scores = &one.scores;
        Self {
            memory: MemoryResponse::of(&one.found, now),
            retrieval_source: scores.source.into_str(),
            thread_title: scores.thread_title.clone(),
            relevance_score: scores.relevance.as_ref().map(RelevanceParts::total),
            relevance_parts: scores.relevance,
            score: scores.score,
            score_parts: scores.parts,
            included: one.is_kept(),
        }
    }
}

impl From<Timings> for ContextTimingsResponse {
    fn from(timings: Timings) -> Self {
        let [current_thread_ms, cross_thread_ms, expansion_ms] = timings.stage_ms;
        Self {
            total_ms: timings.total_ms,
            provider_ms: timings.provider_ms,
            own_ms: (timings.total_ms - timings.provider_ms).max(0.0),
            analyze_ms: timings.analyze_ms,
            parse_ms: timings.parse_ms,
            current_thread_ms,
            cross_thread_ms,
            expansion_ms,
            retrieval_ms: current_thread_ms + cross_thread_ms + expansion_ms,
            search_ms: timings.search_ms,
            score_ms: timings.score_ms,
            dedup_ms: timings.dedup_ms,
            format_ms: timings.format_ms,
        }
    }
}
