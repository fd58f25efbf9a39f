//! What the stages share: the services they use, and the trace of a run.

use std::time::{Duration, Instant};

use memoir_text::tokens::TokenCounter;
use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::adapters::Adapters;
use crate::base::clock::milliseconds_since;
use crate::conversation::Conversation;
use crate::llm::{Llm, LlmError, Session};
use crate::model::call::CallContext;
use crate::search::Search;
use crate::sources::Sources;
use crate::store::Store;

/// The services and settings of a run.
pub struct Tools<'a> {
    pub store: &'a Store,
    pub llm: &'a Llm,
    pub search: &'a Search,
    pub sources: &'a Sources,
    pub conversation: &'a Conversation,
    pub adapters: &'a Adapters,
    pub session: &'a Session,
    pub counter: TokenCounter,
}

impl<'a> Tools<'a> {
    /// The call that the run belongs to.
    pub fn call(&self) -> &'a CallContext {
        self.session.call()
    }
}

/// One stage of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = TraceEntryResponse)]
pub struct TraceEntry {
    /// `shape`, `files`, `retrieve`, `rerank`, `nli`, `condense`, `audit` or `build`.
    pub stage: String,
    /// The name of the agent: `A2 pass-1`, `A1`, `Retriever`, …
    pub agent: String,
    /// 1, or 2 for a stage that ran again after a change of scope.
    pub pass: u8,
    /// `ok`, `skipped`, or `fallback`.
    pub status: String,
    /// The model that ran the stage, or the rules if no model did; null if the stage was skipped.
    pub model: Option<String>,
    /// Model calls of this stage.
    pub calls: usize,
    pub latency_ms: f64,
    /// Why the stage was skipped or fell back; otherwise what it did.
    pub note: Option<String>,
}

/// The stages of a run, in order.
pub struct Trace<'a> {
    pub entries: Vec<TraceEntry>,
    session: &'a Session,
    /// Model calls of the stages before.
    calls: usize,
}

/// A stage and its agent.
#[derive(Debug, Clone, Copy)]
pub struct StageName(pub &'static str, pub &'static str);

pub const SHAPE: StageName = StageName("shape", "A2 pass-1");
pub const FILES: StageName = StageName("files", "A1");
pub const RETRIEVE: StageName = StageName("retrieve", "Retriever");
pub const RERANK: StageName = StageName("rerank", "Reranker");
pub const NLI: StageName = StageName("nli", "A3");
pub const CONDENSE: StageName = StageName("condense", "A4");
pub const AUDIT: StageName = StageName("audit", "A2 audit-2");
pub const BUILD: StageName = StageName("build", "PromptBuilder");

impl<'a> Trace<'a> {
    #[must_use]
    pub fn new(session: &'a Session) -> Self {
        Self {
            entries: Vec::new(),
            session,
            calls: 0,
        }
    }

    /// Runs a stage no longer than its time; its work returns the model, or the rules if no model
    /// ran. If the stage fails, `fallback` returns what is used instead, and its name.
    ///
    /// # Errors
    /// Errors that no fallback should hide.
    pub async fn run<T>(
        &mut self,
        stage: StageName,
        pass: u8,
        limit_ms: u64,
        work: impl Future<Output = Result<(T, String), WorkbenchError>>,
        fallback: impl FnOnce(&str) -> (T, &'static str),
    ) -> Result<T, WorkbenchError> {
        let begun = Instant::now();
        let (value, adapter, reason) = match within(limit_ms, work).await? {
            Ok((value, adapter)) => (value, adapter, None),
            Err(reason) => {
                let (value, adapter) = fallback(&reason);
                (value, adapter.to_owned(), Some(reason))
            }
        };
        self.ran(stage, pass, begun, adapter, reason);
        Ok(value)
    }

    /// Adds a stage that ran, with the reason for its fallback if it applied.
    pub fn ran(
        &mut self,
        stage: StageName,
        pass: u8,
        begun: Instant,
        adapter: String,
        fallback: Option<String>,
    ) {
        let calls = self.session.calls().len();
        let status = if fallback.is_some() { "fallback" } else { "ok" };
        self.entries.push(TraceEntry {
            stage: stage.0.to_owned(),
            agent: stage.1.to_owned(),
            pass,
            status: status.to_owned(),
            model: Some(adapter),
            calls: calls.saturating_sub(self.calls),
            latency_ms: milliseconds_since(begun),
            note: fallback,
        });
        self.calls = calls;
    }

    /// Adds a stage that did not run.
    pub fn skipped(&mut self, stage: StageName, pass: u8, why: &str) {
        self.entries.push(TraceEntry {
            stage: stage.0.to_owned(),
            agent: stage.1.to_owned(),
            pass,
            status: "skipped".to_owned(),
            model: None,
            calls: 0,
            latency_ms: 0.0,
            note: Some(why.to_owned()),
        });
    }
}

/// Waits for a stage no longer than its time. `Err` is the reason for its fallback.
///
/// # Errors
/// Errors that no fallback should hide.
pub async fn within<T>(
    limit_ms: u64,
    work: impl Future<Output = Result<T, WorkbenchError>>,
) -> Result<Result<T, String>, WorkbenchError> {
    match tokio::time::timeout(Duration::from_millis(limit_ms), work).await {
        Ok(Ok(value)) => Ok(Ok(value)),
        Ok(Err(error)) => reason_to_fall_back(error).map(Err),
        Err(_) => Ok(Err(format!("it took longer than {limit_ms} ms"))),
    }
}

/// Why a stage falls back. A problem that a caller or an operator must fix is an error of the whole
/// run.
fn reason_to_fall_back(error: WorkbenchError) -> Result<String, WorkbenchError> {
    match error {
        WorkbenchError::Llm(
            error @ (LlmError::SpendCapReached { .. }
            | LlmError::NotForwarded { .. }
            | LlmError::UnknownModel { .. }
            | LlmError::NoKey { .. }
            | LlmError::Store(_)),
        ) => Err(error.into()),
        WorkbenchError::Llm(error) => Ok(error.to_string()),
        WorkbenchError::Scoring(error) => Ok(error.to_string()),
        error @ WorkbenchError::Undecided(_) => Ok(error.to_string()),
        error => Err(error),
    }
}
