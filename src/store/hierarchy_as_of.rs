//! SQL for the hierarchy as it was at a time: categories with their former names and parents, and chunks
//! where they were filed. What happened before the database knew of earlier states is shown as it was
//! when the database was upgraded.

use std::collections::HashMap;

use super::candidates::{LeafPart, StatementBuilder, of_then};
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// Ids per statement.
const AT_ONCE: usize = 500;

/// The categories that were not closed at a time; its values are the time and the space. Whether they
/// existed is up to the caller, because a chunk with an earlier time may be filed in a newer category.
pub(super) const CATEGORIES: &str = "SELECT n.id, CASE WHEN h.id IS NULL THEN n.parent_id ELSE h.parent_id END AS parent_id, \
     n.level, COALESCE(h.name, n.name) AS name, n.chunk_count, n.created_at FROM categories n \
     LEFT JOIN category_states h ON h.id = (SELECT x.id FROM category_states x WHERE x.space = n.space \
     AND x.category_id = n.id AND x.until_at > ? ORDER BY x.until_at, x.id LIMIT 1) \
     WHERE n.space = ? AND COALESCE(h.closed, CASE WHEN n.closed_at IS NULL THEN 0 ELSE 1 END) = 0";

/// The leaf of chunk `c` at a time; its values are the time, twice.
pub(super) const LEAF: &str = "COALESCE((SELECT p.category_id FROM chunk_placements p WHERE p.space = c.space \
     AND p.chunk_id = c.id AND p.from_at <= ? AND p.until_at > ? ORDER BY p.id DESC LIMIT 1), c.category_id)";

/// Joins to chunks `c` their placements `p` in leaves where they no longer are.
pub(super) const PLACED: &str = " JOIN chunk_placements p ON p.space = c.space AND p.chunk_id = c.id \
                                 AND p.category_id <> c.category_id";

impl StatementBuilder {
    /// Begins a recursive statement with the table `k` of the categories of a time.
    pub(super) fn of_categories(space: &Space, moment: Timestamp) -> Self {
        let columns = "id, parent_id, level, name, chunk_count, created_at";
        let mut statement = Self::default();
        statement.categories(&format!("WITH RECURSIVE k ({columns}) AS ("), space, moment);
        statement.push(")");
        statement
    }

    /// Appends the selection of the categories of a time.
    pub(super) fn categories(&mut self, begin: &str, space: &Space, moment: Timestamp) {
        self.push(begin);
        let (before, after) = CATEGORIES.split_once('?').unwrap_or((CATEGORIES, ""));
        self.number(&format!("{before}?"), moment.as_micros());
        self.text(after, space.as_str());
    }

    /// Appends the leaf of chunk `c`, now or at a time.
    pub(super) fn leaf(&mut self, begin: &str, as_of: Option<Timestamp>) {
        self.push(begin);
        match as_of {
            Some(moment) => {
                let (before, after) = LEAF.split_once('?').unwrap_or((LEAF, ""));
                self.number(&format!("{before}?"), moment.as_micros());
                self.number(after, moment.as_micros());
            }
            None => self.push("c.category_id"),
        }
    }

    /// Appends the selection of a part of a leaf, now or at a time. `select` begins a selection of chunks
    /// `c`, given the column with their leaf; `conditions` appends what else they have to meet.
    pub(super) fn leaf_part(
        &mut self,
        space: &Space,
        part: &LeafPart,
        as_of: Option<Timestamp>,
        select: impl Fn(&str) -> String,
        conditions: impl Fn(&mut Self),
    ) {
        let end = |statement: &mut Self| {
            conditions(statement);
            if let Some((moment, id)) = part.after {
                statement.number(" AND c.created_at >= ?", moment.as_micros());
                statement.number(" AND (c.created_at > ?", moment.as_micros());
                statement.number(" OR c.id > ?)", id);
            }

            statement.limit(" ORDER BY c.created_at, c.id", part.limit);
        };

        let here = format!("{} WHERE c.space = ?", select("c.category_id"));
        let Some(moment) = as_of else {
            self.text(&here, space.as_str());
            self.number(" AND c.category_id = ?", part.leaf);
            return end(self);
        };

        // Two selections, each with an index: with OR, servers would read all chunks of the space.
        self.text(&format!("SELECT * FROM ({here}"), space.as_str());
        self.number(" AND c.category_id = ?", part.leaf);
        self.elsewhere(" AND NOT", moment);
        end(self);
        let there = format!(
            ") here UNION ALL SELECT * FROM ({}{PLACED} WHERE p.space = ?",
            select("p.category_id")
        );
        self.text(&there, space.as_str());
        self.number(" AND p.category_id = ?", part.leaf);
        self.placed(moment);
        end(self);
        self.limit(") there ORDER BY created_at, id", part.limit);
    }

    /// Appends the condition that chunk `c` was in another leaf than now.
    pub(super) fn elsewhere(&mut self, begin: &str, moment: Timestamp) {
        self.push(begin);
        self.push(" EXISTS (SELECT 1 FROM chunk_placements p WHERE p.space = c.space AND p.chunk_id = c.id");
        self.placed(moment);
        self.push(" AND p.category_id <> c.category_id)");
    }

    /// Appends the condition that placement `p` was that of its chunk at a time.
    pub(super) fn placed(&mut self, moment: Timestamp) {
        self.number(" AND p.from_at <= ?", moment.as_micros());
        self.number(" AND p.until_at > ?", moment.as_micros());
    }
}

impl Store {
    /// How many chunks were below each of these categories at a time.
    pub async fn count_chunks_of_then(
        &self,
        space: &Space,
        ids: &[i64],
        moment: Timestamp,
    ) -> Result<HashMap<i64, i64>, StoreError> {
        let mut counts = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let statement = count_below(space, some, moment);
            let rows = self.read_all::<(i64, i64)>("count_chunks_of_then", || {
                self.put_together(&statement, false)
            });
            counts.extend(rows.await?);
        }

        Ok(counts)
    }

    /// Where chunks were at a time, without those that were where they are.
    pub async fn list_leaves_as_of(
        &self,
        space: &Space,
        chunks: &[i64],
        moment: Timestamp,
    ) -> Result<HashMap<i64, i64>, StoreError> {
        let mut found = HashMap::new();
        for some in chunks.chunks(AT_ONCE) {
            let sql = "SELECT p.chunk_id, p.category_id FROM chunk_placements p";
            let mut statement = StatementBuilder::of(sql);
            statement.text(" WHERE p.space = ?", space.as_str());
            statement.placed(moment);
            statement.numbers(" AND p.chunk_id IN (", some);
            let rows = self.read_all::<(i64, i64)>("list_leaves_as_of", || {
                self.put_together(&statement, false)
            });
            found.extend(rows.await?);
        }

        Ok(found)
    }
}

/// The chunks that are below these categories and were there, and those that were there and are not.
fn count_below(space: &Space, ids: &[i64], moment: Timestamp) -> StatementBuilder {
    let micros = moment.as_micros();
    let mut statement = StatementBuilder::of_categories(space, moment);
    statement.numbers(
        ", below (top, id) AS (SELECT k.id, k.id FROM k WHERE k.id IN (",
        ids,
    );
    statement
        .push(" UNION ALL SELECT below.top, k.id FROM below JOIN k ON k.parent_id = below.id)");
    statement.text(
        " SELECT f.top, COUNT(*) AS chunks FROM (SELECT below.top FROM below JOIN chunks c ON c.space = ?",
        space.as_str(),
    );
    statement.number(
        " AND c.category_id = below.id WHERE c.created_at <= ?",
        micros,
    );
    statement.number(&of_then("c.source_id"), micros);
    statement.elsewhere(" AND NOT", moment);

    statement.text(
        " UNION ALL SELECT below.top FROM below JOIN chunk_placements p ON p.space = ? AND p.category_id = below.id",
        space.as_str(),
    );
    statement.placed(moment);
    statement.number(
        " JOIN chunks c ON c.id = p.chunk_id AND c.category_id <> p.category_id WHERE c.created_at <= ?",
        micros,
    );
    statement.number(&of_then("c.source_id"), micros);
    statement.push(") f GROUP BY f.top");
    statement
}
