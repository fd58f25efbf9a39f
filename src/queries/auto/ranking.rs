//! Ranks chunks one by one by what the tiers of `auto` found. Pure.

use std::collections::{HashMap, HashSet};

use memoir_text::identifiers::Identifiers;
use serde::{Deserialize, Serialize};

use super::cursor::MAX_CARRIED;
use super::decide::{NEAREST, OWN_WORDS_LOSS, PICK_WEIGHT, SIBLING_LOSS, WORDS_LOSS};
use super::searching::SUMMARIZED_BUDGETS;
use crate::config::query::PromptLimiting;
use crate::model::chunk::SourceChunk;
use crate::queries::QuerySettings;
use crate::queries::budget::keywords;

/// How many times the budget is read, so that the best chunks of each result can be chosen.
const READ_BUDGETS: i64 = 2;
/// If the order of the chunks does not depend on their texts, this part of the budget is read besides
/// it.
const SPARE_SHARE: i64 = 4;

/// A chunk with the position at which the search found it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankedChunk {
    pub chunk_id: i64,
    /// Its leaf; 0 if it is not filed.
    pub leaf: i64,
    /// The number of the search result that it shares text with; chunks that only a pick or a walk
    /// found come after all results.
    pub result: u32,
    /// The score of that result, 0 to 1.
    pub search: f64,
    /// How well a model ranked its leaf, 0 to 1.
    pub pick: f64,
    pub tokens: i64,
}

/// A ranked chunk that has been read.
#[derive(Debug, Clone)]
pub struct RankedText<'t> {
    pub chunk: RankedChunk,
    pub text: &'t str,
    /// What tells what it is about besides its text.
    pub about: String,
}

impl RankedChunk {
    /// What both tiers say together, 0 to 1.
    pub fn relevance(&self) -> f64 {
        1.0 - (1.0 - self.search.clamp(0.0, 1.0)) * (1.0 - PICK_WEIGHT * self.pick)
    }
}

/// Adds what a model picked: raises the chunks of picked leaves, and adds those that the search did
/// not find.
pub fn add_picks(ranked: &mut Vec<RankedChunk>, picks: &[(i64, f64)], chunks: &[SourceChunk]) {
    let shares: HashMap<i64, f64> = picks.iter().copied().collect();
    for chunk in ranked.iter_mut() {
        let share = shares.get(&chunk.leaf).copied().unwrap_or(0.0);
        chunk.pick = chunk.pick.max(share);
    }

    let known: HashSet<i64> = ranked.iter().map(|chunk| chunk.chunk_id).collect();
    let after = ranked.last().map_or(0, |last| last.result + 1);
    for (number, chunk) in (after..).zip(chunks) {
        if !known.contains(&chunk.id) {
            ranked.push(RankedChunk {
                chunk_id: chunk.id,
                leaf: chunk.leaf(),
                result: number,
                search: 0.0,
                pick: shares.get(&chunk.leaf()).copied().unwrap_or(0.0),
                tokens: chunk.token_count,
            });
        }
    }
}

/// Orders chunks by what both tiers say, before their texts are known.
pub fn sort(ranked: &mut [RankedChunk]) {
    // Stable: of equals, the one found first.
    ranked.sort_by(|one, other| other.relevance().total_cmp(&one.relevance()));
}

/// How many chunks are read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum chunks, in total and of one leaf; 0 of a leaf means no limit.
    chunks: usize,
    per_leaf: u64,
    /// The budget of tokens, and how often it is read if the chunks are to be summarised.
    budget: i64,
    summarized: bool,
}

impl Limits {
    /// For a query; without an answer, only the nearest chunks are shown.
    pub fn of(settings: &QuerySettings, budget: i64, is_answerless: bool) -> Self {
        let limit = usize::try_from(settings.limit).unwrap_or(usize::MAX);
        Self {
            chunks: if is_answerless {
                limit.min(NEAREST)
            } else {
                limit
            },
            per_leaf: settings.per_path_limit,
            budget,
            summarized: settings.prompt_limiting_strategy == PromptLimiting::Summarize,
        }
    }

    /// How many tokens of these chunks are read.
    fn tokens(&self, ranked: &[RankedChunk]) -> i64 {
        if self.summarized {
            return self.budget.saturating_mul(SUMMARIZED_BUDGETS);
        }

        let fits = |chunk: &RankedChunk| chunk.tokens <= self.budget;
        if is_in_order(ranked.iter()) && ranked.iter().all(fits) {
            // Some may be too long for what is left of the budget.
            return self.budget.saturating_add(self.budget / SPARE_SHARE);
        }

        self.budget.saturating_mul(READ_BUDGETS)
    }
}

/// Which chunks are read, and which are left for further pages, with their relevance in thousandths:
/// enough to fill the budget a few times, and not too many of one leaf.
pub fn choose(ranked: Vec<RankedChunk>, limits: Limits) -> (Vec<RankedChunk>, Vec<(i64, u32)>) {
    let mut room = limits.tokens(&ranked);
    let mut of_leaf: HashMap<i64, u64> = HashMap::new();
    let (mut read, mut rest) = (Vec::new(), Vec::new());
    for chunk in ranked {
        let count = of_leaf.entry(chunk.leaf).or_default();
        *count += 1;
        if limits.per_leaf > 0 && *count > limits.per_leaf {
            continue;
        }

        if read.len() < limits.chunks && (room > 0 || read.is_empty()) {
            room -= chunk.tokens;
            read.push(chunk);
        } else {
            rest.push((chunk.chunk_id, thousandths(chunk.relevance())));
        }
    }

    rest.truncate(MAX_CARRIED);
    (read, rest)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 1"
)]
pub fn thousandths(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 1000.0).round() as u32
}

/// Chunks that share a result of the search, or, without one, a leaf.
fn group(chunk: &RankedChunk) -> (i32, i64) {
    if chunk.search > 0.0 {
        (0, i64::from(chunk.result))
    } else {
        (1, chunk.leaf)
    }
}

/// Whether the order of chunks is known without their texts, because no two of them share a result
/// or a leaf.
pub fn is_in_order<'c>(chunks: impl Iterator<Item = &'c RankedChunk>) -> bool {
    let mut groups = HashSet::new();
    let mut each = chunks.map(group);
    each.all(|group| groups.insert(group))
}

/// The relevance of each chunk, 0 to 1. A result of the search is longer than a filed chunk, so
/// several chunks share one: the one that matches most words of the query loses nothing, the others
/// lose a part, and more the fewer words they match. So the first chunks come from as many results
/// as the search itself would show. Every chunk also loses a little the fewer words it matches
/// compared with the best of all.
///
/// A chunk that names a version or an id of the query matches better than one with all words.
pub fn relevances(query: &str, chunks: &[RankedText<'_>]) -> Vec<f64> {
    if is_in_order(chunks.iter().map(|one| &one.chunk)) {
        return chunks.iter().map(|one| one.chunk.relevance()).collect();
    }

    let identifiers = Identifiers::of(query);
    let named = |one: &RankedText<'_>| f64::from(identifiers.score(one.text, &one.about));
    let words = keywords::scores(query, chunks.iter().map(|one| one.text));
    let words: Vec<f64> = words
        .into_iter()
        .zip(chunks.iter().map(named))
        .map(|(words, named)| words + named)
        .collect();
    let mut best: HashMap<(i32, i64), (f64, usize)> = HashMap::new();
    for (place, (one, words)) in chunks.iter().zip(&words).enumerate() {
        let most = best.entry(group(&one.chunk)).or_insert((*words, place));
        if *words > most.0 {
            *most = (*words, place);
        }
    }

    let most_of_all = words.iter().copied().fold(0.0, f64::max);
    let missing = |words: f64, most: f64| if most > 0.0 { 1.0 - words / most } else { 0.0 };
    let relevance = |(place, (one, words)): (usize, (&RankedText<'_>, &f64))| {
        let chunk = &one.chunk;
        let own = chunk.relevance() * (1.0 - OWN_WORDS_LOSS * missing(*words, most_of_all));
        let (most, leader) = best.get(&group(chunk)).copied().unwrap_or((0.0, place));
        if leader == place {
            return own;
        }

        own * (1.0 - SIBLING_LOSS - WORDS_LOSS * missing(*words, most))
    };

    chunks
        .iter()
        .zip(&words)
        .enumerate()
        .map(relevance)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunk: RankedChunk, text: &str) -> RankedText<'_> {
        RankedText {
            chunk,
            text,
            about: String::new(),
        }
    }

    #[test]
    fn of_one_result_the_chunk_with_the_version_comes_first() {
        let chunk = |chunk_id, result| RankedChunk {
            chunk_id,
            leaf: 1,
            result,
            search: 0.8,
            pick: 0.0,
            tokens: 1,
        };
        let texts = [
            read(chunk(1, 0), "# 1.54.0\n\nWhat changed: tokio 1 and 1."),
            read(chunk(2, 0), "# 1.54.1\n\nA fix."),
            read(chunk(3, 1), "What changed in tokio since 1.54.1."),
        ];
        let found = relevances("What changed in tokio 1.54.1?", &texts);
        assert!(found[1] > found[2] && found[2] > found[0], "{found:?}");
    }

    #[test]
    fn a_pick_raises_its_leaf_and_never_lowers_another() {
        let chunk = |search: f64, pick: f64| RankedChunk {
            chunk_id: 1,
            leaf: 1,
            result: 0,
            search,
            pick,
            tokens: 1,
        };

        assert!((chunk(0.4, 0.0).relevance() - 0.4).abs() < 1e-9);
        assert!(chunk(0.4, 0.5).relevance() > chunk(0.4, 0.0).relevance());
        assert!(chunk(0.0, 1.0).relevance() < chunk(0.6, 0.0).relevance());
        assert!(chunk(1.0, 1.0).relevance() <= 1.0);
    }

    #[test]
    fn of_one_result_the_chunk_with_the_words_comes_first() {
        let chunk = |chunk_id, result, search| RankedChunk {
            chunk_id,
            leaf: 1,
            result,
            search,
            pick: 0.0,
            tokens: 1,
        };

        let texts = [
            read(chunk(1, 0, 0.9), "nothing of interest"),
            read(chunk(2, 0, 0.9), "the white whale"),
            read(chunk(3, 1, 0.8), "nothing at all"),
        ];
        let found = relevances("the white whale", &texts);
        assert!((found[1] - 0.9).abs() < 1e-9);
        let left = (1.0 - OWN_WORDS_LOSS) * (1.0 - SIBLING_LOSS - WORDS_LOSS);
        assert!((found[0] - 0.9 * left).abs() < 1e-9);
        assert!(found[2] > found[0], "the next result comes before it");
        let alone = 0.8 * (1.0 - OWN_WORDS_LOSS);
        assert!((found[2] - alone).abs() < 1e-9, "alone in its result");
    }
}
