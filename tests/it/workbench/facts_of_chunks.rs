//! What the embedded model takes from chunks: whole statements and code that help with the task.

use serde_json::{Value, json};

use super::reasons;
use crate::support::app::TestApp;

const GUIDE: &str = "# Pump house\n\nThe pump house stands behind the mill.\n\n## Starting the pump\n\n\
    - Open the inlet valve before you start the pump, because a pump that runs\n  dry is destroyed within a \
    minute.\n- Lock the door.\n\nRun this to start the pump:\n\n```sh\nvalve open inlet\n\npump start --slow\n```\n\n\
    ## Painting\n\nThe fence was painted green in spring.\n";
const SOUP: &str =
    "# Lentil soup\n\nFry the onions, add the lentils and simmer for forty minutes.\n";

async fn app() -> TestApp {
    TestApp::with(&[("LLM__MODEL", "local:embedded")]).await
}

async fn ingest(app: &TestApp, path: &str, text: &str) {
    let name = path.rsplit('/').next().unwrap();
    let body = json!({"text": text, "path": path, "filename": name, "wait": true});
    let reply = app.post("/v1/ingestions", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

async fn compose(app: &TestApp, body: &Value) -> Value {
    let reply = app.post("/v1/prompts", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn texts(prompt: &Value) -> Vec<&str> {
    let facts = prompt["s_ctx"]["facts"].as_array().unwrap();
    facts
        .iter()
        .map(|fact| fact["text"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn facts_are_whole_statements_under_their_headings_and_code_keeps_its_lines() {
    let app = app().await;
    ingest(&app, "/docs/pump.md", GUIDE).await;
    ingest(&app, "/docs/soup.md", SOUP).await;
    let task = json!({"task": "Write a script that opens the inlet valve and starts the pump."});
    let prompt = compose(&app, &task).await;

    let item = "Open the inlet valve before you start the pump, because a pump that runs dry is \
                destroyed within a minute.";
    assert!(texts(&prompt).contains(&item), "{}", prompt["s_ctx"]);
    let whole = prompt["prompt"].as_str().unwrap();
    assert!(
        whole.contains("]\n```\nvalve open inlet\n\npump start --slow\n```\n"),
        "{whole}"
    );
    for unrelated in ["green", "lentils", "Lock the door"] {
        assert!(!whole.contains(unrelated), "{whole}");
    }
    let facts = prompt["s_ctx"]["facts"].as_array().unwrap();
    let fact = facts.iter().find(|fact| fact["text"] == item).unwrap();
    let place = &fact["places"][0];
    assert_eq!(place["heading"], "Pump house › Starting the pump");
    assert_eq!(place["path"], "/docs/pump.md");
    assert_eq!(place["chunk_id"], fact["citations"][0]);
    assert!(whole.contains("Pump house › Starting the pump)"), "{whole}");

    // What says nothing is left out of the headers.
    assert!(whole.contains("Role: a software engineer"), "{whole}");
    assert!(whole.contains("Deliverable: code"), "{whole}");
    for empty in ["Depth:", "Audience:", "Tone:", "Domain:"] {
        assert!(!whole.contains(empty), "{whole}");
    }
    app.finish().await;
}

#[tokio::test]
async fn what_has_nothing_to_do_with_the_task_is_no_fact() {
    let app = app().await;
    ingest(&app, "/docs/pump.md", GUIDE).await;
    ingest(&app, "/docs/soup.md", SOUP).await;
    let task = json!({"task": "Explain how the moons of Jupiter were discovered."});
    let prompt = compose(&app, &task).await;
    assert_eq!(prompt["s_ctx"]["facts"], json!([]));
    assert!(!prompt["prompt"].as_str().unwrap().contains("[S_ctx]"));
    for (_, kept, reason) in reasons(&prompt) {
        assert!(!kept, "{reason}");
    }
    app.finish().await;
}
