//! Rows of `thread_receipts`.

use super::candidates::StatementBuilder;
use super::rows::{Stored as _, row, to_json};
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{Space, ThreadId};
use crate::model::thread_receipt::ThreadReceipt;

const COLUMNS: &str = ThreadReceipt::COLUMNS;

row! {
    ThreadReceipt as "" {
        id, thread_id, turn_key, message_id, reply_id, model, memories = "memories_json",
        context_tokens, calls, created_at, updated_at,
    }
}

/// A page: at most `limit` receipts, newest first, before the given one.
#[derive(Debug, Clone)]
pub struct ReceiptPage {
    pub before: Option<(Timestamp, String)>,
    pub limit: usize,
}

impl Store {
    /// The receipt of a turn.
    pub async fn find_thread_receipt(
        &self,
        space: &Space,
        thread: &ThreadId,
        turn_key: &str,
    ) -> Result<Option<ThreadReceipt>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM thread_receipts WHERE space = ? AND thread_id = ? AND turn_key = ?"
        );
        self.read_first("find_thread_receipt", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(thread.as_str()).bind(turn_key)
        })
        .await
    }

    /// The last receipt of a thread whose turn key, in hexadecimal digits, begins so.
    pub async fn find_last_turn(
        &self,
        space: &Space,
        thread: &ThreadId,
        begins: &str,
    ) -> Result<Option<ThreadReceipt>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM thread_receipts WHERE space = ? AND thread_id = ? AND turn_key >= ? AND turn_key < ? \
             ORDER BY turn_key DESC LIMIT 1"
        );
        // Behind every digit.
        let end = format!("{begins}g");
        self.read_first("find_last_turn", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(thread.as_str()).bind(begins).bind(end.as_str())
        })
        .await
    }

    /// The receipts of a thread, newest first.
    pub async fn list_thread_receipts(
        &self,
        space: &Space,
        thread: &ThreadId,
        page: &ReceiptPage,
    ) -> Result<Vec<ThreadReceipt>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM thread_receipts WHERE ");
        let mut statement = StatementBuilder::of(&select);
        statement.text("space = ?", space.as_str());
        statement.text(" AND thread_id = ?", thread.as_str());
        if let Some((time, id)) = &page.before {
            statement.number(" AND created_at <= ?", time.as_micros());
            statement.number(" AND (created_at < ?", time.as_micros());
            statement.text(" OR id < ?)", id);
        }

        statement.limit(" ORDER BY created_at DESC, id DESC", page.limit);
        self.read_all("list_thread_receipts", || {
            self.put_together(&statement, true)
        })
        .await
    }
}

impl Tx {
    /// The receipt of a turn. The thread is locked already, so that nobody else writes it.
    pub async fn find_thread_receipt(
        &mut self,
        space: &Space,
        thread: &ThreadId,
        turn_key: &str,
    ) -> Result<Option<ThreadReceipt>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM thread_receipts WHERE space = ? AND thread_id = ? AND turn_key = ?"
        );
        let query = self
            .dialect()
            .query_for_update(&sql)
            .bind(space.as_str())
            .bind(thread.as_str())
            .bind(turn_key.to_owned());
        self.read_first(query).await
    }

    pub async fn add_thread_receipt(
        &mut self,
        space: &Space,
        receipt: &ThreadReceipt,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO thread_receipts (space, id, thread_id, turn_key, message_id, reply_id, model, memories_json, \
                      context_tokens, calls, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(receipt.id.clone())
            .bind(receipt.thread_id.as_str())
            .bind(receipt.turn_key.clone())
            .bind(receipt.message_id.clone())
            .bind(receipt.reply_id.clone())
            .bind(receipt.model.clone())
            .bind(to_json(&receipt.memories))
            .bind(receipt.context_tokens)
            .bind(receipt.calls)
            .bind(receipt.created_at.as_micros())
            .bind(receipt.updated_at.as_micros());
        self.execute(insert).await.map(|_| ())
    }

    /// Writes the reply and the number of calls.
    pub async fn update_thread_receipt(
        &mut self,
        space: &Space,
        receipt: &ThreadReceipt,
    ) -> Result<(), StoreError> {
        let update = "UPDATE thread_receipts SET reply_id = ?, calls = ?, updated_at = ? WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(receipt.reply_id.clone())
            .bind(receipt.calls)
            .bind(receipt.updated_at.as_micros())
            .bind(space.as_str())
            .bind(receipt.id.clone());
        self.execute(update).await.map(|_| ())
    }
}
