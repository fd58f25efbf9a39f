//! What runs while something is deleted leaves nothing of it behind.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{MARK, all_noted, assert_gone, delete};
use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::library::Desk;
use crate::support::probes::Api;

/// A source with one chunk that the scripted model answers from, slowly.
async fn slow(database: TestDatabase) -> (Desk, String) {
    let desk = Desk::on(database, &[]).await;
    all_noted(&desk.app).await;
    let text = format!("The lamps of {MARK} burn oil. ");
    let source = desk
        .library
        .add("/lamps.txt", &[(&["Lamps", "Oil", "Quay"], text.as_str())])
        .await;
    desk.model.edit_script(|script| script.latency_ms = 2_000);
    (desk, source.to_string())
}

fn question(wait: bool) -> Value {
    json!({"query": "Which lamps burn oil?", "strategy": "one_shot", "wait": wait})
}

#[tokio::test]
async fn a_query_that_runs_while_its_source_is_deleted_stores_nothing_of_it() {
    for database in TestDatabase::each().await {
        let (desk, source) = slow(database).await;
        let request = desk
            .app
            .request(Method::POST, "/v1/queries")
            .header("Idempotency-Key", "slow");
        let asking = send(request.json(&question(true)));
        let deleting = async {
            let begun = desk.model.wait_for_requests(1, Duration::from_secs(5));
            assert!(begun.await);
            delete(&desk.app, &format!("/v1/sources/{source}")).await
        };
        let (asked, _) = tokio::join!(asking, deleting);
        assert_eq!(asked.status, 200, "{}", asked.text);
        let id = asked.json()["id"].as_str().unwrap().to_owned();
        let kept = desk.app.get(&format!("/v1/queries/{id}")).await.json();
        assert_eq!(kept["state"], "erased", "{kept:#}");
        assert_gone_soon(&desk).await;

        // Its response was not stored, so the repeat asks again, and finds nothing.
        let request = desk
            .app
            .request(Method::POST, "/v1/queries")
            .header("Idempotency-Key", "slow");
        let again = send(request.json(&question(true))).await;
        assert!(!again.text.contains(MARK), "{}", again.text);
        desk.close().await;
    }
}

#[tokio::test]
async fn a_query_job_that_runs_while_its_source_is_deleted_has_no_result() {
    for database in TestDatabase::each().await {
        let (desk, source) = slow(database).await;
        let queued = desk.app.post("/v1/queries", &question(false)).await.json();
        let id = queued["id"].as_str().unwrap().to_owned();
        let begun = desk.model.wait_for_requests(1, Duration::from_secs(5));
        assert!(begun.await);
        delete(&desk.app, &format!("/v1/sources/{source}")).await;
        let job = Api::at(desk.app.address).finished("default", &id).await;
        assert_eq!(job["state"], "failed", "{job:#}");
        assert_eq!(job["error"]["code"], "erased", "{job:#}");
        assert_gone_soon(&desk).await;
        desk.close().await;
    }
}

/// Without receipts too, the result of a query is found by what it used.
#[tokio::test]
async fn the_result_of_a_query_job_goes_with_its_source_without_receipts_too() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("AUDIT__PERSIST", "false")]).await;
        all_noted(&desk.app).await;
        let text = format!("The lamps of {MARK} burn oil. ");
        let source = desk
            .library
            .add("/lamps.txt", &[(&["Lamps", "Oil", "Quay"], text.as_str())])
            .await;
        let queued = desk.app.post("/v1/queries", &question(false)).await.json();
        let id = queued["id"].as_str().unwrap().to_owned();
        let job = Api::at(desk.app.address).finished("default", &id).await;
        assert!(job["result"].to_string().contains(MARK), "{job:#}");

        delete(&desk.app, &format!("/v1/sources/{source}")).await;
        assert_gone_soon(&desk).await;
        desk.close().await;
    }
}

/// The outputs of calls are written a moment after the answer.
async fn assert_gone_soon(desk: &Desk) {
    let gone = async || super::holders(&desk.app.database, MARK).await.is_empty();
    crate::support::ingest::until("nothing is left", gone).await;
    desk.library.store.truncate_log().await.unwrap();
    assert_gone(&desk.app, MARK).await;
}
