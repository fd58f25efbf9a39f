//! `kill -9` at random times while messages are classified, give facts, and get an approved topic:
//! every message is there once, and gives its fact once. `MEMOIR_TEST_KILLS` sets the number of
//! kills.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use memoir::scripted_model::{Reply as ModelReply, ScriptedModel, Seen};
use serde_json::{Value, json};

use super::{answering, classified, intent};
use crate::support::binary::{Binary, Running};
use crate::support::client::client;
use crate::support::database::{TestDatabase, variable};
use crate::support::dice::Dice;
use crate::support::ingest::count;
use crate::support::probes::Api;

const USER: &str = "ann";

fn memoir(database: &TestDatabase, model: &ScriptedModel) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__LLM__PROVIDERS__STUB__KIND", "openai")
        .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "sk-test")
        .env(
            "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
            &model.openai_url(),
        )
        .env("MEMOIR__LLM__MODEL", "stub:m")
        .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        .env("MEMOIR__SERVER__SHUTDOWN_GRACE", "0")
}

/// Suggests a topic for every message, and finds one fact in each.
fn rule() -> impl Fn(&Seen) -> ModelReply + Send + Sync + 'static {
    let suggesting = |_: &str| {
        let mut found = classified(&["general_inquiry"], 0.5);
        found["confidence"] = json!("low");
        found["suggested_topic"] = json!("kites");
        found
    };
    let usual = answering(suggesting, intent(&[], false));
    move |seen: &Seen| {
        if seen.stage != "extract" {
            return usual(seen);
        }

        let said = seen.user.split("\"\"\"\n").nth(1).unwrap_or_default();
        let said = said.trim_end_matches("\n\"\"\"").trim();
        ModelReply::json(
            json!({"facts": [{"type": "fact", "content": said, "quote": said, "replaces": null}]}),
        )
    }
}

async fn post(running: &Running, path: &str, body: &Value) -> Option<Value> {
    let sent = client().post(format!("http://{}{path}", running.address));
    let reply = sent.json(body).send().await.ok()?;
    assert!(reply.status().as_u16() < 500, "{}", reply.status());
    reply.json().await.ok()
}

/// Waits until no job is left to run.
async fn quiet(api: &Api) {
    let began = Instant::now();
    loop {
        let mut left = false;
        // A job may go from the second state back to the first.
        for state in ["running", "queued", "running"] {
            let path = format!("/v1/jobs?state={state}&limit=1");
            let list = api.get("default", &path).await;
            left |= list["items"]
                .as_array()
                .is_none_or(|items| !items.is_empty());
        }

        if !left {
            return;
        }

        assert!(began.elapsed() < Duration::from_mins(2), "they do not end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn all(api: &Api, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get("default", &format!("{path}{cursor}")).await;
        items.extend(page["items"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

async fn killed_at_random(database: TestDatabase) {
    let kills: usize = variable("MEMOIR_TEST_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let mut dice = Dice::new("random_kills_of_conversations");
    let model = ScriptedModel::local().await.unwrap();
    model.set_rule(rule());
    model.edit_script(|script| script.latency_ms = 20);
    let memoir = memoir(&database, &model);
    let id = "0198a000-0000-7000-8000-00000000abcd";
    let mut taken: Vec<String> = Vec::new();
    for kill in 0..kills {
        let running = memoir.serve();
        post(&running, "/v1/threads", &json!({"id": id, "user_id": USER})).await;
        let said: Vec<String> = (0..25)
            .map(|number| format!("I own the kite number {}", kill * 100 + number))
            .collect();
        let messages: Vec<Value> = said.iter().map(|text| json!({"content": text})).collect();
        let path = format!("/v1/threads/{id}/messages");
        let body = json!({"messages": messages, "extract": true});
        if post(&running, &path, &body).await.is_some() {
            taken.extend(said);
        }

        if kill + 1 == kills {
            let body = json!({"suggestion": "kites"});
            post(&running, "/v1/admin/vocabulary/approve", &body).await;
        }

        let wanted = model.stats().requests + 1 + dice.below(20);
        model
            .wait_for_requests(wanted, Duration::from_secs(3))
            .await;
        tokio::time::sleep(Duration::from_millis(dice.below(40))).await;
        assert_eq!(running.signal_and_wait("KILL"), None);
    }

    let running = memoir.serve();
    let api = Api::at(running.address);
    quiet(&api).await;
    let stored = all(&api, &format!("/v1/threads/{id}/messages?limit=500")).await;
    let times = |list: &[Value]| {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for one in list {
            *times
                .entry(one["content"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }

        times
    };
    let messages = times(&stored);
    let facts = times(
        &all(
            &api,
            &format!("/v1/memories?user_id={USER}&type=fact&limit=500"),
        )
        .await,
    );
    for text in &taken {
        assert_eq!(messages.get(text), Some(&1), "{text}");
    }

    assert_eq!(messages, facts, "each message gave its fact once");
    assert!(
        stored.iter().all(|one| one["enrichment_state"] == "done"),
        "{stored:?}"
    );

    let failed = api.get("default", "/v1/jobs?state=failed&limit=1").await;
    assert_eq!(failed["items"], json!([]));
    let astray = "SELECT COUNT(*) - (SELECT COUNT(*) FROM memories) FROM search_entries t \
                  JOIN embeddings e ON e.entry_id = t.id WHERE t.owner_kind = 'memory'";
    assert_eq!(count(&database, astray).await, 0, "one vector each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn random_kills_lose_and_duplicate_no_message_and_no_fact() {
    for database in TestDatabase::each().await {
        killed_at_random(database).await;
    }
}
