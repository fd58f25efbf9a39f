//! A space's chunks in memory, for search: the postings of each term, and the vectors.
//!
//! Rows are numbered by ascending chunk id, so that ties resolve in the same way everywhere. Chunks
//! of every version are included; the filter of a query decides what is visible. Term frequencies
//! count only current versions, so that a source ingested a hundred times does not make its own
//! words look common.

use std::collections::HashMap;

use super::terms::for_each_token;
use super::vectors::{Matrix, from_bytes};
use crate::model::search::{SearchChunkRow, SearchSize, SearchSource, VectorRow};

mod finding;

pub use finding::Filter;

/// More rows than this do not fit next to a count in 32 bits.
pub const MOST_ROWS: usize = 1 << 24;
/// A row without a vector.
const NONE: u32 = u32::MAX;
/// Bytes counted for a term in addition to its postings, and for a chunk.
const TERM_BYTES: usize = 96;
const ROW_BYTES: usize = 48;

/// The chunks of one space.
#[derive(Debug, Default)]
pub struct Index {
    chunk_ids: Vec<i64>,
    sources: Vec<u32>,
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
    source_numbers: HashMap<Box<str>, u32>,
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
    pub fn len(&self) -> usize {
        self.chunk_ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.chunk_ids.is_empty()
    }

    /// The number and length of chunks of current versions.
    pub fn live_size(&self) -> SearchSize {
        size(self.live_count, self.live_length)
    }

    /// The number and length of all chunks.
    pub fn whole_size(&self) -> SearchSize {
        size(self.len(), self.total_length)
    }

    /// The id of the last chunk; new ones have higher ids.
    pub fn last(&self) -> i64 {
        self.chunk_ids.last().copied().unwrap_or(0)
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

    /// Adds chunks by ascending id.
    pub fn add(&mut self, chunks: &[SearchChunkRow]) {
        for chunk in chunks {
            let Ok(row) = u32::try_from(self.len()) else {
                return;
            };
            if chunk.chunk_id <= self.last() || self.len() >= MOST_ROWS {
                continue;
            }

            let length = u32::try_from(chunk.length).unwrap_or(u32::MAX);
            for_each_token(&chunk.tokens, |token, count| {
                let posting = row << 8 | count.min(255);
                if let Some(postings) = self.terms.get_mut(token) {
                    postings.push(posting);
                    self.term_bytes += size_of::<u32>();
                } else {
                    self.terms.insert(token.into(), vec![posting]);
                    self.term_bytes += TERM_BYTES + token.len();
                }
            });

            let source = self.source_number(&chunk.source_id);
            self.chunk_ids.push(chunk.chunk_id);
            self.sources.push(source);
            self.versions.push(chunk.version_id);
            self.created.push(chunk.created_at);
            self.lengths.push(length);

            // Invisible until the sources are updated.
            self.live.push(false);
            self.total_length += u64::from(length);
        }
    }

    /// Releases memory reserved for growth.
    pub fn settle(&mut self) {
        self.terms.values_mut().for_each(Vec::shrink_to_fit);
        self.chunk_ids.shrink_to_fit();
        self.versions.shrink_to_fit();
    }

    fn source_number(&mut self, id: &str) -> u32 {
        if let Some(number) = self.source_numbers.get(id) {
            return *number;
        }

        let number = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        self.source_numbers.insert(id.into(), number);
        self.states.push(State::default());
        number
    }

    /// Updates the current version of every source of the space; sources that are missing here are
    /// deleted.
    pub fn set_sources(&mut self, sources: &[SearchSource]) {
        self.states.fill(State::default());
        for source in sources {
            if let Some(number) = self.source_numbers.get(source.id.as_str()) {
                let version_id = source.version_id.filter(|_| source.eligible);
                self.states[*number as usize] = State {
                    version_id,
                    there: true,
                };
            }
        }

        (self.live_count, self.live_length, self.gone_count) = (0, 0, 0);
        for row in 0..self.len() {
            let state = self.states[self.sources[row] as usize];
            self.live[row] = state.version_id == Some(self.versions[row]);
            self.gone_count += usize::from(!state.there);
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
            .and_then(|row| self.chunk_ids.get(*row as usize))
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
        known.places.resize(self.chunk_ids.len(), NONE);
        let mut from = known.rows.last().map_or(0, |row| *row as usize);

        for vector in vectors {
            // Both ascend, so the next is close to the last.
            let ahead = &self.chunk_ids[from..];
            let row = match ahead.iter().take(4).position(|id| *id == vector.chunk_id) {
                Some(near) => from + near,
                None => match ahead.binary_search(&vector.chunk_id) {
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

fn size(chunks: usize, terms: u64) -> SearchSize {
    SearchSize {
        chunks: i64::try_from(chunks).unwrap_or(i64::MAX),
        terms: i64::try_from(terms).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
