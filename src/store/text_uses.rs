//! Rows of `text_uses`, and erasing what holds deleted text: the receipts of queries and the stored
//! responses of requests with an idempotency key.

use std::collections::BTreeSet;

use serde_json::Value;
use sqlx::Row as _;
use strum::IntoStaticStr;

use super::dialect::KEPT_ROWS;
use super::idempotency::stored_key;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::erased_json::without_texts;
use crate::base::ids::{JobId, QueryId, Space};
use crate::model::erasure::RowCounts;
use crate::model::llm_call::Payer;

/// The status of a stored response that was erased; its repeat gets the problem `erased`.
pub const ERASED_STATUS: i64 = 410;
/// The state of an erased receipt.
pub const ERASED_STATE: &str = "erased";
/// Rows in one insert, and ids in one lookup.
const ROWS: usize = 100;
/// Holders that one transaction erases.
const PART: usize = 50;

/// What holds text of something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum HolderKind {
    /// The receipt of a query, with its model calls and its job.
    Query,
    /// The stored response to an idempotency key.
    Response,
}

/// A receipt or a stored response, by its id.
pub type Holder = (HolderKind, String);

impl Store {
    /// Erases everything that is noted to hold text of these; the receipts of `user_id` are deleted.
    /// Safe to run again from any point.
    pub async fn erase_uses(
        &self,
        space: &Space,
        used: &[String],
        user_id: Option<&str>,
    ) -> Result<RowCounts, StoreError> {
        let mut all = RowCounts::new();
        let mut left: Vec<String> = used.to_vec();
        while !left.is_empty() {
            let some = left.split_off(left.len().saturating_sub(ROWS));
            loop {
                let holders = self.list_text_holders(space, &some).await?;
                if holders.is_empty() {
                    break;
                }

                // A response holds the text of the query whose result it is.
                let queries = holders
                    .iter()
                    .filter(|(kind, _)| *kind == HolderKind::Query);
                left.extend(queries.map(|(_, id)| id.clone()));
                let counts = self.erase_holders(space, &holders, user_id).await?;
                crate::model::erasure::add_counts(&mut all, &counts);
            }
        }

        Ok(all)
    }

    async fn list_text_holders(
        &self,
        space: &Space,
        used: &[String],
    ) -> Result<Vec<Holder>, StoreError> {
        let marks = vec!["?"; used.len()].join(",");
        let sql = format!(
            "SELECT DISTINCT holder_kind, holder_id FROM text_uses WHERE space = ? AND used IN ({marks}) LIMIT {PART}"
        );
        self.retry("list_text_holders", || async {
            let query = self.backend.dialect.assembled(&sql).persistent(false);
            let query = query.bind(space.as_str());
            let query = used
                .iter()
                .fold(query, |query, used| query.bind(used.clone()));
            let rows = self.fetch_all(query).await?;
            let read = |row: &sqlx::any::AnyRow| {
                let kind: String = row.try_get("holder_kind")?;
                let kind = if kind == HolderKind::Query.into_str() {
                    HolderKind::Query
                } else {
                    HolderKind::Response
                };
                Ok((kind, row.try_get("holder_id")?))
            };
            rows.iter().map(read).collect()
        })
        .await
    }

    /// Deletes all receipts of an end user.
    pub async fn remove_user_queries(
        &self,
        space: &Space,
        user_id: &str,
    ) -> Result<RowCounts, StoreError> {
        let mut all = RowCounts::new();
        loop {
            let sql = "SELECT id FROM queries WHERE space = ? AND user_id = ? LIMIT 5000";
            let rows = self.retry("remove_user_queries", || async {
                let query = self.sql(sql).bind(space.as_str());
                self.fetch_all(query.bind(user_id.to_owned())).await
            });
            let rows = rows.await?;
            if rows.is_empty() {
                return Ok(all);
            }

            let read = |row: &sqlx::any::AnyRow| Ok((HolderKind::Query, row.try_get("id")?));
            let holders: Result<Vec<Holder>, StoreError> = rows.iter().map(read).collect();
            let counts = self.erase_holders(space, &holders?, Some(user_id)).await?;
            crate::model::erasure::add_counts(&mut all, &counts);
        }
    }

    /// Erases some receipts and responses; the receipts of `user_id` are deleted.
    pub async fn erase_holders(
        &self,
        space: &Space,
        holders: &[Holder],
        user_id: Option<&str>,
    ) -> Result<RowCounts, StoreError> {
        let mut all = RowCounts::new();
        for some in holders.chunks(PART) {
            let counts = self.retry("erase_holders", || async {
                let mut counts = RowCounts::new();
                let mut tx = self.begin().await?;
                for (kind, id) in some {
                    match kind {
                        HolderKind::Query => {
                            tx.erase_query(space, id, user_id, &mut counts).await?;
                        }
                        HolderKind::Response => {
                            tx.erase_response(space, id, &mut counts).await?;
                        }
                    }
                }

                tx.commit().await?;
                Ok(counts)
            });

            crate::model::erasure::add_counts(&mut all, &counts.await?);
        }

        Ok(all)
    }

    /// Deletes the uses of queries without a receipt that are older than `before`. Spans spaces.
    pub async fn remove_uses_without_receipt(&self, before: Timestamp) -> Result<(), StoreError> {
        self.retry("remove_uses_without_receipt", || async {
            let delete = "DELETE FROM text_uses WHERE holder_kind = ? AND created_at < ? AND NOT EXISTS ( \
                          SELECT 1 FROM queries q WHERE q.space = text_uses.space AND q.id = text_uses.holder_id)";
            let delete = self.sql(delete).bind(HolderKind::Query.into_str());
            self.execute(delete.bind(before.as_micros())).await
        })
        .await
    }

    /// Deletes the uses of responses that are older than `before`. Spans spaces.
    pub async fn remove_response_uses(&self, before: Timestamp) -> Result<(), StoreError> {
        self.retry("remove_response_uses", || async {
            let delete = self.sql("DELETE FROM text_uses WHERE holder_kind = ? AND created_at < ?");
            let delete = delete.bind(HolderKind::Response.into_str());
            self.execute(delete.bind(before.as_micros())).await
        })
        .await
    }
}

impl Tx {
    /// Notes whose text a receipt or a response holds.
    pub async fn add_text_uses(
        &mut self,
        space: &Space,
        (kind, holder_id): (HolderKind, &str),
        used: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let used: Vec<&String> = used.iter().collect();
        for some in used.chunks(ROWS) {
            let sql = "INSERT INTO text_uses (space, used, holder_kind, holder_id, created_at) VALUES (?, ?, ?, ?, ?)";
            let insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());
            let insert = some.iter().fold(
                insert.persistent(some.len() <= KEPT_ROWS),
                |insert, used| {
                    insert
                        .bind(space.as_str().to_owned())
                        .bind((*used).clone())
                        .bind(kind.into_str())
                        .bind(holder_id.to_owned())
                        .bind(now.as_micros())
                },
            );

            self.execute(insert).await?;
        }

        Ok(())
    }

    pub(super) async fn remove_text_uses(
        &mut self,
        space: &str,
        kind: HolderKind,
        holder_id: &str,
    ) -> Result<u64, StoreError> {
        let delete = "DELETE FROM text_uses WHERE space = ? AND holder_kind = ? AND holder_id = ?";
        let delete = self.sql(delete).bind(space.to_owned());
        self.execute(delete.bind(kind.into_str()).bind(holder_id.to_owned()))
            .await
    }

    /// Empties a receipt, its model calls and its job; deletes them if they are of this user.
    async fn erase_query(
        &mut self,
        space: &Space,
        id: &str,
        user_id: Option<&str>,
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        let find =
            "SELECT user_id, request_json, receipt_json FROM queries WHERE space = ? AND id = ?";
        let find = self.backend.dialect.query_for_update(find);
        let row = self
            .fetch_optional(find.bind(space.as_str()).bind(id.to_owned()))
            .await?;
        let owner: Option<String> = match &row {
            Some(row) => Some(row.try_get("user_id")?),
            None => None,
        };

        let job = [JobId::from_stored(id.to_owned())];
        if owner.is_none() || (owner.as_deref() == user_id && user_id.is_some()) {
            let delete = self.sql("DELETE FROM queries WHERE space = ? AND id = ?");
            let delete = delete.bind(space.as_str()).bind(id.to_owned());
            count(counts, "queries", self.execute(delete).await?);
            let payer = Payer::Query(id.to_owned());
            let calls = self.count_and_remove_calls(space, &payer).await?;
            count(counts, "llm_calls", calls);
            self.remove_jobs(space, &job, counts).await?;
        } else if let Some(row) = row {
            let update = "UPDATE queries SET request_json = ?, receipt_json = ?, state = ? WHERE space = ? AND id = ?";
            let update = self
                .sql(update)
                .bind(emptied(row.try_get("request_json")?))
                .bind(emptied(row.try_get("receipt_json")?))
                .bind(ERASED_STATE)
                .bind(space.as_str())
                .bind(id.to_owned());
            count(counts, "queries", self.execute(update).await?);
            let calls = self.clear_outputs(space, "query", &[id.to_owned()]).await?;
            count(counts, "llm_calls", calls);
            self.erase_jobs(space, &job, counts).await?;
        }

        let uses = self.remove_text_uses(space.as_str(), HolderKind::Query, id);
        uses.await.map(|_| ())
    }

    /// Empties a stored response: a repeat of its request is told so, and not processed again. A key
    /// that an earlier build has stored as it was sent becomes its hash.
    async fn erase_response(
        &mut self,
        space: &Space,
        key: &str,
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        let update = "UPDATE idempotency_keys SET idempotency_key = ?, status = ?, response_json = NULL, \
                      lease_owner = NULL, lease_until = NULL \
                      WHERE space = ? AND idempotency_key = ? AND status IS NOT NULL";
        let update = self.sql(update).bind(stored_key(key)).bind(ERASED_STATUS);
        let update = update.bind(space.as_str());
        let erased = self.execute(update.bind(key.to_owned())).await?;
        count(counts, "idempotency_keys", erased);
        let uses = self.remove_text_uses(space.as_str(), HolderKind::Response, key);
        uses.await.map(|_| ())
    }

    /// Removes the outputs of the calls that some payers of a kind have paid for.
    pub(super) async fn clear_outputs(
        &mut self,
        space: &Space,
        payer_kind: &'static str,
        payers: &[String],
    ) -> Result<u64, StoreError> {
        let mut cleared = 0;
        for some in payers.chunks(ROWS) {
            let sql = "UPDATE llm_calls SET output_json = NULL WHERE space = ? AND payer_kind = ? \
                       AND output_json IS NOT NULL AND payer_id IN (??)";
            let update = self.backend.dialect.query_list(sql, some.len());
            let update = update.bind(space.as_str()).bind(payer_kind);
            cleared += self
                .execute(
                    some.iter()
                        .fold(update, |update, id| update.bind(id.clone())),
                )
                .await?;
        }

        Ok(cleared)
    }

    pub(super) async fn count_and_remove_calls(
        &mut self,
        space: &Space,
        payer: &Payer,
    ) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS calls FROM llm_calls WHERE space = ? AND payer_kind = ? AND payer_id = ?";
        let query = self.sql(sql).bind(space.as_str()).bind(payer.kind());
        let row = self
            .fetch_optional(query.bind(payer.id().map(str::to_owned)))
            .await?;
        let calls: i64 = row.map_or(Ok(0), |row| row.try_get("calls"))?;
        self.remove_calls_of(space.as_str(), payer).await?;
        Ok(u64::try_from(calls).unwrap_or(0))
    }

    /// Whether all of these sources and memories exist.
    pub async fn has_texts(
        &mut self,
        space: &Space,
        sources: &BTreeSet<String>,
        memories: &BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        for (sql, ids) in [
            (
                "SELECT id FROM sources WHERE space = ? AND id IN (??)",
                sources,
            ),
            (
                "SELECT id FROM memories WHERE space = ? AND id IN (??)",
                memories,
            ),
        ] {
            let ids: Vec<&String> = ids.iter().collect();
            for some in ids.chunks(ROWS) {
                let query = self.backend.dialect.query_list(sql, some.len());
                let query = query.bind(space.as_str());
                let query = some
                    .iter()
                    .fold(query, |query, id| query.bind((*id).clone()));
                if self.fetch_all(query).await?.len() < some.len() {
                    return Ok(false);
                }
            }
        }

        Ok(true)
    }
}

/// Adds to the count of a table.
pub(super) fn count(counts: &mut RowCounts, table: &str, rows: u64) {
    if rows > 0 {
        *counts.entry(table.to_owned()).or_default() += rows;
    }
}

/// Stored JSON without its texts.
pub(super) fn emptied(json: &str) -> String {
    let mut value: Value = serde_json::from_str(json).unwrap_or_default();
    without_texts(&mut value);
    value.to_string()
}

impl Store {
    /// Removes the outputs of a query's calls, which nothing can use any more.
    pub async fn clear_query_outputs(&self, space: &Space, id: &QueryId) -> Result<(), StoreError> {
        self.retry("clear_query_outputs", || async {
            let mut tx = self.begin().await?;
            tx.clear_outputs(space, "query", &[id.to_string()]).await?;
            tx.commit().await
        })
        .await
    }
}
