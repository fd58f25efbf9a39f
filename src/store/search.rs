//! What a search reads besides terms and vectors: the visible sources, and the chunks found.

use std::fmt::Write as _;

use memoir_index::SearchGroup;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::rows::Stored as _;
use super::source_versions::IS_WHOLE;
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::scope::QueryScope;
use crate::model::search::Span;

/// Versions per statement.
const AT_ONCE: usize = 500;

impl Store {
    /// Every source of a space, with its current version.
    pub async fn list_search_groups(&self, space: &Space) -> Result<Vec<SearchGroup>, StoreError> {
        let sql = "SELECT id, eligible, content_version_id FROM sources WHERE space = ?";
        self.retry("list_search_groups", || async {
            self.fetch_all(self.sql(sql).bind(space.as_str()))
                .await?
                .iter()
                .map(SearchGroup::read)
                .collect()
        })
        .await
    }

    /// The sources in a scope, each with its visible version.
    pub async fn list_sources_in(
        &self,
        space: &Space,
        scope: &QueryScope,
    ) -> Result<Vec<SearchGroup>, StoreError> {
        // The newest version at that time; one without new content names the one whose chunks it
        // shares.
        let then = format!(
            "(SELECT COALESCE(w.content_version_id, w.id) FROM source_versions w WHERE w.space = s.space \
             AND w.source_id = s.id AND w.ingested_at <= ? AND {IS_WHOLE} ORDER BY w.version DESC LIMIT 1)"
        );

        let version = if scope.as_of.is_some() {
            then.as_str()
        } else {
            "s.content_version_id"
        };

        let mut sql = format!(
            "SELECT s.id, {version} AS version_id FROM sources s WHERE s.space = ? AND s.eligible = 1"
        );
        if scope.user_id.is_some() {
            sql.push_str(" AND s.user_id = ?");
        }

        if !scope.source_ids.is_empty() {
            let _ = write!(
                sql,
                " AND s.id IN ({})",
                vec!["?"; scope.source_ids.len()].join(",")
            );
        }

        for _ in &scope.tags {
            sql.push_str(
                " AND EXISTS (SELECT 1 FROM source_tags t WHERE t.space = s.space AND t.source_id = s.id AND t.tag = ?)",
            );
        }

        self.retry("list_sources_in", || async {
            let mut query = self
                .backend
                .dialect
                .assembled(&sql)
                .persistent(scope.source_ids.len() <= 1);

            if let Some(moment) = scope.as_of {
                query = query.bind(moment.as_micros());
            }

            query = query.bind(space.as_str());
            if let Some(user_id) = &scope.user_id {
                query = query.bind(user_id.clone());
            }

            for id in &scope.source_ids {
                query = query.bind(id.as_str());
            }

            for tag in &scope.tags {
                query = query.bind(tag.clone());
            }

            let read = |row: &AnyRow| {
                Ok(SearchGroup {
                    id: row.try_get("id")?,
                    version_id: row.try_get("version_id")?,
                    eligible: true,
                })
            };

            self.fetch_all(query).await?.iter().map(read).collect()
        })
        .await
    }

    /// The chunks of a scope that are filed under a category or below it, by version and position.
    pub async fn list_spans_under(
        &self,
        space: &Space,
        category_id: i64,
        scope: &QueryScope,
    ) -> Result<Vec<Span>, StoreError> {
        let mut statement = match scope.as_of {
            Some(moment) => self.spans_then(space, category_id, scope, moment),
            None => self.spans_now(space, category_id, scope),
        };

        statement.push(" ORDER BY version_id, start_char");
        self.retry("list_spans_under", || async {
            self.fetch_all(self.put_together(&statement, false))
                .await?
                .iter()
                .map(read_span)
                .collect()
        })
        .await
    }

    fn spans_now(&self, space: &Space, category_id: i64, scope: &QueryScope) -> StatementBuilder {
        let mut statement = StatementBuilder::default();
        statement.text(
            "WITH RECURSIVE below (id) AS (SELECT k.id FROM categories k WHERE COALESCE(k.space, '') = ?",
            space.as_str(),
        );

        statement.number(
            " AND k.id = ? UNION ALL SELECT k.id FROM below ",
            category_id,
        );

        statement.text(
            "JOIN categories k ON k.space = ? AND k.parent_id = below.id) ",
            space.as_str(),
        );

        statement.push(&format!("{SPANS} FROM below "));
        statement.push(self.backend.dialect.join_in_order());
        statement.text(
            &format!(" chunks c ON c.space = ? AND c.category_id = below.id{OF_SOURCES}"),
            space.as_str(),
        );
        statement.scope(scope);
        statement
    }

    /// The chunks that were below a category at a time: those that are still there, and others.
    fn spans_then(
        &self,
        space: &Space,
        category_id: i64,
        scope: &QueryScope,
        moment: Timestamp,
    ) -> StatementBuilder {
        let in_order = self.backend.dialect.join_in_order();
        let mut statement = StatementBuilder::of_categories(space, moment);
        statement.number(
            ", below (id) AS (SELECT k.id FROM k WHERE k.id = ?",
            category_id,
        );
        statement.push(" UNION ALL SELECT k.id FROM below JOIN k ON k.parent_id = below.id) ");

        let here = format!(
            "{SPANS} FROM below {in_order} chunks c ON c.space = ? AND c.category_id = below.id{OF_SOURCES}"
        );
        statement.text(&here, space.as_str());
        statement.elsewhere(" AND NOT", moment);
        statement.scope(scope);

        let there = format!(
            " UNION ALL {SPANS} FROM below {in_order} chunk_placements p ON p.space = ? AND p.category_id = below.id"
        );
        statement.text(&there, space.as_str());
        statement.placed(moment);
        statement.push(&format!(
            " {in_order} chunks c ON c.id = p.chunk_id AND c.category_id <> p.category_id{OF_SOURCES}"
        ));
        statement.scope(scope);
        statement
    }

    /// The chunks of one profile of some versions.
    pub async fn list_spans_of(
        &self,
        space: &Space,
        version_ids: &[i64],
        profile: &str,
    ) -> Result<Vec<Span>, StoreError> {
        let sql = "SELECT c.id, c.version_id, c.start_char, c.end_char FROM chunks c WHERE c.space = ? \
                   AND c.profile = ? AND c.version_id IN (??)";
        let mut found = Vec::new();
        for some in version_ids.chunks(AT_ONCE) {
            let rows = self.retry("list_spans_of", || async {
                let query = self
                    .backend
                    .dialect
                    .query_list(sql, some.len())
                    .bind(space.as_str());

                let query = query.bind(profile.to_owned());
                self.fetch_all(some.iter().fold(query, |query, id| query.bind(*id)))
                    .await
            });
            for row in rows.await? {
                found.push(read_span(&row)?);
            }
        }

        Ok(found)
    }
}

/// What [`read_span`] reads of chunks `c`.
const SPANS: &str = "SELECT c.id, c.version_id, c.start_char, c.end_char";
/// Joins to chunks `c` their sources `s`.
const OF_SOURCES: &str = " JOIN sources s ON s.space = c.space AND s.id = c.source_id WHERE 1 = 1";

fn read_span(row: &AnyRow) -> Result<Span, StoreError> {
    Ok(Span {
        chunk_id: row.try_get("id")?,
        version_id: row.try_get("version_id")?,
        start_char: row.try_get("start_char")?,
        end_char: row.try_get("end_char")?,
    })
}
