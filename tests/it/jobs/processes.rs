//! Several processes on one database, and how a process shuts down.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Row as _;

use crate::support::binary::Binary;
use crate::support::database::TestDatabase;
use crate::support::probes::Api;

fn memoir(database: &TestDatabase) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__TESTING__PROBE_JOBS", "true")
}

/// 2,000 jobs, one serving process and one worker: every job is claimed once, and each process runs
/// some of them.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_the_queue_and_no_job_is_claimed_twice() {
    let Some(database) = TestDatabase::postgres().await else {
        return;
    };
    let (one, two) = (
        memoir(&database).env("MEMOIR__JOBS__WORKERS", "4"),
        memoir(&database).env("MEMOIR__JOBS__WORKERS", "4"),
    );

    let serving = one.serve();
    let working = two.start(&["worker"]);
    let api = Api::at(serving.address);
    let mut queueing = tokio::task::JoinSet::new();

    for _ in 0..8 {
        let api = api.clone();
        queueing.spawn(async move {
            let mut queued = Vec::new();
            for _ in 0..250 {
                let id = api.queue("default", &json!({"effect": true})).await;
                queued.push(id.unwrap());
            }
            queued
        });
    }

    for id in queueing.join_all().await.concat() {
        assert_eq!(api.finished("default", &id).await["state"], "succeeded");
    }

    let mut connection = database.connect().await;
    let mut count = async |sql: &'static str| {
        sqlx::query(sql)
            .fetch_one(&mut connection)
            .await
            .unwrap()
            .get::<i64, _>(0)
    };

    assert_eq!(
        count("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded' AND attempt = 1 AND fence = 1")
            .await,
        2000
    );

    assert_eq!(count("SELECT COUNT(*) FROM sources").await, 2000);
    assert_eq!(
        count("SELECT COUNT(DISTINCT tag) FROM source_tags WHERE tag <> 'file_ingest'").await,
        2000
    );

    for (name, log) in [("serving", one.log()), ("working", two.log())] {
        let jobs = log.matches("job started").count();
        assert!(jobs > 100, "{name} did only {jobs}");
        eprintln!("{name}: {jobs} jobs");
    }

    working.terminate();
    assert_eq!(working.wait(), Some(0));
}

/// On SIGTERM the service is immediately not ready; running jobs get time to finish, then return to
/// the queue without using up an attempt.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_what_it_can_and_returns_the_rest_to_the_queue() {
    for database in TestDatabase::each().await {
        let memoir = memoir(&database).env("MEMOIR__SERVER__SHUTDOWN_GRACE", "4");
        let running = memoir.serve();
        let api = Api::at(running.address);
        let short = api
            .queue(
                "default",
                &json!({"steps": 1, "step_ms": 500, "effect": true}),
            )
            .await
            .unwrap();

        let long = api
            .queue(
                "default",
                &json!({"steps": 2, "step_ms": 30_000, "effect": true}),
            )
            .await
            .unwrap();

        api.reaches("default", &short, "running").await;
        api.reaches("default", &long, "running").await;
        let address = running.address;
        let stream =
            crate::support::client::get(&format!("http://{address}/v1/jobs/{long}/events"))
                .await
                .unwrap();

        running.terminate();
        let began = Instant::now();

        // The event stream ends immediately, and the readiness probe reports that no new work is
        // accepted.
        tokio::time::timeout(Duration::from_secs(20), stream.text())
            .await
            .unwrap()
            .unwrap();

        let ready = crate::support::client::get(&format!("http://{address}/health/ready"))
            .await
            .unwrap();
        assert_eq!(ready.status(), 503);
        assert_eq!(running.wait(), Some(0));
        assert!(
            began.elapsed() < Duration::from_secs(25),
            "{:?}",
            began.elapsed()
        );

        let mut connection = database.connect().await;
        let rows = sqlx::query("SELECT id, state, attempt FROM jobs")
            .fetch_all(&mut connection)
            .await
            .unwrap();

        let found: BTreeMap<String, (String, i64)> = rows
            .iter()
            .map(|row| (row.get(0), (row.get(1), row.get(2))))
            .collect();

        assert_eq!(
            found[&short],
            ("succeeded".to_owned(), 1),
            "{:?}",
            database.engine
        );

        assert_eq!(
            found[&long],
            ("queued".to_owned(), 0),
            "{:?}",
            database.engine
        );
    }
}

/// Events come from the database, so a process that does not run the job can stream them.
#[tokio::test(flavor = "multi_thread")]
async fn any_process_can_stream_the_events_of_a_job() {
    for database in TestDatabase::each().await {
        let (api_only, worker) = (
            memoir(&database).env("MEMOIR__JOBS__WORKERS", "0"),
            memoir(&database),
        );

        let serving = api_only.serve();
        let api = Api::at(serving.address);
        let id = api
            .queue("default", &json!({"steps": 2, "step_ms": 100}))
            .await
            .unwrap();

        let watching =
            crate::support::client::get(&format!("http://{}/v1/jobs/{id}/events", serving.address))
                .await
                .unwrap();

        let _working = worker.start(&["worker"]);
        let text = tokio::time::timeout(Duration::from_secs(20), watching.text())
            .await
            .unwrap()
            .unwrap();

        for part in [
            "id: 1\nevent: state",
            "\"queued\"",
            "\"running\"",
            "event: progress",
            "\"succeeded\"",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
