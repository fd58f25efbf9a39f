//! `memoir eval`, run as a user runs it.

use std::process::Command;

use serde_json::{Value, json};

use super::three_by_three;
use crate::support::library::Desk;

const QUESTIONS: [&str; 4] = [
    r#"{"question": "small plants that are new", "source": "nature.txt", "quote": "Plants that are Small and New", "answer": "small and new"}"#,
    r#"{"question": "old big animals", "quote": "Animals that are Big and Old", "answer": ["never", "Big and Old"]}"#,
    r#"{"question": "middling recent stones", "sources": ["nature.txt", "missing.txt"], "answer": "unheard of"}"#,
    r#"{"question": "quarterly revenue of the railway", "found": false}"#,
];

fn eval(arguments: &[&str], server: &str) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(["eval", "--server", server])
        .args(arguments)
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
async fn measures_questions_by_strategy() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let server = format!("http://{}", desk.app.address);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("questions.jsonl");
    std::fs::write(&file, QUESTIONS.join("\n")).unwrap();
    let file = file.to_str().unwrap();

    let strategies = ["--strategy", "wide_branch", "--strategy", "one_shot"];
    let given = [&strategies[..], &["-k", "3", "--json", file]].concat();
    let (fine, text, problem) = eval(&given, &server);
    assert!(fine, "{problem}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let runs = report["runs"].as_array().unwrap();
    let names: Vec<&Value> = runs.iter().map(|run| &run["strategy"]).collect();
    assert_eq!(names, ["search", "wide_branch", "one_shot"]);
    assert_eq!(runs[0]["answered"], Value::Null, "a search answers nothing");

    for run in &runs[1..] {
        let items = run["items"].as_array().unwrap();
        assert_eq!((items.len(), &run["failed"]), (4, &json!(0)));
        assert_eq!(items[0]["evidence_at_k"], 1.0, "{run}");
        assert_eq!(items[0]["answered"], true, "{run}");
        assert_eq!(items[2]["evidence"], 0.5, "one of two files: {run}");
        assert_eq!(items[2]["answered"], false, "{run}");
        assert_eq!(items[3]["evidence"], Value::Null, "nothing is expected");

        let sum: i64 = items
            .iter()
            .map(|item| item["calls"].as_i64().unwrap())
            .sum();
        assert_eq!(run["calls"], sum);
        assert_eq!(run["model"], "stub:gpt-4o");
    }

    let asked = desk.model.stats().requests;
    let (_, again, _) = eval(&[file], &server);
    assert!(again.starts_with("strategy  model"), "{again}");
    assert!(
        again.contains("evidence@5") && again.lines().count() == 3,
        "{again}"
    );
    assert!(desk.model.stats().requests > asked, "nothing is recalled");
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_line_that_is_wrong_and_the_problem_that_ends_it() {
    let desk = Desk::open().await;
    let server = format!("http://{}", desk.app.address);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("questions.jsonl");
    std::fs::write(&file, "{\"question\": \"Why?\"}\n{\"query\": \"Why?\"}\n").unwrap();
    let (fine, _, problem) = eval(&[file.to_str().unwrap()], &server);
    assert!(!fine && problem.contains("line 2 of"), "{problem}");

    std::fs::write(&file, "{\"question\": \"Why?\"}\n").unwrap();
    let given = ["--strategy", "guess", file.to_str().unwrap()];
    let (fine, text, problem) = eval(&given, &server);
    assert!(!fine && problem.contains("`guess`"), "{problem}");
    assert!(text.contains("guess"), "{text}");
    desk.close().await;
}
