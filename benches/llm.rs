//! The overhead of a model call, and the speed of the embedded model.
//!
//! `scripts/bench llm [FOLDER]` runs it; FOLDER has `prose/*.txt`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]
#![expect(clippy::cast_precision_loss, reason = "figures for readers")]

mod environment;
mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir::base::clock::{Clock as _, SystemClock};
use memoir::base::ids::Space;
use memoir::llm::tasks::classify::Classify;
use memoir::llm::{Hint, Llm, Session};
use memoir::model::call::CallContext;
use memoir::scripted_model::ScriptedModel;
use memoir::store::Store;
use memoir_embedded_model::{ClassifyInput, EmbeddedModel};

use environment::variable;
use settings::settings;

const ROUNDS: usize = 3000;

fn main() {
    println!("at start: {}", memory());
    let folder = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());
    embedded_model(&folder);

    // The model server has its own thread, as it would have its own process.
    let server = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();

    let model = server.block_on(ScriptedModel::local()).unwrap();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(door(&model));
}

fn embedded_model(folder: &str) {
    let mut chunks = Vec::new();
    for file in std::fs::read_dir(format!("{folder}/prose")).unwrap() {
        cut(
            &std::fs::read_to_string(file.unwrap().path()).unwrap(),
            &mut chunks,
        );
    }

    let begun = Instant::now();
    let _ = EmbeddedModel::embed("warm up");
    println!(
        "table loaded in {:.1} ms; {}",
        begun.elapsed().as_secs_f64() * 1000.0,
        memory()
    );

    let tokens: usize = chunks
        .iter()
        .map(|chunk| EmbeddedModel::tokens(chunk))
        .sum();
    println!(
        "{} chunks of {} tokens on average, one core:",
        chunks.len(),
        tokens / chunks.len()
    );

    let rate = per_second(chunks.len(), || {
        for chunk in &chunks {
            std::hint::black_box(EmbeddedModel::embed(chunk));
        }
    });

    println!("  embedded: {rate:.0} chunks a second");
    let names: Vec<String> = (0..40)
        .map(|number| format!("Seafaring subject {number}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let samples: Vec<Vec<&str>> = (0..40)
        .map(|number| {
            chunks
                .iter()
                .skip(number * 16)
                .take(16)
                .map(|chunk| &chunk[..600])
                .collect()
        })
        .collect();

    let counts = vec![16; 40];
    for level in 1..=3 {
        let parent = &["Nature", "Sea life"][..level as usize - 1];
        let rate = per_second(chunks.len(), || {
            for batch in chunks.chunks(5) {
                let chunks: Vec<(i64, &str)> = (1..)
                    .zip(batch)
                    .map(|(id, text)| (id, text.as_str()))
                    .collect();
                std::hint::black_box(EmbeddedModel::classify(&ClassifyInput {
                    contextual_helper: None,
                    level,
                    depth: 3,
                    parent,
                    categories: &names,
                    samples: &samples,
                    counts: &counts,
                    may_create: true,
                    homes: &[],
                    wishes: &[],
                    is_short_text: true,
                    chunks: &chunks,
                }));
            }
        });

        println!(
            "  classified at level {level} of 3, batches of 5, 40 categories: {rate:.0} chunks a second"
        );
    }

    println!("afterwards: {}", memory());
}

/// Joins lines to chunks of about 400 tokens.
fn cut(text: &str, into: &mut Vec<String>) {
    let mut chunk = String::new();
    for line in text.lines() {
        chunk.push_str(line);
        chunk.push('\n');
        if chunk.len() > 1500 && EmbeddedModel::tokens(&chunk) >= 400 {
            into.push(std::mem::take(&mut chunk));
        }
    }
}

fn per_second(count: usize, mut work: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut done = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        work();
        done += count;
    }

    done as f64 / begun.elapsed().as_secs_f64()
}

async fn door(model: &ScriptedModel) {
    let folder = tempfile::tempdir().unwrap();
    let config = settings(
        &format!("sqlite://{}/bench.db", folder.path().display()),
        &[
            ("LLM__PROVIDERS__STUB__BASE_URL", &model.openai_url()),
            ("LLM__MODEL", "stub:m"),
        ],
    );
    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    let llm = Llm::new(
        config.llm,
        config.audit,
        "",
        store.clone(),
        Arc::new(SystemClock),
    );
    let text: Arc<str> = "The whale surfaced again, and the boats were lowered into the swell. "
        .repeat(25)
        .into();
    let task = Classify {
        helpers: Vec::new(),
        contextual_helper: None,
        is_title: false,
        free_names: false,
        level: 1,
        depth: 3,
        parent: [].into(),
        categories: (0..40)
            .map(|number| format!("Seafaring subject {number}"))
            .collect(),
        may_create: true,
        hint: Hint::default(),
        chunks: (1..=5).map(|id| (id, Arc::clone(&text))).collect(),
    };

    let session = Session::of_caller(CallContext::new(Space::default(), SystemClock.now()));
    llm.ask(&session, task.clone()).await.unwrap();
    let body = model.requests()[0].body.clone();
    model.edit_script(|script| script.record_limit = 1);

    // The same request without memoir.
    let client = reqwest::Client::builder()
        .tcp_nodelay(true)
        .tls_certs_only([])
        .build()
        .unwrap();

    let url = format!("{}/chat/completions", model.openai_url());
    let (mut bare, mut whole, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let reply = client.post(&url).json(&body).send().await.unwrap();
        let _: serde_json::Value = reply.json().await.unwrap();
        bare.push(begun.elapsed().as_secs_f64() * 1000.0);
        let begun = Instant::now();
        let answered = llm.ask(&session, task.clone()).await.unwrap();
        let took = begun.elapsed().as_secs_f64() * 1000.0;

        whole.push(took);
        own.push(took - answered.calls[0].latency_ms);
    }

    let [bare, whole, own] = [bare, whole, own].map(median);
    println!(
        "door, 5 chunks of 400 tokens, 40 categories, scripted model without latency, {ROUNDS} calls, medians:"
    );
    println!(
        "  the bare request {bare:.3} ms, through the door {whole:.3} ms: the door costs {:.3} ms",
        whole - bare
    );

    println!(
        "  of which outside the provider's own time (frame, schema, checks, record): {own:.3} ms"
    );
    llm.close().await;
    store.close().await;
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            / 1024
    };

    format!(
        "{} MiB resident, {} MiB of it anonymous",
        value("VmRSS"),
        value("RssAnon")
    )
}
