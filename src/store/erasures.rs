//! Rows of `erasures`: the receipts of deletions, and what is left to do for those that were
//! interrupted.

use sqlx::Row as _;

use super::dialect::BindAll as _;
use super::rows::{Stored as _, Written as _, to_json, written_row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{ErasureId, Space};
use crate::model::erasure::Erasure;

/// The counter of erasures in a space. A query that used what was deleted meanwhile notices it by
/// this number.
const ERASURES: &str = "erasures";
/// Since when receipts and responses have rows in `text_uses`; of no space.
const TEXT_USES_SINCE: &str = "text_uses_since";

const COLUMNS: &str = Erasure::COLUMNS;

written_row! {
    Erasure as "" {
        space, id, kind, subject_sha256, key_id, key_name,
        rows = "rows_json", pending = "pending_json", created_at, finished_at,
    }
}

const FIND_COUNT: &str =
    "SELECT value FROM counters WHERE space = ? AND name = ? AND window_start = 0";

/// A page: at most `limit` erasures, newest first, before the given one.
#[derive(Debug, Clone, Default)]
pub struct ErasurePage {
    pub before: Option<(Timestamp, ErasureId)>,
    pub limit: usize,
}

impl Store {
    /// How many erasures a space has had.
    pub async fn count_erasures(&self, space: &Space) -> Result<i64, StoreError> {
        self.find_count(space.as_str(), ERASURES).await
    }

    /// Receipts and responses from before this time have no rows in `text_uses`.
    pub async fn find_text_uses_since(&self) -> Result<Timestamp, StoreError> {
        let since = self.find_count("", TEXT_USES_SINCE).await?;
        Ok(Timestamp::from_micros(since))
    }

    async fn find_count(&self, space: &str, name: &'static str) -> Result<i64, StoreError> {
        let value = self.read_value("find_count", || self.sql(FIND_COUNT).bind(space).bind(name));
        Ok(value.await?.unwrap_or(0))
    }

    pub async fn list_erasures(
        &self,
        space: &Space,
        page: &ErasurePage,
    ) -> Result<Vec<Erasure>, StoreError> {
        let mut sql = format!("SELECT {COLUMNS} FROM erasures WHERE space = ?");
        if page.before.is_some() {
            sql.push_str(" AND created_at <= ? AND (created_at < ? OR id < ?)");
        }

        sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT ?");
        self.read_all("list_erasures", || {
            let mut query = self.composed(&sql).bind(space.as_str());
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

    pub async fn find_erasure(
        &self,
        space: &Space,
        id: &ErasureId,
    ) -> Result<Option<Erasure>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM erasures WHERE space = ? AND id = ?");
        self.read_first("find_erasure", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(id.as_str())
        })
        .await
    }

    /// Erasures of all spaces that have not ended, oldest first.
    pub async fn list_unfinished_erasures(&self) -> Result<Vec<Erasure>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM erasures WHERE finished_at IS NULL ORDER BY created_at, id LIMIT 100"
        );
        self.read_all("list_unfinished_erasures", || self.composed(&sql))
            .await
    }

    /// The newest erasure of a subject that has not ended.
    pub async fn find_unfinished_erasure(
        &self,
        space: &Space,
        subject_sha256: &str,
    ) -> Result<Option<Erasure>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM erasures WHERE space = ? AND subject_sha256 = ? AND finished_at IS NULL \
             ORDER BY seq DESC LIMIT 1"
        );
        self.read_first("find_unfinished_erasure", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(subject_sha256.to_owned())
        })
        .await
    }

    /// Writes how far an erasure has come; false if it has ended.
    pub async fn update_erasure(&self, erasure: &Erasure) -> Result<bool, StoreError> {
        self.retry("update_erasure", || async {
            let mut tx = self.begin().await?;
            let is_open = tx.update_erasure(erasure).await?;
            tx.commit().await?;
            Ok(is_open)
        })
        .await
    }

    /// Ends an erasure, and others of the same subject that were interrupted: what is stored from now
    /// on stays.
    pub async fn finish_erasure(&self, erasure: &Erasure) -> Result<(), StoreError> {
        self.retry("finish_erasure", || async {
            let mut tx = self.begin().await?;
            tx.update_erasure(erasure).await?;
            let finish = "UPDATE erasures SET pending_json = NULL, finished_at = ? \
                          WHERE space = ? AND subject_sha256 = ? AND finished_at IS NULL";
            let finish = tx
                .sql(finish)
                .bind(erasure.finished_at.map(Timestamp::as_micros))
                .bind(erasure.space.as_str())
                .bind(erasure.subject_sha256.clone());
            tx.execute(finish).await?;
            tx.commit().await
        })
        .await
    }
}

impl Tx {
    /// Begins an erasure. From its commit on, whoever writes text down sees that it happens.
    pub async fn add_erasure(&mut self, erasure: &Erasure) -> Result<(), StoreError> {
        let space = &erasure.space;
        self.count_up(space, ERASURES).await?;
        let seq = self.find_erasure_count(space).await?;
        let insert = format!(
            "INSERT INTO erasures (seq, {}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            Erasure::NAMES
        );
        let insert = erasure.bind(self.composed(&insert).bind(seq));
        self.execute(insert).await.map(|_| ())
    }

    /// Writes how far an erasure has come; false if it has ended, maybe in another process. What this
    /// transaction deletes must then stay: it may have been stored since.
    pub async fn update_erasure(&mut self, erasure: &Erasure) -> Result<bool, StoreError> {
        let update = "UPDATE erasures SET rows_json = ?, pending_json = ?, finished_at = ? \
                      WHERE space = ? AND id = ? AND finished_at IS NULL";
        let update = self
            .sql(update)
            .bind(to_json(&erasure.rows))
            .bind(erasure.pending.as_ref().map(to_json))
            .bind(erasure.finished_at.map(Timestamp::as_micros))
            .bind(erasure.space.as_str())
            .bind(erasure.id.as_str());

        Ok(self.execute(update).await? > 0)
    }

    /// How many erasures a space has had. Another one can begin only after this transaction.
    pub async fn hold_erasures(&mut self, space: &Space) -> Result<i64, StoreError> {
        let hold = self.dialect().query_unchanged(FIND_COUNT);
        let row = self
            .fetch_optional(hold.bind(space.as_str()).bind(ERASURES))
            .await?;
        if let Some(row) = row {
            return Ok(row.try_get("value")?);
        }

        let insert = "INSERT INTO counters (space, name, window_start, value) VALUES (?, ?, 0, 0)";
        let insert = self.dialect().insert_if_absent(insert);
        self.execute(insert.bind(space.as_str()).bind(ERASURES))
            .await?;
        let hold = self.dialect().query_unchanged(FIND_COUNT);
        Ok(self
            .read_value(hold.bind(space.as_str()).bind(ERASURES))
            .await?
            .unwrap_or(0))
    }

    async fn find_erasure_count(&mut self, space: &Space) -> Result<i64, StoreError> {
        let query = self.sql(FIND_COUNT).bind(space.as_str()).bind(ERASURES);
        Ok(self.read_value(query).await?.unwrap_or(0))
    }

    /// Whether one of these subjects was erased after the given number of erasures.
    pub async fn has_erased(
        &mut self,
        space: &Space,
        subjects: &[String],
        after: i64,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM erasures WHERE space = ? AND seq > ? AND subject_sha256 IN (??) LIMIT 1";
        let query = self.dialect().query_list(sql, subjects.len());
        let query = query
            .bind(space.as_str())
            .bind(after)
            .bind_all(subjects.iter().cloned());
        Ok(self.fetch_optional(query).await?.is_some())
    }
}
