//! A full database: what memoir reports, and that it resumes on its own when there is space again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir::config::database::Engine;
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::binary::{Binary, text};
use crate::support::database::TestDatabase;
use crate::support::small_disk::SmallDisk;

#[tokio::test]
async fn a_full_disk_is_reported_and_recovers_without_a_restart() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this process may not mount a small file system");
        return;
    };

    let url = format!("sqlite://{}/memoir.db", disk.path().display());
    let app = TestApp::at(&url, Arc::new(TestDatabase::sqlite()), &[]).await;
    let made = app.post("/v1/sources", &json!({"path": "/before"})).await;
    assert_eq!(made.status, 201);
    assert_eq!(app.get("/health/ready").await.status, 200);

    for round in 0..3 {
        let filler = disk.fill();
        // The write-ahead log may still have a little free space.
        let began = Instant::now();
        for n in 0.. {
            let reply = app
                .post("/v1/sources", &json!({"path": format!("/{round}/{n}")}))
                .await;
            if reply.status != 201 {
                reply.assert_problem(503, "storage_full");
                break;
            }

            assert!(
                began.elapsed() < Duration::from_mins(1),
                "it never got full"
            );
        }

        for n in 0..5 {
            app.post(
                "/v1/sources",
                &json!({"path": format!("/{round}/more/{n}")}),
            )
            .await
            .assert_problem(503, "storage_full");
        }

        app.get("/health/ready")
            .await
            .assert_problem(503, "storage_full");
        assert_eq!(
            app.get(made.header("location")).await.status,
            200,
            "reading goes on"
        );

        assert_eq!(app.get("/health/live").await.status, 200);

        std::fs::remove_file(filler).unwrap();
        let after = app
            .post("/v1/sources", &json!({"path": format!("/{round}/after")}))
            .await;
        assert_eq!(after.status, 201, "{}", after.text);
        let began = Instant::now();

        while app.get("/health/ready").await.status != 200 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "readiness did not come back"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    app.finish().await;
}

/// A job that meets a full disk waits for space and uses up no attempt.
#[tokio::test]
async fn a_job_waits_for_disk_space() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this process may not mount a small file system");
        return;
    };

    let url = format!("sqlite://{}/memoir.db", disk.path().display());
    let settings = [("TESTING__PROBE_JOBS", "true"), ("JOBS__BACKOFF_MS", "100")];
    let app = TestApp::at(&url, Arc::new(TestDatabase::sqlite()), &settings).await;
    let queued = app
        .post("/v1/testing/jobs", &json!({"steps": 60, "step_ms": 100}))
        .await;
    assert_eq!(queued.status, 202, "{}", queued.text);
    let path = queued.header("location").to_owned();

    let filler = disk.fill();
    let began = Instant::now();
    for n in 0.. {
        if app
            .post("/v1/sources", &json!({"path": format!("/{n}")}))
            .await
            .status
            != 201
        {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "it never got full"
        );
    }

    // Longer than three attempts would take.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let job = app.get(&path).await.json();
    assert!(
        ["queued", "running"].contains(&job["state"].as_str().unwrap()),
        "{job:#}"
    );

    std::fs::remove_file(filler).unwrap();
    let began = Instant::now();
    let job = loop {
        let job = app.get(&format!("{path}?wait=5")).await.json();
        if !["queued", "running"].contains(&job["state"].as_str().unwrap()) {
            break job;
        }

        assert!(began.elapsed() < Duration::from_mins(2), "{job:#}");
    };

    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("succeeded"), &json!(1)),
        "{job:#}"
    );

    app.finish().await;
}

/// The readiness check notices on its own, not only after a request has failed.
#[tokio::test]
async fn readiness_tests_a_write() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        // Equivalent to a full disk: the table of the test write cannot be written.
        app.database
            .execute("ALTER TABLE write_probes RENAME TO write_probes_away")
            .await;
        assert_eq!(
            app.get("/health/ready").await.status,
            500,
            "{:?}",
            app.database.engine
        );

        app.database
            .execute("ALTER TABLE write_probes_away RENAME TO write_probes")
            .await;
        let began = Instant::now();
        while app.get("/health/ready").await.status != 200 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "readiness did not come back"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        // The result is cached: not every probe writes.
        app.database
            .execute("ALTER TABLE write_probes RENAME TO write_probes_away")
            .await;
        assert_eq!(app.get("/health/ready").await.status, 200);
    }
}

#[test]
fn a_file_that_is_not_a_database_is_reported_at_once() {
    // A pool that waited for its timeout would take this long.
    let memoir = Binary::new()
        .env("DATABASE_URL", "sqlite://notes.txt")
        .env("MEMOIR__DATABASE__ACQUIRE_TIMEOUT", "60");
    let notes = "Notes of a meeting, kept in the wrong place. ".repeat(40);
    std::fs::write(memoir.folder.path().join("notes.txt"), &notes).unwrap();

    for (arguments, code) in [
        (&[][..], 2),
        (&["migrate"], 2),
        (&["worker"], 2),
        (&["doctor"], 1),
    ] {
        let began = Instant::now();
        let output = memoir.run(arguments);
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{arguments:?} took {:?}",
            began.elapsed()
        );
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(
            said.contains("the file notes.txt is not a SQLite database"),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("Set database.url"), "{arguments:?}: {said}");
    }

    assert_eq!(
        std::fs::read_to_string(memoir.folder.path().join("notes.txt")).unwrap(),
        notes,
        "it is left alone"
    );
}

#[tokio::test]
async fn a_missing_table_prevents_the_start() {
    for database in TestDatabase::each().await {
        let memoir = Binary::new().env("DATABASE_URL", &database.url);
        assert_eq!(memoir.run(&["migrate"]).status.code(), Some(0));
        database.execute("DROP TABLE idempotency_keys").await;

        for arguments in [&[][..], &["migrate"], &["worker"]] {
            let output = memoir.run(arguments);
            assert_eq!(
                output.status.code(),
                Some(2),
                "{arguments:?} on {:?}",
                database.engine
            );

            let said = text(&output.stderr);
            assert!(said.contains("table idempotency_keys"), "{said}");
            assert!(
                said.contains("Restore the database from a backup"),
                "{said}"
            );

            assert!(!said.contains("table sources"), "{said}");
        }

        if database.engine == Engine::Mysql {
            // The lock was released; otherwise this would wait for it.
            assert_eq!(memoir.run(&["doctor"]).status.code(), Some(1));
        }
    }
}
