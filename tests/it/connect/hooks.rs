//! `memoir hook`: what an agent says and hears is stored once and recalled later; a hook never disturbs the agent.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::call;
use crate::support::app::TestApp;

/// Runs a hook with an event, as an agent does.
async fn hook(server: &str, home: &Path, arguments: &[&str], event: &str) -> Output {
    run(server, home, arguments, event, None).await
}

async fn run(
    server: &str,
    home: &Path,
    arguments: &[&str],
    event: &str,
    patience_ms: Option<&str>,
) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memoir"));
    command
        .arg("hook")
        .args(arguments)
        .args(["--server", server])
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.envs(patience_ms.map(|ms| ("MEMOIR_TESTING_HOOK_PATIENCE_MS", ms)));
    let event = event.to_owned();
    #[expect(clippy::disallowed_methods, reason = "awaited at once")]
    let ran = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // A hook that fails at once reads nothing.
        let _ = input.write_all(event.as_bytes());
        drop(input);
        child.wait_with_output().unwrap()
    });
    ran.await.unwrap()
}

fn event(session: &str, field: &str, text: &str) -> String {
    json!({"session_id": session, "cwd": "/tmp", "transcript_path": "/nowhere.jsonl", "unknown": {"x": 1}, field: text})
        .to_string()
}

fn log(home: &Path) -> String {
    std::fs::read_to_string(home.join(".local/state/memoir/hooks.log")).unwrap_or_default()
}

/// The messages of a session.
async fn messages(app: &TestApp, name: &str) -> Vec<Value> {
    let path = format!("/v1/threads?external_id={name}");
    let threads = app.get(&path).await.json();
    let id = threads["items"][0]["id"].as_str().unwrap();
    let path = format!("/v1/threads/{id}/messages?limit=100");
    let listed = app.get(&path).await.json();
    listed["items"].as_array().unwrap().clone()
}

/// Runs a hook that does not fail, and has more time than the 300 ms that a debug build may miss.
async fn surely(server: &str, home: &Path, arguments: &[&str], event: &str) -> Output {
    let before = log(home);
    let output = run(server, home, arguments, event, Some("20000")).await;
    assert!(output.status.success());
    assert_eq!(log(home), before, "the hook failed");
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_early_is_recalled_late_and_stored_once() {
    let app = TestApp::spawn().await;
    let home = tempfile::tempdir().unwrap();
    let server = format!("http://{}", app.address);
    let matters = [
        (
            "The staging server is called heron",
            "Noted: heron is the staging server.",
        ),
        (
            "We release on the second Tuesday of a month",
            "I will remember the release day.",
        ),
        ("Ms. Abernathy approves travel costs", "Understood."),
    ];
    let mut recalled = String::new();
    for turn in 0..20 {
        let (said, replied) = match matters.get(turn) {
            Some(matter) => (matter.0.to_owned(), matter.1.to_owned()),
            None if turn == 19 => (
                "What is the staging server called?".to_owned(),
                "It is heron.".to_owned(),
            ),
            None => (
                format!("Refactor module {turn} of the parser"),
                format!("Module {turn} is refactored."),
            ),
        };
        let asked = surely(
            &server,
            home.path(),
            &["recall"],
            &event("s-1", "prompt", &said),
        )
        .await;
        recalled = String::from_utf8(asked.stdout).unwrap();
        let stored = event("s-1", "last_assistant_message", &replied);
        let stored = surely(&server, home.path(), &["store"], &stored).await;
        assert!(stored.stdout.is_empty(), "{stored:?}");
    }

    let output: Value = serde_json::from_str(&recalled).unwrap();
    let specific = &output["hookSpecificOutput"];
    assert_eq!(specific["hookEventName"], "UserPromptSubmit");
    let context = specific["additionalContext"].as_str().unwrap();
    assert!(context.contains("called heron"), "{context}");
    assert!(context.chars().count() <= 8000);

    // The agent's model asks by itself, too.
    let known = call(&app, "recall", json!({"query": "When do we release?"})).await;
    assert!(
        known["text"].as_str().unwrap().contains("second Tuesday"),
        "{known}"
    );

    let listed = messages(&app, "claude-code:s-1").await;
    assert_eq!(listed.len(), 40);
    for message in listed {
        let stored = message["content"].as_str().unwrap();
        assert!(!stored.contains("From earlier conversations"), "{stored}");
        assert!(!stored.contains("- [user,"), "{stored}");
    }

    // Another session, and another agent, of the same user know it too.
    let asked = event("s-2", "prompt", "Which staging server do we have?");
    let asked = surely(
        &server,
        home.path(),
        &["recall", "--agent", "codex"],
        &asked,
    )
    .await;
    assert!(
        String::from_utf8(asked.stdout)
            .unwrap()
            .contains("called heron")
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_replaced_before_they_are_stored() {
    let app = TestApp::spawn().await;
    let home = tempfile::tempdir().unwrap();
    let server = format!("http://{}", app.address);
    let key = "ghp_Zk3vQ9xT7bN2mW8rY4cL6dF1aB5eG0hJ2kM";
    let said = event("s", "prompt", &format!("Use {key} to push"));
    surely(&server, home.path(), &["recall"], &said).await;
    let replied = event(
        "s",
        "last_assistant_message",
        &format!("Pushed with {key}."),
    );
    surely(&server, home.path(), &["store"], &replied).await;
    let listed = messages(&app, "claude-code:s").await;
    let contents: Vec<&str> = listed
        .iter()
        .map(|one| one["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents.len(), 2, "{contents:?}");
    for content in contents {
        assert!(
            content.contains("[REDACTED]") && !content.contains(key),
            "{content}"
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_is_silent_and_writes_a_line_into_the_log() {
    let app = TestApp::spawn().await;
    let home = tempfile::tempdir().unwrap();
    let server = format!("http://{}", app.address);
    // Accepts connections, and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let prompt = event("s", "prompt", "Hello");
    let cases: [(&str, &[&str], &str); 8] = [
        ("http://127.0.0.1:9", &["recall"], &prompt),
        (&silent, &["recall"], &prompt),
        (
            &silent,
            &["store"],
            &event("s", "last_assistant_message", "Bye"),
        ),
        (&server, &["recall"], "no event"),
        (&server, &["recall"], ""),
        (&server, &["recall"], "{\"prompt\": \"without a session\"}"),
        (&server, &["recall", "--space", "Not A Space"], &prompt),
        (&server, &["recall", "--user", &"u".repeat(500)], &prompt),
    ];
    for (number, (server, arguments, event)) in cases.into_iter().enumerate() {
        let output = hook(server, home.path(), arguments, event).await;
        assert_eq!(output.status.code(), Some(0), "{number}: {output:?}");
        assert!(
            output.stdout.is_empty() && output.stderr.is_empty(),
            "{number}: {output:?}"
        );
        assert_eq!(
            log(home.path()).lines().count(),
            number + 1,
            "{}",
            log(home.path())
        );
    }

    // An agent takes the exit code 2 for a refusal of the prompt.
    let odd = ["recall", "--colour", "red"];
    let unknown = hook(&server, home.path(), &odd, &prompt).await;
    assert_eq!(unknown.status.code(), Some(0));
    assert!(unknown.stdout.is_empty() && unknown.stderr.is_empty());
    assert!(log(home.path()).contains("--colour"));
    let nothing = hook(
        &server,
        home.path(),
        &["recall"],
        &event("s", "prompt", "  "),
    )
    .await;
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    app.finish().await;
}

/// An agent that keeps the input open must not wait for as long.
#[test]
fn a_hook_does_not_wait_for_the_end_of_its_input() {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(["hook", "recall", "--server", "http://127.0.0.1:9"])
        .env_clear()
        .env("HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    // Without a deadline it would never end, and the test neither.
    assert!(child.wait().unwrap().success());
    drop(input);
    assert_eq!(log(home.path()).lines().count(), 1);
}
