//! Finds entries in an index: those that pass a filter, scored by keywords, meaning, or both.

use std::collections::{HashMap, HashSet};

use super::super::entry::Owner;
use super::super::fusion::{Fused, SAMPLE};
use super::super::rank::{FIRST, Hit, Kind, PreparedQuery, finish, fuse_all};
use super::super::vectors::{Matrix, nearest_in};
use super::rows::key_of;
use super::scoring::Scores;
use super::segment::RowState;
use super::{Index, Place, Segment};

/// Which entries a query may see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The version that counts of each group; without it, what each eligible group says now.
    pub groups: Option<HashMap<String, i64>>,
    /// Nothing newer.
    pub until: Option<i64>,
    /// Only these owners.
    pub owners: Option<HashSet<i64>>,
    /// Only groups of this end user.
    pub user_id: Option<String>,
    /// Entries of old versions too.
    pub all_versions: bool,
}

impl Filter {
    /// Whether an owner is among those that are named, if any are.
    pub fn names(&self, owner_id: i64) -> bool {
        self.owners
            .as_ref()
            .is_none_or(|owners| owners.contains(&owner_id))
    }

    /// Whether an entry may be seen, as far as the filter alone can tell.
    pub fn lets(&self, owner_id: i64, group_id: &str, version_id: i64, created_at: i64) -> bool {
        self.names(owner_id)
            && self.until.is_none_or(|until| created_at <= until)
            && self.lets_version(group_id, version_id)
    }

    /// Whether a version of a group is visible, if groups are named.
    pub fn lets_version(&self, group_id: &str, version_id: i64) -> bool {
        self.groups
            .as_ref()
            .is_none_or(|groups| self.shows(groups.get(group_id).copied(), version_id))
    }

    /// Whether a version of a group is visible, if this one is the group's.
    fn shows(&self, wanted: Option<i64>, version_id: i64) -> bool {
        wanted.is_some_and(|wanted| self.all_versions || wanted == version_id)
    }
}

/// A filter, resolved for one segment.
enum Sieve {
    /// What is current.
    Current,
    /// Every version.
    All,
    /// The visible version of some groups, by their numbers in the segment.
    Few(HashMap<u32, i64>),
    /// The visible version of many groups, by their numbers.
    Many(Vec<Option<i64>>),
}

impl Index {
    /// The best entries for a query, best first.
    pub fn search(&self, question: &PreparedQuery, filter: &Filter) -> Vec<Hit> {
        let visible = self.visible(filter);
        let wanted = &|place: Place| {
            visible(place)
                && filter.names(self.segments[place.segment()].rows.owner_ids[place.row()])
        };
        let scores = (question.kind != Kind::Semantic)
            .then(|| Scores::new(self, &question.terms, &question.fields));
        let few = self.few(filter, wanted);
        let best = |scores: &Scores<'_>, count: usize| match &few {
            Some(few) => self.best_of(few, scores, count),
            None => scores.best(count, wanted),
        };
        let nearest = |count: usize| match (&few, &question.vector) {
            (_, None) => Vec::new(),
            (Some(few), Some(asked)) => self.nearest_of(few, asked, count),
            (None, Some(asked)) => self.nearest(asked, count, wanted),
        };
        let hits = match (&scores, question.kind) {
            (Some(scores), Kind::Keyword) => self.by_keyword(question, scores, best),
            (Some(scores), Kind::Hybrid) => self.by_both(question, scores, best, nearest),
            _ => self.by_meaning(question, nearest),
        };

        finish(hits, question)
    }

    /// Which entries belong to a visible version of a visible group; whoever owns them.
    pub(super) fn visible<'a>(&'a self, filter: &'a Filter) -> impl Fn(Place) -> bool + Sync + 'a {
        let sieves: Vec<Sieve> = self
            .segments
            .iter()
            .map(|segment| sieve(segment, filter))
            .collect();

        let user = filter.user_id.as_deref().map(key_of);
        move |place: Place| {
            self.passes(place, &sieves, filter) && user.is_none_or(|user| self.user(place) == user)
        }
    }

    fn passes(&self, place: Place, sieves: &[Sieve], filter: &Filter) -> bool {
        let (segment, row) = (&self.segments[place.segment()], place.row());
        let (rows, state) = (&segment.rows, segment.visibility.state(row));
        let shown = match &sieves[place.segment()] {
            Sieve::Current => state == RowState::Current,
            Sieve::All => matches!(state, RowState::Current | RowState::Old),
            Sieve::Few(versions) => {
                filter.shows(versions.get(&rows.groups[row]).copied(), rows.versions[row])
            }
            Sieve::Many(versions) => {
                filter.shows(versions[rows.groups[row] as usize], rows.versions[row])
            }
        };

        shown
            && state != RowState::Gone
            && filter.until.is_none_or(|until| rows.created[row] <= until)
    }

    fn by_keyword(
        &self,
        question: &PreparedQuery,
        scores: &Scores<'_>,
        best: impl Fn(&Scores<'_>, usize) -> Vec<(Place, f64)>,
    ) -> Vec<Hit> {
        let found = self.enough(question, question.k, |count| best(scores, count));
        let hit = |(place, score): (Place, f64)| {
            let share = scores.query.share(score);
            Hit {
                keyword: Some(share),
                fields: Some(scores.query.share(scores.of_fields(place))),
                ..self.hit(place, share)
            }
        };

        found.into_iter().map(hit).collect()
    }

    fn by_meaning(
        &self,
        question: &PreparedQuery,
        nearest: impl Fn(usize) -> Vec<(Place, f64)>,
    ) -> Vec<Hit> {
        let near = self.enough(question, question.k, nearest);

        let hit = |(place, cosine)| Hit {
            semantic: Some(cosine),
            ..self.hit(place, cosine)
        };

        near.into_iter().map(hit).collect()
    }

    fn by_both(
        &self,
        question: &PreparedQuery,
        scores: &Scores<'_>,
        best: impl Fn(&Scores<'_>, usize) -> Vec<(Place, f64)>,
        nearest: impl Fn(usize) -> Vec<(Place, f64)>,
    ) -> Vec<Hit> {
        let near = self.sample(question, nearest);
        let held = self.sample(question, |count| best(scores, count));
        let places: Vec<Place> = near.into_iter().chain(held).collect();
        let fused = fuse_all(
            &places,
            |place| scores.of(place),
            |place| self.vector(place),
            |place, asked| self.cosine(place, asked),
            question.vector.as_deref(),
        );

        let hit = |(number, (fused, semantic)): (usize, (Fused<Place>, Option<f64>))| Hit {
            keyword: Some(scores.query.share(scores.of(fused.id))),
            fields: Some(scores.query.share(scores.of_fields(fused.id))),
            covered: (number < FIRST).then(|| scores.covered(fused.id)),
            semantic,
            standing: Some((&fused).into()),
            ..self.hit(fused.id, fused.score)
        };

        fused.into_iter().enumerate().map(hit).collect()
    }

    /// The entries that are compared by both; one per group where only one is wanted, so that a long
    /// source does not exclude the others.
    fn sample(
        &self,
        question: &PreparedQuery,
        find: impl Fn(usize) -> Vec<(Place, f64)>,
    ) -> Vec<Place> {
        let mut found = self.enough(question, SAMPLE, find);
        if question.by_group {
            let mut seen = HashSet::new();
            found.retain(|(place, _)| seen.insert(self.group(*place)));
        }

        found.truncate(SAMPLE);
        found.into_iter().map(|(place, _)| place).collect()
    }

    /// Finds entries of at least `wanted` groups if only one of each group counts, and otherwise so
    /// many entries, if there are so many.
    fn enough(
        &self,
        question: &PreparedQuery,
        wanted: usize,
        find: impl Fn(usize) -> Vec<(Place, f64)>,
    ) -> Vec<(Place, f64)> {
        let factor = if question.by_group { 8 } else { 1 };
        let mut count = wanted.saturating_mul(factor).max(1);
        loop {
            let found = find(count);
            if !question.by_group || found.len() < count || count >= self.len() {
                return found;
            }

            let groups: HashSet<u64> = found.iter().map(|(place, _)| self.group(*place)).collect();
            if groups.len() >= wanted {
                return found;
            }

            count = count.saturating_mul(8);
        }
    }

    fn nearest(
        &self,
        asked: &[f32],
        count: usize,
        wanted: impl Fn(Place) -> bool + Sync,
    ) -> Vec<(Place, f64)> {
        let with_vectors: Vec<usize> = (0..self.segments.len())
            .filter(|number| self.segments[*number].rows.matrix().is_some())
            .collect();

        let matrices: Vec<&Matrix> = with_vectors
            .iter()
            .filter_map(|number| self.segments[*number].rows.matrix())
            .collect();

        let place = |matrix: usize, vector: usize| {
            let segment = with_vectors[matrix];
            let row = self.segments[segment].rows.row_of_vector(vector);
            Place::new(segment, row)
        };

        let near = nearest_in(&matrices, asked, count, |matrix, vector| {
            wanted(place(matrix, vector))
        });

        near.into_iter()
            .map(|near| (place(near.matrix, near.row), f64::from(near.cosine)))
            .collect()
    }

    /// A number that stands for the group of an entry in every segment.
    pub(super) fn group(&self, place: Place) -> u64 {
        let rows = &self.segments[place.segment()].rows;
        rows.group_key(rows.groups[place.row()])
    }

    fn user(&self, place: Place) -> u64 {
        let rows = &self.segments[place.segment()].rows;
        rows.group_user(rows.groups[place.row()])
    }

    fn hit(&self, place: Place, score: f64) -> Hit {
        let rows = &self.segments[place.segment()].rows;
        Hit {
            owner: Owner {
                kind: self.kind,
                id: rows.owner_ids[place.row()],
            },
            entry_id: rows.entry_ids[place.row()],
            group: self.group(place),
            score,
            keyword: None,
            fields: None,
            covered: None,
            semantic: None,
            standing: None,
        }
    }
}

fn sieve(segment: &Segment, filter: &Filter) -> Sieve {
    let Some(groups) = &filter.groups else {
        return if filter.all_versions {
            Sieve::All
        } else {
            Sieve::Current
        };
    };
    let rows = &segment.rows;
    let numbered = groups
        .iter()
        .filter_map(|(id, version)| Some((rows.group_number(id)?, *version)));

    if groups.len() * 8 < rows.group_count() {
        return Sieve::Few(numbered.collect());
    }

    let mut versions = vec![None; rows.group_count()];
    for (number, version) in numbered {
        versions[number as usize] = Some(version);
    }

    Sieve::Many(versions)
}
