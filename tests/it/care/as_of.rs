//! What `as_of` shows: the names, the parents and the filing of that time, also of closed categories.

use memoir::base::clock::Clock as _;
use serde_json::{Value, json};

use super::{Setup, assert_done};
use crate::support::database::TestDatabase;
use crate::support::ingest::count;

fn now(setup: &Setup) -> String {
    setup.ingest.app.clock.now().to_string()
}

#[tokio::test]
async fn an_earlier_time_shows_the_hierarchy_of_that_time() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "House/Boiler", "Work/Tax"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let chunk = setup.chunks(&job).await[3];
        let (home, house, work) = (
            setup.id("Home").await,
            setup.id("House").await,
            setup.id("Work").await,
        );
        let (roof, tax) = (setup.id("Roof").await, setup.id("Tax").await);

        let mut times = vec![(now(&setup), setup.tree().await, asked(&setup, "").await)];
        for step in 0..7 {
            match step {
                0 => assert_done(&setup.rename(tax, "Taxes").await),
                1 => assert_done(&setup.merge(house, home).await),
                2 => assert_done(&setup.move_chunk(chunk, roof).await),
                3 => assert_done(&setup.shift(roof, work).await),
                4 => {
                    setup
                        .ingest_file("/b.md", &["Home/Boiler", "New/Leaf"])
                        .await
                }
                5 => {
                    let merged = &setup.changes().await[2];
                    assert_eq!(merged["kind"], "merge", "{engine:?}: {merged}");
                    assert_done(&setup.undo(merged["id"].as_i64().unwrap()).await)
                }
                _ => assert_done(&setup.merge(work, house).await),
            };
            let seen = asked(&setup, "").await;
            times.push((now(&setup), setup.tree().await, seen));
        }

        setup.wait();
        for (step, (time, tree, seen)) in times.iter().enumerate() {
            let then = setup.tree_of(&format!("?as_of={time}")).await;
            assert_eq!(&then, tree, "{engine:?} {step}");
            assert_eq!(&asked(&setup, time).await, seen, "{engine:?} {step}");
        }

        // Single categories and their chunks.
        let time = &times[0].0;
        let place = format!("/v1/categories/{tax}");
        let then = format!("{place}?as_of={time}");
        let then = setup.ingest.app.get(&then).await.json();
        assert_eq!(then["path"], json!(["Work", "Tax"]), "{engine:?}");
        let then = format!("{place}/chunks?as_of={time}");
        let then = setup.ingest.list(&then).await;
        assert_eq!(then[0]["chunk_id"], chunk, "{engine:?}: {then:?}");
        assert_eq!(then[0]["category_id"], tax, "{engine:?}");
        assert_eq!(
            then[0]["category_path"],
            json!(["Work", "Tax"]),
            "{engine:?}"
        );
        let now = setup.ingest.list(&format!("{place}/chunks")).await;
        assert_eq!(now, [] as [Value; 0], "{engine:?}");

        // A category that is closed is there at its time only.
        let gone = format!("/v1/categories/{work}");
        let gone = setup.ingest.app.get(&gone).await;
        gone.assert_problem(404, "not_found");
        let then = format!("/v1/categories/{work}?as_of={time}");
        let then = setup.ingest.app.get(&then).await;
        assert_eq!(then.json()["name"], "Work", "{engine:?}");

        for (query, wanted) in [("", 0), (time.as_str(), 1)] {
            let found = searched(&setup, tax, query).await;
            assert_eq!(found, wanted, "{engine:?} {query}");
        }
    }
}

/// The paths with their chunks that a query reads.
async fn asked(setup: &Setup, time: &str) -> Vec<(Value, Value)> {
    let mut body = json!({
        "query": "word", "mode": "retrieve", "strategy": "wide_branch", "n": 20, "limit": 100,
    });
    if !time.is_empty() {
        body["as_of"] = json!(time);
    }
    let reply = setup.ingest.app.post("/v1/queries", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let result = reply.json();
    let chunks = result["chunks"].as_array().unwrap();
    let mut seen: Vec<(Value, Value)> = chunks
        .iter()
        .map(|chunk| (chunk["chunk_id"].clone(), chunk["category_path"].clone()))
        .collect();
    seen.sort_by_key(|(id, _)| id.as_i64());
    assert!(!seen.is_empty(), "{result:#}");
    seen
}

/// How many chunks a search finds below a category.
async fn searched(setup: &Setup, category: i64, time: &str) -> usize {
    let mut filters = json!({"category_id": category});
    if !time.is_empty() {
        filters["as_of"] = json!(time);
    }
    let body = json!({"query": "word", "filters": filters});
    let reply = setup.ingest.app.post("/v1/search", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().len()
}

/// Before the database knew of earlier states, there is the hierarchy as it was when it was upgraded.
#[tokio::test]
async fn a_time_before_the_upgrade_shows_the_hierarchy_at_the_upgrade() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        setup
            .ingest_file("/a.md", &["Home/Boiler", "Home/Roof"])
            .await;
        let time = now(&setup);
        let roof = setup.id("Roof").await;
        assert_done(&setup.rename(roof, "Roofs").await);
        // As an earlier build would have left it.
        let database = &setup.ingest.app.database;
        database.execute("DELETE FROM category_states").await;
        database
            .execute("UPDATE category_changes SET before_json = '{\"name\":\"Roof\"}', after_json = '{\"name\":\"Roofs\"}'")
            .await;
        let upgraded = setup.tree().await;
        assert_done(&setup.rename(roof, "Tiles").await);
        let then = setup.tree_of(&format!("?as_of={time}")).await;
        assert_eq!(then, upgraded, "{engine:?}");

        // Its changes can be undone as well.
        for change in setup.changes().await {
            assert_done(&setup.undo(change["id"].as_i64().unwrap()).await);
        }
        assert_eq!(setup.id("Roof").await, roof, "{engine:?}");
        let aliases = "SELECT COUNT(*) FROM category_aliases WHERE name_key = 'roof'";
        let aliases = count(&setup.ingest.app.database, aliases).await;
        assert_eq!(aliases, 0, "{engine:?}");
    }
}
