//! Connections: pools, their settings, and their pitfalls.
//!
//! SQLite has one writer and four readers over a write-ahead log, so that a reader never waits and
//! two writers never collide; the other engines have one pool.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use sqlx::any::AnyPoolOptions;
use sqlx::pool::{PoolConnection, PoolConnectionMetadata};
use sqlx::{Any, AnyPool, Connection as _, Row as _};

use super::connection::{answers, find_logged_file, knock, make_private, prepare, with_mode};
use super::dialect::Dialect;
use super::error::StoreError;
use super::flush::Flusher;
use super::pgvector::PgVector;
use super::transaction::OpenTransaction;
use super::wal_file::WalFile;
use super::writability::Writability;
use crate::config::Database;
use crate::config::database::{Engine, Retry, SqliteSynchronous};

/// Readers of a SQLite file: more brought no gain when measured.
const SQLITE_READERS: u32 = 4;
/// A connection that was idle for longer is tested before use.
const IDLE_SUSPECT: Duration = Duration::from_secs(30);
/// For this long after a lost connection, all others are tested before use: a restart closes them
/// together.
const LOSS_SUSPECT: Duration = Duration::from_mins(1);
/// Deadline of one statement.
const DEADLINE: Duration = Duration::from_secs(10);
/// Deadline of the disk to flush a commit.
const FLUSH_DEADLINE: Duration = Duration::from_secs(30);

/// The open connections of one database.
pub struct Backend {
    pub engine: Engine,
    pub dialect: Dialect,
    pub retry: Retry,
    /// Where the database is, without its password; for messages.
    pub place: String,
    writer: AnyPool,
    reader: AnyPool,
    losses: Arc<Losses>,
    /// SQLite with `sqlite_synchronous = "full"`, in a file.
    flusher: Option<Flusher>,
    /// Held by the task that recovers from a failed flush.
    recovering: tokio::sync::Mutex<()>,
    lives_in_memory: bool,
    pub writability: Writability,
    pub pgvector: PgVector,
    /// Spaces that are known to have a version of their terms.
    pub settled_terms: Mutex<HashSet<String>>,
}

impl Backend {
    pub async fn connect(config: &Database) -> Result<Self, StoreError> {
        static DRIVERS: Once = Once::new();

        DRIVERS.call_once(sqlx::any::install_default_drivers);

        let place = config.url.to_string();
        let engine = config
            .url
            .engine()
            .ok_or_else(|| StoreError::cannot_open(&place, "the scheme is not supported"))?;

        let losses = Arc::new(Losses::default());
        let synchronous = config.sqlite_synchronous;
        let options = || {
            let (before, after) = (Arc::clone(&losses), Arc::clone(&losses));
            AnyPoolOptions::new()
                .acquire_timeout(Duration::from_secs(config.acquire_timeout))
                .test_before_acquire(false)
                .after_connect(move |connection, _| {
                    Box::pin(prepare(connection, engine, synchronous))
                })
                .before_acquire(move |connection, meta| {
                    let suspect = before.suspect(&meta);
                    Box::pin(async move { Ok(!suspect || answers(connection).await) })
                })
                // The pool's own check on release has no deadline: a half-open socket would hold
                // its place indefinitely.
                .after_release(move |connection, meta| {
                    let suspect = after.suspect(&meta);
                    Box::pin(async move { Ok(!suspect || answers(connection).await) })
                })
        };

        let open = async |url: String, size: u32| {
            options()
                .max_connections(size)
                .connect(&url)
                .await
                .map_err(|error| StoreError::on_connect(&error, &place))
        };

        make_private(&config.url);
        let lives_in_memory = engine == Engine::Sqlite && config.url.expose().contains(":memory:");
        let mut knocked = None;

        if !lives_in_memory {
            let sqlite = engine == Engine::Sqlite;
            let url = config.url.expose();
            let url = if sqlite {
                with_mode(url, "rwc")
            } else {
                url.to_owned()
            };

            let connection = knock(&url, &place, config.retry, (engine, synchronous)).await?;
            // Except for SQLite, whose last connection merges the log into the file.
            if sqlite {
                knocked = Some(connection);
            } else {
                drop(connection.close().await);
            }
        }

        let flusher = match &mut knocked {
            Some(connection) if synchronous == SqliteSynchronous::Full => {
                let file = find_logged_file(connection).await;
                file.map_err(|error| StoreError::on_connect(&error, &place))?
                    .map(|file| {
                        let mut log = WalFile::of(&file);
                        Flusher::new(move || log.flush())
                    })
            }
            _ => None,
        };

        let (writer, reader) = match (engine, config.url.expose()) {
            (Engine::Sqlite, url) if lives_in_memory => {
                // An in-memory database exists in one connection.
                let only = options()
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .max_connections(1)
                    .connect(url)
                    .await;

                let only = only.map_err(|error| StoreError::on_connect(&error, &place))?;
                (only.clone(), only)
            }
            (Engine::Sqlite, url) => {
                // The writer opens first: it creates the file and enables the log that readers
                // need.
                let writer = open(with_mode(url, "rwc"), 1).await?;
                (writer, open(with_mode(url, "ro"), SQLITE_READERS).await?)
            }
            (_, url) => {
                let size = u32::try_from(config.max_connections).unwrap_or(u32::MAX);
                let pool = open(url.to_owned(), size).await?;
                (pool.clone(), pool)
            }
        };

        if let Some(connection) = knocked {
            let _ = connection.close().await;
        }

        Ok(Self {
            engine,
            dialect: Dialect::new(engine),
            retry: config.retry,
            place,
            writer,
            reader,
            losses,
            flusher,
            recovering: tokio::sync::Mutex::default(),
            lives_in_memory,
            writability: Writability::default(),
            pgvector: PgVector::default(),
            settled_terms: Mutex::default(),
        })
    }

    pub async fn read(&self) -> Result<PoolConnection<Any>, StoreError> {
        self.reader
            .acquire()
            .await
            .map_err(|error| self.explain(&error))
    }

    /// A connection for one statement that is its own transaction.
    pub async fn write(&self) -> Result<PoolConnection<Any>, StoreError> {
        self.writer
            .acquire()
            .await
            .map_err(|error| self.explain(&error))
    }

    /// Waits for the database's answer, with a deadline: a black-holed connection never answers.
    pub async fn within<T>(
        &self,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, StoreError> {
        let mut answer = pin!(answer);
        match tokio::time::timeout(DEADLINE, answer.as_mut()).await {
            Ok(answered) => answered.map_err(|error| self.explain(&error)),
            // Set while the connection is still held, so that its release is checked.
            Err(_) => Err(self.gave_no_answer(DEADLINE)),
        }
    }

    /// Begins a transaction. If dropped halfway, it is rolled back.
    pub async fn begin(&self) -> Result<OpenTransaction, StoreError> {
        // IMMEDIATE takes the write lock now, when waiting works; later it would fail immediately.
        let statement = if self.engine == Engine::Sqlite {
            "BEGIN IMMEDIATE"
        } else {
            "BEGIN"
        };

        let begun = async {
            let connection = self.writer.acquire().await?;
            OpenTransaction::begin(connection, statement, self.lives_in_memory, DEADLINE).await
        };

        // Boxed, because it is part of every future that writes.
        self.within(Box::pin(begun)).await
    }

    /// Commits, and waits until the commit is on disk; `visible` is called in between.
    ///
    /// # Errors
    /// Nothing was written; or [`StoreError::Uncertain`].
    pub async fn commit(
        &self,
        mut transaction: OpenTransaction,
        visible: impl FnOnce(),
    ) -> Result<(), StoreError> {
        let committed = self.within(transaction.commit()).await;
        // Other writers continue while this one waits for the disk.
        drop(transaction);

        committed.map_err(StoreError::during_commit)?;
        visible();
        self.make_durable().await
    }

    /// Commits what a power cut may undo, without waiting for the disk where memoir decides that.
    ///
    /// # Errors
    /// Nothing was written; or [`StoreError::Uncertain`].
    pub async fn commit_unflushed(
        &self,
        mut transaction: OpenTransaction,
    ) -> Result<(), StoreError> {
        let committed = self.within(transaction.commit()).await;
        committed.map_err(StoreError::during_commit)
    }

    /// Waits until everything committed so far is on disk, where memoir is responsible for that.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`]: the disk failed, so a power cut may undo a commit.
    pub async fn make_durable(&self) -> Result<(), StoreError> {
        let Some(flusher) = &self.flusher else {
            return Ok(());
        };

        let durable = async {
            while let Err(cause) = flusher.flushed().await {
                let _recovering = self.recovering.lock().await;
                // Otherwise another task has done it, perhaps before our commit.
                if flusher.has_failed() {
                    return Box::pin(self.fold_log(flusher, &cause)).await;
                }
            }
            Ok(())
        };

        match tokio::time::timeout(FLUSH_DEADLINE, Box::pin(durable)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.uncertain(&format!(
                "the disk did not respond within {} s",
                FLUSH_DEADLINE.as_secs()
            ))),
        }
    }

    /// Recovers from a failed flush: SQLite copies the whole log into the database file, flushes
    /// that, and restarts the log.
    async fn fold_log(&self, flusher: &Flusher, cause: &str) -> Result<(), StoreError> {
        let mut writer = self
            .writer
            .acquire()
            .await
            .map_err(|error| self.uncertain(&format!("{cause}; then: {error}")))?;

        let fold = self
            .dialect
            .query("PRAGMA wal_checkpoint(TRUNCATE)")
            .fetch_one(&mut *writer);

        let busy = self
            .within(async { fold.await?.try_get::<i64, _>("busy") })
            .await;
        match busy {
            Ok(0) => {
                // While the writer is held, so that no commit happens in between.
                flusher.recovered();
                tracing::info!("SQLite's write-ahead log was checkpointed after a failed flush");
                Ok(())
            }
            Ok(_) => Err(self.uncertain(cause)),
            Err(error) => Err(self.uncertain(&format!("{cause}; then: {error}"))),
        }
    }

    /// Copies SQLite's log into the database file and empties it; `false` if another connection
    /// still reads from it, `None` if there is no log.
    pub async fn truncate_log(&self) -> Result<Option<bool>, StoreError> {
        if self.engine != Engine::Sqlite || self.lives_in_memory {
            return Ok(None);
        }

        let acquired = self.writer.acquire().await;
        let mut writer = acquired.map_err(|error| self.explain(&error))?;
        // Writers wait meanwhile, so readers are not waited for as long as usual.
        let brief = self.dialect.query("PRAGMA busy_timeout = 200");
        self.within(brief.execute(&mut *writer)).await?;
        let fold = self
            .dialect
            .query("PRAGMA wal_checkpoint(TRUNCATE)")
            .fetch_one(&mut *writer);
        let busy = self
            .within(async { fold.await?.try_get::<i64, _>("busy") })
            .await;
        let usual = self.dialect.query("PRAGMA busy_timeout = 5000");
        self.within(usual.execute(&mut *writer)).await?;
        Ok(Some(busy? == 0))
    }

    /// Writes SQLite's file anew, without what was deleted before deletions were overwritten. It takes
    /// as long as the file is large, and as much free space; without either, the file stays usable.
    pub async fn leave_out_deleted(&self) {
        if self.engine != Engine::Sqlite || self.lives_in_memory {
            return;
        }

        let vacuum = async {
            let mut writer = self.writer.acquire().await?;
            let vacuum = self.dialect.query("VACUUM").persistent(false);
            vacuum.execute(&mut *writer).await
        };
        match vacuum.await {
            Ok(_) => {
                let _ = self.truncate_log().await;
            }
            Err(error) => tracing::warn!(
                %error,
                "cannot write the database anew: its file may still contain text that was deleted before this \
                 upgrade; run VACUUM on it when no process uses it"
            ),
        }
    }

    fn uncertain(&self, cause: &str) -> StoreError {
        self.writability.doubt();
        StoreError::Uncertain {
            place: self.place.clone(),
            cause: cause.to_owned(),
        }
    }

    /// The error of an operation that did not answer in time; its connection is tested before it is
    /// used again.
    pub fn gave_no_answer(&self, waited: Duration) -> StoreError {
        self.losses.remember();
        let cause = format!("no response within {} s", waited.as_secs());
        StoreError::Unavailable {
            place: self.place.clone(),
            cause,
        }
    }

    /// Converts the driver's error and remembers a lost connection.
    pub fn explain(&self, error: &sqlx::Error) -> StoreError {
        let error = StoreError::from_driver(error, &self.place);
        match error {
            StoreError::Unavailable { .. } => self.losses.remember(),
            StoreError::Full { .. } => self.writability.doubt(),
            _ => {}
        }

        error
    }

    pub async fn close(&self) {
        self.reader.close().await;
        // SQLite does so too as its last connection closes, but not if another one closes just then.
        let _ = self.truncate_log().await;
        self.writer.close().await;
    }
}

/// When a connection was last lost.
struct Losses {
    start: Instant,
    last_ms: AtomicU64,
}

impl Default for Losses {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            last_ms: AtomicU64::new(u64::MAX),
        }
    }
}

impl Losses {
    fn remember(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Whether a connection should be tested before use.
    fn suspect(&self, meta: &PoolConnectionMetadata) -> bool {
        let last = self.last_ms.load(Ordering::Relaxed);
        let since_loss = (last != u64::MAX).then(|| {
            self.start
                .elapsed()
                .saturating_sub(Duration::from_millis(last))
        });

        meta.idle_for > IDLE_SUSPECT
            || since_loss.is_some_and(|since| since < LOSS_SUSPECT && meta.age > since)
    }
}
