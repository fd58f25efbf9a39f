//! Brings the schema up to date, under a lock, so that several processes may start at once.
//!
//! SQLite and PostgreSQL run all pending migrations in one transaction. MySQL commits each DDL
//! statement separately: there a session lock excludes others, and after a crash the migration
//! simply runs again (`migrations/README.md`).

use memoir_text::hash::sha256_hex;
use sqlx::{AnyConnection, Executor as _, Row as _};

use super::backend::Backend;
use super::{Engine, StoreError, catalog, pgvector};

/// One migration, for three engines.
pub struct Migration {
    pub version: i64,
    pub name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    mysql: &'static str,
}

impl Migration {
    pub fn sql(&self, engine: Engine) -> &'static str {
        match engine {
            Engine::Sqlite => self.sqlite,
            Engine::Postgres => self.postgres,
            Engine::Mysql => self.mysql,
        }
    }
}

macro_rules! migrations {
    ($($version:literal $name:literal),* $(,)?) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
            mysql: include_str!(concat!("../../migrations/mysql/", $name, ".sql")),
        }),*]
    };
}

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = migrations![
    1 "0001_service",
    2 "0002_sources",
    3 "0003_categories",
    4 "0004_jobs",
    5 "0005_llm_calls",
    6 "0006_queries",
    7 "0007_search",
    8 "0008_api_keys",
    9 "0009_conversation",
    10 "0010_policies",
    11 "0011_workspaces",
    12 "0012_erasures",
    13 "0013_user_topics",
    14 "0014_care",
    15 "0015_subjects",
    16 "0016_thread_names",
    17 "0017_thread_receipts",
];

/// The schema version of this binary.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The migration since which SQLite overwrites what is deleted; an older file may still contain it.
const OVERWRITING: &str = "0012_erasures";

/// The table that records what has run.
const BOOKKEEPING: &str = "schema_migrations";

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// Names of the migrations that ran now.
    pub applied: Vec<&'static str>,
}

pub async fn run(backend: &Backend) -> Result<Migrated, StoreError> {
    let mut transaction = backend.begin().await?;
    lock(&mut transaction, backend).await?;
    let mut result = apply_pending(&mut transaction, backend).await;
    if result.is_ok()
        && let Err(error) = pgvector::make_table(&mut transaction, backend).await
    {
        result = Err(error);
    }
    if result.is_ok()
        && let Err(error) = check_whole(&mut transaction, backend).await
    {
        result = Err(error);
    }

    // MySQL's lock belongs to the session, which outlives the transaction in the pool.
    let unlocked = unlock(&mut transaction, backend).await;
    let (applied, is_upgrade) = result?;
    unlocked?;
    backend.commit(transaction, || ()).await?;
    if is_upgrade && applied.contains(&OVERWRITING) {
        backend.leave_out_deleted().await;
    }

    Ok(Migrated { applied })
}

/// The newest migration that has run; 0 if none.
pub async fn version(connection: &mut AnyConnection, backend: &Backend) -> Result<i64, StoreError> {
    if !catalog::has_table(connection, backend, BOOKKEEPING).await? {
        return Ok(0);
    }

    let row = backend
        .dialect
        .query("SELECT COALESCE(MAX(version), 0) AS newest FROM schema_migrations");
    let row = row
        .fetch_one(connection)
        .await
        .map_err(|error| backend.explain(&error))?;

    row.try_get("newest")
        .map_err(|error| backend.explain(&error))
}

/// Also returns whether an earlier build had created the database.
async fn apply_pending(
    connection: &mut AnyConnection,
    backend: &Backend,
) -> Result<(Vec<&'static str>, bool), StoreError> {
    let create = "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT NOT NULL PRIMARY KEY, \
                  name VARCHAR(100) NOT NULL, checksum VARCHAR(64) NOT NULL)";
    connection
        .execute(create)
        .await
        .map_err(|error| backend.explain(&error))?;

    let done = load_done(connection, backend).await?;
    if let Some((version, name, _)) = done.iter().find(|(version, ..)| *version > SCHEMA_VERSION) {
        return Err(StoreError::Schema(format!(
            "the schema of the database is version {version} ({name}), newer than this \
             memoir supports ({SCHEMA_VERSION}): start the memoir version that created it, \
             or a later one"
        )));
    }

    let mut applied = Vec::new();
    for migration in MIGRATIONS {
        let sql = migration.sql(backend.engine);
        let checksum = sha256_hex(sql.as_bytes());
        match done
            .iter()
            .find(|(version, ..)| *version == migration.version)
        {
            Some((_, _, stored)) if *stored == checksum => {}
            Some(_) => {
                return Err(StoreError::Schema(format!(
                    "migration {} was applied in a different form than this memoir contains: \
                     use a database created by a released version, or a new one",
                    migration.name
                )));
            }

            None => {
                for statement in statements(sql) {
                    let outcome = backend
                        .dialect
                        .assembled(statement)
                        .persistent(false)
                        .execute(&mut *connection)
                        .await;
                    match outcome {
                        Err(error) if is_repeat(backend, &error) => {}
                        outcome => {
                            let done = outcome.map(|_| ());
                            done.map_err(|error| failed(migration.name, backend.explain(&error)))?;
                        }
                    }
                }

                let record =
                    "INSERT INTO schema_migrations (version, name, checksum) VALUES (?, ?, ?)";
                let record = backend
                    .dialect
                    .query(record)
                    .bind(migration.version)
                    .bind(migration.name)
                    .bind(checksum);

                record
                    .execute(&mut *connection)
                    .await
                    .map_err(|error| backend.explain(&error))?;

                applied.push(migration.name);
            }
        }
    }

    Ok((applied, !done.is_empty()))
}

/// Reports what is missing from a schema that is up to date by its own record.
async fn check_whole(connection: &mut AnyConnection, backend: &Backend) -> Result<(), StoreError> {
    let missing = catalog::find_missing(connection, backend).await?;
    if missing.is_empty() {
        return Ok(());
    }

    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    Err(StoreError::Schema(format!(
        "the schema of the database at {} is incomplete; something may have been dropped: \
         {}. Restore the database from a backup, or create what is missing as in \
         migrations/{}",
        backend.place,
        names.join(", "),
        backend.engine.into_str()
    )))
}

async fn load_done(
    connection: &mut AnyConnection,
    backend: &Backend,
) -> Result<Vec<(i64, String, String)>, StoreError> {
    let rows = backend
        .dialect
        .query("SELECT version, name, checksum FROM schema_migrations ORDER BY version");
    let rows = rows
        .fetch_all(connection)
        .await
        .map_err(|error| backend.explain(&error))?;

    rows.iter()
        .map(|row| {
            Ok((
                row.try_get("version")?,
                row.try_get("name")?,
                row.try_get("checksum")?,
            ))
        })
        .collect::<Result<_, sqlx::Error>>()
        .map_err(|error| backend.explain(&error))
}

/// Whether the column that a statement adds is there: MySQL commits each statement, so an earlier
/// run added it and then ended.
fn is_repeat(backend: &Backend, error: &sqlx::Error) -> bool {
    const DUPLICATE_COLUMN: &str = "42S21";
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    backend.engine == Engine::Mysql && code.as_deref() == Some(DUPLICATE_COLUMN)
}

fn failed(migration: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Broken { cause } => {
            StoreError::Schema(format!("migration {migration} failed: {cause}"))
        }
        other => other,
    }
}

async fn lock(connection: &mut AnyConnection, backend: &Backend) -> Result<(), StoreError> {
    let statements: &[&'static str] = match backend.engine {
        // BEGIN IMMEDIATE locks the file already.
        Engine::Sqlite => &[],
        Engine::Postgres => &[
            "SET LOCAL statement_timeout = 0",
            "SELECT CAST(pg_advisory_xact_lock(7164771921) AS TEXT)",
        ],
        Engine::Mysql => return lock_mysql(connection, backend).await,
    };

    for statement in statements {
        connection
            .execute(*statement)
            .await
            .map_err(|error| backend.explain(&error))?;
    }

    Ok(())
}

async fn lock_mysql(connection: &mut AnyConnection, backend: &Backend) -> Result<(), StoreError> {
    let query =
        "SELECT COALESCE(GET_LOCK(LEFT(CONCAT('memoir.', DATABASE()), 64), 120), 0) AS locked";
    let row = backend
        .dialect
        .query(query)
        .fetch_one(connection)
        .await
        .map_err(|error| backend.explain(&error))?;

    if row.try_get::<i64, _>("locked")? == 1 {
        return Ok(());
    }

    Err(StoreError::Schema(
        "another process has been migrating the database for two minutes: check that process"
            .to_owned(),
    ))
}

async fn unlock(connection: &mut AnyConnection, backend: &Backend) -> Result<(), StoreError> {
    if backend.engine == Engine::Mysql {
        let release = "SELECT RELEASE_LOCK(LEFT(CONCAT('memoir.', DATABASE()), 64))";
        connection
            .execute(release)
            .await
            .map_err(|error| backend.explain(&error))?;
    }
    Ok(())
}

/// The statements of a file: each ends with `;` at the end of a line.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split_inclusive(";\n")
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
}
