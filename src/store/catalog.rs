//! Compares the schema with the database, for `memoir doctor`.

use std::collections::HashSet;
use std::fmt;

use sqlx::{AnyConnection, Row as _};

use super::backend::Backend;
use super::migrate::MIGRATIONS;
use super::{Engine, StoreError};

/// A missing table or index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Missing {
    /// `table` or `index`.
    pub kind: &'static str,
    pub name: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

pub async fn find_missing(
    connection: &mut AnyConnection,
    backend: &Backend,
) -> Result<Vec<Missing>, StoreError> {
    let present = present(connection, backend).await?;
    Ok(expected()
        .filter(|wanted| !present.contains(wanted))
        .collect())
}

pub async fn has_table(
    connection: &mut AnyConnection,
    backend: &Backend,
    name: &str,
) -> Result<bool, StoreError> {
    Ok(present(connection, backend).await?.contains(&Missing {
        kind: "table",
        name: name.to_owned(),
    }))
}

/// Everything that the migrations create, from SQLite's files: the names are the same on every
/// engine.
fn expected() -> impl Iterator<Item = Missing> {
    MIGRATIONS
        .iter()
        .flat_map(|migration| migration.sql(Engine::Sqlite).lines())
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (kind, name) = match words.as_slice() {
                ["CREATE", "TABLE", name, ..] => ("table", name),
                // A full-text index is a virtual table in SQLite and an index elsewhere.
                ["CREATE", "INDEX", name, ..]
                | ["CREATE", "UNIQUE", "INDEX", name, ..]
                | ["CREATE", "VIRTUAL", "TABLE", name, ..] => ("index", name),
                _ => return None,
            };

            Some(Missing {
                kind,
                name: (*name).to_owned(),
            })
        })
}

async fn present(
    connection: &mut AnyConnection,
    backend: &Backend,
) -> Result<HashSet<Missing>, StoreError> {
    let sql = match backend.engine {
        Engine::Sqlite => {
            "SELECT CASE WHEN sql LIKE 'CREATE VIRTUAL TABLE%' THEN 'index' ELSE type END AS kind, name FROM sqlite_master \
             WHERE type IN ('table', 'index')"
        }
        Engine::Postgres => {
            "SELECT 'table' AS kind, CAST(tablename AS TEXT) AS name FROM pg_tables WHERE schemaname = current_schema() \
             UNION ALL SELECT 'index', CAST(indexname AS TEXT) FROM pg_indexes WHERE schemaname = current_schema()"
        }
        Engine::Mysql => {
            "SELECT 'table' AS kind, CAST(table_name AS CHAR) AS name FROM information_schema.tables \
             WHERE table_schema = DATABASE() \
             UNION SELECT 'index', CAST(index_name AS CHAR) FROM information_schema.statistics \
             WHERE table_schema = DATABASE()"
        }
    };

    let rows = backend
        .dialect
        .query(sql)
        .fetch_all(connection)
        .await
        .map_err(|error| backend.explain(&error))?;

    let found = rows.iter().map(|row| {
        let kind: String = row.try_get("kind")?;
        let kind = if kind == "table" { "table" } else { "index" };
        Ok(Missing {
            kind,
            name: row.try_get("name")?,
        })
    });

    found
        .collect::<Result<_, sqlx::Error>>()
        .map_err(|error| backend.explain(&error))
}
