//! Ranks chunks one by one by what the tiers of `auto` found. Pure.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::decide::{OWN_WORDS_LOSS, PICK_WEIGHT, SIBLING_LOSS, WORDS_LOSS};
use crate::model::query::{Candidate, PlacedChunk};
use crate::queries::budget::keywords;

/// A chunk with the place at which the search found it.
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

impl RankedChunk {
    /// What both tiers say together, 0 to 1.
    pub fn relevance(&self) -> f64 {
        1.0 - (1.0 - self.search.clamp(0.0, 1.0)) * (1.0 - PICK_WEIGHT * self.pick)
    }
}

/// The filed chunks that share text with the results of a search, in the order of the results. A
/// result without filed chunks stands for itself.
pub fn filed(
    results: &[(i64, f64)],
    places: &[PlacedChunk],
    filed: &[PlacedChunk],
) -> Vec<RankedChunk> {
    let places: HashMap<i64, &PlacedChunk> =
        places.iter().map(|place| (place.chunk_id, place)).collect();

    let mut by_version: HashMap<i64, Vec<&PlacedChunk>> = HashMap::new();
    for chunk in filed {
        by_version.entry(chunk.version_id).or_default().push(chunk);
    }

    for chunks in by_version.values_mut() {
        chunks.sort_by_key(|chunk| (chunk.start_char, chunk.chunk_id));
    }

    let mut seen = HashSet::new();
    let mut ranked = Vec::new();
    for (result, (chunk_id, score)) in (0..).zip(results) {
        let Some(place) = places.get(chunk_id) else {
            continue;
        };

        let shared = match by_version.get(&place.version_id) {
            Some(chunks) if !place.filed => {
                let first = chunks.partition_point(|chunk| chunk.end_char <= place.start_char);
                let after = chunks.partition_point(|chunk| chunk.start_char < place.end_char);
                &chunks[first.min(after)..after]
            }
            _ => &[*place][..],
        };

        for chunk in shared.iter().filter(|chunk| seen.insert(chunk.chunk_id)) {
            ranked.push(RankedChunk {
                chunk_id: chunk.chunk_id,
                leaf: chunk.category_id,
                result,
                search: *score,
                pick: 0.0,
                tokens: chunk.token_count,
            });
        }
    }

    ranked
}

/// Adds what a model picked: raises the chunks of picked leaves, and adds those that the search did
/// not find.
pub fn add_picks(ranked: &mut Vec<RankedChunk>, picks: &[(i64, f64)], chunks: &[Candidate]) {
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
                leaf: chunk.category_id,
                result: number,
                search: 0.0,
                pick: shares.get(&chunk.category_id).copied().unwrap_or(0.0),
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
pub fn relevances(query: &str, chunks: &[(RankedChunk, &str)]) -> Vec<f64> {
    if is_in_order(chunks.iter().map(|(chunk, _)| chunk)) {
        return chunks.iter().map(|(chunk, _)| chunk.relevance()).collect();
    }

    let words = keywords::scores(query, chunks.iter().map(|(_, text)| *text));
    let mut best: HashMap<(i32, i64), (f64, usize)> = HashMap::new();
    for (place, ((chunk, _), words)) in chunks.iter().zip(&words).enumerate() {
        let most = best.entry(group(chunk)).or_insert((*words, place));
        if *words > most.0 {
            *most = (*words, place);
        }
    }

    let most_of_all = words.iter().copied().fold(0.0, f64::max);
    let missing = |words: f64, most: f64| if most > 0.0 { 1.0 - words / most } else { 0.0 };
    let relevance = |(place, ((chunk, _), words)): (usize, (&(RankedChunk, &str), &f64))| {
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

    fn place(chunk_id: i64, version_id: i64, filed: bool, from: i64, to: i64) -> PlacedChunk {
        PlacedChunk {
            chunk_id,
            version_id,
            filed,
            start_char: from,
            end_char: to,
            token_count: 10,
            category_id: if filed { 7 } else { 0 },
        }
    }

    #[test]
    fn a_result_stands_for_the_filed_chunks_that_share_its_text() {
        let results = [(21, 0.9), (22, 0.8), (31, 0.7), (41, 0.6), (99, 0.5)];
        let places = [
            place(21, 1, false, 100, 260),
            place(22, 1, false, 240, 400),
            place(31, 2, false, 0, 50),
            place(41, 3, true, 0, 50),
        ];
        let filed_chunks = [
            place(1, 1, true, 0, 100),
            place(2, 1, true, 100, 200),
            place(3, 1, true, 200, 300),
            place(4, 1, true, 300, 400),
        ];

        let ranked = filed(&results, &places, &filed_chunks);
        let ids: Vec<_> = ranked
            .iter()
            .map(|chunk| (chunk.chunk_id, chunk.result))
            .collect();
        assert_eq!(ids, [(2, 0), (3, 0), (4, 1), (31, 2), (41, 3)]);
        assert_eq!(ranked[3].leaf, 0, "not filed");
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
            (chunk(1, 0, 0.9), "nothing of interest"),
            (chunk(2, 0, 0.9), "the white whale"),
            (chunk(3, 1, 0.8), "nothing at all"),
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
