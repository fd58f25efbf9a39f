//! The reranker: puts the chunks found into a better order, in one pass over at most `top_k` of
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use super::WorkbenchError;
use super::adapters::Scorer;
use super::candidate::{Candidate, to_judge};
use super::retriever::MAX_QUERY_CHARS;
use super::stage::Tools;
use super::word_overlap::{long_words, shared_words};
use crate::llm::tasks::judge::Rerank;
use crate::retrieval::select::kept;

/// Scores by chunk.
pub type Scores = HashMap<i64, f64>;

/// Scores the candidates that are kept. Returns the scores and what gave them.
///
/// # Errors
/// The model's or the server's; the order then stays as it is.
pub async fn rank(
    tools: &Tools<'_>,
    query: &str,
    candidates: &[Candidate],
) -> Result<(Option<Scores>, String), WorkbenchError> {
    match &tools.adapters.reranker {
        Scorer::Lexical => Ok((Some(lexical(query, candidates)), "lexical".to_owned())),
        Scorer::Llm => {
            let task = Rerank {
                query: query.into(),
                chunks: to_judge(candidates),
            };
            let answered = tools.llm.ask(tools.session, task).await?;
            let adapter = answered.model();
            let each = answered.value.ranking.into_iter();
            Ok((Some(each.map(|one| (one.id, one.score)).collect()), adapter))
        }
        Scorer::Http(server) => {
            let chosen: Vec<&Candidate> = kept(candidates).collect();
            let texts: Vec<&str> = chosen.iter().map(|one| &*one.found.text).collect();
            let scores = server.rerank(query, &texts).await?;
            let each = chosen.iter().map(|one| one.found.id).zip(scores);
            Ok((Some(each.collect()), server.name()))
        }
    }
}

/// Scores by shared words and by the semantic score of the search.
fn lexical(query: &str, candidates: &[Candidate]) -> Scores {
    let words = long_words(query);
    let each = kept(candidates).map(|one| {
        let meaning = one
            .scores
            .semantic
            .unwrap_or(one.scores.score)
            .clamp(0.0, 1.0);
        let score = f64::midpoint(shared_words(&words, &one.found.text), meaning);
        (one.found.id, score)
    });
    each.collect()
}

/// Puts the candidates into the order of their scores; equal ones stay in the order of the search.
pub fn reorder(candidates: &mut [Candidate], scores: &Scores) {
    for candidate in candidates.iter_mut() {
        candidate.scores.rerank_score = scores.get(&candidate.found.id).copied();
    }

    candidates.sort_by(|a, b| {
        let score = |one: &Candidate| one.scores.rerank_score.unwrap_or(f64::NEG_INFINITY);
        score(b).total_cmp(&score(a))
    });
}

/// The text that candidates are ranked and judged by.
pub fn query_text(query: &str) -> Arc<str> {
    query
        .chars()
        .take(MAX_QUERY_CHARS)
        .collect::<String>()
        .into()
}
