//! Conversations over HTTP: threads, messages, the vocabulary, enrichment and contexts.

mod analyzing;
mod auto;
mod context;
mod correcting;
mod edge_cases;
mod enrichment;
mod extracting;
mod fading;
mod importing;
mod kills;
mod layers;
mod naming;
mod plans;
mod presets;
mod proposing;
mod reclassifying;
mod retention;
mod searching;
mod storing;
mod summarising;
mod superseding;
mod vocabulary;

use memoir::scripted_model::{Fault, Reply as ModelReply, ScriptedModel, Seen};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

/// A memory once it has left the state `pending`: waits for the jobs that classify.
pub async fn settled(app: &TestApp, id: &str) -> Value {
    loop {
        let jobs = app.get("/v1/jobs?kind=enrich&limit=100").await.json();
        let reply = app.get(&format!("/v1/memories/{id}")).await;
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        let memory = reply.json();
        if memory["enrichment_state"] != "pending" {
            return memory;
        }

        let is_left = |job: &&Value| job["state"] == "queued" || job["state"] == "running";
        let left: Vec<&Value> = jobs["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(is_left)
            .collect();
        assert!(!left.is_empty(), "no job is left for {memory}");
        for job in left {
            app.get(&format!("/v1/jobs/{}?wait=1", job["id"].as_str().unwrap()))
                .await;
        }
    }
}

/// The service with a scripted model.
pub struct Desk {
    pub app: TestApp,
    pub model: ScriptedModel,
}

impl Desk {
    pub async fn open() -> Self {
        Self::on(TestDatabase::sqlite(), &[]).await
    }

    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let model = ScriptedModel::local().await.unwrap();
        let url = model.openai_url();
        let mut all = vec![
            ("LLM__TRANSPORT__BACKOFF_MS", "5"),
            ("LLM__TRANSPORT__BACKOFF_CAP_MS", "20"),
            ("LLM__TRANSPORT__TRIES", "1"),
            ("LLM__MODEL", "stub:gpt-4o-mini"),
            ("LLM__PROVIDERS__STUB__KIND", "openai"),
            ("LLM__PROVIDERS__STUB__BASE_URL", &url),
            ("LLM__PROVIDERS__STUB__API_KEY", "sk-test"),
            (
                "LLM__PROVIDERS__STUB__PRICES",
                r#"{"gpt-4o-mini": {"input": 0.15, "output": 0.6}}"#,
            ),
        ];

        all.extend_from_slice(settings);
        let app = TestApp::on(database, &all).await;
        Self { app, model }
    }

    pub async fn thread(&self, user_id: &str, title: Option<&str>) -> String {
        let body = json!({"user_id": user_id, "title": title});
        let reply = self.app.post("/v1/threads", &body).await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub async fn say(&self, thread: &str, body: &Value) -> Value {
        let reply = self
            .app
            .post(&format!("/v1/threads/{thread}/messages"), body)
            .await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
        reply.json()
    }

    /// Waits until a memory has left the state `pending`.
    pub async fn settled(&self, id: &str) -> Value {
        settled(&self.app, id).await
    }

    pub async fn memory(&self, id: &str) -> Value {
        let reply = self.app.get(&format!("/v1/memories/{id}")).await;
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        reply.json()
    }

    pub async fn context(&self, body: &Value) -> Value {
        let reply = self.app.post("/v1/context", body).await;
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        reply.json()
    }

    /// A context found in three stages.
    pub async fn staged(&self, body: &Value) -> Value {
        let mut body = body.clone();
        body["rank"] = json!("staged");
        self.context(&body).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        send(self.app.request(Method::PATCH, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        send(self.app.request(Method::DELETE, path)).await
    }

    /// The requests that call a tool.
    pub fn seen(&self, tool: &str) -> Vec<Seen> {
        let all = self.model.requests().into_iter();
        all.filter(|seen| seen.stage == tool).collect()
    }
}

/// Answers classification calls by the text of each message, and questions with one intent.
pub fn answering(
    classify: impl Fn(&str) -> Value + Send + Sync + 'static,
    intent: Value,
) -> impl Fn(&Seen) -> ModelReply + Send + Sync + 'static {
    move |seen: &Seen| match seen.stage.as_str() {
        "classify_message" if is_list(seen) => {
            let each = messages(&seen.user);
            let each = each.iter().map(|(id, text)| {
                let mut found = classify(text);
                found["id"] = json!(id);
                found
            });
            ModelReply::json(json!({"messages": each.collect::<Vec<_>>()}))
        }
        "classify_message" => ModelReply::json(classify(&seen.user)),
        "extract_search_params" => ModelReply::json(intent.clone()),
        _ => ModelReply::sensible(seen),
    }
}

fn is_list(seen: &Seen) -> bool {
    let schema = seen.schema.as_ref().unwrap();
    schema.pointer("/properties/messages").is_some()
}

/// The numbered messages of a call.
fn messages(user: &str) -> Vec<(i64, String)> {
    let parts = user.split("Message ").skip(1);
    let each = parts.filter_map(|part| {
        let (number, rest) = part.split_once(" [")?;
        let (_, text) = rest.split_once("\"\"\"\n")?;
        let (text, _) = text.split_once("\n\"\"\"")?;
        Some((number.parse().ok()?, text.to_owned()))
    });
    each.collect()
}

/// A valid classification.
pub fn classified(topics: &[&str], importance: f64) -> Value {
    json!({
        "topics": topics, "category": "inquiry", "message_type": "statement", "entities": [],
        "importance": importance, "confidence": "high",
    })
}

/// A neutral intent with these topics.
pub fn intent(topics: &[&str], only: bool) -> Value {
    json!({"topics": topics, "time_scope": "all", "search_current_thread_only": only})
}

/// A provider that does not answer.
pub fn busy() -> Fault {
    Fault::Status {
        status: 503,
        headers: std::collections::BTreeMap::default(),
        body: String::new(),
    }
}
