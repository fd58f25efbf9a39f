//! `memoir ask`, run as a user runs it.

use serde_json::Value;

use super::three_by_three;
use crate::support::binary::run_on;
use crate::support::library::Desk;

fn ask(arguments: &[&str], url: &str) -> (bool, String, String) {
    run_on(url, "ask", arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_a_query_on_the_command_line() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let server = format!("http://{}", desk.app.address);
    let url = desk.app.database.url.clone();

    let (fine, answer, problem) = ask(&["small plants that are new", "--server", &server], &url);
    assert!(fine, "{problem}");
    let tree = "└─ Plants  #1\n   └─ Small  #1\n      └─ New  #1, 1 chunk\n";
    assert!(
        answer.contains("Plants that are Small and New.") && answer.contains(tree),
        "{answer}"
    );

    assert!(answer.contains("\n4 calls, "), "{answer}");

    let stream = ["small plants that are new", "--stream", "--server", &server];
    let (_, streamed, problem) = ask(&stream, &url);
    let without_cost = |text: &str| text.split("\n4 calls, ").next().unwrap().to_owned();
    assert_eq!(without_cost(&streamed), without_cost(&answer), "{problem}");

    let wide = [
        "small plants",
        "--strategy",
        "wide_branch",
        "--budget",
        "2000",
        "--server",
        &server,
        "--json",
    ];

    let (_, json, _) = ask(&wide, &url);
    let result: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (
            &result["strategy"],
            &result["parameters"]["max_token_budget"]
        ),
        (&"wide_branch".into(), &2000.into())
    );

    // In its own process, with the embedded model.
    let (fine, answer, problem) = ask(
        &["Which plants are small and new?", "--local", "--retrieve"],
        &url,
    );

    assert!(fine, "{problem}");
    assert!(
        answer.contains("Plants") && answer.contains("chunk"),
        "{answer}"
    );

    let (fine, _, problem) = ask(
        &["nothing here", "--server", &server, "--space", "empty"],
        &url,
    );

    assert!(
        !fine && problem.contains("no chunks were found"),
        "{problem}"
    );

    let (fine, _, problem) = ask(&["x", "--strategy", "sideways", "--server", &server], &url);
    assert!(!fine && problem.contains("strategy"), "{problem}");
    let (fine, _, problem) = ask(&["x", "--server", "http://127.0.0.1:9"], &url);
    assert!(!fine && problem.contains("--local"), "{problem}");

    desk.close().await;
}
