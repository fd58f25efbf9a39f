//! Undoing: in reverse order, everything is as it was; what was contradicted since is refused.

use serde_json::{Value, json};

use super::{Garden, assert_done};
use crate::support::database::TestDatabase;
use crate::support::ingest::{count, source};

#[tokio::test]
async fn changes_undone_in_reverse_order_give_back_the_same_tree() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let garden = Garden::on(database).await;
        let paths = [
            "Home/Boiler",
            "Home/Roof",
            "House/Boiler",
            "House/Garden",
            "Work/Tax",
            "Work/Pens",
        ];
        let job = garden.plant("/a.md", &paths).await;
        garden.plant("/b.md", &["Home/Boiler", "Work/Tax"]).await;
        garden.plant("/b.md", &["Home/Roof", "Work/Tax"]).await;
        let empty = json!({"name": "Empty", "parent_id": garden.id("Work").await});
        let empty = garden.ingest.app.post("/v1/categories", &empty).await;
        let empty = empty.json()["id"].as_i64().unwrap();
        let chunks = garden.chunks(&job).await;
        let (home, house, work) = (
            garden.id("Home").await,
            garden.id("House").await,
            garden.id("Work").await,
        );
        let (roof, tax, pens) = (
            garden.id("Roof").await,
            garden.id("Tax").await,
            garden.id("Pens").await,
        );

        let mut trees = vec![(garden.tree().await, filed(&garden).await)];
        for step in 0..9 {
            let reply = match step {
                0 => garden.rename(tax, "Taxes").await,
                1 => garden.move_chunk(chunks[0], tax).await,
                2 => garden.merge(house, home).await,
                3 => garden.shift(roof, work).await,
                4 => garden.move_chunk(chunks[0], roof).await,
                5 => garden.merge(roof, pens).await,
                6 => garden.remove(pens, &format!("?into={tax}")).await,
                7 => garden.remove(empty, "").await,
                _ => garden.merge(work, home).await,
            };
            assert!(
                reply.status.is_success(),
                "{engine:?} {step}: {}",
                reply.text
            );
            garden.assert_sound().await;
            trees.push((garden.tree().await, filed(&garden).await));
        }

        let changes = garden.changes().await;
        assert_eq!(changes.len(), 9, "{engine:?}");
        trees.pop();
        for change in changes {
            assert_done(&garden.undo(change["id"].as_i64().unwrap()).await);
            let (tree, filed_then) = trees.pop().unwrap();
            assert_eq!(garden.tree().await, tree, "{engine:?}: {change}");
            assert_eq!(filed(&garden).await, filed_then, "{engine:?}: {change}");
            garden.assert_sound().await;
        }

        let undone = garden.changes().await;
        assert!(
            undone.iter().all(|change| change["undone_at"].is_string()),
            "{engine:?}: {undone:?}"
        );
        let pinned = "SELECT COUNT(*) FROM chunk_placements WHERE pinned = 1 AND until_at = 9223372036854775807";
        let pinned = count(&garden.ingest.app.database, pinned).await;
        assert_eq!(pinned, 0, "{engine:?}: an undone move leaves no pin");
    }
}

/// The leaf of each chunk.
async fn filed(garden: &Garden) -> Vec<(i64, i64)> {
    let mut connection = garden.ingest.app.database.connect().await;
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
        let garden = Garden::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Work/Tax", "Work/Pens"];
        let job = garden.plant("/a.md", &paths).await;
        let chunk = garden.chunks(&job).await[1];
        let (home, work) = (garden.id("Home").await, garden.id("Work").await);
        let (roof, boiler) = (garden.id("Roof").await, garden.id("Boiler").await);
        let (tax, pens) = (garden.id("Tax").await, garden.id("Pens").await);
        let done = async |reply: &crate::support::app::Reply| {
            assert_done(reply);
            garden.changes().await[0]["id"].as_i64().unwrap()
        };

        let first = done(&garden.rename(roof, "Roofs").await).await;
        let second = done(&garden.rename(roof, "Tiles").await).await;
        refused(&garden, first).await;
        assert_done(&garden.undo(second).await);
        assert_done(&garden.undo(first).await);
        refused(&garden, first).await;

        // Its name was given to another one.
        let merged = done(&garden.merge(boiler, roof).await).await;
        let taken = json!({"name": "Boiler", "parent_id": home});
        let taken = garden.ingest.app.post("/v1/categories", &taken).await;
        let taken = taken.json()["id"].as_i64().unwrap();
        refused(&garden, merged).await;
        assert_eq!(garden.remove(taken, "").await.status, 204);
        assert_done(&garden.undo(merged).await);

        // Its former parent is closed.
        let moved = done(&garden.shift(tax, home).await).await;
        let closed = done(&garden.merge(work, home).await).await;
        refused(&garden, moved).await;
        assert_done(&garden.undo(closed).await);
        assert_done(&garden.undo(moved).await);

        // The chunk was moved again, or its source is deleted.
        let to_tax = done(&garden.move_chunk(chunk, tax).await).await;
        let to_pens = done(&garden.move_chunk(chunk, pens).await).await;
        refused(&garden, to_tax).await;
        let path = format!("/v1/sources/{}", source(&job));
        let gone = garden.send(reqwest::Method::DELETE, &path, &Value::Null);
        assert_eq!(gone.await.status, 200, "{engine:?}");
        refused(&garden, to_pens).await;
    }
}

async fn refused(garden: &Garden, change: i64) {
    let before = garden.tree().await;
    let reply = garden.undo(change).await;
    // An erasure deletes the changes of the categories that it deletes.
    if reply.status == 404 {
        reply.assert_problem(404, "not_found");
    } else {
        reply.assert_problem(409, "change_conflicts");
    }
    assert_eq!(garden.tree().await, before);
}

#[tokio::test]
async fn an_erasure_deletes_closed_categories_and_placements() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let garden = Garden::on(database).await;
        let paths = ["Home/Zanzibar boilers", "Zanzibar/Trade", "Home/Roof"];
        let job = garden.plant("/a.md", &paths).await;
        garden.plant("/b.md", &["Home/Roof"]).await;
        let (home, roof) = (garden.id("Home").await, garden.id("Roof").await);
        assert_done(
            &garden
                .merge(garden.id("Zanzibar boilers").await, roof)
                .await,
        );
        assert_done(&garden.merge(garden.id("Zanzibar").await, home).await);
        let trade = garden.id("Trade").await;
        assert_done(&garden.rename(trade, "Zanzibar spices").await);
        let rename = garden.changes().await[0]["id"].as_i64().unwrap();
        assert_done(&garden.undo(rename).await);

        let path = format!("/v1/sources/{}", source(&job));
        let gone = garden.send(reqwest::Method::DELETE, &path, &Value::Null);
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
            let left = count(&garden.ingest.app.database, sql).await;
            assert_eq!(left, 0, "{engine:?}: {sql}");
        }
        assert_eq!(garden.paths("").await, ["Home/Roof 1"], "{engine:?}");
    }
}
