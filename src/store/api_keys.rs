//! Rows of `api_keys` and `key_days`, and the request counters of API keys. All of them span
//! spaces, because a request names a key and the key determines the space.

use sqlx::Row as _;

use super::rows::{Stored as _, Written as _, written_row};
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::model::llm_call::Spent;

/// Stands for all spaces; not a valid space name.
pub const ALL_SPACES: &str = "*";
/// The counter of changes to `api_keys`, which tells every process when to read the table again.
const CHANGES: &str = "api_keys";

/// A key as it is stored.
#[derive(Debug, Clone)]
pub struct ApiKeyRow {
    /// [`ALL_SPACES`], or the space that it opens.
    pub space: String,
    pub id: String,
    pub name: String,
    pub key_sha256: String,
    pub prefix: String,
    pub role: String,
    pub limits_json: String,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

written_row! {
    ApiKeyRow as "" {
        space, id, name, key_sha256, prefix, role, limits_json, expires_at, created_at, revoked_at,
        last_used_at,
    }
}

/// Changes to a key; other fields keep their value, even if another request changes them at the
/// same time.
#[derive(Debug, Clone, Default)]
pub struct ApiKeyChange {
    pub name: Option<String>,
    pub limits_json: Option<String>,
    pub expires_at: Option<Option<Timestamp>>,
    /// Never undone.
    pub revoked_at: Option<Timestamp>,
}

impl Store {
    /// The number of changes to keys so far.
    pub async fn find_key_changes(&self) -> Result<i64, StoreError> {
        let sql = "SELECT value FROM counters WHERE space = ? AND name = ? AND window_start = 0";
        let changes = self.read_value("find_key_changes", || {
            self.sql(sql).bind(ALL_SPACES).bind(CHANGES)
        });
        Ok(changes.await?.unwrap_or(0))
    }

    /// Every key, including revoked ones, by id.
    pub async fn list_api_keys(&self) -> Result<Vec<ApiKeyRow>, StoreError> {
        let sql = format!("SELECT {} FROM api_keys ORDER BY id", ApiKeyRow::COLUMNS);
        self.read_all("list_api_keys", || self.composed(&sql)).await
    }

    pub async fn add_api_key(&self, row: &ApiKeyRow) -> Result<(), StoreError> {
        let insert = format!(
            "INSERT INTO api_keys ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ApiKeyRow::NAMES
        );
        self.retry("add_api_key", || async {
            let mut tx = self.begin().await?;
            let insert = tx.dialect().insert_if_absent(&insert);
            tx.execute(row.bind(insert)).await?;
            tx.count_key_change().await?;

            tx.commit().await
        })
        .await
    }

    /// Changes a key; `false` if it does not exist.
    pub async fn update_api_key(
        &self,
        space: &str,
        id: &str,
        change: &ApiKeyChange,
    ) -> Result<bool, StoreError> {
        let update = "UPDATE api_keys SET name = COALESCE(?, name), limits_json = COALESCE(?, limits_json), \
                      expires_at = CASE WHEN ? = 1 THEN ? ELSE expires_at END, revoked_at = COALESCE(revoked_at, ?) \
                      WHERE space = ? AND id = ?";
        self.retry("update_api_key", || async {
            let mut tx = self.begin().await?;
            let update = tx
                .sql(update)
                .bind(change.name.clone())
                .bind(change.limits_json.clone())
                .bind(i64::from(change.expires_at.is_some()))
                .bind(change.expires_at.flatten().map(Timestamp::as_micros))
                .bind(change.revoked_at.map(Timestamp::as_micros));

            // MySQL does not count a row that is written unchanged, so the counter below is always
            // incremented.
            tx.execute(update.bind(space.to_owned()).bind(id.to_owned()))
                .await?;
            tx.count_key_change().await?;
            let find = tx.sql("SELECT id FROM api_keys WHERE space = ? AND id = ?");
            let found = tx
                .fetch_optional(find.bind(space.to_owned()).bind(id.to_owned()))
                .await?;
            tx.commit().await?;

            Ok(found.is_some())
        })
        .await
    }

    /// Stores when a key was last used.
    pub async fn update_key_use(
        &self,
        space: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = "UPDATE api_keys SET last_used_at = ? WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(now.as_micros())
            .bind(space.to_owned())
            .bind(id.to_owned());

        self.execute(update).await
    }

    /// Reserves some of a key's requests in a time window; returns how many were granted.
    pub async fn take_requests(
        &self,
        key_id: &str,
        window: Timestamp,
        wanted: i64,
        limit: i64,
    ) -> Result<i64, StoreError> {
        let name = format!("requests/{key_id}");
        self.retry("take_requests", || async {
            let mut tx = self.begin().await?;
            let insert =
                "INSERT INTO counters (space, name, window_start, value) VALUES (?, ?, ?, ?)";
            let insert =
                tx.dialect()
                    .insert_or_add(insert, "space, name, window_start", &["value"]);

            let insert = insert
                .bind(ALL_SPACES)
                .bind(name.clone())
                .bind(window.as_micros())
                .bind(wanted);

            tx.execute(insert).await?;
            let sum = tx.sql(
                "SELECT value FROM counters WHERE space = ? AND name = ? AND window_start = ?",
            );
            let sum = sum
                .bind(ALL_SPACES)
                .bind(name.clone())
                .bind(window.as_micros());

            let taken: i64 = tx
                .fetch_optional(sum)
                .await?
                .map(|row| row.try_get("value"))
                .transpose()?
                .unwrap_or(wanted);

            tx.commit().await?;
            Ok((limit - (taken - wanted)).clamp(0, wanted))
        })
        .await
    }

    /// What a key has spent on a day.
    pub async fn find_key_spent_on(&self, key_id: &str, day: &str) -> Result<Spent, StoreError> {
        let sql = "SELECT calls, tokens, cost_usd FROM key_days WHERE key_id = ? AND day = ?";
        let spent = self.read_first("find_key_spent_on", || self.sql(sql).bind(key_id).bind(day));
        let (calls, tokens, usd) = spent.await?.unwrap_or_default();
        Ok(Spent { calls, tokens, usd })
    }

    /// Deletes request windows that began before one time, and spending before the day of another.
    pub async fn remove_key_counts(
        &self,
        windows: Timestamp,
        days: Timestamp,
    ) -> Result<(), StoreError> {
        self.retry("remove_key_counts", || async {
            let mut tx = self.begin().await?;
            let delete =
                "DELETE FROM counters WHERE space = ? AND window_start > 0 AND window_start < ?";
            tx.execute(tx.sql(delete).bind(ALL_SPACES).bind(windows.as_micros()))
                .await?;
            tx.execute(
                tx.sql("DELETE FROM key_days WHERE day < ?")
                    .bind(days.day()),
            )
            .await?;

            tx.commit().await
        })
        .await
    }
}

impl Tx {
    pub(super) async fn count_key_change(&mut self) -> Result<(), StoreError> {
        let insert = "INSERT INTO counters (space, name, window_start, value) VALUES (?, ?, 0, 1)";
        let insert = self
            .dialect()
            .insert_or_add(insert, "space, name, window_start", &["value"]);

        self.execute(insert.bind(ALL_SPACES).bind(CHANGES))
            .await
            .map(|_| ())
    }

    /// Adds calls to a key's day.
    pub(super) async fn add_key_day(
        &mut self,
        key_id: &str,
        day: &str,
        spent: Spent,
    ) -> Result<(), StoreError> {
        let insert =
            "INSERT INTO key_days (key_id, day, calls, tokens, cost_usd) VALUES (?, ?, ?, ?, ?)";
        let columns = ["calls", "tokens", "cost_usd"];
        let insert = self
            .dialect()
            .insert_or_add(insert, "key_id, day", &columns);

        let insert = insert
            .bind(key_id.to_owned())
            .bind(day.to_owned())
            .bind(spent.calls);

        self.execute(insert.bind(spent.tokens).bind(spent.usd))
            .await
            .map(|_| ())
    }
}
