//! The balance at its limits: in a hierarchy of one level, and where a parent has no room left.

use std::time::Duration;

use serde_json::Value;

use super::balancing::{SMALL, fill};
use super::{Setup, assert_done};
use crate::support::database::TestDatabase;

/// The proposals of a kind.
async fn proposed(setup: &Setup, kind: &str) -> Vec<Value> {
    let found = setup.ingest.app.get("/v1/categories/review").await;
    let found = assert_done(&found);
    let items = found["items"].as_array().unwrap().iter();
    items.filter(|item| item["kind"] == kind).cloned().collect()
}

#[tokio::test]
async fn a_single_level_is_split_and_not_merged() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [
            ("TAXONOMY__HIERARCHY_DEPTH", "1"),
            ("TAXONOMY__CHILDREN_TARGET", "4"),
        ];
        let setup = Setup::with(database, &[&SMALL[..], &settings].concat()).await;
        fill(&setup, &["Everything"], 20).await;
        let paths = ["Cooking", "Astronomy", "Law", "Music", "Everything"];
        setup.ingest_file("/a.md", &paths).await;

        let jobs = tokio::time::timeout(Duration::from_mins(2), setup.balanced());
        let jobs = jobs.await.expect("the job ends");
        let result = &jobs[0]["result"];
        assert_eq!(result["merges"], 0, "{engine:?}: {jobs:#?}");
        assert_eq!(result["left"], 0, "{engine:?}: {jobs:#?}");
        assert!(result["splits"].as_i64() > Some(0), "{engine:?}: {jobs:#?}");
        assert!(setup.largest().await <= 16, "{engine:?}");
        let crowded = proposed(&setup, "too_many_children").await;
        assert_eq!(crowded, [] as [Value; 0], "{engine:?}");
    }
}

#[tokio::test]
async fn empty_leaves_of_a_full_parent_are_used_again() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [&SMALL[..], &[("TAXONOMY__MAX_CHILDREN", "3")]].concat();
        let setup = Setup::with(database, &settings).await;
        for chunks in [20, 21] {
            let paths = vec!["Novel/Chapter 1"; chunks];
            setup.ingest_file("/book.md", &paths).await;
            let jobs = setup.balanced().await;
            assert_eq!(jobs[0]["result"]["left"], 0, "{engine:?}: {jobs:#?}");
            let leaves = setup.paths("").await;
            assert_eq!(leaves.len(), 3, "{engine:?}: {leaves:?}");
            assert!(setup.largest().await <= 16, "{engine:?}: {leaves:?}");
            setup.assert_sound().await;
        }
    }
}

#[tokio::test]
async fn a_split_that_a_person_undid_is_not_proposed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::with(database, &SMALL).await;
        fill(&setup, &["Home", "Everything"], 20).await;
        setup.ingest_file("/a.md", &["Home/Everything"]).await;
        setup.balanced().await;
        setup.undo_all().await;
        assert!(setup.largest().await > 16, "{engine:?}");
        let full = proposed(&setup, "over_full").await;
        assert_eq!(full, [] as [Value; 0], "{engine:?}");
    }
}

#[tokio::test]
async fn merges_of_what_a_person_named_are_not_proposed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [("TAXONOMY__CHILDREN_TARGET", "4")];
        let setup = Setup::with(database, &settings).await;
        let names = ["Cooking", "Recipes", "Law", "Music", "Painting"];
        let paths = names.map(|name| format!("{name}/Leaf"));
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        setup.ingest_file("/a.md", &paths).await;
        let crowded = proposed(&setup, "too_many_children").await;
        assert_eq!(crowded.len(), 1, "{engine:?}: {crowded:?}");

        for name in names {
            let id = setup.id(name).await;
            assert_done(&setup.rename(id, &format!("{name} of mine")).await);
        }
        let crowded = proposed(&setup, "too_many_children").await;
        assert_eq!(crowded, [] as [Value; 0], "{engine:?}");
    }
}
