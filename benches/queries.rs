//! How long a query takes in addition to its model calls: over few and over many chunks, with a
//! model that takes 0 or 200 ms, alone and with 64 concurrent queries.
//!
//! `scripts/bench queries [SIZES]` runs it on SQLite and on a PostgreSQL with fsync. Every leaf has
//! a hundred chunks of about 350 tokens; a million chunks have 10,000 leaves. Before that, real
//! questions over four books and 30 notes, see `questions`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]
#![expect(clippy::cast_precision_loss, reason = "figures for readers")]

mod databases;
mod environment;
mod questions;
mod service;
mod settings;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use memoir::base::clock::{Clock as _, SystemClock};
use memoir::base::ids::{SourceId, Space};
use memoir::config::Config;
use memoir::model::category::{NamedBy, NewCategory};
use memoir::model::chunk::NewChunk;
use memoir::model::source::{Source, SourceKind};
use memoir::model::source_version::VersionFacts;
use memoir::scripted_model::{Reply, ScriptedModel, Seen};
use memoir::store::{NewVersion, Store};
use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};

use databases::on_each;
use environment::variable;
use service::Service;
use settings::settings;

const PER_LEAF: usize = 100;
const PER_SOURCE: usize = 1_000;
const ALONE: usize = 1_000;
const SLOW: usize = 5;
const AT_ONCE: usize = 64;

#[tokio::main]
async fn main() {
    questions::bench().await;
    let sizes = variable("MEMOIR_BENCH_SIZES").unwrap_or_else(|| "1000,10000".to_owned());
    for size in sizes
        .split(',')
        .map(|size| size.trim().parse::<usize>().unwrap())
    {
        on_each(&format!("q{size}"), async |database| {
            bench(database, size).await;
        })
        .await;
    }
}

/// Settings with the scripted model.
fn config(database: &str, model: &ScriptedModel, strategy: &str) -> Config {
    settings(
        database,
        &[
            ("LLM__PROVIDERS__STUB__BASE_URL", &model.openai_url()),
            ("LLM__PROVIDERS__STUB__MAX_CONCURRENCY", "1000"),
            ("LLM__MODEL", "stub:gpt-4o"),
            ("QUERY__STRATEGY", strategy),
            ("TAXONOMY__LIMIT_SCOPE", "parent"),
        ],
    )
}

async fn bench(database: &str, size: usize) {
    let model = ScriptedModel::local().await.unwrap();
    model.set_rule(by_the_question);
    model.edit_script(|script| script.record_limit = 10);
    let config = config(database, &model, "one_shot");
    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    let begun = Instant::now();
    fill(&store, size).await;
    store.analyze().await.unwrap();
    println!(
        "{} with {size} chunks, filled in {:.0} s:",
        store.engine().into_str(),
        begun.elapsed().as_secs_f64()
    );

    store.close().await;

    let service = Service::start(config).await;
    let (client, url) = (&service.client, &service.url("queries"));
    alone(client, url).await;
    slow(client, url, &model).await;
    crowd(client, url, &model).await;
    service.stop().await;
}

/// Chooses by the query, so that each query reads another leaf.
fn by_the_question(seen: &Seen) -> Reply {
    if seen.stage != "select" {
        return Reply::sensible(seen);
    }

    let line = |start: &str| {
        seen.user
            .lines()
            .find_map(|line| line.strip_prefix(start))
            .unwrap_or_default()
    };

    let options: Vec<&str> = seen
        .user
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .collect();

    let number = line("query: ").bytes().chain(line("level: ").bytes());
    let number = number.fold(7_usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(byte))
    });
    let chosen = options[number % options.len()];
    Reply::json(json!({"selections": [{"category": chosen, "ranked_relevance": 1}]}))
}

/// One after another, without an answer: what a query takes in addition to its model calls.
async fn alone(client: &reqwest::Client, url: &str) {
    let (mut whole, mut own) = (Vec::new(), Vec::new());
    for number in 0..ALONE + 50 {
        let body = json!({"query": format!("question {number}"), "mode": "retrieve", "per_path_limit": 20});
        let (elapsed, result) = ask(client, url, &body).await;
        assert_eq!(result["chunks"].as_array().unwrap().len(), 20);

        // The first requests meet cold caches.
        if number >= 50 {
            whole.push(elapsed);
            own.push(elapsed - sum(&result));
        }
    }

    println!(
        "  retrieve, model of 0 ms: p50 {:.2} ms, p99 {:.2} ms beside the model",
        part(&mut own, 50),
        part(&mut own, 99)
    );

    println!(
        "    with the model's three calls: p50 {:.2} ms, p99 {:.2} ms",
        part(&mut whole, 50),
        part(&mut whole, 99)
    );
}

/// With a slow model: how much longer a query takes than its calls.
async fn slow(client: &reqwest::Client, url: &str, model: &ScriptedModel) {
    model.edit_script(|script| script.latency_ms = 200);
    let mut worst: f64 = 0.0;
    let mut shares = Vec::new();

    for number in 0..SLOW {
        let (elapsed, result) = ask(
            client,
            url,
            &json!({"query": format!("slow question {number}")}),
        )
        .await;

        let share = elapsed / sum(&result);
        worst = worst.max(share);
        shares.push(share);
    }

    println!(
        "  answer, model of 200 ms: {:.4} times its calls (worst {worst:.4})",
        part(&mut shares, 50)
    );
}

/// Many concurrent queries.
async fn crowd(client: &reqwest::Client, url: &str, model: &ScriptedModel) {
    model.edit_script(|script| script.latency_ms = 200);
    let begun = Instant::now();
    let bodies: Vec<Value> = (0..AT_ONCE)
        .map(|number| json!({"query": format!("crowded {number}")}))
        .collect();
    let asked = bodies.iter().map(|body| ask(client, url, body));
    let mut times: Vec<f64> = futures_util::future::join_all(asked)
        .await
        .into_iter()
        .map(|(elapsed, _)| elapsed)
        .collect();

    println!(
        "  {AT_ONCE} at once, model of 200 ms: {:.0} ms in all, each {:.0} to {:.0} ms, memory {} MiB",
        begun.elapsed().as_secs_f64() * 1000.0,
        part(&mut times, 0),
        part(&mut times, 100),
        resident() / 1024,
    );

    model.edit_script(|script| script.latency_ms = 0);
    let begun = Instant::now();
    let bodies: Vec<Value> = (0..AT_ONCE * 20)
        .map(|number| json!({"query": format!("busy {number}"), "mode": "retrieve", "per_path_limit": 20}))
        .collect();
    let mut times = Vec::new();

    for some in bodies.chunks(AT_ONCE) {
        let asked = some.iter().map(|body| ask(client, url, body));
        times.extend(
            futures_util::future::join_all(asked)
                .await
                .into_iter()
                .map(|(elapsed, _)| elapsed),
        );
    }

    println!(
        "  retrieve, {AT_ONCE} at once, model of 0 ms: {:.0} a second, slowest {:.0} ms, memory {} MiB",
        bodies.len() as f64 / begun.elapsed().as_secs_f64(),
        part(&mut times, 100),
        resident() / 1024,
    );
}

/// Runs a query and returns the milliseconds and the result.
async fn ask(client: &reqwest::Client, url: &str, body: &Value) -> (f64, Value) {
    let begun = Instant::now();
    let reply = client.post(url).json(body).send().await.unwrap();
    let status = reply.status();
    let bytes = reply.bytes().await.unwrap();
    let elapsed = begun.elapsed().as_secs_f64() * 1000.0;

    assert!(status.is_success(), "{}", String::from_utf8_lossy(&bytes));
    (elapsed, serde_json::from_slice(&bytes).unwrap())
}

/// Total milliseconds of the model calls.
fn sum(result: &Value) -> f64 {
    result["responses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["latency_ms"].as_f64().unwrap())
        .sum()
}

fn part(times: &mut [f64], percent: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// Memory of this process in KiB: the service, the scripted model and the client together.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();

    line.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Writes the hierarchy and the chunks, a hundred per leaf.
async fn fill(store: &Store, size: usize) {
    let space = Space::default();
    let leaves = make_leaves(store, &space, (size / PER_LEAF).max(1)).await;
    let texts: Vec<String> = (0..97).map(chunk).collect();
    let counter = TokenCounter::for_model(Some("gpt-4o"));
    let tokens: Vec<i64> = texts
        .iter()
        .map(|text| i64::try_from(counter.count(text)).unwrap())
        .collect();

    let mut written = 0;
    while written < size {
        let count = PER_SOURCE.min(size - written);
        let now = SystemClock.now();
        let id = SourceId::new();
        let mut tx = store.begin().await.unwrap();
        tx.lock_chunks(&space).await.unwrap();
        tx.add_source(&space, &source(&id, written, now))
            .await
            .unwrap();
        let facts = facts();
        let new = NewVersion {
            source_id: &id,
            version: 1,
            content: "",
            facts: &facts,
            content_version_id: None,
        };

        let version = tx.add_source_version(&space, new, now).await.unwrap();
        let chunks: Vec<NewChunk<'_>> = (0..count)
            .map(|at| NewChunk {
                tokenizer: counter.name(),
                subject: None,
                heading: None,
                ordinal: i64::try_from(at).unwrap() + 1,
                text: &texts[(written + at) % texts.len()],
                token_count: tokens[(written + at) % texts.len()],
                start_char: 0,
                end_char: i64::try_from(texts[(written + at) % texts.len()].len()).unwrap(),
                // Spread over the leaves, as sources are.
                category_id: leaves[(written + at) % leaves.len()],
            })
            .collect();

        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        for chunk in &chunks {
            *counts.entry(chunk.category_id).or_default() += 1;
        }

        tx.add_chunks(&space, &id, version, &chunks, now)
            .await
            .unwrap();
        tx.add_chunk_counts(&space, &counts).await.unwrap();
        tx.update_latest_version(&space, &id, 1, version, now)
            .await
            .unwrap();
        tx.commit().await.unwrap();

        written += count;
    }
}

/// Three levels of about equal width.
async fn make_leaves(store: &Store, space: &Space, count: usize) -> Vec<i64> {
    let width = (1..1_000)
        .find(|width: &usize| width.pow(3) >= count)
        .unwrap();
    let mut parents = vec![0];
    for (level, wanted) in [(1, width), (2, width * width), (3, count)] {
        let mut tx = store.begin().await.unwrap();
        tx.lock_chunks(space).await.unwrap();
        let new: Vec<NewCategory> = (0..wanted.min(parents.len() * count.div_ceil(parents.len())))
            .map(|number| {
                let parent = parents[number % parents.len()];
                let name = format!("Category {level} {number}");
                let name_key = name.to_lowercase();
                NewCategory {
                    parent_id: Some(parent).filter(|parent| *parent != 0),
                    level,
                    name,
                    name_key,
                    named_by: NamedBy::Model,
                }
            })
            .collect();

        tx.add_categories(space, &new, SystemClock.now())
            .await
            .unwrap();
        let made = tx.list_children(space, &parents).await.unwrap();
        tx.commit().await.unwrap();
        parents = made.iter().map(|category| category.id).collect();
    }

    parents
}

fn source(id: &SourceId, number: usize, now: memoir::base::clock::Timestamp) -> Source {
    Source {
        id: id.clone(),
        user_id: "default".to_owned(),
        filename: format!("{number}.txt"),
        path: format!("/bench/{number}.txt"),
        kind: SourceKind::FileIngest,
        file_type: "txt".to_owned(),
        eligible: true,
        tags: vec!["file_ingest".to_owned()],
        latest_version: 0,
        created_at: now,
        updated_at: now,
    }
}

fn facts() -> VersionFacts {
    VersionFacts {
        sha256: "0".repeat(64),
        settings_key: "bench".to_owned(),
        size_bytes: 0,
        mtime: None,
        char_count: 0,
        token_count: 0,
        provider: None,
        topic: None,
        note: None,
        metadata: json!({}),
        job_id: None,
    }
}

/// About 350 tokens of ordinary words.
fn chunk(number: usize) -> String {
    const WORDS: [&str; 16] = [
        "river",
        "council",
        "decided",
        "that",
        "the",
        "annual",
        "budget",
        "of",
        "seventeen",
        "gardens",
        "should",
        "be",
        "reviewed",
        "before",
        "winter",
        "comes",
    ];

    let mut text = String::new();
    for at in 0..340 {
        let word = WORDS[(at * 7 + number * 13 + at * at) % WORDS.len()];
        let _ = write!(text, "{word}{}", if at % 12 == 11 { ". " } else { " " });
    }

    text
}
