//! `memoir doc`, run as a user runs it.

use serde_json::Value;

use super::Setup;
use crate::support::binary::run_on;
use crate::support::database::TestDatabase;

fn doc(arguments: &[&str], url: &str) -> (bool, String, String) {
    run_on(url, "doc", arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn prints_a_version_on_the_command_line() {
    let setup = Setup::on(TestDatabase::sqlite()).await;
    setup
        .file_at("08:00", "/plan.md", "# Plan\n\nNo line break at its end")
        .await;
    setup.file_at("09:00", "/plan.md", "# Plan, second").await;
    let server = format!("http://{}", setup.app.address);
    let url = setup.app.database.url.clone();

    // The text byte for byte, and nothing else.
    let told = doc(
        &[
            "plan.md",
            "--as-of",
            "2025-12-04T08:30:00Z",
            "--server",
            &server,
        ],
        &url,
    );

    assert_eq!(
        told,
        (
            true,
            "# Plan\n\nNo line break at its end".to_owned(),
            String::new()
        )
    );

    let (_, text, _) = doc(&["plan.md", "--strategy", "earliest", "--local"], &url);
    assert_eq!(text, "# Plan\n\nNo line break at its end");
    let (_, text, _) = doc(
        &[
            "--query",
            "the second plan",
            "--strategy",
            "score",
            "--server",
            &server,
        ],
        &url,
    );

    assert_eq!(text, "# Plan, second");

    // Notes about ignored filters go to stderr, not into the text.
    let (fine, text, notes) = doc(
        &["nobody.md", "--tag", "docs", "--relax", "--server", &server],
        &url,
    );
    assert_eq!((fine, text.as_str()), (true, "# Plan, second"));
    assert!(
        notes.contains("filename") && notes.contains("tags"),
        "{notes}"
    );

    // Otherwise nothing is printed: the output may overwrite a file.
    let (fine, text, problem) = doc(&["nobody.md", "--server", &server], &url);
    assert!(
        !fine && text.is_empty() && problem.contains("no source has this file name"),
        "{problem}"
    );

    let unknown = ["--query", "quokka", "--strategy", "score"];
    let (fine, text, problem) = doc(&[&unknown[..], &["--server", &server]].concat(), &url);
    assert!(
        !fine && text.is_empty() && problem.contains("any word of the query"),
        "{problem}"
    );
    let relaxed = [&unknown[..], &["--relax", "--server", &server]].concat();
    let (fine, text, notes) = doc(&relaxed, &url);
    assert!(fine && !text.is_empty() && notes.contains("no source contains any word"));

    let (_, json, _) = doc(
        &["plan.md", "--json", "--explain", "--server", &server],
        &url,
    );

    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&found["version"], &found["explain"]["raw_candidates"]),
        (&2.into(), &2.into())
    );

    let (fine, help, _) = doc(&["--help"], &url);
    assert!(
        fine && help.contains("Examples:") && help.contains("memoir doc plan.md"),
        "{help}"
    );

    let (fine, _, problem) = doc(
        &["plan.md", "--strategy", "sideways", "--server", &server],
        &url,
    );

    assert!(!fine && problem.contains("strategy"), "{problem}");
    setup.app.finish().await;
}
