//! Concurrent requests while a source is written. A cancellation: one of the two wins, and the
//! stored data shows which. A change: both take effect.

use std::sync::Arc;
use std::time::Duration;

use memoir::config::database::Engine;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count, document, until};

const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn either_the_cancellation_or_the_write_wins() {
    for database in TestDatabase::each().await {
        let rounds: u64 = if database.engine == Engine::Postgres {
            500
        } else {
            100
        };

        let ingest = Arc::new(Ingest::on(database, &[("JOBS__WORKERS", "4")]).await);
        let mut racing = tokio::task::JoinSet::new();
        let mut won = [0, 0];

        // The delay shrinks after a write has won and grows after a cancellation has won, so that
        // it converges to the time of the write on any machine.
        let mut pause = Duration::from_millis(50);
        for round in 0..rounds {
            racing.spawn(race(Arc::clone(&ingest), round, pause));
            if racing.len() >= AT_ONCE {
                let outcome = racing.join_next().await.unwrap().unwrap();
                won[outcome] += 1;
                pause = if outcome == 0 {
                    pause * 9 / 10
                } else {
                    pause * 10 / 9
                };
            }
        }

        while let Some(outcome) = racing.join_next().await {
            won[outcome.unwrap()] += 1;
        }

        let [written, cancelled] = won;
        eprintln!(
            "{:?}: {written} written, {cancelled} cancelled, at last after {pause:?}",
            ingest.app.database.engine
        );

        assert!(written > 0 && cancelled > 0, "there was no race: {won:?}");
        let [sources, versions, _, _, chunks] = ingest.rows().await;
        assert_eq!([sources, versions, chunks], [written, written, 2 * written]);
        let ends = "SELECT COUNT(*) FROM job_events WHERE kind = 'state' AND \
                    (data_json LIKE '%succeeded%' OR data_json LIKE '%cancelled%' OR data_json LIKE '%failed%')";
        // The last state of a job that has succeeded is in its row.
        let logs = "SELECT COUNT(*) FROM jobs WHERE log_json IS NOT NULL";
        let ended = count(&ingest.app.database, ends).await;
        let succeeded = count(&ingest.app.database, logs).await;
        assert_eq!(
            ended + succeeded,
            i64::try_from(rounds).unwrap(),
            "each ends once"
        );
    }
}

/// Ingests a text and cancels the job a little later; returns which of the two won.
async fn race(ingest: Arc<Ingest>, round: u64, pause: Duration) -> usize {
    let path = format!("/race/{round}.txt");
    let id = ingest
        .queue(&document(&["A/B/C", "A/B/D"], &json!({"path": path})))
        .await;
    tokio::time::sleep(pause).await;
    let reply = ingest
        .app
        .post(&format!("/v1/jobs/{id}/cancel"), &Value::Null)
        .await;

    let job = ingest.finished(&id).await;
    let source = ingest
        .app
        .get(&format!(
            "/v1/sources/{}",
            job["source_id"].as_str().unwrap()
        ))
        .await;

    let cancelled = job["state"] == "cancelled";
    let wanted = if cancelled { (200, 404) } else { (409, 200) };
    assert_eq!(
        (reply.status.as_u16(), source.status.as_u16()),
        wanted,
        "{job}"
    );

    usize::from(cancelled)
}

/// Requests that change or delete a source take their locks in the same order as the job that
/// writes it.
#[tokio::test(flavor = "multi_thread")]
async fn sources_can_be_changed_while_they_are_written() {
    const DOCUMENTS: usize = 4;
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Arc::new(Ingest::on(database, &[("JOBS__WORKERS", "4")]).await);
        let mut writing = tokio::task::JoinSet::new();

        for number in 0..DOCUMENTS {
            let ingest = Arc::clone(&ingest);
            writing.spawn(async move {
                let (mut retries, mut source) = (0, String::new());
                for version in 0..4 {
                    let paths = ["A/B/C", "A/B/D", "A/E/F", "G/H/I"];
                    let more = json!({
                        "path": format!("/changed/{number}.txt"), "note": format!("{version}"), "force": true,
                        "options": {"transaction_scope": "batch", "batch_size": 1},
                    });

                    let job = ingest.finished(&ingest.queue(&document(&paths, &more)).await).await;
                    assert_eq!(job["state"], "succeeded", "{job:#}");
                    retries += job["db_retries"].as_i64().unwrap();
                    job["source_id"].as_str().unwrap().clone_into(&mut source);
                }

                (retries, source)
            });
        }

        let mut retries = 0;
        let mut changes = 0;
        let mut sources = Vec::new();

        while sources.len() < DOCUMENTS {
            tokio::select! {
                done = writing.join_next() => {
                    let (again, source) = done.unwrap().unwrap();
                    retries += again;
                    sources.push(source);
                }
                () = tokio::time::sleep(Duration::from_millis(3)) => {
                    changes += 1;
                    let listed = ingest.app.get("/v1/sources").await.json();
                    for source in listed["items"].as_array().unwrap() {
                        let url = format!("/v1/sources/{}", source["id"].as_str().unwrap());
                        let tags = json!({"tags": ["file_ingest", format!("tag-{changes}")]});
                        let reply = send(ingest.app.request(Method::PATCH, &url).json(&tags)).await;
                        assert_eq!(reply.status, 200, "{engine:?}: {}", reply.json());
                    }
                }
            }
        }

        assert!(changes > 10, "{engine:?}: nothing was changed meanwhile");
        // The database would break a deadlock, and the write would be repeated.
        assert_eq!(retries, 0, "{engine:?}");
    }
}

/// A source that is deleted when a part of it is written: its job ends, keeps no log if logs are
/// off, and can be retried from the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_can_be_deleted_between_its_batches() {
    for database in TestDatabase::each().await {
        let settings = [
            ("TAXONOMY__HIERARCHY_DEPTH", "1"),
            ("INGESTION__WINDOW", "1"),
            ("AUDIT__PERSIST", "false"),
        ];

        let ingest = Ingest::on(database, &settings).await;
        ingest.model.edit_script(|script| script.latency_ms = 300);
        let more =
            json!({"path": "/a.md", "options": {"batch_size": 1, "transaction_scope": "batch"}});
        let id = ingest.queue(&document(&["A", "B", "C"], &more)).await;
        until("a part is written", async || {
            ingest.count("chunks WHERE profile = 'taxonomy'").await == 1
        })
        .await;

        let source = ingest.job(&id).await["source_id"]
            .as_str()
            .unwrap()
            .to_owned();

        let gone = send(
            ingest
                .app
                .request(Method::DELETE, &format!("/v1/sources/{source}")),
        )
        .await;

        assert_eq!(gone.status, 200);
        let job = ingest.finished(&id).await;
        assert_eq!(job["state"], "cancelled", "{job:#}");
        // The call that was aborted is recorded last.
        until("its records are deleted", async || {
            ingest.count("job_batches").await == 0 && ingest.count("llm_calls").await == 0
        })
        .await;

        let again = ingest
            .app
            .post(&format!("/v1/jobs/{id}/retry"), &json!({}))
            .await;
        again.assert_problem(410, "erased");
        assert_eq!(ingest.count("job_requests").await, 0);
        assert_eq!(ingest.count("chunks").await, 0);
    }
}
