//! Rows of `chunk_placements`: where chunks that have moved were filed, and are. Every move of a chunk
//! goes through [`Tx::place_chunks`] or back through [`Tx::return_chunks`].

use std::collections::{BTreeMap, HashMap};

use super::categories::AT_ONCE;
use super::dialect::BindAll as _;
use super::{StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::category::NamedBy;

/// When a chunk that is still there left.
pub(super) const STILL: i64 = i64::MAX;

/// Which chunks to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkSet<'c> {
    /// Those of a leaf, of all versions.
    Leaf(i64),
    /// These: not so many that a statement cannot list them.
    These(&'c [i64]),
}

impl ChunkSet<'_> {
    /// The condition that selects them from `chunks` or from `chunk_placements`, where `id` is the
    /// column with the chunk.
    fn condition(self, id: &str) -> String {
        match self {
            Self::Leaf(_) => "category_id = ?".to_owned(),
            Self::These(ids) => format!("{id} IN ({})", vec!["?"; ids.len().max(1)].join(",")),
        }
    }

    /// The values of the condition.
    fn values(&self) -> &[i64] {
        match self {
            Self::Leaf(id) => std::slice::from_ref(id),
            Self::These(ids) => ids,
        }
    }

    /// The column `space` of `chunks`, compared so that SQLite finds chunks by id and does not scan the
    /// space.
    fn space(self, column: &str) -> String {
        match self {
            Self::Leaf(_) => column.to_owned(),
            Self::These(_) => format!("COALESCE({column}, '')"),
        }
    }

    /// Whether a statement over them is worth keeping prepared.
    fn is_kept(self) -> bool {
        matches!(self, Self::Leaf(_) | Self::These([_]))
    }
}

/// Where chunks move, and why.
#[derive(Debug, Clone, Copy)]
pub struct NewPlacement {
    pub to: i64,
    pub by: NamedBy,
    /// Whether a person chose this category for the chunk; `None`: as before.
    pub pinned: Option<bool>,
    pub change_id: Option<i64>,
}

/// How many chunks a change had moved from one leaf to another and are now returned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReturnedChunks {
    /// All of them.
    pub count: i64,
    /// By leaf: those of current versions that it gets, or loses.
    pub counts: BTreeMap<i64, i64>,
    /// The leaves to which chunks return.
    pub leaves: Vec<i64>,
}

impl Tx {
    /// Moves chunks to a leaf and keeps where they were; returns how many there are. The numbers of
    /// chunks of the leaves are up to the caller, who holds the space's lock.
    pub async fn place_chunks(
        &mut self,
        space: &Space,
        chunks: ChunkSet<'_>,
        new: NewPlacement,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.begin_placements(space, chunks).await?;
        // Spans spaces: only what is added from here on has a higher number.
        let last = self.sql("SELECT COALESCE(MAX(id), 0) AS last FROM chunk_placements");
        let last = self.read_value::<i64>(last).await?.unwrap_or(0);
        self.add_placements(space, chunks, new, now).await?;

        let condition = chunks.condition("chunk_id");
        let end = format!(
            "UPDATE chunk_placements SET until_at = CASE WHEN from_at > ? THEN from_at ELSE ? END \
             WHERE space = ? AND id <= ? AND until_at = {STILL} AND {condition}"
        );
        let end = self
            .composed(&end)
            .persistent(chunks.is_kept())
            .bind(now.as_micros())
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(last)
            .bind_all(chunks.values().iter().copied());
        self.execute(end).await?;

        let condition = chunks.condition("id");
        let of_space = chunks.space("space");
        let update =
            format!("UPDATE chunks SET category_id = ? WHERE {of_space} = ? AND {condition}");
        let update = self.composed(&update).persistent(chunks.is_kept());
        let update = update.bind(new.to).bind(space.as_str());
        self.execute(update.bind_all(chunks.values().iter().copied()))
            .await
    }

    /// Adds the placements of chunks that have never moved.
    async fn begin_placements(
        &mut self,
        space: &Space,
        chunks: ChunkSet<'_>,
    ) -> Result<(), StoreError> {
        let condition = chunks
            .condition("c.id")
            .replace("category_id", "c.category_id");
        let of_space = chunks.space("c.space");
        let insert = format!(
            "INSERT INTO chunk_placements (space, source_id, chunk_id, category_id, from_at, until_at, placed_by, pinned) \
             SELECT c.space, c.source_id, c.id, c.category_id, c.created_at, {STILL}, '{}', 0 FROM chunks c \
             WHERE {of_space} = ? AND {condition} AND c.category_id IS NOT NULL AND NOT EXISTS (SELECT 1 \
             FROM chunk_placements p WHERE p.space = c.space AND p.chunk_id = c.id AND p.until_at = {STILL})",
            NamedBy::Model.into_str()
        );
        let insert = self.composed(&insert).persistent(chunks.is_kept());
        let insert = insert.bind(space.as_str());
        self.execute(insert.bind_all(chunks.values().iter().copied()))
            .await
            .map(|_| ())
    }

    async fn add_placements(
        &mut self,
        space: &Space,
        chunks: ChunkSet<'_>,
        new: NewPlacement,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let condition = chunks.condition("chunk_id");
        let pinned = match new.pinned {
            Some(true) => "1",
            Some(false) => "0",
            None => "p.pinned",
        };
        let insert = format!(
            "INSERT INTO chunk_placements (space, source_id, chunk_id, category_id, from_at, until_at, placed_by, pinned, \
             change_id, previous_id) SELECT p.space, p.source_id, p.chunk_id, ?, CASE WHEN p.from_at > ? THEN p.from_at \
             ELSE ? END, {STILL}, ?, {pinned}, ?, p.id FROM chunk_placements p \
             WHERE p.space = ? AND {condition} AND p.until_at = {STILL}"
        );
        let insert = self
            .composed(&insert)
            .persistent(chunks.is_kept())
            .bind(new.to)
            .bind(now.as_micros())
            .bind(now.as_micros())
            .bind(new.by.into_str())
            .bind(new.change_id)
            .bind(space.as_str())
            .bind_all(chunks.values().iter().copied());
        self.execute(insert).await.map(|_| ())
    }

    /// A later change, not undone, that moved chunks of this change as well. Undoing this one first would
    /// leave them where the other one returns them.
    pub async fn find_later_move(
        &mut self,
        space: &Space,
        change_id: i64,
    ) -> Result<Option<i64>, StoreError> {
        // All placements of the chunks that are no longer where the change put them.
        let sql = format!(
            "SELECT p.id, COALESCE(p.previous_id, 0) AS previous, COALESCE(p.change_id, 0) AS moved_by, \
             CASE WHEN x.id IS NULL THEN 0 ELSE 1 END AS stands, CASE WHEN p.until_at = {STILL} THEN 1 ELSE 0 END AS is_last \
             FROM chunk_placements p LEFT JOIN category_changes x ON x.space = p.space AND x.id = p.change_id \
             AND x.undone_at IS NULL WHERE p.space = ? AND p.chunk_id IN (SELECT m.chunk_id FROM chunk_placements m \
             JOIN chunk_placements n ON n.space = m.space AND n.chunk_id = m.chunk_id AND n.until_at = {STILL} \
             AND COALESCE(n.change_id, 0) <> m.change_id WHERE m.space = ? AND m.change_id = ?)"
        );
        let query = self.composed(&sql).bind(space.as_str());
        let query = query.bind(space.as_str()).bind(change_id);
        let rows: Vec<(i64, i64, i64, bool, bool)> = self.read_all(query).await?;

        let earlier: HashMap<i64, (i64, i64, bool)> = rows
            .iter()
            .map(|(id, previous, moved_by, stands, _)| (*id, (*previous, *moved_by, *stands)))
            .collect();
        for (last, .., is_last) in rows {
            let mut later = None;
            let mut at = Some(last).filter(|_| is_last);
            // A placement is after the one before it, so this ends.
            while let Some((previous, moved_by, stands)) = at.and_then(|id| earlier.get(&id)) {
                if *moved_by == change_id && later.is_some() {
                    return Ok(later);
                }
                if *stands && *moved_by != change_id {
                    later = later.or(Some(*moved_by));
                }
                at = Some(*previous);
            }
        }

        Ok(None)
    }

    /// The latest chunk of a later version that was filed where a person put this one, because it has
    /// the same text.
    pub async fn find_newer_pinned(
        &mut self,
        space: &Space,
        chunk_id: i64,
    ) -> Result<Option<i64>, StoreError> {
        let sql = format!(
            "SELECT c.id FROM chunks o JOIN chunk_placements p ON p.source_id = o.source_id \
             AND p.category_id = o.category_id JOIN chunks c ON c.id = p.chunk_id AND c.category_id = p.category_id \
             AND c.version_id > o.version_id AND c.text_content = o.text_content WHERE o.id = ? AND p.space = ? \
             AND p.until_at = {STILL} AND p.pinned = 1 AND p.change_id IS NULL ORDER BY c.version_id DESC, c.id DESC LIMIT 1"
        );
        let query = self.composed(&sql).bind(chunk_id).bind(space.as_str());
        self.read_value(query).await
    }

    /// Returns the chunks that a change moved and that nothing has moved since. The numbers of chunks
    /// of the leaves are up to the caller, who holds the space's lock.
    pub async fn return_chunks(
        &mut self,
        space: &Space,
        change_id: i64,
        now: Timestamp,
    ) -> Result<ReturnedChunks, StoreError> {
        let moved = self.list_moved(space, change_id).await?;
        let mut returned = ReturnedChunks::default();
        let mut by_leaf: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (chunk_id, from, to, is_current) in moved {
            returned.count += 1;
            *returned.counts.entry(from).or_default() -= i64::from(is_current);
            *returned.counts.entry(to).or_default() += i64::from(is_current);
            by_leaf.entry(to).or_default().push(chunk_id);
        }

        returned.leaves = by_leaf.keys().copied().collect();
        self.return_placements(space, change_id, now).await?;
        for (leaf, chunks) in by_leaf {
            for some in chunks.chunks(AT_ONCE) {
                let sql = "UPDATE chunks SET category_id = ? WHERE COALESCE(space, '') = ? AND id IN (??)";
                let update = self.dialect().query_list(sql, some.len());
                let update = update.bind(leaf).bind(space.as_str());
                self.execute(update.bind_all(some.iter().copied())).await?;
            }
        }

        Ok(returned)
    }

    /// The chunks that are still where a change put them: where that is, where they were, and whether
    /// they are of a current version.
    async fn list_moved(
        &mut self,
        space: &Space,
        change_id: i64,
    ) -> Result<Vec<(i64, i64, i64, bool)>, StoreError> {
        let sql = format!(
            "SELECT p.chunk_id, p.category_id, q.category_id AS former, CASE WHEN s.id IS NULL THEN 0 ELSE 1 END AS is_current \
             FROM chunk_placements p JOIN chunk_placements q ON q.id = p.previous_id \
             JOIN chunks c ON c.id = p.chunk_id AND c.category_id = p.category_id LEFT JOIN sources s ON s.space = c.space \
             AND s.id = c.source_id AND s.content_version_id = c.version_id \
             WHERE p.space = ? AND p.change_id = ? AND p.until_at = {STILL} ORDER BY p.id"
        );
        let query = self.composed(&sql).bind(space.as_str()).bind(change_id);
        self.read_all(query).await
    }

    /// What a chunk returns to is as it was, so that an earlier change can be undone as well.
    async fn return_placements(
        &mut self,
        space: &Space,
        change_id: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let still = format!("WHERE p.space = ? AND p.change_id = ? AND p.until_at = {STILL}");
        let insert = format!(
            "INSERT INTO chunk_placements (space, source_id, chunk_id, category_id, from_at, until_at, placed_by, pinned, \
             change_id, previous_id) SELECT p.space, p.source_id, p.chunk_id, q.category_id, CASE WHEN p.from_at > ? \
             THEN p.from_at ELSE ? END, {STILL}, q.placed_by, q.pinned, q.change_id, q.previous_id \
             FROM chunk_placements p JOIN chunk_placements q ON q.id = p.previous_id {still}"
        );
        let insert = self
            .composed(&insert)
            .bind(now.as_micros())
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(change_id);
        self.execute(insert).await?;

        let end = format!(
            "UPDATE chunk_placements SET until_at = CASE WHEN from_at > ? THEN from_at ELSE ? END \
             WHERE space = ? AND change_id = ? AND until_at = {STILL}"
        );
        let end = self
            .composed(&end)
            .bind(now.as_micros())
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(change_id);
        self.execute(end).await.map(|_| ())
    }

    /// Which of these chunks are in a leaf where no person has put them, and whether each is of a current
    /// version.
    pub async fn list_movable(
        &mut self,
        space: &Space,
        leaf: i64,
        ids: &[i64],
    ) -> Result<Vec<(i64, bool)>, StoreError> {
        let mut found = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            let sql = format!(
                "SELECT c.id, CASE WHEN s.id IS NULL THEN 0 ELSE 1 END AS is_current FROM chunks c \
                 LEFT JOIN sources s ON s.space = c.space AND s.id = c.source_id AND s.content_version_id = c.version_id \
                 WHERE COALESCE(c.space, '') = ? AND c.category_id = ? AND NOT EXISTS (SELECT 1 FROM chunk_placements p \
                 WHERE p.space = c.space AND p.chunk_id = c.id AND p.until_at = {STILL} AND p.pinned = 1) \
                 AND c.id IN ({}) ORDER BY c.id",
                vec!["?"; some.len()].join(",")
            );
            let query = self.composed(&sql).persistent(false);
            let query = query.bind(space.as_str()).bind(leaf);
            found.extend(
                self.read_all::<(i64, bool)>(query.bind_all(some.iter().copied()))
                    .await?,
            );
        }

        Ok(found)
    }

    /// Whether a person chose the category of a chunk.
    pub async fn is_pinned(&mut self, space: &Space, chunk_id: i64) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT id FROM chunk_placements WHERE space = ? AND chunk_id = ? AND until_at = {STILL} AND pinned = 1"
        );
        let query = self.composed(&sql).bind(space.as_str()).bind(chunk_id);
        Ok(self.fetch_optional(query).await?.is_some())
    }

    /// The texts of a source's chunks, of all versions, for which a person chose the category, with
    /// that category; that of the latest version last.
    pub async fn list_pinned_texts(
        &mut self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let sql = format!(
            "SELECT c.text_content, p.category_id FROM chunk_placements p \
             JOIN chunks c ON c.id = p.chunk_id AND c.category_id = p.category_id \
             WHERE p.space = ? AND p.source_id = ? AND p.until_at = {STILL} AND p.pinned = 1 ORDER BY c.version_id, p.from_at, p.id"
        );
        let query = self.composed(&sql).bind(space.as_str());
        self.read_all(query.bind(source_id.as_str())).await
    }

    /// Pins chunks of a version that were filed where a person had put chunks with the same texts.
    pub async fn pin_chunks(
        &mut self,
        space: &Space,
        version_id: i64,
        ordinals: &[i64],
    ) -> Result<(), StoreError> {
        for some in ordinals.chunks(AT_ONCE) {
            let sql = format!(
                "INSERT INTO chunk_placements (space, source_id, chunk_id, category_id, from_at, until_at, placed_by, pinned) \
                 SELECT c.space, c.source_id, c.id, c.category_id, c.created_at, {STILL}, '{}', 1 FROM chunks c \
                 WHERE c.space = ? AND c.version_id = ? AND c.category_id IS NOT NULL AND c.profile = 'taxonomy' \
                 AND c.ordinal IN ({})",
                NamedBy::User.into_str(),
                vec!["?"; some.len()].join(",")
            );
            let insert = self.composed(&sql).persistent(false);
            let insert = insert.bind(space.as_str()).bind(version_id);
            self.execute(insert.bind_all(some.iter().copied())).await?;
        }

        Ok(())
    }

    /// Forgets where the chunks of a source were; returns how many placements there were.
    pub async fn remove_placements(
        &mut self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<u64, StoreError> {
        let delete = "DELETE FROM chunk_placements WHERE space = ? AND source_id = ?";
        let delete = self.sql(delete).bind(space.as_str());
        self.execute(delete.bind(source_id.as_str())).await
    }
}
