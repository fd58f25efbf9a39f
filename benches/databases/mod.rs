//! The databases that a benchmark runs on: a new SQLite file, and a schema of its own on the
//! PostgreSQL that `scripts/bench` starts, if there is one.

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};

use super::environment::variable;

/// Runs a benchmark on each, one after the other.
pub async fn on_each(schema: &str, bench: impl AsyncFn(&str)) {
    let folder = tempfile::tempdir().unwrap();
    bench(&format!("sqlite://{}/bench.db", folder.path().display())).await;

    if let Some(server) = variable("TEST_PG_URL") {
        run_sql(&server, &format!("CREATE SCHEMA {schema}")).await;
        bench(&format!("{server}?options[search_path]={schema}")).await;
        run_sql(&server, &format!("DROP SCHEMA {schema} CASCADE")).await;
    }
}

async fn run_sql(url: &str, sql: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(url).await.unwrap();
    connection
        .execute(AssertSqlSafe(sql.to_owned()))
        .await
        .unwrap();
}
