//! How long it takes to retrieve one of 10,000 sources with 10 versions each, by its metadata.
//!
//! `scripts/bench documents` runs it on SQLite and on a PostgreSQL with fsync. Every text has about
//! 2,000 characters; every source has its own topic, one of a hundred tags, and one of two tags
//! that each half of them has.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]

mod databases;
mod environment;
mod service;
mod settings;

use std::fmt::Write as _;
use std::time::Instant;

use memoir::base::clock::Timestamp;
use memoir::base::ids::{SourceId, Space};
use memoir::model::source::{Source, SourceKind};
use memoir::model::source_version::VersionFacts;
use memoir::store::{NewEntry, NewVersion, Store, Tx};
use memoir_index::{OwnerKind, terms};
use serde_json::{Value, json};

use databases::on_each;
use environment::variable;
use service::Service;
use settings::settings;

const VERSIONS: i64 = 10;
const ASKED: usize = 500;
/// The first requests meet cold caches.
const COLD: usize = 50;
/// 2026-01-01T00:00:00Z; each version is one second after the previous one.
const START: i64 = 1_767_225_600_000_000;

#[tokio::main]
async fn main() {
    let count: i64 =
        variable("MEMOIR_BENCH_SIZES").map_or(10_000, |size| size.trim().parse().unwrap());
    on_each("documents", async |database| bench(database, count).await).await;
}

/// The body of the n-th request.
type Body<'b> = Box<dyn Fn(i64) -> Value + 'b>;

async fn bench(database: &str, count: i64) {
    let config = settings(database, &[]);
    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    let begun = Instant::now();
    fill(&store, count).await;
    store.analyze().await.unwrap();
    let took = begun.elapsed().as_secs_f64();

    println!(
        "{} with {count} sources of {VERSIONS} versions, filled in {took:.0} s:",
        store.engine().into_str()
    );

    store.close().await;

    let service = Service::start(config).await;
    let url = service.url("documents/retrieve");
    let half = Timestamp::from_micros(START + count * VERSIONS / 2 * 1_000_000).to_string();
    let name = |number: i64| format!("file-{number}.md");
    let shapes: [(&str, Body<'_>); 10] = [
        (
            "by name",
            Box::new(|n| json!({"meta": {"filename": name(n)}})),
        ),
        (
            "by name as of a time",
            Box::new(|n| json!({"meta": {"filename": name(n)}, "as_of": half})),
        ),
        (
            "by name, the earliest",
            Box::new(|n| json!({"meta": {"filename": name(n)}, "strategy": "earliest"})),
        ),
        (
            "by name, by score",
            Box::new(|n| json!({"meta": {"filename": name(n)}, "strategy": "score"})),
        ),
        (
            "by name and a label",
            Box::new(
                |n| json!({"meta": {"filename": name(n), "tags": [format!("shelf-{}", n % 100)]}}),
            ),
        ),
        (
            "by a name that nobody has",
            Box::new(|n| json!({"meta": {"filename": format!("nobody-{n}.md")}})),
        ),
        (
            "by topic, by score",
            Box::new(
                |n| json!({"meta": {"topic": format!("matter{n} of the council")}, "strategy": "score"}),
            ),
        ),
        (
            "by a label that 1 in 100 has",
            Box::new(|n| json!({"meta": {"tags": [format!("shelf-{}", n % 100)]}})),
        ),
        (
            "by a label that half have",
            Box::new(|_| json!({"meta": {"tags": ["even"]}, "as_of": half})),
        ),
        ("by nothing at all", Box::new(|_| json!({"meta": {}}))),
    ];

    for (label, body) in &shapes {
        let mut times = Vec::new();
        for round in 0..ASKED + COLD {
            let number = i64::try_from(round * 7919).unwrap() % count;
            let elapsed = ask(&service.client, &url, &body(number)).await;
            if round >= COLD {
                times.push(elapsed);
            }
        }

        times.sort_by(f64::total_cmp);
        let part = |percent: usize| times[times.len() * percent / 100];
        println!(
            "  {label:<30} p50 {:>6.2} ms, p95 {:>6.2} ms, p99 {:>6.2} ms",
            part(50),
            part(95),
            part(99)
        );
    }

    service.stop().await;
}

/// Sends a request over HTTP and returns the milliseconds.
async fn ask(client: &reqwest::Client, url: &str, body: &Value) -> f64 {
    let begun = Instant::now();
    let reply = client.post(url).json(body).send().await.unwrap();
    let status = reply.status();
    let bytes = reply.bytes().await.unwrap();
    let elapsed = begun.elapsed().as_secs_f64() * 1000.0;

    assert!(status.is_success(), "{}", String::from_utf8_lossy(&bytes));
    elapsed
}

/// Writes what makes a version found by its words: its text as one chunk, and what is said about it.
async fn index(
    tx: &mut Tx,
    source: &Source,
    version_id: i64,
    text: &str,
    facts: &VersionFacts,
    now: Timestamp,
) {
    let said = format!(
        "{} {}",
        source.filename,
        facts.topic.as_deref().unwrap_or_default()
    );
    for (kind, text) in [(OwnerKind::Chunk, text), (OwnerKind::Source, said.as_str())] {
        let terms = terms::of_chunk(text);
        let entry = NewEntry {
            owner_id: version_id,
            group_id: source.id.as_str(),
            version_id,
            length: i64::from(terms.length),
            tokens: &terms.tokens,
        };

        tx.add_entries(&Space::default(), kind, &[entry], now)
            .await
            .unwrap();
    }
}

/// Writes the sources version by version, as ingestions would.
async fn fill(store: &Store, count: i64) {
    let space = Space::default();
    let numbers: Vec<i64> = (0..count).collect();
    let ids: Vec<SourceId> = numbers.iter().map(|_| SourceId::new()).collect();

    for version in 1..=VERSIONS {
        for some in numbers.chunks(500) {
            let mut tx = store.begin().await.unwrap();
            tx.lock_chunks(&space).await.unwrap();
            for number in some {
                let now =
                    Timestamp::from_micros(START + ((version - 1) * count + number) * 1_000_000);
                let source = source(&ids[usize::try_from(*number).unwrap()], *number, now);
                let text = text(*number, version);
                let facts = facts(&text, *number);

                if version == 1 {
                    tx.add_source(&space, &source).await.unwrap();
                }

                let new = NewVersion {
                    source_id: &source.id,
                    version,
                    content: &text,
                    facts: &facts,
                    content_version_id: None,
                };

                let id = tx.add_source_version(&space, new, now).await.unwrap();
                tx.update_latest_version(&space, &source.id, version, id, now)
                    .await
                    .unwrap();
                index(&mut tx, &source, id, &text, &facts, now).await;
            }

            tx.commit().await.unwrap();
        }
    }
}

fn source(id: &SourceId, number: i64, now: Timestamp) -> Source {
    let own = if number % 2 == 0 { "even" } else { "odd" };
    Source {
        id: id.clone(),
        user_id: "default".to_owned(),
        filename: format!("file-{number}.md"),
        path: format!("/bench/file-{number}.md"),
        kind: SourceKind::FileIngest,
        file_type: "md".to_owned(),
        eligible: true,
        tags: vec![
            "file_ingest".to_owned(),
            format!("shelf-{}", number % 100),
            own.to_owned(),
        ],
        latest_version: 0,
        created_at: now,
        updated_at: now,
    }
}

fn facts(text: &str, number: i64) -> VersionFacts {
    VersionFacts {
        sha256: "0".repeat(64),
        settings_key: "bench".to_owned(),
        size_bytes: i64::try_from(text.len()).unwrap(),
        mtime: None,
        char_count: i64::try_from(text.len()).unwrap(),
        token_count: 500,
        provider: None,
        topic: Some(format!("Matter{number} before the council")),
        note: None,
        metadata: json!({}),
        job_id: None,
    }
}

/// About 2,000 characters from a few thousand words, common ones more often.
fn text(number: i64, version: i64) -> String {
    let mut text = format!("# Version {version} of {number}\n\n");
    let mut state = u64::try_from(number * 31 + version).unwrap();
    while text.len() < 2000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (near, far) = ((state >> 33) % 64, (state >> 45) % 64);
        let _ = write!(text, "word{} ", near * far);
    }

    text
}
