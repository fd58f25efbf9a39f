//! Undoing: in reverse order, everything is as it was; what was contradicted since is refused.

use memoir::model::category::{NamedBy, Rename};
use serde_json::{Value, json};

use super::{Setup, assert_done};
use crate::support::database::TestDatabase;
use crate::support::ingest::{count, source};
use crate::support::library::Library;

#[tokio::test]
async fn changes_undone_in_reverse_order_give_back_the_same_tree() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = [
            "Home/Boiler",
            "Home/Roof",
            "House/Boiler",
            "House/Lawn",
            "Work/Tax",
            "Work/Pens",
        ];
        let job = setup.ingest_file("/a.md", &paths).await;
        setup
            .ingest_file("/b.md", &["Home/Boiler", "Work/Tax"])
            .await;
        setup.ingest_file("/b.md", &["Home/Roof", "Work/Tax"]).await;
        let empty = json!({"name": "Empty", "parent_id": setup.id("Work").await});
        let empty = setup.ingest.app.post("/v1/categories", &empty).await;
        let empty = empty.json()["id"].as_i64().unwrap();
        let chunks = setup.chunks(&job).await;
        let (home, house, work) = (
            setup.id("Home").await,
            setup.id("House").await,
            setup.id("Work").await,
        );
        let (roof, tax, pens) = (
            setup.id("Roof").await,
            setup.id("Tax").await,
            setup.id("Pens").await,
        );

        let mut trees = vec![(setup.tree().await, filed(&setup).await)];
        for step in 0..9 {
            let reply = match step {
                0 => setup.rename(tax, "Taxes").await,
                1 => setup.move_chunk(chunks[0], tax).await,
                2 => setup.merge(house, home).await,
                3 => setup.shift(roof, work).await,
                4 => setup.move_chunk(chunks[0], roof).await,
                5 => setup.merge(roof, pens).await,
                6 => setup.remove(pens, &format!("?into={tax}")).await,
                7 => setup.remove(empty, "").await,
                _ => setup.merge(work, home).await,
            };
            assert!(
                reply.status.is_success(),
                "{engine:?} {step}: {}",
                reply.text
            );
            setup.assert_sound().await;
            trees.push((setup.tree().await, filed(&setup).await));
        }

        let changes = setup.changes().await;
        assert_eq!(changes.len(), 9, "{engine:?}");
        trees.pop();
        for change in changes {
            assert_done(&setup.undo(change["id"].as_i64().unwrap()).await);
            let (tree, filed_then) = trees.pop().unwrap();
            assert_eq!(setup.tree().await, tree, "{engine:?}: {change}");
            assert_eq!(filed(&setup).await, filed_then, "{engine:?}: {change}");
            setup.assert_sound().await;
        }

        let undone = setup.changes().await;
        assert!(
            undone.iter().all(|change| change["undone_at"].is_string()),
            "{engine:?}: {undone:?}"
        );
        let pinned = "SELECT COUNT(*) FROM chunk_placements WHERE pinned = 1 AND until_at = 9223372036854775807";
        let pinned = count(&setup.ingest.app.database, pinned).await;
        assert_eq!(pinned, 0, "{engine:?}: an undone move leaves no pin");
    }
}

/// The leaf of each chunk.
async fn filed(setup: &Setup) -> Vec<(i64, i64)> {
    let mut connection = setup.ingest.app.database.connect().await;
    let rows =
        sqlx::query("SELECT id, category_id FROM chunks WHERE profile = 'taxonomy' ORDER BY id")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    rows.iter()
        .map(|row| (sqlx::Row::get(row, 0), sqlx::Row::get(row, 1)))
        .collect()
}

#[tokio::test]
async fn an_undo_that_later_changes_contradict_is_refused() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Work/Tax", "Work/Pens"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let chunk = setup.chunks(&job).await[1];
        let (home, work) = (setup.id("Home").await, setup.id("Work").await);
        let (roof, boiler) = (setup.id("Roof").await, setup.id("Boiler").await);
        let (tax, pens) = (setup.id("Tax").await, setup.id("Pens").await);
        let done = async |reply: &crate::support::app::Reply| {
            assert_done(reply);
            setup.changes().await[0]["id"].as_i64().unwrap()
        };

        let first = done(&setup.rename(roof, "Roofs").await).await;
        let second = done(&setup.rename(roof, "Tiles").await).await;
        refused(&setup, first).await;
        assert_done(&setup.undo(second).await);
        assert_done(&setup.undo(first).await);
        refused(&setup, first).await;

        // Its name was given to another one.
        let merged = done(&setup.merge(boiler, roof).await).await;
        let taken = json!({"name": "Boiler", "parent_id": home});
        let taken = setup.ingest.app.post("/v1/categories", &taken).await;
        let taken = taken.json()["id"].as_i64().unwrap();
        refused(&setup, merged).await;
        assert_eq!(setup.remove(taken, "").await.status, 204);
        assert_done(&setup.undo(merged).await);

        // Its former parent is closed.
        let moved = done(&setup.shift(tax, home).await).await;
        let closed = done(&setup.merge(work, home).await).await;
        refused(&setup, moved).await;
        assert_done(&setup.undo(closed).await);
        assert_done(&setup.undo(moved).await);

        // The chunk was moved again, or its source is deleted.
        let to_tax = done(&setup.move_chunk(chunk, tax).await).await;
        let to_pens = done(&setup.move_chunk(chunk, pens).await).await;
        refused(&setup, to_tax).await;
        let path = format!("/v1/sources/{}", source(&job));
        let gone = setup.send(reqwest::Method::DELETE, &path, &Value::Null);
        assert_eq!(gone.await.status, 200, "{engine:?}");
        refused(&setup, to_pens).await;
    }
}

async fn refused(setup: &Setup, change: i64) {
    let before = setup.tree().await;
    let reply = setup.undo(change).await;
    // An erasure deletes the changes of the categories that it deletes.
    if reply.status == 404 {
        reply.assert_problem(404, "not_found");
    } else {
        reply.assert_problem(409, "change_conflicts");
    }
    assert_eq!(setup.tree().await, before);
}

#[tokio::test]
async fn an_erasure_deletes_closed_categories_and_placements() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Zanzibar boilers", "Zanzibar/Trade", "Home/Roof"];
        let job = setup.ingest_file("/a.md", &paths).await;
        setup.ingest_file("/b.md", &["Home/Roof"]).await;
        let (home, roof) = (setup.id("Home").await, setup.id("Roof").await);
        assert_done(&setup.merge(setup.id("Zanzibar boilers").await, roof).await);
        assert_done(&setup.merge(setup.id("Zanzibar").await, home).await);
        let trade = setup.id("Trade").await;
        assert_done(&setup.rename(trade, "Zanzibar spices").await);
        let rename = setup.changes().await[0]["id"].as_i64().unwrap();
        assert_done(&setup.undo(rename).await);

        let path = format!("/v1/sources/{}", source(&job));
        let gone = setup.send(reqwest::Method::DELETE, &path, &Value::Null);
        let gone = assert_done(&gone.await);
        assert!(
            gone["rows"]["chunk_placements"].as_i64() > Some(0),
            "{engine:?}: {gone}"
        );

        for sql in [
            "SELECT COUNT(*) FROM categories WHERE closed_at IS NOT NULL",
            "SELECT COUNT(*) FROM chunk_placements",
            "SELECT COUNT(*) FROM category_states WHERE name LIKE '%Zanzibar%'",
            "SELECT COUNT(*) FROM category_aliases WHERE name_key LIKE '%zanzibar%'",
            "SELECT COUNT(*) FROM category_changes WHERE before_json LIKE '%Zanzibar%'",
            "SELECT COUNT(*) FROM category_changes WHERE after_json LIKE '%Zanzibar%'",
        ] {
            let left = count(&setup.ingest.app.database, sql).await;
            assert_eq!(left, 0, "{engine:?}: {sql}");
        }
        assert_eq!(setup.paths("").await, ["Home/Roof 1"], "{engine:?}");
    }
}

#[tokio::test]
async fn of_merges_in_a_chain_the_last_is_undone_first() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Home/Lawn"];
        setup.ingest_file("/a.md", &paths).await;
        let (boiler, roof) = (setup.id("Boiler").await, setup.id("Roof").await);
        let lawn = setup.id("Lawn").await;
        let before = (setup.tree().await, filed(&setup).await);
        let first = change_of(&assert_done(&setup.merge(boiler, roof).await));
        let second = change_of(&assert_done(&setup.merge(roof, lawn).await));

        let reply = setup.undo(first).await;
        reply.assert_problem(409, "change_conflicts");
        let cause = format!("change {second} moved the same chunks");
        assert!(reply.text.contains(&cause), "{engine:?}: {}", reply.text);
        assert_eq!(setup.paths("").await, ["Home/Lawn 3"], "{engine:?}");

        assert_done(&setup.undo(second).await);
        assert_done(&setup.undo(first).await);
        let after = (setup.tree().await, filed(&setup).await);
        assert_eq!(after, before, "{engine:?}");
        setup.assert_sound().await;
    }
}

/// The number of the change that was made.
fn change_of(done: &Value) -> i64 {
    done["change"]["id"].as_i64().unwrap()
}

#[tokio::test]
async fn merges_in_a_circle_stop_no_ingestion() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Home/Lawn"];
        setup.ingest_file("/a.md", &paths).await;
        let (boiler, roof) = (setup.id("Boiler").await, setup.id("Roof").await);
        let lawn = setup.id("Lawn").await;
        assert_done(&setup.merge(boiler, roof).await);
        assert_done(&setup.merge(roof, lawn).await);
        let circle = format!("UPDATE categories SET merged_into = {boiler} WHERE id = {roof}");
        setup.ingest.app.database.execute(&circle).await;

        let paths = ["Home/Boiler", "Home/Lawn"];
        setup.ingest_file("/b.md", &paths).await;
        let paths = ["Home/Boiler 1", "Home/Lawn 4"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn a_moved_chunk_whose_text_was_ingested_again_is_not_undone_alone() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Work/Tax"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let chunk = setup.chunks(&job).await[0];
        let (boiler, tax) = (setup.id("Boiler").await, setup.id("Tax").await);
        assert_done(&setup.move_chunk(chunk, tax).await);
        let change = setup.changes().await[0]["id"].as_i64().unwrap();

        let paths = ["Home/Boiler", "Work/Tax", "Home/Roof"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let newer = setup.chunks(&job).await[0];
        let reply = setup.undo(change).await;
        reply.assert_problem(409, "change_conflicts");
        let cause = format!("chunk {newer} of a later version");
        assert!(reply.text.contains(&cause), "{engine:?}: {}", reply.text);

        assert_done(&setup.move_chunk(newer, boiler).await);
        assert_done(&setup.undo(change).await);
        let paths = ["Home/Boiler", "Work/Tax"];
        setup.ingest_file("/a.md", &paths).await;
        let paths = ["Home/Boiler 1", "Home/Roof 0", "Work/Tax 1"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn a_name_that_a_person_restores_is_the_persons() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        setup.ingest_file("/a.md", &["Home/Boiler"]).await;
        let (home, boiler) = (setup.id("Home").await, setup.id("Boiler").await);
        let named = format!("UPDATE categories SET named_by = 'embedded' WHERE id = {boiler}");
        setup.ingest.app.database.execute(&named).await;

        let library = Library::at(&setup.ingest.app.database.url).await;
        let rename = Rename {
            id: boiler,
            parent_id: home,
            from: "Boiler",
            to: "Radiators",
            by: NamedBy::Embedded,
            reason: None,
        };
        let mut tx = library.store.begin().await.unwrap();
        tx.lock_chunks(&library.space).await.unwrap();
        let renamed = tx.rename_category(&library.space, &rename, library.now());
        let change = renamed.await.unwrap().unwrap();
        tx.commit().await.unwrap();
        library.store.close().await;

        assert_done(&setup.undo(change).await);
        let of_user = format!(
            "SELECT COUNT(*) FROM categories WHERE id = {boiler} AND name = 'Boiler' AND named_by = 'user'"
        );
        let of_user = count(&setup.ingest.app.database, &of_user).await;
        assert_eq!(of_user, 1, "{engine:?}: no model renames it again");
    }
}
