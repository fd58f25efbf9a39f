//! Drops entries whose score is below the minimum.

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};

pub const NAME: &str = "score_threshold";

pub fn apply(entries: &mut Vec<Entry>, min_score: f64) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();
    entries.retain(|entry| {
        let score = entry.candidate.score;
        let kept = score >= min_score;
        if !kept {
            effects.push(Effect::new(
                entry.id(),
                Reason::BelowMinScore { score, min_score },
            ));
        }
        kept
    });

    Step {
        name: NAME,
        before,
        after: entries.len(),
        effects,
    }
}
