//! Two processes on one database share settings and rate limit at once.

use serde_json::{Value, json};

use crate::support::binary::{Binary, Running};
use crate::support::client::client;
use crate::support::database::TestDatabase;

async fn post(running: &Running, path: &str, body: &Value) -> Value {
    let sent = client().post(format!("http://{}{path}", running.address));
    sent.json(body).send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_settings_and_rate_limit() {
    let Some(database) = TestDatabase::postgres().await else {
        return;
    };
    let memoir = || {
        Binary::new()
            .env("DATABASE_URL", &database.url)
            .env("MEMOIR__MEMORY__RATE_LIMIT", "3")
    };
    let (one, two) = (memoir().serve(), memoir().serve());
    let thread = post(&one, "/v1/threads", &json!({"user_id": "ann"})).await;
    let id = thread["id"].as_str().unwrap();
    let said = json!({"content": "The kite is red. It is new. It flies.", "enrich": false});
    post(&two, &format!("/v1/threads/{id}/messages"), &said).await;
    let ask =
        |query: &str| json!({"userId": "ann", "sessionId": id, "useMemory": true, "query": query});
    let first = post(&one, "/v1/memory/retrieve", &ask("red kite")).await;
    assert_eq!(first["metadata"]["config"]["clipSentences"], 2, "{first}");

    // A change in one process counts in the other one at once.
    let put = client().put(format!("http://{}/v1/admin/memory-settings", one.address));
    let settings = json!({"retrieval": {"clipSentences": 1}});
    let reply = put.json(&settings).send().await.unwrap();
    assert!(reply.status().is_success());
    let second = post(&two, "/v1/memory/retrieve", &ask("red kite")).await;
    assert_eq!(second["metadata"]["config"]["clipSentences"], 1, "{second}");

    // Three retrievals a minute, whichever process runs them. The minute may end in between, so more
    // are asked for than two minutes allow.
    let limited = |reply: &Value| reply["error"]["code"] == "RATE_LIMITED";
    assert!(!limited(&first) && !limited(&second), "{first} {second}");
    let mut replies = Vec::new();
    for (number, process) in [&one, &two].into_iter().cycle().take(6).enumerate() {
        let query = ask(&format!("kite number {number}"));
        replies.push(post(process, "/v1/memory/retrieve", &query).await);
    }
    assert!(replies.iter().any(limited), "{replies:?}");
}
