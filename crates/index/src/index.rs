//! A space's entries in memory, for search: the postings of each term, and the vectors.
//!
//! An [`Index`] is a snapshot that never changes under a search. What was written since becomes a
//! new snapshot, which shares nearly everything with the previous one: its segments. Entries of
//! every version are included; the filter of a query decides what is visible. Term frequencies count
//! only current versions, so that a source ingested a hundred times does not make its own words look
//! common.

use std::collections::HashSet;
use std::sync::Arc;

use super::entry::{EntryRow, OwnerKind, SearchGroup, SearchSize, VectorRow};

mod few_groups;
mod finding;
mod rows;
mod scoring;
mod segment;

pub use finding::Filter;
pub use rows::key_of;
pub use segment::Segment;

use rows::Rows;
use segment::{MAX_ROWS, RowState};

/// Segments with more rows than this are merged in the background.
const QUICK_ROWS: usize = 1_000;

/// The entries of one space and kind. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Index {
    kind: OwnerKind,
    segments: Vec<Segment>,
    /// The model of the vectors, if they are loaded.
    model: Option<VectorModel>,
    /// The highest id of an entry.
    last: i64,
}

/// The model of an index's vectors, and their length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorModel {
    pub name: Arc<str>,
    pub dims: usize,
}

/// A row of an index: its segment, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    fn new(segment: usize, row: usize) -> Self {
        Self((segment as u64) << 32 | row as u64)
    }

    fn segment(self) -> usize {
        usize::try_from(self.0 >> 32).unwrap_or(usize::MAX)
    }

    fn row(self) -> usize {
        usize::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(usize::MAX)
    }
}

/// Neighbouring segments, and the rows that can replace theirs.
pub struct Merged {
    parts: Vec<Segment>,
    rows: Arc<Rows>,
}

impl Index {
    /// An empty one, whose entries get vectors of a model if one is named.
    pub fn of(kind: OwnerKind, model: Option<VectorModel>) -> Self {
        Self {
            kind,
            model,
            ..Self::default()
        }
    }

    pub fn len(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The number and length of current entries.
    fn current(&self) -> (u64, u64) {
        let sizes = self.segments.iter().map(|segment| {
            let visibility = &segment.visibility;
            (visibility.current as u64, visibility.current_length)
        });
        sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The number and length of entries of current versions.
    pub fn live_size(&self) -> SearchSize {
        let (entries, terms) = self.current();
        size(entries, terms)
    }

    /// The number and length of all entries.
    pub fn whole_size(&self) -> SearchSize {
        let lengths = self.segments.iter().map(|part| part.rows.total_length());
        size(self.len() as u64, lengths.sum())
    }

    /// The highest id of an entry.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// The model of the vectors, if they are loaded.
    pub fn model(&self) -> Option<&VectorModel> {
        self.model.as_ref()
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|part| part.rows.bytes()).sum()
    }

    /// Memory use of the vectors.
    pub fn vector_bytes(&self) -> usize {
        let segments = self.segments.iter();
        segments.map(|part| part.rows.vector_bytes()).sum()
    }

    fn entry_id(&self, place: Place) -> i64 {
        self.segments[place.segment()].rows.entry_ids[place.row()]
    }

    /// Adds entries with their vectors, both in the order of their ids. Entries of sources are
    /// invisible until [`Index::update_groups`] names their version.
    pub fn add(&mut self, entries: &[EntryRow], vectors: &[VectorRow]) {
        let Some(last) = entries.last() else { return };
        self.last = self.last.max(last.id);
        let vectors: Vec<(i64, &[u8])> = vectors
            .iter()
            .map(|vector| (vector.entry_id, vector.vector.as_slice()))
            .collect();

        let state = if self.kind.is_of_sources() {
            RowState::Excluded
        } else {
            RowState::Current
        };

        let dims = self.model.as_ref().map(|model| model.dims);
        // While an index is loaded, nothing else shares its last segment.
        if let Some(segment) = self.segments.last_mut()
            && segment.extend(entries, &vectors, dims, state)
        {
            return;
        }

        let rows = Rows::read(entries, &vectors, dims);
        self.segments.push(Segment::new(rows, state));
        while let Some(parts) = self.similar(|rows| rows <= QUICK_ROWS) {
            self.merge(&Merged::of(parts));
        }
    }

    /// Releases memory reserved for growth.
    pub fn settle(&mut self) {
        self.segments.iter_mut().for_each(Segment::settle);
    }

    /// Whether the entries of a group's current version are here. An empty text has none.
    pub fn has_current(&self, group: &SearchGroup) -> bool {
        group.version_id.is_none_or(|version| {
            self.segments.iter().any(|segment| {
                let mut rows = segment.rows.rows_of(&group.id);
                rows.any(|row| segment.rows.versions[row] == version)
            })
        })
    }

    /// Sets the current version of some groups; the entries of a group without one are excluded.
    pub fn update_groups(&mut self, groups: &[SearchGroup]) {
        for group in groups {
            let current = group.version_id.filter(|_| group.eligible);
            self.update_group(&group.id, |version, _| match current {
                Some(current) if current == version => RowState::Current,
                Some(_) => RowState::Old,
                None => RowState::Excluded,
            });
        }
    }

    /// Removes groups with all their entries.
    pub fn remove_groups(&mut self, ids: &[String]) {
        for id in ids {
            self.update_group(id, |_, _| RowState::Gone);
        }
    }

    fn update_group(&mut self, id: &str, choose: impl Fn(i64, i64) -> RowState) {
        for segment in &mut self.segments {
            segment.update_group(id, &choose);
        }
    }

    /// Compares what is here of a group with the ids of its entries: removes the others, and returns
    /// the ids that are new.
    pub fn compare(&mut self, group_id: &str, ids: &HashSet<i64>) -> Vec<i64> {
        self.update_group(group_id, |_, entry_id| {
            if ids.contains(&entry_id) {
                RowState::Current
            } else {
                RowState::Gone
            }
        });

        let known: HashSet<i64> = self.entries_of(group_id).map(|(_, id)| id).collect();
        let mut new: Vec<i64> = ids.difference(&known).copied().collect();
        new.sort_unstable();
        new
    }

    /// Entries of a group that have no vector here.
    pub fn without_vectors(&self, group_id: &str) -> Vec<i64> {
        let rows = |place: Place| &self.segments[place.segment()].rows;
        let places = self.entries_of(group_id);
        let bare = places.filter(|(place, _)| !rows(*place).has_vector(place.row()));
        let mut ids: Vec<i64> = bare.map(|(_, entry_id)| entry_id).collect();
        ids.sort_unstable();
        ids
    }

    /// Removes entries of a group.
    pub fn remove_entries(&mut self, group_id: &str, ids: &HashSet<i64>) {
        self.update_group(group_id, |_, entry_id| {
            if ids.contains(&entry_id) {
                RowState::Gone
            } else {
                RowState::Current
            }
        });
    }

    /// The entries of a group that are not gone.
    fn entries_of<'i>(&'i self, group_id: &'i str) -> impl Iterator<Item = (Place, i64)> + 'i {
        let segments = self.segments.iter().enumerate();
        segments.flat_map(move |(number, segment)| {
            let rows = segment.rows.rows_of(group_id);
            rows.filter(|row| segment.visibility.state(*row) != RowState::Gone)
                .map(move |row| (Place::new(number, row), segment.rows.entry_ids[row]))
        })
    }

    /// The inner product of an entry's vector with another one; `None` without one of that length.
    fn cosine(&self, place: Place, asked: &[f32]) -> Option<f32> {
        self.segments[place.segment()]
            .rows
            .cosine(place.row(), asked)
    }

    fn vector(&self, place: Place) -> Option<Vec<f32>> {
        self.segments[place.segment()].rows.vector(place.row())
    }

    /// Segments to be merged in the background: neighbours of similar size, or one with many rows
    /// that are gone.
    pub fn mergeable(&self) -> Option<Vec<Segment>> {
        let worn = || self.segments.iter().find(|segment| segment.is_worn());
        self.similar(|_| true)
            .or_else(|| worn().map(|segment| vec![segment.clone()]))
    }

    /// The last two neighbours of which the first is less than twice as long as the second, so that
    /// the number of segments grows with the logarithm of the rows.
    fn similar(&self, accept: impl Fn(usize) -> bool) -> Option<Vec<Segment>> {
        let mut pairs = self.segments.windows(2).rev();
        let similar = pairs.find(|pair| {
            let (first, second) = (pair[0].len(), pair[1].len());
            first < 2 * second && first + second <= MAX_ROWS && accept(first + second)
        });

        similar.map(<[Segment]>::to_vec)
    }

    /// Replaces segments by a merged one; `false` if they are no longer here. What became invisible
    /// in the meantime stays invisible.
    pub fn merge(&mut self, merged: &Merged) -> bool {
        let count = merged.parts.len();
        let here = self.segments.windows(count).position(|segments| {
            let same = |(one, other): (&Segment, &Segment)| Arc::ptr_eq(&one.rows, &other.rows);
            segments.iter().zip(&merged.parts).all(same)
        });

        let Some(first) = here else { return false };
        let states = self.segments[first..first + count]
            .iter()
            .zip(&merged.parts)
            .flat_map(|(now, then)| then.kept_rows().map(|row| now.visibility.state(row)));

        let whole = Segment::with_states(Arc::clone(&merged.rows), states);
        let whole = (!whole.is_empty()).then_some(whole);
        self.segments.splice(first..first + count, whole);
        true
    }
}

impl Merged {
    /// Copies the rows of some segments into one. Takes long if they are long.
    pub fn of(parts: Vec<Segment>) -> Self {
        let rows = Arc::new(Rows::merge(&parts));
        Self { parts, rows }
    }
}

fn size(entries: u64, terms: u64) -> SearchSize {
    SearchSize {
        entries: i64::try_from(entries).unwrap_or(i64::MAX),
        terms: i64::try_from(terms).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
