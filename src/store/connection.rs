//! New connections: how they are opened, configured and tested.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::{AnyConnection, Connection as _, Executor as _, Row as _};

use super::error::StoreError;
use crate::config::database::{DatabaseUrl, Engine, Retry, SqliteSynchronous};

/// Deadline of a test; a half-open socket never answers.
const PING_DEADLINE: Duration = Duration::from_secs(1);

/// Makes a new SQLite file readable only by its owner, because it will contain user data. SQLite's
/// other files inherit this.
pub fn make_private(url: &DatabaseUrl) {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(file) = url.sqlite_file() {
        // An existing file keeps its permissions; if the file cannot be created, SQLite reports it.
        let _ = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file);
    }
}

/// Connects once, retrying briefly if nothing answers. It bypasses the pool, which retries until
/// its timeout whatever the error is, and then reports only a timeout; the driver knows the cause.
pub async fn knock(
    url: &str,
    place: &str,
    retry: Retry,
    (engine, synchronous): (Engine, SqliteSynchronous),
) -> Result<AnyConnection, StoreError> {
    let mut tried = 0;
    loop {
        let connected = async {
            let mut connection = AnyConnection::connect(url).await?;
            prepare(&mut connection, engine, synchronous).await?;
            Ok(connection)
        };

        let error = match connected.await {
            Ok(connection) => return Ok(connection),
            Err(error) => StoreError::on_connect(&error, place),
        };

        tried += 1;
        if !error.is_retryable() || u64::from(tried) >= retry.tries {
            return Err(error);
        }

        tokio::time::sleep(retry.pause(tried)).await;
    }
}

pub async fn answers(connection: &mut AnyConnection) -> bool {
    matches!(
        tokio::time::timeout(PING_DEADLINE, connection.ping()).await,
        Ok(Ok(()))
    )
}

/// The settings of each new connection.
pub async fn prepare(
    connection: &mut AnyConnection,
    engine: Engine,
    synchronous: SqliteSynchronous,
) -> Result<(), sqlx::Error> {
    let statements: &[&'static str] = match engine {
        Engine::Sqlite => &[
            "PRAGMA busy_timeout = 5000",
            // For a new database. On smaller pages, the rows of small texts leave much space unused.
            "PRAGMA page_size = 8192",
            // No effect on readers: the writer came first and has enabled it.
            "PRAGMA journal_mode = WAL",
            "PRAGMA foreign_keys = ON",
            // What is deleted is overwritten, also in the file.
            "PRAGMA secure_delete = ON",
            "PRAGMA cache_size = -4000",
            "PRAGMA temp_store = memory",
            // 16 MB: a checkpoint, with its wait for the disk, happens a quarter as often as by
            // default.
            "PRAGMA wal_autocheckpoint = 2000",
        ],
        Engine::Postgres => &[
            "SET idle_in_transaction_session_timeout = '15s'",
            "SET statement_timeout = '30s'",
            "SET default_transaction_isolation = 'read committed'",
            // Every statement uses an index from few rows to few others. With little statistics
            // on a space, the planner would scan whole tables to join them.
            "SET enable_seqscan = off",
            "SET enable_hashjoin = off",
            "SET enable_mergejoin = off",
            "SET max_parallel_workers_per_gather = 0",
            // Data is in memory or on an SSD, so an index in the wanted order beats sorting.
            "SET random_page_cost = 1.1",
            // Plan once: planning the longest statement again takes longer than running it.
            "SET plan_cache_mode = force_generic_plan",
            // Compresses long texts several times faster, where the server supports it.
            "DO $$ BEGIN PERFORM set_config('default_toast_compression', 'lz4', false); \
             EXCEPTION WHEN OTHERS THEN NULL; END $$",
        ],
        Engine::Mysql => &[
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            // By default, joined values are silently truncated at 1,024 bytes. A transaction that does
            // nothing, such as that of a frozen process, ends and releases its locks; only MariaDB
            // has this setting.
            "SET /*M!100300 SESSION idle_transaction_timeout = 15, */ SESSION group_concat_max_len = 1000000",
        ],
    };

    for statement in statements {
        connection.execute(*statement).await?;
    }

    if engine == Engine::Sqlite {
        let statement = wait_for_disk(connection, synchronous).await?;
        connection.execute(statement).await?;
    }

    Ok(())
}

/// How far SQLite itself waits for the disk. With a log, the `Flusher` implements `full`.
async fn wait_for_disk(
    connection: &mut AnyConnection,
    synchronous: SqliteSynchronous,
) -> Result<&'static str, sqlx::Error> {
    if synchronous == SqliteSynchronous::Full && !keeps_log(connection).await? {
        return Ok("PRAGMA synchronous = FULL");
    }
    Ok("PRAGMA synchronous = NORMAL")
}

/// Whether the database has a write-ahead log; not every file system supports one.
async fn keeps_log(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let mode: String = connection
        .fetch_one("PRAGMA journal_mode")
        .await?
        .try_get("journal_mode")?;
    Ok(mode == "wal")
}

/// The file of the database whose log this connection writes, as SQLite knows it, with symbolic
/// links resolved. `None` without a log.
pub async fn find_logged_file(
    connection: &mut AnyConnection,
) -> Result<Option<PathBuf>, sqlx::Error> {
    if !keeps_log(connection).await? {
        return Ok(None);
    }

    let file: String = connection
        .fetch_one("SELECT file FROM pragma_database_list WHERE name = 'main'")
        .await?
        .try_get("file")?;

    Ok((!file.is_empty()).then(|| file.into()))
}

/// A SQLite URL with the mode to open it in; other parameters are kept.
pub fn with_mode(url: &str, mode: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let kept = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("mode="));
    let mode = format!("mode={mode}");
    format!(
        "{base}?{}",
        kept.chain([mode.as_str()]).collect::<Vec<_>>().join("&")
    )
}
