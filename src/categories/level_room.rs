//! How many categories each level has room for: counts existing ones, and room reserved for future
//! leaves.
//!
//! Limits per parent are checked with the children; then every level has room here.

use std::ops::Range;

use super::Taxonomy;
use crate::config::taxonomy::LimitScope;

/// The limit from which some room is reserved.
const MANY: i64 = 64;

#[derive(Debug, Clone)]
pub struct LevelRoom {
    taxonomy: Taxonomy,
    /// By level: existing or planned categories, and reserved room.
    used: Vec<i64>,
    held: Vec<i64>,
    /// Whether some room is reserved for new subjects.
    keeps: bool,
}

impl LevelRoom {
    pub fn new(taxonomy: Taxonomy) -> Self {
        let levels = place(taxonomy.depth()) + 2;
        Self {
            taxonomy,
            used: vec![0; levels],
            held: vec![0; levels],
            keeps: true,
        }
    }

    /// Reserves nothing: everything planned may be written, in any order.
    pub fn keep_none(&mut self) {
        self.keeps = false;
    }

    /// A category was created on a level.
    pub fn take(&mut self, level: i64) {
        if let Some(used) = self.used.get_mut(place(level)) {
            *used += 1;
        }
    }

    pub fn hold(&mut self, levels: Range<i64>) {
        for level in levels {
            self.held[place(level)] += 1;
        }
    }

    pub fn give_back(&mut self, levels: Range<i64>) {
        for level in levels {
            self.held[place(level)] -= 1;
        }
    }

    /// Whether at least half of a level is used; never if limits count per parent.
    pub fn is_half_full(&self, level: i64) -> bool {
        let used = self.used.get(place(level)).copied().unwrap_or(0);
        self.taxonomy.scope() == LimitScope::Level && used * 2 >= self.taxonomy.limit(level)
    }

    /// Whether each of these levels has room.
    pub fn has_room(&self, mut levels: Range<i64>) -> bool {
        self.taxonomy.scope() == LimitScope::Parent || levels.all(|level| self.free(level) > 0)
    }

    /// Whether each of these levels has room for a category that has siblings: some is reserved for
    /// new subjects, so that many texts on one subject do not use up all of it.
    pub fn has_room_beside(&self, mut levels: Range<i64>) -> bool {
        // More are reserved among leaves, so that there is space for new branches when there is
        // none for finer leaves.
        let of_leaves = levels.start == self.taxonomy.depth();
        let kept = |level| {
            if self.keeps {
                kept_free(self.taxonomy.limit(level), of_leaves)
            } else {
                0
            }
        };

        self.taxonomy.scope() == LimitScope::Parent
            || levels.all(|level| self.free(level) > kept(level))
    }

    fn free(&self, level: i64) -> i64 {
        self.taxonomy.limit(level) - self.used[place(level)] - self.held[place(level)]
    }

    /// Whether a category with leaves gets no more of them, although a new subject would.
    pub fn keeps_the_rest(&self) -> bool {
        let leaves = self.taxonomy.depth();
        self.taxonomy.scope() == LimitScope::Level && !self.has_room_beside(leaves..leaves + 1)
    }

    /// The first level without room for a new subject, and its limit.
    pub fn full_level(&self) -> Option<(i64, i64)> {
        let levels = match self.taxonomy.scope() {
            LimitScope::Level => 1..self.taxonomy.depth() + 1,
            LimitScope::Parent => 1..2,
        };
        { levels }
            .find(|level| self.free(*level) <= 0)
            .map(|level| (level, self.taxonomy.limit(level)))
    }
}

fn kept_free(limit: i64, of_leaves: bool) -> i64 {
    match (limit < MANY, of_leaves) {
        (true, _) => 0,
        (false, true) => limit / 8,
        (false, false) => limit / 16,
    }
}

fn place(level: i64) -> usize {
    usize::try_from(level).unwrap_or(0)
}
