//! Dry runs say what the operation then does, and change nothing; a repeated request with an idempotency key
//! is carried out once.

use reqwest::Method;
use serde_json::{Value, json};

use super::reviewing::fill;
use super::{Setup, assert_done};
use crate::support::app::{Reply, send};
use crate::support::database::TestDatabase;
use crate::support::library::Library;

#[tokio::test]
async fn a_dry_removal_says_what_would_change() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Work/Tax"];
        setup.ingest_file("/a.md", &paths).await;
        let (home, roof) = (setup.id("Home").await, setup.id("Roof").await);
        let (boiler, tax) = (setup.id("Boiler").await, setup.id("Tax").await);
        let before = setup.tree().await;

        let query = format!("?into={boiler}&dry_run=true");
        let would = assert_done(&setup.remove(roof, &query).await);
        let effect = json!([{"id": roof, "name": "Roof", "effect": "merged", "into_id": boiler}]);
        assert_eq!(would["categories"], effect, "{engine:?}");
        assert_eq!(would["chunks_moved"], 1, "{engine:?}");
        assert_eq!(would["dry_run"], true, "{engine:?}");
        assert_eq!(would["change"], Value::Null, "{engine:?}");

        // What the operation refuses, the dry run refuses as well.
        let kept = setup.remove(home, "?dry_run=true").await;
        kept.assert_problem(409, "category_not_empty");
        let level = format!("?into={home}&dry_run=true");
        let level = setup.remove(tax, &level).await;
        level.assert_problem(422, "invalid_request");
        let unclear = setup.remove(roof, "?dry_run=perhaps").await;
        unclear.assert_problem(422, "invalid_request");
        assert_eq!(setup.tree().await, before, "{engine:?}");
        assert_eq!(setup.changes().await, [] as [Value; 0], "{engine:?}");

        let query = format!("?into={boiler}&dry_run=false");
        assert_eq!(setup.remove(roof, &query).await.status, 204, "{engine:?}");
        let paths = ["Home/Boiler 2", "Work/Tax 1"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
    }
}

#[tokio::test]
async fn a_chunk_is_shown_where_it_would_be() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let job = setup
            .ingest_file("/a.md", &["Home/Boiler", "Work/Tax"])
            .await;
        let chunk = setup.chunks(&job).await[0];
        let (home, tax) = (setup.id("Home").await, setup.id("Tax").await);
        let before = setup.tree().await;
        let path = format!("/v1/chunks/{chunk}");
        let shift = async |body: Value| setup.send(Method::PATCH, &path, &body).await;

        let body = json!({"category_id": tax, "dry_run": true});
        let would = assert_done(&shift(body).await);
        assert_eq!(would["category_id"], tax, "{engine:?}");
        assert_eq!(would["category_path"], json!(["Work", "Tax"]), "{engine:?}");
        let inner = json!({"category_id": home, "dry_run": true});
        shift(inner).await.assert_problem(422, "not_a_leaf");
        assert_eq!(setup.tree().await, before, "{engine:?}");
        assert_eq!(setup.changes().await, [] as [Value; 0], "{engine:?}");

        let body = json!({"category_id": tax});
        let is = assert_done(&shift(body).await);
        assert_eq!(is, would, "{engine:?}");
        assert_eq!(setup.paths("").await, ["Home/Boiler 0", "Work/Tax 2"]);
    }
}

#[tokio::test]
async fn a_dry_undo_says_what_would_change_and_a_body_is_optional() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof"];
        setup.ingest_file("/a.md", &paths).await;
        let (roof, boiler) = (setup.id("Roof").await, setup.id("Boiler").await);
        assert_done(&setup.merge(roof, boiler).await);
        let merged = setup.tree().await;
        let change = setup.changes().await[0]["id"].as_i64().unwrap();
        let path = format!("/v1/categories/changes/{change}/undo");

        let would = assert_done(&setup.post(&path, &json!({"dry_run": true})).await);
        assert_eq!(setup.tree().await, merged, "{engine:?}");
        assert_eq!(
            setup.changes().await[0]["undone_at"],
            Value::Null,
            "{engine:?}"
        );
        for (body, status, code) in [
            (json!({"dry_run": "yes"}), 422, "invalid_request"),
            (json!({"dryrun": true}), 422, "invalid_request"),
            (json!([]), 422, "invalid_request"),
        ] {
            let reply = setup.post(&path, &body).await;
            reply.assert_problem(status, code);
        }
        let request = setup.ingest.app.request(Method::POST, &path);
        let plain = send(request.body("dry_run")).await;
        plain.assert_problem(415, "unsupported_media_type");
        assert_eq!(setup.tree().await, merged, "{engine:?}");

        let done = assert_done(&setup.undo(change).await);
        assert_eq!(would["categories"], done["categories"], "{engine:?}");
        assert_eq!(would["chunks_moved"], 1, "{engine:?}");
        assert_eq!(would["dry_run"], true, "{engine:?}");
        assert_eq!(would["change"], Value::Null, "{engine:?}");

        for body in [json!({}), Value::Null] {
            let body = body.to_string();
            assert_done(&setup.merge(roof, boiler).await);
            let change = &setup.changes().await[0]["id"];
            let path = format!("/v1/categories/changes/{change}/undo");
            let request = setup.ingest.app.request(Method::POST, &path);
            let request = request.header("content-type", "application/json");
            assert_done(&send(request.body(body)).await);
        }
        assert_eq!(setup.paths("").await, ["Home/Boiler 1", "Home/Roof 1"]);
    }
}

#[tokio::test]
async fn a_dry_split_of_a_parent_names_no_category_that_it_would_create() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [
            ("TAXONOMY__HIERARCHY_DEPTH", "3"),
            ("TAXONOMY__CHILDREN_TARGET", "5"),
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

        let (life, parent) = (setup.id("Life").await, setup.id("Everything").await);
        let path = format!("/v1/categories/{parent}/split");
        let would = assert_done(&setup.post(&path, &json!({"dry_run": true})).await);
        for effect in would["categories"].as_array().unwrap() {
            let (id, into) = (&effect["id"], &effect["into_id"]);
            let is_created = effect["effect"] == "created";
            assert_eq!(id.is_null(), is_created, "{engine:?}: {effect}");
            let wanted = if is_created { json!(life) } else { Value::Null };
            assert_eq!(*into, wanted, "{engine:?}: {effect}");
        }
        assert!(would.to_string().contains("moved"), "{engine:?}: {would}");
    }
}

/// Sends a request with the idempotency key `once`.
async fn keyed(setup: &Setup, path: &str, body: &Value) -> Reply {
    setup.wait();
    let request = setup.ingest.app.request(Method::POST, path);
    send(request.header("idempotency-key", "once").json(body)).await
}

#[tokio::test]
async fn a_repeated_request_with_a_key_is_carried_out_once() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Work/Tax", "Work/Lawn"];
        setup.ingest_file("/a.md", &paths).await;
        let (roof, boiler) = (setup.id("Roof").await, setup.id("Boiler").await);
        let lawn = setup.id("Lawn").await;
        let path = format!("/v1/categories/{roof}/merge");

        // Neither a dry run nor a refused request uses up the key.
        let would = keyed(&setup, &path, &json!({"into": boiler, "dry_run": true})).await;
        assert_done(&would);
        let wrong = keyed(&setup, &path, &json!({"into": roof})).await;
        wrong.assert_problem(422, "invalid_request");

        let body = json!({"into": boiler});
        let first = keyed(&setup, &path, &body).await;
        let change = assert_done(&first)["change"]["id"].as_i64().unwrap();
        let again = keyed(&setup, &path, &body).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
        assert_eq!(again.header("idempotency-replayed"), "true", "{engine:?}");
        assert_eq!(setup.changes().await.len(), 1, "{engine:?}");

        // The key is for this category only.
        let other = format!("/v1/categories/{lawn}/merge");
        let other = keyed(&setup, &other, &body).await;
        other.assert_problem(422, "idempotency_key_reused");

        // The response stays the first one, also when the change is undone.
        assert_done(&setup.undo(change).await);
        let again = keyed(&setup, &path, &body).await;
        assert_eq!(again.text, first.text, "{engine:?}");
        let paths = ["Home/Boiler 1", "Home/Roof 1", "Work/Lawn 1", "Work/Tax 1"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn moves_splits_and_undoing_take_a_key_as_well() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        fill(&setup, 12).await;
        setup.ingest_file("/a.md", &["Work/Tax"]).await;
        let (leaf, work) = (setup.id("Everything").await, setup.id("Work").await);
        let repeated = async |path: &str, body: Value| {
            let first = keyed(&setup, path, &body).await;
            let done = assert_done(&first);
            assert!(done["change"]["id"].is_i64(), "{engine:?}: {done}");
            let again = keyed(&setup, path, &body).await;
            assert_eq!((again.status, &again.text), (first.status, &first.text));
            setup.ingest.app.clock.advance_seconds(24 * 60 * 60 + 1);
            done
        };

        let split = format!("/v1/categories/{leaf}/split");
        let split = repeated(&split, json!({})).await;
        let path = format!("/v1/categories/{leaf}/move");
        let moved = repeated(&path, json!({"parent_id": work})).await;
        for done in [moved, split] {
            let path = format!("/v1/categories/changes/{}/undo", done["change"]["id"]);
            repeated(&path, json!({})).await;
        }
        assert_eq!(setup.changes().await.len(), 2, "{engine:?}");
        setup.assert_sound().await;
    }
}

/// What `memoir categories` prints and says.
fn command(setup: &Setup, arguments: &str) -> String {
    let server = format!("http://{}", setup.ingest.app.address);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(["categories", "--server", &server])
        .args(arguments.split(' '))
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    let texts = [output.stdout, output.stderr].concat();
    String::from_utf8(texts).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_have_dry_runs_too() {
    let setup = Setup::on(TestDatabase::sqlite()).await;
    let paths = ["Home/Boiler", "Home/Roof"];
    let job = setup.ingest_file("/a.md", &paths).await;
    let chunk = setup.chunks(&job).await[0];
    let (roof, boiler) = (setup.id("Roof").await, setup.id("Boiler").await);
    let before = setup.tree().await;

    let removal = format!("rm {roof} --into {boiler}");
    let shown = command(&setup, &format!("{removal} --dry-run"));
    for words in ["nothing is changed", "Roof: merged into", "1 chunk goes"] {
        assert!(shown.contains(words), "{shown}");
    }
    let shown = command(&setup, &format!("move-chunk {chunk} {roof} --dry-run"));
    let would = format!("chunk {chunk} would be in Home / Roof");
    assert!(shown.contains(&would), "{shown}");
    assert_eq!(setup.tree().await, before);

    let shown = command(&setup, &removal);
    assert!(shown.contains("is removed"), "{shown}");
    let merged = setup.tree().await;
    let change = setup.changes().await[0]["id"].as_i64().unwrap();
    let shown = command(&setup, &format!("undo {change} --dry-run"));
    for words in ["nothing is changed", "Roof: reopened"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert_eq!(setup.tree().await, merged);
    let shown = command(&setup, &format!("undo {change}"));
    assert!(shown.contains("is undone"), "{shown}");
    assert_eq!(setup.tree().await, before);
}
