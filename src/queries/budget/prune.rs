//! PRUNE: drops whole paths until the rest fits; trims or rejects the last one.

use super::PromptTokens;
use crate::config::query::Overflow;

/// What is left.
#[derive(Debug, PartialEq, Eq)]
pub struct Pruned {
    /// By chunk.
    pub kept: Vec<bool>,
    /// Paths in the order in which they were dropped.
    pub dropped: Vec<usize>,
    /// Whether chunks of the last path were dropped too.
    pub trimmed: bool,
}

/// Nothing fits.
#[derive(Debug, PartialEq, Eq)]
pub struct NothingFits {
    pub dropped: Vec<usize>,
}

/// The order in which paths are dropped: lowest relevance first, the later one of equals; or simply
/// the last first.
pub fn order(relevance: &[f64], use_rankings: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..relevance.len()).rev().collect();
    if use_rankings {
        // Stable: of equals, the later one stays first.
        order.sort_by(|one, other| relevance[*one].total_cmp(&relevance[*other]));
    }

    order
}

/// Drops paths in the given order until the rest fits. `scores` says how well each chunk matches
/// the query.
pub fn prune(
    prompt: &PromptTokens,
    budget: i64,
    order: &[usize],
    overflow: Overflow,
    scores: impl FnOnce(usize) -> Vec<f64>,
) -> Result<Pruned, NothingFits> {
    let mut kept = vec![true; prompt.items.len()];
    let mut dropped = Vec::new();
    for (count, path) in order.iter().enumerate() {
        if prompt.tokens(&kept) <= budget {
            return Ok(Pruned {
                kept,
                dropped,
                trimmed: false,
            });
        }

        if count + 1 == order.len() {
            if overflow == Overflow::Trim
                && let Some(kept) = trim(prompt, budget, *path, &scores(*path))
            {
                return Ok(Pruned {
                    kept,
                    dropped,
                    trimmed: true,
                });
            }

            dropped.push(*path);
            return Err(NothingFits { dropped });
        }

        for (item, kept) in prompt.items.iter().zip(&mut kept) {
            *kept &= item.path != *path;
        }

        dropped.push(*path);
    }

    Ok(Pruned {
        kept,
        dropped,
        trimmed: false,
    })
}

/// Puts dropped paths back where they fit as a whole, the best first.
pub fn refill(prompt: &PromptTokens, budget: i64, pruned: &mut Pruned) {
    for path in std::mem::take(&mut pruned.dropped).into_iter().rev() {
        let more: Vec<bool> = prompt
            .items
            .iter()
            .zip(&pruned.kept)
            .map(|(item, kept)| *kept || item.path == path)
            .collect();

        if prompt.tokens(&more) <= budget {
            pruned.kept = more;
        } else {
            pruned.dropped.insert(0, path);
        }
    }
}

/// Of one path, as many of the best matching chunks as fit; none if not even one does.
fn trim(prompt: &PromptTokens, budget: i64, path: usize, scores: &[f64]) -> Option<Vec<bool>> {
    let mut best: Vec<usize> = (0..prompt.items.len())
        .filter(|place| prompt.items[*place].path == path)
        .collect();
    let score = |place: &usize| scores.get(*place).copied().unwrap_or(0.0);
    best.sort_by(|one, other| score(other).total_cmp(&score(one)).then(one.cmp(other)));
    let mut kept = vec![false; prompt.items.len()];

    for place in best {
        kept[place] = true;
        if prompt.tokens(&kept) > budget {
            kept[place] = false;
        }
    }

    kept.contains(&true).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkTokens, ModeTokens, Size};
    use super::*;

    /// Ten tokens of base, one of delimiters for each chunk, helpers of five tokens each.
    fn prompt(items: &[(usize, usize, i64)], helpers: usize) -> PromptTokens {
        let size = |tokens| Size {
            tokens,
            chars: tokens * 4,
        };

        let item = |(path, source, tokens): &(usize, usize, i64)| ChunkTokens {
            path: *path,
            source: *source,
            frame: size(1),
            text: size(*tokens),
            sent: *tokens,
        };

        PromptTokens {
            base: size(10),
            query: size(2),
            mode: ModeTokens::default(),
            no_helper: size(2),
            helpers: vec![Some(size(5)); helpers],
            items: items.iter().map(item).collect(),
        }
    }

    fn no_scores(_: usize) -> Vec<f64> {
        Vec::new()
    }

    #[test]
    fn everything_that_fits_exactly_is_kept() {
        let prompt = prompt(&[(0, 0, 20), (1, 0, 30)], 1);
        let all = 10 + 5 + 2 + 50;
        let order = order(&[1.0, 0.5], true);
        let pruned = prune(&prompt, all, &order, Overflow::Error, no_scores).unwrap();
        assert_eq!((pruned.kept, pruned.dropped), (vec![true, true], vec![]));
        let pruned = prune(&prompt, all - 1, &order, Overflow::Error, no_scores).unwrap();

        assert_eq!((pruned.kept, pruned.dropped), (vec![true, false], vec![1]));
    }

    #[test]
    fn other_parts_of_the_prompt_count_too() {
        let all = 10 + 5 + 2 + 50;
        let order = order(&[1.0, 0.5], true);
        let mut longer = prompt(&[(0, 0, 20), (1, 0, 30)], 1);
        longer.base.tokens += 7;
        let mut escaped = prompt(&[(0, 0, 20), (1, 0, 30)], 1);

        escaped.items[1].sent += 7;
        for prompt in [longer, escaped] {
            assert_eq!(
                prune(&prompt, all + 7, &order, Overflow::Error, no_scores)
                    .unwrap()
                    .dropped,
                [0; 0]
            );

            assert_eq!(
                prune(&prompt, all + 6, &order, Overflow::Error, no_scores)
                    .unwrap()
                    .dropped,
                [1]
            );
        }
    }

    #[test]
    fn the_lowest_rank_is_dropped_first_and_of_equals_the_later_path() {
        assert_eq!(order(&[0.9, 0.2, 0.5], true), [1, 2, 0]);
        assert_eq!(order(&[0.5, 0.5, 0.9], true), [1, 0, 2]);
        assert_eq!(order(&[0.1, 0.2, 0.9], false), [2, 1, 0]);
    }

    #[test]
    fn a_dropped_source_drops_its_helper() {
        let prompt = prompt(&[(0, 0, 20), (1, 1, 20)], 2);
        let one = 10 + 5 + 1 + 20;
        let pruned = prune(
            &prompt,
            one,
            &order(&[1.0, 0.5], true),
            Overflow::Error,
            no_scores,
        )
        .unwrap();

        assert_eq!(pruned.kept, [true, false]);
        assert_eq!(prompt.tokens(&pruned.kept), one);
    }

    #[test]
    fn a_smaller_path_that_was_dropped_too_is_put_back() {
        let prompt = prompt(&[(0, 0, 20), (1, 0, 90), (2, 0, 9), (3, 0, 30)], 1);
        let budget = 10 + 5 + 21 + 10;
        let order = order(&[1.0, 0.9, 0.8, 0.7], true);
        let mut pruned = prune(&prompt, budget, &order, Overflow::Error, no_scores).unwrap();
        assert_eq!(pruned.dropped, [3, 2, 1]);
        refill(&prompt, budget, &mut pruned);
        assert_eq!(pruned.kept, [true, false, true, false]);
        assert_eq!(pruned.dropped, [3, 1]);
    }

    #[test]
    fn the_last_path_is_trimmed_or_rejected() {
        let prompt = prompt(&[(0, 0, 30), (0, 0, 30), (0, 0, 30), (1, 0, 5)], 1);
        let order = order(&[1.0, 0.5], true);

        // Space for two: the best matches stay, in their order.
        let budget = 10 + 5 + 2 + 60;
        let scores = |_| vec![0.1, 0.0, 0.9, 0.0];
        let pruned = prune(&prompt, budget, &order, Overflow::Trim, scores).unwrap();
        assert_eq!(
            (pruned.kept, pruned.dropped, pruned.trimmed),
            (vec![true, false, true, false], vec![1], true)
        );

        // Equal scores: the first ones.
        let pruned = prune(&prompt, budget, &order, Overflow::Trim, no_scores).unwrap();
        assert_eq!(pruned.kept, [true, true, false, false]);
        let refused = prune(&prompt, budget, &order, Overflow::Error, no_scores).unwrap_err();
        assert_eq!(refused.dropped, [1, 0]);

        assert!(
            prune(&prompt, 20, &order, Overflow::Trim, no_scores).is_err(),
            "not even one fits"
        );
    }
}
