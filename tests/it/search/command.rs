//! `memoir search`, run as a user runs it.

use std::process::Command;

use serde_json::Value;

use super::Setup;
use crate::support::database::TestDatabase;

fn search(arguments: &[&str], url: &str) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .arg("search")
        .args(arguments)
        .env_clear()
        .env("DATABASE_URL", url)
        .env("MEMOIR__TELEMETRY__LOG_LEVEL", "error")
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
async fn searches_on_the_command_line() {
    let setup = Setup::on(TestDatabase::sqlite(), &[]).await;
    setup
        .bring("/light.md", "The lighthouse was built\nin 1843.")
        .await;
    setup
        .bring("/bread.md", "Knead the dough for ten minutes.")
        .await;
    let server = format!("http://{}", setup.app.address);
    let url = setup.app.database.url.clone();

    let (fine, told, problem) = search(
        &["lighthouse", "--server", &server, "--type", "keyword"],
        &url,
    );

    assert!(fine, "{problem}");
    assert!(
        told.starts_with("1. ") && told.contains("/light.md") && told.contains("built in 1843."),
        "{told}"
    );

    assert!(
        !told.contains("/bread.md") && told.contains("1 found in"),
        "{told}"
    );

    let (_, json, _) = search(
        &[
            "dough", "--json", "-k", "1", "--scope", "sources", "--server", &server,
        ],
        &url,
    );

    let result: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["items"][0]["path"], "/bread.md", "{json}");
    let (fine, told, problem) = search(&["lighthouse", "--local", "--tag", "none"], &url);
    assert!(fine && told.contains("No results."), "{told}{problem}");

    let (fine, told, problem) = search(&["zzzqqqxxx", "--server", &server], &url);
    assert!(fine && told.contains("No results."), "{told}{problem}");

    let (fine, _, problem) = search(&["x", "--type", "sideways", "--server", &server], &url);
    assert!(!fine && problem.contains("type"), "{problem}");
    setup.app.finish().await;
}
