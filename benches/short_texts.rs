//! What it costs to file short texts with a language model: calls and prompt tokens per text, level
//! by level and with one call, sent alone, by eight clients at once, and as a batch; for the first
//! 200 texts of a space and for the next 200. The model knows where each text belongs, so a wrong
//! placement is memoir's.
//!
//! `scripts/bench short-texts [DIR]` runs it on `DIR/filing/*.jsonl`, on SQLite.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]
#![expect(clippy::cast_precision_loss, reason = "figures for readers")]

mod environment;
mod service;
mod settings;

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use memoir::scripted_model::{Reply, ScriptedModel, Seen};
use serde_json::{Value, json};

use environment::variable;
use service::Service;
use settings::settings;

const TEXTS: usize = 200;
/// Characters of a text, so that it is brief.
const CHARS: usize = 800;

/// A text and the three categories where it belongs.
struct Labelled {
    text: String,
    path: [String; 3],
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Alone,
    EightClients,
    Batch,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());

    runtime.block_on(async {
        for file in ["newsgroups", "banking77"] {
            let texts = Arc::new(labelled(&format!("{folder}/filing/{file}.jsonl")));
            println!("{file}:");
            for way in [Way::Alone, Way::EightClients, Way::Batch] {
                for filing in ["levels", "auto"] {
                    run(&texts, way, filing).await;
                }
            }
        }
    });
}

/// Twice as many texts as are counted at once, each with a number by which the model knows it.
fn labelled(file: &str) -> Vec<Labelled> {
    let lines = std::fs::read_to_string(file).unwrap();
    let some = lines.lines().take(2 * TEXTS).enumerate();
    some.map(|(number, line)| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text: String = line["text"].as_str().unwrap().chars().take(CHARS).collect();
        let path: Vec<String> = serde_json::from_value(line["path"].clone()).unwrap();
        Labelled {
            text: format!("{text}\nRef. n{number}."),
            path: three_levels(&path),
        }
    })
    .collect()
}

/// A label of one level is divided at its first word.
fn three_levels(path: &[String]) -> [String; 3] {
    match path {
        [all] => {
            let words = all.replace('_', " ");
            let first = words.split(' ').next().unwrap_or_default().to_owned();
            ["Banking".to_owned(), first, words]
        }
        [one, two] => [one.clone(), two.clone(), "general".to_owned()],
        [one, two, rest @ ..] => [one.clone(), two.clone(), rest.join(" ")],
        [] => unreachable!("a text without a label"),
    }
}

async fn run(texts: &Arc<Vec<Labelled>>, way: Way, filing: &str) {
    let model = ScriptedModel::local().await.unwrap();
    model.edit_script(|script| script.latency_ms = 20);
    let known = Arc::clone(texts);
    model.set_rule(move |seen| Reply::sensible(&told(seen, &known)));

    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/bench.db", folder.path().display());
    let base = model.openai_url();
    let given = [
        ("LLM__PROVIDERS__STUB__BASE_URL", base.as_str()),
        ("LLM__MODEL", "stub:m"),
        ("INGESTION__FILING", filing),
        // Nobody comes while a text that is sent alone lingers.
        (
            "INGESTION__LINGER",
            if way == Way::Alone { "0" } else { "150" },
        ),
    ];
    let service = Service::start(settings(&database, &given)).await;

    for part in texts.chunks(TEXTS) {
        model.clear();
        let jobs = send(&service, part, way).await;
        let mut right = 0;
        for (job, text) in jobs.iter().zip(part) {
            right += usize::from(path_of(&service, job).await == text.path);
        }

        report(&model, (way, filing), right);
    }

    service.stop().await;
}

/// The prompt as the sensible rule understands it, with the categories of each text.
fn told(seen: &Seen, texts: &[Labelled]) -> Seen {
    let mut told = seen.clone();
    let mut parts = seen.user.split("\nRef. n");
    let mut user = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('.').unwrap_or(0);
        let number: usize = part[..end].parse().unwrap();
        let [one, two, three] = &texts[number].path;
        let lines = format!("\ncategory1: {one}\ncategory2: {two}\ncategory3: {three}");
        user.extend([lines.as_str(), "\nRef. n", part]);
    }

    told.user = user;
    told
}

/// Ingests texts; returns their jobs in order.
async fn send(service: &Service, texts: &[Labelled], way: Way) -> Vec<Value> {
    let body = |text: &Labelled| json!({"text": text.text});
    if way == Way::Batch {
        let items: Vec<Value> = texts.iter().map(body).collect();
        let queued = post(service, "ingestions/batch", &json!({ "items": items })).await;
        let ids = queued["jobs"].as_array().unwrap().clone();
        let ids = ids.iter().map(|job| job["job_id"].as_str().unwrap());
        return stream::iter(ids)
            .then(|id| finished(service, id))
            .collect()
            .await;
    }

    let clients = if way == Way::Alone { 1 } else { 8 };
    let sent = stream::iter(texts).map(async |text| {
        let queued = post(service, "ingestions", &body(text)).await;
        finished(service, queued["id"].as_str().unwrap()).await
    });
    sent.buffered(clients).collect().await
}

async fn post(service: &Service, route: &str, body: &Value) -> Value {
    let sent = service.client.post(service.url(route)).json(body);
    let reply = sent.send().await.unwrap();
    assert_eq!(reply.status().as_u16(), 202);
    reply.json().await.unwrap()
}

async fn get(service: &Service, route: &str) -> Value {
    let sent = service.client.get(service.url(route)).send().await;
    sent.unwrap().json().await.unwrap()
}

async fn finished(service: &Service, id: &str) -> Value {
    loop {
        let job = get(service, &format!("jobs/{id}?wait=60")).await;
        match job["state"].as_str() {
            Some("succeeded") => return job,
            Some("queued" | "running") => {}
            _ => panic!("{job}"),
        }
    }
}

async fn path_of(service: &Service, job: &Value) -> Vec<String> {
    let source = job["source_id"].as_str().unwrap();
    let chunks = get(service, &format!("sources/{source}/chunks")).await;
    serde_json::from_value(chunks["items"][0]["category_path"].clone()).unwrap()
}

fn report(model: &ScriptedModel, (way, filing): (Way, &str), right: usize) {
    let way = match way {
        Way::Alone => "alone",
        Way::EightClients => "eight clients",
        Way::Batch => "batch",
    };
    let calls = model.requests();
    let chars = |seen: &Seen| {
        let schema = seen
            .schema
            .as_ref()
            .map_or(0, |schema| schema.to_string().len());
        seen.system.len() + seen.user.len() + schema
    };
    let tokens = calls.iter().map(chars).sum::<usize>() / 4;
    println!(
        "  {way:13} {filing:6} {:.2} calls, {:4.0} prompt tokens per text, {right} of {TEXTS} in their leaf",
        calls.len() as f64 / TEXTS as f64,
        tokens as f64 / TEXTS as f64,
    );
}
