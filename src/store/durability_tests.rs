//! What is on disk when a commit returns, and what happens to a connection that met a full
//! database.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _, Row as _};
use tempfile::TempDir;

use super::wal_file::seam;
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::config::{Config, Origin};

/// A store with its own file.
struct Disk {
    folder: TempDir,
    store: Store,
}

impl Disk {
    async fn new(synchronous: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/memoir.db", folder.path().display());
        let environment = HashMap::from([
            ("DATABASE_URL".to_owned(), url),
            (
                "MEMOIR__DATABASE__SQLITE_SYNCHRONOUS".to_owned(),
                synchronous.to_owned(),
            ),
        ]);

        let config = Config::load(&Origin {
            file: None,
            environment,
        })
        .unwrap();

        let store = Store::connect(&config.database).await.unwrap();
        store.migrate().await.unwrap();
        Self { folder, store }
    }

    fn database(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("memoir.db")
    }

    fn log(&self) -> PathBuf {
        self.folder
            .path()
            .canonicalize()
            .unwrap()
            .join("memoir.db-wal")
    }

    /// Whether a key survives a power cut now: only the flushed part of the log is left. Nothing is
    /// copied from the log to the database file here, so the log only grows.
    async fn survives(&self, key: &str) -> bool {
        let after = tempfile::tempdir().unwrap();
        let (database, log) = (
            after.path().join("memoir.db"),
            after.path().join("memoir.db-wal"),
        );

        let flushed = usize::try_from(seam::with(&self.log(), |flushes| flushes.length)).unwrap();
        std::fs::copy(self.database(), &database).unwrap();
        std::fs::write(&log, &std::fs::read(self.log()).unwrap()[..flushed]).unwrap();
        count_keys(&database, key).await == Some(1)
    }
}

/// `None` if not even the table exists.
async fn count_keys(database: &Path, key: &str) -> Option<i64> {
    let mut connection = AnyConnection::connect(&format!("sqlite://{}", database.display()))
        .await
        .unwrap();
    let stored = super::idempotency::stored_key(key);
    let sql = format!(
        "SELECT COUNT(*) AS keys FROM idempotency_keys WHERE idempotency_key IN ('{key}', '{stored}')"
    );
    let counted = connection
        .fetch_one(AssertSqlSafe(sql))
        .await
        .ok()
        .map(|row| row.get("keys"));

    connection.close().await.unwrap();
    counted
}

async fn write(store: &Store, key: &str) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    let (now, expired) = (Timestamp::from_micros(1), Timestamp::from_micros(0));
    tx.claim_idempotency_key(&Space::default(), key, ("r", "h"), now, expired)
        .await?;
    tx.commit().await
}

#[tokio::test]
async fn commits_survive_a_power_cut() {
    let disk = Disk::new("full").await;
    for n in 0..20 {
        write(&disk.store, &format!("alone{n}")).await.unwrap();
        assert!(disk.survives(&format!("alone{n}")).await, "{n}");
    }

    let statement = "INSERT INTO idempotency_keys (space, idempotency_key, route, body_hash, created_at) \
                     VALUES ('s', 'single', 'r', 'h', 1)";
    disk.store.execute(disk.store.sql(statement)).await.unwrap();

    assert!(disk.survives("single").await);

    let together = (0..40).map(|n| {
        let disk = &disk;
        async move {
            write(&disk.store, &format!("together{n}")).await.unwrap();
            assert!(disk.survives(&format!("together{n}")).await, "{n}");
        }
    });

    futures_util::future::join_all(together).await;
}

/// This power cut must lose something if no commit waits for the disk; otherwise the test proves
/// nothing.
#[tokio::test]
async fn with_normal_a_power_cut_loses_commits() {
    let disk = Disk::new("normal").await;
    write(&disk.store, "lost").await.unwrap();
    assert!(!disk.survives("lost").await);
    assert_eq!(
        count_keys(&disk.database(), "lost").await,
        Some(1),
        "without a cut it is there"
    );
}

#[tokio::test]
async fn concurrent_commits_share_a_flush() {
    let disk = Disk::new("full").await;
    seam::with(&disk.log(), |flushes| {
        (flushes.count, flushes.delay) = (0, Duration::from_millis(200));
    });

    let commits = (0..50).map(|n| {
        let store = disk.store.clone();
        async move { write(&store, &format!("k{n}")).await }
    });

    for done in futures_util::future::join_all(commits).await {
        done.unwrap();
    }

    let flushes = seam::with(&disk.log(), |flushes| flushes.count);
    assert!(
        (1..=10).contains(&flushes),
        "{flushes} flushes for 50 commits"
    );
}

/// SQLite copies its log into the database file and flushes that, which is equally durable.
#[tokio::test]
async fn a_failed_flush_is_replaced_by_a_checkpoint() {
    let disk = Disk::new("full").await;
    seam::with(&disk.log(), |flushes| flushes.fails = true);
    for key in ["a", "b"] {
        write(&disk.store, key).await.unwrap();
        let after = tempfile::tempdir().unwrap();
        let copy = after.path().join("memoir.db");
        std::fs::copy(disk.database(), &copy).unwrap();

        assert_eq!(count_keys(&copy, key).await, Some(1), "without the log");
    }

    seam::with(&disk.log(), |flushes| flushes.fails = false);
    write(&disk.store, "c").await.unwrap();
    assert!(disk.survives("c").await);
}

#[tokio::test]
async fn a_failed_flush_and_checkpoint_make_the_outcome_unknown_until_one_succeeds() {
    let disk = Disk::new("full").await;
    write(&disk.store, "before").await.unwrap();
    disk.store
        .execute(disk.store.sql("PRAGMA busy_timeout = 100"))
        .await
        .unwrap();

    // A reader of an old snapshot keeps SQLite from emptying the log.
    let mut reader = AnyConnection::connect(&format!("sqlite://{}", disk.database().display()))
        .await
        .unwrap();
    reader.execute("BEGIN").await.unwrap();
    reader
        .fetch_all("SELECT * FROM idempotency_keys")
        .await
        .unwrap();

    seam::with(&disk.log(), |flushes| flushes.fails = true);
    let error = write(&disk.store, "a").await.unwrap_err();
    assert!(matches!(error, StoreError::Uncertain { .. }), "{error}");
    let error = disk
        .store
        .check_writable(Duration::from_mins(1))
        .await
        .unwrap_err();

    assert!(
        matches!(error, StoreError::Unavailable { .. }),
        "readiness has to notice: {error}"
    );

    // The disk now reports success, though data was lost: that alone must not end the failure.
    seam::with(&disk.log(), |flushes| flushes.fails = false);
    let error = write(&disk.store, "b").await.unwrap_err();
    assert!(matches!(error, StoreError::Uncertain { .. }), "{error}");

    reader.close().await.unwrap();
    write(&disk.store, "c").await.unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(count_keys(&disk.database(), key).await, Some(1));
    }
}

/// SQLite rolls back by itself when it is full; the connection must not be used as if it were still
/// in a transaction.
#[tokio::test]
async fn a_full_database_rejects_writes_and_recovers() {
    let disk = Disk::new("full").await;
    for round in 0..3 {
        // One connection, because the wrong count belongs to a connection.
        let limit = disk.store.sql("PRAGMA max_page_count = 1");
        disk.store.execute(limit).await.unwrap();
        let mut refused = None;

        for n in 0..5_000 {
            if let Err(error) =
                write(&disk.store, &format!("{round}-{n}-{}", "x".repeat(200))).await
            {
                refused = Some(error);
                break;
            }
        }

        assert!(
            matches!(refused, Some(StoreError::Full { .. })),
            "{refused:?}"
        );

        write(&disk.store, &format!("{round}")).await.unwrap();
        disk.store
            .check_writable(Duration::from_secs(30))
            .await
            .unwrap();
    }
}

/// An in-memory database would be lost with its connection, so that connection stays.
#[tokio::test]
async fn a_full_database_in_memory_keeps_its_data() {
    let environment = HashMap::from([("DATABASE_URL".to_owned(), "sqlite::memory:".to_owned())]);
    let config = Config::load(&Origin {
        file: None,
        environment,
    })
    .unwrap();

    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    write(&store, "kept").await.unwrap();

    store
        .execute(store.sql("PRAGMA max_page_count = 1"))
        .await
        .unwrap();

    let error = async {
        for n in 0..5_000 {
            write(&store, &format!("{n}-{}", "x".repeat(200))).await?;
        }
        Ok::<(), StoreError>(())
    };

    let error = error.await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");

    store
        .execute(store.sql("PRAGMA max_page_count = 100000"))
        .await
        .unwrap();

    write(&store, "after").await.unwrap();
    let since = Timestamp::from_micros(0);
    assert!(
        store
            .find_idempotency_key(&Space::default(), "kept", since)
            .await
            .unwrap()
            .is_some()
    );
}
