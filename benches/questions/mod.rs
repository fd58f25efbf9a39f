//! The 60 questions of `tests/data/ask` over four books, the project's documents and 30 notes, with
//! the default strategy and a model that takes 200 ms: how many calls a question needs, and how much
//! longer it takes than its calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use memoir::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use super::environment::variable;
use super::service::Service;
use super::{ask, config, part, sum};

/// Ingests, asks, and prints.
pub async fn bench() {
    let data = variable("MEMOIR_EVAL_DATA").unwrap_or_else(|| "../shared/data".to_owned());
    let books = format!("{data}/prose");
    if !Path::new(&books).is_dir() {
        println!("no books in {books}: questions are not measured");
        return;
    }

    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/bench.db", folder.path().display());
    let model = ScriptedModel::local().await.unwrap();
    model.edit_script(|script| script.record_limit = 10);
    let service = Service::start(config(&database, &model, "auto")).await;
    ingest(&service, &books).await;

    model.edit_script(|script| script.latency_ms = 200);
    let (mut calls, mut shares, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for question in questions() {
        let body = json!({"query": question});
        let (elapsed, result) = ask(&service.client, &service.url("queries"), &body).await;
        calls.push(result["responses"].as_array().unwrap().len() as f64);
        shares.push(elapsed / sum(&result).max(1.0));
        times.push(elapsed);
    }

    println!(
        "{} questions, auto, model of 200 ms: median {} calls, {:.0} ms, {:.3} times its calls",
        calls.len(),
        part(&mut calls, 50),
        part(&mut times, 50),
        part(&mut shares, 50)
    );
    service.stop().await;
}

async fn ingest(service: &Service, books: &str) {
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from);
    let mut paths = files(books);
    paths.extend(files("tests/data/ask/notes"));
    paths.extend(documents);
    for path in paths {
        let body = json!({
            "text": std::fs::read_to_string(&path).unwrap(),
            "filename": path.file_name().unwrap().to_string_lossy(),
        });
        let sent = service.client.post(service.url("ingestions")).json(&body);
        let status = sent.send().await.unwrap().status();
        assert!(status.is_success(), "{status}: {}", path.display());
    }

    while has_jobs(service, "running").await || has_jobs(service, "queued").await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn has_jobs(service: &Service, state: &str) -> bool {
    let url = service.url(&format!("jobs?limit=1&state={state}"));
    let reply = service.client.get(&url).send().await.unwrap();
    let page: Value = serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap();
    !page["items"].as_array().unwrap().is_empty()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    found.sort();
    found
}

fn questions() -> Vec<String> {
    let lines = std::fs::read_to_string("tests/data/ask/questions.jsonl").unwrap();
    lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|item| item["question"].as_str().unwrap().to_owned())
        .collect()
}
