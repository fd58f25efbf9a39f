//! Rows of `chunk_terms` and their full-text index, for keyword search.

use std::collections::BTreeMap;
use std::ops::Range;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::query::QueryScope;
use crate::model::search::{SearchChunkRow, SearchSize};

/// Characters per insert: below the smallest default packet size of a server.
const CHARS: usize = 1_000_000;
/// Terms counted per statement.
const TERMS: usize = 50;

const SELECT: &str = "SELECT c.chunk_id, c.source_id, c.version_id, c.created_at, c.length, c.tokens FROM chunk_terms c";
/// The sources `s` of chunks `c`.
pub(super) const OF_SOURCE: &str = " JOIN sources s ON s.space = c.space AND s.id = c.source_id";

/// The terms of a chunk to store.
#[derive(Debug, Clone, Copy)]
pub struct NewTerms<'t> {
    pub chunk_id: i64,
    pub length: i64,
    pub tokens: &'t str,
}

impl Store {
    /// Terms of a space's chunks by ascending id, after the given one.
    pub async fn list_terms(
        &self,
        space: &Space,
        after: i64,
        limit: usize,
    ) -> Result<Vec<SearchChunkRow>, StoreError> {
        let sql =
            format!("{SELECT} WHERE c.space = ? AND c.chunk_id > ? ORDER BY c.chunk_id LIMIT ?");
        self.retry("list_terms", || async {
            let query = self
                .backend
                .dialect
                .assembled(&sql)
                .bind(space.as_str())
                .bind(after);

            let rows = self
                .fetch_all(query.bind(i64::try_from(limit).unwrap_or(i64::MAX)))
                .await?;
            rows.iter().map(read_row).collect()
        })
        .await
    }

    /// Terms of some chunks.
    pub async fn list_terms_of(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<Vec<SearchChunkRow>, StoreError> {
        let sql = format!(
            "{SELECT} WHERE c.space = ? AND c.chunk_id IN ({})",
            vec!["?"; ids.len().max(1)].join(",")
        );

        if ids.is_empty() {
            return Ok(Vec::new());
        }

        self.retry("list_terms_of", || async {
            let query = self
                .backend
                .dialect
                .assembled(&sql)
                .persistent(false)
                .bind(space.as_str());

            let rows = self
                .fetch_all(ids.iter().fold(query, |query, id| query.bind(*id)))
                .await?;
            rows.iter().map(read_row).collect()
        })
        .await
    }

    /// The number and length of the searchable chunks of a space.
    pub async fn find_search_size(&self, space: &Space) -> Result<SearchSize, StoreError> {
        let sum = self.backend.dialect.whole_sum("length");
        let sql = format!("SELECT COUNT(*), {sum} FROM chunk_terms WHERE space = ?");
        self.retry("find_search_size", || async {
            let rows = self
                .fetch_all(self.backend.dialect.assembled(&sql).bind(space.as_str()))
                .await?;
            let Some(row) = rows.first() else {
                return Ok(SearchSize::default());
            };
            Ok(SearchSize {
                chunks: row.try_get(0)?,
                terms: row.try_get(1)?,
            })
        })
        .await
    }

    /// In how many chunks of a space each token occurs, by the full-text index; counted up to
    /// `most`.
    pub async fn count_tokens(
        &self,
        space: &Space,
        tokens: &[String],
        most: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let holds = self.backend.dialect.holds_tokens();
        let mut counts = vec![0; tokens.len()];
        for (some, counts) in tokens.chunks(TERMS).zip(counts.chunks_mut(TERMS)) {
            let part = |number: usize| {
                format!(
                    "SELECT {number} AS term, (SELECT COUNT(*) FROM (SELECT c.chunk_id FROM chunk_terms c \
                     WHERE c.space = ? AND {holds} LIMIT ?) q{number}) AS held"
                )
            };

            let sql = (0..some.len())
                .map(part)
                .collect::<Vec<_>>()
                .join(" UNION ALL ");

            let rows = self.retry("count_tokens", || async {
                let mut query = self.backend.dialect.assembled(&sql).persistent(false);
                for token in some {
                    query = query.bind(space.as_str()).bind(token.clone()).bind(most);
                }

                self.fetch_all(query).await
            });

            for row in rows.await? {
                let term = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
                if let Some(count) = counts.get_mut(term) {
                    *count = row.try_get(1)?;
                }
            }
        }

        Ok(counts)
    }

    /// Chunks of a scope that contain any of the tokens, by the full-text index, by ascending id
    /// after the given one.
    pub async fn list_holders(
        &self,
        space: &Space,
        scope: &QueryScope,
        tokens: &[String],
        after: i64,
        limit: usize,
    ) -> Result<Vec<SearchChunkRow>, StoreError> {
        let mut statement = StatementBuilder::default();
        statement.text(
            &format!("{SELECT}{OF_SOURCE} WHERE c.space = ?"),
            space.as_str(),
        );

        statement.number(" AND c.chunk_id > ?", after);
        let holds = format!(" AND {}", self.backend.dialect.holds_tokens());
        statement.text(&holds, self.backend.dialect.any_token(tokens));
        statement.scope(scope);
        statement.limit(
            " ORDER BY c.chunk_id",
            i64::try_from(limit).unwrap_or(i64::MAX),
        );

        self.retry("list_holders", || async {
            self.fetch_all(self.put_together(&statement, false))
                .await?
                .iter()
                .map(read_row)
                .collect()
        })
        .await
    }
}

impl Tx {
    /// The ids of a version's chunks by position, for the given positions.
    pub async fn list_chunk_ids(
        &mut self,
        space: &Space,
        version_id: i64,
        profile: &str,
        ordinals: &Range<i64>,
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let sql = "SELECT ordinal, id FROM chunks WHERE space = ? AND version_id = ? AND profile = ? \
                   AND ordinal >= ? AND ordinal < ?";
        let query = self
            .sql(sql)
            .bind(space.as_str())
            .bind(version_id)
            .bind(profile.to_owned());

        let rows = self
            .fetch_all(query.bind(ordinals.start).bind(ordinals.end))
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    }

    /// Stores the terms of a version's chunks; the full-text index follows automatically.
    pub async fn add_terms(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version_id: i64,
        terms: &[NewTerms<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut rest = terms;
        while !rest.is_empty() {
            let mut chars = 0;
            let fitting = rest
                .iter()
                .take(self.backend.dialect.bulk())
                .take_while(|terms| {
                    chars += terms.tokens.len();
                    chars <= CHARS
                });

            let (some, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            let values = vec!["(?, ?, ?, ?, ?, ?, ?)"; some.len()].join(", ");
            let sql = format!(
                "INSERT INTO chunk_terms (space, chunk_id, source_id, version_id, created_at, length, tokens) \
                 VALUES {values}"
            );

            let kept = some.len() == self.backend.dialect.bulk() || some.len() == 1;
            let mut insert = self.backend.dialect.assembled(&sql).persistent(kept);
            for terms in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(terms.chunk_id)
                    .bind(source_id.as_str())
                    .bind(version_id);
                insert = insert
                    .bind(now.as_micros())
                    .bind(terms.length)
                    .bind(terms.tokens.to_owned());
            }

            self.execute(insert).await?;
        }

        Ok(())
    }
}

fn read_row(row: &AnyRow) -> Result<SearchChunkRow, StoreError> {
    Ok(SearchChunkRow {
        chunk_id: row.try_get(0)?,
        source_id: row.try_get(1)?,
        version_id: row.try_get(2)?,
        created_at: row.try_get(3)?,
        length: row.try_get(4)?,
        tokens: row.try_get(5)?,
    })
}
