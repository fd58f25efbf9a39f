//! The reranker: puts the chunks found into a better order, in one pass over at most `top_k` of
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use super::WorkbenchError;
use super::adapters::Scorer;
use super::candidate::{Candidate, judged};
use super::likeness::{shared_words, telling_words};
use super::stage::{Outcome, Tools};
use crate::llm::tasks::judge::Rerank;
use crate::retrieval::select::kept;

/// Scores by chunk, and what gave them.
pub struct Ranking {
    pub scores: HashMap<i64, f64>,
    pub adapter: String,
}

/// Scores the candidates that are kept.
///
/// # Errors
/// The model's or the server's; the order then stays as it is.
pub async fn rank(
    tools: &Tools<'_>,
    query: &str,
    candidates: &[Candidate],
) -> Result<Ranking, WorkbenchError> {
    match &tools.adapters.reranker {
        Scorer::Lexical => Ok(lexical(query, candidates)),
        Scorer::Llm => {
            let task = Rerank {
                query: query.into(),
                chunks: judged(candidates),
            };
            let answered = tools.llm.ask(tools.session, task).await?;
            let adapter = answered.model();
            let each = answered.value.ranking.into_iter();
            let scores: HashMap<i64, f64> = each.map(|one| (one.id, one.score)).collect();
            Ok(Ranking { scores, adapter })
        }
        Scorer::Http(server) => {
            let chosen: Vec<&Candidate> = kept(candidates).collect();
            let texts: Vec<&str> = chosen.iter().map(|one| &*one.found.text).collect();
            let scores = server.rerank(query, &texts).await?;
            let each = chosen.iter().map(|one| one.found.id).zip(scores);
            Ok(Ranking {
                scores: each.collect(),
                adapter: server.name(),
            })
        }
    }
}

/// Scores by shared words and by the semantic score of the search.
fn lexical(query: &str, candidates: &[Candidate]) -> Ranking {
    let words = telling_words(query);
    let each = kept(candidates).map(|one| {
        let meaning = one
            .scores
            .semantic
            .unwrap_or(one.scores.score)
            .clamp(0.0, 1.0);
        let score = f64::midpoint(shared_words(&words, &one.found.text), meaning);
        (one.found.id, score)
    });
    Ranking {
        scores: each.collect(),
        adapter: "lexical".to_owned(),
    }
}

/// Puts the candidates into the order of their scores; equal ones stay in the order of the search.
pub fn reorder(candidates: &mut [Candidate], ranking: Ranking) -> Outcome<()> {
    for candidate in candidates.iter_mut() {
        candidate.scores.rerank_score = ranking.scores.get(&candidate.found.id).copied();
    }

    candidates.sort_by(|a, b| {
        let score = |one: &Candidate| one.scores.rerank_score.unwrap_or(f64::NEG_INFINITY);
        score(b).total_cmp(&score(a))
    });
    Outcome::of((), ranking.adapter)
}

/// The text that candidates are ranked and judged by.
pub fn query_text(query: &str) -> Arc<str> {
    query.chars().take(10_000).collect::<String>().into()
}
