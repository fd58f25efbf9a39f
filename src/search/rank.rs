//! Queries to an index and its hits, shared by the in-memory index and the database search.

use std::collections::HashSet;

use super::fusion::{self, Candidate, Fused};
use super::terms::QueryTerm;
use super::vectors::{dot, unit};
use crate::model::search::Owner;

/// How chunks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Cosine with the query.
    pub semantic: Option<f64>,
    /// The two parts whose mean is the hybrid score.
    pub standing: Option<Standing>,
}

/// How far a chunk is above the average candidate in each part, in standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    pub keyword: f64,
    pub semantic: f64,
}

/// The best results: ordered, above the minimum score, one per source if wanted, at most `k`.
pub fn finish(mut hits: Vec<Hit>, question: &PreparedQuery) -> Vec<Hit> {
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
        }
    }
}

/// Orders candidates by both parts; returns each with its score and its cosine with the query.
pub fn fuse_all<Id: Copy + Ord + std::hash::Hash>(
    ids: &[Id],
    keyword: impl Fn(Id) -> f64,
    vector: impl Fn(Id) -> Option<Vec<f32>>,
    asked: Option<&[f32]>,
) -> Vec<(Fused<Id>, Option<f64>)> {
    let asked: Vec<f32> = asked.map(|asked| unit(asked).collect()).unwrap_or_default();
    let cosine = |id: Id| {
        Some(f64::from(dot(
            &asked,
            &vector(id).filter(|found| found.len() == asked.len())?,
        )))
    };

    let mut seen = HashSet::new();
    let distinct = ids.iter().copied().filter(|id| seen.insert(*id));
    let all: Vec<Candidate<Id>> = distinct
        .map(|id| Candidate {
            id,
            keyword: keyword(id),
            semantic: cosine(id),
        })
        .collect();

    let cosines: std::collections::HashMap<Id, Option<f64>> =
        all.iter().map(|c| (c.id, c.semantic)).collect();
    let fused = fusion::hybrid(&all, &asked, &vector);
    fused
        .into_iter()
        .map(|one| (one, cosines.get(&one.id).copied().flatten()))
        .collect()
}
