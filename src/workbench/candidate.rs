//! A chunk that was found for a task, and what each stage decided about it.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::llm::tasks::judge::{JudgedChunk, NliLabel};
use crate::model::search::Found;

/// A chunk on its way through the stages.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub chunk_id: i64,
    pub found: Found,
    pub heading: Option<String>,
    /// Its text, without instructions against the rules.
    pub text: Arc<str>,
    /// What was taken out of its text.
    pub neutralised: Vec<String>,
    /// Its position in the search results, from 1.
    pub rank: usize,
    pub score: f64,
    pub semantic: Option<f64>,
    pub rerank_score: Option<f64>,
    pub verdict: Option<(NliLabel, f64)>,
    /// When its source last changed; known where it matters.
    pub changed_at: Option<Timestamp>,
    pub pass: u8,
    pub kept: bool,
    pub reason: String,
    /// The stage that decided.
    pub stage: &'static str,
}

impl Candidate {
    /// Drops it for a reason.
    pub fn drop_at(&mut self, stage: &'static str, reason: impl Into<String>) {
        self.kept = false;
        self.stage = stage;
        self.reason = format!("dropped: {}", reason.into());
    }

    /// Keeps it for a reason.
    pub fn keep_at(&mut self, stage: &'static str, reason: impl Into<String>) {
        self.kept = true;
        self.stage = stage;
        self.reason = format!("kept: {}", reason.into());
    }

    pub fn judged(&self) -> JudgedChunk {
        JudgedChunk {
            id: self.chunk_id,
            text: Arc::clone(&self.text),
        }
    }
}

/// The candidates that are still kept, best first.
pub fn kept(candidates: &[Candidate]) -> impl Iterator<Item = &Candidate> {
    candidates.iter().filter(|candidate| candidate.kept)
}

/// A chunk that was found, kept or dropped.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = PromptCandidateResponse)]
pub struct CandidateView {
    pub chunk_id: i64,
    pub source_id: String,
    pub version: i64,
    pub filename: String,
    pub path: String,
    pub heading: Option<String>,
    /// Its position in the search results, from 1.
    pub rank: usize,
    /// The score of the search.
    pub score: f64,
    /// Cosine similarity to the task; null if embeddings were not compared.
    pub semantic: Option<f64>,
    /// The score from the reranker; null if there is none.
    pub rerank_score: Option<f64>,
    /// The label of the entailment gate: `entailment`, `neutral` or `contradiction`; null if the
    /// chunk was not judged.
    pub nli_label: Option<String>,
    /// The score of the entailment gate, from 0 to 1, for comparison with `theta`; null if the
    /// chunk was not judged.
    pub nli_score: Option<f64>,
    pub kept: bool,
    /// Why: `kept: strong semantic match`, `dropped: duplicate of ❖ FILES`, …
    pub reason: String,
    /// The stage that decided.
    pub stage: String,
    /// The pass that decided: 2 after a change of scope.
    pub pass: u8,
    /// Whether the prompt cites it.
    pub cited: bool,
    /// Instructions in the chunk that try to override the rules. They are stored, but not part of
    /// the prompt.
    pub neutralised: Vec<String>,
}

impl CandidateView {
    pub fn of(candidate: &Candidate, cited: bool) -> Self {
        Self {
            chunk_id: candidate.chunk_id,
            source_id: candidate.found.source_id.to_string(),
            version: candidate.found.source_version,
            filename: candidate.found.filename.clone(),
            path: candidate.found.path.clone(),
            heading: candidate.heading.clone(),
            rank: candidate.rank,
            score: candidate.score,
            semantic: candidate.semantic,
            rerank_score: candidate.rerank_score,
            nli_label: candidate
                .verdict
                .map(|(label, _)| label.into_str().to_owned()),
            nli_score: candidate.verdict.map(|(_, score)| score),
            kept: candidate.kept,
            reason: candidate.reason.clone(),
            stage: candidate.stage.to_owned(),
            pass: candidate.pass,
            cited,
            neutralised: candidate.neutralised.clone(),
        }
    }
}
