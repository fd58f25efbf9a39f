//! Rows of `idempotency_keys` of requests that take too long for a transaction.
//!
//! While the request runs, its row has no response but a lease by the database's clock. Exactly one
//! request can claim it: with the insert or, after the lease has expired, with one conditional
//! update. Others poll the row.

use std::time::Duration;

use sqlx::Row as _;

use super::idempotency::{COLUMNS, NewResponse, read_answer, stored_key};
use super::text_uses::HolderKind;
use super::{Store, StoreError, StoredAnswer, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// A request that wants to run under its key.
#[derive(Debug, Clone, Copy)]
pub struct IdempotentRun<'a> {
    pub space: &'a Space,
    /// As it was sent.
    pub key: &'a str,
    pub route: &'a str,
    pub body_hash: &'a str,
    /// Unique to this request.
    pub owner: &'a str,
    pub lease: Duration,
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunClaim {
    /// The request may run.
    Mine,
    /// It was answered, or its key belongs to another request.
    Answered(StoredAnswer),
    /// Another request is running.
    Running(StoredAnswer),
}

impl Store {
    /// Claims a key that is unused since `expired_before`, or whose lease has expired.
    pub async fn claim_idempotency_run(
        &self,
        run: IdempotentRun<'_>,
        now: Timestamp,
        expired_before: Timestamp,
    ) -> Result<RunClaim, StoreError> {
        self.retry("claim_idempotency_run", || async {
            // Waiting requests poll often, so only one that can win writes.
            match self.find_run(run, expired_before).await? {
                Some(RunClaim::Mine) => self.write_claim(run, true, (now, expired_before)).await,
                None => self.write_claim(run, false, (now, expired_before)).await,
                Some(claim) => Ok(claim),
            }
        })
        .await
    }

    /// The state of the row; `None` if there is none, [`RunClaim::Mine`] if this request may claim
    /// it.
    async fn find_run(
        &self,
        run: IdempotentRun<'_>,
        since: Timestamp,
    ) -> Result<Option<RunClaim>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, lease_owner, lease_until - @now AS lease_left FROM idempotency_keys \
             WHERE space = ? AND idempotency_key IN (?, ?) AND created_at >= ?"
        );

        let query = self
            .backend
            .dialect
            .assembled(&sql)
            .bind(run.space.as_str().to_owned());

        let query = query.bind(stored_key(run.key)).bind(run.key.to_owned());
        let rows = self.fetch_all(query.bind(since.as_micros())).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let answer = read_answer(row)?;
        let (owner, left): (Option<String>, Option<i64>) =
            (row.try_get("lease_owner")?, row.try_get("lease_left")?);

        let same = answer.route == run.route && answer.body_hash == run.body_hash;
        Ok(Some(if answer.status.is_some() || !same {
            RunClaim::Answered(answer)
        } else if owner.as_deref() == Some(run.owner) || left.is_none_or(|left| left <= 0) {
            RunClaim::Mine
        } else {
            RunClaim::Running(answer)
        }))
    }

    /// Takes over the row of a request that has died, or adds one.
    async fn write_claim(
        &self,
        run: IdempotentRun<'_>,
        takes_over: bool,
        (now, expired_before): (Timestamp, Timestamp),
    ) -> Result<RunClaim, StoreError> {
        let mut tx = self.begin().await?;
        let won = if takes_over {
            tx.take_over_run(run, now).await?
        } else {
            tx.expire_idempotency_key(run.space, run.key, expired_before)
                .await?;
            tx.add_run(run, now).await?
        };

        tx.commit().await?;
        if won {
            return Ok(RunClaim::Mine);
        }

        match self.find_run(run, expired_before).await? {
            Some(RunClaim::Mine) | None => Err(StoreError::Contended {
                cause: "the key was given up in this moment".to_owned(),
            }),
            Some(claim) => Ok(claim),
        }
    }

    /// Extends the lease of a key.
    pub async fn renew_idempotency_run(&self, run: IdempotentRun<'_>) -> Result<(), StoreError> {
        let renew = "UPDATE idempotency_keys SET lease_until = @now + ? \
                     WHERE space = ? AND idempotency_key = ? AND lease_owner = ? AND status IS NULL";
        let renew = self
            .sql(renew)
            .bind(micros(run.lease))
            .bind(run.space.as_str().to_owned());

        self.execute(renew.bind(stored_key(run.key)).bind(run.owner.to_owned()))
            .await
    }

    /// Stores the response of the request that holds the key, and notes whose text it holds; returns
    /// whether it still did. If something was erased since the given number of erasures, the response
    /// may hold it: then the key is released instead.
    pub async fn finish_idempotency_run(
        &self,
        (space, key, owner): (&Space, &str, &str),
        response: &NewResponse,
        erasures: i64,
    ) -> Result<bool, StoreError> {
        self.retry("finish_idempotency_run", || async {
            let mut tx = self.begin().await?;
            if tx.hold_erasures(space).await? != erasures {
                drop(tx);
                self.remove_idempotency_run((space, key, owner)).await?;
                return Ok(true);
            }

            let update = "UPDATE idempotency_keys SET status = ?, response_json = ? \
                          WHERE space = ? AND idempotency_key = ? AND lease_owner = ?";
            let update = tx
                .sql(update)
                .bind(i64::from(response.status))
                .bind(response.json.clone());

            let update = update
                .bind(space.as_str().to_owned())
                .bind(stored_key(key))
                .bind(owner.to_owned());

            let kept = tx.execute(update).await? == 1;
            if kept {
                let key = stored_key(key);
                let holder = (HolderKind::Response, key.as_str());
                tx.add_text_uses(space, holder, &response.used, response.at)
                    .await?;
            }

            tx.commit().await?;
            Ok(kept)
        })
        .await
    }

    /// Releases a key whose request was not answered.
    pub async fn remove_idempotency_run(
        &self,
        (space, key, owner): (&Space, &str, &str),
    ) -> Result<(), StoreError> {
        let delete = "DELETE FROM idempotency_keys \
                      WHERE space = ? AND idempotency_key = ? AND lease_owner = ? AND status IS NULL";
        self.retry("remove_idempotency_run", || async {
            let delete = self
                .sql(delete)
                .bind(space.as_str().to_owned())
                .bind(stored_key(key));
            self.execute(delete.bind(owner.to_owned())).await
        })
        .await
    }
}

impl Tx {
    async fn take_over_run(
        &mut self,
        run: IdempotentRun<'_>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let take_over = "UPDATE idempotency_keys SET idempotency_key = ?, lease_owner = ?, lease_until = @now + ?, \
                         created_at = ? WHERE space = ? AND idempotency_key IN (?, ?) AND route = ? AND body_hash = ? \
                         AND status IS NULL AND (lease_until < @now OR lease_owner = ?)";
        let take_over = self
            .sql(take_over)
            .bind(stored_key(run.key))
            .bind(run.owner.to_owned())
            .bind(micros(run.lease))
            .bind(now.as_micros());

        let take_over = take_over
            .bind(run.space.as_str().to_owned())
            .bind(stored_key(run.key))
            .bind(run.key.to_owned())
            .bind(run.route.to_owned())
            .bind(run.body_hash.to_owned());

        Ok(self.execute(take_over.bind(run.owner.to_owned())).await? == 1)
    }

    /// Adds the row of a request, unless the key has one.
    async fn add_run(
        &mut self,
        run: IdempotentRun<'_>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let insert = "INSERT INTO idempotency_keys \
                      (space, idempotency_key, route, body_hash, created_at, lease_owner, lease_until) \
                      VALUES (?, ?, ?, ?, ?, ?, @now + ?)";
        let insert = self
            .backend
            .dialect
            .insert_if_absent(insert)
            .bind(run.space.as_str().to_owned())
            .bind(stored_key(run.key));

        let insert = insert
            .bind(run.route.to_owned())
            .bind(run.body_hash.to_owned())
            .bind(now.as_micros())
            .bind(run.owner.to_owned());

        Ok(self.execute(insert.bind(micros(run.lease))).await? == 1)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
