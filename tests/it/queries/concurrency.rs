//! Several concurrent queries with one idempotency key: one runs, the others wait for its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use memoir::base::clock::{Clock as _, SystemClock};
use memoir::scripted_model::{Fault, ScriptedModel, Step};
use memoir_text::hash::sha256_hex;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::library::Library;

const PATIENCE: Duration = Duration::from_secs(30);

/// Two services, like two processes, on one database, with a hierarchy of one level: a query takes
/// two model calls.
struct Pair {
    apps: [TestApp; 2],
    model: ScriptedModel,
}

impl Pair {
    async fn on(database: TestDatabase) -> Self {
        let model = ScriptedModel::local().await.unwrap();
        let url = model.openai_url();
        let settings = [
            ("LLM__TRANSPORT__TRIES", "1"),
            ("LLM__MODEL", "stub:gpt-4o"),
            ("LLM__PROVIDERS__STUB__KIND", "openai"),
            ("LLM__PROVIDERS__STUB__BASE_URL", url.as_str()),
            ("LLM__PROVIDERS__STUB__API_KEY", "sk-test"),
            ("TAXONOMY__HIERARCHY_DEPTH", "1"),
            ("INGESTION__CHUNK_MIN_TOKENS", "10"),
            ("QUERY__STRATEGY", "one_shot"),
        ];

        let (place, database) = (database.url.clone(), Arc::new(database));
        let first = TestApp::at(&place, Arc::clone(&database), &settings).await;
        let library = Library::at(&place).await;
        library
            .add(
                "/nature.txt",
                &[
                    (&["Plants"], "Plants are green. "),
                    (&["Stones"], "Stones are grey. "),
                ],
            )
            .await;

        library.store.close().await;
        let second = TestApp::at(&place, database, &settings).await;
        Self {
            apps: [first, second],
            model,
        }
    }

    fn ask(&self, app: usize, body: &Value) -> RequestBuilder {
        self.apps[app]
            .request(Method::POST, "/v1/queries")
            .header("idempotency-key", "one")
            .json(body)
    }

    /// Sends this many concurrent requests, alternating between the two services.
    async fn ask_at_once(&self, count: usize) -> Vec<Reply> {
        let mut asking = tokio::task::JoinSet::new();
        for n in 0..count {
            asking.spawn(send(self.ask(n % 2, &query())));
        }

        asking.join_all().await
    }

    async fn close(self) {
        let [one, other] = self.apps;
        one.finish().await;
        other.finish().await;
    }
}

fn query() -> Value {
    json!({"query": "what is green?"})
}

fn away() -> Fault {
    Fault::Status {
        status: 503,
        headers: BTreeMap::default(),
        body: String::new(),
    }
}

#[track_caller]
fn assert_one_answer(replies: &[Reply]) {
    for reply in replies {
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        assert_eq!(reply.json(), replies[0].json());
    }
}

#[tokio::test]
async fn ten_concurrent_queries_with_one_key_are_paid_once() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let pair = Pair::on(database).await;
        pair.model.always(Step::new(Fault::Delay { ms: 150 }));
        let replies = pair.ask_at_once(10).await;
        assert_one_answer(&replies);
        assert_eq!(pair.model.requests().len(), 2, "{engine:?}");
        let replayed = replies
            .iter()
            .filter(|reply| reply.header("idempotency-replayed") == "true")
            .count();

        assert_eq!(replayed, 9, "{engine:?}");
        pair.close().await;
    }
}

#[tokio::test]
async fn another_request_takes_over_if_the_first_fails() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let pair = Pair::on(database).await;
        pair.model.push(Step::new(away()).only_stage("answer"));
        pair.model
            .always(Step::new(Fault::Delay { ms: 100 }).only_stage("select"));
        let (failed, answered): (Vec<_>, Vec<_>) = pair
            .ask_at_once(6)
            .await
            .into_iter()
            .partition(|reply| reply.status.as_u16() != 200);

        assert_eq!(failed.len(), 1, "{engine:?}");
        failed[0].assert_problem(502, "llm_unavailable");
        assert_one_answer(&answered);
        assert_eq!(pair.model.requests().len(), 4, "{engine:?}");

        pair.close().await;
    }
}

#[tokio::test]
async fn another_request_takes_over_if_the_first_client_disconnects() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let pair = Pair::on(database).await;
        pair.model.push(Step::new(Fault::Stall));
        let mut first = tokio::task::JoinSet::new();
        first.spawn(send(pair.ask(0, &query())));
        assert!(pair.model.wait_for_requests(1, PATIENCE).await);

        let others = pair.ask_at_once(4);
        let hang_up = async {
            // The test cannot see that the others wait. If some arrive later, they find a free key
            // or an answer.
            tokio::time::sleep(Duration::from_millis(300)).await;
            first.shutdown().await;
        };

        let (replies, ()) = tokio::join!(others, hang_up);
        assert_one_answer(&replies);
        assert_eq!(pair.model.requests().len(), 3, "{engine:?}");
        pair.close().await;
    }
}

#[tokio::test]
async fn another_body_is_rejected_at_once_and_waiting_has_a_timeout() {
    let pair = Pair::on(TestDatabase::sqlite()).await;
    pair.model.push(Step::new(Fault::Stall));
    let mut first = tokio::task::JoinSet::new();
    first.spawn(send(pair.ask(0, &query())));
    assert!(pair.model.wait_for_requests(1, PATIENCE).await);

    send(pair.ask(1, &json!({"query": "what is grey?"})))
        .await
        .assert_problem(422, "idempotency_key_reused");
    let source = pair.apps[1]
        .request(Method::POST, "/v1/sources")
        .header("idempotency-key", "one");
    send(source.json(&json!({"filename": "a.md"})))
        .await
        .assert_problem(422, "idempotency_key_reused");
    assert_eq!(pair.model.requests().len(), 1);
    first.shutdown().await;

    // A query waits for up to its own timeout.
    let brief = json!({"query": "what is green?", "timeout_s": 1});
    let brief = |app: usize| {
        pair.apps[app]
            .request(Method::POST, "/v1/queries")
            .header("idempotency-key", "two")
            .json(&brief)
    };

    assert_eq!(send(brief(0)).await.status, 200);
    pair.apps[0]
        .database
        .execute(&unanswered("two", 3600))
        .await;

    let late = send(brief(1)).await;
    late.assert_problem(409, "idempotency_key_in_use");
    assert_eq!(late.header("retry-after"), "2");
    pair.close().await;
}

/// Simulates the death of the running process; its lease ends this many seconds from now.
fn unanswered(key: &str, seconds: i64) -> String {
    // The database uses the clock of this machine, not the test clock.
    let end = SystemClock.now().as_micros() + seconds * 1_000_000;
    format!(
        "UPDATE idempotency_keys SET status = NULL, response_json = NULL, lease_owner = 'gone', lease_until = {end} \
         WHERE idempotency_key = 'sha256 {}'",
        sha256_hex(key.as_bytes())
    )
}

#[tokio::test]
async fn a_key_of_a_dead_process_is_taken_over_after_its_lease() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let pair = Pair::on(database).await;
        let dead = send(pair.ask(0, &query())).await;
        pair.apps[0].database.execute(&unanswered("one", 2)).await;
        let replies = pair.ask_at_once(5).await;

        assert_one_answer(&replies);
        assert_ne!(replies[0].json()["id"], dead.json()["id"], "{engine:?}");
        assert_eq!(pair.model.requests().len(), 4, "{engine:?}");
        pair.close().await;
    }
}
