//! The balance of the hierarchy: a job splits what has grown too large and merges level 1, and what it
//! does is recorded, can be undone, and is not done again.

use std::collections::BTreeMap;

use memoir::base::clock::Clock as _;
use serde_json::{Value, json};

use super::{Setup, assert_done};
use crate::support::database::TestDatabase;
use crate::support::ingest::{count, source};
use crate::support::library::Library;

/// Leaves of at most 16 chunks, with any model.
pub(super) const SMALL: [(&str, &str); 2] = [
    ("TAXONOMY__LEAF_TARGET", "8"),
    ("TAXONOMY__AUTO_CARE", "always"),
];

impl Setup {
    /// The jobs that balanced the space, once none is left to do.
    pub(super) async fn balanced(&self) -> Vec<Value> {
        loop {
            let jobs = self.ingest.list("/v1/jobs?kind=balance").await;
            let is_over = |job: &Value| {
                let state = job["state"].as_str().unwrap();
                ["succeeded", "failed", "cancelled"].contains(&state)
            };
            if jobs.iter().all(is_over) {
                return jobs;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// The number of chunks in the largest leaf.
    pub(super) async fn largest(&self) -> i64 {
        let sql = "SELECT MAX(chunk_count) FROM categories WHERE level = (SELECT MAX(level) FROM categories)";
        count(&self.ingest.app.database, sql).await
    }

    /// Each category with its number and that of its parent.
    async fn places(&self, query: &str) -> Vec<String> {
        let path = format!("/v1/categories/tree{query}");
        let all = self.ingest.list(&path).await;
        let place = |one: &Value| {
            format!(
                "{} {} {}",
                one["id"],
                one["parent_id"],
                one["name"].as_str().unwrap()
            )
        };
        all.iter().map(place).collect()
    }

    /// Undoes every change of the job, newest first.
    pub(super) async fn undo_all(&self) {
        for change in self.changes().await {
            if change["actor"] == "embedded" && change["undone_at"].is_null() {
                assert_done(&self.undo(change["id"].as_i64().unwrap()).await);
            }
        }
    }
}

/// A leaf with chunks of two sources about two things.
pub async fn fill(setup: &Setup, leaf: &[&str], each: usize) {
    let library = Library::at(&setup.ingest.app.database.url).await;
    for (name, about) in [
        (
            "heating",
            "The plumber repaired the boiler and the radiators of room",
        ),
        (
            "travel",
            "We booked a flight to the island and a hotel for night",
        ),
    ] {
        let texts: Vec<String> = (0..each).map(|at| format!("{about} {at}.")).collect();
        let chunks: Vec<(&[&str], &str)> = texts.iter().map(|text| (leaf, text.as_str())).collect();
        let path = format!("/{}/{name}.txt", leaf.join("-"));
        library.add(&path, &chunks).await;
    }
    library.store.close().await;
}

#[tokio::test]
async fn the_embedded_model_keeps_leaves_small_on_its_own() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [
            ("LLM__MODEL", "local:embedded"),
            ("TAXONOMY__LEAF_TARGET", "6"),
        ];
        let setup = Setup::with(database, &settings).await;
        let items: Vec<Value> = (0..40)
            .map(|at| {
                let about = ["The boiler of flat", "The radiator in flat"][at % 2];
                json!({"text": format!("{about} {at} was repaired by the plumber."), "filename": format!("{at}.md")})
            })
            .collect();
        let body = json!({"items": items});
        let reply = setup.ingest.app.post("/v1/ingestions/batch", &body).await;
        assert!(reply.status.is_success(), "{engine:?}: {}", reply.text);
        for job in setup.ingest.list("/v1/jobs?kind=ingestion").await {
            setup.ingest.finished(job["id"].as_str().unwrap()).await;
        }

        let jobs = setup.balanced().await;
        let splits: i64 = jobs
            .iter()
            .map(|job| job["result"]["splits"].as_i64().unwrap())
            .sum();
        assert!(splits > 0, "{engine:?}: {jobs:#?}");
        assert!(setup.largest().await <= 12, "{engine:?}");
        setup.assert_sound().await;

        let changes = setup.changes().await;
        let split: Vec<&Value> = changes
            .iter()
            .filter(|one| one["kind"] == "split")
            .collect();
        assert_eq!(i64::try_from(split.len()).unwrap(), splits, "{engine:?}");
        for change in split {
            assert_eq!(change["actor"], "embedded", "{engine:?}: {change}");
            assert_eq!(change["reason"], "it had more than 12 chunks", "{engine:?}");
        }
    }
}

#[tokio::test]
async fn a_language_model_gets_proposals_with_their_price() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::with(database, &SMALL[..1]).await;
        fill(&setup, &["Home", "Everything"], 20).await;
        setup.ingest_file("/a.md", &["Home/Everything"]).await;
        assert_eq!(setup.balanced().await, [] as [Value; 0], "{engine:?}");
        setup.ingest.model.clear();

        let reply = setup.ingest.app.get("/v1/categories/review").await;
        let found = assert_done(&reply);
        let full = found["items"].as_array().unwrap().iter();
        let full: Vec<&Value> = full.filter(|item| item["kind"] == "over_full").collect();
        assert_eq!(full.len(), 1, "{engine:?}: {found}");
        assert_eq!(full[0]["llm_calls"], 0, "{engine:?}");
        assert_eq!(full[0]["cost_usd"], 0.0, "{engine:?}");
        assert_eq!(setup.paths("").await, ["Home/Everything 41"], "{engine:?}");

        let path = full[0]["apply"]["path"].as_str().unwrap();
        assert_done(&setup.post(path, &full[0]["apply"]["body"]).await);
        assert!(setup.largest().await < 41, "{engine:?}");
        assert_eq!(setup.changes().await[0]["actor"], "user", "{engine:?}");
        let asked = setup.ingest.model.requests();
        assert!(asked.is_empty(), "{engine:?}: no model is asked");
    }
}

#[tokio::test]
async fn what_the_job_did_can_be_undone_and_is_not_done_again() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::with(database, &SMALL).await;
        fill(&setup, &["Home", "Everything"], 20).await;
        let (before, time) = (setup.tree().await, setup.ingest.app.clock.now());
        let job = setup.ingest_file("/a.md", &["Home/Everything"]).await;

        let jobs = setup.balanced().await;
        assert_eq!(jobs.len(), 1, "{engine:?}: {jobs:#?}");
        assert_eq!(jobs[0]["result"]["left"], 0, "{engine:?}: {jobs:#?}");
        assert!(setup.largest().await <= 16, "{engine:?}");
        setup.assert_sound().await;
        let then = setup.tree_of(&format!("?as_of={time}")).await;
        assert_eq!(then, before, "{engine:?}");

        setup.undo_all().await;
        assert_eq!(setup.paths("").await, ["Home/Everything 41"], "{engine:?}");
        setup.assert_sound().await;
        let path = format!("/v1/sources/{}", source(&job));
        let erased = setup
            .send(reqwest::Method::DELETE, &path, &Value::Null)
            .await;
        assert!(erased.status.is_success(), "{engine:?}: {}", erased.text);
        assert_eq!(setup.tree().await, before, "{engine:?}");

        // Enough chunks for another job, which leaves alone what a person took back.
        setup.ingest_file("/b.md", &["Home/Everything"; 9]).await;
        let jobs = setup.balanced().await;
        assert!(jobs.len() > 1, "{engine:?}: {jobs:#?}");
        assert_eq!(jobs[0]["result"]["splits"], 0, "{engine:?}: {jobs:#?}");
        assert_eq!(setup.paths("").await, ["Home/Everything 49"], "{engine:?}");
    }
}

#[tokio::test]
async fn a_section_is_split_by_position_and_pinned_chunks_stay() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::with(database, &SMALL).await;
        let job = setup
            .ingest_file("/book.md", &["Novel/Chapter 1"; 15])
            .await;
        let chunks = setup.chunks(&job).await;
        let leaf = setup.id("Chapter 1").await;
        assert_done(&setup.move_chunk(chunks[14], leaf).await);
        assert_eq!(setup.balanced().await, [] as [Value; 0], "{engine:?}");

        let job = setup
            .ingest_file("/book.md", &["Novel/Chapter 1"; 20])
            .await;
        let jobs = setup.balanced().await;
        assert_eq!(jobs[0]["result"]["splits"], 1, "{engine:?}: {jobs:#?}");
        let chunks = setup.ingest.chunks(&job).await;
        let mut of_leaf: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for chunk in &chunks {
            let leaf = chunk["category_path"][1].as_str().unwrap();
            let ordinal = chunk["ordinal"].as_i64().unwrap();
            of_leaf.entry(leaf).or_default().push(ordinal);
        }
        // The chunk with the text of the pinned one stays where a person has put it.
        assert!(
            of_leaf["Chapter 1"].contains(&15),
            "{engine:?}: {of_leaf:?}"
        );
        let second = &of_leaf["Chapter 1 (2)"];
        let third = &of_leaf["Chapter 1 (3)"];
        assert!(second.last() < third.first(), "{engine:?}: {of_leaf:?}");
        assert_eq!(of_leaf.len(), 3, "{engine:?}: {of_leaf:?}");

        // A later version uses the leaves that the earlier one leaves empty.
        setup
            .ingest_file("/book.md", &["Novel/Chapter 1"; 21])
            .await;
        setup.balanced().await;
        let leaves = setup.paths("").await;
        assert_eq!(leaves.len(), 3, "{engine:?}: {leaves:?}");
        assert!(setup.largest().await <= 16, "{engine:?}: {leaves:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn a_parent_with_many_children_is_split() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [
            ("TAXONOMY__HIERARCHY_DEPTH", "3"),
            ("TAXONOMY__CHILDREN_TARGET", "5"),
            ("TAXONOMY__AUTO_CARE", "always"),
        ];
        let setup = Setup::with(database, &settings).await;
        let library = Library::at(&setup.ingest.app.database.url).await;
        for at in 0..14 {
            let about = ["Boiler repair", "Hotel booking"][at % 2];
            let (leaf, text) = (format!("{about} {at}"), format!("About the {about} {at}."));
            let path = ["Life", "Everything", leaf.as_str()];
            library.add(&format!("/{at}.txt"), &[(&path, &text)]).await;
        }
        library.store.close().await;
        let (before, time) = (setup.tree().await, setup.ingest.app.clock.now());

        setup.ingest_file("/a.md", &["Life/Everything/Cat"]).await;
        let jobs = setup.balanced().await;
        assert_eq!(jobs[0]["result"]["left"], 0, "{engine:?}: {jobs:#?}");
        let children = "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM categories \
                        WHERE level = 3 AND closed_at IS NULL GROUP BY parent_id) a";
        assert!(
            count(&setup.ingest.app.database, children).await <= 10,
            "{engine:?}"
        );
        let then = setup.tree_of(&format!("?as_of={time}")).await;
        assert_eq!(then, before, "{engine:?}");

        // A text that was classified before the split finds its leaf.
        let path = "Life/Everything/Hotel booking 13";
        let found = setup.ingest_file("/b.md", &[path]).await;
        assert_eq!(
            found["result"]["categories_created"], 0,
            "{engine:?}: {found:#}"
        );

        setup.undo_all().await;
        let (mut now, then) = (
            setup.places("").await,
            setup.places(&format!("?as_of={time}")).await,
        );
        now.retain(|place| !place.ends_with("Cat"));
        assert_eq!(now, then, "{engine:?}");
    }
}

#[tokio::test]
async fn level_1_is_merged_until_it_is_short() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [
            ("TAXONOMY__CHILDREN_TARGET", "4"),
            ("TAXONOMY__AUTO_CARE", "always"),
        ];
        let setup = Setup::with(database, &settings).await;
        let first = [
            "Cooking/Bread",
            "Astronomy/Comets",
            "Law/Courts",
            "Music/Cello",
        ];
        setup.ingest_file("/a.md", &first).await;
        assert_eq!(setup.balanced().await, [] as [Value; 0], "{engine:?}");
        let cooking = setup.id("Cooking").await;
        assert_done(&setup.rename(cooking, "Kitchen").await);

        setup
            .ingest_file("/b.md", &["Recipes/Soup", "Baking/Cakes"])
            .await;
        let jobs = setup.balanced().await;
        assert_eq!(jobs[0]["result"]["merges"], 2, "{engine:?}: {jobs:#?}");
        let names = setup.ingest.names(1).await;
        assert_eq!(names.len(), 4, "{engine:?}: {names:?}");
        // A person named it.
        assert!(
            names.contains(&"Kitchen".to_owned()),
            "{engine:?}: {names:?}"
        );
        setup.assert_sound().await;

        setup.undo_all().await;
        let names = setup.ingest.names(1).await;
        assert_eq!(names.len(), 6, "{engine:?}: {names:?}");
        setup.ingest_file("/c.md", &["Painting/Oil"]).await;
        let changes = setup.changes().await;
        setup.balanced().await;
        let merged = |one: &Value| (one["from_id"].clone(), one["to_id"].clone());
        let undone = changes.iter().filter(|one| !one["undone_at"].is_null());
        let undone: Vec<_> = undone.map(merged).collect();
        for change in setup.changes().await {
            let is_again = change["undone_at"].is_null() && undone.contains(&merged(&change));
            assert!(!is_again, "{engine:?}: {change}");
        }
    }
}

#[tokio::test]
async fn what_a_limit_forbids_is_listed_for_review() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [&SMALL[..], &[("TAXONOMY__MAX_CHILDREN", "2")]].concat();
        let setup = Setup::with(database, &settings).await;
        fill(&setup, &["Home", "Everything"], 20).await;
        setup
            .ingest_file("/a.md", &["Home/Everything", "Home/Roof"])
            .await;

        let jobs = setup.balanced().await;
        assert_eq!(jobs[0]["result"]["splits"], 0, "{engine:?}: {jobs:#?}");
        assert_eq!(jobs[0]["result"]["left"], 1, "{engine:?}: {jobs:#?}");
        let reply = setup.ingest.app.get("/v1/categories/review").await;
        let found = assert_done(&reply);
        let mut items = found["items"].as_array().unwrap().iter();
        let item = items.find(|item| item["kind"] == "over_full").unwrap();
        let evidence = item["evidence"].as_str().unwrap();
        assert!(
            evidence.contains("taxonomy.max_children"),
            "{engine:?}: {evidence}"
        );
        let path = item["apply"]["path"].as_str().unwrap();
        let reply = setup.post(path, &item["apply"]["body"]).await;
        reply.assert_problem(422, "category_limit");
    }
}

#[tokio::test]
async fn texts_that_arrive_meanwhile_are_filed_and_counted() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::with(database, &SMALL).await;
        fill(&setup, &["Home", "Everything"], 30).await;
        let arriving = (0..12).map(|at| {
            let setup = &setup;
            async move {
                let path = format!("/{at}.md");
                setup
                    .ingest_file(&path, &["Home/Everything", "Home/Roof"])
                    .await
            }
        });
        futures_util::future::join_all(arriving).await;

        setup.balanced().await;
        setup.assert_sound().await;
        assert!(setup.largest().await <= 16, "{engine:?}");
        let chunks = "SELECT COUNT(*) FROM chunks WHERE profile = 'taxonomy'";
        assert_eq!(
            count(&setup.ingest.app.database, chunks).await,
            84,
            "{engine:?}"
        );
    }
}

#[tokio::test]
async fn a_cancelled_job_leaves_whole_changes_and_can_be_resumed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::with(database, &SMALL).await;
        for at in 0..10 {
            fill(&setup, &["Home", &format!("Everything {at}")], 20).await;
        }
        setup.ingest_file("/a.md", &["Home/Everything 0"]).await;
        while setup.changes().await.is_empty() {
            tokio::task::yield_now().await;
        }

        let jobs = setup.ingest.list("/v1/jobs?kind=balance").await;
        let id = jobs[0]["id"].as_str().unwrap();
        let cancelled = setup
            .post(&format!("/v1/jobs/{id}/cancel"), &Value::Null)
            .await;
        assert!(
            cancelled.status.is_success(),
            "{engine:?}: {}",
            cancelled.text
        );
        let job = setup.ingest.finished(id).await;
        assert_eq!(job["state"], "cancelled", "{engine:?}");
        let made = setup.changes().await.len();
        setup.assert_sound().await;
        assert!(setup.largest().await > 16, "{engine:?}: {made}");

        let job = setup.ingest.retry(&job).await;
        assert_eq!(job["state"], "succeeded", "{engine:?}: {job:#}");
        let splits = i64::try_from(setup.changes().await.len()).unwrap();
        assert_eq!(job["result"]["splits"], splits, "{engine:?}: {job:#}");
        assert!(setup.largest().await <= 16, "{engine:?}");
        setup.assert_sound().await;
    }
}
