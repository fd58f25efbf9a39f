//! The prompt workbench over HTTP.

mod adapters;
mod audit;
mod command;
mod composing;
mod contradictions;
mod facts_of_chunks;
mod faults;
mod forging;
mod fuzz;
mod history;
mod layers;
mod nul;
mod sending;
mod spoken;
mod workspace;

use memoir::scripted_model::{Reply as ModelReply, Seen};
use serde_json::{Value, json};

use crate::support::app::Reply;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, source};

/// The service with a scripted model for the stages of a prompt; the embedded model files texts.
pub struct Bench {
    pub test: Ingest,
}

impl Bench {
    pub async fn open() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(TestDatabase::sqlite(), settings).await
    }

    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let mut all = vec![
            ("LLM__MODELS__CLASSIFY", "local:embedded"),
            ("LLM__MODELS__HELPER", "local:embedded"),
            ("LLM__MODELS__ENRICH", "local:embedded"),
            ("LLM__TRANSPORT__TRIES", "1"),
        ];
        all.extend_from_slice(settings);
        let test = Ingest::on(database, &all).await;
        test.model.set_rule(answer);
        Self { test }
    }

    /// With the lamp, the boat and the bell.
    pub async fn with_three_files() -> Self {
        let bench = Self::open().await;
        for (path, text) in [("/lamp.md", LAMP), ("/boat.md", BOAT), ("/bell.md", BELL)] {
            bench.file(path, text).await;
        }

        bench
    }

    /// Ingests a text and returns the id of its source.
    pub async fn file(&self, path: &str, text: &str) -> String {
        let name = path.rsplit('/').next().unwrap();
        let body = json!({"text": text, "filename": name, "path": path});
        source(&self.test.succeed(&body).await).to_owned()
    }

    pub async fn post(&self, body: &Value) -> Reply {
        self.test.app.post("/v1/prompts", body).await
    }

    pub async fn compose(&self, body: &Value) -> Value {
        let reply = self.post(body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    pub async fn workspace(&self, body: &Value) {
        let reply = self.test.put("/v1/workspace", body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    /// The calls of a stage since the last clear.
    pub fn asked(&self, stage: &str) -> Vec<Seen> {
        self.test.asked(stage)
    }
}

/// The right answers: every chunk supports the task, and each becomes a fact.
pub fn answer(seen: &Seen) -> ModelReply {
    let ids = chunk_ids(&seen.user);
    match seen.stage.as_str() {
        "shape" | "audit" => ModelReply::json(headers()),
        "rerank" => {
            let ranking: Vec<Value> = (1_u32..)
                .zip(&ids)
                .map(|(place, id)| json!({"id": id, "score": 1.0 / f64::from(place)}))
                .collect();
            ModelReply::json(json!({"ranking": ranking}))
        }
        "nli" => ModelReply::json(json!({"verdicts": ids.iter()
            .map(|id| json!({"id": id, "label": "entailment", "score": 0.9})).collect::<Vec<_>>()})),
        "condense" => ModelReply::json(condensed(&ids)),
        _ => ModelReply::sensible(seen),
    }
}

pub fn headers() -> Value {
    json!({
        "intent": "explain", "domain": "lighthouses", "deliverable": "answer", "artifacts": [],
        "role": "keeper", "audience": "sailors", "tone": "calm", "depth": "short",
        "output_format": "Markdown", "justification_fact_ids": []
    })
}

pub fn condensed(ids: &[i64]) -> Value {
    let facts: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": format!("F{id}"), "text": format!("Fact of {id}."), "citations": [id]}))
        .collect();
    json!({
        "facts": facts,
        "constraints": [{"text": "Keep the lamp lit.", "citations": ids}],
        "open_issues": [{"text": "Who pays for the oil?"}]
    })
}

/// The numbers of the chunks in a frame.
pub fn chunk_ids(user: &str) -> Vec<i64> {
    let heading = |line: &str| line.strip_prefix("Chunk ")?.strip_suffix(':')?.parse().ok();
    user.lines().filter_map(heading).collect()
}

/// The candidates of a prompt with their reasons.
pub fn reasons(prompt: &Value) -> Vec<(i64, bool, String)> {
    let items = prompt["transparency"]["candidates"].as_array().unwrap();
    items
        .iter()
        .map(|one| {
            (
                one["chunk_id"].as_i64().unwrap(),
                one["kept"].as_bool().unwrap(),
                one["reason"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

pub fn stages(prompt: &Value) -> Vec<String> {
    let trace = prompt["trace"].as_array().unwrap();
    let name = |entry: &Value| entry["stage"].as_str().unwrap().to_owned();
    trace.iter().map(name).collect()
}

pub const LAMP: &str =
    "# The lamp\n\nThe lamp of the lighthouse burns whale oil. It is 30 m above the sea.\n";
pub const BOAT: &str =
    "# The boat\n\nThe boat of the lighthouse keeper carries whale oil and bread on Mondays.\n";
pub const BELL: &str =
    "# The bell\n\nThe fog bell of the lighthouse rings when the lamp cannot be seen.\n";
