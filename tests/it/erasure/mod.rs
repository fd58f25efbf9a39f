//! Deleting a source, a thread, a memory, a user or a space leaves nothing of its text, and a receipt.

mod categories;
mod concurrency;
mod conversations;
mod planted;
mod planting;
mod receipts;
mod sources;
mod unstored;
mod users;

use memoir::config::database::Engine;
use memoir::model::erasure::SubjectKind;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row as _};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::probes::Api;

/// A word that nothing but a test contains.
pub const MARK: &str = "quorvexilat";

/// Every column of every table that contains a text.
pub async fn holders(database: &TestDatabase, text: &str) -> Vec<String> {
    let mut connection = database.connect().await;
    let columns = match database.engine {
        Engine::Sqlite => {
            "SELECT m.name AS tab, p.name AS col FROM sqlite_master m JOIN pragma_table_info(m.name) p \
             WHERE m.type = 'table' AND m.name NOT LIKE 'search_entries_tokens%'"
        }
        Engine::Postgres => {
            "SELECT CAST(table_name AS TEXT) AS tab, CAST(column_name AS TEXT) AS col FROM information_schema.columns \
             WHERE table_schema = current_schema() AND data_type IN ('text', 'character varying')"
        }
        Engine::Mysql => {
            "SELECT CAST(table_name AS CHAR) AS tab, CAST(column_name AS CHAR) AS col FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND data_type IN ('varchar', 'longtext', 'text')"
        }
    };

    let rows = sqlx::query(AssertSqlSafe(columns))
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let mut found = Vec::new();
    for row in rows {
        let (table, column): (String, String) = (row.get("tab"), row.get("col"));
        let sql =
            format!("SELECT COUNT(*) AS number FROM {table} WHERE LOWER({column}) LIKE '%{text}%'");
        let number: i64 = sqlx::query(AssertSqlSafe(sql))
            .fetch_one(&mut connection)
            .await
            .unwrap()
            .get("number");
        if number > 0 {
            found.push(format!("{table}.{column}"));
        }
    }

    found
}

/// Where the bytes of SQLite's file or of its log contain a text, in any case.
pub fn places_in_file(database: &TestDatabase, text: &str) -> Vec<String> {
    if database.engine != Engine::Sqlite {
        return Vec::new();
    }

    let file = database.url.strip_prefix("sqlite://").unwrap();
    let mut found = Vec::new();
    for file in [file.to_owned(), format!("{file}-wal")] {
        let Ok(bytes) = std::fs::read(&file) else {
            continue;
        };
        let bytes = bytes.to_ascii_lowercase();
        let mut places = bytes.windows(text.len()).enumerate();
        if let Some((place, _)) = places.find(|(_, part)| *part == text.as_bytes()) {
            found.push(format!("{file} at byte {place}"));
        }
    }

    found
}

/// Nothing of a text is in any table, nor in SQLite's file.
pub async fn assert_gone(app: &TestApp, text: &str) {
    let engine = app.database.engine;
    assert_eq!(
        holders(&app.database, text).await,
        Vec::<String>::new(),
        "{engine:?}"
    );
    assert_eq!(
        places_in_file(&app.database, text),
        Vec::<String>::new(),
        "{engine:?}"
    );
}

/// As in a database that was created by this build: everything notes whose text it holds. The clock of
/// tests is slow.
pub async fn all_noted(app: &TestApp) {
    let sql = "UPDATE counters SET value = 0 WHERE name = 'text_uses_since'";
    app.database.execute(sql).await;
}

/// Deletes something and returns the receipt.
pub async fn delete(app: &TestApp, path: &str) -> Value {
    let reply = send(app.request(Method::DELETE, path)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let receipt = reply.json();
    assert!(receipt["finished_at"].is_string(), "{receipt}");
    if app.database.engine == Engine::Sqlite {
        assert_eq!(receipt["log_truncated"], true, "{receipt}");
    }

    receipt
}

/// Sends a request under an idempotency key.
pub async fn keyed(app: &TestApp, key: &str, path: &str, body: &Value) -> Reply {
    let request = app
        .request(Method::POST, path)
        .header("Idempotency-Key", key);
    send(request.json(body)).await
}

/// Ingests a text and returns its source.
pub async fn ingest(app: &TestApp, body: &Value) -> String {
    let queued = app.post("/v1/ingestions", body).await;
    assert_eq!(queued.status, 202, "{}", queued.text);
    let id = queued.json()["id"].as_str().unwrap().to_owned();
    let job = Api::at(app.address).finished("default", &id).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
    job["source_id"].as_str().unwrap().to_owned()
}

/// The hash by which a receipt names something.
pub fn hash(kind: SubjectKind, id: &str) -> String {
    kind.hash(&memoir::base::ids::Space::default(), id)
}

/// A short text with the mark in everything that is said about it.
pub fn marked_text(user_id: &str) -> Value {
    json!({
        "text": format!("The lighthouse of {MARK} stands on a rock. Its keeper lights the lamp of {MARK} at dusk."),
        "title": format!("The {MARK} lighthouse"), "path": format!("/coast/{MARK}.md"), "user_id": user_id,
        "tags": [MARK], "author": format!("Ann {MARK}"), "note": format!("about {MARK}"), "topic": MARK,
    })
}
