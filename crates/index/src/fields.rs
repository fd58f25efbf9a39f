//! What is said about a source (its name, path, title, tags, helper and categories) counts for its
//! chunks too: a query that names a company or a year is led to its pages, though they name neither.
//!
//! Words in a chunk and words about its source are scored apart and added up, so the order of
//! chunks of one source does not depend on its name.

use rustc_hash::FxHashMap;

use super::keywords::{K1, KeywordQuery, part};

/// How much a word about the source counts, relative to the same word in a chunk.
const SHARE: f64 = 0.5;
/// A word about more sources than this tells none of them apart, and costs time.
pub const MAX_NAMED: usize = 20_000;

/// What each source adds to the keyword scores of its chunks.
#[derive(Debug, Clone, Default)]
pub struct FieldScores {
    /// By the key of the group, see [`super::key_of`].
    by_group: FxHashMap<u64, f64>,
    most: f64,
}

impl FieldScores {
    /// Adds an entry about a source. Of several versions, the best one counts.
    pub fn add(&mut self, group: u64, score: f64) {
        if score > 0.0 {
            let known = self.by_group.entry(group).or_default();
            *known = known.max(score);
            self.most = self.most.max(score);
        }
    }

    /// What a source adds.
    pub fn of(&self, group: u64) -> f64 {
        self.by_group.get(&group).copied().unwrap_or(0.0)
    }

    /// The most that any source adds.
    pub fn most(&self) -> f64 {
        self.most
    }

    pub fn len(&self) -> usize {
        self.by_group.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_group.is_empty()
    }

    /// The sources with what each adds.
    pub fn iter(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.by_group.iter().map(|(group, score)| (*group, *score))
    }
}

/// What a term adds that occurs so often in what is said about a source. Its length does not count:
/// a long helper makes no name less of a name.
pub fn field_part(query: &KeywordQuery, term: usize, count: u32) -> f64 {
    SHARE * part(query.weight(term), count, K1)
}
