//! A separate database for each test, on each available engine.
//!
//! SQLite is always available. `scripts/test` starts the others and sets `TEST_PG_URL` and
//! `TEST_MYSQL_URL`; `MEMOIR_TEST_ENGINES` is the number of engines that must be available, so that
//! none is skipped silently.

use std::sync::atomic::{AtomicU32, Ordering};

use memoir::config::database::Engine;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _, Row as _};
use tempfile::TempDir;

pub struct TestDatabase {
    pub engine: Engine,
    pub url: String,
    /// The SQLite file is deleted with it.
    _folder: Option<TempDir>,
}

impl TestDatabase {
    /// A new SQLite file.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/memoir.db", folder.path().display());
        Self {
            engine: Engine::Sqlite,
            url,
            _folder: Some(folder),
        }
    }

    /// A new, empty database on every available engine.
    pub async fn each() -> Vec<Self> {
        let mut all = vec![Self::sqlite()];
        all.extend(Self::postgres().await);
        all.extend(Self::mysql().await);
        if let Some(wanted) = variable("MEMOIR_TEST_ENGINES") {
            assert_eq!(all.len().to_string(), wanted, "an engine is missing");
        }

        all
    }

    /// A new schema on the PostgreSQL server, if there is one.
    pub async fn postgres() -> Option<Self> {
        let server = variable("TEST_PG_URL")?;
        let name = fresh_name();
        execute(&server, &format!("CREATE SCHEMA {name}")).await;
        let url = format!("{server}?options[search_path]={name}");

        Some(Self {
            engine: Engine::Postgres,
            url,
            _folder: None,
        })
    }

    /// A new database on the PostgreSQL server with pgvector, which `scripts/test` starts on
    /// x86-64; the extension is not created yet.
    pub async fn pgvector() -> Option<Self> {
        let Some(server) = variable("TEST_PGVECTOR_URL") else {
            let wanted = variable("MEMOIR_TEST_ENGINES").is_some() && cfg!(target_arch = "x86_64");
            assert!(!wanted, "the server with pgvector is missing");
            return None;
        };

        let name = fresh_name();
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (base, _) = server.rsplit_once('/').unwrap();
        Some(Self {
            engine: Engine::Postgres,
            url: format!("{base}/{name}"),
            _folder: None,
        })
    }

    /// A new database on the MariaDB server, if there is one.
    pub async fn mysql() -> Option<Self> {
        let server = variable("TEST_MYSQL_URL")?;
        let name = fresh_name();
        execute(
            &server,
            &format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"),
        )
        .await;

        let (base, _) = server.rsplit_once('/').unwrap();
        Some(Self {
            engine: Engine::Mysql,
            url: format!("{base}/{name}"),
            _folder: None,
        })
    }

    /// A direct connection, to inspect or damage the stored data.
    pub async fn connect(&self) -> AnyConnection {
        connect(&self.url).await
    }

    /// Runs a statement directly.
    pub async fn execute(&self, sql: &str) {
        execute(&self.url, sql).await;
    }

    /// The query plan of the database, with the settings of the service's connections where they
    /// matter.
    pub async fn plan(&self, sql: &str) -> String {
        let mut connection = self.connect().await;
        let (explain, column) = match self.engine {
            Engine::Sqlite => ("EXPLAIN QUERY PLAN", 3),
            Engine::Postgres => ("EXPLAIN", 0),
            Engine::Mysql => ("EXPLAIN FORMAT=JSON", 0),
        };
        if self.engine == Engine::Postgres {
            // Alone: in one transaction with others it holds the tables of other tests, which drop them.
            connection.execute("ANALYZE").await.unwrap();
            let as_the_service = "SET enable_seqscan = off; SET enable_hashjoin = off; \
                                  SET enable_mergejoin = off; SET enable_bitmapscan = off";
            connection.execute(as_the_service).await.unwrap();
        }

        let rows = sqlx::query(AssertSqlSafe(format!("{explain} {sql}")))
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let lines = rows.iter().map(|row| row.get::<String, _>(column));
        let plan = lines.collect::<Vec<_>>().join("\n");
        connection.close().await.unwrap();
        plan
    }

    /// The server's address, to put a proxy in front of it.
    pub fn authority(&self) -> String {
        let after_scheme = self.url.split_once("://").unwrap().1;
        let authority = after_scheme.split('/').next().unwrap();
        authority.rsplit('@').next().unwrap().to_owned()
    }
}

pub fn variable(name: &str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "tests take their databases from the environment"
    )]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

async fn connect(url: &str) -> AnyConnection {
    sqlx::any::install_default_drivers();
    AnyConnection::connect(url).await.unwrap()
}

async fn execute(url: &str, sql: &str) {
    let mut connection = connect(url).await;
    connection
        .execute(AssertSqlSafe(sql.to_owned()))
        .await
        .unwrap();

    connection.close().await.unwrap();
}

/// Also new if another test had a process with the same number before.
fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::SeqCst);
    let begun = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    format!("t{}_{begun}_{count}", std::process::id())
}
