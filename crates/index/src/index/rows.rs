//! The rows of a segment: entries with their groups, the postings of their terms and their vectors.
//! Rows are only added; `segment` decides which of them are visible.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rustc_hash::FxHashMap;

use super::super::entry::EntryRow;
use super::super::terms::for_each_token;
use super::super::vectors::Matrix;
use super::segment::Segment;

/// Bits of a posting that hold the count.
const COUNT_BITS: u32 = 8;
/// A row without a vector, or the end of a chain of rows.
const NONE: u32 = u32::MAX;
/// Bytes counted for a term besides its postings, for a group, and for a row.
const TERM_BYTES: usize = 96;
const GROUP_BYTES: usize = 136;
const ROW_BYTES: usize = 56;

/// The postings of a term: row and count in one number, ordered by row.
pub type Postings = Vec<u32>;

/// The row of a posting.
#[inline]
pub fn row_of(posting: u32) -> usize {
    (posting >> COUNT_BITS) as usize
}

/// How often the term occurs in that row; at most 255.
#[inline]
pub fn count_of(posting: u32) -> u32 {
    posting & ((1 << COUNT_BITS) - 1)
}

/// A number that stands for an id in every segment and process.
pub fn key_of(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Entries, their terms and their vectors.
#[derive(Debug, Default)]
pub struct Rows {
    pub entry_ids: Vec<i64>,
    pub owner_ids: Vec<i64>,
    /// The number of each row's group, inside this segment.
    pub groups: Vec<u32>,
    pub versions: Vec<i64>,
    pub created: Vec<i64>,
    pub lengths: Vec<u32>,
    pub terms: HashMap<Box<str>, Postings>,
    vectors: Option<Vectors>,
    group_numbers: HashMap<Box<str>, u32>,
    /// A number for each group, and for its end user, that is the same in every segment.
    group_keys: Vec<u64>,
    group_users: Vec<u64>,
    /// The number of a group by its key, for what another index knows of it.
    group_by_key: FxHashMap<u64, u32>,
    /// The last row of each group, and the previous row of the same group.
    group_ends: Vec<u32>,
    previous: Vec<u32>,
    term_bytes: usize,
}

#[derive(Debug)]
struct Vectors {
    matrix: Matrix,
    /// The row of each vector, and the vector of each row.
    rows: Vec<u32>,
    places: Vec<u32>,
}

impl Rows {
    /// Entries with their vectors of one length, both in the order of their ids. A vector of
    /// another length is left out.
    pub fn read(entries: &[EntryRow], vectors: &[(i64, &[u8])], dims: Option<usize>) -> Self {
        let mut rows = Self::default();
        rows.extend(entries, vectors, dims);
        rows.settle();
        rows
    }

    pub(super) fn extend(
        &mut self,
        entries: &[EntryRow],
        vectors: &[(i64, &[u8])],
        dims: Option<usize>,
    ) {
        let mut vectors = vectors.iter().peekable();
        for entry in entries {
            while vectors.next_if(|(id, _)| *id < entry.id).is_some() {}
            let vector = vectors.next_if(|(id, _)| *id == entry.id);
            self.push(entry, dims.zip(vector.map(|(_, bytes)| *bytes)));
        }
    }

    /// The rows of some segments, in order, without those that are gone.
    pub fn merge(segments: &[Segment]) -> Self {
        let mut rows = Self::default();
        for segment in segments {
            rows.append(segment);
        }

        rows.settle();
        rows
    }

    pub fn len(&self) -> usize {
        self.entry_ids.len()
    }

    /// The sum of all lengths.
    pub fn total_length(&self) -> u64 {
        self.lengths.iter().map(|length| u64::from(*length)).sum()
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        self.term_bytes
            + self.len() * ROW_BYTES
            + self.group_ends.len() * GROUP_BYTES
            + self.vector_bytes()
    }

    /// Memory use of the vectors.
    pub fn vector_bytes(&self) -> usize {
        let sizes = |vectors: &Vectors| {
            vectors.matrix.bytes()
                + (vectors.rows.capacity() + vectors.places.capacity()) * size_of::<u32>()
        };
        self.vectors.as_ref().map_or(0, sizes)
    }

    /// The number of a group inside this segment.
    pub fn group_number(&self, id: &str) -> Option<u32> {
        self.group_numbers.get(id).copied()
    }

    /// A number that stands for a group in every segment.
    pub fn group_key(&self, number: u32) -> u64 {
        self.group_keys[number as usize]
    }

    /// The key of the end user of a group, see [`key_of`].
    pub fn group_user(&self, number: u32) -> u64 {
        self.group_users[number as usize]
    }

    pub fn group_count(&self) -> usize {
        self.group_ends.len()
    }

    /// The number of a group by its key.
    pub fn group_with_key(&self, key: u64) -> Option<u32> {
        self.group_by_key.get(&key).copied()
    }

    /// The rows of a group, last first.
    pub fn rows_of(&self, group_id: &str) -> impl Iterator<Item = usize> + use<> {
        let group = self.group_number(group_id);
        group
            .map(|number| self.rows_in(number).collect::<Vec<_>>())
            .unwrap_or_default()
            .into_iter()
    }

    /// The rows of the group with this number, last first.
    pub fn rows_in(&self, group: u32) -> impl Iterator<Item = usize> + '_ {
        let row = |row: u32| (row != NONE).then_some(row as usize);
        let last = row(self.group_ends[group as usize]);
        std::iter::successors(last, move |before| row(self.previous[*before]))
    }

    /// Vectors to compare with a query.
    pub fn matrix(&self) -> Option<&Matrix> {
        self.vectors.as_ref().map(|vectors| &vectors.matrix)
    }

    /// The row of a vector of the matrix.
    #[inline]
    pub fn row_of_vector(&self, place: usize) -> usize {
        self.vectors
            .as_ref()
            .map_or(0, |vectors| vectors.rows[place] as usize)
    }

    /// Cosine of a row's vector with a query of length 1; `None` without a vector of that length.
    pub fn cosine(&self, row: usize, query: &[f32]) -> Option<f32> {
        let (matrix, place) = self.vector_place(row)?;
        let fits = matrix.dims() == query.len();
        fits.then(|| matrix.cosine(query, place))?
    }

    pub fn vector(&self, row: usize) -> Option<Vec<f32>> {
        let (matrix, place) = self.vector_place(row)?;
        matrix.row(place)
    }

    pub fn has_vector(&self, row: usize) -> bool {
        self.vector_place(row).is_some()
    }

    fn vector_place(&self, row: usize) -> Option<(&Matrix, usize)> {
        let vectors = self.vectors.as_ref()?;
        let place = vectors.places.get(row).filter(|place| **place != NONE)?;
        Some((&vectors.matrix, *place as usize))
    }

    fn push(&mut self, entry: &EntryRow, vector: Option<(usize, &[u8])>) {
        let Some(row) = self.next_row() else { return };
        for_each_token(&entry.tokens, |token, count| {
            let posting = row << COUNT_BITS | count.min((1 << COUNT_BITS) - 1);
            self.add_postings(token, [posting]);
        });

        let length = u32::try_from(entry.length).unwrap_or(u32::MAX);
        self.push_row(
            row,
            (&entry.group_id, key_of(&entry.user_id)),
            (
                entry.id,
                entry.owner_id,
                entry.version_id,
                entry.created_at,
                length,
            ),
        );

        if let Some((dims, bytes)) = vector {
            let vectors = self.vectors.get_or_insert_with(|| Vectors::new(dims));
            vectors.push(row, |matrix| matrix.push_bytes(bytes));
        }
    }

    /// Copies the rows of a segment that are not gone.
    fn append(&mut self, segment: &Segment) {
        let other = &*segment.rows;
        let mut ids: Vec<&str> = vec![""; other.group_ends.len()];
        for (id, number) in &other.group_numbers {
            ids[*number as usize] = id;
        }

        let mut moved = vec![NONE; other.len()];
        for row in segment.kept_rows() {
            let Some(place) = self.next_row() else { break };
            moved[row] = place;
            self.push_row(
                place,
                (
                    ids[other.groups[row] as usize],
                    other.group_user(other.groups[row]),
                ),
                (
                    other.entry_ids[row],
                    other.owner_ids[row],
                    other.versions[row],
                    other.created[row],
                    other.lengths[row],
                ),
            );
        }

        for (term, postings) in &other.terms {
            let postings = postings.iter().filter_map(|posting| {
                let row = moved[row_of(*posting)];
                (row != NONE).then(|| row << COUNT_BITS | count_of(*posting))
            });
            self.add_postings(term, postings);
        }

        if let Some(theirs) = &other.vectors {
            let dims = theirs.matrix.dims();
            let vectors = self.vectors.get_or_insert_with(|| Vectors::new(dims));
            for (place, row) in theirs.rows.iter().enumerate() {
                let row = moved[*row as usize];
                if row != NONE {
                    vectors.push(row, |matrix| matrix.push_row(&theirs.matrix, place));
                }
            }
        }
    }

    fn next_row(&self) -> Option<u32> {
        let row = u32::try_from(self.len()).ok()?;
        (row < 1 << (u32::BITS - COUNT_BITS)).then_some(row)
    }

    fn push_row(
        &mut self,
        row: u32,
        (group_id, user): (&str, u64),
        (entry_id, owner_id, version_id, created_at, length): (i64, i64, i64, i64, u32),
    ) {
        let known = self.group_number(group_id);
        let group = known.unwrap_or_else(|| self.add_group(group_id, user));

        self.entry_ids.push(entry_id);
        self.owner_ids.push(owner_id);
        self.groups.push(group);
        self.versions.push(version_id);
        self.created.push(created_at);
        self.lengths.push(length);
        self.previous.push(self.group_ends[group as usize]);
        self.group_ends[group as usize] = row;
    }

    fn add_group(&mut self, id: &str, user: u64) -> u32 {
        let number = u32::try_from(self.group_ends.len()).unwrap_or(NONE);
        self.group_numbers.insert(id.into(), number);
        self.group_ends.push(NONE);
        self.group_keys.push(key_of(id));
        self.group_by_key.insert(key_of(id), number);
        self.group_users.push(user);
        number
    }

    fn add_postings(&mut self, term: &str, postings: impl IntoIterator<Item = u32>) {
        if !self.terms.contains_key(term) {
            self.term_bytes += TERM_BYTES + term.len();
            self.terms.insert(term.into(), Postings::new());
        }

        if let Some(known) = self.terms.get_mut(term) {
            let before = known.len();
            known.extend(postings);
            self.term_bytes += (known.len() - before) * size_of::<u32>();
        }
    }

    /// Releases memory reserved for growth.
    pub(super) fn settle(&mut self) {
        self.terms.retain(|_, postings| !postings.is_empty());
        self.terms.values_mut().for_each(Vec::shrink_to_fit);
        self.entry_ids.shrink_to_fit();
        self.owner_ids.shrink_to_fit();
        self.versions.shrink_to_fit();
        self.created.shrink_to_fit();
        if let Some(vectors) = &mut self.vectors {
            vectors.matrix.settle();
        }
    }
}

impl Vectors {
    fn new(dims: usize) -> Self {
        Self {
            matrix: Matrix::new(dims),
            rows: Vec::new(),
            places: Vec::new(),
        }
    }

    fn push(&mut self, row: u32, push: impl FnOnce(&mut Matrix) -> bool) {
        if push(&mut self.matrix) {
            self.places.resize(row as usize, NONE);
            self.places
                .push(u32::try_from(self.rows.len()).unwrap_or(NONE));
            self.rows.push(row);
        }
    }
}
