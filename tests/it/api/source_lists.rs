//! The list of sources: its orders, its pages and its length.

use memoir::config::database::Engine;
use serde_json::Value;

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::library::Library;

/// Names in several cases and scripts; some sources share a size, and some have several versions.
async fn filled(database: TestDatabase) -> TestApp {
    let app = TestApp::on(database, &[]).await;
    let library = Library::at(&app.database.url).await;
    for n in 0..14_usize {
        let name = ["beta", "Alpha", "ähre", "日本", "Zeta", "_note", "alpha"][n % 7];
        let text = "A lamp burns. ".repeat(1 + n % 4);
        let path = format!("/{n}/{name}.md");
        let id = library.add(&path, &[(&["Lamps"], &text)]).await;
        for version in 2..2 + i64::try_from(n % 3).unwrap() {
            library
                .add_version(&id, version, &[(&["Lamps"], &text)])
                .await;
        }
    }

    app
}

/// Every page of a list, and the lengths that the pages report.
async fn walk(app: &TestApp, query: &str) -> (Vec<Value>, Vec<i64>) {
    let (mut items, mut totals) = (Vec::new(), Vec::new());
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/sources?limit=3{query}{cursor}");
        let reply = app.get(&path).await;
        assert_eq!(reply.status.as_u16(), 200, "{path}: {}", reply.text);
        let page = reply.json();
        items.extend(page["items"].as_array().unwrap().clone());
        totals.push(page["total"].as_i64().unwrap());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, totals),
        }
    }
}

/// What decides the order, as a text that sorts like it.
fn key(item: &Value, sort: &str) -> String {
    let text = |field: &str| item[field].as_str().unwrap().to_owned();
    let number = |field: &str| format!("{:09}", item[field].as_i64().unwrap_or(0));
    let value = match sort {
        "name" => text("filename").to_lowercase(),
        "size" => number("size_bytes"),
        "versions" => number("latest_version"),
        other => text(other),
    };
    format!("{value}\u{0}{}", text("id"))
}

#[tokio::test]
async fn every_order_has_each_source_once_on_every_engine() {
    for database in TestDatabase::each().await {
        let app = filled(database).await;
        let engine = app.database.engine;
        for sort in ["created_at", "name", "size", "versions", "updated_at"] {
            let (found, totals) = walk(&app, &format!("&sort={sort}")).await;
            let keys: Vec<String> = found.iter().map(|item| key(item, sort)).collect();
            assert!(keys.is_sorted(), "{engine:?} {sort}: {keys:?}");
            assert_eq!(found.len(), 14, "{engine:?} {sort}");
            assert_eq!(totals, [14; 5], "{engine:?} {sort}");

            let (mut reversed, _) = walk(&app, &format!("&sort=-{sort}")).await;
            reversed.reverse();
            assert_eq!(reversed, found, "{engine:?} -{sort}");
        }

        let sizes: Vec<i64> = walk(&app, "&sort=-size")
            .await
            .0
            .iter()
            .map(|item| item["size_bytes"].as_i64().unwrap())
            .collect();
        assert_eq!((sizes[0], sizes[13]), (56, 14), "{engine:?}: {sizes:?}");

        let newest = walk(&app, "&newest_first=true").await.0;
        assert_eq!(newest, walk(&app, "&sort=-created_at").await.0);
        let named = walk(&app, "&sort=name&newest_first=true").await.0;
        assert_eq!(named, walk(&app, "&sort=name").await.0);
        app.finish().await;
    }
}

#[tokio::test]
async fn the_total_counts_what_the_filters_select() {
    for database in TestDatabase::each().await {
        let app = filled(database).await;
        for (query, wanted) in [
            ("&filename=beta.md", 2),
            ("&name=ALPHA", 4),
            ("&name=%C3%84hr", 2),
            ("&name=/1", 5),
            ("&name=%E6%9C%AC", 2),
            ("&name=_n", 2),
            ("&name=%25", 0),
            ("&name=alpha&sort=-size&tag=none", 0),
            ("&tag=file_ingest", 14),
            ("&tag=none", 0),
            ("&user_id=nobody", 0),
            ("&eligible=true&sort=size", 14),
            ("&eligible=false&sort=size", 0),
        ] {
            let (found, totals) = walk(&app, query).await;
            assert_eq!(i64::try_from(found.len()).unwrap(), wanted, "{query}");
            assert!(
                totals.iter().all(|total| *total == wanted),
                "{:?} {query}: {totals:?}",
                app.database.engine
            );
        }

        app.finish().await;
    }
}

#[tokio::test]
async fn a_cursor_continues_only_its_own_order() {
    let app = filled(TestDatabase::sqlite()).await;
    let cursor = app.get("/v1/sources?limit=2&sort=size").await.json();
    let cursor = cursor["next_cursor"].as_str().unwrap();
    for other in ["-size", "name", "created_at"] {
        app.get(&format!("/v1/sources?sort={other}&cursor={cursor}"))
            .await
            .assert_problem(400, "invalid_cursor");
    }

    for query in [
        "sort=colour",
        "sort=--size",
        "sort=size&as_of=2026-01-31T00:00:00Z",
    ] {
        app.get(&format!("/v1/sources?{query}"))
            .await
            .assert_problem(422, "invalid_request");
    }

    let past = app
        .get("/v1/sources?sort=name&as_of=2026-01-31T00:00:00Z")
        .await;
    assert_eq!(past.json()["total"], 14, "{}", past.text);
    let manifest = app.get("/v1/manifest?sort=-size&limit=1").await.json();
    assert_eq!(manifest["items"][0]["size_bytes"], 56);
    app.finish().await;
}

#[tokio::test]
async fn every_order_is_read_from_an_index() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let rows = (0..600).map(|n| {
            format!(
                "('default', 's{n}', 'u', 'f{n}', 'f{n}', '/{n}', 'k{n}', 'md', 'file_ingest', 1, {n}, {n}, {n}, {n})"
            )
        });
        let insert = format!(
            "INSERT INTO sources (space, id, user_id, filename, filename_key, path, path_key, type, kind, eligible, \
             latest_version, latest_size, created_at, updated_at) VALUES {}",
            rows.collect::<Vec<_>>().join(", ")
        );
        app.database.execute(&insert).await;
        if app.database.engine == Engine::Mysql {
            app.database.execute("ANALYZE TABLE sources").await;
        }

        for (column, index, value) in [
            ("created_at", "sources_created", "5"),
            ("filename_key", "sources_name", "'f5'"),
            ("latest_size", "sources_size", "5"),
            ("latest_version", "sources_versions", "5"),
            ("updated_at", "sources_updated", "5"),
        ] {
            let sql = format!(
                "SELECT s.id, s.filename FROM sources s WHERE s.space = 'default' AND s.{column} >= {value} \
                 AND (s.{column} > {value} OR s.id > 'x') ORDER BY s.{column}, s.id LIMIT 51"
            );
            let plan = app.database.plan(&sql).await;
            let sorts = ["TEMP B-TREE", "Sort", "filesort"];
            assert!(
                plan.contains(index) && !sorts.iter().any(|sort| plan.contains(sort)),
                "{:?} {column}: {plan}",
                app.database.engine
            );
        }

        app.finish().await;
    }
}
