//! Why each part is in a prompt or not. It is returned and never stored.

use std::collections::HashSet;

use serde::Serialize;
use utoipa::ToSchema;

use super::candidate::{Candidate, CandidateView};
use super::conflict::Conflict;
use super::history::HistoryItem;

/// Why each part is in the prompt or not.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Transparency {
    /// Every chunk that was found, once: kept ones first, best first.
    pub candidates: Vec<CandidateView>,
    /// Every message of the conversation that was read.
    pub history: Vec<HistoryItem>,
    /// Texts that contradict each other, and which of them is used.
    pub conflicts: Vec<Conflict>,
    /// What else happened: fallbacks, neutralised texts, what was reverted.
    pub notes: Vec<String>,
}

/// The candidates of the pass whose result is used, and those that only the other pass found.
pub fn merged(
    mut counting: Vec<Candidate>,
    other: Vec<Candidate>,
    why: &'static str,
) -> Vec<Candidate> {
    let known: HashSet<i64> = counting.iter().map(|one| one.found.id).collect();
    for mut candidate in other {
        if !known.contains(&candidate.found.id) {
            if candidate.is_kept() {
                candidate.drop("audit", why);
            }
            counting.push(candidate);
        }
    }
    counting
}

/// The candidates as they are shown.
pub(super) fn views(candidates: &[Candidate], cited: &HashSet<i64>) -> Vec<CandidateView> {
    let (kept, dropped): (Vec<_>, Vec<_>) = candidates.iter().partition(|one| one.is_kept());
    kept.into_iter()
        .chain(dropped)
        .map(|one| CandidateView::of(one, cited.contains(&one.found.id)))
        .collect()
}

/// A note for every chunk that contained instructions.
pub fn neutralised(candidates: &[Candidate]) -> Vec<String> {
    let each = candidates
        .iter()
        .filter(|one| !one.scores.neutralised.is_empty());
    each.map(|one| {
        format!(
            "chunk {} contains instructions, which were neutralised in the prompt",
            one.found.id
        )
    })
    .collect()
}
