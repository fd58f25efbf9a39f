//! How fast and how cheaply texts are filed: calls per chunk, the schedule of the calls compared
//! with an ideal one, chunks per second with an instant model, a ten-megabyte text, a thousand
//! concurrent texts, and a long queue.
//!
//! `scripts/bench ingestion [DIR]` runs it on SQLite and on a PostgreSQL with fsync; DIR has
//! `prose/*.txt`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]
#![expect(clippy::cast_precision_loss, reason = "figures for readers")]

mod environment;
mod schedule;
mod service;
mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir::ingestion::chunker::{ChunkRules, cut};
use memoir::scripted_model::{Rule, ScriptedModel};
use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use environment::variable;
use service::Service;
use settings::settings;

/// A running memoir with a scripted model.
struct Bench {
    service: Service,
}

impl Bench {
    async fn start(database: &str, model: &ScriptedModel, given: &[(&str, &str)]) -> Self {
        let base = model.openai_url();
        let usual = [
            ("LLM__PROVIDERS__STUB__BASE_URL", base.as_str()),
            ("LLM__PROVIDERS__STUB__MAX_CONCURRENCY", "1000"),
            ("LLM__MODEL", "stub:m"),
            ("LLM__MAX_CONCURRENCY", "8"),
        ];
        let all: Vec<(&str, &str)> = usual.iter().chain(given).copied().collect();
        Self {
            service: Service::start(settings(database, &all)).await,
        }
    }

    async fn submit(&self, body: &Value) -> String {
        let reply = self
            .service
            .client
            .post(self.service.url("ingestions"))
            .json(body)
            .send()
            .await
            .unwrap();

        assert_eq!(reply.status().as_u16(), 202);
        reply.json::<Value>().await.unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn finished(&self, id: &str) -> Value {
        loop {
            let sent = self
                .service
                .client
                .get(self.service.url(&format!("jobs/{id}?wait=60")))
                .send()
                .await
                .unwrap();

            let job: Value = sent.json().await.unwrap();
            match job["state"].as_str() {
                Some("succeeded") => return job,
                Some("queued" | "running") => {}
                _ => panic!("{job}"),
            }
        }
    }

    async fn end(self) {
        self.service.stop().await;
    }
}

fn main() {
    let texts = texts();
    if wanted("cut") {
        chunk_ten_megabytes(&texts.join("\n\n"));
    }

    // The model server has its own thread, as it would have its own process.
    let server = tokio::runtime::Builder::new_multi_thread()
        .thread_name("model")
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();

    let model = server.block_on(ScriptedModel::local()).unwrap();
    model.edit_script(|script| script.record_limit = 10);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();

    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let databases = [
            Some(format!("sqlite://{}/bench.db", folder.path().display())),
            variable("TEST_PG_URL"),
        ];

        for (round, database) in databases.into_iter().flatten().enumerate() {
            println!("{}:", database.split(':').next().unwrap());
            if wanted("schedule") {
                schedule_and_calls(&database, &model, &texts).await;
            }

            if wanted("throughput") {
                throughput(&database, &model, &texts, (round, r#"["taxonomy"]"#)).await;
                throughput(
                    &database,
                    &model,
                    &texts,
                    (round + 2, r#"["taxonomy", "semantic"]"#),
                )
                .await;
            }

            if wanted("large") {
                large_text(&database, &model, &texts).await;
            }

            if wanted("many") {
                many_at_once(&database, &model, &texts).await;
            }

            if wanted("queue") {
                drain_a_queue(&database, &model, &texts).await;
            }
        }
    });
}

/// Whether this part of the benchmark was requested, or none was named.
fn wanted(part: &str) -> bool {
    let mut named = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

fn texts() -> Vec<String> {
    let folder = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());
    let mut files: Vec<_> = std::fs::read_dir(format!("{folder}/prose"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();

    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

fn chunk_ten_megabytes(prose: &str) {
    let text: String = prose
        .repeat(10_000_000 / prose.len() + 1)
        .chars()
        .take(10_000_000)
        .collect();

    let rules = ChunkRules {
        delimiters: vec![".".to_owned(), "\n".to_owned()],
        min_tokens: 300,
        max_tokens: 500,
    };

    let counter = TokenCounter::for_model(None);
    let _ = cut("warm up", &rules, counter);
    let began = Instant::now();
    let count = cut(&text, &rules, counter).len();
    println!(
        "10 MB of prose cut into {count} chunks in {:.2} s",
        began.elapsed().as_secs_f64()
    );

    let text = "word ".repeat(2_000_000);
    let began = Instant::now();
    let count = cut(&text, &rules, counter).len();
    println!(
        "10 MB without a delimiter cut into {count} chunks in {:.2} s",
        began.elapsed().as_secs_f64()
    );
}

/// The longest text, twice: the first time creates the hierarchy, the second time reuses it.
async fn schedule_and_calls(database: &str, model: &ScriptedModel, texts: &[String]) {
    model.edit_script(|script| {
        script.rule = Rule::Sensible {
            categories_per_parent: 4,
        };
        script.latency_ms = 0;
    });

    let bench = Bench::start(database, model, &[]).await;
    let text = texts.iter().max_by_key(|text| text.len()).unwrap();
    let first = bench
        .submit(&json!({"text": text, "path": "/settle.txt"}))
        .await;
    bench.finished(&first).await;
    model.edit_script(|script| script.latency_ms = 200);

    // About 500 chunks.
    let cut = text.floor_char_boundary(text.len().min(830_000));
    let id = bench
        .submit(&json!({"text": &text[..cut], "path": "/measured.txt"}))
        .await;
    let began = Instant::now();
    let job = bench.finished(&id).await;
    let took = began.elapsed();
    let chunks = job["result"]["chunks_written"].as_f64().unwrap();
    let calls = job["batches"].as_array().unwrap().len() as f64;

    println!(
        "  {chunks} chunks, settled tree: {:.3} model calls per chunk (0.60 is the least, 3 one by one)",
        calls / chunks
    );

    let ideal = schedule::ideal(job["batches"].as_array().unwrap(), 8) + 1;
    let ideal = Duration::from_millis(200) * u32::try_from(ideal).unwrap();
    println!(
        "  model of 200 ms, 8 at once: {:.2} s, ideal schedule {:.2} s: {:.3} times",
        took.as_secs_f64(),
        ideal.as_secs_f64(),
        took.as_secs_f64() / ideal.as_secs_f64()
    );

    model.edit_script(|script| script.latency_ms = 0);
    bench.end().await;
}

/// Chunks per second through the whole pipeline, with an instant model.
async fn throughput(
    database: &str,
    model: &ScriptedModel,
    texts: &[String],
    (round, indexes): (usize, &str),
) {
    // One worker per text.
    let bench = Bench::start(
        database,
        model,
        &[("JOBS__WORKERS", "8"), ("INGESTION__INDEXES", indexes)],
    )
    .await;

    let text = texts.iter().max_by_key(|text| text.len()).unwrap();
    let cut = text.floor_char_boundary(text.len().min(830_000));

    // The tokenizer is loaded with the first text.
    let first = bench
        .submit(&json!({"text": &text[..100], "path": "/fast/first"}))
        .await;
    bench.finished(&first).await;
    let began = Instant::now();
    let mut ids = Vec::new();

    for number in 0..8 {
        ids.push(
            bench
                .submit(
                    &json!({"text": format!("{number} {round}\n{}", &text[..cut]), "path": format!("/fast/{number}")}),
                )
                .await,
        );
    }

    let mut chunks = 0.0;
    for id in &ids {
        chunks += bench.finished(id).await["result"]["chunks_written"]
            .as_f64()
            .unwrap();
    }

    println!(
        "  model of 0 ms, 8 texts of {:.0} chunks at once, {indexes}: {:.0} chunks/s",
        chunks / 8.0,
        chunks / began.elapsed().as_secs_f64()
    );

    bench.end().await;
}

/// The cost of a text of nearly the maximum size, and how long other requests wait for it.
async fn large_text(database: &str, model: &ScriptedModel, texts: &[String]) {
    let bench = Bench::start(database, model, &[]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let prose = texts.join("\n\n");
    let text: String = prose
        .repeat(9_500_000 / prose.len() + 1)
        .chars()
        .take(9_500_000)
        .collect();

    let body = json!({"text": text, "path": "/large.txt"});
    drop((text, prose));
    let before = resident();
    let (url, client) = (bench.service.url("info"), bench.service.client.clone());
    let watching = CancellationToken::new();
    let watched = watching.clone();
    #[expect(clippy::disallowed_methods, reason = "awaited below")]
    let watch = tokio::spawn(async move {
        let (mut waits, mut peak) = (Vec::new(), 0);
        while !watched.is_cancelled() {
            let began = Instant::now();
            client.get(&url).send().await.unwrap();
            waits.push(began.elapsed());
            peak = peak.max(resident());

            tokio::time::sleep(Duration::from_millis(2)).await;
        }

        waits.sort();
        (waits, peak)
    });

    let id = bench.submit(&body).await;
    drop(body);
    let began = Instant::now();
    let job = bench.finished(&id).await;
    watching.cancel();
    let (waits, peak) = watch.await.unwrap();

    println!(
        "  9.5 MB: {} chunks in {:.1} s; memory {} MiB before, {} MiB at the peak (client and model included); \
         GET /v1/info meanwhile p50 {:.1}, p99 {:.1}, longest {:.1} ms",
        job["result"]["chunks_written"],
        began.elapsed().as_secs_f64(),
        before / 1024,
        peak / 1024,
        ms(waits[waits.len() / 2]),
        ms(waits[waits.len() * 99 / 100]),
        ms(*waits.last().unwrap())
    );

    bench.end().await;
}

/// A thousand concurrent short texts, with a model that takes 5 s and a worker for each text.
async fn many_at_once(database: &str, model: &ScriptedModel, texts: &[String]) {
    let settings = [
        ("JOBS__WORKERS", "1000"),
        ("DATABASE__MAX_CONNECTIONS", "20"),
        ("SERVER__SHUTDOWN_GRACE", "0"),
    ];

    let bench = Arc::new(Bench::start(database, model, &settings).await);
    model.edit_script(|script| script.latency_ms = 5000);
    let text: String = texts[0].chars().take(2000).collect();
    let mut asking = tokio::task::JoinSet::new();
    let space = format!("many{}", std::process::id());

    for number in 0..1000 {
        let (bench, space) = (Arc::clone(&bench), space.clone());
        let body = json!({"text": format!("{number} {text}")});
        asking.spawn(async move {
            // Spread over two seconds, as clients would send them.
            tokio::time::sleep(Duration::from_millis(number * 2)).await;
            let began = Instant::now();
            let sent = bench
                .service
                .client
                .post(bench.service.url("ingestions"))
                .header("x-memoir-space", space);

            assert_eq!(
                sent.json(&body).send().await.unwrap().status().as_u16(),
                202
            );

            began.elapsed()
        });
    }

    let mut waits = asking.join_all().await;
    waits.sort();
    let began = Instant::now();
    let mut peak = 0;

    loop {
        peak = peak.max(resident());
        let url = bench.service.url("jobs?state=succeeded&limit=500");
        let sent = bench
            .service
            .client
            .get(url)
            .header("x-memoir-space", &space)
            .send()
            .await
            .unwrap();

        let done = sent.json::<Value>().await.unwrap();
        if done["items"].as_array().unwrap().len() >= 500
            && done["next_cursor"].is_string()
            && began.elapsed() > Duration::from_secs(22)
        {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "{}",
            done["items"].as_array().unwrap().len()
        );

        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    println!(
        "  1,000 texts, model of 5 s: submit p50 {:.1}, p99 {:.1} ms; more than 500 done after {:.0} s; {} MiB at the peak (client and model included)",
        ms(waits[500]),
        ms(waits[990]),
        began.elapsed().as_secs_f64(),
        peak / 1024
    );

    model.edit_script(|script| script.latency_ms = 0);
    Arc::try_unwrap(bench)
        .unwrap_or_else(|_| panic!("somebody still asks"))
        .end()
        .await;
}

/// Jobs per second for a queue of 5,000 texts with three chunks each, with an instant model.
async fn drain_a_queue(database: &str, model: &ScriptedModel, texts: &[String]) {
    const JOBS: usize = 5000;

    // No worker runs while they are queued.
    let idle = [("JOBS__WORKERS", "0"), ("JOBS__MAX_QUEUED", "10000")];
    let bench = Arc::new(Bench::start(database, model, &idle).await);
    let space = format!("queue{}", std::process::id());
    let prose: String = texts[0].chars().take(5200).collect();
    let mut asking = tokio::task::JoinSet::new();

    for number in 0..JOBS {
        let (bench, space) = (Arc::clone(&bench), space.clone());
        let body =
            json!({"text": format!("{number} {prose}"), "options": {"indexes": ["taxonomy"]}});
        asking.spawn(async move {
            let sent = bench
                .service
                .client
                .post(bench.service.url("ingestions"))
                .header("x-memoir-space", space);
            assert_eq!(
                sent.json(&body).send().await.unwrap().status().as_u16(),
                202
            );
        });

        if asking.len() >= 32 {
            asking.join_next().await.unwrap().unwrap();
        }
    }

    asking.join_all().await;
    Arc::try_unwrap(bench)
        .unwrap_or_else(|_| panic!("somebody still asks"))
        .end()
        .await;

    let bench = Bench::start(
        database,
        model,
        &[("JOBS__WORKERS", "8"), ("JOBS__MAX_QUEUED", "10000")],
    )
    .await;

    let began = Instant::now();
    let left = async |state: &str| {
        let url = bench.service.url(&format!("jobs?state={state}&limit=1"));
        let sent = bench
            .service
            .client
            .get(url)
            .header("x-memoir-space", &space)
            .send()
            .await
            .unwrap();

        sent.json::<Value>().await.unwrap()["items"]
            .as_array()
            .unwrap()
            .len()
    };

    while left("queued").await + left("running").await > 0 {
        // Rarely, because reading the queue takes time too.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    let took = began.elapsed().as_secs_f64();
    let (mut chunks, mut documents, mut cursor) = (0, 0, String::new());
    loop {
        let url = bench
            .service
            .url(&format!("jobs?state=succeeded&limit=500{cursor}"));
        let sent = bench
            .service
            .client
            .get(url)
            .header("x-memoir-space", &space)
            .send()
            .await
            .unwrap();

        let page: Value = sent.json().await.unwrap();
        for job in page["items"].as_array().unwrap() {
            documents += 1;
            chunks += job["result"]["chunks_written"].as_i64().unwrap();
        }

        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }

    assert_eq!(documents, JOBS, "some were lost, or failed");
    println!(
        "  {JOBS} queued texts, {chunks} chunks, model of 0 ms: {:.0} jobs/s to the end",
        JOBS as f64 / took
    );

    bench.end().await;
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();

    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
