//! Every row of every table, read through the driver: to write a database to a file, and to search
//! it for what must not be in it.

use memoir::config::database::Engine;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::database::TestDatabase;

/// What a column holds, and so how its values are written in SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Bytes,
}

#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// The values of each row as text, bytes in hexadecimal.
    pub rows: Vec<Vec<Option<String>>>,
}

/// All tables by name, with rows in the order of their first columns.
pub async fn tables(database: &TestDatabase) -> Vec<Table> {
    let mut connection = database.connect().await;
    let mut tables = columns(&mut connection, database.engine).await;
    for table in &mut tables {
        table.rows = rows(&mut connection, database.engine, table).await;
    }

    tables
}

async fn columns(connection: &mut AnyConnection, engine: Engine) -> Vec<Table> {
    let sql = match engine {
        Engine::Sqlite => {
            "SELECT m.name, p.name, p.type FROM sqlite_master m JOIN pragma_table_info(m.name) p \
             WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY m.name, p.cid"
        }
        Engine::Postgres => {
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT) \
             FROM information_schema.columns WHERE table_schema = current_schema() \
             ORDER BY table_name, ordinal_position"
        }
        Engine::Mysql => {
            "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR), CAST(data_type AS CHAR) \
             FROM information_schema.columns WHERE table_schema = DATABASE() \
             ORDER BY table_name, ordinal_position"
        }
    };

    let mut tables: Vec<Table> = Vec::new();
    for row in sqlx::query(sql).fetch_all(connection).await.unwrap() {
        let name: String = row.get(0);
        if tables.last().is_none_or(|last| last.name != name) {
            tables.push(Table {
                name,
                columns: Vec::new(),
                rows: Vec::new(),
            });
        }

        let column = Column {
            name: row.get(1),
            kind: kind(&row.get::<String, _>(2).to_lowercase()),
        };
        tables.last_mut().unwrap().columns.push(column);
    }

    tables
}

fn kind(declared: &str) -> Kind {
    let is = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    if is(&["blob", "bytea"]) || declared.is_empty() {
        Kind::Bytes
    } else if is(&["int", "double", "real", "numeric"]) {
        Kind::Number
    } else {
        Kind::Text
    }
}

async fn rows(
    connection: &mut AnyConnection,
    engine: Engine,
    table: &Table,
) -> Vec<Vec<Option<String>>> {
    let as_text = if engine == Engine::Mysql {
        "CHAR"
    } else {
        "TEXT"
    };
    let quote = quote(engine);
    let values = table.columns.iter().map(|column| {
        let name = format!("{quote}{}{quote}", column.name);
        match (column.kind, engine) {
            (Kind::Bytes, Engine::Postgres) => format!("encode({name}, 'hex')"),
            (Kind::Bytes, _) => format!("hex({name})"),
            _ => format!("CAST({name} AS {as_text})"),
        }
    });

    let values = values.collect::<Vec<_>>().join(", ");
    let order = (1..=table.columns.len().min(3)).map(|place| {
        let name = &table.columns[place - 1].name;
        format!("{quote}{name}{quote}")
    });
    let order = order.collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {values} FROM {quote}{}{quote} ORDER BY {order}",
        table.name
    );

    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await;
    let read = |row: &sqlx::any::AnyRow| (0..table.columns.len()).map(|at| row.get(at)).collect();
    rows.unwrap().iter().map(read).collect()
}

/// The quotation mark of names.
pub fn quote(engine: Engine) -> char {
    if engine == Engine::Mysql { '`' } else { '"' }
}
