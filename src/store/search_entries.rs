//! Rows of `search_entries` and their full-text index, for keyword search. An entry belongs to an
//! owner, such as a chunk.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use memoir_index::{EntryRow, OwnerKind, SearchSize};
use sqlx::Row as _;

use super::candidates::StatementBuilder;
use super::dialect::BindAll as _;
use super::rows::{get, row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::scope::QueryScope;

/// Characters per insert: below the smallest default packet size of a server.
const CHARS: usize = 1_000_000;
/// Terms counted per statement.
const TERMS: usize = 50;
/// Ids, or groups, per statement.
const AT_ONCE: usize = 500;

/// Entries have the alias `c`, as chunks do, so that the conditions of a scope work for both.
const SELECT: &str = "SELECT c.id, c.owner_id, c.group_id, c.version_id, c.created_at, c.length, c.tokens, \
     (SELECT u.user_id FROM sources u WHERE u.space = c.space AND u.id = c.group_id) AS user_id FROM search_entries c";
/// The sources `s` of entries `c` that belong to chunks.
pub(super) const OF_SOURCE: &str = " JOIN sources s ON s.space = c.space AND s.id = c.group_id";

/// An entry to store.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'t> {
    pub owner_id: i64,
    /// The source of a chunk, or a hash of the user of a memory.
    pub group_id: &'t str,
    /// The version of its source; 0 if the owner has no versions.
    pub version_id: i64,
    pub length: i64,
    pub tokens: &'t str,
}

impl Store {
    /// Entries of a kind by ascending id, after the given one.
    pub async fn list_entries(
        &self,
        space: &Space,
        kind: OwnerKind,
        after: i64,
        limit: usize,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let sql = format!(
            "{SELECT} WHERE c.space = ? AND c.owner_kind = ? AND c.id > ? ORDER BY c.id LIMIT ?"
        );
        self.read_all("list_entries", || {
            let query = self
                .composed(&sql)
                .bind(space.as_str())
                .bind(kind.into_str())
                .bind(after);

            query.bind(row_limit(limit))
        })
        .await
    }

    /// Some entries, by id.
    pub async fn list_entries_of(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<Vec<EntryRow>, StoreError> {
        // By id only: if its index could be used, SQLite would scan the whole space.
        let sql = format!(
            "{SELECT} WHERE COALESCE(c.space, '') = ? AND c.id IN ({}) ORDER BY c.id",
            vec!["?"; ids.len().max(1)].join(",")
        );

        if ids.is_empty() {
            return Ok(Vec::new());
        }

        self.read_all("list_entries_of", || {
            let query = self.composed(&sql).persistent(false).bind(space.as_str());

            query.bind_all(ids.iter().copied())
        })
        .await
    }

    /// The groups of some entries, by entry.
    pub async fn list_entry_groups(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<HashMap<i64, String>, StoreError> {
        // As above.
        let sql =
            "SELECT id, group_id FROM search_entries WHERE COALESCE(space, '') = ? AND id IN (??)";
        let mut found = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let rows = self.read_all::<(i64, String)>("list_entry_groups", || {
                let query = self.dialect().query_list(sql, some.len());
                query.bind(space.as_str()).bind_all(some.iter().copied())
            });
            found.extend(rows.await?);
        }

        Ok(found)
    }

    /// The number and length of the entries of a kind, or of one of its groups.
    pub async fn find_search_size(
        &self,
        space: &Space,
        kind: OwnerKind,
        group: Option<&str>,
    ) -> Result<SearchSize, StoreError> {
        let sum = self.dialect().whole_sum("length");
        let mut statement = StatementBuilder::default();
        statement.push("SELECT COUNT(*) AS entries, ");
        statement.push(&sum);
        statement.push(" AS terms FROM search_entries");
        statement.text(" WHERE space = ?", space.as_str());
        statement.text(" AND owner_kind = ?", kind.into_str());
        if let Some(group) = group {
            statement.text(" AND group_id = ?", group);
        }

        let size = self.read_first("find_search_size", || self.put_together(&statement, true));
        Ok(size
            .await?
            .map_or_else(SearchSize::default, |(entries, terms)| SearchSize {
                entries,
                terms,
            }))
    }

    /// In how many entries of a kind each token occurs, by the full-text index; counted up to
    /// `most`.
    pub async fn count_tokens(
        &self,
        space: &Space,
        kind: OwnerKind,
        tokens: &[String],
        most: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let holds = self.dialect().holds_tokens();
        let mut counts = vec![0; tokens.len()];
        for (some, counts) in tokens.chunks(TERMS).zip(counts.chunks_mut(TERMS)) {
            let part = |number: usize| {
                format!(
                    "SELECT {number} AS term, (SELECT COUNT(*) FROM (SELECT c.id FROM search_entries c \
                     WHERE c.space = ? AND c.owner_kind = ? AND {holds} LIMIT ?) q{number}) AS held"
                )
            };

            let sql = (0..some.len())
                .map(part)
                .collect::<Vec<_>>()
                .join(" UNION ALL ");

            let rows = self.retry("count_tokens", || async {
                let mut query = self.composed(&sql).persistent(false);
                for token in some {
                    query = query
                        .bind(space.as_str())
                        .bind(kind.into_str())
                        .bind(token.clone())
                        .bind(most);
                }

                self.fetch_all(query).await
            });

            for row in rows.await? {
                let term = usize::try_from(row.try_get::<i64, _>("term")?).unwrap_or(usize::MAX);
                if let Some(count) = counts.get_mut(term) {
                    *count = row.try_get("held")?;
                }
            }
        }

        Ok(counts)
    }

    /// Entries of a kind that contain any of the tokens, by the full-text index, by ascending id
    /// after the given one. A scope selects sources, so it applies only to chunks.
    pub async fn list_holders(
        &self,
        space: &Space,
        kind: OwnerKind,
        scope: Option<&QueryScope>,
        tokens: &[String],
        after: i64,
        limit: usize,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let mut statement = StatementBuilder::default();
        statement.push(SELECT);
        if scope.is_some() {
            statement.push(OF_SOURCE);
        }

        statement.text(" WHERE c.space = ?", space.as_str());
        statement.text(" AND c.owner_kind = ?", kind.into_str());
        statement.number(" AND c.id > ?", after);
        let holds = format!(" AND {}", self.dialect().holds_tokens());
        statement.text(&holds, self.dialect().any_token(tokens));
        if let Some(scope) = scope {
            statement.scope(scope);
        }

        statement.limit(" ORDER BY c.id", limit);

        self.read_all("list_holders", || self.put_together(&statement, false))
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
            .map(|row| Ok((row.try_get("ordinal")?, row.try_get("id")?)))
            .collect()
    }

    /// Stores entries; the full-text index is updated automatically. A writer of chunks holds
    /// [`Tx::lock_chunks`]; a writer of another kind calls [`Tx::count_entry_write`].
    pub async fn add_entries(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        entries: &[NewEntry<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.insert_entries(space, kind, entries, None, now).await?;
        Ok(())
    }

    /// Stores entries as [`Tx::add_entries`] does, and returns the id of each by its owner.
    pub async fn add_entries_for_ids(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        entries: &[NewEntry<'_>],
        now: Timestamp,
    ) -> Result<HashMap<i64, i64>, StoreError> {
        let returning = self.dialect().returning("owner_id, id");
        let ids = self.insert_entries(space, kind, entries, returning.as_deref(), now);
        let ids = ids.await?;
        if returning.is_some() {
            return Ok(ids);
        }

        let owners: Vec<i64> = entries.iter().map(|entry| entry.owner_id).collect();
        self.list_entry_ids(space, kind, &owners).await
    }

    async fn insert_entries(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        entries: &[NewEntry<'_>],
        returning: Option<&str>,
        now: Timestamp,
    ) -> Result<HashMap<i64, i64>, StoreError> {
        let mut ids = HashMap::with_capacity(entries.len());
        let mut rest = entries;
        while !rest.is_empty() {
            let mut chars = 0;
            let fitting = rest.iter().take(self.dialect().bulk()).take_while(|entry| {
                chars += entry.tokens.len();
                chars <= CHARS
            });

            let (some, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?)"; some.len()].join(", ");
            let sql = format!(
                "INSERT INTO search_entries (space, owner_kind, owner_id, group_id, version_id, created_at, length, \
                 tokens) VALUES {values}{}",
                returning.unwrap_or_default()
            );

            let kept = some.len() == self.dialect().bulk() || some.len() == 1;
            let mut insert = self.composed(&sql).persistent(kept);
            for entry in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(kind.into_str())
                    .bind(entry.owner_id)
                    .bind(entry.group_id.to_owned())
                    .bind(entry.version_id)
                    .bind(now.as_micros())
                    .bind(entry.length)
                    .bind(entry.tokens.to_owned());
            }

            ids.extend(self.read_all::<(i64, i64)>(insert).await?);
        }

        Ok(ids)
    }

    /// The entry of each of these owners.
    pub async fn list_entry_ids(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        owners: &[i64],
    ) -> Result<HashMap<i64, i64>, StoreError> {
        let sql = "SELECT owner_id, id FROM search_entries WHERE space = ? AND owner_kind = ? AND owner_id IN (??)";
        let mut found = HashMap::new();
        for some in owners.chunks(AT_ONCE) {
            let query = self.dialect().query_list(sql, some.len());
            let query = query.persistent(some.len() == 1);
            let query = query
                .bind(space.as_str())
                .bind(kind.into_str())
                .bind_all(some.iter().copied());
            found.extend(self.read_all::<(i64, i64)>(query).await?);
        }

        Ok(found)
    }

    /// Removes the entries of some owners, with their vectors.
    pub async fn remove_entries(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        owners: &[i64],
    ) -> Result<(), StoreError> {
        for some in owners.chunks(AT_ONCE) {
            // Locked first, as for a group.
            let marks = vec!["?"; some.len()].join(",");
            let held = format!(
                "SELECT id FROM search_entries WHERE space = ? AND owner_kind = ? AND owner_id IN ({marks})"
            );
            let held = self.dialect().query_for_update(&held);
            let held = held
                .persistent(false)
                .bind(space.as_str().to_owned())
                .bind(kind.into_str())
                .bind_all(some.iter().copied());
            let rows = self.fetch_all(held).await?;
            let ids = rows.iter().map(|row| row.try_get("id"));
            let ids: Vec<i64> = ids.collect::<Result<_, sqlx::Error>>()?;
            if ids.is_empty() {
                continue;
            }

            for sql in [
                "DELETE FROM embeddings WHERE space = ? AND owner_kind = ? AND entry_id IN (??)",
                "DELETE FROM search_entries WHERE space = ? AND owner_kind = ? AND id IN (??)",
            ] {
                let delete = self.dialect().query_list(sql, ids.len());
                let delete = delete.bind(space.as_str()).bind(kind.into_str());
                self.execute(delete.bind_all(ids.iter().copied())).await?;
            }
        }

        Ok(())
    }

    /// Removes every entry of a group, with its vectors.
    pub async fn remove_group_entries(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        group_id: &str,
    ) -> Result<(), StoreError> {
        // Locked first: a writer of a vector holds its entry, and has committed by then.
        let held =
            "SELECT id FROM search_entries WHERE space = ? AND owner_kind = ? AND group_id = ?";
        let held = self.dialect().query_for_update(held);
        let held = held
            .bind(space.as_str().to_owned())
            .bind(kind.into_str())
            .bind(group_id.to_owned());

        self.fetch_all(held).await?;
        let vectors = "DELETE FROM embeddings WHERE space = ? AND owner_kind = ? AND entry_id IN \
                       (SELECT c.id FROM search_entries c WHERE c.space = ? AND c.owner_kind = ? AND c.group_id = ?)";
        let vectors = self
            .sql(vectors)
            .bind(space.as_str())
            .bind(kind.into_str())
            .bind(space.as_str())
            .bind(kind.into_str())
            .bind(group_id.to_owned());

        self.execute(vectors).await?;
        let entries =
            "DELETE FROM search_entries WHERE space = ? AND owner_kind = ? AND group_id = ?";
        let entries = self
            .sql(entries)
            .bind(space.as_str())
            .bind(kind.into_str())
            .bind(group_id.to_owned());

        self.execute(entries).await.map(|_| ())
    }
}

row! {
    EntryRow as "c." { id, owner_id, group_id, version_id, created_at, length, tokens }
    from row { user_id: get::<Option<String>>(row, "user_id")?.unwrap_or_default() }
}
