//! Whole spaces: listed, counted, deleted; no other space is affected.

use std::collections::{BTreeMap, BTreeSet};

use memoir::config::database::Engine;
use memoir::store::SPACE_TABLES;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Column as _, Row as _};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

const KEYS: &str = r#"[
    {"name": "root", "key": "root-key", "space": "*", "role": "admin"},
    {"name": "of one", "key": "admin-of-one", "space": "one", "role": "admin"}
]"#;

async fn call(
    app: &TestApp,
    key: &str,
    space: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Reply {
    let mut request = app.request(method, path).bearer_auth(key);
    if !space.is_empty() {
        request = request.header("x-memoir-space", space);
    }

    send(match body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

/// Fills every table that the API can fill.
async fn fill(app: &TestApp, space: &str) {
    for name in ["a.md", "b.md"] {
        let text = json!({"text": format!("# {space}\n\nLighthouses of {space} warn ships of rocks, says {name}."),
            "path": format!("/{name}"), "tags": ["sea"], "wait": true});
        let done = call(
            app,
            "root-key",
            space,
            Method::POST,
            "/v1/ingestions",
            Some(&text),
        )
        .await;

        assert_eq!(done.json()["state"], "succeeded", "{}", done.text);
    }

    let ask = json!({"query": "What do lighthouses do?"});
    let answer = call(
        app,
        "root-key",
        space,
        Method::POST,
        "/v1/queries",
        Some(&ask),
    )
    .await;

    assert_eq!(answer.status, 200, "{}", answer.text);
    // Receipts and calls are written with a delay; reading a receipt waits for both.
    let receipt = format!("/v1/queries/{}", answer.json()["id"].as_str().unwrap());
    let receipt = call(app, "root-key", space, Method::GET, &receipt, None).await;
    assert_eq!(receipt.status, 200);

    // Categories left over from a deleted space with the same name would be listed twice.
    for level in receipt.json()["levels"].as_array().unwrap() {
        let labels: Vec<_> = level["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option["label"].clone())
            .collect();

        let different: BTreeSet<String> = labels.iter().map(Value::to_string).collect();
        assert_eq!(different.len(), labels.len(), "{labels:?}");
    }

    let request = app
        .request(Method::POST, "/v1/sources")
        .bearer_auth("root-key")
        .header("x-memoir-space", space);

    let kept = send(
        request
            .header("idempotency-key", "k")
            .json(&json!({"path": "/kept.md"})),
    )
    .await;

    assert_eq!(kept.status, 201);
    let key = json!({"name": "of it", "space": space});
    assert_eq!(
        call(
            app,
            "root-key",
            "",
            Method::POST,
            "/v1/admin/keys",
            Some(&key)
        )
        .await
        .status,
        201
    );
}

#[tokio::test]
async fn spaces_are_listed_and_counted() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[("AUTH__KEYS", KEYS)]).await;
        for space in ["two", "one", "a-b", "a_b", "0"] {
            let made = json!({"path": "/x.md"});
            call(
                &app,
                "root-key",
                space,
                Method::POST,
                "/v1/sources",
                Some(&made),
            )
            .await;
        }

        fill(&app, "one").await;
        let mut names = Vec::new();
        let mut path = "/v1/admin/spaces?limit=2".to_owned();

        loop {
            let page = call(&app, "root-key", "", Method::GET, &path, None)
                .await
                .json();
            names.extend(
                page["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item["space"].as_str().unwrap().to_owned()),
            );

            let Some(cursor) = page["next_cursor"].as_str() else {
                break;
            };
            path = format!("/v1/admin/spaces?limit=2&cursor={cursor}");
        }

        let found: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            found,
            BTreeSet::from(["two", "one", "a-b", "a_b", "0"]),
            "{engine:?}"
        );

        assert_eq!(names.len(), 5, "{engine:?}: none twice");

        let size = call(
            &app,
            "root-key",
            "",
            Method::GET,
            "/v1/admin/spaces/one",
            None,
        )
        .await
        .json();

        assert_eq!(
            (&size["sources"], &size["versions"]),
            (&json!(4), &json!(2)),
            "{engine:?} {size}"
        );

        assert_eq!(
            (&size["queries"], &size["api_keys"]),
            (&json!(1), &json!(1)),
            "{engine:?} {size}"
        );

        assert_eq!(size["jobs"], json!({"succeeded": 2}), "{engine:?}");
        let bytes = "# one\n\nLighthouses of one warn ships of rocks, says a.md.".len() * 2;
        assert_eq!(size["text_bytes"], bytes, "{engine:?}");
        assert!(
            size["chunks"].as_i64().unwrap() >= 2 && size["categories"].as_i64().unwrap() >= 3,
            "{size}"
        );

        assert!(size["usage"]["calls"].as_i64().unwrap() > 0, "{size}");

        let nobody = call(
            &app,
            "root-key",
            "",
            Method::GET,
            "/v1/admin/spaces/nobody",
            None,
        )
        .await;

        nobody.assert_problem(404, "not_found");
        let own = call(
            &app,
            "admin-of-one",
            "",
            Method::GET,
            "/v1/admin/spaces",
            None,
        )
        .await;

        assert_eq!(own.json()["items"], json!([{"space": "one"}]));
        for (method, path) in [
            (Method::GET, "/v1/admin/spaces/two"),
            (Method::DELETE, "/v1/admin/spaces/two?confirm=two"),
        ] {
            call(&app, "admin-of-one", "", method, path, None)
                .await
                .assert_problem(403, "forbidden");
        }

        app.finish().await;
    }
}

#[tokio::test]
async fn deleting_a_space_deletes_everything_and_affects_no_other() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[("AUTH__KEYS", KEYS)]).await;
        for space in ["one", "two"] {
            fill(&app, space).await;
        }

        let before = snapshot(&app.database, "two").await;
        for path in ["/v1/admin/spaces/one", "/v1/admin/spaces/one?confirm=two"] {
            call(&app, "root-key", "", Method::DELETE, path, None)
                .await
                .assert_problem(422, "invalid_request");
        }

        assert!(!snapshot(&app.database, "one").await.is_empty());

        let path = "/v1/admin/spaces/one?confirm=one";
        let receipt = call(&app, "root-key", "", Method::DELETE, path, None).await;
        assert_eq!(receipt.status, 200, "{engine:?} {}", receipt.text);
        let receipt = receipt.json();
        assert_eq!(
            (&receipt["removed"]["sources"], &receipt["removed"]["jobs"]),
            (&json!(3), &json!(2)),
            "{receipt}"
        );

        assert_eq!(
            snapshot(&app.database, "one").await,
            BTreeMap::new(),
            "{engine:?}"
        );

        assert_eq!(snapshot(&app.database, "two").await, before, "{engine:?}");

        // The caches are cleared too, and the space can be filled again.
        let search = json!({"query": "lighthouses"});
        let found = |space| {
            call(
                &app,
                "root-key",
                space,
                Method::POST,
                "/v1/search",
                Some(&search),
            )
        };

        assert_eq!(found("one").await.json()["items"], json!([]), "{engine:?}");
        assert_eq!(
            found("two").await.json()["items"].as_array().unwrap().len(),
            2,
            "{engine:?}"
        );

        fill(&app, "one").await;
        assert_eq!(
            found("one").await.json()["items"].as_array().unwrap().len(),
            2,
            "{engine:?}"
        );

        let again = call(&app, "root-key", "", Method::DELETE, path, None)
            .await
            .json();
        assert_eq!(again["removed"]["sources"], 3);
        let nothing = call(&app, "root-key", "", Method::DELETE, path, None)
            .await
            .json();
        assert_eq!(nothing["removed"]["sources"], 0, "a repeat is harmless");

        app.finish().await;
    }
}

#[tokio::test]
async fn deleting_a_space_cancels_its_jobs() {
    for database in TestDatabase::each().await {
        let settings = [
            ("AUTH__KEYS", KEYS),
            ("TESTING__PROBE_JOBS", "true"),
            ("JOBS__WORKERS", "1"),
        ];

        let app = TestApp::on(database, &settings).await;
        let long = json!({"steps": 600, "step_ms": 100, "effect": true});
        for _ in 0..3 {
            let queued = call(
                &app,
                "root-key",
                "one",
                Method::POST,
                "/v1/testing/jobs",
                Some(&long),
            )
            .await;
            assert_eq!(queued.status, 202);
        }

        let path = "/v1/admin/spaces/one?confirm=one";
        let receipt = call(&app, "root-key", "", Method::DELETE, path, None)
            .await
            .json();
        assert_eq!(receipt["jobs_cancelled"], 3, "{receipt}");

        // The worker is free for other jobs and writes nothing more.
        let brief = json!({"steps": 1, "effect": true});
        let queued = call(
            &app,
            "root-key",
            "two",
            Method::POST,
            "/v1/testing/jobs",
            Some(&brief),
        )
        .await
        .json();

        let job = format!("/v1/jobs/{}?wait=30", queued["id"].as_str().unwrap());
        assert_eq!(
            call(&app, "root-key", "two", Method::GET, &job, None)
                .await
                .json()["state"],
            "succeeded"
        );

        assert_eq!(snapshot(&app.database, "one").await, BTreeMap::new());
        app.finish().await;
    }
}

/// A new table must be added to the list, or a deleted space would leave rows behind.
#[tokio::test]
async fn deletion_covers_every_table_with_a_space() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let mut known: BTreeSet<String> = SPACE_TABLES
            .iter()
            .map(|table| (*table).to_owned())
            .collect();

        assert_eq!(known.len(), SPACE_TABLES.len(), "one is listed twice");
        // Only numbers, which must keep growing.
        known.insert("counters".to_owned());
        // Hashes and numbers, which show what was deleted.
        known.insert("erasures".to_owned());
        assert_eq!(
            space_tables(&app.database).await,
            known,
            "{:?}",
            app.database.engine
        );

        app.finish().await;
    }
}

/// Tables with a column `space`, according to the database's catalogue.
async fn space_tables(database: &TestDatabase) -> BTreeSet<String> {
    let sql = match database.engine {
        Engine::Sqlite => {
            "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' AND p.name = 'space'"
        }
        Engine::Postgres => {
            "SELECT CAST(table_name AS TEXT) FROM information_schema.columns WHERE table_schema = current_schema() \
             AND column_name = 'space'"
        }
        Engine::Mysql => {
            "SELECT CAST(table_name AS CHAR) FROM information_schema.columns WHERE table_schema = DATABASE() \
             AND column_name = 'space'"
        }
    };

    let rows = sqlx::query(sql)
        .fetch_all(&mut database.connect().await)
        .await
        .unwrap();

    rows.iter().map(|row| row.get(0)).collect()
}

/// Every row of a space but its counters, table by table, as text.
async fn snapshot(database: &TestDatabase, space: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut connection = database.connect().await;
    let mut all = BTreeMap::new();
    for table in space_tables(database)
        .await
        .into_iter()
        .filter(|table| !["counters", "erasures"].contains(&table.as_str()))
    {
        let sql = format!("SELECT * FROM {table} WHERE space = '{space}'");
        let rows = sqlx::query(AssertSqlSafe(sql))
            .fetch_all(&mut connection)
            .await
            .unwrap();

        let text = |row: &sqlx::any::AnyRow| {
            let field = |index: usize| {
                row.try_get::<Option<String>, _>(index)
                    .map(|value| format!("{value:?}"))
                    .or_else(|_| {
                        row.try_get::<Option<i64>, _>(index)
                            .map(|value| format!("{value:?}"))
                    })
                    .or_else(|_| {
                        row.try_get::<Option<f64>, _>(index)
                            .map(|value| format!("{value:?}"))
                    })
                    .or_else(|_| {
                        row.try_get::<Option<Vec<u8>>, _>(index)
                            .map(|value| format!("{value:?}"))
                    })
                    .unwrap_or_else(|error| panic!("{table}.{}: {error}", row.column(index).name()))
            };
            (0..row.len()).map(field).collect::<Vec<_>>().join("|")
        };

        let rows: BTreeSet<String> = rows.iter().map(text).collect();
        if !rows.is_empty() {
            all.insert(table, rows);
        }
    }

    all
}
