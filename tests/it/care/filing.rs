//! Filing respects what a person has changed: chunks stay where they were put, also when their source is
//! ingested again, and texts that are classified meanwhile find what took the place of their categories.

use std::sync::Arc;

use memoir::model::chunk::Move;
use serde_json::json;

use super::{Setup, assert_done};
use crate::support::database::TestDatabase;
use crate::support::ingest::document;
use crate::support::library::Library;

#[tokio::test]
async fn a_moved_chunk_stays_where_a_person_put_it() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Boiler", "Work/Tax"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let (boiler, tax) = (setup.id("Boiler").await, setup.id("Tax").await);
        let chunk = setup.chunks(&job).await[0];

        let moved = assert_done(&setup.move_chunk(chunk, tax).await);
        assert_eq!(moved["category_id"], tax, "{engine:?}");
        assert_eq!(moved["category_path"], json!(["Work", "Tax"]), "{engine:?}");
        let change = &setup.changes().await[0];
        assert_eq!(
            (
                &change["kind"],
                &change["chunk_id"],
                &change["from_id"],
                &change["to_id"]
            ),
            (
                &json!("move_chunk"),
                &json!(chunk),
                &json!(boiler),
                &json!(tax)
            ),
            "{engine:?}"
        );
        // A second time, there is nothing to do.
        assert_done(&setup.move_chunk(chunk, tax).await);
        assert_eq!(setup.changes().await.len(), 1, "{engine:?}");
        setup.assert_sound().await;

        // A second look leaves it.
        let library = Library::at(&setup.ingest.app.database.url).await;
        let mut tx = library.store.begin().await.unwrap();
        tx.lock_chunks(&library.space).await.unwrap();
        let back = Move {
            chunk_id: chunk,
            filed_at: 0,
            from: tax,
            to: boiler,
        };
        let now = library.now();
        let went = tx.move_chunks(&library.space, &[back], now).await.unwrap();
        assert_eq!(went, [], "{engine:?}");
        drop(tx);
        library.store.close().await;

        // A new version keeps the text and gets another one; the model would file both in Boiler.
        let paths = ["Home/Boiler", "Home/Boiler", "Work/Tax", "Home/Boiler"];
        setup.ingest_file("/a.md", &paths).await;
        let paths = ["Home/Boiler 2", "Work/Tax 2"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;

        // And once more: the chunk of the second version is placed by the person, too.
        let paths = ["Home/Boiler", "Home/Roof"];
        setup.ingest_file("/a.md", &paths).await;
        let paths = ["Home/Boiler 0", "Home/Roof 1", "Work/Tax 1"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn a_merge_does_not_release_a_chunk_that_a_person_placed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Work/Tax", "Work/Pens"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let (tax, pens) = (setup.id("Tax").await, setup.id("Pens").await);
        let chunk = setup.chunks(&job).await[0];
        assert_done(&setup.move_chunk(chunk, tax).await);
        assert_done(&setup.merge(tax, pens).await);

        let paths = ["Home/Boiler", "Work/Tax"];
        setup.ingest_file("/a.md", &paths).await;
        let paths = ["Home/Boiler 0", "Work/Pens 2"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn the_choice_for_the_latest_version_counts() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Work/Tax", "Work/Pens"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let (tax, pens) = (setup.id("Tax").await, setup.id("Pens").await);
        let chunk = setup.chunks(&job).await[0];
        assert_done(&setup.move_chunk(chunk, tax).await);

        let job = setup
            .ingest_file("/a.md", &["Home/Boiler", "Home/Roof"])
            .await;
        let (roof, newer) = (setup.id("Roof").await, setup.chunks(&job).await[0]);
        assert_done(&setup.move_chunk(newer, roof).await);
        // This moves the chunk of the former version once more, which is no choice.
        assert_done(&setup.merge(tax, pens).await);

        setup.ingest_file("/a.md", &["Home/Boiler"]).await;
        let paths = ["Home/Boiler 0", "Home/Roof 1", "Work/Pens 0"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

/// Texts are filed while their categories are merged, moved, renamed, removed and restored.
#[tokio::test(flavor = "multi_thread")]
async fn ingestions_and_care_do_not_disturb_each_other() {
    const ROUNDS: usize = 12;
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [("JOBS__WORKERS", "4")];
        let setup = Arc::new(Setup::with(database, &settings).await);
        let paths = ["A/X", "A/Y", "B/X", "B/Z", "C/W"];
        setup.ingest_file("/first.md", &paths).await;

        let mut running = tokio::task::JoinSet::new();
        for writer in 0..3 {
            let setup = Arc::clone(&setup);
            running.spawn(async move {
                for round in 0..ROUNDS {
                    let file = format!("/{writer}/{}.md", round % 4);
                    let body = document(&["A/X", "B/Z", "A/Y"], &json!({"path": file}));
                    setup.ingest.succeed(&body).await;
                }
            });
        }

        let changing = Arc::clone(&setup);
        running.spawn(async move {
            for round in 0..ROUNDS {
                change_something(&changing, round).await;
            }
        });
        while let Some(done) = running.join_next().await {
            done.unwrap();
        }

        setup.assert_sound().await;
        let all: i64 = setup
            .ingest
            .list("/v1/categories?level=1")
            .await
            .iter()
            .map(|root| root["chunk_count"].as_i64().unwrap())
            .sum();
        assert_eq!(
            all,
            5 + 3 * 4 * 3,
            "{engine:?}: {:?}",
            setup.paths("").await
        );
    }
}

/// One change of whatever is there, and every second time its undoing. Some are refused, none fails.
async fn change_something(setup: &Setup, round: usize) {
    let all = setup.ingest.list("/v1/categories/tree").await;
    let of_level = |level: i64| -> Vec<i64> {
        let some = all.iter().filter(|one| one["level"] == level);
        some.map(|one| one["id"].as_i64().unwrap()).collect()
    };
    let (roots, leaves) = (of_level(1), of_level(2));
    let pick = |from: &[i64], place: usize| from[place % from.len()];
    let reply = match round % 4 {
        0 => {
            setup
                .merge(pick(&leaves, round), pick(&leaves, round + 1))
                .await
        }
        1 => setup.shift(pick(&leaves, round), pick(&roots, round)).await,
        2 => setup.merge(pick(&roots, 0), pick(&roots, 1)).await,
        _ => {
            setup
                .rename(pick(&leaves, round), &format!("N{round}"))
                .await
        }
    };
    assert!(reply.status.as_u16() < 500, "{}", reply.text);
    if round % 2 == 1
        && let Some(change) = setup.changes().await.first()
    {
        let reply = setup.undo(change["id"].as_i64().unwrap()).await;
        assert!(
            [200, 409].contains(&reply.status.as_u16()),
            "{}",
            reply.text
        );
    }
}
