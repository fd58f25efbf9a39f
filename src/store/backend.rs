//! Connections: pools, their settings, and the traps that they would otherwise fall into.
//!
//! SQLite has one writer and four readers over a write-ahead log, so a reader never waits and two
//! writers never meet; the other engines have one pool.

use std::pin::pin;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::any::AnyPoolOptions;
use sqlx::pool::{PoolConnection, PoolConnectionMetadata};
use sqlx::{Any, AnyConnection, AnyPool, Connection as _, Executor as _, Transaction};

use super::dialect::Dialect;
use super::error::StoreError;
use super::pgvector::PgVector;
use crate::config::Database;
use crate::config::database::{DatabaseUrl, Engine, Retry, SqliteSynchronous};

/// Readers of a SQLite file: more gave nothing when measured.
const SQLITE_READERS: u32 = 4;
/// A connection that was idle for longer is tried before it is handed out.
const IDLE_SUSPECT: Duration = Duration::from_secs(30);
/// After a lost connection all others are tried before use for this long: a restart kills them together.
const LOSS_SUSPECT: Duration = Duration::from_mins(1);
/// How long the database may take to answer one statement.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long a try may take; a half-open socket never answers.
const PING_DEADLINE: Duration = Duration::from_secs(1);

/// The live connections of one database.
pub struct Backend {
    pub engine: Engine,
    pub dialect: Dialect,
    pub retry: Retry,
    /// Where the database is, without its password; for messages.
    pub place: String,
    writer: AnyPool,
    reader: AnyPool,
    losses: Arc<Losses>,
    pub pgvector: PgVector,
}

impl Backend {
    pub async fn connect(config: &Database) -> Result<Self, StoreError> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);

        let place = config.url.to_string();
        let engine = config.url.engine().ok_or_else(|| StoreError::cannot_open(&place, "its scheme is not known"))?;
        let losses = Arc::new(Losses::default());
        let synchronous = config.sqlite_synchronous;
        let options = || {
            let (before, after) = (Arc::clone(&losses), Arc::clone(&losses));
            AnyPoolOptions::new()
                .acquire_timeout(Duration::from_secs(config.acquire_timeout))
                .test_before_acquire(false)
                .after_connect(move |connection, _| Box::pin(prepare(connection, engine, synchronous)))
                .before_acquire(move |connection, meta| {
                    let suspect = before.suspect(&meta);
                    Box::pin(async move { Ok(!suspect || answers(connection).await) })
                })
                // The pool's own check on release has no deadline: a half-open socket would hold its place for ever.
                .after_release(move |connection, meta| {
                    let suspect = after.suspect(&meta);
                    Box::pin(async move { Ok(!suspect || answers(connection).await) })
                })
        };
        let open = async |url: String, size: u32| {
            options().max_connections(size).connect(&url).await.map_err(|error| StoreError::on_connect(&error, &place))
        };
        make_private(&config.url);
        // Past the pool, which only says that no connection came: the driver knows why.
        if engine != Engine::Sqlite {
            knock(config.url.expose(), &place, config.retry).await?;
        }
        let (writer, reader) = match (engine, config.url.expose()) {
            (Engine::Sqlite, url) if url.contains(":memory:") => {
                // A database in memory lives in one connection.
                let only = options().idle_timeout(None).max_lifetime(None).max_connections(1).connect(url).await;
                let only = only.map_err(|error| StoreError::on_connect(&error, &place))?;
                (only.clone(), only)
            }
            (Engine::Sqlite, url) => {
                // The writer opens first: it makes the file and switches on the log that readers need.
                let writer = open(with_mode(url, "rwc"), 1).await?;
                (writer, open(with_mode(url, "ro"), SQLITE_READERS).await?)
            }
            (_, url) => {
                let size = u32::try_from(config.max_connections).unwrap_or(u32::MAX);
                let pool = open(url.to_owned(), size).await?;
                (pool.clone(), pool)
            }
        };
        let dialect = Dialect::new(engine);
        let pgvector = PgVector::default();
        Ok(Self { engine, dialect, retry: config.retry, place, writer, reader, losses, pgvector })
    }

    pub async fn read(&self) -> Result<PoolConnection<Any>, StoreError> {
        self.reader.acquire().await.map_err(|error| self.explain(&error))
    }

    /// A connection for one statement that is a transaction of its own.
    pub async fn write(&self) -> Result<PoolConnection<Any>, StoreError> {
        self.writer.acquire().await.map_err(|error| self.explain(&error))
    }

    /// Waits for the database's answer, but not for ever: a black-holed connection gives none.
    pub async fn within<T>(&self, answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
        let mut answer = pin!(answer);
        match tokio::time::timeout(DEADLINE, answer.as_mut()).await {
            Ok(answered) => answered.map_err(|error| self.explain(&error)),
            // Said while the connection is still held, so that its release is checked.
            Err(_) => Err(self.gave_no_answer(DEADLINE)),
        }
    }

    /// Begins a transaction on a task of its own.
    ///
    /// sqlx 0.9.0 gives a connection back to its pool *inside* an open transaction when the future of
    /// `begin` is dropped halfway (a client that hangs up does that); the task runs it to its end, and a
    /// transaction that nobody wants any more rolls back as it is dropped.
    pub async fn begin(&self) -> Result<Transaction<'static, Any>, StoreError> {
        let pool = self.writer.clone();
        let sqlite = self.engine == Engine::Sqlite;
        #[expect(clippy::disallowed_methods, reason = "must outlive the caller; it ends by itself at once")]
        let begun = tokio::spawn(async move {
            // IMMEDIATE takes the write lock now, where waiting works; later it would fail at once.
            if sqlite { pool.begin_with("BEGIN IMMEDIATE").await } else { pool.begin().await }
        });
        match tokio::time::timeout(DEADLINE, begun).await {
            Ok(Ok(transaction)) => transaction.map_err(|error| self.explain(&error)),
            Err(_) => Err(self.gave_no_answer(DEADLINE)),
            Ok(Err(_)) => Err(StoreError::Unavailable { place: self.place.clone(), cause: "the task ended".into() }),
        }
    }

    /// What is said of an operation that gave no answer in time; its connection is checked before it is used again.
    pub fn gave_no_answer(&self, waited: Duration) -> StoreError {
        self.losses.remember();
        let cause = format!("no answer within {} s", waited.as_secs());
        StoreError::Unavailable { place: self.place.clone(), cause }
    }

    /// Turns the driver's error into ours, and remembers a lost connection.
    pub fn explain(&self, error: &sqlx::Error) -> StoreError {
        let error = StoreError::from_driver(error, &self.place);
        if matches!(error, StoreError::Unavailable { .. }) {
            self.losses.remember();
        }
        error
    }

    pub async fn close(&self) {
        self.reader.close().await;
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
        Self { start: Instant::now(), last_ms: AtomicU64::new(u64::MAX) }
    }
}

impl Losses {
    fn remember(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Whether a connection should be tried before it is used.
    fn suspect(&self, meta: &PoolConnectionMetadata) -> bool {
        let last = self.last_ms.load(Ordering::Relaxed);
        let since_loss = (last != u64::MAX).then(|| self.start.elapsed().saturating_sub(Duration::from_millis(last)));
        meta.idle_for > IDLE_SUSPECT || since_loss.is_some_and(|since| since < LOSS_SUSPECT && meta.age > since)
    }
}

/// Makes a new SQLite file readable by its owner alone: it will hold what users wrote. SQLite's other files follow it.
fn make_private(url: &DatabaseUrl) {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(file) = url.sqlite_file() {
        // An existing one is left as its owner wants it; one that cannot be made is SQLite's to complain about.
        let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    }
}

/// Connects once and hangs up, trying again for a moment if nobody answers.
async fn knock(url: &str, place: &str, retry: Retry) -> Result<(), StoreError> {
    let mut tried = 0;
    loop {
        let error = match AnyConnection::connect(url).await {
            Ok(connection) => {
                let _ = connection.close().await;
                return Ok(());
            }
            Err(error) => StoreError::on_connect(&error, place),
        };
        tried += 1;
        if !error.is_retryable() || u64::from(tried) >= retry.tries {
            return Err(error);
        }
        tokio::time::sleep(retry.pause(tried)).await;
    }
}

async fn answers(connection: &mut AnyConnection) -> bool {
    matches!(tokio::time::timeout(PING_DEADLINE, connection.ping()).await, Ok(Ok(())))
}

/// The settings of each new connection.
async fn prepare(
    connection: &mut AnyConnection,
    engine: Engine,
    synchronous: SqliteSynchronous,
) -> Result<(), sqlx::Error> {
    let statements: &[&'static str] = match engine {
        Engine::Sqlite => &[
            "PRAGMA busy_timeout = 5000",
            // Changes nothing for readers: the writer came first and has switched it on.
            "PRAGMA journal_mode = WAL",
            "PRAGMA foreign_keys = ON",
            "PRAGMA cache_size = -4000",
            "PRAGMA temp_store = memory",
            // 16 MB: a document is written to the log and copied to the file, with a wait for the disk, once in four
            // times as much as by default.
            "PRAGMA wal_autocheckpoint = 4000",
        ],
        Engine::Postgres => &[
            "SET idle_in_transaction_session_timeout = '15s'",
            "SET statement_timeout = '30s'",
            "SET default_transaction_isolation = 'read committed'",
            // Every statement goes by an index from few rows to few others. Of a space that it knows little about the
            // planner thinks worse, and reads through whole tables to join them.
            "SET enable_seqscan = off",
            "SET enable_hashjoin = off",
            "SET enable_mergejoin = off",
            "SET max_parallel_workers_per_gather = 0",
            // What is read is in memory or on a disk without a head: an index in the order wanted beats sorting.
            "SET random_page_cost = 1.1",
            // Planned once: planning the longest statement anew takes longer than running it.
            "SET plan_cache_mode = force_generic_plan",
            // Long texts are packed several times faster, where the server knows how.
            "DO $$ BEGIN PERFORM set_config('default_toast_compression', 'lz4', false); \
             EXCEPTION WHEN OTHERS THEN NULL; END $$",
        ],
        Engine::Mysql => &[
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            // Joined values are cut off behind 1,024 bytes otherwise, without an error.
            "SET SESSION group_concat_max_len = 1000000",
        ],
    };
    for statement in statements {
        connection.execute(*statement).await?;
    }
    if engine == Engine::Sqlite {
        let synchronous = match synchronous {
            SqliteSynchronous::Normal => "PRAGMA synchronous = NORMAL",
            SqliteSynchronous::Full => "PRAGMA synchronous = FULL",
        };
        connection.execute(synchronous).await?;
    }
    Ok(())
}

/// A SQLite URL with the mode it is opened in, other parameters kept.
fn with_mode(url: &str, mode: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("mode="));
    let mode = format!("mode={mode}");
    format!("{base}?{}", kept.chain([mode.as_str()]).collect::<Vec<_>>().join("&"))
}
