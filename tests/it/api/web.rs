use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reqwest::Method;

use crate::support::app::{TestApp, send};

/// Of all files together, and of those that the first view loads.
const MAX_BYTES: usize = 384 * 1024;
const MAX_FIRST_BYTES: usize = 120 * 1024;
const MAX_LINES: usize = 400;

/// The files that the page's files refer to: links, imports, the sample.
fn named_files(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for prefix in ["\"assets/", "\"./"] {
        for rest in text.split(prefix).skip(1) {
            names.insert(rest.split('"').next().unwrap().to_owned());
        }
    }

    names.remove(""); // a link to the page itself
    names
}

/// The files that a page loads or may load, with their sizes.
async fn files_of(app: &TestApp, page: &str) -> BTreeMap<String, usize> {
    let mut open: Vec<String> = named_files(page).into_iter().collect();
    let mut found = BTreeMap::new();
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }

        let file = app.get(&format!("/assets/{name}")).await;
        assert_eq!(file.status, 200, "{name}");
        open.extend(named_files(&file.text));
        found.insert(name, file.text.len());
    }

    found
}

#[tokio::test]
async fn the_binary_serves_the_complete_page() {
    let app = TestApp::spawn().await;
    let page = app.get("/").await;
    assert_eq!(
        (page.status.as_u16(), page.header("content-type")),
        (200, "text/html; charset=utf-8")
    );

    let files = files_of(&app, &page.text).await;
    let first = named_files(&page.text);
    let first_bytes = page.text.len() + first.iter().map(|name| files[name]).sum::<usize>();
    let bytes = page.text.len() + files.values().sum::<usize>();

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/assets");
    let on_disk: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();

    // The reference of the API is a page of its own.
    let docs = app.get("/docs").await;
    let mut seen: BTreeSet<String> = files.into_keys().collect();
    seen.extend(files_of(&app, &docs.text).await.into_keys());
    seen.extend(["index.html", "docs.html"].map(str::to_owned));
    assert_eq!(
        seen, on_disk,
        "every file is used, and every file that is used is served"
    );

    assert!(bytes < MAX_BYTES, "the page weighs {bytes} bytes");
    assert!(
        first_bytes < MAX_FIRST_BYTES,
        "the first view weighs {first_bytes} bytes"
    );
    assert_eq!(app.get("/assets/nothing.js").await.status, 404);
    assert_eq!(app.get("/assets/..%2Fmod.rs").await.status, 404);
}

#[tokio::test]
async fn the_page_loads_nothing_from_other_hosts_and_runs_no_inline_script() {
    let app = TestApp::spawn().await;
    let page = app.get("/").await;
    let policy = page.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );

    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/assets");

    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(
                !text.contains(way),
                "{} has {way}: a text could be read as HTML",
                path.display()
            );
        }

        if path
            .extension()
            .is_some_and(|extension| extension != "json")
        {
            assert!(
                text.lines().count() <= MAX_LINES,
                "{} has more than one job",
                path.display()
            );
        }

        if path.extension().is_some_and(|extension| extension == "js") {
            assert!(
                text.starts_with("// "),
                "{} does not say what it owns",
                path.display()
            );
        }
    }
}

#[tokio::test]
async fn an_unchanged_file_is_not_sent_again() {
    let app = TestApp::spawn().await;
    let first = app.get("/assets/app.js").await;
    assert_eq!(first.header("cache-control"), "no-cache");

    for etag in [
        first.header("etag").to_owned(),
        format!("W/{}", first.header("etag")),
    ] {
        let again = send(
            app.request(Method::GET, "/assets/app.js")
                .header("if-none-match", etag),
        )
        .await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    }

    let other = send(
        app.request(Method::GET, "/assets/app.js")
            .header("if-none-match", "\"other\""),
    )
    .await;

    assert_eq!(other.status, 200);
}
