//! `audit.persist = false`: what is recorded while work runs is gone when it ends, however it ends,
//! and whoever paid for it. Job rows, changes of categories, daily totals and caps stay.

use memoir::scripted_model::{Fault, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::events::EventReader;
use crate::support::ingest::{Ingest, assert_failed, count, document, source, until};

/// What must be empty in the end.
const LOGS: [&str; 6] = [
    "job_batches",
    "job_events",
    "job_checkpoints",
    "llm_calls",
    "queries",
    "jobs WHERE log_json IS NOT NULL",
];
const SETTINGS: [(&str, &str); 6] = [
    ("AUDIT__PERSIST", "false"),
    ("LLM__MODELS__ROLLUP", "local:embedded"),
    ("LLM__TRANSPORT__READ_TIMEOUT", "30"),
    (
        "LLM__PROVIDERS__OPENAI_STUB__PRICES",
        r#"{"m": {"input": 1.0, "output": 1.0}}"#,
    ),
    // The first loss of a process ends a job.
    ("JOBS__MAX_LOSSES", "1"),
    ("JOBS__PATIENCE", "0"),
];

async fn post(ingest: &Ingest, path: &str, body: &Value) -> Value {
    let reply = ingest.app.post(path, body).await;
    assert!(reply.status.is_success(), "{path}: {}", reply.text);
    serde_json::from_str(&reply.text).unwrap_or_default()
}

/// Posts what may also fail: its calls count in any case.
async fn try_post(ingest: &Ingest, path: &str, body: &Value) {
    let reply = ingest.app.post(path, body).await;
    assert_ne!(reply.status, 500, "{path}: {}", reply.text);
}

#[tokio::test]
async fn nothing_is_left_of_any_log() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &SETTINGS).await;
        jobs_that_succeed(&ingest).await;
        jobs_that_fail(&ingest).await;
        jobs_that_are_cancelled(&ingest).await;
        a_job_whose_worker_is_lost(&ingest).await;
        queries(&ingest).await;
        conversation(&ingest).await;
        everything_else(&ingest).await;

        let jobs = ingest.list("/v1/jobs").await;
        for job in &jobs {
            ingest.finished(job["id"].as_str().unwrap()).await;
        }
        let usage = ingest.app.get("/v1/usage").await.json();
        let asked = ingest.model.requests().len();
        let database = std::sync::Arc::clone(&ingest.app.database);
        // The last calls, of work that was cancelled, are recorded by now.
        ingest.app.finish().await;

        for table in LOGS {
            let left = count(&database, &format!("SELECT COUNT(*) FROM {table}")).await;
            assert_eq!(left, 0, "{:?}: {table}", database.engine);
        }

        let stored = count(&database, "SELECT COUNT(*) FROM jobs").await;
        assert_eq!(stored, i64::try_from(jobs.len()).unwrap());
        assert_eq!(
            count(&database, "SELECT COUNT(*) FROM category_changes").await,
            1
        );
        let counted =
            "SELECT CAST(SUM(calls) AS BIGINT) FROM usage_days WHERE provider = 'openai_stub'";
        let counted = if database.engine == memoir::config::database::Engine::Mysql {
            counted.replace("BIGINT", "SIGNED")
        } else {
            counted.to_owned()
        };
        assert_eq!(
            count(&database, &counted).await,
            i64::try_from(asked).unwrap()
        );
        assert!(
            usage["totals"]["cost_usd"].as_f64().unwrap() > 0.0,
            "{usage}"
        );
    }
}

/// With one that is watched: its events are seen while it runs.
async fn jobs_that_succeed(ingest: &Ingest) {
    let job = ingest
        .succeed(&document(&["A/B/C", "A/B/D"], &json!({"path": "/a.md"})))
        .await;
    let leaf = ingest.list("/v1/categories?level=1").await[0]["id"].clone();
    let renamed = ingest
        .app
        .request(Method::PATCH, &format!("/v1/categories/{leaf}"));
    assert_eq!(
        send(renamed.json(&json!({"name": "Renamed"}))).await.status,
        200
    );

    // The end of a job without events follows from its row.
    let path = format!("/v1/jobs/{}/events", job["id"].as_str().unwrap());
    let mut events = EventReader::open(ingest.app.request(Method::GET, &path)).await;
    let mut states = Vec::new();
    while let Some((kind, event)) = events.next().await {
        assert_eq!(kind, "state");
        states.push(event["data"]["state"].clone());
    }
    assert_eq!(states, ["queued", "running", "succeeded"]);

    let waiting = json!({"path": "/b.md", "auto_source_identification": false});
    let id = ingest.queue(&document(&["A/B/C"], &waiting)).await;
    ingest.awaiting(&id).await;
    let events = format!("/v1/jobs/{id}/events");
    let mut events = EventReader::open(ingest.app.request(Method::GET, &events)).await;
    let fields =
        json!({"date": "unknown", "author": "unknown", "topic": "A", "description": "A list."});
    let put = ingest.put(&format!("/v1/jobs/{id}/helper"), &fields).await;
    assert!(put.status.is_success(), "{}", put.text);
    post(
        ingest,
        &format!("/v1/jobs/{id}/helper/confirm"),
        &Value::Null,
    )
    .await;
    let mut last = Value::Null;
    let mut kinds = Vec::new();
    while let Some((kind, event)) = events.next().await {
        kinds.push(kind);
        last = event;
    }
    assert_eq!(last["data"]["state"], "succeeded");
    assert!(kinds.iter().any(|kind| kind == "helper"), "{kinds:?}");
}

/// One is retried and succeeds, and one stays.
async fn jobs_that_fail(ingest: &Ingest) {
    ingest.model.set_rule(|seen| match seen.stage.as_str() {
        "helper" => Reply::sensible(seen),
        _ => Reply::fault(Fault::RawText {
            text: "{}".to_owned(),
        }),
    });
    let mut failed = Vec::new();
    for path in ["/retried.md", "/failed.md"] {
        let job = ingest
            .run(&document(&["A/B/C"], &json!({"path": path})))
            .await;
        assert_failed(&job, "llm_invalid_output");
        failed.push(job);
    }

    ingest.model.set_rule(Reply::sensible);
    let job = ingest.retry(&failed[0]).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
    assert_eq!(source(&job), source(&failed[0]));
}

/// One that waits for a helper, one that is queued for its source, and one that runs.
async fn jobs_that_are_cancelled(ingest: &Ingest) {
    let waiting = json!({"path": "/c.md", "auto_source_identification": false});
    let waiting = ingest.queue(&document(&["A/B/C"], &waiting)).await;
    ingest.awaiting(&waiting).await;
    let queued = ingest
        .queue(&document(&["A/B/D"], &json!({"path": "/c.md"})))
        .await;
    let running = stalled(ingest, "/d.md").await;
    for id in [queued, waiting, running] {
        post(ingest, &format!("/v1/jobs/{id}/cancel"), &json!({})).await;
        assert_eq!(ingest.finished(&id).await["state"], "cancelled");
    }
    ingest.model.set_rule(Reply::sensible);
}

/// A job that has saved steps and waits for a model that does not answer.
async fn stalled(ingest: &Ingest, path: &str) -> String {
    let before = ingest.asked("classify").len();
    ingest.model.set_rule(|seen| match seen.stage.as_str() {
        "helper" => Reply::sensible(seen),
        _ => Reply::fault(Fault::Stall),
    });
    let id = ingest
        .queue(&document(&["A/B/C"], &json!({"path": path})))
        .await;
    until("the model is asked", || async {
        ingest.asked("classify").len() > before
    })
    .await;
    id
}

async fn a_job_whose_worker_is_lost(ingest: &Ingest) {
    let id = stalled(ingest, "/e.md").await;
    let expired =
        format!("UPDATE jobs SET lease_until = 1, lease_owner = 'gone' WHERE id = '{id}'");
    ingest.app.database.execute(&expired).await;
    let job = ingest.finished(&id).await;
    assert_failed(&job, "worker_lost");
    ingest.model.set_rule(Reply::sensible);
}

async fn queries(ingest: &Ingest) {
    for body in [
        json!({"query": "What is in chunk 1?"}),
        json!({"query": "What is in chunk 1?", "strategy": "one_shot", "mode": "retrieve"}),
    ] {
        post(ingest, "/v1/queries", &body).await;
    }

    let job = post(
        ingest,
        "/v1/queries",
        &json!({"query": "What is in chunk 2?", "wait": false}),
    )
    .await;
    assert_eq!(
        ingest.finished(job["id"].as_str().unwrap()).await["state"],
        "succeeded"
    );

    let stream = ingest.app.request(Method::POST, "/v1/queries");
    let stream = stream.json(&json!({"query": "What is in chunk 3?", "strategy": "one_shot"}));
    let mut events = EventReader::open(stream).await;
    while events.next().await.is_some() {}

    ingest.model.set_rule(|_| {
        Reply::fault(Fault::RawText {
            text: "{}".to_owned(),
        })
    });
    let failed = json!({"query": "What is in chunk 4?", "strategy": "one_shot"});
    ingest
        .app
        .post("/v1/queries", &failed)
        .await
        .assert_problem(502, "llm_invalid_output");
    let job = post(
        ingest,
        "/v1/queries",
        &json!({"query": "What is in chunk 5?", "strategy": "one_shot", "wait": false}),
    )
    .await;
    assert_eq!(
        ingest.finished(job["id"].as_str().unwrap()).await["state"],
        "failed"
    );
    ingest.model.set_rule(Reply::sensible);
}

async fn conversation(ingest: &Ingest) {
    let thread = post(ingest, "/v1/threads", &json!({"user_id": "ann"})).await;
    let path = format!("/v1/threads/{}/messages", thread["id"].as_str().unwrap());
    let list: Vec<Value> = (0..6)
        .map(|turn| json!({"role": "user", "content": format!("I bought boat number {turn}.")}))
        .collect();
    post(ingest, &path, &json!({"messages": list, "extract": true})).await;
    post(
        ingest,
        &path.replace("messages", "summaries"),
        &json!({"until_turn": 3}),
    )
    .await;
    try_post(
        ingest,
        "/v1/context",
        &json!({"query": "Which boat?", "user_id": "ann"}),
    )
    .await;
    try_post(
        ingest,
        "/v1/context/analyze",
        &json!({"query": "Which boat?", "user_id": "ann"}),
    )
    .await;
    try_post(
        ingest,
        "/v1/memory/retrieve",
        &json!({"userId": "ann", "sessionId": thread["id"], "useMemory": true, "query": "Which boat?"}),
    )
    .await;
}

async fn everything_else(ingest: &Ingest) {
    try_post(
        ingest,
        "/v1/prompts",
        &json!({"task": "Describe chunk 1.", "agents": {"audit": true}}),
    )
    .await;
    try_post(
        ingest,
        "/v1/prompts/send",
        &json!({"prompt": "Name one lighthouse."}),
    )
    .await;
    try_post(
        ingest,
        "/v1/models/probe",
        &json!({"model": "openai_stub:m"}),
    )
    .await;
    let id = ingest.list("/v1/sources").await[0]["id"].clone();
    try_post(
        ingest,
        &format!("/v1/sources/{}/helper/regenerate", id.as_str().unwrap()),
        &Value::Null,
    )
    .await;
}

#[tokio::test]
async fn the_caps_of_a_job_hold_although_its_calls_are_deleted() {
    for database in TestDatabase::each().await {
        let caps = [("LLM__CAPS__JOB__CALLS", "2")];
        let ingest = Ingest::on(database, &[&SETTINGS[..], &caps].concat()).await;
        let job = ingest
            .fail(
                &document(&["A/B/C", "D/E/F"], &json!({})),
                "spend_cap_reached",
            )
            .await;
        assert_eq!(ingest.count("llm_calls").await, 0);

        for _ in 0..2 {
            ingest.model.clear();
            let again = ingest.retry(&job).await;
            assert_failed(&again, "spend_cap_reached");
            assert_eq!(
                ingest.model.requests().len(),
                0,
                "the cap counts earlier attempts"
            );
        }

        // The cap is raised.
        let caps = [("LLM__CAPS__JOB__CALLS", "100")];
        let ingest = ingest.restart(&[&SETTINGS[..], &caps].concat()).await;
        let again = ingest.retry(&job).await;
        assert_eq!(again["state"], "succeeded", "{again:#}");
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn the_cap_of_a_day_holds_although_no_call_is_recorded() {
    for database in TestDatabase::each().await {
        let caps = [("LLM__CAPS__SPACE_DAY__CALLS", "3")];
        let settings = [&SETTINGS[..], &caps].concat();
        let ingest = Ingest::on(database, &settings).await;
        let prompt = json!({"prompt": "Name one lighthouse."});
        for _ in 0..3 {
            post(&ingest, "/v1/prompts/send", &prompt).await;
        }

        let ingest = ingest.restart(&settings).await;
        ingest
            .app
            .post("/v1/prompts/send", &prompt)
            .await
            .assert_problem(429, "spend_cap_reached");
        assert_eq!(ingest.count("llm_calls").await, 0);
        ingest.app.finish().await;
    }
}
