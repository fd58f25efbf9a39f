//! Reads receipts and stored responses page by page, to find those that hold a deleted text without
//! a note of it: those from before such notes, and those that name a category.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, Space};

/// Rows read at once; a row may hold a long text.
const PAGE: usize = 50;

/// A receipt as it is stored.
#[derive(Debug, Clone)]
pub struct StoredReceipt {
    pub id: QueryId,
    pub created_at: Timestamp,
    pub user_id: String,
    pub request_json: String,
    pub receipt_json: String,
}

/// A stored response.
#[derive(Debug, Clone)]
pub struct StoredResponse {
    pub key: String,
    pub status: i64,
    pub response_json: String,
}

impl Store {
    /// The next receipts of a time, oldest first, after the given one; empty after the last.
    pub async fn list_receipts_from(
        &self,
        space: &Space,
        (from, until): (Timestamp, Timestamp),
        after: Option<&StoredReceipt>,
    ) -> Result<Vec<StoredReceipt>, StoreError> {
        let sql = format!(
            "SELECT id, created_at, user_id, request_json, receipt_json FROM queries WHERE space = ? AND created_at >= ? \
             AND created_at < ? AND (created_at > ? OR id > ?) ORDER BY created_at, id LIMIT {PAGE}"
        );
        let from = after.map_or(from, |last| last.created_at).as_micros();
        let last = after.map_or("", |last| last.id.as_str()).to_owned();
        self.retry("list_receipts_from", || async {
            let query = self.backend.dialect.assembled(&sql).bind(space.as_str());
            let query = query.bind(from).bind(until.as_micros()).bind(from);
            let rows = self.fetch_all(query.bind(last.clone())).await?;
            rows.iter().map(read_receipt).collect()
        })
        .await
    }

    /// The next stored responses of a time, by key, after the given one; empty after the last.
    pub async fn list_responses_from(
        &self,
        space: &Space,
        (from, until): (Timestamp, Timestamp),
        after: &str,
    ) -> Result<Vec<StoredResponse>, StoreError> {
        let sql = format!(
            "SELECT idempotency_key, status, response_json FROM idempotency_keys WHERE space = ? AND idempotency_key > ? \
             AND created_at >= ? AND created_at < ? AND status IS NOT NULL AND response_json IS NOT NULL ORDER BY idempotency_key LIMIT {PAGE}"
        );
        self.retry("list_responses_from", || async {
            let query = self.backend.dialect.assembled(&sql).bind(space.as_str());
            let query = query.bind(after.to_owned()).bind(from.as_micros());
            let rows = self.fetch_all(query.bind(until.as_micros())).await?;
            let read = |row: &AnyRow| {
                Ok(StoredResponse {
                    key: row.try_get("idempotency_key")?,
                    status: row.try_get("status")?,
                    response_json: row.try_get("response_json")?,
                })
            };
            rows.iter().map(read).collect()
        })
        .await
    }
}

fn read_receipt(row: &AnyRow) -> Result<StoredReceipt, StoreError> {
    Ok(StoredReceipt {
        id: QueryId::from_stored(row.try_get("id")?),
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
        user_id: row.try_get("user_id")?,
        request_json: row.try_get("request_json")?,
        receipt_json: row.try_get("receipt_json")?,
    })
}
