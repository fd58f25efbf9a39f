//! Rows of `queries`: receipts, and the model calls that belong to them.

use std::collections::BTreeSet;

use sqlx::Row as _;

use super::rows::{Stored as _, row};
use super::text_uses::{ERASED_STATE, HolderKind, emptied};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, Space, use_of_user};
use crate::model::erasure::SubjectKind;
use crate::model::llm_call::Payer;
use crate::model::query::{NewQuery, QueryUses, StoredPart, StoredQuery};

/// A page: at most `limit` queries, newest first, before the given one.
#[derive(Debug, Clone, Default)]
pub struct QueryPage {
    pub before: Option<(Timestamp, QueryId)>,
    pub user_id: Option<String>,
    pub limit: usize,
}

const COLUMNS: &str = StoredQuery::COLUMNS;

row! {
    StoredQuery as "" {
        id, user_id, request = "request_json", receipt = "receipt_json", state, answer_chars,
        elapsed_ms, created_at,
    }
}

impl Tx {
    /// How much of a receipt may be stored, after everything that was deleted so far. Nothing else is
    /// deleted before this transaction ends.
    async fn part_to_store(
        &mut self,
        space: &Space,
        query: &NewQuery,
        uses: &QueryUses,
    ) -> Result<StoredPart, StoreError> {
        if self.hold_erasures(space).await? == uses.erasures {
            return Ok(StoredPart::Whole);
        }

        let subjects = [
            SubjectKind::User.hash(space, &query.user_id),
            SubjectKind::Space.hash(space, space.as_str()),
        ];
        if self.has_erased(space, &subjects, uses.erasures).await? {
            return Ok(StoredPart::Nothing);
        }

        let all_there = self.has_texts(space, &uses.sources, &uses.memories);
        Ok(if all_there.await? {
            StoredPart::Whole
        } else {
            StoredPart::WithoutTexts
        })
    }

    async fn insert_query(&mut self, space: &Space, query: &NewQuery) -> Result<(), StoreError> {
        let sql = "INSERT INTO queries (space, id, user_id, request_json, receipt_json, state, answer_chars, elapsed_ms, \
                   created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let insert = self
            .dialect()
            .insert_if_absent(sql)
            .bind(space.as_str())
            .bind(query.id.as_str())
            .bind(query.user_id.as_str())
            .bind(query.request.clone())
            .bind(query.receipt.clone())
            .bind(query.state.as_str())
            .bind(query.answer_chars)
            .bind(query.elapsed_ms);

        self.execute(insert.bind(query.created_at.as_micros()))
            .await
            .map(|_| ())
    }
}

/// What a receipt holds text of, as `text_uses` names it.
fn used_ids(query: &NewQuery, uses: &QueryUses) -> BTreeSet<String> {
    let mut held = uses.ids();
    if !query.user_id.is_empty() {
        held.insert(use_of_user(&query.user_id));
    }

    held
}

impl Store {
    /// Stores a receipt and notes what the query used; replaces an earlier one of the same query.
    pub async fn add_query(
        &self,
        space: &Space,
        query: &NewQuery,
        uses: &QueryUses,
        replace: bool,
    ) -> Result<StoredPart, StoreError> {
        self.retry("add_query", || async {
            let mut tx = self.begin().await?;
            let part = tx.part_to_store(space, query, uses).await?;
            if replace {
                let delete = tx.sql("DELETE FROM queries WHERE space = ? AND id = ?");
                tx.execute(delete.bind(space.as_str()).bind(query.id.as_str()))
                    .await?;
            }

            match part {
                StoredPart::Whole => {
                    tx.insert_query(space, query).await?;
                    let held = used_ids(query, uses);
                    let holder = (HolderKind::Query, query.id.as_str());
                    tx.add_text_uses(space, holder, &held, query.created_at)
                        .await?;
                }
                StoredPart::WithoutTexts => {
                    let emptied = NewQuery {
                        request: emptied(&query.request),
                        receipt: emptied(&query.receipt),
                        state: ERASED_STATE.to_owned(),
                        ..query.clone()
                    };
                    tx.insert_query(space, &emptied).await?;
                }
                StoredPart::Nothing => {}
            }

            tx.commit().await?;
            Ok(part)
        })
        .await
    }

    pub async fn find_query(
        &self,
        space: &Space,
        id: &QueryId,
    ) -> Result<Option<StoredQuery>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM queries WHERE space = ? AND id = ?");
        self.read_first("find_query", || {
            self.composed(&sql).bind(space.as_str()).bind(id.as_str())
        })
        .await
    }

    pub async fn list_queries(
        &self,
        space: &Space,
        page: &QueryPage,
    ) -> Result<Vec<StoredQuery>, StoreError> {
        let mut sql = format!("SELECT {COLUMNS} FROM queries WHERE space = ?");
        if page.user_id.is_some() {
            sql.push_str(" AND user_id = ?");
        }

        if page.before.is_some() {
            sql.push_str(" AND created_at <= ? AND (created_at < ? OR id < ?)");
        }

        sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT ?");
        self.read_all("list_queries", || {
            let mut query = self.composed(&sql).bind(space.as_str());
            if let Some(user_id) = &page.user_id {
                query = query.bind(user_id.as_str());
            }

            if let Some((moment, id)) = &page.before {
                query = query
                    .bind(moment.as_micros())
                    .bind(moment.as_micros())
                    .bind(id.as_str());
            }

            query.bind(row_limit(page.limit))
        })
        .await
    }

    /// Deletes the calls of a query; the sums of their day stay.
    pub async fn remove_query_calls(&self, space: &Space, id: &QueryId) -> Result<(), StoreError> {
        self.retry("remove_query_calls", || async {
            let mut tx = self.begin().await?;
            tx.remove_calls_of(space.as_str(), &Payer::Query(id.to_string()))
                .await?;
            tx.commit().await
        })
        .await
    }

    /// Deletes some older receipts with their calls; the sums of their days stay. Spans spaces.
    pub async fn remove_old_queries(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.retry("remove_old_queries", || async {
            let old = self.sql("SELECT space, id FROM queries WHERE created_at < ? LIMIT 500");
            let old = self.fetch_all(old.bind(before.as_micros())).await?;
            let mut tx = self.begin().await?;
            let mut removed = 0;

            for row in old {
                let (space, id): (String, String) = (row.try_get("space")?, row.try_get("id")?);
                tx.remove_calls_of(&space, &Payer::Query(id.clone()))
                    .await?;
                tx.remove_text_uses(&space, HolderKind::Query, &id).await?;
                let receipt = tx.sql("DELETE FROM queries WHERE space = ? AND id = ?");

                removed += tx.execute(receipt.bind(space).bind(id)).await?;
            }

            tx.commit().await?;
            Ok(removed)
        })
        .await
    }

    /// Deletes the model calls of queries that are queued as jobs, so that they do not go on with
    /// answers about what was deleted.
    pub async fn restart_query_jobs(
        &self,
        space: &Space,
        kind: &'static str,
    ) -> Result<(), StoreError> {
        self.retry("restart_query_jobs", || async {
            let mut tx = self.begin().await?;
            let sql = "SELECT id FROM jobs WHERE space = ? AND state IN ('queued', 'running') AND kind = ?";
            let query = tx.sql(sql).bind(space.as_str()).bind(kind);
            for row in tx.fetch_all(query).await? {
                let payer = Payer::Query(row.try_get("id")?);
                tx.remove_calls_of(space.as_str(), &payer).await?;
            }

            tx.commit().await
        })
        .await
    }

    /// Clears the results of query jobs that ended before a given time, and the answers stored for
    /// idempotency keys: the only rows, besides chunks, that contain chunk text. Spans spaces.
    pub async fn clear_query_results(
        &self,
        kind: &'static str,
        route: &'static str,
        before: Timestamp,
    ) -> Result<u64, StoreError> {
        self.retry("clear_query_results", || async {
            let mut tx = self.begin().await?;
            let update = "UPDATE jobs SET result_json = NULL WHERE kind = ? AND state = 'succeeded' \
                          AND finished_at < ? AND result_json IS NOT NULL";
            let update = tx.sql(update).bind(kind).bind(before.as_micros());
            let mut cleared = tx.execute(update).await?;
            let delete = "DELETE FROM idempotency_keys WHERE route = ? AND created_at < ? \
                          AND (status <> 410 OR (status IS NULL AND lease_until < @now))";
            let delete = tx.sql(delete).bind(route).bind(before.as_micros());

            cleared += tx.execute(delete).await?;
            tx.commit().await?;
            Ok(cleared)
        })
        .await
    }
}
