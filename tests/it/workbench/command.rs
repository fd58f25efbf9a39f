//! `memoir prompt`, run as a user runs it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::app::TestApp;

fn prompt(arguments: &[&str], server: &str, folder: &Path) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(["prompt", "--server", server])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap();

    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn composes_a_prompt_from_a_file_and_sends_it() {
    let app = TestApp::spawn().await;
    let server = format!("http://{}", app.address);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let path = folder.join("plan.md");
    let text = "We ship the lamp on 2 May. The old lamp stays until June.";
    let note = json!({"path": path.to_str().unwrap(), "text": text, "wait": true});
    assert_eq!(
        app.post("/v1/ingestions", &note).await.json()["state"],
        "succeeded"
    );

    let task = "When do we ship the lamp?";
    let given = [task, "--file", "plan.md", "--lock"];
    let (fine, composed, told) = prompt(&given, &server, &folder);
    assert!(fine, "{told}");
    assert!(
        composed.contains(text) && composed.trim_end().ends_with(task),
        "{composed}"
    );
    assert!(
        told.contains("tokens for local:embedded, at most 0.0000 USD"),
        "{told}"
    );

    let thread = app.post("/v1/threads", &json!({})).await.json();
    let thread = thread["id"].as_str().unwrap();
    let sent = [&given[..], &["--send", "--thread", thread]].concat();
    let (fine, reply, told) = prompt(&sent, &server, &folder);
    assert!(fine, "{told}");
    assert!(reply.contains("2 May"), "{reply}");
    assert!(told.contains("1 call, "), "{told}");
    let kept = app
        .get(&format!("/v1/threads/{thread}/messages"))
        .await
        .json();
    let contents: Vec<&Value> = kept["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["content"])
        .collect();
    assert_eq!(contents, [&json!(task), &json!(reply.trim_end())]);

    let (fine, _, problem) = prompt(&[task, "--file", "other.md", "--lock"], &server, &folder);
    assert!(
        !fine && problem.contains("other.md") && problem.contains("ingest"),
        "{problem}"
    );
    app.finish().await;
}
