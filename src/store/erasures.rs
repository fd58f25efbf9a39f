//! Rows of `erasures`: the receipts of deletions, and what is left to do for those that were
//! interrupted.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::jobs::read_json;
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{ErasureId, Space};
use crate::model::erasure::{ErasedBy, Erasure, Pending, RowCounts};

/// The counter of erasures in a space. A query that used what was deleted meanwhile notices it by
/// this number.
const ERASURES: &str = "erasures";
/// Since when receipts and responses have rows in `text_uses`; of no space.
const TEXT_USES_SINCE: &str = "text_uses_since";

const COLUMNS: &str = "space, id, kind, subject_sha256, key_id, key_name, rows_json, pending_json, created_at, finished_at";
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
        self.retry("find_count", || async {
            let query = self.sql(FIND_COUNT).bind(space.to_owned()).bind(name);
            let rows = self.fetch_all(query).await?;
            let value = rows.first().map(|row| row.try_get("value")).transpose()?;
            Ok(value.unwrap_or(0))
        })
        .await
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
        self.retry("list_erasures", || async {
            let mut query = self.backend.dialect.assembled(&sql).bind(space.as_str());
            if let Some((moment, id)) = &page.before {
                query = query
                    .bind(moment.as_micros())
                    .bind(moment.as_micros())
                    .bind(id.as_str());
            }

            let rows = self.fetch_all(query.bind(row_limit(page.limit))).await?;
            rows.iter().map(read_erasure).collect()
        })
        .await
    }

    pub async fn find_erasure(
        &self,
        space: &Space,
        id: &ErasureId,
    ) -> Result<Option<Erasure>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM erasures WHERE space = ? AND id = ?");
        self.retry("find_erasure", || async {
            let query = self.backend.dialect.assembled(&sql).bind(space.as_str());
            let rows = self.fetch_all(query.bind(id.as_str())).await?;
            rows.first().map(read_erasure).transpose()
        })
        .await
    }

    /// Erasures of all spaces that have not ended, oldest first.
    pub async fn list_unfinished_erasures(&self) -> Result<Vec<Erasure>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM erasures WHERE finished_at IS NULL ORDER BY created_at, id LIMIT 100"
        );
        self.retry("list_unfinished_erasures", || async {
            let rows = self.fetch_all(self.backend.dialect.assembled(&sql)).await?;
            rows.iter().map(read_erasure).collect()
        })
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
        self.retry("find_unfinished_erasure", || async {
            let query = self.backend.dialect.assembled(&sql).bind(space.as_str());
            let rows = self
                .fetch_all(query.bind(subject_sha256.to_owned()))
                .await?;
            rows.first().map(read_erasure).transpose()
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
        let insert = "INSERT INTO erasures (space, id, seq, kind, subject_sha256, key_id, key_name, rows_json, pending_json, \
                      created_at, finished_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)";
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(erasure.id.as_str())
            .bind(seq)
            .bind(erasure.kind.into_str())
            .bind(erasure.subject_sha256.clone())
            .bind(erasure.by.key_id.clone())
            .bind(erasure.by.key_name.clone())
            .bind(json(&erasure.rows))
            .bind(erasure.pending.as_ref().map(json))
            .bind(erasure.created_at.as_micros());

        self.execute(insert).await.map(|_| ())
    }

    /// Writes how far an erasure has come; false if it has ended, maybe in another process. What this
    /// transaction deletes must then stay: it may have been stored since.
    pub async fn update_erasure(&mut self, erasure: &Erasure) -> Result<bool, StoreError> {
        let update = "UPDATE erasures SET rows_json = ?, pending_json = ?, finished_at = ? \
                      WHERE space = ? AND id = ? AND finished_at IS NULL";
        let update = self
            .sql(update)
            .bind(json(&erasure.rows))
            .bind(erasure.pending.as_ref().map(json))
            .bind(erasure.finished_at.map(Timestamp::as_micros))
            .bind(erasure.space.as_str())
            .bind(erasure.id.as_str());

        Ok(self.execute(update).await? > 0)
    }

    /// How many erasures a space has had. Another one can begin only after this transaction.
    pub async fn hold_erasures(&mut self, space: &Space) -> Result<i64, StoreError> {
        let hold = self.backend.dialect.query_unchanged(FIND_COUNT);
        let row = self
            .fetch_optional(hold.bind(space.as_str()).bind(ERASURES))
            .await?;
        if let Some(row) = row {
            return Ok(row.try_get("value")?);
        }

        let insert = "INSERT INTO counters (space, name, window_start, value) VALUES (?, ?, 0, 0)";
        let insert = self.backend.dialect.insert_if_absent(insert);
        self.execute(insert.bind(space.as_str()).bind(ERASURES))
            .await?;
        let hold = self.backend.dialect.query_unchanged(FIND_COUNT);
        let row = self
            .fetch_optional(hold.bind(space.as_str()).bind(ERASURES))
            .await?;
        Ok(row
            .map(|row| row.try_get("value"))
            .transpose()?
            .unwrap_or(0))
    }

    async fn find_erasure_count(&mut self, space: &Space) -> Result<i64, StoreError> {
        let query = self.sql(FIND_COUNT).bind(space.as_str()).bind(ERASURES);
        let row = self.fetch_optional(query).await?;
        Ok(row
            .map(|row| row.try_get("value"))
            .transpose()?
            .unwrap_or(0))
    }

    /// Whether one of these subjects was erased after the given number of erasures.
    pub async fn has_erased(
        &mut self,
        space: &Space,
        subjects: &[String],
        after: i64,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM erasures WHERE space = ? AND seq > ? AND subject_sha256 IN (??) LIMIT 1";
        let query = self.backend.dialect.query_list(sql, subjects.len());
        let query = query.bind(space.as_str()).bind(after);
        let query = subjects
            .iter()
            .fold(query, |query, subject| query.bind(subject.clone()));
        Ok(self.fetch_optional(query).await?.is_some())
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn read_erasure(row: &AnyRow) -> Result<Erasure, StoreError> {
    let broken = |cause: &str| StoreError::Broken {
        cause: cause.to_owned(),
    };
    let (space, kind): (String, String) = (row.try_get("space")?, row.try_get("kind")?);
    let rows = read_json(row, "rows_json")?.unwrap_or_default();
    let rows: RowCounts = serde_json::from_value(rows).unwrap_or_default();
    let pending = read_json(row, "pending_json")?;
    let pending: Option<Pending> =
        pending.map(|pending| serde_json::from_value(pending).unwrap_or_default());
    let finished_at: Option<i64> = row.try_get("finished_at")?;
    Ok(Erasure {
        space: space
            .parse()
            .map_err(|()| broken("the space of an erasure is not one"))?,
        id: ErasureId::from_stored(row.try_get("id")?),
        kind: kind
            .parse()
            .map_err(|_| broken("the kind of an erasure is not one"))?,
        subject_sha256: row.try_get("subject_sha256")?,
        by: ErasedBy {
            key_id: row.try_get("key_id")?,
            key_name: row.try_get("key_name")?,
        },
        rows,
        pending,
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
        finished_at: finished_at.map(Timestamp::from_micros),
    })
}
