//! Queries to an index and its hits, shared by the in-memory index and the database search.

use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::entry::Owner;
use super::fields::FieldScores;
use super::fusion::{self, Candidate, Fused};
use super::neighbours;
use super::terms::QueryTerm;
use super::vectors::unit;

/// How to search: by keyword (`keyword`, BM25), by meaning (`semantic`, cosine similarity of
/// embeddings), or both (`hybrid`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SearchType)]
pub enum Kind {
    Keyword,
    Semantic,
    Hybrid,
}

/// A prepared query.
#[derive(Debug, Clone)]
pub struct PreparedQuery {
    pub kind: Kind,
    pub terms: Vec<QueryTerm>,
    /// Its vector by the model of the chunks' vectors; `None` if there are none.
    pub vector: Option<Vec<f32>>,
    /// What the names of sources add.
    pub fields: Arc<FieldScores>,
    /// How many results are wanted.
    pub k: usize,
    pub min_score: Option<f64>,
    /// Only the best entry of each group.
    pub by_group: bool,
}

impl PreparedQuery {
    /// How many chunks to examine first so that `k` are left, if perhaps only one of each source
    /// counts.
    pub fn depth(&self, all: usize) -> usize {
        let k = if self.by_group {
            self.k.saturating_mul(8)
        } else {
            self.k
        };
        k.min(all).max(1)
    }
}

/// A chunk and its scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub owner: Owner,
    pub entry_id: i64,
    /// The number of its group.
    pub group: u64,
    pub score: f64,
    /// Share of the highest possible keyword score.
    pub keyword: Option<f64>,
    /// How much of that share comes from what is said about its source.
    pub fields: Option<f64>,
    /// Share of the query's words that it contains at all, rare ones counting more; known of the
    /// first hits of a hybrid search.
    pub covered: Option<f64>,
    /// Cosine with the query.
    pub semantic: Option<f64>,
    /// What the order of a hybrid search depends on.
    pub standing: Option<Standing>,
}

/// How far a chunk is above the average candidate in each part, in standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    pub keyword: f64,
    pub semantic: f64,
    /// What the chunks before and after it add.
    pub neighbours: f64,
}

impl Standing {
    /// Of the chunk alone.
    pub fn own(self) -> f64 {
        f64::midpoint(self.keyword, self.semantic)
    }

    /// What the order depends on.
    pub fn total(self) -> f64 {
        self.own() + self.neighbours
    }
}

/// The hits whose parts together show whether anything fits the query.
pub const FIRST: usize = 5;

/// How well words and meaning of a chunk fit a query: 0 if they have nothing in common, 1 at best.
/// The keyword share rises slowly, because a chunk hardly ever has every word many times; its root
/// has about the scale of the cosine. A chunk without a vector is judged by its words alone.
fn fit(keyword: Option<f64>, semantic: Option<f64>) -> f64 {
    let words = keyword.map(|share| share.max(0.0).sqrt());
    let meaning = semantic.map(|cosine| cosine.clamp(0.0, 1.0));
    match (words, meaning) {
        (Some(words), Some(meaning)) => f64::midpoint(words, meaning),
        (one, other) => one.or(other).unwrap_or(0.0),
    }
}

/// How well the best of the hits fit the query, 0 to 1; comparable between queries.
pub fn evidence(hits: &[Hit]) -> f64 {
    let most = |part: fn(&Hit) -> Option<f64>| {
        let values = hits.iter().take(FIRST).filter_map(part);
        values.max_by(f64::total_cmp)
    };

    // A word is often both in a chunk and in what is said about its source; it counts once.
    let words = |hit: &Hit| {
        let fields = hit.fields.unwrap_or(0.0);
        hit.keyword.map(|all| (all - fields).max(fields))
    };
    fit(most(words), most(|hit| hit.semantic))
}

/// Below this evidence, the best hit has nothing to do with the query.
pub const NOTHING: f64 = 0.3;

/// Whether one of the best hits has to do with the query: by words and meaning, or because it has
/// all words of the query, which may be short.
pub fn concerns(hits: &[Hit]) -> bool {
    evidence(hits) >= NOTHING || has_all(hits)
}

/// Whether one of the best hits has all words of the query.
pub fn has_all(hits: &[Hit]) -> bool {
    let all = |hit: &Hit| hit.covered.is_some_and(|share| share > 0.999);
    hits.iter().take(FIRST).any(all)
}

/// Whether a hit has a word of the query, or a meaning at least this close to it.
pub fn is_related(hit: &Hit, least_cosine: f64) -> bool {
    hit.keyword.is_some_and(|share| share > 0.0)
        || hit.semantic.is_some_and(|cosine| cosine >= least_cosine)
}

/// The largest share of the query's words that one of the best hits contains, rare words counting
/// more; 1 if it is not known.
pub fn covered(hits: &[Hit]) -> f64 {
    let known = hits.iter().take(FIRST).filter_map(|hit| hit.covered);
    known.max_by(f64::total_cmp).unwrap_or(1.0)
}

/// Gives hits, which are ordered by how they compare with each other, scores that can be compared
/// between queries: how well each fits.
fn grade(hits: &mut [Hit]) {
    let fits: Vec<f64> = hits
        .iter()
        .map(|hit| fit(hit.keyword, hit.semantic))
        .collect();
    for (hit, score) in hits.iter_mut().zip(falling(&fits)) {
        hit.score = score;
    }
}

/// Values that never rise down the list: averaged over neighbours where they would.
pub fn falling(values: &[f64]) -> Vec<f64> {
    // Pools of neighbours: the sum of their values, and their number.
    let mut pools: Vec<(f64, u32)> = Vec::with_capacity(values.len());
    let mean = |pool: (f64, u32)| pool.0 / f64::from(pool.1);
    for value in values {
        let mut pool = (*value, 1);
        while let Some(before) = pools.pop_if(|before| mean(*before) < mean(pool)) {
            pool = (before.0 + pool.0, before.1 + pool.1);
        }

        pools.push(pool);
    }

    pools
        .iter()
        .flat_map(|pool| std::iter::repeat_n(mean(*pool), pool.1 as usize))
        .collect()
}

/// The best results: ordered, above the minimum score, one per source if wanted, at most `k`.
pub fn finish(mut hits: Vec<Hit>, question: &PreparedQuery) -> Vec<Hit> {
    if question.kind == Kind::Hybrid {
        neighbours::add(&mut hits);
        grade(&mut hits);
    }

    hits.retain(|hit| question.min_score.is_none_or(|least| hit.score >= least));
    if question.kind != Kind::Hybrid {
        // The fusion orders by more digits than its score shows.
        let better = |a: &Hit, b: &Hit| {
            b.score
                .total_cmp(&a.score)
                .then(a.entry_id.cmp(&b.entry_id))
        };

        if !question.by_group && hits.len() > question.k.max(1) {
            hits.select_nth_unstable_by(question.k.max(1) - 1, better);
            hits.truncate(question.k);
        }

        hits.sort_unstable_by(better);
    }

    if question.by_group {
        let mut seen = HashSet::new();
        hits.retain(|hit| seen.insert(hit.group));
    }

    hits.truncate(question.k);
    hits
}

impl<Id> From<&Fused<Id>> for Standing {
    fn from(fused: &Fused<Id>) -> Self {
        Self {
            keyword: fused.keyword,
            semantic: fused.semantic,
            neighbours: 0.0,
        }
    }
}

/// Orders candidates by both parts; returns each with its score and its cosine with the query.
/// `vector` returns a unit vector, and `dot` its inner product with one of the same length.
pub fn fuse_all<Id: Copy + Ord + std::hash::Hash>(
    ids: &[Id],
    keyword: impl Fn(Id) -> f64,
    vector: impl Fn(Id) -> Option<Vec<f32>>,
    dot: impl Fn(Id, &[f32]) -> Option<f32>,
    asked: Option<&[f32]>,
) -> Vec<(Fused<Id>, Option<f64>)> {
    let asked: Vec<f32> = asked.map(|asked| unit(asked).collect()).unwrap_or_default();
    let mut seen = FxHashSet::default();
    let distinct = ids.iter().copied().filter(|id| seen.insert(*id));
    let all: Vec<Candidate<Id>> = distinct
        .map(|id| Candidate {
            id,
            keyword: keyword(id),
            semantic: dot(id, &asked).map(f64::from),
        })
        .collect();

    let cosines: FxHashMap<Id, Option<f64>> = all.iter().map(|c| (c.id, c.semantic)).collect();
    let fused = fusion::hybrid(&all, &asked, vector, dot);
    fused
        .into_iter()
        .map(|one| (one, cosines.get(&one.id).copied().flatten()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OwnerKind;

    fn hit(keyword: f64, semantic: Option<f64>) -> Hit {
        Hit {
            owner: Owner {
                kind: OwnerKind::Chunk,
                id: 1,
            },
            entry_id: 1,
            group: 1,
            score: 0.0,
            keyword: Some(keyword),
            fields: None,
            covered: None,
            semantic,
            standing: None,
        }
    }

    #[test]
    fn what_the_best_hits_cover_is_the_most_that_one_of_them_covers() {
        let covering = |covered| Hit {
            covered,
            ..hit(0.1, None)
        };

        let hits = [covering(Some(0.2)), covering(None), covering(Some(0.6))];
        assert!((covered(&hits) - 0.6).abs() < 1e-9);
        assert!((covered(&[hit(0.1, None)]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn scores_are_comparable_and_never_rise_down_the_list() {
        let mut hits = vec![
            hit(0.36, Some(0.6)),
            hit(0.04, Some(0.2)),
            hit(0.16, Some(0.4)),
            hit(0.0, Some(-0.2)),
        ];
        grade(&mut hits);
        let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
        for (score, wanted) in scores.iter().zip([0.6, 0.3, 0.3, 0.0]) {
            assert!((score - wanted).abs() < 1e-9, "{scores:?}");
        }
    }

    #[test]
    fn all_words_of_a_short_query_are_enough() {
        let weak = hit(0.01, Some(0.1));
        assert!(!concerns(&[weak]));
        let covering = |covered| Hit { covered, ..weak };
        assert!(!concerns(&[covering(Some(0.9))]));
        assert!(concerns(&[weak, covering(Some(1.0))]));
        assert!(concerns(&[hit(0.25, Some(0.5))]));
    }

    #[test]
    fn evidence_needs_words_or_meaning() {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(evidence(&[]), 0.0));
        assert!(near(evidence(&[hit(0.25, None)]), 0.5));
        assert!(near(evidence(&[hit(0.0, Some(-0.1))]), 0.0));
        assert!(near(
            evidence(&[hit(0.0, Some(0.5)), hit(0.25, Some(0.1))]),
            0.5
        ));
        assert!(near(evidence(&[hit(1.0, Some(1.0))]), 1.0));
    }
}
