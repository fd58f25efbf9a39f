//! The review inbox and splits: what is proposed, and that its requests apply it.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Setup, assert_done};
use crate::support::database::TestDatabase;
use crate::support::library::Library;

const HEATING: [&str; 3] = [
    "The plumber repaired the boiler in room",
    "The boiler lost pressure and the radiators stayed cold in room",
    "A new pump was fitted to the boiler of room",
];
const TRAVEL: [&str; 3] = [
    "We booked a flight to the island and a hotel for night",
    "The hotel by the beach has a pool, we stayed for night",
    "Our flight was late and the hotel kept our room for night",
];

/// A leaf with chunks about two things, and one of a single chunk.
pub(super) async fn fill(setup: &Setup, count: usize) {
    let library = Library::at(&setup.ingest.app.database.url).await;
    for (number, forms) in [HEATING, TRAVEL].iter().enumerate() {
        let texts: Vec<String> = (0..count)
            .map(|at| format!("{} {at}.", forms[at % forms.len()]))
            .collect();
        let chunks: Vec<(&[&str], &str)> = texts
            .iter()
            .map(|text| (&["Home", "Everything"][..], text.as_str()))
            .collect();
        library.add(&format!("/{number}.txt"), &chunks).await;
    }
    let single: [(&[&str], &str); 3] = [
        (&["Home", "Boiler bill"], "The bill for the boiler came."),
        (&["Home", "Roof"], "The roof leaks."),
        (&["Home", "Roofs"], "Two roofs leak."),
    ];
    library.add("/single.txt", &single).await;
    library.store.close().await;
}

#[tokio::test]
async fn a_large_leaf_is_split_by_what_its_chunks_are_about() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        fill(&setup, 60).await;
        let leaf = setup.id("Everything").await;
        let before = setup.tree().await;
        let path = format!("/v1/categories/{leaf}/split");

        let would = assert_done(&setup.post(&path, &json!({"dry_run": true})).await);
        assert_eq!(setup.tree().await, before, "{engine:?}");
        let done = assert_done(&setup.post(&path, &json!({})).await);
        assert_eq!(would["categories"][0]["id"], Value::Null, "{engine:?}");
        let name = |outcome: &Value| outcome["categories"][0]["name"].clone();
        assert_eq!(name(&would), name(&done), "{engine:?}: {would} {done}");
        assert_eq!(done["categories"][0]["effect"], "created", "{engine:?}");
        assert!(
            done["chunks_moved"].as_i64() > Some(2),
            "{engine:?}: {done}"
        );
        setup.assert_sound().await;

        // Each new leaf is about one of the two.
        for created in done["categories"].as_array().unwrap() {
            let chunks = format!("/v1/categories/{}/chunks", created["id"]);
            let chunks = setup.ingest.list(&chunks).await;
            let about = |word: &str| {
                let texts = chunks.iter().map(|chunk| chunk["text_content"].to_string());
                texts.filter(|text| text.contains(word)).count()
            };
            let (heating, travel) = (about("boiler"), about("hotel"));
            assert!(
                heating == 0 || travel == 0,
                "{engine:?}: {heating} {travel}"
            );
        }

        let change = done["change"]["id"].as_i64().unwrap();
        assert_done(&setup.undo(change).await);
        assert_eq!(setup.tree().await, before, "{engine:?}");
        setup.assert_sound().await;

        let root = setup.id("Home").await;
        let path = format!("/v1/categories/{root}/split");
        let reply = setup.post(&path, &json!({})).await;
        reply.assert_problem(422, "not_a_leaf");
        let reply = setup.post("/v1/categories/99999/split", &json!({})).await;
        reply.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_split_is_not_undone_in_favour_of_a_closed_leaf() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        fill(&setup, 12).await;
        let (leaf, roof) = (setup.id("Everything").await, setup.id("Roof").await);
        let path = format!("/v1/categories/{leaf}/split");
        let split = assert_done(&setup.post(&path, &json!({})).await);
        let created = split["categories"][0]["id"].as_i64().unwrap();
        assert_done(&setup.merge(leaf, created).await);
        let chunks = format!("/v1/categories/{created}/chunks");
        for chunk in setup.ingest.list(&chunks).await {
            let id = chunk["chunk_id"].as_i64().unwrap();
            assert_done(&setup.move_chunk(id, roof).await);
        }

        let change = split["change"]["id"].as_i64().unwrap();
        let reply = setup.undo(change).await;
        reply.assert_problem(409, "change_conflicts");
        let cause = format!("category {leaf}, which takes the place of category {created}");
        assert!(reply.text.contains(&cause), "{engine:?}: {}", reply.text);

        // What is filed under the former name goes where the merge leads.
        setup.ingest_file("/b.md", &["Home/Everything"]).await;
        let chunks = setup.ingest.list(&chunks).await;
        assert_eq!(chunks.len(), 1, "{engine:?}: {chunks:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn each_proposal_can_be_applied_as_it_is() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        fill(&setup, 60).await;
        let mut kinds = Vec::new();
        for _ in 0..10 {
            let found = setup.ingest.app.get("/v1/categories/review").await;
            let found = assert_done(&found);
            let Some(item) = found["items"].as_array().unwrap().first() else {
                break;
            };
            assert!(!item["evidence"].as_str().unwrap().is_empty());
            kinds.push(item["kind"].as_str().unwrap().to_owned());
            let apply = &item["apply"];
            let method: Method = apply["method"].as_str().unwrap().parse().unwrap();
            let path = apply["path"].as_str().unwrap();
            let reply = setup.send(method, path, &apply["body"]).await;
            assert!(
                reply.status.is_success(),
                "{engine:?}: {item} {}",
                reply.text
            );
            setup.assert_sound().await;
        }

        for kind in ["near_duplicates", "single_chunk", "over_full"] {
            assert!(
                kinds.iter().any(|one| one == kind),
                "{engine:?}: {kind} of {kinds:?}"
            );
        }
    }
}

#[tokio::test]
async fn names_are_compared_with_the_texts_of_their_own_leaf() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let library = Library::at(&setup.ingest.app.database.url).await;
        // One text a source, so that the sources have nothing but the subject in common.
        for at in 0..8 {
            let heating = format!("{} {at}.", HEATING[at % 3]);
            let travel = format!("{} {at}.", TRAVEL[at % 3]);
            let earlier: [(&[&str], &str); 1] = [(&["Home", "Zebra"], travel.as_str())];
            let source = library.add(&format!("/zebra-{at}.txt"), &earlier).await;
            let current: [(&[&str], &str); 1] = [(&["Home", "Zebra"], heating.as_str())];
            library.add_version(&source, 2, &current).await;
            let other: [(&[&str], &str); 1] = [(&["Home", "Quartz"], travel.as_str())];
            library.add(&format!("/quartz-{at}.txt"), &other).await;
        }
        library.store.close().await;

        let found = setup.ingest.app.get("/v1/categories/review").await;
        let found = assert_done(&found);
        let items = found["items"].as_array().unwrap();
        let name_for = |leaf: i64| {
            let item = items.iter().find(|item| item["category_id"] == leaf);
            let item = item.unwrap_or_else(|| panic!("{engine:?}: {found:#}"));
            assert_eq!(item["kind"], "name_does_not_fit", "{engine:?}: {item}");
            let name = item["apply"]["body"]["name"].as_str().unwrap();
            name.to_lowercase()
        };
        let (zebra, quartz) = (setup.id("Zebra").await, setup.id("Quartz").await);
        let (zebra, quartz) = (name_for(zebra), name_for(quartz));
        assert!(zebra.contains("boiler"), "{engine:?}: {zebra}");
        assert!(quartz.contains("hotel"), "{engine:?}: {quartz}");
    }
}

#[tokio::test]
async fn the_review_looks_at_a_limited_number_of_leaves() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let library = Library::at(&setup.ingest.app.database.url).await;
        let pair = |at| [format!("Boiler repair {at}"), format!("Repair boiler {at}")];
        let names: Vec<String> = (0..60).flat_map(pair).collect();
        let paths: Vec<[&str; 2]> = names.iter().map(|name| ["Home", name.as_str()]).collect();
        let chunks: Vec<(&[&str], &str)> = paths
            .iter()
            .map(|path| (&path[..], "The boiler came."))
            .collect();
        library.add("/boilers.txt", &chunks).await;
        library.store.close().await;

        let found = setup.ingest.app.get("/v1/categories/review").await;
        let found = assert_done(&found);
        let items = found["items"].as_array().unwrap();
        let of_kind = |kind: &str| items.iter().filter(|item| item["kind"] == kind).count();
        for kind in ["near_duplicates", "single_chunk", "over_full"] {
            assert!(of_kind(kind) <= 50, "{engine:?}: {kind}");
        }
        assert!(!items.is_empty(), "{engine:?}");
    }
}

#[tokio::test]
async fn a_split_leaves_the_former_name_of_another_category_alone() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        fill(&setup, 12).await;
        let (leaf, roof) = (setup.id("Everything").await, setup.id("Roof").await);
        let path = format!("/v1/categories/{leaf}/split");
        let would = assert_done(&setup.post(&path, &json!({"dry_run": true})).await);
        let name = would["categories"][0]["name"].as_str().unwrap();
        for name in [name, "Tiles"] {
            assert_done(&setup.rename(roof, name).await);
        }

        let done = assert_done(&setup.post(&path, &json!({})).await);
        for created in done["categories"].as_array().unwrap() {
            assert_ne!(created["name"], name, "{engine:?}: {done}");
        }

        // A category that a change created closes again, and has the former name of another one.
        let created = done["categories"][0]["id"].as_i64().unwrap();
        let own = done["categories"][0]["name"].as_str().unwrap();
        let database = &setup.ingest.app.database;
        let key = own.to_lowercase();
        let alias = format!(
            "INSERT INTO category_aliases (space, parent_key, name_key, category_id) \
             SELECT space, parent_key, '{key}', {roof} FROM categories WHERE id = {created}"
        );
        database.execute(&alias).await;
        let change = done["change"]["id"].as_i64().unwrap();
        assert_done(&setup.undo(change).await);
        for (file, name) in [("/b.md", name), ("/c.md", own)] {
            setup.ingest_file(file, &[&format!("Home/{name}")]).await;
        }
        let tiles = setup.paths("").await;
        assert!(
            tiles.contains(&"Home/Tiles 3".to_owned()),
            "{engine:?}: {tiles:?}"
        );
        setup.assert_sound().await;
    }
}
