//! A chunk that was found for a task, and what each stage decided about it.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::llm::tasks::judge::{JudgedChunk, NliLabel};
use crate::model::chunk::SourceChunk;
use crate::retrieval::Item;
use crate::retrieval::select::kept;

/// A chunk on its way through the stages.
pub type Candidate = Item<SourceChunk, Assessment>;

/// What the stages say about a chunk.
#[derive(Debug, Clone)]
pub struct Assessment {
    /// Its position in the search results, from 1.
    pub rank: usize,
    pub score: f64,
    pub semantic: Option<f64>,
    pub rerank_score: Option<f64>,
    pub verdict: Option<(NliLabel, f64)>,
    /// When its source last changed; known where it matters.
    pub changed_at: Option<Timestamp>,
    /// The instructions against the rules that were taken out of its text.
    pub neutralised: Vec<String>,
    pub pass: u8,
}

/// The chunks that are still kept, as a model judges them.
pub fn to_judge(candidates: &[Candidate]) -> Vec<JudgedChunk> {
    let judged = |one: &Candidate| {
        let chunk = &one.found;
        let about = match &chunk.heading {
            Some(heading) => format!("{} › {heading}", chunk.path),
            None => chunk.path.clone(),
        };
        JudgedChunk {
            id: chunk.id,
            about: about.into(),
            text: Arc::clone(&chunk.text),
        }
    };
    kept(candidates).map(judged).collect()
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
        let (chunk, said) = (&candidate.found, &candidate.scores);
        Self {
            chunk_id: chunk.id,
            source_id: chunk.source_id.to_string(),
            version: chunk.source_version,
            filename: chunk.filename.clone(),
            path: chunk.path.clone(),
            heading: chunk.heading.clone(),
            rank: said.rank,
            score: said.score,
            semantic: said.semantic,
            rerank_score: said.rerank_score,
            nli_label: said.verdict.map(|(label, _)| label.into_str().to_owned()),
            nli_score: said.verdict.map(|(_, score)| score),
            kept: candidate.is_kept(),
            reason: candidate.decision.text(),
            stage: candidate.decision.step.to_owned(),
            pass: said.pass,
            cited,
            neutralised: said.neutralised.clone(),
        }
    }
}
