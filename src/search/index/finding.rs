//! Finds chunks in an index: those that pass a filter, scored by keywords, meaning, or both.

use std::collections::{HashMap, HashSet};

use super::super::fusion::{Fused, SAMPLE};
use super::super::keywords::{Collection, KeywordQuery, part};
use super::super::rank::{Hit, Kind, PreparedQuery, finish, fuse_all};
use super::super::terms::{QueryTerm, token};
use super::{Index, NONE, Postings};
use crate::model::search::Owner;

/// Which entries a query may see.
#[derive(Debug, Default)]
pub struct Filter {
    /// The visible version of each group; if missing, the current version of each eligible group.
    pub groups: Option<HashMap<String, i64>>,
    /// Only entries up to this time.
    pub until: Option<i64>,
    /// Only these owners.
    pub owners: Option<HashSet<i64>>,
}

impl Filter {
    /// Whether an owner is among the given ones, if any are given.
    pub fn names(&self, owner_id: i64) -> bool {
        self.owners
            .as_ref()
            .is_none_or(|owners| owners.contains(&owner_id))
    }

    /// Whether the filter alone accepts an entry.
    pub fn lets(&self, owner_id: i64, group_id: &str, version_id: i64, created_at: i64) -> bool {
        self.names(owner_id)
            && self.until.is_none_or(|until| created_at <= until)
            && self
                .groups
                .as_ref()
                .is_none_or(|groups| groups.get(group_id) == Some(&version_id))
    }
}

/// A resolved filter: the visible version by source number.
struct Sieve<'f> {
    versions: Vec<Option<i64>>,
    until: i64,
    filter: &'f Filter,
}

impl Index {
    /// The best chunks for a query, best first.
    pub fn search(&self, question: &PreparedQuery, filter: &Filter) -> Vec<Hit> {
        let sieve = self.sieve(filter);
        let wanted = |row: usize| self.passes(row, &sieve);
        let keyword = (question.kind != Kind::Semantic).then(|| self.score(&question.terms));

        let hits = match (&keyword, question.kind) {
            (Some((query, scores)), Kind::Keyword) => {
                self.by_keyword(question, query, scores, wanted)
            }
            (Some((query, scores)), Kind::Hybrid) => self.by_both(question, query, scores, wanted),
            _ => self.by_meaning(question, wanted),
        };

        finish(hits, question)
    }

    fn sieve<'f>(&self, filter: &'f Filter) -> Sieve<'f> {
        let mut versions: Vec<Option<i64>> = match &filter.groups {
            None => self.states.iter().map(|state| state.version_id).collect(),
            Some(_) => vec![None; self.states.len()],
        };

        for (id, version) in filter.groups.iter().flatten() {
            if let Some(number) = self.group_numbers.get(id.as_str()) {
                versions[*number as usize] = Some(*version);
            }
        }

        Sieve {
            versions,
            until: filter.until.unwrap_or(i64::MAX),
            filter,
        }
    }

    fn passes(&self, row: usize, sieve: &Sieve<'_>) -> bool {
        sieve.versions[self.groups[row] as usize] == Some(self.versions[row])
            && self.created[row] <= sieve.until
            && sieve.filter.names(self.owner_ids[row])
    }

    /// The keyword score of every row.
    fn score(&self, terms: &[QueryTerm]) -> (KeywordQuery, Vec<f64>) {
        let none = Vec::new();
        let lists: Vec<&Postings> = terms
            .iter()
            .map(|asked| self.terms.get(token(&asked.term).as_str()).unwrap_or(&none))
            .collect();

        let live = |posting: &&u32| self.live[(**posting >> 8) as usize];
        let all_live = self.live_count == self.len();
        let count = |list: &&Postings| {
            if all_live {
                list.len()
            } else {
                list.iter().filter(live).count()
            }
        };

        let with_term: Vec<u64> = lists.iter().map(|list| count(list) as u64).collect();
        let query = KeywordQuery::new(terms, &with_term, self.collection());
        let mut scores = vec![0.0; self.len()];

        for (term, list) in lists.into_iter().enumerate() {
            let weight = query.weight(term);
            for posting in list {
                let row = (posting >> 8) as usize;
                scores[row] += part(weight, posting & 255, query.damping(self.lengths[row]));
            }
        }

        (query, scores)
    }

    fn collection(&self) -> Collection {
        Collection::of(self.live_count as u64, self.live_length)
    }

    fn by_keyword(
        &self,
        question: &PreparedQuery,
        query: &KeywordQuery,
        scores: &[f64],
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        let found = scores
            .iter()
            .enumerate()
            .filter(|(row, score)| **score > 0.0 && wanted(*row));

        let mut found: Vec<(usize, f64)> = found.map(|(row, score)| (row, *score)).collect();
        // Only one of each group is kept, so all of them may be needed.
        if !question.by_group && found.len() > question.k.max(1) {
            let better =
                |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            found.select_nth_unstable_by(question.k.max(1) - 1, better);
            found.truncate(question.k.max(1));
        }

        let hit = |(row, score): (usize, f64)| {
            let share = query.share(score);
            Hit {
                keyword: Some(share),
                ..self.hit(row, share)
            }
        };

        found.into_iter().map(hit).collect()
    }

    fn by_meaning(
        &self,
        question: &PreparedQuery,
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        let mut count = question.depth(self.len());
        loop {
            let near = self.nearest(question, count, &wanted);
            let groups: HashSet<u32> = near.iter().map(|(row, _)| self.groups[*row]).collect();

            // Only one of each group is kept, so there may be too few results although more exist.
            if question.by_group
                && groups.len() < question.k
                && near.len() == count
                && count < self.len()
            {
                count = count.saturating_mul(8);
                continue;
            }

            let hit = |(row, cosine)| Hit {
                semantic: Some(cosine),
                ..self.hit(row, cosine)
            };

            return near.into_iter().map(hit).collect();
        }
    }

    fn by_both(
        &self,
        question: &PreparedQuery,
        query: &KeywordQuery,
        scores: &[f64],
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        let mut rows = self.near_sample(question, &wanted);
        let mut held: Vec<usize> = (0..self.len())
            .filter(|row| scores[*row] > 0.0 && wanted(*row))
            .collect();
        let better = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));

        if question.by_group {
            held.sort_unstable_by(better);
            self.keep_one_each(&mut held);
        } else if held.len() > SAMPLE {
            held.select_nth_unstable_by(SAMPLE - 1, better);
        }

        held.truncate(SAMPLE);
        rows.extend(held);
        let fused = fuse_all(
            &rows,
            |row| scores[row],
            |row| self.vector(row),
            question.vector.as_deref(),
        );

        let hit = |(fused, semantic): (Fused<usize>, Option<f64>)| Hit {
            keyword: Some(query.share(scores[fused.id])),
            semantic,
            standing: Some((&fused).into()),
            ..self.hit(fused.id, fused.score)
        };

        fused.into_iter().map(hit).collect()
    }

    /// The nearest chunks, which are compared by both parts; one per source if only one is wanted,
    /// so that a long source does not exclude the others.
    fn near_sample(
        &self,
        question: &PreparedQuery,
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<usize> {
        let mut count = SAMPLE;
        loop {
            let near = self.nearest(question, count, &wanted);
            let all = near.len() < count || count >= self.len();
            let mut rows: Vec<usize> = near.into_iter().map(|(row, _)| row).collect();
            if question.by_group {
                self.keep_one_each(&mut rows);
            }

            if all || rows.len() >= SAMPLE || !question.by_group {
                rows.truncate(SAMPLE);
                return rows;
            }

            count = count.saturating_mul(8);
        }
    }

    /// The first of each source.
    fn keep_one_each(&self, rows: &mut Vec<usize>) {
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(self.groups[*row]));
    }

    fn nearest(
        &self,
        question: &PreparedQuery,
        count: usize,
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<(usize, f64)> {
        let (Some(vectors), Some(asked)) = (&self.vectors, &question.vector) else {
            return Vec::new();
        };
        let row = |place: usize| vectors.rows[place] as usize;
        let near = vectors
            .matrix
            .nearest(asked, count, |place| wanted(row(place)));
        near.into_iter()
            .map(|near| (row(near.row), f64::from(near.cosine)))
            .collect()
    }

    fn vector(&self, row: usize) -> Option<Vec<f32>> {
        let vectors = self.vectors.as_ref()?;
        let place = vectors.places.get(row).filter(|place| **place != NONE)?;
        vectors.matrix.row(*place as usize)
    }

    fn hit(&self, row: usize, score: f64) -> Hit {
        Hit {
            owner: Owner {
                kind: self.kind,
                id: self.owner_ids[row],
            },
            entry_id: self.entry_ids[row],
            group: u64::from(self.groups[row]),
            score,
            keyword: None,
            semantic: None,
            standing: None,
        }
    }
}
