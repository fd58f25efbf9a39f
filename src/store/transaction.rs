//! A connection inside a transaction, and what happens to it when the transaction ends.
//!
//! `BEGIN`, `COMMIT` and `ROLLBACK` are plain statements here. sqlx counts the nesting depth of a
//! connection, but SQLite rolls back by itself when the disk is full or fails: from then on the
//! count is wrong, every later `BEGIN` on the connection fails, and SQLite has only one writing
//! connection. So a connection returns to the pool only after a successful `COMMIT` or `ROLLBACK`.
//! Any other is closed, and the pool opens a new one.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, Executor as _};

use super::StoreError;

/// The state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Dropping it now rolls it back.
    Open,
    /// It is unknown whether the database still sees a transaction, so the connection is closed.
    Unknown,
    /// Committed.
    Done,
}

/// A connection inside a transaction; rolled back on drop.
pub struct OpenTransaction {
    /// Present until the drop.
    connection: Option<PoolConnection<Any>>,
    state: State,
    lives_in_memory: bool,
    /// Deadline of a rollback.
    patience: Duration,
}

impl OpenTransaction {
    /// Begins with the engine's statement. If dropped halfway, it leaves no open transaction.
    pub async fn begin(
        connection: PoolConnection<Any>,
        statement: &'static str,
        lives_in_memory: bool,
        patience: Duration,
    ) -> Result<Self, sqlx::Error> {
        let mut begun = Self {
            connection: Some(connection),
            state: State::Open,
            lives_in_memory,
            patience,
        };

        begun.execute(statement).await?;
        Ok(begun)
    }

    /// Commits. If this fails or is dropped halfway, the connection is closed.
    pub async fn commit(&mut self) -> Result<(), sqlx::Error> {
        if self.state != State::Open {
            return Err(sqlx::Error::Protocol(
                "a statement of this transaction has failed".to_owned(),
            ));
        }

        self.state = State::Unknown;

        self.execute("COMMIT").await?;
        self.state = State::Done;
        Ok(())
    }

    /// Examines the result of a statement: some errors also end the transaction.
    pub fn look_at<T>(&mut self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Full { .. } | StoreError::Unavailable { .. }) = outcome {
            self.state = State::Unknown;
        }
        outcome
    }
}

impl Deref for OpenTransaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        self.connection.as_ref().expect("taken by the drop alone")
    }
}

impl DerefMut for OpenTransaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        self.connection.as_mut().expect("taken by the drop alone")
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };

        match self.state {
            State::Done => {}
            // An in-memory database would be lost with its connection.
            State::Unknown if !self.lives_in_memory => connection.close_on_drop(),
            State::Open | State::Unknown => {
                let roll_back = roll_back(connection, self.lives_in_memory, self.patience);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a drop cannot wait; closing the pool waits for it"
                )]
                tokio::spawn(roll_back);
            }
        }
    }
}

async fn roll_back(mut connection: PoolConnection<Any>, lives_in_memory: bool, patience: Duration) {
    let rolled_back = tokio::time::timeout(patience, connection.execute("ROLLBACK")).await;

    if !matches!(rolled_back, Ok(Ok(_))) && !lives_in_memory {
        tracing::debug!("cannot roll back a transaction; closing its connection");
        connection.close_on_drop();
    }
}
