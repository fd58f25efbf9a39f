//! The job engine within one process, on every database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::probes::Api;

const PROBES: (&str, &str) = ("TESTING__PROBE_JOBS", "true");
const QUICK_RETRY: (&str, &str) = ("JOBS__BACKOFF_MS", "1");

#[tokio::test]
async fn a_job_runs_its_steps_and_writes_its_effect() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES]).await;
        let api = Api::at(app.address);
        let id = api
            .queue(
                "default",
                &json!({"steps": 3, "effect": true, "warning": "careful"}),
            )
            .await
            .unwrap();

        let job = api.finished("default", &id).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        assert_eq!(job["result"], json!({"steps": 3}));
        assert_eq!(job["progress"], json!({"done": 3, "total": 3}));
        assert_eq!(
            job["warnings"],
            json!([{"code": "probe", "message": "careful"}])
        );

        assert_eq!(
            (&job["attempt"], &job["error"], &job["phase"]),
            (&json!(1), &json!(null), &json!(null))
        );

        assert_eq!(api.effects("default", &id).await, 1);
        app.finish().await;
    }
}

#[tokio::test]
async fn temporary_errors_are_retried_and_permanent_ones_are_not() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, QUICK_RETRY]).await;
        let api = Api::at(app.address);
        for (request, state, attempt, errors) in [
            (
                json!({"bad_attempts": 2, "ending": "retry"}),
                "succeeded",
                3,
                2,
            ),
            (
                json!({"bad_attempts": 2, "ending": "panic"}),
                "succeeded",
                3,
                2,
            ),
            (
                json!({"bad_attempts": 9, "ending": "retry"}),
                "failed",
                3,
                3,
            ),
            (json!({"bad_attempts": 9, "ending": "fail"}), "failed", 1, 1),
        ] {
            let id = api.queue("default", &request).await.unwrap();
            let job = api.finished("default", &id).await;
            assert_eq!(
                (&job["state"], &job["attempt"]),
                (&json!(state), &json!(attempt)),
                "{request}: {job}"
            );
            assert_eq!(job["last_errors"].as_array().unwrap().len(), errors);
            if state == "failed" {
                for member in [
                    "type",
                    "title",
                    "status",
                    "detail",
                    "code",
                    "remediation",
                    "request_id",
                ] {
                    assert!(!job["error"][member].is_null(), "{member}: {job}");
                }
            } else {
                assert_eq!(job["error"], json!(null));
            }
        }
    }
}

#[tokio::test]
async fn a_retried_job_does_not_repeat_finished_steps() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for database in TestDatabase::each().await {
        let _ = std::fs::remove_file(&log);
        let app = TestApp::on(
            database,
            &[PROBES, ("TESTING__PROBE_LOG", log.to_str().unwrap())],
        )
        .await;

        let api = Api::at(app.address);
        let id = api
            .queue(
                "default",
                &json!({"steps": 3, "bad_attempts": 1, "ending": "fail", "effect": true}),
            )
            .await
            .unwrap();

        assert_eq!(api.finished("default", &id).await["state"], "failed");
        assert_eq!(api.effects("default", &id).await, 0);
        let (status, _) = api.post("default", &format!("/v1/jobs/{id}/retry")).await;
        assert_eq!(status, 202);

        // Attempts are counted from the start, so the first one fails again; but no finished step
        // is repeated.
        assert_eq!(api.finished("default", &id).await["state"], "failed");
        assert_eq!(
            std::fs::read_to_string(&log).unwrap().lines().count(),
            6,
            "three steps, begun and saved once"
        );
    }
}

#[tokio::test]
async fn a_running_job_is_cancelled_within_two_seconds() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "1")]).await;
        let api = Api::at(app.address);

        // The duration of a job without work, on a machine that may be busy.
        let began = Instant::now();
        let trifle = api.queue("default", &json!({})).await.unwrap();
        api.finished("default", &trifle).await;
        let pace = began.elapsed();
        let id = api
            .queue(
                "default",
                &json!({"steps": 2, "step_ms": 60_000, "effect": true}),
            )
            .await
            .unwrap();

        api.reaches("default", &id, "running").await;
        let (status, job) = api.post("default", &format!("/v1/jobs/{id}/cancel")).await;
        assert_eq!((status, &job["state"]), (200, &json!("cancelled")));

        // The only worker is free again once the next job is done.
        let began = Instant::now();
        let next = api.queue("default", &json!({})).await.unwrap();
        assert_eq!(api.finished("default", &next).await["state"], "succeeded");
        assert!(
            began.elapsed() < Duration::from_secs(2) + 10 * pace,
            "{:?}, at a pace of {pace:?}",
            began.elapsed()
        );

        assert_eq!(api.effects("default", &id).await, 0);
        let (status, problem) = api.post("default", &format!("/v1/jobs/{id}/cancel")).await;
        assert_eq!((status, &problem["code"]), (409, &json!("wrong_job_state")));
    }
}

/// Each job has one final state, and its effect exists only if it succeeded.
#[tokio::test]
async fn either_the_cancellation_or_the_completion_wins() {
    for database in TestDatabase::each().await {
        let rounds = if database.engine == memoir::config::database::Engine::Postgres {
            500
        } else {
            100
        };

        let app = Arc::new(TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "8")]).await);
        let api = Api::at(app.address);
        let mut racing = tokio::task::JoinSet::new();
        let mut won = [0, 0];

        for round in 0..rounds {
            let api = api.clone();
            racing.spawn(async move {
                let id = api
                    .queue("default", &json!({"effect": true}))
                    .await
                    .unwrap();

                tokio::time::sleep(Duration::from_millis(round % 7)).await;
                let (status, _) = api.post("default", &format!("/v1/jobs/{id}/cancel")).await;
                let job = api.finished("default", &id).await;
                let effects = api.effects("default", &id).await;
                let cancelled = job["state"] == "cancelled";

                assert_eq!(
                    (status, effects),
                    if cancelled { (200, 0) } else { (409, 1) },
                    "{job}"
                );

                usize::from(cancelled)
            });

            if racing.len() >= 8 {
                won[racing.join_next().await.unwrap().unwrap()] += 1;
            }
        }

        while let Some(outcome) = racing.join_next().await {
            won[outcome.unwrap()] += 1;
        }

        assert_eq!(won[0] + won[1], rounds);
        eprintln!(
            "{:?}: {} finished, {} cancelled",
            app.database.engine, won[0], won[1]
        );
    }
}

/// A space with thousands of waiting jobs does not delay the single job of another.
#[tokio::test]
async fn spaces_take_turns() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "1")]).await;
        let api = Api::at(app.address);
        for _ in 0..300 {
            api.queue("crowd", &json!({"steps": 1, "step_ms": 100}))
                .await
                .unwrap();
        }

        let waiting = async || {
            let waiting = api.get("crowd", "/v1/jobs?state=queued&limit=500").await;
            waiting["items"].as_array().unwrap().len()
        };

        let before = waiting().await;
        let single = api.queue("single", &json!({})).await.unwrap();
        assert_eq!(api.finished("single", &single).await["state"], "succeeded");
        let after = waiting().await;

        assert!(
            before > 50 && after > before / 2,
            "the crowd was served first: {before} waited, then {after}"
        );
    }
}

#[tokio::test]
async fn a_full_queue_rejects_jobs() {
    let app = TestApp::with(&[PROBES, ("JOBS__WORKERS", "0"), ("JOBS__MAX_QUEUED", "3")]).await;
    for _ in 0..3 {
        assert_eq!(app.post("/v1/testing/jobs", &json!({})).await.status, 202);
    }

    let refused = app.post("/v1/testing/jobs", &json!({})).await;
    refused.assert_problem(429, "queue_full");
    assert_eq!(refused.header("retry-after"), "10");

    // Another space has its own queue, and a finished job makes room.
    let api = Api::at(app.address);
    assert!(api.queue("other", &json!({})).await.is_some());
    let first = app.get("/v1/jobs").await.json()["items"][2]["id"]
        .as_str()
        .unwrap()
        .to_owned();

    api.post("default", &format!("/v1/jobs/{first}/cancel"))
        .await;
    assert_eq!(app.post("/v1/testing/jobs", &json!({})).await.status, 202);
}

#[tokio::test]
async fn old_jobs_are_pruned_with_their_details_and_others_are_kept() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__KEEP_DAYS", "2")]).await;
        let api = Api::at(app.address);
        let old = api.queue("default", &json!({"steps": 2})).await.unwrap();
        api.finished("default", &old).await;
        app.clock.advance_seconds(24 * 60 * 60);
        let young = api.queue("default", &json!({})).await.unwrap();

        api.finished("default", &young).await;
        app.clock.advance_seconds(24 * 60 * 60 + 1);
        let config = crate::support::app::load(&app.database.url, &[("JOBS__KEEP_DAYS", "2")]);
        let store = memoir::store::Store::connect(&config.database)
            .await
            .unwrap();
        let jobs = memoir::jobs::Jobs::new(store, config.jobs, config.audit);
        let now = memoir::base::clock::Clock::now(&*app.clock);

        assert_eq!(jobs.prune(now).await.unwrap(), 1);
        let left = app.get("/v1/jobs").await.json();
        assert_eq!(left["items"].as_array().unwrap().len(), 1);
        assert_eq!(left["items"][0]["id"], young.as_str());

        assert_eq!(jobs.prune(now).await.unwrap(), 0);
    }
}

/// A job that is cancelled and retried before its first run notices: the first run ends, and the
/// second can be cancelled too.
#[tokio::test]
async fn two_runs_of_one_job_do_not_interfere() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES, ("JOBS__WORKERS", "2")]).await;
        let api = Api::at(app.address);
        let id = api
            .queue("default", &json!({"steps": 1, "step_ms": 60_000}))
            .await
            .unwrap();

        for _ in 0..2 {
            api.reaches("default", &id, "running").await;
            assert_eq!(
                api.post("default", &format!("/v1/jobs/{id}/cancel"))
                    .await
                    .0,
                200
            );

            assert_eq!(
                api.post("default", &format!("/v1/jobs/{id}/retry")).await.0,
                202
            );
        }

        assert_eq!(
            api.post("default", &format!("/v1/jobs/{id}/cancel"))
                .await
                .0,
            200
        );

        // Both workers are free once two jobs run at the same time, long before the first runs
        // would have ended.
        let began = Instant::now();
        let mut both = Vec::new();
        for _ in 0..2 {
            let request = json!({"steps": 1, "step_ms": 60_000});
            both.push(api.queue("default", &request).await.unwrap());
        }

        for next in &both {
            api.reaches("default", next, "running").await;
        }

        assert!(
            began.elapsed() < Duration::from_secs(30),
            "a worker is still taken"
        );
    }
}

/// A statement that always fails uses up attempts, and the job ends.
#[tokio::test]
async fn a_job_whose_statements_always_fail_ends() {
    let app = TestApp::with(&[PROBES, QUICK_RETRY]).await;
    app.database
        .execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON sources BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .await;

    let api = Api::at(app.address);
    let id = api
        .queue("default", &json!({"effect": true}))
        .await
        .unwrap();

    let job = api.finished("default", &id).await;
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("failed"), &json!(3)),
        "{job}"
    );

    assert_eq!(job["last_errors"].as_array().unwrap().len(), 3);
}

/// Jobs that wait for their next attempt neither fill the queue nor block it.
#[tokio::test]
async fn a_job_waiting_for_its_retry_does_not_block_the_queue() {
    for database in TestDatabase::each().await {
        let settings = [
            PROBES,
            ("JOBS__WORKERS", "1"),
            ("JOBS__BACKOFF_MS", "60000"),
        ];

        let app = Arc::new(TestApp::on(database, &settings).await);
        let api = Api::at(app.address);
        let paused = api
            .queue("paused", &json!({"bad_attempts": 9}))
            .await
            .unwrap();

        api.reports("paused", &paused, "error").await;
        for _ in 0..60 {
            api.queue("patient", &json!({"steps": 1, "step_ms": 10}))
                .await
                .unwrap();
        }

        let mut pushing = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let api = api.clone();
            pushing.spawn(async move {
                for _ in 0..15 {
                    let id = api
                        .queue("pushy", &json!({"steps": 1, "step_ms": 10}))
                        .await
                        .unwrap();
                    api.finished("pushy", &id).await;
                }
            });
        }

        pushing.join_all().await;
        let served = api
            .get("patient", "/v1/jobs?state=succeeded&limit=500")
            .await["items"]
            .as_array()
            .unwrap()
            .len();

        assert!(
            served >= 10,
            "{:?}: of 60 only {served} were served beside 30 of the other",
            app.database.engine
        );
    }
}

#[tokio::test]
async fn the_queue_limit_counts_only_waiting_jobs() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(
            database,
            &[PROBES, ("JOBS__WORKERS", "0"), ("JOBS__MAX_QUEUED", "10")],
        )
        .await;

        let api = Api::at(app.address);
        let mut ids = Vec::new();
        for _ in 0..10 {
            ids.push(api.queue("default", &json!({})).await.unwrap());
        }

        assert_eq!(api.queue("default", &json!({})).await, None);
        for id in &ids[1..9] {
            api.post("default", &format!("/v1/jobs/{id}/cancel")).await;
        }

        for _ in 0..8 {
            assert!(
                api.queue("default", &json!({})).await.is_some(),
                "{:?}",
                app.database.engine
            );
        }

        assert_eq!(api.queue("default", &json!({})).await, None);
        let (status, problem) = api
            .post("default", &format!("/v1/jobs/{}/retry", ids[1]))
            .await;
        assert_eq!((status, &problem["code"]), (429, &json!("queue_full")));
    }
}

#[tokio::test]
async fn a_job_can_wait_for_its_user_and_resume() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[PROBES]).await;
        let api = Api::at(app.address);
        let id = api
            .queue("default", &json!({"await_helper": true, "effect": true}))
            .await
            .unwrap();

        let job = api.get("default", &format!("/v1/jobs/{id}?wait=20")).await;
        assert_eq!(
            (&job["state"], &job["progress"]),
            (&json!("awaiting_helper"), &json!({"step": "fields"})),
            "{job}"
        );

        let resume = format!("/v1/testing/jobs/{id}/resume");
        assert_eq!(
            send(app.request(reqwest::Method::POST, &resume))
                .await
                .status,
            202
        );

        let job = api.finished("default", &id).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("succeeded"), &json!(1)),
            "{job}"
        );

        send(app.request(reqwest::Method::POST, &resume))
            .await
            .assert_problem(409, "wrong_job_state");

        let id = api
            .queue("default", &json!({"await_helper": true, "effect": true}))
            .await
            .unwrap();

        api.get("default", &format!("/v1/jobs/{id}?wait=20")).await;
        assert_eq!(
            api.post("default", &format!("/v1/jobs/{id}/cancel"))
                .await
                .0,
            200
        );

        assert_eq!(api.effects("default", &id).await, 0);
    }
}
