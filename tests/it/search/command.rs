//! `memoir search`, run as a user runs it.

use serde_json::Value;

use super::Setup;
use crate::support::binary::run_on;
use crate::support::database::TestDatabase;

fn search(arguments: &[&str], url: &str) -> (bool, String, String) {
    run_on(url, "search", arguments)
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
