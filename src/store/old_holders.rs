//! Reads receipts and stored responses page by page, to find those that hold a deleted text without
//! a note of it: those from before such notes, and those that name a category.

use super::rows::row;
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
        self.read_all("list_receipts_from", || {
            let query = self
                .composed(&sql)
                .bind(space.as_str())
                .bind(from)
                .bind(until.as_micros())
                .bind(from);
            query.bind(last.clone())
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
        self.read_all("list_responses_from", || {
            let query = self.composed(&sql).bind(space.as_str()).bind(after);
            query.bind(from.as_micros()).bind(until.as_micros())
        })
        .await
    }
}

row! {
    StoredReceipt as "" { id, created_at, user_id, request_json, receipt_json }
}

row! {
    StoredResponse as "" { key = "idempotency_key", status, response_json }
}
