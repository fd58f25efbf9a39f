//! A part of an index: some entries with their postings and vectors, which never change, and which
//! of them are visible, which is replaced as a whole.
//!
//! Segments are shared by all snapshots of an index. New entries form a new segment; small
//! neighbouring segments are merged, so that there are few of them.

use std::sync::Arc;

use super::super::entry::EntryRow;
use super::rows::Rows;

/// Segments with more rows than this together are not merged. A row must fit next to a count into
/// 32 bits.
pub const MAX_ROWS: usize = 1 << 17;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Segment {
    pub rows: Arc<Rows>,
    pub visibility: Arc<Visibility>,
}

/// Whether searches see a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// Of a version that is not current.
    Old,
    /// Of a source that is excluded, or that has no complete version yet.
    Excluded,
    /// Visible unless a filter says otherwise.
    Current,
    /// Deleted; kept only until the segment is merged.
    Gone,
}

/// What is visible of a segment.
#[derive(Debug, Clone, Default)]
pub struct Visibility {
    states: Vec<RowState>,
    pub current: usize,
    /// The sum of the lengths of current rows.
    pub current_length: u64,
    pub gone: usize,
}

impl Visibility {
    #[inline]
    pub fn state(&self, row: usize) -> RowState {
        self.states[row]
    }

    #[inline]
    pub fn is_current(&self, row: usize) -> bool {
        self.states[row] == RowState::Current
    }

    fn push(&mut self, state: RowState, length: u32) {
        self.states.push(state);
        self.add(state, length);
    }

    fn set(&mut self, row: usize, state: RowState, length: u32) {
        match self.states[row] {
            RowState::Current => {
                self.current -= 1;
                self.current_length -= u64::from(length);
            }
            RowState::Gone => self.gone -= 1,
            RowState::Old | RowState::Excluded => {}
        }

        self.states[row] = state;
        self.add(state, length);
    }

    fn add(&mut self, state: RowState, length: u32) {
        match state {
            RowState::Current => {
                self.current += 1;
                self.current_length += u64::from(length);
            }
            RowState::Gone => self.gone += 1,
            RowState::Old | RowState::Excluded => {}
        }
    }
}

impl Segment {
    /// Rows that all have one state.
    pub fn new(rows: Rows, state: RowState) -> Self {
        Self::with_states(Arc::new(rows), std::iter::repeat(state))
    }

    /// Rows with the state of each.
    pub fn with_states(rows: Arc<Rows>, states: impl IntoIterator<Item = RowState>) -> Self {
        let mut visibility = Visibility::default();
        for (length, state) in rows.lengths.iter().zip(states) {
            visibility.push(state, *length);
        }

        Self {
            rows,
            visibility: Arc::new(visibility),
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds entries in place; `false` if others share the segment or it is long enough.
    pub fn extend(
        &mut self,
        entries: &[EntryRow],
        vectors: &[(i64, &[u8])],
        dims: Option<usize>,
        state: RowState,
    ) -> bool {
        if self.len() + entries.len() > MAX_ROWS {
            return false;
        }

        let parts = Arc::get_mut(&mut self.rows).zip(Arc::get_mut(&mut self.visibility));
        let Some((rows, visibility)) = parts else {
            return false;
        };

        let before = rows.len();
        rows.extend(entries, vectors, dims);
        for length in &rows.lengths[before..] {
            visibility.push(state, *length);
        }

        true
    }

    /// Releases memory reserved for growth, if nobody shares the segment.
    pub fn settle(&mut self) {
        if let Some(rows) = Arc::get_mut(&mut self.rows) {
            rows.settle();
        }
    }

    /// Changes the state of the rows of a group; `choose` gets the version and the entry of each.
    pub fn update_group(&mut self, group_id: &str, choose: impl Fn(i64, i64) -> RowState) {
        for row in self.rows.rows_of(group_id) {
            let state = self.visibility.state(row);
            let chosen = choose(self.rows.versions[row], self.rows.entry_ids[row]);
            if state != chosen && state != RowState::Gone {
                let length = self.rows.lengths[row];
                Arc::make_mut(&mut self.visibility).set(row, chosen, length);
            }
        }
    }

    /// Whether so many rows are gone that it is worth copying the others.
    pub fn is_worn(&self) -> bool {
        self.visibility.gone * 4 > self.len()
    }

    /// The rows that are not gone.
    pub fn kept_rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(|row| self.visibility.state(*row) != RowState::Gone)
    }
}
