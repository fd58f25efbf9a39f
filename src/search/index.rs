//! A space's chunks in memory, for search: the postings of each term, and the vectors.
//!
//! Rows are numbered by ascending chunk id, so that ties resolve in the same way everywhere. Chunks
//! of every version are included; the filter of a query decides what is visible. Term frequencies
//! count only current versions, so that a source ingested a hundred times does not make its own
//! words look common.

use std::collections::{HashMap, HashSet};

use super::terms::for_each_token;
use super::vectors::{Matrix, from_bytes};
use crate::model::search::{EntryRow, OwnerKind, SearchGroup, SearchSize, VectorRow};

mod finding;

pub use finding::Filter;

/// More rows than this do not fit next to a count in 32 bits.
pub const MOST_ROWS: usize = 1 << 24;
/// A row without a vector.
const NONE: u32 = u32::MAX;
/// The version of a row whose entry was removed; no search matches it.
const REMOVED: i64 = i64::MIN;
/// Estimated bytes per term in addition to its postings, and per entry.
const TERM_BYTES: usize = 96;
const ROW_BYTES: usize = 56;

/// The entries of one space and kind.
#[derive(Debug, Default)]
pub struct Index {
    kind: OwnerKind,
    entry_ids: Vec<i64>,
    owner_ids: Vec<i64>,
    groups: Vec<u32>,
    versions: Vec<i64>,
    created: Vec<i64>,
    lengths: Vec<u32>,
    /// Rows of the current versions of eligible sources, their number, and the sum of their
    /// lengths.
    live: Vec<bool>,
    live_count: usize,
    live_length: u64,
    /// The sum of all lengths.
    total_length: u64,
    /// Rows of deleted sources.
    gone_count: usize,
    terms: HashMap<Box<str>, Postings>,
    term_bytes: usize,
    group_numbers: HashMap<Box<str>, u32>,
    states: Vec<State>,
    vectors: Option<Vectors>,
    /// Vectors of another model that are being loaded; searches use the previous ones until they
    /// are complete.
    coming: Option<Vectors>,
}

/// The postings of a term: row and count in one number, ordered by row.
type Postings = Vec<u32>;

/// What is known about a source.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// `None` if it has no version, is excluded, or is deleted.
    version_id: Option<i64>,
    there: bool,
}

#[derive(Debug)]
struct Vectors {
    model: String,
    matrix: Matrix,
    /// The row of each vector, and the vector of each row.
    rows: Vec<u32>,
    places: Vec<u32>,
}

impl Index {
    /// An empty index.
    pub fn of(kind: OwnerKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    pub fn len(&self) -> usize {
        self.entry_ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entry_ids.is_empty()
    }

    /// The number and length of chunks of current versions.
    pub fn live_size(&self) -> SearchSize {
        size(self.live_count, self.live_length)
    }

    /// The number and length of all chunks.
    pub fn whole_size(&self) -> SearchSize {
        size(self.len(), self.total_length)
    }

    /// The id of the last entry.
    pub fn last(&self) -> i64 {
        self.entry_ids.last().copied().unwrap_or(0)
    }

    /// The model of the vectors, if they are loaded.
    pub fn model(&self) -> Option<&str> {
        self.vectors.as_ref().map(|vectors| vectors.model.as_str())
    }

    /// Whether so many rows belong to deleted sources that it is better to reload.
    pub fn is_worn(&self) -> bool {
        self.gone_count > 1_000 && self.gone_count * 4 > self.len()
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        self.term_bytes + self.len() * ROW_BYTES + self.vector_bytes()
    }

    /// Memory use of the vectors.
    pub fn vector_bytes(&self) -> usize {
        let sizes = |vectors: &Vectors| {
            vectors.matrix.bytes()
                + (vectors.rows.capacity() + vectors.places.capacity()) * size_of::<u32>()
        };
        self.vectors.as_ref().map_or(0, sizes)
    }

    /// Adds entries, in the order of their ids.
    pub fn add(&mut self, entries: &[EntryRow]) {
        for entry in entries {
            let Ok(row) = u32::try_from(self.len()) else {
                return;
            };
            if entry.id <= self.last() || self.len() >= MOST_ROWS {
                continue;
            }

            let length = u32::try_from(entry.length).unwrap_or(u32::MAX);
            for_each_token(&entry.tokens, |token, count| {
                let posting = row << 8 | count.min(255);
                if let Some(postings) = self.terms.get_mut(token) {
                    postings.push(posting);
                    self.term_bytes += size_of::<u32>();
                } else {
                    self.terms.insert(token.into(), vec![posting]);
                    self.term_bytes += TERM_BYTES + token.len();
                }
            });

            let group = self.group_number(&entry.group_id);
            self.entry_ids.push(entry.id);
            self.owner_ids.push(entry.owner_id);
            self.groups.push(group);
            self.versions.push(entry.version_id);
            self.created.push(entry.created_at);
            self.lengths.push(length);

            // Invisible until the sources are updated.
            self.live.push(false);
            self.total_length += u64::from(length);
        }
    }

    /// Releases memory reserved for growth.
    pub fn settle(&mut self) {
        self.terms.values_mut().for_each(Vec::shrink_to_fit);
        self.entry_ids.shrink_to_fit();
        self.owner_ids.shrink_to_fit();
        self.versions.shrink_to_fit();
    }

    fn group_number(&mut self, id: &str) -> u32 {
        if let Some(number) = self.group_numbers.get(id) {
            return *number;
        }

        let number = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        self.group_numbers.insert(id.into(), number);
        self.states.push(State::default());
        number
    }

    /// Compares some groups with the ids of their entries: removes entries that no longer exist,
    /// and returns new ids. `None` if a new id is lower than that of the last entry, so that
    /// everything must be reloaded.
    pub fn compare(&mut self, groups: &[String], ids: &HashSet<i64>) -> Option<Vec<i64>> {
        let numbers: HashSet<u32> = groups
            .iter()
            .filter_map(|id| self.group_numbers.get(id.as_str()).copied())
            .collect();

        let mut known = HashSet::new();
        for row in (0..self.len()).filter(|row| numbers.contains(&self.groups[*row])) {
            let id = self.entry_ids[row];
            if ids.contains(&id) {
                known.insert(id);
            } else {
                self.versions[row] = REMOVED;
            }
        }

        let mut new: Vec<i64> = ids.difference(&known).copied().collect();
        new.sort_unstable();
        let in_order = new.first().is_none_or(|first| *first > self.last());
        in_order.then_some(new)
    }

    /// Entries of some groups without a vector in this index.
    pub fn without_vectors(&self, groups: &[String]) -> Vec<i64> {
        let numbers: HashSet<u32> = groups
            .iter()
            .filter_map(|id| self.group_numbers.get(id.as_str()).copied())
            .collect();

        let bare = |row: &usize| {
            self.vectors
                .as_ref()
                .is_none_or(|vectors| vectors.places.get(*row).is_none_or(|place| *place == NONE))
        };

        (0..self.len())
            .filter(|row| numbers.contains(&self.groups[*row]) && self.versions[*row] != REMOVED)
            .filter(bare)
            .map(|row| self.entry_ids[row])
            .collect()
    }

    /// Updates the state of every group of the space; entries of a group that is not listed are
    /// deleted.
    pub fn set_groups(&mut self, groups: &[SearchGroup]) {
        self.states.fill(State::default());
        for group in groups {
            if let Some(number) = self.group_numbers.get(group.id.as_str()) {
                let version_id = group.version_id.filter(|_| group.eligible);
                self.states[*number as usize] = State {
                    version_id,
                    there: true,
                };
            }
        }

        (self.live_count, self.live_length, self.gone_count) = (0, 0, 0);
        for row in 0..self.len() {
            let state = self.states[self.groups[row] as usize];
            self.live[row] = state.version_id == Some(self.versions[row]);
            self.gone_count += usize::from(!state.there || self.versions[row] == REMOVED);
            if self.live[row] {
                self.live_count += 1;
                self.live_length += u64::from(self.lengths[row]);
            }
        }
    }

    /// The id of the last chunk whose vector is loaded.
    pub fn last_vector(&self) -> Option<i64> {
        let vectors = self.vectors.as_ref()?;
        vectors
            .rows
            .last()
            .and_then(|row| self.entry_ids.get(*row as usize))
            .copied()
    }

    /// Starts loading the vectors of a model; they are used once [`Index::finish_vectors`] reports
    /// that all are loaded.
    pub fn begin_vectors(&mut self, model: &str, dims: usize) {
        let (rows, places) = (Vec::new(), Vec::new());
        self.coming = Some(Vectors {
            model: model.to_owned(),
            matrix: Matrix::new(dims),
            rows,
            places,
        });
    }

    /// Drops the vectors.
    pub fn drop_vectors(&mut self) {
        (self.vectors, self.coming) = (None, None);
    }

    /// Searches use the new vectors from now on.
    pub fn finish_vectors(&mut self) {
        if let Some(coming) = self.coming.take() {
            self.vectors = Some(coming);
        }
    }

    /// Adds vectors by ascending chunk id; vectors of another length, or of unknown chunks, are
    /// skipped.
    pub fn add_vectors(&mut self, vectors: &[VectorRow]) {
        let Some(known) = self.coming.as_mut().or(self.vectors.as_mut()) else {
            return;
        };
        known.places.resize(self.entry_ids.len(), NONE);
        let mut from = known.rows.last().map_or(0, |row| *row as usize);

        for vector in vectors {
            // Both are ascending, so the next row is near the last; but a memory may get its vector
            // later than those after it.
            if self
                .entry_ids
                .get(from)
                .is_some_and(|id| *id > vector.entry_id)
            {
                from = 0;
            }

            let ahead = &self.entry_ids[from..];
            let row = match ahead.iter().take(4).position(|id| *id == vector.entry_id) {
                Some(near) => from + near,
                None => match ahead.binary_search(&vector.entry_id) {
                    Ok(far) => from + far,
                    Err(_) => continue,
                },
            };

            from = row;
            let fresh = known.places[row] == NONE;
            let Ok(number) = u32::try_from(row) else {
                continue;
            };
            if fresh && known.matrix.push(&from_bytes(&vector.vector)) {
                known.places[row] = u32::try_from(known.rows.len()).unwrap_or(NONE);
                known.rows.push(number);
            }
        }
    }
}

fn size(entries: usize, terms: u64) -> SearchSize {
    SearchSize {
        entries: i64::try_from(entries).unwrap_or(i64::MAX),
        terms: i64::try_from(terms).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
