//! What limits of the hierarchy count, and what happens where a parent is full; and that short notes
//! share leaves, although nothing but the subject keeps them from having one each.

use std::collections::{BTreeMap, HashMap};

use memoir::config::{Config, Origin};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, document};
use crate::support::probes::Api;

/// The scope in force, and the limit of level 2, with these settings in a file and in the environment.
fn in_force(file: &Value, environment: &[(&str, &str)]) -> (String, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memoir.json");
    std::fs::write(&path, json!({ "taxonomy": file }).to_string()).unwrap();
    let environment: HashMap<String, String> = environment
        .iter()
        .map(|(name, value)| (format!("MEMOIR__TAXONOMY__{name}"), (*value).to_owned()))
        .collect();

    let config = Config::load(&Origin {
        file: Some(path),
        environment,
    });
    let config = config.unwrap();
    let shown = config.printable()["taxonomy"]["limit_scope"].clone();
    assert_eq!(shown, config.taxonomy.scope().into_str());
    (shown.as_str().unwrap().to_owned(), config.taxonomy.limit(2))
}

#[test]
fn limits_count_levels_only_if_a_limit_of_levels_is_set() {
    for (file, environment, scope, limit) in [
        (json!({}), &[][..], "parent", 200),
        (json!({"limit_scope": "auto"}), &[], "parent", 200),
        (json!({"max_children": 50}), &[], "parent", 50),
        (json!({}), &[("MAX_CHILDREN", "60")], "parent", 60),
        (json!({"hierarchy_depth": 2}), &[], "parent", 200),
        (json!({"max_categories_default": 128}), &[], "level", 128),
        (json!({"max_categories_default": 20}), &[], "level", 20),
        (
            json!({"max_categories_per_level": {"2": 7}}),
            &[],
            "level",
            7,
        ),
        (json!({}), &[("MAX_CATEGORIES_DEFAULT", "9")], "level", 9),
        (
            json!({}),
            &[("MAX_CATEGORIES_PER_LEVEL", r#"{"2": 5}"#)],
            "level",
            5,
        ),
        (
            json!({"max_children": 50}),
            &[("MAX_CATEGORIES_DEFAULT", "9")],
            "level",
            9,
        ),
        (json!({"limit_scope": "level"}), &[], "level", 128),
        (
            json!({"limit_scope": "level", "max_children": 9}),
            &[],
            "level",
            128,
        ),
        (
            json!({"max_categories_default": 20}),
            &[("LIMIT_SCOPE", "level")],
            "level",
            20,
        ),
        (
            json!({"limit_scope": "parent"}),
            &[("MAX_CHILDREN", "3")],
            "parent",
            3,
        ),
        // As `memoir config print` writes it.
        (
            json!({"limit_scope": "parent", "max_categories_default": 128}),
            &[],
            "parent",
            200,
        ),
    ] {
        let found = in_force(&file, environment);
        assert_eq!(found, (scope.to_owned(), limit), "{file} {environment:?}");
    }
}

#[test]
fn printed_settings_mean_the_same_when_they_are_read_again() {
    for given in [json!({}), json!({"max_categories_default": 20})] {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            let origin = Origin {
                file: Some(file),
                environment: HashMap::new(),
            };
            Config::load(&origin).unwrap()
        };

        let first = load("given.json", &json!({ "taxonomy": given }).to_string());
        let printed: toml::Table = toml::from_str(&first.to_toml()).unwrap();
        let taxonomy =
            toml::Table::from_iter([("taxonomy".to_owned(), printed["taxonomy"].clone())]);
        let again = load("printed.toml", &toml::to_string(&taxonomy).unwrap());
        assert_eq!(again.printable()["taxonomy"], first.printable()["taxonomy"]);
    }
}

/// The messages of a job about full parents.
fn full(job: &Value) -> Vec<&str> {
    let warnings = job["warnings"].as_array().unwrap().iter();
    warnings
        .filter(|warning| warning["code"] == "parent_full")
        .map(|warning| warning["message"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_full_parent_on_any_level_raises_a_warning() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &[("TAXONOMY__MAX_CHILDREN", "2")]).await;
        let file = async |path: &str| ingest.succeed(&document(&[path], &json!({}))).await;
        assert_eq!(full(&file("A/A1/x").await), [""; 0], "{engine:?}");

        // Level 3, then 2, then 1: the parent is filled, and then a text wants more.
        for (fills, forced, place) in [
            ("A/A1/y", "A/A1/z", r#"the category "A / A1""#),
            ("A/A2/x", "A/A3/x", r#"the category "A""#),
            ("B/B1/x", "C/C1/x", "level 1"),
        ] {
            let begins = format!("{place} has reached its limit of 2 categories; ");
            let filled = file(fills).await;
            let said = full(&filled);
            assert!(
                said.iter()
                    .any(|said| said.starts_with(&begins) && said.contains("new subjects")),
                "{engine:?} {fills}: {said:?}"
            );

            let job = file(forced).await;
            let said = full(&job);
            let wanted = format!("{begins}1 chunk of this source had to be filed");
            assert!(
                said.iter().any(|said| said.starts_with(&wanted) && said.contains("taxonomy.max_children")),
                "{engine:?} {forced}: {said:?}"
            );

            let listed = ingest.app.get("/v1/jobs?limit=1").await.json();
            assert_eq!(
                listed["items"][0]["warnings"], job["warnings"],
                "{engine:?}"
            );
        }

        let tree = ingest.app.get("/v1/categories/tree").await.json();
        assert_eq!(
            (&tree["limit_scope"], &tree["levels"][2]["limit"]),
            (&json!("parent"), &json!(2))
        );
        let parents = tree["full_parents"].as_array().unwrap();
        let root = json!({"id": null, "path": [], "categories": 2, "limit": 2});
        assert!(parents.contains(&root), "{engine:?}: {parents:?}");
        assert!(
            parents
                .iter()
                .any(|parent| parent["path"] == json!(["A", "A1"]) && parent["id"].is_i64()),
            "{engine:?}: {parents:?}"
        );
    }
}

/// Notes of a household as JSON bodies, with the subject of each: three sentences, most with a title.
fn notes() -> Vec<(String, Value)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/household.json");
    let subjects: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut notes = Vec::new();
    for number in 0..10 {
        for subject in &subjects {
            let title = subject["titles"][number].as_str().unwrap();
            let sentence = |at: usize| {
                subject["sentences"][(2 * number + 5 * at) % 12]
                    .as_str()
                    .unwrap()
            };
            let text = format!(
                "# {title}\n\n{} {} {}\n",
                sentence(0),
                sentence(1),
                sentence(2)
            );
            let name = subject["subject"].as_str().unwrap();
            let path = format!("/notes/{name}-{number}.md");
            notes.push((name.to_owned(), json!({"text": text, "path": path})));
        }
    }

    notes
}

/// The subject of a note by the path of its source.
fn subject(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap();
    name.split('-').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn short_notes_share_leaves_by_subject() {
    let app = TestApp::with(&[]).await;
    let api = Api::at(app.address);
    let notes = notes();
    assert_eq!(notes.len(), 250);
    for some in notes.chunks(25) {
        let items: Vec<&Value> = some.iter().map(|(_, body)| body).collect();
        let queued = app
            .post("/v1/ingestions/batch", &json!({ "items": items }))
            .await;
        assert_eq!(queued.status, 202, "{}", queued.text);
        for job in queued.json()["jobs"].as_array().unwrap() {
            let job = api
                .finished("default", job["job_id"].as_str().unwrap())
                .await;
            assert_eq!(job["state"], "succeeded", "{job:#}");
        }
    }

    let mut leaves: BTreeMap<i64, BTreeMap<String, usize>> = BTreeMap::new();
    let sources = app.get("/v1/sources?limit=500").await.json();
    for source in sources["items"].as_array().unwrap() {
        let chunks = app
            .get(&format!(
                "/v1/sources/{}/chunks",
                source["id"].as_str().unwrap()
            ))
            .await
            .json();
        let subject = subject(source["path"].as_str().unwrap());
        for chunk in chunks["items"].as_array().unwrap() {
            let leaf = chunk["category_id"].as_i64().unwrap();
            *leaves
                .entry(leaf)
                .or_default()
                .entry(subject.clone())
                .or_default() += 1;
        }
    }

    let most = |held: &BTreeMap<String, usize>| held.values().copied().max().unwrap();
    let pure: usize = leaves.values().map(most).sum();
    let (number, all) = (leaves.len(), notes.len());
    assert!(number <= all / 2, "{number} leaves for {all} notes");
    assert!(
        pure * 10 >= all * 9,
        "{pure} of {all} notes are among their own"
    );
}
