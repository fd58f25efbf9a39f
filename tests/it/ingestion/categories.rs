//! The hierarchy over the API: its rules, its lists, and its depth, which is fixed once chunks are
//! filed.

use std::collections::HashMap;
use std::sync::Arc;

use memoir::config::database::Engine;
use memoir::config::{Config, Origin};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};
use crate::support::binary::Binary;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count, document, line, offered, source};

async fn made(app: &TestApp, body: Value) -> i64 {
    let reply = app.post("/v1/categories", &body).await;
    assert_eq!(reply.status, 201, "{body}: {}", reply.text);
    reply.json()["id"].as_i64().unwrap()
}

#[tokio::test]
async fn the_rules_of_the_hierarchy_are_enforced() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[("TAXONOMY__HIERARCHY_DEPTH", "2")]).await;
        let root = made(&app, json!({"name": " Sea  and land "})).await;
        let other = made(&app, json!({"name": "Art", "level": 1})).await;
        let leaf = made(
            &app,
            json!({"name": "Ports", "parent_id": root, "level": 2}),
        )
        .await;

        assert_eq!(
            app.get(&format!("/v1/categories/{root}")).await.json()["name"],
            "Sea and land"
        );

        // Another parent may have a child with the same name.
        made(&app, json!({"name": "Ports", "parent_id": other})).await;
        for (body, status, code) in [
            (json!({"name": "x", "parent_id": leaf}), 422, "max_depth"),
            (
                json!({"name": "x", "parent_id": leaf, "level": 3}),
                422,
                "max_depth",
            ),
            (
                json!({"name": "x", "parent_id": root, "level": 1}),
                422,
                "invalid_request",
            ),
            (json!({"name": "x", "level": 2}), 422, "invalid_request"),
            (
                json!({"name": "x", "level": 2, "parent_id": 999_999}),
                422,
                "invalid_request",
            ),
            (
                json!({"name": "x", "parent_id": 999_999}),
                422,
                "invalid_request",
            ),
            (
                json!({"name": "x", "level": 2, "parent_id": leaf}),
                422,
                "max_depth",
            ),
            (json!({"name": "x", "level": 0}), 422, "invalid_request"),
            (
                json!({"name": "x", "level": 3, "parent_id": root}),
                422,
                "max_depth",
            ),
            (json!({"name": ""}), 422, "invalid_request"),
            (json!({"name": "x".repeat(101)}), 422, "invalid_request"),
            (json!({"name": "a\u{0}b"}), 422, "invalid_request"),
            (json!({"name": "Art"}), 409, "category_exists"),
            (json!({"name": " ＡＲＴ"}), 409, "category_exists"),
            (
                json!({"name": "PORTS", "parent_id": root}),
                409,
                "category_exists",
            ),
        ] {
            let reply = app.post("/v1/categories", &body).await;
            assert_eq!(
                reply.status.as_u16(),
                status,
                "{engine:?} {body}: {}",
                reply.text
            );
            reply.assert_problem(status, code);
        }

        assert_eq!(
            count(&app.database, "SELECT COUNT(*) FROM categories").await,
            4,
            "{engine:?}"
        );

        app.get("/v1/categories/77777")
            .await
            .assert_problem(404, "not_found");
        app.get(&format!("/v1/categories/{root}/chunks"))
            .await
            .assert_problem(422, "not_a_leaf");
        assert_eq!(
            app.get(&format!("/v1/categories/{leaf}/chunks"))
                .await
                .json()["items"],
            json!([])
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_requests_creates_the_root() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = Arc::new(TestApp::on(database, &[]).await);
        let mut making = tokio::task::JoinSet::new();

        for number in 0..12 {
            let app = Arc::clone(&app);
            let name = if number % 2 == 0 {
                "History"
            } else {
                "HISTORY"
            };

            making.spawn(async move {
                app.post("/v1/categories", &json!({ "name": name }))
                    .await
                    .status
                    .as_u16()
            });
        }

        let mut statuses = making.join_all().await;
        statuses.sort_unstable();
        assert_eq!(statuses, [vec![201], vec![409; 11]].concat(), "{engine:?}");
    }
}

#[tokio::test]
async fn lists_are_paged_in_a_stable_order() {
    let ingest = Ingest::with(&[("TAXONOMY__HIERARCHY_DEPTH", "2")]).await;
    let paths: Vec<String> = (0..12).map(|n| format!("A{}/B{}", n % 3, n % 4)).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let job = ingest.succeed(&document(&paths, &json!({}))).await;
    ingest
        .succeed(&document(&["A0/B0"; 6], &json!({"path": "/b.md"})))
        .await;
    let whole = ingest.list("/v1/categories/tree").await;

    assert_eq!(whole.len(), 3 + 12);
    let mut known = vec![Value::Null];
    for category in &whole {
        assert!(
            known.contains(&category["parent_id"]),
            "parents come before their children"
        );
        known.push(category["id"].clone());
    }

    let mut paged: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = ingest
            .app
            .get(&format!("/v1/categories/tree?limit=4{cursor}"))
            .await
            .json();

        paged.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }

    assert_eq!(paged, whole);
    let root = whole
        .iter()
        .find(|category| category["name"] == "A0")
        .unwrap();

    assert_eq!(root["chunk_count"], 4 + 6, "counts go up to the root");
    let children = ingest
        .list(&format!("/v1/categories?parent_id={}", root["id"]))
        .await;
    let leaf = children
        .iter()
        .find(|category| category["name"] == "B0")
        .unwrap();

    let detail = ingest
        .app
        .get(&format!("/v1/categories/{}", leaf["id"]))
        .await
        .json();

    assert_eq!(
        (&detail["path"], &detail["path_ids"]),
        (&json!(["A0", "B0"]), &json!([root["id"], leaf["id"]]))
    );

    let place = format!("/v1/categories/{}/chunks", leaf["id"]);
    let all = ingest.list(&place).await;
    assert_eq!(all.len(), 7);
    let page = ingest.app.get(&format!("{place}?limit=3")).await.json();
    let next = page["next_cursor"].as_str().unwrap();
    let rest = ingest
        .app
        .get(&format!("{place}?limit=500&cursor={next}"))
        .await
        .json();

    let paged = [
        page["items"].as_array().unwrap().as_slice(),
        rest["items"].as_array().unwrap(),
    ]
    .concat();

    assert_eq!(paged, all);
    let one = ingest
        .app
        .get(&format!("/v1/chunks/{}", all[0]["chunk_id"]))
        .await
        .json();

    assert_eq!(one, all[0]);
    assert_eq!(
        (&one["source_id"], &one["source_version"]),
        (&json!(source(&job)), &json!(1))
    );

    ingest
        .app
        .get("/v1/chunks/999999")
        .await
        .assert_problem(404, "not_found");

    // Another space has its own hierarchy.
    let foreign = ingest
        .app
        .request(Method::GET, "/v1/categories/tree")
        .header("x-memoir-space", "other");

    assert_eq!(send(foreign).await.json()["items"], json!([]));
    let foreign = ingest
        .app
        .request(Method::GET, &place)
        .header("x-memoir-space", "other");

    send(foreign).await.assert_problem(404, "not_found");
    // Chunks of versions that are no longer current are shown only on request.
    ingest
        .succeed(&document(&["A1/B1"], &json!({"path": "/b.md"})))
        .await;
    assert_eq!(ingest.list(&place).await.len(), 1);
    assert_eq!(
        ingest
            .list(&format!("{place}?version_scope=all"))
            .await
            .len(),
        7
    );
}

/// Checks the query plans of the database directly.
#[tokio::test]
async fn the_database_uses_the_indexes() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[("TAXONOMY__MAX_CATEGORIES_DEFAULT", "500")]).await;
        let paths: Vec<String> = (0..100)
            .map(|number| format!("A{number}/B{number}/C{number}"))
            .collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        ingest
            .succeed(&document(&paths, &json!({"options": {"batch_size": 50}})))
            .await;
        let database = &ingest.app.database;

        for name in ["categories_parent", "chunks_category"] {
            let sql = match database.engine {
                Engine::Sqlite => {
                    "SELECT COUNT(*) FROM sqlite_master WHERE type = 'index' AND name = "
                }
                Engine::Postgres => {
                    "SELECT COUNT(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname = "
                }
                Engine::Mysql => {
                    "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics \
                     WHERE table_schema = DATABASE() AND index_name = "
                }
            };
            assert_eq!(
                count(database, &format!("{sql}'{name}'")).await,
                1,
                "{:?} {name}",
                database.engine
            );
        }

        for (sql, index) in [
            (
                "SELECT id FROM categories WHERE space = 'default' AND parent_id = 2",
                "categories_parent",
            ),
            (
                "SELECT text_content FROM chunks WHERE space = 'default' AND category_id = 3",
                "chunks_category",
            ),
        ] {
            let plan = database.plan(sql).await;
            assert!(plan.contains(index), "{:?} {sql}: {plan}", database.engine);
        }

        let strays = "SELECT COUNT(*) FROM chunks c JOIN categories k ON k.id = c.category_id WHERE k.level <> 3";
        assert_eq!(count(database, strays).await, 0);
    }
}

/// The valid ranges of the settings.
#[test]
fn settings_of_filing_are_validated() {
    let load = |settings: &Value| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memoir.json");
        std::fs::write(&file, settings.to_string()).unwrap();
        Config::load(&Origin {
            file: Some(file),
            environment: HashMap::new(),
        })
    };

    let taxonomy = |fields: Value| json!({ "taxonomy": fields });
    let ingestion = |fields: Value| json!({ "ingestion": fields });
    for fine in [
        taxonomy(json!({"hierarchy_depth": 1})),
        taxonomy(json!({"hierarchy_depth": 100})),
        taxonomy(
            json!({"hierarchy_depth": 2, "max_categories_default": null, "max_categories_per_level": {"1": 1, "2": 9}}),
        ),
        ingestion(json!({"batch_size": 1})),
        ingestion(json!({"batch_size": 50})),
        json!({"query": {"max_token_budget": 401}}),
    ] {
        load(&fine).unwrap();
    }

    for (wrong, key) in [
        (
            taxonomy(json!({"hierarchy_depth": 0})),
            "taxonomy.hierarchy_depth",
        ),
        (
            taxonomy(json!({"hierarchy_depth": 101})),
            "taxonomy.hierarchy_depth",
        ),
        (
            taxonomy(json!({"max_children": 0})),
            "taxonomy.max_children",
        ),
        (
            taxonomy(json!({"max_children": -1})),
            "taxonomy.max_children",
        ),
        (
            taxonomy(json!({"limit_scope": "both"})),
            "taxonomy.limit_scope",
        ),
        (
            taxonomy(json!({"limit_scope": "parent", "max_categories_default": 50})),
            "taxonomy.max_categories_default",
        ),
        (
            taxonomy(json!({"limit_scope": "parent", "max_categories_per_level": {"2": 5}})),
            "taxonomy.max_categories_per_level",
        ),
        (
            taxonomy(json!({"max_categories_default": 0})),
            "taxonomy.max_categories_default",
        ),
        (
            taxonomy(json!({"max_categories_default": -1})),
            "taxonomy.max_categories_default",
        ),
        (
            taxonomy(json!({"max_categories_default": 1.5})),
            "taxonomy.max_categories_default",
        ),
        (
            taxonomy(json!({"max_categories_per_level": {"2": 0}})),
            "taxonomy.max_categories_per_level.2",
        ),
        (
            taxonomy(json!({"max_categories_per_level": {"2": 1.5}})),
            "taxonomy.max_categories_per_level.2",
        ),
        (
            taxonomy(json!({"max_categories_per_level": {"4": 5}})),
            "taxonomy.max_categories_per_level.4",
        ),
        (
            taxonomy(
                json!({"max_categories_default": null, "max_categories_per_level": {"1": 5, "2": 5}}),
            ),
            "taxonomy.max_categories_per_level.3",
        ),
        (ingestion(json!({"batch_size": 0})), "ingestion.batch_size"),
        (ingestion(json!({"batch_size": 51})), "ingestion.batch_size"),
        (
            ingestion(json!({"chunk_min_tokens": 500})),
            "ingestion.chunk_min_tokens",
        ),
        (
            json!({"query": {"max_token_budget": 400}}),
            "query.max_token_budget",
        ),
    ] {
        let error = load(&wrong).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("ConfigurationError") && said.contains("allowed:"),
            "{said}"
        );
        assert!(
            error
                .violations
                .iter()
                .any(|violation| violation.key == key),
            "{key}: {said}"
        );
    }
}

#[tokio::test]
async fn a_hierarchy_can_be_a_hundred_levels_deep() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &[("TAXONOMY__HIERARCHY_DEPTH", "100")]).await;
        let job = ingest.succeed(&document(&["A"], &json!({}))).await;
        let levels: Vec<i64> = ingest
            .asked("classify")
            .iter()
            .map(|seen| {
                line(seen, "level:")
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();

        assert_eq!(levels, (1..=100).collect::<Vec<_>>(), "{engine:?}");
        let chunks = ingest.chunks(&job).await;
        assert_eq!(
            chunks[0]["category_path"].as_array().unwrap().len(),
            100,
            "{engine:?}"
        );

        let root = &ingest.list("/v1/categories?level=1").await[0];
        assert_eq!(
            (&root["name"], &root["chunk_count"]),
            (&json!("A"), &json!(1)),
            "{engine:?}"
        );

        let info = ingest.app.get("/v1/info").await.json();
        assert_eq!(info["settings"]["taxonomy"]["hierarchy_depth"], 100);
    }
}

/// A category that was created manually has no leaf once the level below is full.
#[tokio::test]
async fn a_parent_without_room_for_children_is_not_offered() {
    let settings = [
        ("TAXONOMY__HIERARCHY_DEPTH", "2"),
        ("TAXONOMY__MAX_CATEGORIES_PER_LEVEL", r#"{"2": 1}"#),
    ];

    let ingest = Ingest::with(&settings).await;
    made(&ingest.app, json!({"name": "A"})).await;
    made(&ingest.app, json!({"name": "B"})).await;
    ingest.succeed(&document(&["B/Leaf"], &json!({}))).await;
    assert_eq!(offered(&ingest.asked("classify")[0]), ["A", "B"]);
    ingest.model.clear();
    let job = ingest
        .succeed(&document(&["A/Other", "C/Third"], &json!({})))
        .await;
    let first = &ingest.asked("classify")[0];

    assert_eq!(
        (offered(first), line(first, "new categories:")),
        (vec!["B"], "not allowed")
    );

    for chunk in ingest.chunks(&job).await {
        assert_eq!(chunk["category_path"], json!(["B", "Leaf"]));
    }

    ingest
        .app
        .post("/v1/categories", &json!({"name": "D"}))
        .await
        .assert_problem(422, "category_limit");
}

#[tokio::test]
async fn rejects_another_depth_while_chunks_are_filed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &[("TAXONOMY__HIERARCHY_DEPTH", "2")]).await;
        let job = ingest.succeed(&document(&["A/B"], &json!({}))).await;
        let url = ingest.app.database.url.clone();
        let memoir = Binary::new()
            .env("DATABASE_URL", &url)
            .env("MEMOIR__TAXONOMY__HIERARCHY_DEPTH", "3");

        // A service that starts in spite of this would run indefinitely.
        let refused = memoir.start(&["serve"]);
        assert_eq!(refused.wait(), Some(2), "{engine:?} {}", memoir.log());
        let said = memoir.log();

        for part in [
            "ConfigurationError",
            "taxonomy.hierarchy_depth",
            "3",
            "2",
            "database",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }

        // The depth may change once no chunks are filed.
        let gone = send(
            ingest
                .app
                .request(Method::DELETE, &format!("/v1/sources/{}", source(&job))),
        )
        .await;

        assert_eq!(gone.status, 200);
        let ingest = ingest.restart(&[("TAXONOMY__HIERARCHY_DEPTH", "3")]).await;
        ingest.succeed(&document(&["A/B/C"], &json!({}))).await;
        assert_eq!(ingest.names(3).await, ["C"], "{engine:?}");
    }
}

#[tokio::test]
async fn only_empty_categories_can_be_deleted() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &[]).await;
        let job = ingest
            .succeed(&document(&["A/B/C", "D/E/F"], &json!({})))
            .await;
        let root = ingest.list("/v1/categories?level=1").await[0]["id"].clone();
        let remove = async |id: &Value| {
            send(
                ingest
                    .app
                    .request(Method::DELETE, &format!("/v1/categories/{id}")),
            )
            .await
        };

        remove(&root)
            .await
            .assert_problem(409, "category_not_empty");
        // Chunks of an earlier version are still filed there.
        let id = source(&job).to_owned();
        ingest
            .succeed(&document(&["D/E/F"], &json!({"source_id": id})))
            .await;
        remove(&root)
            .await
            .assert_problem(409, "category_not_empty");
        let gone = send(
            ingest
                .app
                .request(Method::DELETE, &format!("/v1/sources/{id}")),
        )
        .await;

        // With the last chunk of any version, its categories go too.
        assert_eq!(gone.status, 200);
        remove(&root).await.assert_problem(404, "not_found");
        for level in 1..=3 {
            assert_eq!(ingest.names(level).await, [""; 0], "{engine:?}");
        }

        let made = async |body: Value| {
            let made = ingest.app.post("/v1/categories", &body).await;
            assert_eq!(made.status, 201, "{}", made.text);
            made.json()["id"].clone()
        };
        let root = made(json!({"name": "A"})).await;
        made(json!({"name": "B", "parent_id": root})).await;
        made(json!({"name": "D"})).await;
        assert_eq!(remove(&root).await.status, 204, "{engine:?}");
        remove(&root).await.assert_problem(404, "not_found");
        assert_eq!(ingest.names(1).await, ["D"], "{engine:?}");
        assert_eq!(ingest.names(2).await, [""; 0], "{engine:?}");

        remove(&json!("x")).await.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_full_level_raises_a_warning() {
    let ingest = Ingest::with(&[("TAXONOMY__MAX_CATEGORIES_DEFAULT", "2")]).await;
    let first = ingest.succeed(&document(&["A/B/C"], &json!({}))).await;
    assert_eq!(first["warnings"], json!([]));
    let second = ingest.succeed(&document(&["D/E/F"], &json!({}))).await;

    assert_eq!(second["warnings"][0]["code"], "level_full", "{second:#}");

    let third = ingest.succeed(&document(&["G/H/I"], &json!({}))).await;
    let said = third["warnings"][0]["message"].as_str().unwrap();
    assert!(
        said.contains("level 1 has reached its limit of 2"),
        "{said}"
    );
    assert!(
        said.contains("3 chunks of this source") || said.contains("1 chunk of this source"),
        "{said}"
    );
}
