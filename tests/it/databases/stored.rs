//! The files of a stored database: a compressed SQLite file, or SQL statements that any driver can
//! execute one by one.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use memoir::config::database::Engine;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::support::database::TestDatabase;
use crate::support::dump::{self, Kind, Table};

/// Rows of one statement, so that loading does not take a round trip per row.
const ROWS: usize = 50;

/// The folder of all stored databases.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/databases")
}

/// What the build that wrote a database answered about it.
pub fn answers(folder: &Path, engine: Engine) -> PathBuf {
    folder.join(format!("{}.json", engine.into_str()))
}

fn sqlite_file(database: &TestDatabase) -> &str {
    database.url.strip_prefix("sqlite://").unwrap()
}

/// Writes a database that no process has open.
pub async fn save(database: &TestDatabase, folder: &Path) {
    if database.engine == Engine::Sqlite {
        let file = std::fs::File::create(folder.join("sqlite.db.gz")).unwrap();
        let mut file = GzEncoder::new(file, Compression::best());
        let bytes = std::fs::read(sqlite_file(database)).unwrap();
        file.write_all(&bytes).unwrap();
        file.finish().unwrap();
        return;
    }

    let mut sql = schema(database.engine);
    let mut tables = dump::tables(database).await;
    // In the order of their creation, so that references find their rows.
    tables.sort_by_key(|table| sql.find(&format!(" {} (", table.name)));
    for table in &tables {
        write_rows(&mut sql, database.engine, table);
    }

    let name = format!("{}.sql", database.engine.into_str());
    std::fs::write(folder.join(name), sql).unwrap();
}

/// Loads a stored database into a new one.
pub async fn load(database: &TestDatabase, folder: &Path) {
    if database.engine == Engine::Sqlite {
        let packed = std::fs::File::open(folder.join("sqlite.db.gz")).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        std::fs::write(sqlite_file(database), bytes).unwrap();
        return;
    }

    let name = format!("{}.sql", database.engine.into_str());
    let sql = std::fs::read_to_string(folder.join(name)).unwrap();
    let mut connection = database.connect().await;
    // Statements end as those of migrations do; values contain no line breaks.
    for statement in sql.split_inclusive(";\n") {
        connection
            .execute(AssertSqlSafe(statement.to_owned()))
            .await
            .unwrap();
    }

    connection.close().await.unwrap();
}

/// What the migrations of this build create.
fn schema(engine: Engine) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("migrations")
        .join(engine.into_str());
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort_unstable();

    let mut sql = String::new();
    for file in files {
        sql.push_str(&std::fs::read_to_string(file).unwrap());
    }

    sql.push_str(
        "CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, \
         name VARCHAR(100) NOT NULL, checksum VARCHAR(64) NOT NULL);\n",
    );
    sql
}

fn write_rows(sql: &mut String, engine: Engine, table: &Table) {
    let quote = dump::quote(engine);
    let name = |name: &str| format!("{quote}{name}{quote}");
    let columns: Vec<String> = table.columns.iter().map(|one| name(&one.name)).collect();
    for rows in table.rows.chunks(ROWS) {
        let rows = rows.iter().map(|row| {
            let values = row.iter().zip(&table.columns).map(|(value, column)| {
                let value = value.as_deref();
                value.map_or("NULL".to_owned(), |value| {
                    literal(engine, column.kind, value)
                })
            });
            format!("({})", values.collect::<Vec<_>>().join(", "))
        });

        let rows = rows.collect::<Vec<_>>().join(",\n");
        let columns = columns.join(", ");
        writeln!(
            sql,
            "INSERT INTO {} ({columns}) VALUES\n{rows};",
            name(&table.name)
        )
        .unwrap();
    }

    // A new row gets the next number; MariaDB sees to it by itself.
    let numbered = table
        .columns
        .iter()
        .find(|one| ["id", "seq"].contains(&one.name.as_str()) && one.kind == Kind::Number);
    if let (Engine::Postgres, Some(numbered), false) = (engine, numbered, table.rows.is_empty())
        && sql.contains(&format!("{} BIGINT GENERATED", numbered.name))
    {
        let (table, column) = (&table.name, &numbered.name);
        writeln!(
            sql,
            "SELECT CAST(setval(s, (SELECT MAX({column}) FROM {table})) AS TEXT) \
             FROM pg_get_serial_sequence('{table}', '{column}') AS s WHERE s IS NOT NULL;"
        )
        .unwrap();
    }
}

/// A value as both engines read it, without line breaks.
fn literal(engine: Engine, kind: Kind, value: &str) -> String {
    match (kind, engine) {
        (Kind::Number, _) => value.to_owned(),
        (Kind::Bytes, Engine::Postgres) => format!("'\\x{value}'"),
        (Kind::Bytes, _) => format!("X'{value}'"),
        (Kind::Text, _) => {
            let escaped = value
                .replace('\\', "\\\\")
                .replace('\'', "''")
                .replace('\n', "\\n")
                .replace('\r', "\\r");
            let prefix = if engine == Engine::Postgres { "E" } else { "" };
            format!("{prefix}'{escaped}'")
        }
    }
}
