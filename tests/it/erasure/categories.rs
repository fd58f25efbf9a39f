//! Categories: those without a chunk go, and a shared one keeps only a name that others explain.

use memoir::scripted_model::Reply as ModelReply;
use reqwest::Method;
use serde_json::{Value, json};

use super::{MARK, all_noted, assert_gone, delete};
use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, ids, source};

const FLAT: &[(&str, &str)] = &[("TAXONOMY__HIERARCHY_DEPTH", "1")];

/// Files every chunk under one category.
async fn filing(database: TestDatabase, category: &str) -> Ingest {
    let ingest = Ingest::on(database, FLAT).await;
    all_noted(&ingest.app).await;
    let category = category.to_owned();
    ingest.model.set_rule(move |seen| {
        if seen.stage != "classify" {
            return ModelReply::sensible(seen);
        }

        let each = ids(seen)
            .into_iter()
            .map(|id| json!({"id": id, "category": category}));
        ModelReply::json(json!({"chunks": each.collect::<Vec<_>>()}))
    });
    ingest
}

#[tokio::test]
async fn a_category_without_a_chunk_goes_with_its_former_names() {
    for database in TestDatabase::each().await {
        let ingest = filing(database, &format!("{MARK} boats")).await;
        let body = json!({"text": format!("A boat of {MARK}."), "path": "/a.md"});
        let job = ingest.succeed(&body).await;
        let id = ingest.list("/v1/categories").await[0]["id"].clone();
        let rename = ingest
            .app
            .request(Method::PATCH, &format!("/v1/categories/{id}"));
        let renamed = send(rename.json(&json!({"name": "Boats"}))).await;
        assert_eq!(renamed.status, 200, "{}", renamed.text);

        let receipt = delete(&ingest.app, &format!("/v1/sources/{}", source(&job))).await;
        let rows = &receipt["rows"];
        let one = json!(1);
        assert_eq!(
            [
                &rows["categories"],
                &rows["category_changes"],
                &rows["category_aliases"]
            ],
            [&one, &one, &one],
            "{receipt}"
        );
        assert_eq!(ingest.names(1).await, Vec::<String>::new());
        assert_gone(&ingest.app, MARK).await;
    }
}

#[tokio::test]
async fn a_shared_leaf_is_renamed_if_only_deleted_text_explains_its_name() {
    for database in TestDatabase::each().await {
        let name = format!("{MARK} lamps");
        let ingest = filing(database, &name).await;
        let body = json!({"text": format!("A lamp from {MARK} hangs here."), "path": "/a.md"});
        let first = ingest.succeed(&body).await;
        let body = json!({"text": "The lamps of the quay burn oil.", "path": "/lamps.md"});
        let second = ingest.succeed(&body).await;
        assert_eq!(ingest.names(1).await, [name]);
        let question =
            json!({"query": "Which lamps burn oil?", "strategy": "one_shot", "mode": "retrieve"});
        let question = with_source(question, source(&second));
        let asked = ingest.app.post("/v1/queries", &question).await.json();
        assert!(asked.to_string().contains(MARK), "{asked:#}");

        delete(&ingest.app, &format!("/v1/sources/{}", source(&first))).await;
        assert_eq!(ingest.names(1).await, ["Lamps"]);
        let changes = ingest.list("/v1/categories/changes").await;
        assert_eq!(changes, Vec::<Value>::new());
        assert_gone(&ingest.app, MARK).await;
        assert_eq!(ingest.chunks(&second).await.len(), 1);
    }
}

#[tokio::test]
async fn moves_of_a_category_that_stays_can_still_be_undone() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let name = format!("{MARK} lamps");
        let ingest = filing(database, &name).await;
        let body = json!({"text": format!("A lamp from {MARK} hangs here."), "path": "/a.md"});
        let first = ingest.succeed(&body).await;
        let body = json!({"text": "The lamps of the quay burn oil.", "path": "/lamps.md"});
        let second = ingest.succeed(&body).await;
        let lamps = ingest.list("/v1/categories").await[0]["id"].clone();
        let body = json!({"name": "Oil"});
        let oil = ingest.app.post("/v1/categories", &body).await.json()["id"].clone();
        let chunk = ingest.chunks(&second).await[0]["chunk_id"].clone();
        for leaf in [&oil, &lamps] {
            ingest.app.clock.advance_seconds(1);
            let path = format!("/v1/chunks/{chunk}");
            let request = ingest.app.request(Method::PATCH, &path);
            let moved = send(request.json(&json!({"category_id": leaf}))).await;
            assert_eq!(moved.status, 200, "{engine:?}: {}", moved.text);
        }

        delete(&ingest.app, &format!("/v1/sources/{}", source(&first))).await;
        assert_gone(&ingest.app, MARK).await;
        let changes = ingest.list("/v1/categories/changes").await;
        let kinds: Vec<&Value> = changes.iter().map(|change| &change["kind"]).collect();
        assert_eq!(kinds, ["move_chunk", "move_chunk"], "{engine:?}");
        let last = &changes[0]["id"];

        let undo = format!("/v1/categories/changes/{last}/undo");
        let undone = send(ingest.app.request(Method::POST, &undo)).await;
        assert_eq!(undone.status, 200, "{engine:?}: {}", undone.text);
        let chunks = ingest.list(&format!("/v1/categories/{oil}/chunks")).await;
        assert_eq!(chunks[0]["chunk_id"], chunk, "{engine:?}");
    }
}

/// Limits a query to a source, so that it uses nothing of the other.
fn with_source(mut question: Value, id: &str) -> Value {
    question["source_ids"] = json!([id]);
    question
}

#[tokio::test]
async fn a_name_stays_if_other_texts_explain_it_or_a_user_gave_it() {
    let ingest = filing(TestDatabase::sqlite(), "Harbour lamps").await;
    let body = |text: &str, path: &str| json!({"text": text, "path": path});
    let first = ingest
        .succeed(&body("A lamp of the harbour.", "/a.md"))
        .await;
    ingest
        .succeed(&body("Two lamps light the harbour.", "/b.md"))
        .await;
    delete(&ingest.app, &format!("/v1/sources/{}", source(&first))).await;
    assert_eq!(ingest.names(1).await, ["Harbour lamps"]);

    let third = ingest
        .succeed(&body(&format!("The {MARK} lamp."), "/c.md"))
        .await;
    let id = ingest.list("/v1/categories").await[0]["id"].clone();
    let rename = ingest
        .app
        .request(Method::PATCH, &format!("/v1/categories/{id}"));
    let name = format!("Lamps by {MARK}");
    send(rename.json(&json!({"name": name}))).await;
    delete(&ingest.app, &format!("/v1/sources/{}", source(&third))).await;
    assert_eq!(ingest.names(1).await, [name]);
}
