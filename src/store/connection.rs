//! New connections: how they are opened, what they are set to, and how they are tried.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::{AnyConnection, Connection as _, Executor as _, Row as _};

use super::error::StoreError;
use crate::config::database::{DatabaseUrl, Engine, Retry, SqliteSynchronous};

/// How long a try may take; a half-open socket never answers.
const PING_DEADLINE: Duration = Duration::from_secs(1);

/// Makes a new SQLite file readable by its owner alone: it will hold what users wrote. SQLite's
/// other files follow it.
pub fn make_private(url: &DatabaseUrl) {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(file) = url.sqlite_file() {
        // An existing one is left as its owner wants it; one that cannot be made is SQLite's to
        // complain about.
        let _ = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file);
    }
}

/// Connects once, trying again for a moment if nobody answers. Past the pool: that tries until its
/// time is up whatever the trouble is, and then only says that no connection came; the driver knows
/// why.
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
            // Changes nothing for readers: the writer came first and has switched it on.
            "PRAGMA journal_mode = WAL",
            "PRAGMA foreign_keys = ON",
            "PRAGMA cache_size = -4000",
            "PRAGMA temp_store = memory",
            // 16 MB: a source is written to the log and copied to the file, with a wait for the
            // disk, once in four times as much as by default.
            "PRAGMA wal_autocheckpoint = 4000",
        ],
        Engine::Postgres => &[
            "SET idle_in_transaction_session_timeout = '15s'",
            "SET statement_timeout = '30s'",
            "SET default_transaction_isolation = 'read committed'",
            // Every statement goes by an index from few rows to few others. Of a space that it
            // knows little about the planner thinks worse, and reads through whole tables to join
            // them.
            "SET enable_seqscan = off",
            "SET enable_hashjoin = off",
            "SET enable_mergejoin = off",
            "SET max_parallel_workers_per_gather = 0",
            // What is read is in memory or on a disk without a head: an index in the order wanted
            // beats sorting.
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
        let statement = wait_for_disk(connection, synchronous).await?;
        connection.execute(statement).await?;
    }

    Ok(())
}

/// How far SQLite itself waits for the disk. Over a log `full` is the work of the `Flusher`.
async fn wait_for_disk(
    connection: &mut AnyConnection,
    synchronous: SqliteSynchronous,
) -> Result<&'static str, sqlx::Error> {
    if synchronous == SqliteSynchronous::Full && !keeps_log(connection).await? {
        return Ok("PRAGMA synchronous = FULL");
    }
    Ok("PRAGMA synchronous = NORMAL")
}

/// Whether the database has a write-ahead log: not every file system is able to keep one.
async fn keeps_log(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let mode: String = connection
        .fetch_one("PRAGMA journal_mode")
        .await?
        .try_get(0)?;
    Ok(mode == "wal")
}

/// The file of the database whose log this connection writes, as SQLite knows it: symbolic links
/// are resolved. None without a log.
pub async fn find_logged_file(
    connection: &mut AnyConnection,
) -> Result<Option<PathBuf>, sqlx::Error> {
    if !keeps_log(connection).await? {
        return Ok(None);
    }

    let file: String = connection
        .fetch_one("SELECT file FROM pragma_database_list WHERE name = 'main'")
        .await?
        .try_get(0)?;

    Ok((!file.is_empty()).then(|| file.into()))
}

/// A SQLite URL with the mode it is opened in, other parameters kept.
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
