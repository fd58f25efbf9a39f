//! `kill -9` at random times and at every fail point: each accepted job ends, each effect exists
//! once, and no finished step is repeated. `MEMOIR_TEST_KILLS` sets the number of random kills
//! (scripts/soak: 200 in total).

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::binary::{Binary, Running};
use crate::support::database::{TestDatabase, variable};
use crate::support::dice::Dice;
use crate::support::probes::{Api, check_log};

/// Each fail point, and the hit at which the process dies.
const FAIL_POINTS: &[&str] = &[
    "after_claim:2",
    "after_checkpoint:3",
    "in_transaction:2",
    "before_commit:2",
    "after_commit:2",
    "in_heartbeat:2",
    "in_shutdown",
];

fn memoir(database: &TestDatabase, log: &std::path::Path) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__TESTING__PROBE_JOBS", "true")
        .env("MEMOIR__TESTING__PROBE_LOG", log.to_str().unwrap())
        .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        .env("MEMOIR__JOBS__WORKERS", "4")
        .env("MEMOIR__SERVER__SHUTDOWN_GRACE", "0")
}

async fn queue_some(api: &Api, accepted: &mut Vec<String>, count: usize) {
    for _ in 0..count {
        accepted.extend(
            api.queue(
                "default",
                &json!({"steps": 4, "step_ms": 15, "effect": true}),
            )
            .await,
        );
    }
}

async fn check(running: &Running, accepted: &[String], log: &std::path::Path) {
    let api = Api::at(running.address);
    for id in accepted {
        let job = api.finished("default", id).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        assert_eq!(api.effects("default", id).await, 1, "{job}");
    }

    check_log(log);
}

#[tokio::test(flavor = "multi_thread")]
async fn random_kills_lose_and_repeat_nothing() {
    let kills: u64 = variable("MEMOIR_TEST_KILLS").map_or(12, |kills| kills.parse().unwrap());
    for database in TestDatabase::each().await {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let memoir = memoir(&database, &log);
        let mut dice = Dice::new("random_kills");
        let mut accepted = Vec::new();

        for _ in 0..kills {
            let running = memoir.serve();
            queue_some(&Api::at(running.address), &mut accepted, 3).await;
            tokio::time::sleep(Duration::from_millis(dice.below(250))).await;
            assert_eq!(running.signal_and_wait("KILL"), None);
        }

        let running = memoir.serve();
        check(&running, &accepted, &log).await;
        eprintln!(
            "{:?}: {kills} kills, {} jobs, all done once",
            database.engine,
            accepted.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_every_fail_point_lose_and_repeat_nothing() {
    for database in TestDatabase::each().await {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut accepted = Vec::new();

        for point in FAIL_POINTS {
            let dying = memoir(&database, &log).env("MEMOIR__TESTING__FAIL_POINT", point);
            let running = dying.serve_or_die();
            let api = Api::at(running.address);
            queue_some(&api, &mut accepted, 4).await;
            let code = if *point == "in_shutdown" {
                accepted.extend(
                    api.queue(
                        "default",
                        &json!({"steps": 1, "step_ms": 3000, "effect": true}),
                    )
                    .await,
                );

                while api.get("default", "/v1/jobs?state=running").await["items"]
                    .as_array()
                    .unwrap()
                    .is_empty()
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                running.signal_and_wait("TERM")
            } else {
                accepted.extend(
                    api.queue(
                        "default",
                        &json!({"steps": 1, "step_ms": 700, "effect": true}),
                    )
                    .await,
                );
                running.wait()
            };

            assert_eq!(
                code,
                None,
                "{point}: it should have died on the spot: {}",
                dying.log()
            );
        }

        let alive = memoir(&database, &log);
        let running = alive.serve();
        check(&running, &accepted, &log).await;
    }
}

/// A process that is frozen past its lease and continued writes nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_frozen_past_its_lease_writes_nothing() {
    for database in [TestDatabase::postgres().await, TestDatabase::mysql().await]
        .into_iter()
        .flatten()
    {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (first, second) = (memoir(&database, &log), memoir(&database, &log));
        let frozen = first.serve();
        let api = Api::at(frozen.address);
        let mut accepted = Vec::new();

        for _ in 0..4 {
            accepted.extend(
                api.queue(
                    "default",
                    &json!({"steps": 1, "step_ms": 1000, "effect": true}),
                )
                .await,
            );
        }

        // All at the same time: an event would only say that one was.
        while api.get("default", "/v1/jobs?state=running").await["items"]
            .as_array()
            .unwrap()
            .len()
            < 4
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        signal(&frozen, "STOP");
        let other = second.serve();
        let api = Api::at(other.address);
        for id in &accepted {
            assert_eq!(api.finished("default", id).await["state"], "succeeded");
        }

        let before: Vec<_> = events(&api, &accepted).await;
        signal(&frozen, "CONT");

        // It has recovered once it responds again and has checked its leases.
        let back = Api::at(frozen.address);
        back.get("default", "/v1/jobs").await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        for id in &accepted {
            assert_eq!(api.effects("default", id).await, 1);
        }

        assert_eq!(
            events(&api, &accepted).await,
            before,
            "the frozen process wrote after it lost its lease"
        );
    }
}

async fn events(api: &Api, ids: &[String]) -> Vec<serde_json::Value> {
    let mut all = Vec::new();
    for id in ids {
        all.push(api.get("default", &format!("/v1/jobs/{id}")).await);
    }

    all
}

fn signal(running: &Running, name: &str) {
    assert!(
        Command::new("kill")
            .args(["-s", name, &running.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}
