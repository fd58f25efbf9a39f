//! `kill -9` at random times and at every fail point of an ingestion: each job succeeds, each chunk
//! exists once, and only calls in flight are repeated. `MEMOIR_TEST_KILLS` sets the number of
//! random kills.

use std::collections::BTreeMap;
use std::time::Duration;

use memoir::ingestion::chunker::{ChunkRules, cut};
use memoir::scripted_model::ScriptedModel;
use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};

use crate::support::binary::{Binary, Running};
use crate::support::client::client;
use crate::support::database::{TestDatabase, variable};
use crate::support::dice::Dice;
use crate::support::ingest::{chunk, count, line, numbers, request};
use crate::support::probes::Api;

const CONCURRENCY: usize = 3;

fn memoir(database: &TestDatabase, model: &ScriptedModel) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__LLM__PROVIDERS__STUB__KIND", "openai")
        .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "sk-test")
        .env(
            "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
            &model.openai_url(),
        )
        .env("MEMOIR__LLM__MODEL", "stub:m")
        .env("MEMOIR__LLM__MAX_CONCURRENCY", &CONCURRENCY.to_string())
        .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        // One job at a time, so that a kill can lose the calls of one job only.
        .env("MEMOIR__JOBS__WORKERS", "1")
        .env("MEMOIR__SERVER__SHUTDOWN_GRACE", "0")
}

/// Sources whose chunks are all different, so that calls can be distinguished.
struct DocumentRetrieval {
    taken: Vec<(String, String)>,
    made: usize,
    options: Value,
}

impl DocumentRetrieval {
    fn new(options: Value) -> Self {
        Self {
            taken: Vec::new(),
            made: 0,
            options,
        }
    }

    async fn bring(&mut self, running: &Running, chunks: usize) {
        self.made += 1;
        let made = self.made;
        let paths = (0..chunks).map(|n| {
            chunk(
                &format!("A{}/B{}/C{}", n % 3, n % 4, n % 5),
                made * 1000 + n,
            )
        });

        let text = paths.collect::<Vec<_>>().concat();
        let sent = client().post(format!("http://{}/v1/ingestions", running.address));
        let Ok(reply) = sent
            .json(&request(&text, &json!({"options": self.options})))
            .send()
            .await
        else {
            return;
        };

        assert_eq!(reply.status(), 202);
        let Ok(job) = reply.json::<Value>().await else {
            return;
        };
        self.taken
            .push((job["id"].as_str().unwrap().to_owned(), text));
    }

    /// Checks that every job succeeded with exactly the chunks of its text.
    async fn check(&self, running: &Running, database: &TestDatabase) {
        let api = Api::at(running.address);
        let mut chunks = 0;
        for (id, text) in &self.taken {
            let job = api.finished("default", id).await;
            assert_eq!(job["state"], "succeeded", "{job:#}");
            let place = format!(
                "/v1/sources/{}/chunks?limit=500",
                job["source_id"].as_str().unwrap()
            );

            let listed = api.get("default", &place).await;
            let found: Vec<(i64, &str)> = listed["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|chunk| {
                    (
                        chunk["ordinal"].as_i64().unwrap(),
                        chunk["text_content"].as_str().unwrap(),
                    )
                })
                .collect();

            let rules = ChunkRules {
                delimiters: vec!["\n\n".to_owned()],
                min_tokens: 30,
                max_tokens: 75,
            };

            let wanted = cut(text, &rules, TokenCounter::for_model(None));
            let wanted: Vec<(i64, &str)> = (1..)
                .zip(wanted.into_iter().map(|chunk| &text[chunk.range]))
                .collect();
            assert_eq!(found, wanted);
            chunks += i64::try_from(found.len()).unwrap();
        }

        let filed = "SELECT COUNT(*) FROM chunks WHERE profile = 'taxonomy'";
        assert_eq!(
            count(database, filed).await,
            chunks,
            "no chunks of other sources"
        );

        // Each search entry exists once, with its terms and its vector.
        let entries = "search_entries t ON t.owner_kind = 'chunk' AND t.owner_id = c.id";
        let vectors = format!("{entries} JOIN embeddings e ON e.entry_id = t.id");
        for table in [entries, vectors.as_str()] {
            let astray = format!(
                "SELECT COUNT(*) - COUNT(DISTINCT c.id) + (SELECT COUNT(*) FROM chunks WHERE profile = 'retrieval') \
                 - COUNT(DISTINCT c.id) FROM chunks c JOIN {table} WHERE c.profile = 'retrieval'"
            );
            assert_eq!(count(database, &astray).await, 0, "{table}");
        }

        let twice =
            "SELECT COUNT(*) - COUNT(DISTINCT CONCAT(parent_key, '/', name_key)) FROM categories";
        assert_eq!(count(database, twice).await, 0);
        let counted = "SELECT COUNT(*) FROM categories k WHERE k.level = 3 AND k.chunk_count <> \
                       (SELECT COUNT(*) FROM chunks c WHERE c.category_id = k.id)";
        assert_eq!(count(database, counted).await, 0);
    }
}

/// Checks that only calls in flight were repeated, whenever a process died or, on a busy machine, was too slow to renew
/// its lease of a second.
async fn check_calls(model: &ScriptedModel, database: &TestDatabase) {
    let fences = numbers(database, "SELECT fence FROM jobs").await;
    let again = usize::try_from(fences.iter().map(|fence| fence - 1).sum::<i64>()).unwrap();
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for seen in model.requests() {
        let level = if seen.stage == "classify" {
            line(&seen, "level:")
        } else {
            ""
        };

        let parent = if seen.stage == "classify" {
            line(&seen, "parent:")
        } else {
            ""
        };

        let numbers: Vec<&str> = seen
            .user
            .lines()
            .filter(|line| line.starts_with("Chunk "))
            .collect();

        *calls
            .entry(format!(
                "{} {level} {parent} {}",
                seen.stage,
                numbers.join(" ")
            ))
            .or_default() += 1;
    }

    let (all, distinct) = (calls.values().sum::<usize>(), calls.len());
    let what = format!("jobs claimed again {again} times: {all} calls, {distinct} different ones");
    eprintln!("{what}");
    assert!(
        distinct > 0 && all <= distinct + again * CONCURRENCY,
        "{what}"
    );
}

async fn model() -> ScriptedModel {
    let model = ScriptedModel::local().await.unwrap();
    model.edit_script(|script| script.latency_ms = 30);
    model
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
async fn random_kills_lose_and_duplicate_no_chunk() {
    on_each(|database| killed_at_random(database, json!({}))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn random_kills_between_batches_lose_and_duplicate_no_chunk() {
    on_each(|database| killed_at_random(database, json!({"transaction_scope": "batch"}))).await;
}

async fn killed_at_random(database: TestDatabase, options: Value) {
    let kills: usize = variable("MEMOIR_TEST_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let mut dice = Dice::new("random_kills_of_ingestions");
    let model = model().await;
    let memoir = memoir(&database, &model);
    let mut documents = DocumentRetrieval::new(options);

    for _ in 0..kills {
        let running = memoir.serve();
        documents.bring(&running, 17).await;

        // During the calls, or near the end.
        let wanted = model.stats().requests + 1 + dice.below(14);
        model
            .wait_for_requests(wanted, Duration::from_secs(3))
            .await;
        tokio::time::sleep(Duration::from_millis(dice.below(40))).await;
        assert_eq!(running.signal_and_wait("KILL"), None);
    }

    let running = memoir.serve();
    documents.check(&running, &database).await;
    check_calls(&model, &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn kills_at_every_fail_point_lose_and_duplicate_no_chunk() {
    on_each(killed_at_each_point).await;
}

async fn killed_at_each_point(database: TestDatabase) {
    let points = [
        "after_checkpoint:3",
        "after_helper",
        "after_filing",
        "in_transaction",
        "before_commit",
        "after_commit",
    ];

    let model = model().await;
    let mut documents = DocumentRetrieval::new(json!({}));
    for point in points {
        let dying = memoir(&database, &model).env("MEMOIR__TESTING__FAIL_POINT", point);
        let running = dying.serve_or_die();
        documents.bring(&running, 7).await;
        assert_eq!(
            running.wait(),
            None,
            "{point}: it should have died on the spot: {}",
            dying.log()
        );
    }

    let alive = memoir(&database, &model);
    let running = alive.serve();
    documents.check(&running, &database).await;
    check_calls(&model, &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn shutdown_returns_the_job_to_the_queue_without_repeating_calls() {
    on_each(stopped).await;
}

async fn stopped(database: TestDatabase) {
    let model = model().await;
    let memoir = memoir(&database, &model);
    let mut documents = DocumentRetrieval::new(json!({}));
    let running = memoir.serve();
    documents.bring(&running, 17).await;
    assert!(model.wait_for_requests(4, Duration::from_mins(1)).await);
    assert_eq!(running.signal_and_wait("TERM"), Some(0), "{}", memoir.log());
    assert_eq!(
        count(
            &database,
            "SELECT COUNT(*) FROM jobs WHERE state = 'queued' AND attempt = 0"
        )
        .await,
        1
    );

    assert_eq!(count(&database, "SELECT COUNT(*) FROM chunks").await, 0);
    let running = memoir.serve();
    documents.check(&running, &database).await;
    let job = Api::at(running.address)
        .get("default", &format!("/v1/jobs/{}", documents.taken[0].0))
        .await;
    assert_eq!(job["attempt"], 1, "{job:#}");

    check_calls(&model, &database).await;
}
