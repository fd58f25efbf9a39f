//! Ingestions with a scripted model: everything is real except the model.

use std::sync::Arc;
use std::time::Duration;

use memoir::scripted_model::{ScriptedModel, Seen};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row as _};

use super::app::{Reply, TestApp, send};
use super::database::TestDatabase;
use super::probes::Api;

/// Waits that are short enough for a test, and the scripted server as the only model. Texts are filed
/// level by level, whatever their length, unless a test is about short ones.
const QUICK: &[(&str, &str)] = &[
    ("LLM__TRANSPORT__BACKOFF_MS", "2"),
    ("LLM__TRANSPORT__BACKOFF_CAP_MS", "10"),
    ("LLM__TRANSPORT__READ_TIMEOUT", "1"),
    ("LLM__TRANSPORT__TOTAL_TIMEOUT", "30"),
    ("LLM__PROVIDERS__OPENAI_STUB__KIND", "openai"),
    ("LLM__PROVIDERS__OPENAI_STUB__API_KEY", "sk-test"),
    ("LLM__MODEL", "openai_stub:m"),
    ("INGESTION__FILING", "levels"),
    ("JOBS__BACKOFF_MS", "1"),
    ("JOBS__BACKOFF_CAP_MS", "2"),
];

/// An application, its model, and helper functions for tests.
pub struct Ingest {
    pub app: TestApp,
    pub model: ScriptedModel,
}

impl Ingest {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// On SQLite.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(TestDatabase::sqlite(), settings).await
    }

    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let model = ScriptedModel::local().await.unwrap();
        let app = start(Arc::new(database), &model, settings).await;
        Self { app, model }
    }

    /// Stops the application and starts it again with these settings, on the same database and
    /// model.
    pub async fn restart(self, settings: &[(&str, &str)]) -> Self {
        let database = Arc::clone(&self.app.database);
        self.app.finish().await;
        Self {
            app: start(database, &self.model, settings).await,
            model: self.model,
        }
    }

    pub async fn submit(&self, body: &Value) -> Reply {
        self.app.post("/v1/ingestions", body).await
    }

    /// Queues a job and returns its id.
    pub async fn queue(&self, body: &Value) -> String {
        let reply = self.submit(body).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub async fn job(&self, id: &str) -> Value {
        self.app.get(&format!("/v1/jobs/{id}")).await.json()
    }

    /// The job once it is over.
    pub async fn finished(&self, id: &str) -> Value {
        Api::at(self.app.address).finished("default", id).await
    }

    /// The job once it waits for a helper.
    pub async fn awaiting(&self, id: &str) -> Value {
        let job = self.app.get(&format!("/v1/jobs/{id}?wait=20")).await.json();
        assert_eq!(job["state"], "awaiting_helper", "{job}");
        job
    }

    /// Ingests a text and waits for the job to end, in any state.
    pub async fn run(&self, body: &Value) -> Value {
        let id = self.queue(body).await;
        self.finished(&id).await
    }

    /// Ingests; the job must succeed.
    pub async fn succeed(&self, body: &Value) -> Value {
        let job = self.run(body).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        job
    }

    /// Ingests; the job must fail with this code and a remedy.
    pub async fn fail(&self, body: &Value, code: &str) -> Value {
        let job = self.run(body).await;
        assert_failed(&job, code);
        job
    }

    /// Retries a failed job and waits for it to end.
    pub async fn retry(&self, job: &Value) -> Value {
        let id = job["id"].as_str().unwrap();
        let reply = self
            .app
            .post(&format!("/v1/jobs/{id}/retry"), &Value::Null)
            .await;

        assert_eq!(reply.status, 202, "{}", reply.text);
        self.finished(id).await
    }

    /// All items of a paginated list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let mark = if path.contains('?') { '&' } else { '?' };
            let page = self
                .app
                .get(&format!("{path}{mark}limit=500{cursor}"))
                .await;

            assert_eq!(page.status, 200, "{}", page.text);
            let page = page.json();
            all.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// The chunks of the source of a job.
    pub async fn chunks(&self, job: &Value) -> Vec<Value> {
        self.list(&format!("/v1/sources/{}/chunks", source(job)))
            .await
    }

    /// Names on a level, in the order of creation.
    pub async fn names(&self, level: i64) -> Vec<String> {
        let found = self.list(&format!("/v1/categories?level={level}")).await;
        found
            .iter()
            .map(|category| category["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        send(self.app.request(Method::PUT, path).json(body)).await
    }

    /// The requests of a stage since they were last cleared.
    pub fn asked(&self, stage: &str) -> Vec<Seen> {
        self.model
            .requests()
            .into_iter()
            .filter(|seen| seen.stage == stage)
            .collect()
    }

    /// Number of rows of a table, counted directly.
    pub async fn count(&self, table: &str) -> i64 {
        count(&self.app.database, &format!("SELECT COUNT(*) FROM {table}")).await
    }

    /// Number of rows in all tables that an ingestion writes.
    pub async fn rows(&self) -> [i64; 5] {
        let mut all = [0; 5];
        for (place, table) in all.iter_mut().zip([
            "sources",
            "source_versions",
            "contextual_helpers",
            "categories",
            FILED,
        ]) {
            *place = self.count(table).await;
        }

        all
    }
}

async fn start(
    database: Arc<TestDatabase>,
    model: &ScriptedModel,
    settings: &[(&str, &str)],
) -> TestApp {
    let url = model.openai_url();
    let mut all = QUICK.to_vec();
    all.push(("LLM__PROVIDERS__OPENAI_STUB__BASE_URL", &url));
    all.extend_from_slice(settings);

    TestApp::at(&database.url.clone(), database, &all).await
}

/// The chunks under the hierarchy, as part of a statement.
pub const FILED: &str = "chunks WHERE profile = 'taxonomy'";

/// A single number, read directly from the database.
pub async fn count(database: &TestDatabase, sql: &str) -> i64 {
    let mut connection = database.connect().await;
    let row = sqlx::query(AssertSqlSafe(sql.to_owned()))
        .fetch_one(&mut connection)
        .await
        .unwrap();

    row.get(0)
}

/// The numbers in the first column that a statement reads.
pub async fn numbers(database: &TestDatabase, sql: &str) -> Vec<i64> {
    let mut connection = database.connect().await;
    let rows = sqlx::query(AssertSqlSafe(sql.to_owned()))
        .fetch_all(&mut connection)
        .await
        .unwrap();

    rows.iter().map(|row| row.get(0)).collect()
}

/// The source of a job.
pub fn source(job: &Value) -> &str {
    job["source_id"].as_str().unwrap()
}

#[track_caller]
pub fn assert_failed(job: &Value, code: &str) {
    assert_eq!(job["state"], "failed", "{job:#}");
    assert_eq!(job["error"]["code"], code, "{job:#}");
    for member in ["title", "detail", "remediation"] {
        assert!(
            job["error"][member]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{member}: {job:#}"
        );
    }
}

/// A chunk of about fifty tokens that contains its path: `Finance/Tax/Income`.
pub fn chunk(path: &str, number: usize) -> String {
    let labels = path
        .split('/')
        .zip(1..)
        .map(|(name, level)| format!("category{level}: {name}\n"));

    let labels = labels.collect::<Vec<_>>().concat();
    format!("{labels}Chunk {number}:{}.\n\n", " word".repeat(30))
}

/// A text that is split into one chunk per path, with the options for this.
pub fn text(paths: &[&str]) -> String {
    paths
        .iter()
        .zip(1..)
        .map(|(path, number)| chunk(path, number))
        .collect()
}

/// A request with such a text, with these other fields.
pub fn request(text: &str, more: &Value) -> Value {
    let mut body = json!({
        "text": text, "options": {"delimiters": ["\n\n"], "chunk_min_tokens": 30, "chunk_max_tokens": 75},
    });
    merge(&mut body, more);
    body
}

/// A source with chunks for these paths.
pub fn document(paths: &[&str], more: &Value) -> Value {
    request(&text(paths), more)
}

fn merge(into: &mut Value, more: &Value) {
    let Some(fields) = more.as_object() else {
        return;
    };
    for (name, value) in fields {
        if into[name].is_object() && value.is_object() {
            merge(&mut into[name], value);
        } else {
            into[name] = value.clone();
        }
    }
}

/// The numbers of the chunks in a prompt, in order.
pub fn ids(seen: &Seen) -> Vec<i64> {
    let headings = seen
        .user
        .lines()
        .filter_map(|line| line.strip_prefix("Chunk ")?.strip_suffix(':'));
    headings.filter_map(|number| number.parse().ok()).collect()
}

/// The line of a prompt that begins with this label, without it.
pub fn line<'s>(seen: &'s Seen, label: &str) -> &'s str {
    seen.user
        .lines()
        .find_map(|line| line.strip_prefix(label))
        .unwrap_or_else(|| panic!("{label} {}", seen.user))
        .trim()
}

/// The categories listed in a prompt.
pub fn offered(seen: &Seen) -> Vec<&str> {
    let below = seen
        .user
        .lines()
        .skip_while(|line| *line != "categories:")
        .skip(1);
    below.map_while(|line| line.strip_prefix("- ")).collect()
}

/// Polls until the condition holds; fails after a minute.
pub async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let began = std::time::Instant::now();
    while !look().await {
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "it does not come: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
