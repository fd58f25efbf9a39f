//! What a query reads: the visible part of the hierarchy, chunks of leaves, helpers of sources.
//!
//! Each is one statement, however many leaves or sources it covers.

use std::fmt::Write as _;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::chunks::ChunkPlace;
use super::dialect::Statement;
use super::hierarchy_as_of::PLACED;
use super::rows::Stored as _;
use super::source_chunks::{TABLES, read_source_chunk, select_source_chunks};
use super::{Store, StoreError, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::category::{Category, CategoryOption};
use crate::model::chunk::SourceChunk;
use crate::model::query::SourceHelper;
use crate::model::scope::QueryScope;

/// Ids per statement.
const AT_ONCE: usize = 500;
/// Up to this many leaves or values, a statement is worth keeping prepared.
const KEPT_LEAVES: usize = 16;
const KEPT_VALUES: usize = 64;

/// What to read of one leaf.
#[derive(Debug, Clone, Copy)]
pub struct LeafPart {
    pub leaf: i64,
    /// Only chunks after this one.
    pub after: Option<ChunkPlace>,
    pub limit: usize,
}

/// A value of a composed statement.
pub(super) enum Bound {
    Text(String),
    Number(i64),
}

/// A statement composed of parts, with the values of its placeholders.
#[derive(Default)]
pub(super) struct StatementBuilder {
    pub(super) sql: String,
    pub(super) values: Vec<Bound>,
}

impl StatementBuilder {
    /// A statement that begins with this text.
    pub(super) fn of(sql: &str) -> Self {
        Self {
            sql: sql.to_owned(),
            values: Vec::new(),
        }
    }

    /// Adds another statement as a part of this one.
    pub(super) fn append(&mut self, part: Self) {
        self.sql.push_str(&part.sql);
        self.values.extend(part.values);
    }

    pub(super) fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    pub(super) fn text(&mut self, sql: &str, value: impl Into<String>) {
        self.push(sql);
        self.values.push(Bound::Text(value.into()));
    }

    pub(super) fn number(&mut self, sql: &str, value: i64) {
        self.push(sql);
        self.values.push(Bound::Number(value));
    }

    /// Appends a list of numbers; the text ends with the opening bracket.
    pub(super) fn numbers(&mut self, sql: &str, values: &[i64]) {
        let _ = write!(self.sql, "{sql}{})", vec!["?"; values.len()].join(","));
        self.values
            .extend(values.iter().copied().map(Bound::Number));
    }

    /// Appends a limit as text: SQLite plans by a bound limit, and so would prepare the statement
    /// again each time.
    pub(super) fn limit(&mut self, sql: &str, most: usize) {
        let _ = write!(self.sql, "{sql} LIMIT {}", row_limit(most));
    }

    /// The conditions of a scope on chunks `c` of sources `s` with versions `v` (used only by a
    /// scope of all versions at a time).
    pub(super) fn scope(&mut self, scope: &QueryScope) {
        self.push(" AND s.eligible = 1");
        if let Some(user_id) = &scope.user_id {
            self.text(" AND s.user_id = ?", user_id);
        }

        if !scope.source_ids.is_empty() {
            let _ = write!(
                self.sql,
                " AND s.id IN ({})",
                vec!["?"; scope.source_ids.len()].join(",")
            );
            self.values.extend(
                scope
                    .source_ids
                    .iter()
                    .map(|id| Bound::Text(id.as_str().to_owned())),
            );
        }

        for tag in &scope.tags {
            let carries = " AND EXISTS (SELECT 1 FROM source_tags t WHERE t.space = s.space AND t.source_id = s.id AND t.tag = ?)";
            self.text(carries, tag);
        }

        match (scope.as_of, scope.all_versions) {
            (None, false) => self.push(" AND c.version_id = s.content_version_id"),
            (None, true) => self.push(OF_WHOLE),
            (Some(moment), true) => {
                self.push(OF_WHOLE);
                self.number(" AND c.created_at <= ?", moment.as_micros());
                self.number(" AND v.ingested_at <= ?", moment.as_micros());
            }
            (Some(moment), false) => {
                self.number(" AND c.created_at <= ?", moment.as_micros());
                self.number(&of_then("s.id"), moment.as_micros());
            }
        }
    }
}

/// Chunks `c` of the newest version of each source at a time. A version without new content names
/// the one whose chunks it shares. `source_id` is the column with the source.
pub(super) fn of_then(source_id: &str) -> String {
    format!(
        " AND c.version_id = (SELECT COALESCE(w.content_version_id, w.id) \
         FROM source_versions w WHERE w.space = c.space AND w.source_id = {source_id} AND w.ingested_at <= ? \
         AND EXISTS (SELECT 1 FROM document_versions x WHERE x.space = w.space AND x.version_id = w.id) \
         ORDER BY w.version DESC LIMIT 1)"
    )
}

/// Chunks `c` of completely written versions.
pub(super) const OF_WHOLE: &str = " AND EXISTS (SELECT 1 FROM document_versions x WHERE x.space = c.space AND x.version_id = c.version_id)";

impl Store {
    /// The categories with chunks in a scope, and their ancestors, level by level.
    pub async fn list_categories_in(
        &self,
        space: &Space,
        depth: i64,
        scope: &QueryScope,
    ) -> Result<Vec<Category>, StoreError> {
        let statement = match scope.as_of {
            Some(moment) => held_then(space, depth, scope, moment),
            None => held_now(space, depth, scope),
        };

        self.retry("list_categories_in", || async {
            self.fetch_all(self.put_together(&statement, false))
                .await?
                .iter()
                .map(Category::read)
                .collect()
        })
        .await
    }

    /// Categories of a space by ascending id after the given one, and the number of deletions so
    /// far.
    pub async fn list_options_after(
        &self,
        space: &Space,
        after: i64,
        limit: usize,
    ) -> Result<(i64, Vec<CategoryOption>), StoreError> {
        let mut statement = StatementBuilder::default();
        statement.text(
            "SELECT k.id, k.parent_key, k.name, COALESCE((SELECT r.value FROM counters r WHERE r.space = ? \
             AND r.name = 'category_removals' AND r.window_start = 0), 0) AS removals FROM (SELECT 1 AS one) o",
            space.as_str(),
        );

        statement.text(" LEFT JOIN categories k ON k.space = ?", space.as_str());
        statement.number(" AND k.closed_at IS NULL AND k.id > ?", after);
        statement.limit(" ORDER BY k.id", limit);
        self.retry("list_options_after", || async {
            let rows = self.fetch_all(self.put_together(&statement, true)).await?;
            let removals = rows
                .first()
                .map(|row| row.try_get("removals"))
                .transpose()?
                .unwrap_or(0);

            // The row that is always there is empty if nothing is new.
            let come = rows.iter().filter(|row| {
                row.try_get::<Option<i64>, _>("id")
                    .is_ok_and(|id| id.is_some())
            });

            Ok((removals, come.map(read_option).collect::<Result<_, _>>()?))
        })
        .await
    }

    /// The children of several parents, oldest first; 0 stands for the root.
    pub async fn list_options(
        &self,
        space: &Space,
        parents: &[i64],
    ) -> Result<Vec<CategoryOption>, StoreError> {
        let sql = "SELECT id, parent_key, name FROM categories WHERE space = ? AND parent_key IN (??) \
                   AND closed_at IS NULL";
        let mut found = Vec::new();
        for some in parents.chunks(AT_ONCE) {
            let rows = self.retry("list_options", || async {
                let padded = padded(some);
                let query = self.listed(sql, padded.len()).bind(space.as_str());
                self.fetch_all(padded.iter().fold(query, |query, id| query.bind(**id)))
                    .await
            });
            for row in rows.await? {
                found.push(read_option(&row)?);
            }
        }

        // Sorted here: with ORDER BY, SQLite would scan the whole space by id.
        found.sort_unstable_by_key(|option| option.id);
        Ok(found)
    }

    /// Chunks of leaves, each in order of arrival.
    pub async fn list_leaf_chunks(
        &self,
        space: &Space,
        scope: &QueryScope,
        parts: &[LeafPart],
    ) -> Result<Vec<SourceChunk>, StoreError> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }

        let mut statement = StatementBuilder::default();
        for (number, part) in parts.iter().enumerate() {
            statement.push(if number == 0 { "" } else { " UNION ALL " });
            statement.push("SELECT * FROM (");
            let conditions = |statement: &mut StatementBuilder| statement.scope(scope);
            statement.leaf_part(space, part, scope.as_of, select_source_chunks, conditions);
            let _ = write!(statement.sql, ") p{number}");
        }

        let kept =
            parts.len() <= KEPT_LEAVES && scope.source_ids.len() <= 1 && scope.tags.len() <= 1;
        self.retry("list_leaf_chunks", || async {
            self.fetch_all(self.put_together(&statement, kept))
                .await?
                .iter()
                .map(read_source_chunk)
                .collect()
        })
        .await
    }

    /// The helpers of sources, current or as of a time.
    pub async fn list_source_helpers(
        &self,
        space: &Space,
        source_ids: &[SourceId],
        as_of: Option<Timestamp>,
    ) -> Result<Vec<SourceHelper>, StoreError> {
        let sql = "SELECT h.source_id, h.version, h.text FROM contextual_helpers h \
                   WHERE h.space = ? AND h.source_id IN (??) AND h.version = (SELECT MAX(w.version) \
                   FROM contextual_helpers w WHERE w.space = h.space AND w.source_id = h.source_id AND w.created_at <= ?) \
                   AND (h.origin = 'user' OR h.created_at >= COALESCE((SELECT MAX(v.ingested_at) FROM source_versions v \
                   JOIN sources s ON s.space = v.space AND s.content_version_id = v.id \
                   WHERE v.space = h.space AND s.id = h.source_id AND v.ingested_at <= ?), 0))";
        let moment = as_of.map_or(i64::MAX, Timestamp::as_micros);
        let mut found = Vec::new();

        for some in source_ids.chunks(AT_ONCE) {
            let rows = self.retry("list_source_helpers", || async {
                let padded = padded(some);
                let query = self.listed(sql, padded.len()).bind(space.as_str());
                let query = padded
                    .iter()
                    .fold(query, |query, id| query.bind(id.as_str()));
                self.fetch_all(query.bind(moment).bind(moment)).await
            });
            for row in rows.await? {
                found.push(read_helper(&row)?);
            }
        }

        Ok(found)
    }

    /// Helpers by source and version.
    pub async fn list_helper_versions(
        &self,
        space: &Space,
        wanted: &[(SourceId, i64)],
    ) -> Result<Vec<SourceHelper>, StoreError> {
        let sql = "SELECT h.source_id, h.version, h.text FROM contextual_helpers h \
                   WHERE h.space = ? AND h.source_id IN (??)";
        let mut found = Vec::new();
        for some in wanted.chunks(AT_ONCE) {
            let rows = self.retry("list_helper_versions", || async {
                let query = self
                    .backend
                    .dialect
                    .query_list(sql, some.len())
                    .bind(space.as_str());
                self.fetch_all(
                    some.iter()
                        .fold(query, |query, (id, _)| query.bind(id.as_str())),
                )
                .await
            });
            for row in rows.await? {
                found.push(read_helper(&row)?);
            }
        }

        found.retain(|helper| {
            wanted
                .iter()
                .any(|(id, version)| *id == helper.source_id && *version == helper.version)
        });

        Ok(found)
    }

    /// A statement over a list of values, kept prepared if the list is short.
    fn listed(&self, sql: &'static str, count: usize) -> Statement {
        self.backend
            .dialect
            .query_list(sql, count)
            .persistent(count <= KEPT_VALUES)
    }

    pub(super) fn put_together(&self, statement: &StatementBuilder, kept: bool) -> Statement {
        let query = self
            .backend
            .dialect
            .assembled(&statement.sql)
            .persistent(kept);
        statement
            .values
            .iter()
            .fold(query, |query, value| match value {
                Bound::Text(text) => query.bind(text.clone()),
                Bound::Number(number) => query.bind(*number),
            })
    }
}

/// The categories with chunks in a scope of now, and their ancestors.
fn held_now(space: &Space, depth: i64, scope: &QueryScope) -> StatementBuilder {
    let mut statement = StatementBuilder::of("WITH RECURSIVE held (id) AS (");
    if scope.names_sources() {
        // From the sources to their chunks, because the sources are few.
        statement.text(
            &format!("SELECT DISTINCT c.category_id{TABLES} WHERE s.space = ?"),
            space.as_str(),
        );

        statement.push(" AND c.category_id IS NOT NULL");
        statement.scope(scope);
    } else {
        // From the leaves, where the first matching chunk of each is enough.
        statement.text(
            "SELECT k.id FROM categories k WHERE k.space = ?",
            space.as_str(),
        );

        statement.number(" AND k.level = ?", depth);
        let _ = write!(
            statement.sql,
            " AND EXISTS (SELECT 1{TABLES} WHERE c.space = k.space AND c.category_id = k.id"
        );

        statement.scope(scope);
        statement.push(")");
    }

    let columns = "k.id, k.parent_id, k.level, k.name, k.chunk_count, k.created_at";
    statement.push("), way (id, parent_id, level, name, chunk_count, created_at) AS (");
    statement.text(
        &format!("SELECT {columns} FROM held JOIN categories k ON k.space = ? AND k.id = held.id"),
        space.as_str(),
    );
    statement.text(
        &format!(" UNION SELECT {columns} FROM way JOIN categories k ON k.space = ?"),
        space.as_str(),
    );
    statement.push(
        " AND k.id = way.parent_id) \
         SELECT id, parent_id, level, name, chunk_count, created_at FROM way ORDER BY level, id",
    );
    statement
}

/// The categories of a time with chunks in a scope, and their ancestors.
fn held_then(space: &Space, depth: i64, scope: &QueryScope, moment: Timestamp) -> StatementBuilder {
    let mut statement = StatementBuilder::of_categories(space, moment);
    if scope.names_sources() {
        statement.leaf(", held (id) AS (SELECT DISTINCT ", Some(moment));
        statement.text(&format!("{TABLES} WHERE s.space = ?"), space.as_str());
        statement.push(" AND c.category_id IS NOT NULL");
        statement.scope(scope);
    } else {
        // By leaf, first the chunks that are still there.
        statement.number(
            ", held (id) AS (SELECT k.id FROM k WHERE k.level = ?",
            depth,
        );
        let here = format!(" AND (EXISTS (SELECT 1{TABLES} WHERE c.space = ?");
        statement.text(&here, space.as_str());
        statement.push(" AND c.category_id = k.id");
        statement.elsewhere(" AND NOT", moment);
        statement.scope(scope);
        let there = format!(") OR EXISTS (SELECT 1{TABLES}{PLACED} WHERE p.space = ?");
        statement.text(&there, space.as_str());
        statement.push(" AND p.category_id = k.id");
        statement.placed(moment);
        statement.scope(scope);
        statement.push("))");
    }

    let columns = "k.id, k.parent_id, k.level, k.name, k.chunk_count, k.created_at";
    let _ = write!(
        statement.sql,
        "), way (id, parent_id, level, name, chunk_count, created_at) AS (\
         SELECT {columns} FROM held JOIN k ON k.id = held.id \
         UNION SELECT {columns} FROM way JOIN k ON k.id = way.parent_id) \
         SELECT id, parent_id, level, name, chunk_count, created_at FROM way ORDER BY level, id"
    );
    statement
}

/// A list padded to a power of two with its last value, so that a few statements serve lists of
/// every length.
fn padded<T>(values: &[T]) -> Vec<&T> {
    let last = values.last().into_iter().cycle();
    values
        .iter()
        .chain(last)
        .take(values.len().next_power_of_two())
        .collect()
}

fn read_option(row: &AnyRow) -> Result<CategoryOption, StoreError> {
    Ok(CategoryOption {
        id: row.try_get("id")?,
        parent_id: row.try_get("parent_key")?,
        name: row.try_get("name")?,
    })
}

fn read_helper(row: &AnyRow) -> Result<SourceHelper, StoreError> {
    Ok(SourceHelper {
        source_id: SourceId::from_stored(row.try_get("source_id")?),
        version: row.try_get("version")?,
        text: row.try_get("text")?,
    })
}
