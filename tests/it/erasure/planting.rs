//! Plants marked words everywhere that a text or a name can be stored, and finds them again in any
//! row, and in the bytes of an SQLite file.

use std::collections::BTreeSet;

use memoir::config::database::Engine;
use memoir::scripted_model::{Fault, Reply, Seen};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::conversation::answering;
use crate::support::app::{Reply as Answer, send};
use crate::support::database::TestDatabase;
use crate::support::dump;
use crate::support::ingest::{Ingest, text, until};

/// A part of every planted word of the person who is deleted, and of another one. It is its own
/// stem, in no dictionary, and at the end of the word: an index that stores only how a word differs
/// from the one before it still contains this part.
pub const GONE: &str = "zqxvondak";
pub const KEPT: &str = "wjkpalduk";

/// Settings of these tests: the embedded model answers, and a scripted one classifies messages and
/// files the texts that name it.
pub const SETTINGS: [(&str, &str); 3] = [
    ("LLM__MODEL", "local:embedded"),
    ("LLM__MODELS__ENRICH", "openai_stub:m"),
    ("LLM__TRANSPORT__READ_TIMEOUT", "60"),
];

/// Someone whose words are planted.
#[derive(Clone, Copy)]
pub struct Person<'a> {
    pub ingest: &'a Ingest,
    pub space: &'a str,
    pub marker: &'static str,
}

/// What was planted and can be deleted on its own.
#[derive(Debug, Default)]
pub struct Planted {
    pub source: String,
    pub thread: String,
    pub memory: String,
    /// Queries that used it: by the person, and by another caller.
    pub queries: Vec<String>,
    pub queries_of_others: Vec<String>,
    /// Requests with an idempotency key: path and body, by key.
    pub idempotent: Vec<(String, String, Value)>,
    pub unfinished: Vec<String>,
}

impl Person<'_> {
    pub fn user_id(self) -> String {
        format!("person-{}", self.marker)
    }

    /// A marked word for this place.
    pub fn word(self, place: &str) -> String {
        format!("{place}{}", self.marker)
    }

    async fn request(self, method: Method, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let request = self.ingest.app.request(method, path);
        let request = request.header("x-memoir-space", self.space);
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };

        send(request.json(body)).await
    }

    pub async fn post(self, path: &str, body: &Value) -> Value {
        let reply = self.request(Method::POST, path, None, body).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        serde_json::from_str(&reply.text).unwrap_or_default()
    }

    /// Posts whatever the outcome.
    pub async fn post_any(self, path: &str, body: &Value) -> Answer {
        self.request(Method::POST, path, None, body).await
    }

    pub async fn put(self, path: &str, body: &Value) -> Value {
        let reply = self.request(Method::PUT, path, None, body).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        serde_json::from_str(&reply.text).unwrap_or_default()
    }

    /// Posts with an idempotency key of its own, and notes the request.
    async fn keyed(self, planted: &mut Planted, path: &str, body: Value) -> Value {
        let key = format!("key-{}-{}", planted.idempotent.len(), &self.marker[..3]);
        let reply = self.repeat(&key, path, &body).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        planted.idempotent.push((key, path.to_owned(), body));
        reply.json()
    }

    pub async fn repeat(self, key: &str, path: &str, body: &Value) -> Answer {
        self.request(Method::POST, path, Some(key), body).await
    }

    pub async fn delete(self, path: &str) {
        let request = self.ingest.app.request(Method::DELETE, path);
        let reply = send(request.header("x-memoir-space", self.space)).await;
        assert!(
            [StatusCode::OK, StatusCode::NO_CONTENT].contains(&reply.status),
            "{path}: {}",
            reply.text
        );
        assert!(!reply.text.contains(self.marker), "{path}: {}", reply.text);
    }

    pub async fn get(self, path: &str) -> Answer {
        let request = self.ingest.app.request(Method::GET, path);
        send(request.header("x-memoir-space", self.space)).await
    }

    /// The job once nothing more happens to it by itself.
    pub async fn settled(self, id: &str) -> Value {
        for _ in 0..12 {
            let job = self.get(&format!("/v1/jobs/{id}?wait=10")).await.json();
            if !["queued", "running"].contains(&job["state"].as_str().unwrap_or("gone")) {
                return job;
            }
        }

        panic!("job {id} does not end");
    }

    pub async fn all_settled(self) {
        let jobs = self.get("/v1/jobs?limit=200").await.json();
        for job in jobs["items"].as_array().unwrap() {
            self.settled(&id(job)).await;
        }
    }

    /// A request with a text that only this person's words explain.
    fn document(self, place: &str) -> Value {
        json!({
            "path": format!("/{}/{}.md", self.word("folder"), self.word(place)), "user_id": self.user_id(),
            "text": format!("The {} was built in 1843 by {}.", self.word(&format!("{place}text")), self.word("builder")),
        })
    }

    /// Sources with all that is said about them, and categories made from their words.
    pub async fn plant_source(self, planted: &mut Planted) {
        let mut full = self.document("full");
        for field in ["title", "topic", "note", "author", "provider", "date"] {
            full[field] = json!(format!("The {}", self.word(field)));
        }
        full["tags"] = json!([self.word("tag")]);
        full["contextual_helper"] = json!(format!("About the {}.", self.word("given")));
        full["wait"] = json!(true);
        let job = self.keyed(planted, "/v1/ingestions", full.clone()).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        job["source_id"]
            .as_str()
            .unwrap()
            .clone_into(&mut planted.source);

        full["text"] = json!(format!("The {} was raised in 1901.", self.word("second")));
        let job = self.post("/v1/ingestions", &full).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        let helper = json!({"text": format!("Rewritten: the {}.", self.word("rewritten"))});
        self.put(&format!("/v1/sources/{}/helper", planted.source), &helper)
            .await;
    }

    /// More sources: filed by another model, which names categories after the text and writes the
    /// helper; several at once; and one without a text.
    pub async fn plant_more_sources(self, planted: &mut Planted) {
        let path = ["root", "branch", "leaf"]
            .map(|level| self.word(level))
            .join("/");
        let mut filed = self.document("filed");
        filed["text"] = json!(text(&[&path]));
        filed["options"] = json!({
            "model": "openai_stub:m", "delimiters": ["\n\n"], "chunk_min_tokens": 30, "chunk_max_tokens": 75,
        });
        filed["wait"] = json!(true);
        let job = self.post("/v1/ingestions", &filed).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");

        let batch = json!({"items": [self.document("batch"), self.document("other")]});
        self.keyed(planted, "/v1/ingestions/batch", batch).await;
        let empty = json!({
            "path": format!("/{}.md", self.word("empty")), "user_id": self.user_id(), "tags": [self.word("label")],
        });
        self.keyed(planted, "/v1/sources", empty).await;
        self.all_settled().await;
    }

    /// Jobs that failed, were cancelled, or wait for a helper, with a request and with steps.
    pub async fn plant_ended_jobs(self, planted: &mut Planted) {
        let rule = self.rule();
        self.ingest
            .model
            .set_rule(move |seen| match seen.stage.as_str() {
                "classify" => Reply::fault(Fault::RawText {
                    text: "{}".to_owned(),
                }),
                _ => rule(seen),
            });
        let mut failed = self.document("failed");
        failed["options"] = json!({"model": "openai_stub:m"});
        let failed = id(&self.post("/v1/ingestions", &failed).await);
        assert_eq!(self.settled(&failed).await["state"], "failed");
        self.ingest.model.set_rule(self.rule());

        for (place, cancelled) in [("cancelled", true), ("waiting", false)] {
            let mut waiting = self.document(place);
            waiting["auto_source_identification"] = json!(false);
            let waiting = id(&self.keyed(planted, "/v1/ingestions", waiting).await);
            assert_eq!(self.settled(&waiting).await["state"], "awaiting_helper");
            if cancelled {
                self.post(&format!("/v1/jobs/{waiting}/cancel"), &json!({}))
                    .await;
            } else {
                let fields = json!({
                    "date": "unknown", "author": self.word("writer"), "topic": self.word("subject"),
                    "description": self.word("description"),
                });
                self.put(&format!("/v1/jobs/{waiting}/helper"), &fields)
                    .await;
                planted.unfinished.push(waiting);
            }
        }
    }

    /// Jobs that run and wait for a model, and jobs that are queued behind them.
    pub async fn plant_running_jobs(self, planted: &mut Planted) {
        let before = self.ingest.asked("classify").len();
        let rule = self.rule();
        self.ingest
            .model
            .set_rule(move |seen| match seen.stage.as_str() {
                "classify" | "answer" => Reply::fault(Fault::Stall),
                _ => rule(seen),
            });

        for place in ["running", "running", "queued"] {
            let mut body = self.document(place);
            body["options"] = json!({"model": "openai_stub:m"});
            let job = self.keyed(planted, "/v1/ingestions", body).await;
            planted.unfinished.push(id(&job));
        }

        let query = json!({
            "query": format!("What is queued about {}?", self.word("question")), "user_id": self.user_id(),
            "wait": false, "model": "openai_stub:m",
        });
        planted
            .unfinished
            .push(id(&self.post("/v1/queries", &query).await));
        let asked = async || self.ingest.asked("classify").len() > before;
        until("a job runs", asked).await;
    }

    /// A thread with messages, and what is derived from them: labels, suggestions, facts and a
    /// summary.
    pub async fn plant_thread(self, planted: &mut Planted) {
        self.ingest.model.set_rule(self.rule());
        let thread = json!({
            "user_id": self.user_id(), "title": format!("About {}", self.word("threadtitle")),
        });
        planted.thread = id(&self.keyed(planted, "/v1/threads", thread).await);
        let path = format!("/v1/threads/{}/messages", planted.thread);
        let mut list = vec![json!({
            "role": "user", "name": self.word("speaker"), "tags": [self.word("messagetag")],
            "file_path": format!("/{}.md", self.word("messagefile")),
            "content": format!(
                "My name is {}. I live in {}. I work as a {}.",
                self.word("name"), self.word("city"), self.word("job")
            ),
        })];
        for turn in 1..=5 {
            let said = format!("I bought the {} {turn}.", self.word("boat"));
            list.push(json!({"role": "assistant", "content": format!("Noted: {said}")}));
            list.push(json!({"role": "user", "content": said}));
        }

        let said = json!({"messages": list, "extract": true});
        self.keyed(planted, &path, said).await;
        let with_context = json!({
            "role": "user", "content": format!("Which {} did I buy?", self.word("boat")), "with_context": true,
        });
        self.post(&path, &with_context).await;
        self.all_settled().await;
        let summaries = path.replace("messages", "summaries");
        self.post(&summaries, &json!({"until_turn": 4})).await;
        self.all_settled().await;
    }

    pub async fn plant_memory(self, planted: &mut Planted) {
        let fact = json!({
            "user_id": self.user_id(), "type": "fact", "title": self.word("facttitle"),
            "content": format!("The person owns the {}.", self.word("fact")), "tags": [self.word("facttag")],
            "file_path": format!("/{}.md", self.word("factfile")),
        });
        planted.memory = id(&self.keyed(planted, "/v1/memories", fact).await);
        let newer = json!({
            "user_id": self.user_id(), "type": "preference", "supersedes": planted.memory,
            "content": format!("The person prefers the {}.", self.word("preference")),
        });
        self.post("/v1/memories", &newer).await;
    }

    /// Everything that reads what was planted and may store what it read.
    pub async fn plant_reads(self, planted: &mut Planted) {
        let user_id = self.user_id();
        let boat = self.word("boat");
        let built = self.word("fulltext");
        let own = [
            json!({"query": format!("When was the {built} built?"), "user_id": user_id}),
            json!({"query": format!("Who built the {built}?"), "user_id": user_id, "mode": "retrieve", "strategy": "wide_branch"}),
            json!({"query": format!("Which {boat} did I buy?"), "user_id": user_id, "scope": "both"}),
        ];
        for body in own {
            let result = self.keyed(planted, "/v1/queries", body).await;
            planted.queries.push(id(&result));
        }
        let job =
            json!({"query": format!("Was the {built} built?"), "user_id": user_id, "wait": false});
        let job = id(&self.keyed(planted, "/v1/queries", job).await);
        assert_eq!(self.settled(&job).await["state"], "succeeded");

        // Another caller, whose question does not contain the word.
        let other = json!({"query": "What was built in 1843?", "strategy": "wide_branch", "n": 20});
        planted
            .queries_of_others
            .push(id(&self.post("/v1/queries", &other).await));

        let thread = &planted.thread;
        for (path, body) in [
            (
                "/v1/context",
                json!({"query": format!("Which {boat}?"), "user_id": user_id, "thread_id": thread}),
            ),
            (
                "/v1/context/analyze",
                json!({"query": format!("Which {boat}?"), "user_id": user_id, "thread_id": thread}),
            ),
            (
                "/v1/memory/retrieve",
                json!({"userId": user_id, "sessionId": thread, "useMemory": true, "query": format!("Which {boat}?")}),
            ),
            (
                "/v1/search",
                json!({"query": boat, "scope": "both", "filters": {"user_id": user_id}}),
            ),
            (
                "/v1/prompts",
                json!({"task": format!("Describe the {boat}."), "user_id": user_id, "thread_id": thread}),
            ),
            (
                "/v1/prompts/send",
                json!({"prompt": format!("Describe the {boat}."), "user_id": user_id, "thread_id": thread}),
            ),
            (
                "/v1/documents/retrieve",
                json!({"meta": {"topic": built}, "user_id": user_id}),
            ),
        ] {
            let reply = self.post_any(path, &body).await;
            assert!(!reply.status.is_server_error(), "{path}: {}", reply.text);
        }
        self.all_settled().await;
    }

    /// A model whose answers repeat the words of what it is asked.
    pub fn rule(self) -> impl Fn(&Seen) -> Reply + Send + Sync + 'static {
        let marker = self.marker;
        let classify = move |message: &str| {
            let mut words = message.split(|c: char| !c.is_alphanumeric());
            let word = words.find(|word| word.contains(marker)).unwrap_or("thing");
            json!({
                "topics": ["general_inquiry"], "category": "inquiry", "message_type": "statement", "importance": 0.9,
                "entities": [{"type": "person_name", "value": format!("entity{word}")}], "confidence": "low",
                "suggested_topic": format!("topic{word}"), "suggested_category": format!("category{word}"),
            })
        };
        answering(classify, Value::Null)
    }
}

pub fn id(value: &Value) -> String {
    let id = value["id"].as_str();
    id.unwrap_or_else(|| panic!("no id: {value:#}")).to_owned()
}

/// Where marked words are: table, column and word.
pub async fn found(database: &TestDatabase, marker: &str) -> BTreeSet<(String, String, String)> {
    let mut places = BTreeSet::new();
    for table in dump::tables(database).await {
        for (row, (column, value)) in table.rows.iter().flat_map(|row| {
            let pairs = table.columns.iter().zip(row);
            std::iter::repeat(row).zip(pairs)
        }) {
            let Some(value) = value else { continue };
            let value = if column.kind == dump::Kind::Bytes {
                String::from_utf8_lossy(&unhex(value)).into_owned()
            } else {
                value.clone()
            };
            for word in words(&value, marker) {
                let about = match row.first() {
                    Some(Some(space)) if table.columns[0].name == "space" => space.as_str(),
                    _ => "",
                };
                places.insert((format!("{about}/{}", table.name), column.name.clone(), word));
            }
        }
    }

    places
}

/// Marked words in the bytes of an SQLite database, its log and its index of the log.
pub fn found_in_files(database: &TestDatabase, marker: &str) -> BTreeSet<(String, String, String)> {
    let mut places = BTreeSet::new();
    if database.engine != Engine::Sqlite {
        return places;
    }

    let file = database.url.strip_prefix("sqlite://").unwrap();
    for ending in ["", "-wal", "-shm"] {
        let bytes = std::fs::read(format!("{file}{ending}")).unwrap_or_default();
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        for word in words(&text, marker) {
            places.insert(("bytes".to_owned(), format!("file{ending}"), word));
        }
    }

    places
}

fn words(text: &str, marker: &str) -> BTreeSet<String> {
    let text = text.to_lowercase();
    let of_word = |c: &char| c.is_ascii_alphanumeric();
    let ends = text.match_indices(marker);
    ends.map(|(at, _)| {
        let before: String = text[..at]
            .chars()
            .rev()
            .take_while(of_word)
            .take(20)
            .collect();
        before.chars().rev().chain(marker.chars()).collect()
    })
    .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0).to_le_bytes()[0];
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) * 16 + digit(pair[1]))
        .collect()
}
