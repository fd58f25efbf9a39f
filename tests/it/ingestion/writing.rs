//! Writing: all or nothing, visible at once, isolated from other writers, and reported when it
//! fails.

use std::time::Duration;

use memoir::config::database::Engine;
use memoir::scripted_model::{Fault, Reply};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};

use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, chunk, count, document, request, source, until};

const FLAT: &[(&str, &str)] = &[
    ("TAXONOMY__HIERARCHY_DEPTH", "1"),
    ("JOBS__MAX_ATTEMPTS", "2"),
];

/// Makes the database reject the chunk at this position.
async fn spoil(database: &TestDatabase, ordinal: i64) {
    let sql = match database.engine {
        Engine::Sqlite => format!(
            "CREATE TRIGGER spoilt_by_a_test BEFORE INSERT ON chunks WHEN NEW.ordinal = {ordinal} \
             BEGIN SELECT RAISE(ABORT, 'spoilt_by_a_test'); END"
        ),
        _ => format!(
            "ALTER TABLE chunks ADD CONSTRAINT spoilt_by_a_test CHECK (ordinal <> {ordinal})"
        ),
    };
    database.execute(&sql).await;
}

async fn mend(database: &TestDatabase) {
    let sql = match database.engine {
        Engine::Sqlite => "DROP TRIGGER spoilt_by_a_test",
        _ => "ALTER TABLE chunks DROP CONSTRAINT spoilt_by_a_test",
    };
    database.execute(sql).await;
}

fn ordinals(chunks: &[Value]) -> Vec<i64> {
    chunks
        .iter()
        .map(|chunk| chunk["ordinal"].as_i64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_failed_write_stores_nothing_and_the_retry_calls_no_model() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, FLAT).await;
        spoil(&ingest.app.database, 7).await;
        let job = ingest
            .fail(
                &document(&["A", "B", "C", "D", "A", "B", "C"], &json!({})),
                "write_failed",
            )
            .await;

        assert_eq!(ingest.rows().await, [0; 5], "{engine:?}");
        assert_eq!(job["attempt"], 2, "{engine:?}");
        let context = &job["error"]["context"];
        assert_eq!(
            (&context["operation"], &context["table"]),
            (&json!("add chunks"), &json!("chunks")),
            "{job:#}"
        );

        assert!(
            context["database_message"]
                .as_str()
                .unwrap()
                .contains("spoilt_by_a_test"),
            "{job:#}"
        );

        assert_eq!(
            (&context["attempt"], &context["retryable"]),
            (&json!(2), &json!(true)),
            "{job:#}"
        );

        assert_eq!(
            job["last_errors"].as_array().unwrap().len(),
            2,
            "the first failure is listed too: {job:#}"
        );

        mend(&ingest.app.database).await;
        ingest.model.clear();
        let job = ingest.retry(&job).await;
        assert_eq!(job["state"], "succeeded", "{engine:?} {job:#}");
        assert_eq!(
            ingest.model.stats().requests,
            0,
            "{engine:?}: every answer was kept"
        );

        assert_eq!(ingest.rows().await, [1, 1, 1, 4, 7], "{engine:?}");
        // The counts match the stored rows, even after a restart.
        let ingest = ingest.restart(FLAT).await;
        let told = ingest.job(job["id"].as_str().unwrap()).await;
        assert_eq!(
            (
                &told["result"]["chunks_written"],
                &told["result"]["categories_created"]
            ),
            (&json!(7), &json!(4))
        );

        assert_eq!(
            ordinals(&ingest.chunks(&told).await),
            (1..=7).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn with_transactions_per_batch_written_batches_stay() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, FLAT).await;
        let more =
            json!({"path": "/a.md", "options": {"batch_size": 3, "transaction_scope": "batch"}});
        let body = document(&["A", "B", "A", "C", "D", "A", "B"], &more);
        spoil(&ingest.app.database, 5).await;
        let failed = ingest.fail(&body, "write_failed").await;

        assert_eq!(
            ordinals(&ingest.chunks(&failed).await),
            [1, 2, 3],
            "{engine:?}: the first batch, none of the second"
        );

        assert_eq!(
            ingest.names(1).await,
            ["A", "B"],
            "{engine:?}: no category of the second"
        );

        mend(&ingest.app.database).await;
        ingest.model.clear();
        let job = ingest.retry(&failed).await;
        assert_eq!(job["state"], "succeeded", "{engine:?} {job:#}");
        assert_eq!(ingest.model.stats().requests, 0);
        assert_eq!(
            ordinals(&ingest.chunks(&job).await),
            (1..=7).collect::<Vec<_>>(),
            "{engine:?}"
        );

        assert_eq!(
            (&job["result"]["chunks_written"], &job["result"]["version"]),
            (&json!(7), &json!(1))
        );

        assert_eq!(ingest.rows().await, [1, 1, 1, 4, 7], "{engine:?}");
        assert_eq!(counts(&ingest).await, [3, 2, 1, 1], "{engine:?}");
    }
}

/// The stored number of chunks of each category.
async fn counts(ingest: &Ingest) -> Vec<i64> {
    let found = ingest.list("/v1/categories?level=1").await;
    found
        .iter()
        .map(|category| category["chunk_count"].as_i64().unwrap())
        .collect()
}

/// An incomplete version is not shared: the same text again is filed from the start.
#[tokio::test]
async fn an_incomplete_version_is_never_shared() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, FLAT).await;
        let more =
            json!({"path": "/a.md", "options": {"batch_size": 2, "transaction_scope": "batch"}});
        let body = document(&["A", "B", "A", "C"], &more);
        spoil(&ingest.app.database, 3).await;
        let failed = ingest.fail(&body, "write_failed").await;

        mend(&ingest.app.database).await;
        let job = ingest.succeed(&body).await;
        assert_eq!(
            ordinals(&ingest.chunks(&job).await),
            [1, 2, 3, 4],
            "{engine:?}: {}",
            job["result"]
        );

        assert_eq!(counts(&ingest).await, [2, 1, 1], "{engine:?}");
        // The older version is completed after the newer one exists; the counts are those of the
        // newer.
        let late = ingest.retry(&failed).await;
        assert_eq!(
            (&late["state"], &late["result"]["version"]),
            (&json!("succeeded"), &json!(1)),
            "{late:#}"
        );

        let first = ingest
            .list(&format!("/v1/sources/{}/chunks?version=1", source(&late)))
            .await;
        assert_eq!(ordinals(&first), [1, 2, 3, 4], "{engine:?}");
        assert_eq!(
            counts(&ingest).await,
            [2, 1, 1],
            "{engine:?}: only what the source says now is counted"
        );

        let gone = send(
            ingest
                .app
                .request(Method::DELETE, &format!("/v1/sources/{}", source(&job))),
        )
        .await;

        assert_eq!(
            (gone.status.as_u16(), counts(&ingest).await),
            (200, vec![]),
            "{engine:?}"
        );
    }
}

/// The texts that a search finds.
async fn found(ingest: &Ingest, query: &str) -> Vec<String> {
    let reply = ingest
        .app
        .post("/v1/search", &json!({"query": query, "type": "keyword"}))
        .await;

    assert_eq!(reply.status, 200, "{}", reply.text);
    let items = reply.json()["items"].as_array().unwrap().clone();
    items
        .iter()
        .map(|item| item["text_content"].as_str().unwrap().to_owned())
        .collect()
}

/// A version that is written batch by batch is invisible until its last batch: while it is written,
/// after a cancellation, and after a failure.
#[tokio::test]
async fn an_incomplete_version_does_not_hide_the_previous_one() {
    let slowly = ("LLM__TRANSPORT__READ_TIMEOUT", "60");
    let settings = [
        FLAT,
        &[
            ("INGESTION__INDEXES", r#"["taxonomy"]"#),
            ("INGESTION__WINDOW", "2"),
            slowly,
        ],
    ]
    .concat();

    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &settings).await;
        let first = ingest
            .succeed(&document(&["Ash", "Birch"], &json!({"path": "/a.md"})))
            .await;
        let id = source(&first).to_owned();
        assert_eq!(
            found(&ingest, "Ash").await.len(),
            1,
            "{engine:?}: the index is in memory from now on"
        );

        let more =
            json!({"path": "/a.md", "options": {"batch_size": 2, "transaction_scope": "batch"}});
        let second = document(&["Cedar", "Dogwood", "Elm", "Fir"], &more);
        let unchanged = async |what: &str| {
            let shown = ingest.app.get(&format!("/v1/sources/{id}")).await.json();
            assert_eq!(shown["latest_version"], 1, "{engine:?} {what}");
            assert_eq!(
                ingest.list(&format!("/v1/sources/{id}/chunks")).await.len(),
                2,
                "{engine:?} {what}"
            );

            assert_eq!(
                ingest
                    .list(&format!("/v1/sources/{id}/versions"))
                    .await
                    .len(),
                1,
                "{engine:?} {what}"
            );

            assert_eq!(counts(&ingest).await[..2], [1, 1], "{engine:?} {what}");
            assert!(
                counts(&ingest).await[2..].iter().all(|count| *count == 0),
                "{engine:?} {what}"
            );

            assert_eq!(
                (
                    found(&ingest, "Ash").await.len(),
                    found(&ingest, "Cedar").await.len()
                ),
                (1, 0),
                "{what}"
            );

            let body = json!({"query": "Cedar", "mode": "retrieve", "strategy": "wide_branch", "n": 10, "as_of": "2100-01-01T00:00:00Z"});
            let asked = ingest.app.post("/v1/queries", &body).await.json();
            assert!(
                asked["chunks"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|chunk| chunk["source_version"] == 1),
                "{what}"
            );
        };

        // Cancelled in the middle.
        ingest.model.set_rule(|seen| {
            let reply = Reply::sensible(seen);
            let slow = seen.user.contains("category1: Elm") && seen.stage == "classify";
            if slow {
                reply.with_fault(Fault::Delay { ms: 60_000 })
            } else {
                reply
            }
        });

        let job = ingest.queue(&second).await;
        until("the first batch", async || {
            ingest.count("chunks").await == 4
        })
        .await;

        unchanged("between batches").await;
        let cancelled = ingest
            .app
            .post(&format!("/v1/jobs/{job}/cancel"), &Value::Null)
            .await;

        assert_eq!(cancelled.status, 200, "{}", cancelled.text);
        unchanged("cancelled").await;

        // Failed in the middle, and retried.
        ingest.model.set_rule(Reply::sensible);
        spoil(&ingest.app.database, 3).await;
        let failed = ingest.fail(&second, "write_failed").await;
        unchanged("failed").await;
        mend(&ingest.app.database).await;
        let done = ingest.retry(&failed).await;

        assert_eq!(
            (&done["state"], &done["result"]["version"]),
            (&json!("succeeded"), &json!(3)),
            "{done:#}"
        );

        assert_eq!(
            ordinals(&ingest.chunks(&done).await),
            [1, 2, 3, 4],
            "{engine:?}"
        );

        assert_eq!(counts(&ingest).await, [0, 0, 1, 1, 1, 1], "{engine:?}");
        for tree in ["Cedar", "Dogwood", "Elm", "Fir"] {
            assert_eq!(
                found(&ingest, tree).await.len(),
                1,
                "{engine:?} {tree}: of every batch"
            );
        }

        assert!(found(&ingest, "Ash").await.is_empty(), "{engine:?}");
        ingest.app.finish().await;
    }
}

/// Slows down the write of the first chunk.
async fn slow_down(database: &TestDatabase) {
    match database.engine {
        Engine::Sqlite => {
            let sql = "CREATE TRIGGER slow AFTER INSERT ON chunks WHEN NEW.ordinal = 1 BEGIN \
                       SELECT COUNT(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                       WHERE i < 3000000) SELECT i FROM n); END";
            database.execute(sql).await;
        }
        Engine::Postgres => {
            let function = "CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; \
                            END $$ LANGUAGE plpgsql";
            database.execute(function).await;
            let trigger = "CREATE TRIGGER slow AFTER INSERT ON chunks FOR EACH ROW WHEN (NEW.ordinal = 1) \
                           EXECUTE FUNCTION slow()";
            database.execute(trigger).await;
        }
        Engine::Mysql => {
            let sql = "CREATE TRIGGER slow AFTER INSERT ON chunks FOR EACH ROW BEGIN \
                       IF NEW.ordinal = 1 THEN DO SLEEP(1); END IF; END";
            database.execute(sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_invisible_until_it_is_complete() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &[]).await;
        slow_down(&ingest.app.database).await;
        let id = ingest
            .queue(&document(&["A/B/C", "D/E/F"], &json!({})))
            .await;
        let mut connection = ingest.app.database.connect().await;
        let sql = "SELECT (SELECT COUNT(*) FROM sources), (SELECT COUNT(*) FROM source_versions), \
                   (SELECT COUNT(*) FROM contextual_helpers), (SELECT COUNT(*) FROM categories), \
                   (SELECT COUNT(*) FROM chunks WHERE profile = 'taxonomy'), \
                   (SELECT COUNT(*) FROM job_batches WHERE level = 3), \
                   (SELECT COUNT(*) FROM jobs WHERE state = 'succeeded')";

        let mut looks_while_writing = 0;
        loop {
            let row = sqlx::query(AssertSqlSafe(sql.to_owned()))
                .fetch_one(&mut connection)
                .await
                .unwrap();

            let seen: Vec<i64> = (0..7).map(|place| row.get(place)).collect();
            if seen[..5] == [1, 1, 1, 6, 2] {
                assert_eq!(seen[6], 1, "{engine:?}: the job is over in the same moment");
                break;
            }

            assert_eq!(seen[..5], [0; 5], "{engine:?}");
            assert_eq!(seen[6], 0, "{engine:?}");

            // No call is left to make.
            looks_while_writing += i64::from(seen[5] == 2);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }

        connection.close().await.unwrap();
        assert!(
            looks_while_writing > 5,
            "{engine:?}: it was looked at while it was written: {looks_while_writing}"
        );

        assert_eq!(ingest.finished(&id).await["state"], "succeeded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_jobs_with_the_same_new_categories_create_each_once() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, &[("JOBS__WORKERS", "4")]).await;
        ingest.model.edit_script(|script| script.latency_ms = 25);
        let paths = ["A/B/C", "A/D/E", "F/G/H", "A/B/I", "F/G/J"];
        let mut queued = Vec::new();

        for _ in 0..4 {
            queued.push(ingest.queue(&document(&paths, &json!({}))).await);
        }

        for id in &queued {
            let job = ingest.finished(id).await;
            assert_eq!(job["state"], "succeeded", "{engine:?} {job:#}");
        }

        assert!(
            ingest.model.stats().max_in_flight >= 3,
            "{engine:?}: they ran at once"
        );

        assert_eq!(ingest.rows().await, [4, 4, 4, 2 + 3 + 5, 20], "{engine:?}");
        let strays = "SELECT COUNT(*) FROM categories k WHERE k.chunk_count <> (SELECT COUNT(*) FROM chunks c WHERE \
                      c.category_id = k.id) AND k.level = 3";
        assert_eq!(count(&ingest.app.database, strays).await, 0, "{engine:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_of_two_jobs_that_reach_the_limit_is_filed_again() {
    for scope in ["level", "parent"] {
        for database in TestDatabase::each().await {
            let engine = database.engine;
            let limit = if scope == "level" {
                "TAXONOMY__MAX_CATEGORIES_DEFAULT"
            } else {
                "TAXONOMY__MAX_CHILDREN"
            };
            let settings = [
                ("TAXONOMY__HIERARCHY_DEPTH", "2"),
                (limit, "2"),
                ("TAXONOMY__LIMIT_SCOPE", scope),
                ("JOBS__WORKERS", "3"),
            ];

            let ingest = Ingest::on(database, &settings).await;
            ingest.model.edit_script(|script| script.latency_ms = 25);
            let mut queued = Vec::new();
            for paths in [["A/A1", "B/B1"], ["C/C1", "D/D1"], ["E/E1", "B/F1"]] {
                queued.push(ingest.queue(&document(&paths, &json!({}))).await);
            }

            for id in &queued {
                let job = ingest.finished(id).await;
                assert_eq!(job["state"], "succeeded", "{engine:?} {scope} {job:#}");
                assert_eq!(ingest.chunks(&job).await.len(), 2, "{engine:?}");
            }

            let most =
                "SELECT COUNT(*) FROM categories GROUP BY parent_key ORDER BY 1 DESC LIMIT 1";
            assert!(
                count(&ingest.app.database, most).await <= 2,
                "{engine:?} {scope}"
            );

            assert_eq!(ingest.names(1).await.len(), 2, "{engine:?} {scope}");
            if scope == "level" {
                assert_eq!(ingest.names(2).await.len(), 2, "{engine:?}");
            }
        }
    }
}

/// Leaves up to the number reserved for new subjects, and then, in another window, a new subject.
#[tokio::test(flavor = "multi_thread")]
async fn categories_planned_within_the_limits_can_be_written() {
    let settings = [
        ("TAXONOMY__HIERARCHY_DEPTH", "2"),
        ("TAXONOMY__MAX_CATEGORIES_DEFAULT", "64"),
        ("INGESTION__WINDOW", "56"),
        ("JOBS__MAX_ATTEMPTS", "1"),
    ];

    let ingest = Ingest::with(&settings).await;
    let paths: Vec<String> = (1..=56)
        .map(|number| format!("A/A{number}"))
        .chain(["B/B1".to_owned()])
        .collect();

    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let job = ingest.succeed(&document(&paths, &json!({}))).await;
    assert_eq!(job["result"]["categories_created"], 59, "{job:#}");
    assert_eq!(
        job["warnings"][0]["code"], "level_full",
        "the rest is reserved: {job:#}"
    );
}

#[tokio::test]
async fn the_log_of_a_finished_job_is_deleted_if_logs_are_off() {
    let ingest = Ingest::with(&[
        FLAT[0],
        ("AUDIT__PERSIST", "false"),
        ("JOBS__MAX_ATTEMPTS", "1"),
    ])
    .await;

    let job = ingest.succeed(&document(&["A", "B"], &json!({}))).await;
    assert_eq!(
        (
            ingest.count("job_batches").await,
            ingest.count("llm_calls").await
        ),
        (0, 0)
    );

    assert_eq!(ingest.count("job_events").await, 0);

    assert_eq!(
        (&job["batches"], &job["responses"], &job["helper_events"]),
        (&json!([]), &json!([]), &json!([]))
    );

    assert_eq!(job["result"]["llm_calls"], 2, "the sum stays");
    // A failed job has no log either, so its retry repeats the steps that it had finished.
    spoil(&ingest.app.database, 2).await;
    let failed = ingest
        .fail(&document(&["C", "D"], &json!({})), "write_failed")
        .await;
    assert_eq!(
        (
            ingest.count("job_batches").await,
            ingest.count("llm_calls").await
        ),
        (0, 0)
    );

    mend(&ingest.app.database).await;
    ingest.model.clear();
    let job = ingest.retry(&failed).await;
    assert_eq!(
        (&job["state"], ingest.model.stats().requests),
        (&json!("succeeded"), 2),
        "{job:#}"
    );

    for table in ["job_events", "job_batches", "job_checkpoints"] {
        assert_eq!(ingest.count(table).await, 0, "{table}");
    }
}

/// A source that is deleted while its new version is filed does not return unless the user retries
/// the job.
#[tokio::test]
async fn a_source_can_be_deleted_while_it_is_filed() {
    let ingest = Ingest::with(FLAT).await;
    let path = json!({"path": "/a.md"});
    let first = ingest.succeed(&document(&["A", "B"], &path)).await;
    ingest.model.edit_script(|script| script.latency_ms = 100);
    ingest.model.clear();
    let id = ingest.queue(&request(&chunk("C", 1), &path)).await;

    assert!(
        ingest
            .model
            .wait_for_requests(1, Duration::from_secs(5))
            .await
    );

    let gone = send(
        ingest
            .app
            .request(Method::DELETE, &format!("/v1/sources/{}", source(&first))),
    )
    .await;

    assert_eq!(gone.status, 200);
    let job = ingest.finished(&id).await;
    assert_eq!(job["state"], "cancelled", "{job:#}");
    assert_eq!(
        (ingest.count("sources").await, counts(&ingest).await),
        (0, vec![])
    );

    let again = ingest
        .app
        .post(&format!("/v1/jobs/{id}/retry"), &json!({}))
        .await;
    again.assert_problem(410, "erased");
    assert_eq!(counts(&ingest).await, [0_i64; 0]);
}

/// A version that would share the deleted chunks is filed instead.
#[tokio::test]
async fn deleted_chunks_are_not_shared() {
    let ingest = Ingest::with(FLAT).await;
    let first = ingest
        .succeed(&document(&["A", "B"], &json!({"path": "/a.md"})))
        .await;
    ingest.model.edit_script(|script| script.latency_ms = 150);
    ingest.model.clear();
    let id = ingest
        .queue(&document(
            &["A", "B"],
            &json!({"path": "/a.md", "regenerate_helper": true}),
        ))
        .await;

    assert!(
        ingest
            .model
            .wait_for_requests(1, Duration::from_secs(5))
            .await
    );

    let gone = send(
        ingest
            .app
            .request(Method::DELETE, &format!("/v1/sources/{}", source(&first))),
    )
    .await;

    assert_eq!(gone.status, 200);
    let job = ingest.finished(&id).await;
    assert_eq!(job["state"], "cancelled", "{job:#}");
    let again = ingest
        .app
        .post(&format!("/v1/jobs/{id}/retry"), &json!({}))
        .await;
    again.assert_problem(410, "erased");
    assert_eq!(counts(&ingest).await, [0_i64; 0]);
}
