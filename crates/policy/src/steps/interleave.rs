//! Orders the kept entries by relevance and by time in turn.

use std::collections::HashSet;

use super::super::candidate::{Entry, by_recency, by_score};
use super::super::explain::{Effect, Reason, Step};
use super::super::settings::{Interleaving, Strategy};

pub const NAME: &str = "interleaving";

/// The share of `topK` that the first key fills, if no other is set.
const RATIO: f64 = 0.5;

pub fn apply(entries: &mut Vec<Entry>, interleaving: Interleaving, top_k: usize) -> Step {
    let before = entries.len();
    entries.sort_by(by_score);
    let ids: Vec<String> = entries.iter().map(|entry| entry.id().to_owned()).collect();

    let order = order(entries, interleaving, top_k);
    let effects = order
        .iter()
        .enumerate()
        .filter(|(to, from)| to != *from)
        .map(|(to, &from)| {
            let (from_position, to_position) = (from + 1, to + 1);
            Effect::new(
                &ids[from],
                Reason::Moved {
                    from: from_position,
                    to: to_position,
                },
            )
        })
        .collect();

    let mut taken: Vec<Option<Entry>> = entries.drain(..).map(Some).collect();
    entries.extend(order.into_iter().filter_map(|from| taken[from].take()));

    Step {
        name: NAME,
        before,
        after: entries.len(),
        effects,
    }
}

/// Positions in the order by score, as they are to stand.
fn order(by_score: &[Entry], interleaving: Interleaving, top_k: usize) -> Vec<usize> {
    let scored: Vec<usize> = (0..by_score.len()).collect();
    let mut recent = scored.clone();
    recent.sort_by(|&a, &b| by_recency(&by_score[a], &by_score[b]));

    let first_share = first_share(interleaving.ratio.unwrap_or(RATIO), top_k);
    let from_scored = |position: usize| match interleaving.strategy {
        Strategy::Alternate => position.is_multiple_of(2),
        Strategy::ScoreFirst => position < first_share,
        Strategy::RecencyFirst => position >= first_share,
    };

    let mut used = HashSet::new();
    (0..top_k.min(by_score.len()))
        .filter_map(|position| {
            let keys = if from_scored(position) {
                &scored
            } else {
                &recent
            };
            let next = keys.iter().copied().find(|index| !used.contains(index))?;
            used.insert(next);
            Some(next)
        })
        .collect()
}

/// `ratio × top_k`, rounded; both are small, so nothing is lost in the conversion.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "0 to 20"
)]
fn first_share(ratio: f64, top_k: usize) -> usize {
    (ratio * top_k as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::super::super::candidate::{Candidate, MemoryType};
    use super::*;

    fn entry(id: &str, score: f64, time: i64) -> Entry {
        Entry::new(Candidate {
            id: id.into(),
            content: id.into(),
            score,
            timestamp_micros: time,
            session_id: "s".into(),
            message_id: None,
            memory_type: MemoryType::Message,
            speaker: None,
        })
    }

    fn ordered(strategy: Strategy, ratio: Option<f64>, top_k: usize) -> String {
        let mut entries = vec![
            entry("a", 0.9, 1),
            entry("b", 0.8, 2),
            entry("c", 0.3, 9),
            entry("d", 0.4, 8),
        ];
        apply(&mut entries, Interleaving { strategy, ratio }, top_k);
        entries.iter().map(Entry::id).collect()
    }

    #[test]
    fn each_strategy_has_its_order() {
        assert_eq!(ordered(Strategy::Alternate, None, 8), "acbd");
        assert_eq!(ordered(Strategy::ScoreFirst, None, 4), "abcd");
        assert_eq!(ordered(Strategy::RecencyFirst, None, 4), "cdab");
        assert_eq!(ordered(Strategy::ScoreFirst, Some(1.0), 4), "abdc");
        assert_eq!(ordered(Strategy::RecencyFirst, Some(0.25), 4), "cabd");
        assert_eq!(ordered(Strategy::RecencyFirst, Some(1.0), 4), "cdba");
    }

    #[test]
    fn a_move_is_reported_with_both_positions() {
        let mut entries = vec![entry("a", 0.9, 1), entry("b", 0.8, 2), entry("c", 0.3, 9)];
        let alternating = Interleaving {
            strategy: Strategy::Alternate,
            ratio: None,
        };
        let step = apply(&mut entries, alternating, 8);
        let moved: Vec<(&str, &Reason)> = step
            .effects
            .iter()
            .map(|effect| (effect.id.as_str(), &effect.reason))
            .collect();
        assert_eq!(
            moved,
            [
                ("c", &Reason::Moved { from: 3, to: 2 }),
                ("b", &Reason::Moved { from: 2, to: 3 })
            ]
        );
    }
}
