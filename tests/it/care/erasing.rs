//! Deleting a source leaves the history of the others: where their chunks were, what leads there, and
//! what can be undone.

use memoir::base::clock::Clock as _;
use reqwest::Method;
use serde_json::Value;
use sqlx::Row as _;

use super::{Setup, assert_done};
use crate::support::database::TestDatabase;
use crate::support::ingest::{count, source};

/// Deletes the source that a job has ingested.
async fn erase(setup: &Setup, job: &Value) {
    let path = format!("/v1/sources/{}", source(job));
    assert_done(&setup.send(Method::DELETE, &path, &Value::Null).await);
}

/// The number of the newest change.
async fn newest(setup: &Setup) -> i64 {
    setup.changes().await[0]["id"].as_i64().unwrap()
}

#[tokio::test]
async fn a_merge_is_still_shown_and_undone_for_other_sources() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let job = setup
            .ingest_file("/a.md", &["Home/Boiler", "Home/Roof"])
            .await;
        let both = ["Home/Boiler", "Home/Roof"];
        setup.ingest_file("/b.md", &both).await;
        let time = format!("?as_of={}", setup.ingest.app.clock.now());
        let (boiler, roof) = (setup.id("Boiler").await, setup.id("Roof").await);
        assert_done(&setup.merge(boiler, roof).await);
        let merge = newest(&setup).await;

        erase(&setup, &job).await;
        let then = setup.paths(&time).await;
        assert_eq!(then, ["Home/Boiler 1", "Home/Roof 1"], "{engine:?}");
        setup.ingest_file("/c.md", &["Home/Boiler"]).await;
        assert_eq!(setup.paths("").await, ["Home/Roof 3"], "{engine:?}");

        assert_done(&setup.undo(merge).await);
        let now = setup.paths("").await;
        assert_eq!(now, ["Home/Boiler 1", "Home/Roof 2"], "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn a_merge_is_undone_without_what_only_a_deleted_source_filled() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let job = setup.ingest_file("/a.md", &["House/Boiler"]).await;
        setup
            .ingest_file("/b.md", &["House/Lawn", "Home/Boiler"])
            .await;
        let time = format!("?as_of={}", setup.ingest.app.clock.now());
        let (house, home) = (setup.id("House").await, setup.id("Home").await);
        assert_done(&setup.merge(house, home).await);
        let merge = newest(&setup).await;

        erase(&setup, &job).await;
        let apart = ["Home/Boiler 1", "House/Lawn 1"];
        assert_eq!(setup.paths(&time).await, apart, "{engine:?}");
        assert_done(&setup.undo(merge).await);
        assert_eq!(setup.paths("").await, apart, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn what_refers_to_nothing_any_more_goes_with_the_last_source() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let first = setup
            .ingest_file("/a.md", &["House/Boiler", "Home/Roof"])
            .await;
        let second = setup.ingest_file("/b.md", &["House/Boiler"]).await;
        let (boiler, roof) = (setup.id("Boiler").await, setup.id("Roof").await);
        let (house, home) = (setup.id("House").await, setup.id("Home").await);
        assert_done(&setup.merge(house, home).await);
        assert_done(&setup.merge(boiler, roof).await);
        erase(&setup, &first).await;
        erase(&setup, &second).await;

        for table in [
            "categories",
            "category_states",
            "category_changes",
            "category_aliases",
            "chunk_placements",
        ] {
            let sql = format!("SELECT COUNT(*) FROM {table}");
            let left = count(&setup.ingest.app.database, &sql).await;
            assert_eq!(left, 0, "{engine:?}: {table}");
        }
    }
}

#[tokio::test]
async fn a_closed_category_loses_an_unexplained_name_and_stays_closed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let job = setup.ingest_file("/a.md", &["Home/Zanzibar trade"]).await;
        let other = setup
            .ingest_file("/b.md", &["Home/Roof", "Home/Lawn"])
            .await;
        let lawn = setup.chunks(&other).await[1];
        let (trade, roof) = (setup.id("Zanzibar trade").await, setup.id("Roof").await);
        assert_done(&setup.move_chunk(lawn, trade).await);
        let time = format!("?as_of={}", setup.ingest.app.clock.now());
        assert_done(&setup.merge(trade, roof).await);
        let merge = newest(&setup).await;

        erase(&setup, &job).await;
        for sql in [
            "SELECT COUNT(*) FROM categories WHERE name LIKE '%anzibar%'",
            "SELECT COUNT(*) FROM category_states WHERE name LIKE '%anzibar%'",
            "SELECT COUNT(*) FROM category_aliases WHERE name_key LIKE '%anzibar%'",
            "SELECT COUNT(*) FROM category_changes WHERE before_json LIKE '%anzibar%'",
        ] {
            let left = count(&setup.ingest.app.database, sql).await;
            assert_eq!(left, 0, "{engine:?}: {sql}");
        }

        let mut connection = setup.ingest.app.database.connect().await;
        let sql = format!("SELECT name FROM categories WHERE id = {trade}");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql));
        let row = row.fetch_one(&mut connection).await.unwrap();
        let name: String = row.get(0);
        drop(connection);
        let then = setup.paths(&time).await;
        assert!(
            then.contains(&format!("Home/{name} 1")),
            "{engine:?}: {then:?}"
        );

        // A text with the new name gets a leaf of its own.
        let path = format!("Home/{name}");
        setup.ingest_file("/c.md", &[&path]).await;
        setup.assert_sound().await;
        let now = setup.paths("").await;
        assert!(
            now.contains(&format!("Home/{name} 1")),
            "{engine:?}: {now:?}"
        );
        let taken = setup.undo(merge).await;
        taken.assert_problem(409, "change_conflicts");
    }
}
