//! The entailment gate (A3): drops chunks that do not support the task, or that a newer text
//! contradicts.

use std::collections::HashMap;
use std::sync::Arc;

use super::WorkbenchError;
use super::adapters::Scorer;
use super::candidate::{Candidate, to_judge};
use super::conflict::{Conflict, ConflictSide, FILES};
use super::files::InjectedFile;
use super::history::Statement;
use super::stage::Tools;
use super::word_overlap::{long_words, shared_words};
use crate::base::ids::SourceId;
use crate::llm::tasks::judge::{Nli, NliLabel, NliVerdict};
use crate::retrieval::select::kept;

/// Statements that the gate reads, and characters of each.
const MAX_STATEMENTS: usize = 20;
const MAX_STATEMENT_CHARS: usize = 600;
/// The share of its words that makes a statement related to a chunk.
const RELATED: f64 = 0.2;

/// Chunks from which on equal verdicts on all of them show that a model does not judge.
const TELLING: usize = 3;

/// Labels by chunk.
pub type Labels = HashMap<i64, (NliLabel, f64)>;

/// Judges the candidates that are kept. Returns their labels and what gave them.
///
/// # Errors
/// The model's or the server's; then all are kept and marked.
pub async fn judge(
    tools: &Tools<'_>,
    query: &str,
    statements: &[Statement],
    candidates: &[Candidate],
) -> Result<(Labels, String), WorkbenchError> {
    match &tools.adapters.nli {
        Scorer::Lexical => Ok((Labels::new(), "lexical".to_owned())),
        Scorer::Llm => {
            let cut = |text: &str| -> Arc<str> {
                let text: String = text.chars().take(MAX_STATEMENT_CHARS).collect();
                text.into()
            };
            let task = Nli {
                query: query.into(),
                statements: statements.iter().map(|one| cut(&one.text)).collect(),
                chunks: to_judge(candidates),
            };
            let answered = tools.llm.ask_partly(tools.session, task).await?;
            let adapter = answered.model();
            match (answered.value, answered.error) {
                (Some(output), _) if is_undecided(&output.verdicts) => {
                    Err(WorkbenchError::Undecided(adapter))
                }
                (Some(output), _) => {
                    let each = output.verdicts.into_iter();
                    let labels = each.map(|one| (one.id, (one.label, one.score)));
                    Ok((labels.collect(), adapter))
                }
                (None, Some(error)) => Err(error.into()),
                (None, None) => Ok((Labels::new(), String::new())),
            }
        }
        Scorer::Http(server) => {
            let chosen: Vec<&Candidate> = kept(candidates).collect();
            let texts: Vec<&str> = chosen.iter().map(|one| &*one.found.text).collect();
            let labels = server.classify(&texts, query).await?;
            let each = chosen.iter().map(|one| one.found.id).zip(labels);
            Ok((each.collect(), server.name()))
        }
    }
}

/// Small models that cannot judge answer "neutral, 0.5" for everything, which would drop every
/// chunk.
fn is_undecided(verdicts: &[NliVerdict]) -> bool {
    let shrugs =
        |one: &NliVerdict| one.label == NliLabel::Neutral && (one.score - 0.5).abs() < 1e-9;
    verdicts.len() >= TELLING && verdicts.iter().all(shrugs)
}

/// The statements that may contradict a chunk, and when the sources of the candidates last changed.
///
/// # Errors
/// The store's.
pub async fn counter_evidence(
    tools: &Tools<'_>,
    statements: Vec<Statement>,
    candidates: &mut [Candidate],
) -> Result<Vec<Statement>, WorkbenchError> {
    if statements.is_empty() {
        return Ok(statements);
    }

    let mut ids: Vec<SourceId> = kept(candidates)
        .map(|one| one.found.source_id.clone())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let states = tools
        .store
        .list_source_states(&tools.call().space, &ids)
        .await?;
    for candidate in candidates.iter_mut() {
        let state = states.get(&candidate.found.source_id);
        candidate.scores.changed_at = state.map(|state| state.changed_at);
    }

    let mut statements = statements;
    statements.truncate(MAX_STATEMENTS);
    Ok(statements)
}

/// Decides which chunks are kept: those entailed with at least θ. Chunks that were not judged are
/// kept and marked.
pub fn decide(
    candidates: &mut [Candidate],
    labels: &Labels,
    theta: f64,
    statements: &[Statement],
    files: &[InjectedFile],
) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for candidate in candidates.iter_mut().filter(|one| one.is_kept()) {
        let Some((label, score)) = labels.get(&candidate.found.id).copied() else {
            candidate.keep("nli", "not checked for entailment");
            continue;
        };

        candidate.scores.verdict = Some((label, score));
        match label {
            NliLabel::Entailment if score >= theta => {
                candidate.keep("nli", "strong semantic match");
            }
            NliLabel::Entailment => candidate.drop(
                "nli",
                format!("entailment {score:.2} is below θ {theta:.2}"),
            ),
            NliLabel::Neutral => candidate.drop("nli", "not entailed"),
            NliLabel::Contradiction => {
                conflicts.extend(contradicted(candidate, statements, files));
            }
        }
    }
    conflicts
}

/// The side that wins over a contradicted chunk: an injected file, or else the newer text.
fn contradicted(
    candidate: &mut Candidate,
    statements: &[Statement],
    files: &[InjectedFile],
) -> Option<Conflict> {
    let changed_at = candidate
        .scores
        .changed_at
        .unwrap_or(candidate.found.created_at);
    let related = |one: &Statement| shared_words(&long_words(&one.text), &candidate.found.text);
    let nearest = |newer: bool| {
        statements
            .iter()
            .filter(|one| (one.said_at > changed_at) == newer)
            .map(|one| (related(one), one))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };

    if let Some((_, statement)) = nearest(true) {
        candidate.drop("nli", "superseded by newer chat");
        let reason = "the chat is newer than the file";
        let side = ConflictSide::of_statement(statement);
        return Some(conflict(candidate, side, "chat", reason));
    }
    if let Some((share, statement)) = nearest(false)
        && share >= RELATED
    {
        candidate.keep("nli", "newer than the chat that it contradicts");
        let reason = "the file is newer than the chat";
        let side = ConflictSide::of_statement(statement);
        return Some(conflict(candidate, side, "chunk", reason));
    }

    let file = files
        .iter()
        .map(|file| {
            (
                shared_words(&long_words(&candidate.found.text), &file.text),
                file,
            )
        })
        .filter(|(share, _)| *share >= RELATED)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, file)) = file else {
        candidate.drop("nli", "contradiction");
        return None;
    };

    candidate.drop("nli", "contradicts ❖ FILES");
    let side = ConflictSide::of_file(file, &file.text);
    let reason = "an injected file wins in this run";
    Some(conflict(candidate, side, FILES, reason))
}

fn conflict(candidate: &Candidate, other: ConflictSide, winner: &str, reason: &str) -> Conflict {
    let (found, changed_at) = (&candidate.found, candidate.scores.changed_at);
    let chunk = ConflictSide::new("chunk", found.id.to_string(), &found.text, changed_at);
    Conflict {
        sides: vec![chunk, other],
        winner: winner.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_says_the_same_of_everything_does_not_judge() {
        let verdict = |id, label, score| NliVerdict { id, label, score };
        let shrug = |id| verdict(id, NliLabel::Neutral, 0.5);
        assert!(is_undecided(&[shrug(1), shrug(2), shrug(3)]));
        assert!(!is_undecided(&[shrug(1), shrug(2)]), "too few to tell");
        for other in [
            verdict(3, NliLabel::Neutral, 0.4),
            verdict(3, NliLabel::Entailment, 0.5),
        ] {
            assert!(!is_undecided(&[shrug(1), shrug(2), other]));
        }
    }
}
