//! How long a search over many chunks takes, by keyword, by meaning and by both; and the time and
//! memory to load its index.
//!
//! `scripts/bench search [DIR] [SIZES]` runs it on SQLite and on a PostgreSQL with fsync. Chunks
//! are about 120 words of shuffled sentences from DIR/prose/*.txt.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]
#![expect(clippy::cast_precision_loss, reason = "figures for readers")]

mod databases;
mod environment;
mod service;
mod settings;

use std::sync::Arc;
use std::time::Instant;

use memoir::base::clock::{Clock as _, SystemClock, Timestamp};
use memoir::base::ids::{SourceId, Space};
use memoir::llm::{Llm, Session};
use memoir::model::call::CallContext;
use memoir::model::chunk::{NewChunk, RETRIEVAL};
use memoir::model::source::{Source, SourceKind};
use memoir::model::source_version::VersionFacts;
use memoir::retrieval::{Retrieval, SearchInput};
use memoir::search::Search;
use memoir::store::{NewVersion, Store};
use memoir_embedded_model::EmbeddedModel;
use memoir_index::Kind;
use serde_json::{Value, json};

use databases::on_each;
use environment::variable;
use service::Service;
use settings::settings;

const PER_SOURCE: usize = 100;
const WORDS: usize = 120;
const SEARCHES: usize = 300;

#[tokio::main]
async fn main() {
    let sizes = variable("MEMOIR_BENCH_SIZES").unwrap_or_else(|| "100000".to_owned());
    let sentences = sentences();
    for size in sizes
        .split(',')
        .map(|size| size.trim().parse::<usize>().unwrap())
    {
        on_each(&format!("s{size}"), async |database| {
            bench(database, size, &sentences).await;
        })
        .await;
    }
}

/// The sentences of all prose files.
fn sentences() -> Vec<String> {
    let root = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());
    let mut all = Vec::new();
    for file in glob::glob(&format!("{root}/prose/*.txt"))
        .unwrap()
        .flatten()
    {
        let text = std::fs::read_to_string(file).unwrap();
        let plain: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        all.extend(
            plain
                .split_inclusive(". ")
                .filter(|sentence| sentence.len() > 20)
                .map(str::to_owned),
        );
    }

    assert!(all.len() > 1_000, "no prose in {root}/prose");
    all
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % most as u64).unwrap()
    }

    fn chunk(&mut self, sentences: &[String]) -> String {
        let mut text = String::new();
        while text.split(' ').count() < WORDS {
            text.push_str(&sentences[self.below(sentences.len())]);
        }

        text
    }

    /// Some words of a sentence, as a user would search for it.
    fn question(&mut self, sentences: &[String]) -> String {
        let sentence = &sentences[self.below(sentences.len())];
        let words: Vec<&str> = sentence
            .split(' ')
            .filter(|word| !word.is_empty())
            .collect();

        let (from, count) = (self.below(words.len()), 4 + self.below(6));
        words
            .into_iter()
            .skip(from.saturating_sub(count))
            .take(count)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

async fn bench(database: &str, size: usize, sentences: &[String]) {
    let config = settings(database, &[]);
    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    let llm = Llm::new(
        config.llm.clone(),
        config.audit,
        "",
        store.clone(),
        Arc::new(SystemClock),
    );
    let search = Search::new(store.clone(), llm.clone(), config.vector.clone());
    let mut dice = Dice(7);
    let (writing, whole) = fill(&store, &search, size, sentences, &mut dice).await;

    store.analyze().await.unwrap();
    println!(
        "{} with {size} chunks; written at {:.0} a second ({:.0} with cutting, terms and vectors)",
        store.engine().into_str(),
        size as f64 / writing,
        size as f64 / whole
    );

    load(&store, &search, size).await;
    store.close().await;

    let service = Service::start(config).await;
    let url = service.url("search");
    for kind in ["keyword", "semantic", "hybrid"] {
        let mut times = Vec::new();
        let mut found = 0;
        for number in 0..SEARCHES + 10 {
            let body = json!({"query": dice.question(sentences), "type": kind, "k": 10});
            let begun = Instant::now();
            let reply = service.client.post(&url).json(&body).send().await.unwrap();
            let result: Value = serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap();

            // The first requests meet cold caches.
            if number >= 10 {
                times.push(begun.elapsed().as_secs_f64() * 1000.0);
                found += result["items"].as_array().unwrap().len();
            }

            assert_eq!(result["index"], "memory");
        }

        times.sort_by(f64::total_cmp);
        let part = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        println!(
            "  {kind}: p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms over HTTP ({:.1} found of 10)",
            part(50),
            part(95),
            part(99),
            found as f64 / times.len() as f64
        );
    }

    println!("  memory {} MiB", resident() / 1024);
    service.stop().await;
}

/// How much longer the first search of each kind takes than the second, and the memory of the
/// vectors.
async fn load(store: &Store, search: &Search, size: usize) {
    let space = Space::default();
    let session = Session::of_caller(CallContext::new(space.clone(), SystemClock.now()));
    let retrieval = Retrieval::new(store.clone(), search.clone());
    let ask = async |kind| {
        let begun = Instant::now();
        let wish = SearchInput {
            query: "a ship upon the sea".to_owned(),
            kind: Some(kind),
            ..SearchInput::default()
        };

        retrieval.search(&session, wish).await.unwrap();
        begun.elapsed().as_secs_f64()
    };

    let before = resident();
    let words = ask(Kind::Keyword).await - ask(Kind::Keyword).await;
    let middle = resident();
    let meaning = ask(Kind::Semantic).await - ask(Kind::Semantic).await;
    let plain = size * EmbeddedModel::embed("").len() * 4;

    println!(
        "  terms loaded in {:.0} ms ({} MiB more), vectors in {:.0} ms ({} MiB more; {:.3} times their float32 size)",
        words * 1000.0,
        (middle.saturating_sub(before)) / 1024,
        meaning * 1000.0,
        (resident().saturating_sub(middle)) / 1024,
        search.vector_bytes(&space) as f64 / plain as f64
    );
}

/// Memory of this process in KiB.
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

/// Writes the chunks as an ingestion does, a hundred per source; returns the seconds of the
/// transactions and of everything.
async fn fill(
    store: &Store,
    search: &Search,
    size: usize,
    sentences: &[String],
    dice: &mut Dice,
) -> (f64, f64) {
    let space = Space::default();
    let (mut writing, mut whole) = (0.0, 0.0);
    let mut written = 0;

    while written < size {
        let count = PER_SOURCE.min(size - written);
        let texts: Vec<Arc<str>> = (0..count).map(|_| dice.chunk(sentences).into()).collect();
        let begun = Instant::now();
        let prepared = search.prepare(texts.clone(), Vec::new()).await.unwrap();
        let session = Session::of_caller(CallContext::new(space.clone(), SystemClock.now()));
        let vectors = search
            .embed(&session, "local:embedded", &texts)
            .await
            .unwrap();

        let prepared = prepared.with_vectors("local:embedded", &vectors);
        let opened = Instant::now();
        let (now, id) = (SystemClock.now(), SourceId::new());
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
        let chunks: Vec<NewChunk<'_>> = (1..)
            .zip(&texts)
            .map(|(ordinal, text)| NewChunk {
                tokenizer: "",
                subject: None,
                heading: None,
                ordinal,
                text,
                token_count: 150,
                start_char: 0,
                end_char: 1,
                category_id: 0,
            })
            .collect();

        tx.add_retrieval_chunks(&space, &id, version, &chunks, now)
            .await
            .unwrap();
        assert!(
            prepared
                .write(
                    &mut tx,
                    &CallContext::new(space.clone(), now),
                    (&id, version, RETRIEVAL)
                )
                .await
                .unwrap()
        );

        tx.update_latest_version(&space, &id, 1, version, now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        writing += opened.elapsed().as_secs_f64();
        whole += begun.elapsed().as_secs_f64();

        written += count;
    }

    (writing, whole)
}

fn source(id: &SourceId, number: usize, now: Timestamp) -> Source {
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
