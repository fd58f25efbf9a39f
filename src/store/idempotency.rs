//! Rows of `idempotency_keys`: the first response to each key.
//!
//! One transaction claims a key, stores its response and writes the effect, so a crash leaves all
//! of it or nothing; a second request with the key waits for the first to end.
//!
//! A key is stored as its hash: clients make keys of the names and ids of people, and a key outlives
//! what it was sent for. Earlier builds stored keys as they were sent, so both forms are looked up.

use std::collections::BTreeSet;

use memoir_text::hash::sha256_hex;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::text_uses::HolderKind;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// What every stored key begins with; no key that a client sends contains a space.
const HASHED: &str = "sha256 ";

/// A key as it is stored, whether it was sent so or is stored so already.
pub fn stored_key(key: &str) -> String {
    if key.starts_with(HASHED) {
        key.to_owned()
    } else {
        format!("{HASHED}{}", sha256_hex(key.as_bytes()))
    }
}

/// What is stored for a used key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub route: String,
    pub body_hash: String,
    pub status: Option<i64>,
    pub response_json: Option<String>,
}

/// A response to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResponse {
    pub status: u16,
    pub json: String,
    /// Whose text it holds, as `text_uses` names it.
    pub used: BTreeSet<String>,
    pub at: Timestamp,
}

/// The columns that [`read_answer`] reads.
pub const COLUMNS: &str = "route, body_hash, status, response_json";

const SELECT: &str = "SELECT route, body_hash, status, response_json, created_at FROM idempotency_keys \
                      WHERE space = ? AND idempotency_key IN (?, ?)";

pub fn read_answer(row: &AnyRow) -> Result<StoredAnswer, StoreError> {
    Ok(StoredAnswer {
        route: row.try_get("route")?,
        body_hash: row.try_get("body_hash")?,
        status: row.try_get("status")?,
        response_json: row.try_get("response_json")?,
    })
}

impl Tx {
    /// Claims the key, as it was sent, or returns what was answered under it since `expired_before`.
    pub async fn claim_idempotency_key(
        &mut self,
        space: &Space,
        key: &str,
        (route, body_hash): (&str, &str),
        now: Timestamp,
        expired_before: Timestamp,
    ) -> Result<Option<StoredAnswer>, StoreError> {
        if let Some((answer, created_at)) = self.find_answer(space, key).await? {
            if created_at >= expired_before {
                return Ok(Some(answer));
            }
            self.expire_idempotency_key(space, key, expired_before)
                .await?;
        }

        let claim = "INSERT INTO idempotency_keys (space, idempotency_key, route, body_hash, created_at) \
                     VALUES (?, ?, ?, ?, ?)";
        let claim = self
            .backend
            .dialect
            .insert_if_absent(claim)
            .bind(space.as_str())
            .bind(stored_key(key));

        let claim = claim.bind(route).bind(body_hash).bind(now.as_micros());
        if self.execute(claim).await? == 1 {
            return Ok(None);
        }

        // Another request was faster.
        let Some((answer, _)) = self.find_answer(space, key).await? else {
            return Err(StoreError::Contended {
                cause: "the key was given up in this moment".to_owned(),
            });
        };

        Ok(Some(answer))
    }

    async fn find_answer(
        &mut self,
        space: &Space,
        key: &str,
    ) -> Result<Option<(StoredAnswer, Timestamp)>, StoreError> {
        let query = self.sql(SELECT).bind(space.as_str());
        let query = query.bind(stored_key(key)).bind(key.to_owned());
        let Some(row) = self.fetch_optional(query).await? else {
            return Ok(None);
        };

        let created_at = Timestamp::from_micros(row.try_get("created_at")?);
        Ok(Some((read_answer(&row)?, created_at)))
    }

    /// Forgets a key from before a time, and whose text its response holds.
    pub(super) async fn expire_idempotency_key(
        &mut self,
        space: &Space,
        key: &str,
        before: Timestamp,
    ) -> Result<(), StoreError> {
        let delete = "DELETE FROM idempotency_keys WHERE space = ? AND idempotency_key IN (?, ?) AND created_at < ?";
        let delete = self.sql(delete).bind(space.as_str());
        let delete = delete.bind(stored_key(key)).bind(key.to_owned());
        if self.execute(delete.bind(before.as_micros())).await? == 0 {
            return Ok(());
        }

        for holder_id in [stored_key(key).as_str(), key] {
            let holder = HolderKind::Response;
            self.remove_text_uses(space.as_str(), holder, holder_id)
                .await?;
        }

        Ok(())
    }

    /// Stores the response under a key that this transaction has claimed, and notes whose text it
    /// holds.
    pub async fn update_idempotency_key(
        &mut self,
        space: &Space,
        key: &str,
        response: &NewResponse,
    ) -> Result<(), StoreError> {
        let update = "UPDATE idempotency_keys SET status = ?, response_json = ? WHERE space = ? AND idempotency_key = ?";
        let update = self
            .sql(update)
            .bind(i64::from(response.status))
            .bind(response.json.as_str())
            .bind(space.as_str())
            .bind(stored_key(key));

        self.execute(update).await?;
        let key = stored_key(key);
        let holder = (HolderKind::Response, key.as_str());
        self.add_text_uses(space, holder, &response.used, response.at)
            .await
    }
}

impl Store {
    /// What was answered under a key since a given time.
    pub async fn find_idempotency_key(
        &self,
        space: &Space,
        key: &str,
        since: Timestamp,
    ) -> Result<Option<StoredAnswer>, StoreError> {
        let sql = format!("{SELECT} AND created_at >= ?");
        self.retry("find_idempotency_key", || async {
            let query = self
                .backend
                .dialect
                .assembled(&sql)
                .bind(space.as_str())
                .bind(stored_key(key))
                .bind(key.to_owned());
            self.fetch_all(query.bind(since.as_micros()))
                .await?
                .first()
                .map(read_answer)
                .transpose()
        })
        .await
    }

    /// Deletes keys of all spaces that are older than `before`; returns how many.
    pub async fn remove_idempotency_keys(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.retry("remove_idempotency_keys", || async {
            let mut tx = self.begin().await?;
            let delete = self
                .sql("DELETE FROM idempotency_keys WHERE created_at < ?")
                .bind(before.as_micros());
            let removed = tx.execute(delete).await?;
            tx.commit().await?;

            Ok(removed)
        })
        .await
    }
}
