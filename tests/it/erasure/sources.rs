//! Sources: everything that quotes one is emptied, for whoever holds it.

use memoir::model::erasure::SubjectKind;
use serde_json::{Value, json};

use super::{MARK, all_noted, assert_gone, delete, hash, holders, ingest, keyed, marked_text};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::probes::Api;

/// Asks about the mark, in words that it does not contain, and keeps everything that can be kept.
async fn ask(app: &TestApp) -> (Value, String) {
    let question = json!({"query": "Who lights the lamp of the lighthouse?", "mode": "answer"});
    let answered = keyed(app, "asked", "/v1/queries", &question).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert!(answered.text.contains(MARK), "{}", answered.text);

    let mut later = question.clone();
    later["wait"] = json!(false);
    let queued = app.post("/v1/queries", &later).await.json();
    let job = queued["id"].as_str().unwrap().to_owned();
    let job_done = Api::at(app.address).finished("default", &job).await;
    assert_eq!(job_done["state"], "succeeded", "{job_done:#}");
    assert!(job_done["result"].to_string().contains(MARK));
    (answered.json(), job)
}

async fn check(noted: bool) {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        if noted {
            all_noted(&app).await;
        }

        let body = json!({"text": "The ferry leaves the harbour at noon.", "path": "/ferry.md"});
        let other = ingest(&app, &body).await;
        let source = ingest(&app, &marked_text("ann")).await;
        let (answered, job) = ask(&app).await;
        assert!(!holders(&app.database, MARK).await.is_empty());

        let receipt = delete(&app, &format!("/v1/sources/{source}")).await;
        assert_eq!(
            (&receipt["kind"], &receipt["sources"]),
            (&json!("source"), &json!(1)),
            "{receipt}"
        );
        assert_eq!(
            receipt["subject_sha256"],
            hash(SubjectKind::Source, &source)
        );
        for table in [
            "sources",
            "source_versions",
            "chunks",
            "search_entries",
            "queries",
            "categories",
        ] {
            assert!(
                receipt["rows"][table].as_u64() > Some(0),
                "{table}: {receipt}"
            );
        }
        assert_gone(&app, MARK).await;

        // Other callers keep ids and numbers.
        let id = answered["id"].as_str().unwrap();
        let kept = app.get(&format!("/v1/queries/{id}")).await.json();
        assert_eq!(
            (&kept["state"], &kept["query"], &kept["mode"]),
            (&json!("erased"), &json!(""), &json!("answer")),
            "{kept:#}"
        );
        let used = &answered["used_chunks"][0]["chunk_id"];
        assert_eq!(kept["used_chunk_ids"][0], *used, "{kept:#}");
        let replay = format!("/v1/queries/{id}/replay");
        let body = json!({});
        app.post(&replay, &body).await.assert_problem(410, "erased");
        let question = json!({"query": "Who lights the lamp of the lighthouse?", "mode": "answer"});
        let again = keyed(&app, "asked", "/v1/queries", &question).await;
        again.assert_problem(410, "erased");
        let job = app.get(&format!("/v1/jobs/{job}")).await.json();
        assert_eq!(
            (&job["state"], &job["result"], &job["phase"]),
            (&json!("succeeded"), &Value::Null, &json!("erased")),
            "{job:#}"
        );

        // A new key asks again, and the other source is untouched.
        let anew = keyed(&app, "asked-anew", "/v1/queries", &question).await;
        assert!(!anew.text.contains(MARK));
        let path = format!("/v1/sources/{other}");
        assert_eq!(app.get(&path).await.status, 200);
        app.finish().await;
    }
}

#[tokio::test]
async fn a_deleted_source_leaves_nothing_of_its_text() {
    check(true).await;
}

/// Receipts and responses of earlier builds do not note whose text they hold.
#[tokio::test]
async fn a_deleted_source_leaves_nothing_in_what_earlier_builds_stored() {
    check(false).await;
}

#[tokio::test]
async fn a_receipt_that_used_other_texts_is_untouched() {
    let app = TestApp::spawn().await;
    all_noted(&app).await;
    let ferry =
        json!({"text": "The ferry leaves the harbour at noon on Mondays.", "path": "/ferry.md"});
    ingest(&app, &ferry).await;
    let question = json!({"query": "When does the ferry leave the harbour?", "mode": "answer"});
    let answered = keyed(&app, "ferry", "/v1/queries", &question).await;
    let source = ingest(&app, &marked_text("ann")).await;
    delete(&app, &format!("/v1/sources/{source}")).await;

    let again = keyed(&app, "ferry", "/v1/queries", &question).await;
    assert_eq!(again.text, answered.text);
    let id = answered.json()["id"].as_str().unwrap().to_owned();
    let body = json!({});
    let replayed = app
        .post(&format!("/v1/queries/{id}/replay"), &body)
        .await
        .json();
    assert_eq!(replayed["identical"], true, "{replayed:#}");
    app.finish().await;
}
