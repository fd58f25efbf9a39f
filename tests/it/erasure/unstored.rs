//! Sources that only jobs know: the row of a new source is written with its first text.

use memoir::model::erasure::SubjectKind;
use memoir::scripted_model::{Fault, Reply, Seen};
use reqwest::Method;
use serde_json::{Value, json};

use super::{MARK, all_noted, assert_gone, delete, hash, holders, ingest, keyed, marked_text};
use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, until};

/// A marked text that waits for its helper, in one transaction or in several.
fn waiting_text(transaction_scope: &str) -> Value {
    let mut body = marked_text("ann");
    body["auto_source_identification"] = json!(false);
    body["options"] = json!({"transaction_scope": transaction_scope});
    body
}

/// The job once it is in this state, and its source.
async fn reached(app: &TestApp, id: &str, state: &str) -> String {
    let job = app.get(&format!("/v1/jobs/{id}?wait=20")).await.json();
    assert_eq!(job["state"], state, "{job:#}");
    job["source_id"].as_str().unwrap().to_owned()
}

/// An erased job keeps its state, and cannot be queued again.
async fn assert_erased(app: &TestApp, id: &str, state: &str) {
    let job = app.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&job["state"], &job["phase"]),
        (&json!(state), &json!("erased")),
        "{job:#}"
    );
    let retried = app.post(&format!("/v1/jobs/{id}/retry"), &json!({})).await;
    retried.assert_problem(410, "erased");
}

async fn assert_unknown(app: &TestApp, source: &str) {
    let path = format!("/v1/sources/{source}");
    for method in [Method::GET, Method::DELETE] {
        let reply = send(app.request(method, &path)).await;
        reply.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_source_of_a_waiting_or_cancelled_ingestion_can_be_deleted() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        all_noted(&app).await;
        for (place, (scope, is_cancelled)) in [
            ("ingestion", false),
            ("ingestion", true),
            ("batch", false),
            ("batch", true),
        ]
        .into_iter()
        .enumerate()
        {
            // Each time at the same path, hence with the same source.
            let key = format!("waiting {place}");
            let queued = keyed(&app, &key, "/v1/ingestions", &waiting_text(scope)).await;
            let job = queued.json()["id"].as_str().unwrap().to_owned();
            let source = reached(&app, &job, "awaiting_helper").await;
            if is_cancelled {
                let path = format!("/v1/jobs/{job}/cancel");
                assert_eq!(app.post(&path, &json!({})).await.status, 200);
            }

            assert!(!holders(&app.database, MARK).await.is_empty());
            let path = format!("/v1/sources/{source}");
            let request = app.request(Method::DELETE, &path);
            let elsewhere = send(request.header("X-Memoir-Space", "other")).await;
            elsewhere.assert_problem(404, "not_found");
            let request = app.request(Method::DELETE, &path);
            let stale = send(request.header("If-Match", "\"earlier\"")).await;
            stale.assert_problem(412, "precondition_failed");

            let receipt = delete(&app, &path).await;
            assert_eq!(
                (&receipt["kind"], &receipt["sources"], &receipt["jobs"]),
                (&json!("source"), &json!(0), &json!(1)),
                "{receipt}"
            );
            assert_eq!(receipt["rows"]["job_requests"], 1, "{receipt}");
            assert_eq!(
                receipt["subject_sha256"],
                hash(SubjectKind::Source, &source)
            );
            assert_gone(&app, MARK).await;
            assert_erased(&app, &job, "cancelled").await;
            assert_unknown(&app, &source).await;
        }

        // The path can be used again.
        let source = ingest(&app, &marked_text("ann")).await;
        let receipt = delete(&app, &format!("/v1/sources/{source}")).await;
        assert_eq!(
            (&receipt["sources"], &receipt["jobs"]),
            (&json!(1), &json!(1)),
            "{receipt}"
        );
        assert_gone(&app, MARK).await;
        app.finish().await;
    }
}

#[tokio::test]
async fn a_source_of_failed_running_and_queued_ingestions_can_be_deleted() {
    for database in TestDatabase::each().await {
        let patience = [("LLM__TRANSPORT__READ_TIMEOUT", "60")];
        let desk = Ingest::on(database, &patience).await;
        all_noted(&desk.app).await;
        desk.model.set_rule(|seen| invalid_or_stalled(seen, false));
        let failed = desk.queue(&marked_text("ann")).await;
        let source = desk.finished(&failed).await;
        assert_eq!(source["state"], "failed", "{source:#}");
        let source = source["source_id"].as_str().unwrap().to_owned();

        let before = desk.asked("classify").len();
        desk.model.set_rule(|seen| invalid_or_stalled(seen, true));
        let running = desk.queue(&marked_text("ann")).await;
        until("the job runs", async || {
            desk.asked("classify").len() > before
        })
        .await;
        let queued = desk.queue(&marked_text("ann")).await;
        let receipt = delete(&desk.app, &format!("/v1/sources/{source}")).await;
        assert_eq!(
            (&receipt["sources"], &receipt["jobs"]),
            (&json!(0), &json!(3)),
            "{receipt}"
        );
        for (job, state) in [
            (failed, "failed"),
            (running, "cancelled"),
            (queued, "cancelled"),
        ] {
            assert_erased(&desk.app, &job, state).await;
        }

        assert_unknown(&desk.app, &source).await;
        assert_gone(&desk.app, MARK).await;
        desk.app.finish().await;
    }
}

/// No text is filed: the answer is invalid, or does not arrive.
fn invalid_or_stalled(seen: &Seen, is_stalled: bool) -> Reply {
    match (seen.stage.as_str(), is_stalled) {
        ("classify", true) => Reply::fault(Fault::Stall),
        ("classify", false) => Reply::fault(Fault::RawText {
            text: "{}".to_owned(),
        }),
        _ => Reply::sensible(seen),
    }
}
