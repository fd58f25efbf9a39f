//! Names of leaves: short texts on one subject share a leaf that is named after what they have in common,
//! chapters are named with their volume, and versions stay with their project.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

const TYRES: [(&str, &str); 3] = [
    (
        "/hamburg-appointment.txt",
        "The garage puts on the winter tyres on 4 November at nine. The tread is still 5 mm.",
    ),
    (
        "/slow-leak.txt",
        "The rear left tyre of the car lost air again. There was a nail in the tread.",
    ),
    (
        "/order-4471.txt",
        "Ordered four summer tyres for the car, 205/55, the garage stores the wheels.",
    ),
];

async fn ingest(app: &TestApp, path: &str, text: &str) {
    let body = json!({"text": text, "path": path, "wait": true});
    let reply = app.post("/v1/ingestions", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["state"], "succeeded", "{}", reply.text);
}

/// The names of the categories on a level, in the order of their creation.
async fn names(app: &TestApp, level: u32) -> Vec<String> {
    let list = app
        .get(&format!("/v1/categories?level={level}&limit=500"))
        .await;
    let items = list.json()["items"].clone();
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    items.as_array().unwrap().iter().map(name).collect()
}

fn key(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.collect::<String>().to_lowercase()
}

#[tokio::test]
async fn notes_on_one_subject_share_a_leaf_that_has_no_title_of_theirs() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[]).await;
        for (path, text) in TYRES {
            ingest(&app, path, text).await;
        }

        let leaves = names(&app, 3).await;
        let [leaf] = leaves.as_slice() else {
            panic!("{engine:?}: {leaves:?}");
        };
        assert!(
            (1..=4).contains(&leaf.split(' ').count()),
            "{engine:?}: {leaf}"
        );
        for (path, _) in TYRES {
            let title = key(path.trim_end_matches(".txt"));
            assert_ne!(key(leaf), title, "{engine:?}");
        }
    }
}

#[tokio::test]
async fn chapters_that_are_counted_in_each_volume_are_named_with_it() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[]).await;
        let body = "\"You came late,\" she said to him, and he took his hat from her table. ";
        let chapter = |number: &str| format!("CHAPTER {number}\n\n\n{}\n\n", body.repeat(700));
        let volume = |number: &str| format!("VOLUME {number}\n\n{}{}", chapter("I"), chapter("II"));
        let novel = format!("{}{}", volume("I"), volume("II"));
        ingest(&app, "/novel.txt", &novel).await;

        let mut leaves = names(&app, 3).await;
        leaves.sort();
        let wanted = [
            "Volume I, Chapter I",
            "Volume I, Chapter II",
            "Volume II, Chapter I",
            "Volume II, Chapter II",
        ];
        assert_eq!(leaves, wanted, "{engine:?}");
    }
}

#[tokio::test]
async fn changelogs_of_two_projects_share_no_version() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[]).await;
        let change = "- Fixed a crash when the connection is closed twice.\n".repeat(60);
        for project in ["harbour", "lantern"] {
            let log = format!("# Changelog\n\n## [0.8.0]\n\n{change}\n## [0.7.0]\n\n{change}");
            ingest(&app, &format!("/{project}/CHANGELOG.md"), &log).await;
        }

        let mut projects = names(&app, 2).await;
        projects.sort();
        let wanted = ["Harbour changelog", "Lantern changelog"];
        assert_eq!(projects, wanted, "{engine:?}");
        let mut versions = names(&app, 3).await;
        versions.sort();
        assert_eq!(versions, ["0.7.0", "0.7.0", "0.8.0", "0.8.0"], "{engine:?}");
    }
}
