use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::probes::Api;

const PROBES: (&str, &str) = ("TESTING__PROBE_JOBS", "true");

#[tokio::test]
async fn a_202_returns_a_job_that_can_be_read() {
    let app = TestApp::with(&[PROBES, ("JOBS__WORKERS", "0")]).await;
    let queued = app.post("/v1/testing/jobs", &json!({"steps": 1})).await;
    assert_eq!(queued.status, 202);
    assert_eq!(queued.header("retry-after"), "1");
    let job = app.get(queued.header("location")).await;

    insta::assert_json_snapshot!(job.json(), { ".id" => "[id]" });
    let request = app
        .request(Method::POST, "/v1/testing/jobs")
        .header("idempotency-key", "k")
        .json(&json!({}));

    let first = send(request.try_clone().unwrap()).await;
    assert_eq!(send(request).await.text, first.text);
}

#[tokio::test]
async fn probe_jobs_are_disabled_by_default() {
    let app = TestApp::spawn().await;
    app.post("/v1/testing/jobs", &json!({}))
        .await
        .assert_problem(404, "unknown_route");
}

#[tokio::test]
async fn jobs_are_listed_newest_first_by_state_and_kind() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "0")]).await;
        let api = Api::at(app.address);
        let mut ids = Vec::new();

        for n in 0..7 {
            if n % 3 == 0 {
                app.clock.advance_seconds(1);
            }
            ids.push(api.queue("default", &json!({})).await.unwrap());
        }

        api.post("default", &format!("/v1/jobs/{}/cancel", ids[3]))
            .await;
        for (query, wanted) in [
            ("", 7),
            ("&state=queued", 6),
            ("&state=cancelled", 1),
            ("&kind=probe", 7),
            ("&kind=x", 0),
            ("&source_id=x", 0),
        ] {
            let mut found = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = app
                    .get(&format!("/v1/jobs?limit=2{query}{cursor}"))
                    .await
                    .json();

                found.extend(
                    page["items"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|job| job["id"].as_str().unwrap().to_owned()),
                );

                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(found.len(), wanted, "{query}");
            let mut newest_first = found.clone();
            newest_first
                .sort_by_key(|id| std::cmp::Reverse(ids.iter().position(|other| other == id)));
            assert_eq!(found, newest_first, "{:?} {query}", app.database.engine);
        }

        app.get("/v1/jobs?state=lost")
            .await
            .assert_problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn a_caller_can_wait_for_the_end_of_a_job() {
    let app = TestApp::with(&[PROBES]).await;
    let api = Api::at(app.address);
    let id = api
        .queue("default", &json!({"steps": 1, "step_ms": 300}))
        .await
        .unwrap();

    assert_eq!(
        app.get(&format!("/v1/jobs/{id}?wait=0.05")).await.json()["state"],
        "running"
    );

    assert_eq!(
        app.get(&format!("/v1/jobs/{id}?wait=30")).await.json()["state"],
        "succeeded"
    );

    for wait in ["-1", "61", "NaN", "inf", "soon", "1e999"] {
        app.get(&format!("/v1/jobs/{id}?wait={wait}"))
            .await
            .assert_problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn events_resume_after_the_last_event_id() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES]).await;
        let api = Api::at(app.address);
        let id = api.queue("default", &json!({"steps": 3})).await.unwrap();
        let path = format!("/v1/jobs/{id}/events");
        let whole = app.get(&path).await;

        assert_eq!(whole.header("content-type"), "text/event-stream");
        let numbers = |text: &str| -> Vec<u32> {
            text.lines()
                .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
                .collect()
        };

        assert_eq!(
            numbers(&whole.text),
            (1..=6).collect::<Vec<u32>>(),
            "{}",
            whole.text
        );

        let rest = send(app.request(Method::GET, &path).header("last-event-id", "4")).await;
        assert_eq!(numbers(&rest.text), [5, 6]);
        let nothing = send(app.request(Method::GET, &path).header("last-event-id", "6")).await;
        assert_eq!(numbers(&nothing.text), [0; 0]);
        send(app.request(Method::GET, &path).header("last-event-id", "x"))
            .await
            .assert_problem(422, "invalid_request");

        app.get("/v1/jobs/none/events")
            .await
            .assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn only_a_finished_job_can_be_retried() {
    let app = TestApp::with(&[PROBES, ("JOBS__WORKERS", "0")]).await;
    let api = Api::at(app.address);
    let id = api.queue("default", &json!({})).await.unwrap();
    let retry = format!("/v1/jobs/{id}/retry");
    let (status, problem) = api.post("default", &retry).await;

    assert_eq!(
        (status, &problem["context"]["state"]),
        (409, &json!("queued"))
    );

    api.post("default", &format!("/v1/jobs/{id}/cancel")).await;
    let (status, job) = api.post("default", &retry).await;
    assert_eq!(
        (status, &job["state"], &job["finished_at"]),
        (202, &json!("queued"), &json!(null))
    );
}

/// A job includes its log of batches and model calls.
#[tokio::test]
async fn a_job_includes_its_batches_and_calls() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "0")]).await;
        let id = Api::at(app.address)
            .queue("default", &json!({}))
            .await
            .unwrap();

        app.database.execute(&format!("INSERT INTO job_batches (space, job_id, seq, level, parent_path, chunk_ordinals_json, chunks_sent, successes, retries, failures, latency_ms, started_at) VALUES ('default', '{id}', 1, 2, 'Physics', '[1, 2]', 2, 2, 0, 0, 12.5, 0)")).await;
        app.database.execute(&format!("INSERT INTO llm_calls (space, call_id, payer_kind, payer_id, seq, stage, level, attempt, outcome, provider, model, mode, params_json, output_json, latency_ms, tokens_prompt, tokens_completion, tokens_cached, started_at) VALUES ('default', 'c1', 'job', '{id}', 1, 'classify', 2, 1, 'ok', 'local', 'static', 'native', '{{}}', '{{\"chunks\": []}}', 12.5, 10, 2, 0, 0)")).await;
        let job = app.get(&format!("/v1/jobs/{id}")).await.json();
        assert_eq!(job["batches"][0]["chunk_ordinals"], json!([1, 2]));
        assert_eq!(job["batches"][0]["latency_ms"], json!(12.5));
        assert_eq!(job["responses"][0]["llm_output"], json!({"chunks": []}));

        assert_eq!(job["responses"][0]["cost_usd"], json!(null));
    }
}

#[tokio::test]
async fn metrics_include_the_queue() {
    let app = TestApp::with(&[PROBES, ("JOBS__WORKERS", "0")]).await;
    let api = Api::at(app.address);
    for _ in 0..3 {
        api.queue("default", &json!({})).await.unwrap();
    }

    app.clock.advance_seconds(90);
    let metrics = app.get("/metrics").await.text;
    for line in [
        "memoir_jobs_queue_depth{state=\"queued\"} 3",
        "memoir_jobs_oldest_queued_seconds 90",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

/// The response to a bulk request.
async fn change_many(
    app: &TestApp,
    space: &str,
    what: &str,
    body: &Value,
) -> crate::support::app::Reply {
    let path = format!("/v1/jobs/{what}");
    send(
        app.request(Method::POST, &path)
            .header("x-memoir-space", space)
            .json(body),
    )
    .await
}

async fn states(api: &Api, space: &str, ids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        let job = api.get(space, &format!("/v1/jobs/{id}")).await;
        states.push(job["state"].as_str().unwrap().to_owned());
    }

    states
}

#[tokio::test]
async fn bulk_requests_change_jobs_of_one_space_only() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "0")]).await;
        let api = Api::at(app.address);
        let other = api.queue("other", &json!({})).await.unwrap();
        let mut ids = Vec::new();

        for n in 0..7 {
            // Three jobs at 12:00:00, four a minute later.
            if n == 3 {
                app.clock.advance_seconds(60);
            }
            ids.push(api.queue("default", &json!({})).await.unwrap());
        }

        let earlier = json!({"state": "queued", "kind": "probe", "created_before": "2026-01-31T12:01:00Z", "limit": 2});
        let done = change_many(&app, "default", "cancel", &earlier).await;
        assert_eq!(done.status, 200, "{}", done.text);
        assert_eq!(
            done.json(),
            json!({"matched": 2, "changed": 2, "more": true})
        );

        let done = change_many(&app, "default", "cancel", &earlier)
            .await
            .json();
        assert_eq!(done, json!({"matched": 1, "changed": 1, "more": false}));
        let wanted = [["cancelled"; 3].as_slice(), &["queued"; 4]].concat();
        assert_eq!(
            states(&api, "default", &ids).await,
            wanted,
            "{:?}",
            app.database.engine
        );

        let nothing = json!({"created_before": "2026-01-31T11:00:00Z"});
        let done = change_many(&app, "default", "cancel", &nothing)
            .await
            .json();
        assert_eq!(done, json!({"matched": 0, "changed": 0, "more": false}));
        let done = change_many(&app, "default", "retry", &json!({"all": true}))
            .await
            .json();
        assert_eq!(done["matched"], 0, "none has failed: {done}");
        let again = json!({"state": "cancelled", "finished_after": "2026-01-31T12:01:00+00:00"});
        let done = change_many(&app, "default", "retry", &again).await.json();
        let wanted = json!({"matched": 3, "changed": 3, "superseded": 0, "more": false, "queue_full": false});

        assert_eq!(done, wanted);
        assert_eq!(states(&api, "default", &ids).await, ["queued"; 7]);

        let done = change_many(&app, "default", "cancel", &json!({"all": true}))
            .await
            .json();
        assert_eq!(done, json!({"matched": 7, "changed": 7, "more": false}));
        let job = api.get("other", &format!("/v1/jobs/{other}")).await;
        assert_eq!(
            job["state"], "queued",
            "another space's job was changed: {job}"
        );
    }
}

/// Running jobs are stopped, and failed ones are found by their error code.
#[tokio::test]
async fn bulk_requests_filter_by_state_and_error() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "4")]).await;
        let api = Api::at(app.address);
        let failing = api
            .queue("default", &json!({"bad_attempts": 9, "ending": "fail"}))
            .await
            .unwrap();

        assert_eq!(api.finished("default", &failing).await["state"], "failed");
        let mut running = Vec::new();
        for _ in 0..3 {
            running.push(
                api.queue(
                    "default",
                    &json!({"steps": 1, "step_ms": 60_000, "effect": true}),
                )
                .await
                .unwrap(),
            );
        }

        for id in &running {
            api.reaches("default", id, "running").await;
        }
        let done = change_many(&app, "default", "cancel", &json!({"state": "running"}))
            .await
            .json();
        assert_eq!(done, json!({"matched": 3, "changed": 3, "more": false}));
        assert_eq!(states(&api, "default", &running).await, ["cancelled"; 3]);

        for (query, wanted) in [
            ("code=probe_failed", 1),
            ("code=probe%25", 0),
            ("code=probexfailed", 0),
            ("code=%C3%A4", 0),
            ("state=cancelled&finished_after=2026-01-31T12:00:00Z", 3),
            ("finished_before=2026-01-31T12:00:00Z", 0),
            ("created_after=2026-01-31T12:00:00.000001Z", 0),
        ] {
            let found = app.get(&format!("/v1/jobs?{query}")).await.json();
            assert_eq!(
                found["items"].as_array().unwrap().len(),
                wanted,
                "{:?} {query}",
                app.database.engine
            );
        }

        let done = change_many(&app, "default", "retry", &json!({"code": "worker_lost"}))
            .await
            .json();
        assert_eq!(done["changed"], 0, "{done}");
        let done = change_many(
            &app,
            "default",
            "retry",
            &json!({"code": "probe_failed", "kind": "probe"}),
        )
        .await
        .json();

        assert_eq!(
            (&done["matched"], &done["changed"]),
            (&json!(1), &json!(1)),
            "{done}"
        );

        assert_eq!(api.finished("default", &failing).await["state"], "failed");
    }
}

#[tokio::test]
async fn bulk_requests_require_a_filter() {
    let app = TestApp::with(&[PROBES, ("JOBS__WORKERS", "0")]).await;
    let api = Api::at(app.address);
    let id = api.queue("default", &json!({})).await.unwrap();

    for (what, body, field) in [
        ("cancel", json!({}), "all"),
        ("retry", json!({}), "all"),
        ("cancel", json!({"limit": 10}), "all"),
        ("cancel", json!({"all": false}), "all"),
        ("cancel", json!({"state": "failed"}), "state"),
        ("cancel", json!({"state": "lost"}), "state"),
        ("retry", json!({"state": "queued"}), "state"),
        ("retry", json!({"state": "succeeded"}), "state"),
        (
            "cancel",
            json!({"created_after": "yesterday"}),
            "created_after",
        ),
        (
            "cancel",
            json!({"finished_after": "2026-01-31T12:00:00Z"}),
            "finished_after",
        ),
        (
            "retry",
            json!({"finished_before": "2026-01-31"}),
            "finished_before",
        ),
        ("retry", json!({"all": true, "limit": 0}), "limit"),
        ("retry", json!({"all": true, "limit": 1001}), "limit"),
    ] {
        let refused = change_many(&app, "default", what, &body).await;
        refused.assert_problem(422, "invalid_request");
        assert_eq!(
            refused.json()["errors"][0]["field"],
            field,
            "{what} {body}: {}",
            refused.text
        );
    }

    assert_eq!(
        api.get("default", &format!("/v1/jobs/{id}")).await["state"],
        "queued"
    );

    app.get("/v1/jobs?created_after=soon")
        .await
        .assert_problem(422, "invalid_request");
}

#[tokio::test]
async fn a_bulk_retry_stops_at_a_full_queue() {
    for database in TestDatabase::each().await {
        let settings = [PROBES, ("JOBS__WORKERS", "0"), ("JOBS__MAX_QUEUED", "3")];
        let app = TestApp::on(database, &settings).await;
        let api = Api::at(app.address);

        for _ in 0..3 {
            for _ in 0..2 {
                api.queue("default", &json!({})).await.unwrap();
            }
            change_many(&app, "default", "cancel", &json!({"all": true})).await;
        }

        let again = json!({"state": "cancelled"});
        let done = change_many(&app, "default", "retry", &again).await.json();
        let wanted =
            json!({"matched": 6, "changed": 3, "superseded": 0, "more": true, "queue_full": true});
        assert_eq!(done, wanted, "{:?}", app.database.engine);

        change_many(&app, "default", "retry", &again)
            .await
            .assert_problem(429, "queue_full");
    }
}

/// After an outage all jobs are retried, except those with a text that a newer one has superseded:
/// it would become the latest version.
#[tokio::test]
async fn a_bulk_retry_skips_superseded_texts() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES]).await;
        let api = Api::at(app.address);
        let mut ids = Vec::new();

        for text in ["the first text", "the second text"] {
            let reply = app
                .post("/v1/ingestions", &json!({"text": text, "path": "/a.txt"}))
                .await;
            assert_eq!(reply.status, 202, "{}", reply.text);
            ids.push(reply.json()["id"].as_str().unwrap().to_owned());
            assert_eq!(
                api.finished("default", &ids[ids.len() - 1]).await["state"],
                "succeeded"
            );
        }

        app.database
            .execute("UPDATE jobs SET state = 'failed' WHERE source_seq = 1")
            .await;
        let done = change_many(&app, "default", "retry", &json!({"all": true}))
            .await
            .json();
        let wanted = json!({"matched": 0, "changed": 0, "superseded": 1, "more": false, "queue_full": false});
        assert_eq!(done, wanted, "{:?}", app.database.engine);
    }
}
