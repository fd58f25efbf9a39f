//! What of the conversation stands in a prompt, and that reading it counts as a use.

use serde_json::{Value, json};

use super::{Bench, LAMP};

const TASK: &str = "What does the lamp of the lighthouse burn?";
const OLDER: &str = "The lamp of the lighthouse burns best with a short wick.";
const PINNED: &str = "They agreed to call the lighthouse Aurora.";

async fn store(bench: &Bench, path: &str, body: &Value) -> String {
    bench.test.app.clock.advance_seconds(1);
    let reply = bench.test.app.post(path, body).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
    let reply = reply.json();
    let id = reply["id"]
        .as_str()
        .or_else(|| reply["message"]["id"].as_str());
    id.unwrap_or_else(|| panic!("{reply}")).to_owned()
}

/// A thread with an older turn, a pinned summary and a last turn.
async fn thread(bench: &Bench, last: &str) -> String {
    let id = store(bench, "/v1/threads", &json!({})).await;
    let messages = format!("/v1/threads/{id}/messages");
    let said = |content: &str| json!({"content": content, "enrich": false});
    store(bench, &messages, &said(OLDER)).await;
    let summary = json!({"type": "summary", "thread_id": id, "content": PINNED, "pinned": true});
    store(bench, "/v1/memories", &summary).await;
    store(bench, &messages, &said(last)).await;
    id
}

fn items(prompt: &Value) -> Vec<(&str, bool, bool, &str)> {
    let items = prompt["transparency"]["history"].as_array().unwrap();
    items
        .iter()
        .map(|item| {
            (
                item["layer"].as_str().unwrap(),
                item["kept"].as_bool().unwrap(),
                item["shown"].as_bool().unwrap(),
                item["reason"].as_str().unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn what_is_kept_of_the_conversation_stands_in_the_prompt() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    let id = thread(&bench, "Thanks.").await;
    let body = json!({"task": TASK, "thread_id": id, "k": 1});
    let prompt = bench.compose(&body).await;
    let whole = prompt["prompt"].as_str().unwrap();
    let (_, task) = whole.split_once("[Task/Mode]\n").unwrap();
    let lines: Vec<&str> = task.lines().take(4).collect();
    assert_eq!(
        lines[..2],
        ["RECENT HISTORY", &format!("summary: {PINNED}")]
    );
    assert!(
        lines[2].starts_with("user (earlier, ") && lines[2].ends_with(OLDER),
        "{task}"
    );
    assert_eq!(lines[3], "user: Thanks.");
    assert_eq!(
        items(&prompt),
        [
            ("pinned", true, true, "kept: pinned summary"),
            ("window", true, true, "kept: recency window"),
            ("episodic", true, true, "kept: strong semantic match"),
        ]
    );

    // Only the agents read it: nothing of it is shown, and the transparency says so.
    let hidden = json!({"task": TASK, "thread_id": id, "k": 1, "include_recent_history": false});
    let prompt = bench.compose(&hidden).await;
    assert!(!prompt["prompt"].as_str().unwrap().contains(OLDER));
    assert!(
        items(&prompt)
            .iter()
            .all(|(_, kept, shown, _)| *kept && !shown)
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_huge_turn_is_shortened_and_the_others_stay_whole() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    let log = format!(
        "It begins here. {}It ends here.",
        "A line of a long log. ".repeat(9000)
    );
    let id = thread(&bench, &log).await;
    let messages = format!("/v1/threads/{id}/messages");
    let short = "This is what the keeper sent me.";
    store(
        &bench,
        &messages,
        &json!({"content": short, "enrich": false}),
    )
    .await;

    let prompt = bench.compose(&json!({"task": TASK, "thread_id": id})).await;
    assert_eq!(prompt["estimate"]["within_ceiling"], true);
    let whole = prompt["prompt"].as_str().unwrap();
    for part in [
        "user: It begins here.",
        "characters left out …]",
        "It ends here.\n",
        short,
    ] {
        assert!(whole.contains(part), "{part}");
    }
    let reasons: Vec<&str> = items(&prompt).iter().map(|item| item.3).collect();
    let shortened = reasons
        .iter()
        .filter(|one| one.contains(", shortened to "))
        .count();
    assert_eq!(shortened, 1, "{reasons:?}");
    assert!(!prompt["s_ctx"]["facts"].as_array().unwrap().is_empty());
    bench.test.app.finish().await;
}

#[tokio::test]
async fn older_turns_for_which_the_ceiling_leaves_no_room_are_left_out() {
    let bench = Bench::open().await;
    let id = store(&bench, "/v1/threads", &json!({})).await;
    let messages = format!("/v1/threads/{id}/messages");
    let long = OLDER.repeat(40);
    for said in [long.as_str(), "Thanks."] {
        let body = json!({"content": said, "enrich": false});
        store(&bench, &messages, &body).await;
    }
    let memory = "word ".repeat(600);
    bench.workspace(&json!({"project_memory": memory})).await;
    let body = |ceiling: usize| json!({"task": TASK, "thread_id": id, "k": 1, "ceilings": {"tokens": ceiling}});

    let prompt = bench.compose(&body(16000)).await;
    assert_eq!(items(&prompt)[1].3, "kept: strong semantic match");
    let prompt = bench.compose(&body(1000)).await;
    assert_eq!(prompt["estimate"]["within_ceiling"], true);
    assert_eq!(
        items(&prompt),
        [
            ("window", true, true, "kept: recency window"),
            ("episodic", false, false, "dropped: over the token ceiling"),
        ]
    );
    assert!(!prompt["prompt"].as_str().unwrap().contains(OLDER));
    bench.test.app.finish().await;
}

#[tokio::test]
async fn every_path_that_hands_memories_to_a_model_counts_their_use() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    let thread = store(&bench, "/v1/threads", &json!({"user_id": "ann"})).await;
    let fact = json!({"type": "fact", "user_id": "ann", "content": OLDER});
    let id = store(&bench, "/v1/memories", &fact).await;
    let uses = async || {
        let path = format!("/v1/memories/{id}?user_id=ann");
        let memory = bench.test.app.get(&path).await.json();
        memory["access_count"]
            .as_i64()
            .unwrap_or_else(|| panic!("{memory}"))
    };

    let asked = json!({"query": TASK, "user_id": "ann"});
    let episodic = format!("/v1/threads/{thread}/episodic");
    let paths = [
        ("/v1/context", asked.clone()),
        (
            "/v1/memory/retrieve",
            json!({"query": TASK, "userId": "ann", "useMemory": true, "sessionId": thread}),
        ),
        (episodic.as_str(), json!({"query": TASK})),
        (
            "/v1/prompts",
            json!({"task": TASK, "user_id": "ann", "thread_id": thread}),
        ),
        (
            "/v1/queries",
            json!({"query": TASK, "user_id": "ann", "scope": "memories", "mode": "retrieve"}),
        ),
    ];
    for (number, (path, body)) in (1..).zip(paths) {
        let reply = bench.test.app.post(path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert_eq!(uses().await, number, "{path}: {}", reply.text);
    }
    bench.test.app.finish().await;
}
