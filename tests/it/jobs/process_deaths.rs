//! Deaths of a process are counted separately from attempts: with the default settings, no number
//! of kills fails a job that makes progress, and a job that makes none ends with the reason.
//!
//! `MEMOIR_TEST_DEFAULT_KILLS` sets the number of random kills, with five jobs each (scripts/soak:
//! 60, so 300 jobs).

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::binary::Binary;
use crate::support::database::{TestDatabase, variable};
use crate::support::dice::Dice;
use crate::support::probes::{Api, check_log};

/// The default settings, except for the lease: the test would wait a minute after each kill.
fn memoir(database: &TestDatabase) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__TESTING__PROBE_JOBS", "true")
        .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        .env("MEMOIR__SERVER__SHUTDOWN_GRACE", "0")
}

/// Runs on all engines in parallel, because most of the time is spent waiting for leases.
async fn on_each<F: Future<Output = ()> + Send + 'static>(test: impl Fn(TestDatabase) -> F) {
    let mut all = tokio::task::JoinSet::new();
    for database in TestDatabase::each().await {
        all.spawn(test(database));
    }

    all.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn random_kills_with_the_default_settings_fail_no_job() {
    on_each(killed_at_random).await;
}

async fn killed_at_random(database: TestDatabase) {
    let kills: u64 =
        variable("MEMOIR_TEST_DEFAULT_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let memoir = memoir(&database).env("MEMOIR__TESTING__PROBE_LOG", log.to_str().unwrap());
    let mut dice = Dice::new("kills_at_the_default_settings");
    let mut accepted = Vec::new();

    for _ in 0..kills {
        let running = memoir.serve();
        let api = Api::at(running.address);
        for _ in 0..5 {
            accepted.extend(
                api.queue(
                    "default",
                    &json!({"steps": 3, "step_ms": 60, "effect": true}),
                )
                .await,
            );
        }

        tokio::time::sleep(Duration::from_millis(dice.below(400))).await;
        assert_eq!(running.signal_and_wait("KILL"), None);
    }

    let running = memoir.serve();
    let api = Api::at(running.address);
    let mut failed: Vec<Value> = Vec::new();
    let mut deaths = 0;

    for id in &accepted {
        let job = api.finished("default", id).await;
        let errors = job["last_errors"].as_array().unwrap();
        deaths += errors
            .iter()
            .filter(|error| error["code"] == "worker_lost")
            .count();

        let effects = api.effects("default", id).await;
        if job["state"] != "succeeded" || effects != 1 {
            failed.push(json!({"effects": effects, "job": job}));
        }
    }

    check_log(&log);
    let figures = format!(
        "{:?}: {kills} kills, {} jobs, {deaths} lost runs",
        database.engine,
        accepted.len()
    );

    eprintln!("{figures}, {} not well", failed.len());
    assert!(
        failed.is_empty(),
        "{figures}: {} not well, such as {:#}",
        failed.len(),
        failed[0]
    );
}

/// Runs a process that dies as soon as it has claimed a job, this many times in a row.
fn die_after_claims(database: &TestDatabase, settings: &[(&str, &str)], deaths: usize) {
    for _ in 0..deaths {
        let dying =
            with(memoir(database), settings).env("MEMOIR__TESTING__FAIL_POINT", "after_claim");
        assert_eq!(
            dying.serve_or_die().wait(),
            None,
            "it should have died on the spot: {}",
            dying.log()
        );
    }
}

fn with(memoir: Binary, settings: &[(&str, &str)]) -> Binary {
    settings
        .iter()
        .fold(memoir, |memoir, (name, value)| memoir.env(name, value))
}

/// Queues a probe job that no process runs yet.
async fn queue(database: &TestDatabase, request: &Value) -> String {
    let idle = memoir(database).env("MEMOIR__JOBS__WORKERS", "0");
    let running = idle.serve();
    Api::at(running.address)
        .queue("default", request)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn deaths_use_up_no_attempt() {
    on_each(|database| async move {
        let id = queue(&database, &json!({"effect": true})).await;
        die_after_claims(&database, &[], 4);

        let alive = memoir(&database);
        let running = alive.serve();
        let api = Api::at(running.address);
        let job = api.finished("default", &id).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("succeeded"), &json!(1)),
            "{job}"
        );

        assert_eq!(job["losses"], 0, "{job}");
        let told = job["last_errors"].as_array().unwrap();
        assert!(
            told.len() == 4 && told.iter().all(|error| error["code"] == "worker_lost"),
            "{job}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_job_whose_processes_all_die_fails_with_the_reason() {
    on_each(|database| async move {
        const LIMIT: &[(&str, &str)] = &[("MEMOIR__JOBS__MAX_LOSSES", "3")];

        let id = queue(&database, &json!({"steps": 1, "effect": true})).await;
        die_after_claims(&database, LIMIT, 3);

        let alive = with(memoir(&database), LIMIT);
        let running = alive.serve();
        let api = Api::at(running.address);
        let job = api.finished("default", &id).await;
        assert_eq!(
            (&job["state"], &job["losses"]),
            (&json!("failed"), &json!(3)),
            "{job}"
        );

        assert_eq!(job["error"]["code"], "worker_lost", "{job}");
        let detail = job["error"]["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("3 processes in a row died or froze"),
            "{detail}"
        );

        // A user's retry starts the count again.
        let (status, job) = api.post("default", &format!("/v1/jobs/{id}/retry")).await;
        assert_eq!((status, &job["losses"]), (202, &json!(0)), "{job}");
        assert_eq!(api.finished("default", &id).await["state"], "succeeded");
        assert_eq!(api.effects("default", &id).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_saved_step_resets_the_count_of_deaths() {
    on_each(|database| async move {
        const LIMIT: &[(&str, &str)] = &[("MEMOIR__JOBS__MAX_LOSSES", "2")];

        let id = queue(&database, &json!({"steps": 4, "effect": true})).await;
        for _ in 0..4 {
            let dying = with(memoir(&database), LIMIT)
                .env("MEMOIR__TESTING__FAIL_POINT", "after_checkpoint");
            assert_eq!(
                dying.serve_or_die().wait(),
                None,
                "it should have died on the spot: {}",
                dying.log()
            );
        }

        let alive = with(memoir(&database), LIMIT);
        let running = alive.serve();
        let job = Api::at(running.address).finished("default", &id).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("succeeded"), &json!(1)),
            "{job}"
        );
    })
    .await;
}
