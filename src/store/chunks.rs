//! Rows of `chunks`, by source or by category.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::{LeafPart, OF_WHOLE, StatementBuilder, of_then};
use super::categories::AT_ONCE;
use super::chunk_placements::{ChunkSet, NewPlacement};
use super::dialect::{BindAll as _, Statement};
use super::rows::{Stored as _, get, row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::category::NamedBy;
use crate::model::chunk::{Chunk, Move, NewChunk, RETRIEVAL, TAXONOMY};

row! {
    Chunk as "c." {
        id, ordinal, profile, text = "text_content", token_count, start_char, end_char, heading,
        category_id, source_id, created_at,
    }
    from row "v.version" { source_version: get(row, "version")?, category_path: Vec::new() }
}

/// The beginning of a statement that selects chunks `c` with their versions `v`.
fn select() -> String {
    format!(
        "SELECT {} FROM chunks c JOIN source_versions v ON v.space = c.space AND v.id = c.version_id",
        Chunk::COLUMNS
    )
}

/// Characters per insert: below the smallest default packet size of a server.
const CHARS: usize = 1_000_000;

/// The beginning of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub category_id: i64,
    pub created_at: Timestamp,
    pub id: i64,
    pub text: Arc<str>,
    /// What it is about, if the model that filed it said so.
    pub subject: Option<Arc<str>>,
}

/// Which chunks of a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkScope {
    /// Without those that the current version no longer contains.
    pub latest: bool,
    /// As of this time.
    pub as_of: Option<Timestamp>,
}

/// Where the next page of a category starts: the time and id of the last chunk.
pub type ChunkPlace = (Timestamp, i64);

impl Store {
    pub async fn find_chunk(&self, space: &Space, id: i64) -> Result<Option<Chunk>, StoreError> {
        self.read_first("find_chunk", || {
            let sql = format!("{} WHERE c.space = ? AND c.id = ?", select());
            self.composed(&sql).bind(space.as_str()).bind(id)
        })
        .await
    }

    /// Chunks of one version, in the order of the text. Search chunks that are cut as the filed
    /// ones are stored once, as these; they have vectors.
    pub async fn list_version_chunks(
        &self,
        space: &Space,
        version_id: i64,
        profile: &str,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Chunk>, StoreError> {
        let of_profile = if profile == RETRIEVAL {
            "(c.profile = ? OR EXISTS (SELECT 1 FROM search_entries t JOIN embeddings e ON e.space = t.space \
             AND e.owner_kind = t.owner_kind AND e.entry_id = t.id \
             WHERE t.space = c.space AND t.owner_kind = 'chunk' AND t.owner_id = c.id))"
        } else {
            "c.profile = ?"
        };
        let sql = format!(
            "{} WHERE c.space = ? AND c.version_id = ? AND {of_profile} AND c.ordinal > ? ORDER BY c.ordinal LIMIT ?",
            select()
        );
        self.read_all("list_version_chunks", || {
            self.composed(&sql)
                .bind(space.as_str())
                .bind(version_id)
                .bind(profile.to_owned())
                .bind(after)
                .bind(row_limit(limit))
        })
        .await
    }

    /// Chunks of one category in order of arrival.
    pub async fn list_category_chunks(
        &self,
        space: &Space,
        category_id: i64,
        scope: ChunkScope,
        after: Option<ChunkPlace>,
        limit: usize,
    ) -> Result<Vec<Chunk>, StoreError> {
        let current = " JOIN sources s ON s.space = c.space AND s.id = c.source_id AND s.content_version_id = c.version_id";
        let now = scope.latest && scope.as_of.is_none();
        let from = format!("{}{}", select(), if now { current } else { "" });
        let part = LeafPart {
            leaf: category_id,
            after,
            limit,
        };
        let conditions = |statement: &mut StatementBuilder| {
            if !scope.latest {
                statement.push(OF_WHOLE);
            }

            if let Some(moment) = scope.as_of {
                statement.number(" AND c.created_at <= ?", moment.as_micros());
                let then = if scope.latest {
                    of_then("c.source_id")
                } else {
                    " AND v.ingested_at <= ?".to_owned()
                };
                statement.number(&then, moment.as_micros());
            }
        };

        let mut statement = StatementBuilder::default();
        statement.leaf_part(space, &part, scope.as_of, |_| from.clone(), conditions);
        self.read_all("list_category_chunks", || {
            self.put_together(&statement, true)
        })
        .await
    }
}

impl Store {
    /// The beginnings of the texts of leaves, of current versions: by leaf, oldest first. There must not
    /// be more leaves than a statement can list.
    pub async fn list_beginnings(
        &self,
        space: &Space,
        leaves: &[i64],
        chars: i32,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        if leaves.is_empty() {
            return Ok(Vec::new());
        }

        let sql = "SELECT c.category_id, SUBSTR(c.text_content, 1, ?) AS beginning FROM chunks c JOIN sources s \
                   ON s.space = c.space AND s.id = c.source_id AND s.content_version_id = c.version_id \
                   WHERE c.space = ? AND c.category_id IN (??) ORDER BY c.category_id, c.created_at, c.id";
        self.read_all("list_beginnings", || {
            let query = self.dialect().query_list(sql, leaves.len());
            let query = query.persistent(false).bind(chars).bind(space.as_str());
            query.bind_all(leaves.iter().copied())
        })
        .await
    }

    /// The sources and the beginnings of the first texts of leaves, of current versions: by leaf, oldest
    /// first. There must not be more leaves than a statement can combine.
    pub async fn list_leaf_beginnings(
        &self,
        space: &Space,
        leaves: &[i64],
        (each, chars): (usize, usize),
    ) -> Result<Vec<(i64, String, String)>, StoreError> {
        if leaves.is_empty() {
            return Ok(Vec::new());
        }

        let select = format!(
            "SELECT c.category_id, c.source_id, SUBSTR(c.text_content, 1, {chars}) AS beginning FROM chunks c \
             JOIN sources s ON s.space = c.space AND s.id = c.source_id AND s.content_version_id = c.version_id"
        );
        let mut statement = StatementBuilder::default();
        for (number, leaf) in leaves.iter().enumerate() {
            let part = LeafPart {
                leaf: *leaf,
                after: None,
                limit: each,
            };
            statement.push(if number == 0 { "" } else { " UNION ALL " });
            statement.push("SELECT * FROM (");
            statement.leaf_part(space, &part, None, |_| select.clone(), |_| ());
            statement.push(&format!(") p{number}"));
        }

        self.read_all("list_leaf_beginnings", || {
            self.put_together(&statement, false)
        })
        .await
    }

    /// The first and the latest chunks of every category, of current versions, cut to so many
    /// characters.
    pub async fn list_samples(
        &self,
        space: &Space,
        first: i64,
        latest: i64,
        chars: i64,
    ) -> Result<Vec<Sample>, StoreError> {
        let sql = "SELECT c.category_id, c.created_at, c.id, c.subject, SUBSTR(c.text_content, 1, ?) AS beginning FROM (SELECT id, \
                   ROW_NUMBER() OVER (PARTITION BY category_id ORDER BY created_at, id) AS place, \
                   ROW_NUMBER() OVER (PARTITION BY category_id ORDER BY created_at DESC, id DESC) AS from_end \
                   FROM (SELECT p.id, p.category_id, p.created_at FROM chunks p JOIN sources s ON s.space = p.space \
                   AND s.id = p.source_id AND s.content_version_id = p.version_id \
                   WHERE p.space = ? AND p.category_id IS NOT NULL) q) r JOIN chunks c ON c.id = r.id \
                   WHERE r.place <= ? OR r.from_end <= ?";
        self.retry("list_samples", || async {
            let chars = i32::try_from(chars).unwrap_or(i32::MAX);
            let query = self
                .sql(sql)
                .bind(chars)
                .bind(space.as_str())
                .bind(first)
                .bind(latest);

            let read = |row: &AnyRow| {
                Ok(Sample {
                    category_id: row.try_get("category_id")?,
                    created_at: Timestamp::from_micros(row.try_get("created_at")?),
                    id: row.try_get("id")?,
                    text: row.try_get::<String, _>("beginning")?.into(),
                    subject: row.try_get::<Option<String>, _>("subject")?.map(Into::into),
                })
            };

            self.fetch_all(query).await?.iter().map(read).collect()
        })
        .await
    }
}

impl Tx {
    /// Stores filed chunks of one version.
    pub async fn add_chunks(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version_id: i64,
        chunks: &[NewChunk<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_chunks_of(space, source_id, version_id, TAXONOMY, chunks, now)
            .await
    }

    /// Stores the search chunks of one version.
    pub async fn add_retrieval_chunks(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version_id: i64,
        chunks: &[NewChunk<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_chunks_of(space, source_id, version_id, RETRIEVAL, chunks, now)
            .await
    }

    async fn add_chunks_of(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version_id: i64,
        profile: &'static str,
        chunks: &[NewChunk<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut rest = chunks;
        while !rest.is_empty() {
            let mut chars = 0;
            let fitting = rest.iter().take(self.dialect().bulk()).take_while(|chunk| {
                chars += chunk.text.len();
                chars <= CHARS
            });

            let (some, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            let mut insert = self.insert_chunks(some.len());

            for chunk in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(source_id.as_str())
                    .bind(version_id)
                    .bind(profile)
                    .bind(chunk.ordinal)
                    .bind(chunk.text.to_owned())
                    .bind(chunk.token_count)
                    .bind(chunk.end_char - chunk.start_char)
                    .bind(chunk.start_char)
                    .bind(chunk.end_char)
                    .bind(Some(chunk.category_id).filter(|id| *id != 0))
                    .bind(now.as_micros())
                    .bind(chunk.tokenizer.to_owned())
                    .bind(chunk.heading.map(str::to_owned))
                    .bind(chunk.subject.map(str::to_owned));
            }

            self.execute(insert).await?;
        }

        Ok(())
    }

    /// Only the statement for a full batch is worth keeping prepared.
    fn insert_chunks(&self, rows: usize) -> Statement {
        let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
        let sql = format!(
            "INSERT INTO chunks (space, source_id, version_id, profile, ordinal, text_content, token_count, char_count, \
             start_char, end_char, category_id, created_at, tokenizer, heading, subject) VALUES {values}"
        );

        self.composed(&sql)
            .persistent(rows == self.dialect().bulk() || rows == 1)
    }

    /// The leaf of a chunk, 0 if it is not filed, and whether its version is a current one.
    pub async fn find_filed_chunk(
        &mut self,
        space: &Space,
        id: i64,
    ) -> Result<Option<(i64, bool)>, StoreError> {
        let sql = "SELECT COALESCE(c.category_id, 0) AS leaf, CASE WHEN s.id IS NULL THEN 0 ELSE 1 END AS is_current \
                   FROM chunks c LEFT JOIN sources s ON s.space = c.space AND s.id = c.source_id \
                   AND s.content_version_id = c.version_id WHERE COALESCE(c.space, '') = ? AND c.id = ?";
        let query = self.sql(sql).bind(space.as_str()).bind(id);
        self.read_first(query).await
    }

    /// Moves chunks of current versions to other categories, without those whose new category is gone,
    /// that have moved already, or for which a person chose the category; returns the moves that took
    /// place. The caller holds the space's lock.
    pub async fn move_chunks(
        &mut self,
        space: &Space,
        moves: &[Move],
        now: Timestamp,
    ) -> Result<Vec<Move>, StoreError> {
        let mut ways: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
        for one in moves {
            let way = ways.entry((one.from, one.to)).or_default();
            way.push(one.chunk_id);
        }

        let targets: BTreeSet<i64> = moves.iter().map(|one| one.to).collect();
        let targets: Vec<i64> = targets.into_iter().collect();
        let mut targets = self.list_states(space, &targets).await?;
        targets.retain(|_, target| !target.is_closed);

        let mut placed = HashSet::new();
        for ((from, to), ids) in ways {
            if !targets.contains_key(&to) {
                continue;
            }

            let ids = self.list_movable(space, from, &ids).await?;
            let ids = ids.into_iter().filter(|(_, is_current)| *is_current);
            let ids: Vec<i64> = ids.map(|(id, _)| id).collect();
            let new = NewPlacement {
                to,
                by: NamedBy::Embedded,
                pinned: None,
                change_id: None,
            };
            for some in ids.chunks(AT_ONCE) {
                self.place_chunks(space, ChunkSet::These(some), new, now)
                    .await?;
            }
            placed.extend(ids.into_iter().map(|id| (id, to)));
        }

        let mut done = moves.to_vec();
        done.retain(|one| placed.remove(&(one.chunk_id, one.to)));
        Ok(done)
    }

    /// How many filed chunks of a version each category has.
    pub async fn count_version_chunks(
        &mut self,
        space: &Space,
        version_id: i64,
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let sql = "SELECT category_id, COUNT(*) AS chunk_count FROM chunks WHERE space = ? AND version_id = ? AND profile = ? \
                   GROUP BY category_id";
        let query = self
            .sql(sql)
            .bind(space.as_str())
            .bind(version_id)
            .bind(TAXONOMY);

        let rows = self.fetch_all(query).await?;
        rows.iter()
            .map(|row| Ok((row.try_get("category_id")?, row.try_get("chunk_count")?)))
            .collect()
    }
}
