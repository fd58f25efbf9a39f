//! `memoir ingest`, run as a user runs it.

use std::path::Path;
use std::process::{Command, Stdio};

use memoir::scripted_model::{Fault, Step};
use serde_json::{Value, json};

use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count};

const FLAT: &[(&str, &str)] = &[("TAXONOMY__HIERARCHY_DEPTH", "1")];

/// Exit code, stdout, stderr.
fn ingest(
    arguments: &[&str],
    folder: &Path,
    environment: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .arg("ingest")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("MEMOIR__TELEMETRY__LOG_LEVEL", "error")
        .env("MEMOIR__TAXONOMY__HIERARCHY_DEPTH", "1")
        .envs(environment.iter().copied())
        .output()
        .unwrap();

    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Two text files, one of them in a subfolder, and two files that are not ingested.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("more")).unwrap();
    for (name, text) in [
        ("a.md", "category1: Ash\nThe ash tree."),
        ("more/b.txt", "category1: Birch\nThe birch tree."),
        (".hidden.md", "Not to be seen."),
        ("c.pdf", "%PDF"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }

    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn ingests_files_from_the_command_line() {
    let service = Ingest::with(FLAT).await;
    let server = format!("http://{}", service.app.address);
    let folder = folder();
    let run = |arguments: &[&str]| {
        ingest(
            &[arguments, &["--server", &server]].concat(),
            folder.path(),
            &[],
        )
    };

    // A folder with its subfolders.
    let (code, told, problem) = run(&[".", "--tag", "trees"]);
    assert_eq!(code, Some(0), "{problem}");
    assert_eq!(
        told.lines()
            .filter(|line| line.contains("version 1, 1 chunk, 1 new category,"))
            .count(),
        2,
        "{told}"
    );

    let sources = service.list("/v1/sources?tag=trees").await;
    let mut names: Vec<&str> = sources
        .iter()
        .map(|source| source["filename"].as_str().unwrap())
        .collect();

    names.sort_unstable();
    assert_eq!(names, ["a.md", "b.txt"]);
    assert!(
        sources
            .iter()
            .all(|source| source["path"].as_str().unwrap().starts_with('/'))
    );

    // A pattern, and the same file again: nothing has changed, so no model is called.
    service.model.clear();
    let (code, told, _) = run(&["**/*.txt", "a.md"]);
    assert_eq!(code, Some(0));
    assert_eq!(told.matches("unchanged, version 1").count(), 2, "{told}");
    assert_eq!(service.model.stats().requests, 0);
    let (code, told, _) = run(&["a.md", "--force"]);

    assert!(
        code == Some(0) && told.contains("version 2, 1 chunk, 0 new categories"),
        "{told}"
    );

    // One line of JSON per file, even for a file that fails.
    std::fs::write(folder.path().join("bad.txt"), b"\xff\xfe").unwrap();
    let (code, told, problem) = run(&["a.md", "bad.txt", "--json"]);
    assert_eq!(code, Some(1));
    assert!(problem.contains("1 of 2 files were not filed"), "{problem}");
    let mut lines: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();

    lines.sort_by_key(|line| line["path"].to_string());
    assert_eq!(
        (&lines[0]["state"], &lines[0]["result"]["version"]),
        (&json!("succeeded"), &json!(2)),
        "{told}"
    );

    assert_eq!(lines[1]["state"], "failed");
    assert!(
        lines[1]["error"]["detail"]
            .as_str()
            .unwrap()
            .contains("UTF-8"),
        "{told}"
    );

    // The command does not wait for a provider that rejects its key; it prints the reason and the
    // remedy.
    let status = Fault::Status {
        status: 401,
        headers: std::collections::BTreeMap::new(),
        body: String::new(),
    };

    service
        .model
        .always(Step::new(status).only_stage("classify"));
    std::fs::write(folder.path().join("new.md"), "category1: Cedar\nThe cedar.").unwrap();
    let (code, told, problem) = run(&["new.md"]);
    assert_eq!((code, told.as_str()), (Some(1), ""));
    assert!(
        problem.contains("rejected the API key") && problem.contains("Set a key for"),
        "{problem}"
    );

    assert!(problem.contains("stays in the queue"), "{problem}");
    service.app.finish().await;
}

/// A full queue asks for a pause of ten seconds.
#[tokio::test(flavor = "multi_thread")]
async fn waits_for_room_in_the_queue() {
    let settings = [FLAT, &[("JOBS__MAX_QUEUED", "1"), ("JOBS__WORKERS", "1")]].concat();
    let service = Ingest::with(&settings).await;
    let server = format!("http://{}", service.app.address);
    let slow = Fault::Delay { ms: 500 };
    service.model.always(Step::new(slow).only_stage("classify"));
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.md", "b.md", "c.md", "d.md"] {
        let text = format!("category1: Ash\nThe {name} tree.");
        std::fs::write(folder.path().join(name), text).unwrap();
    }

    let (code, told, problem) = ingest(&[".", "--server", &server], folder.path(), &[]);
    assert_eq!(
        (code, told.lines().count()),
        (Some(0), 4),
        "{told}{problem}"
    );
    assert!(problem.contains("waiting for the service"), "{problem}");
    assert_eq!(service.list("/v1/sources").await.len(), 4);
    service.app.finish().await;
}

#[test]
fn reports_what_cannot_be_ingested() {
    let folder = folder();
    for (arguments, wanted) in [
        (&["c.pdf"][..], "the file type of"),
        (&["nothing.md"], "there is no text file nothing.md"),
        (&["*.yml"], "there is no text file *.yml"),
        (&["a.md", "--server", "http://127.0.0.1:9"], "--local"),
    ] {
        let (code, told, problem) = ingest(arguments, folder.path(), &[]);
        assert_eq!(
            (code, told.as_str()),
            (Some(1), ""),
            "{arguments:?} {problem}"
        );
        assert!(problem.contains(wanted), "{arguments:?} {problem}");
    }

    let (code, ..) = ingest(&[], folder.path(), &[]);
    assert_eq!(code, Some(2), "a file must be named");
    let (code, _, problem) = ingest(
        &["a.md", "--local"],
        folder.path(),
        &[("MEMOIR__INGESTION__BATCH_SIZE", "0")],
    );

    assert_eq!(code, Some(2), "{problem}");
    assert!(problem.contains("ingestion.batch_size"), "{problem}");
}

#[test]
fn says_once_where_the_hierarchy_is_full() {
    let (folder, database) = (folder(), TestDatabase::sqlite());
    let (code, told, said) = ingest(
        &[".", "--local"],
        folder.path(),
        &[
            ("DATABASE_URL", database.url.as_str()),
            ("MEMOIR__TAXONOMY__MAX_CHILDREN", "1"),
        ],
    );

    assert_eq!((code, told.lines().count()), (Some(0), 2), "{told} {said}");
    let warning = "warning: level 1 has reached its limit of 1 categories";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
}

#[test]
fn ingests_files_without_a_service() {
    let (folder, database) = (folder(), TestDatabase::sqlite());
    let here = [("DATABASE_URL", database.url.as_str())];
    let (code, told, problem) = ingest(
        &[".", "--local", "--json", "--space", "trees"],
        folder.path(),
        &here,
    );

    assert_eq!(code, Some(0), "{problem}");
    let lines: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();

    assert_eq!(lines.len(), 2);
    assert!(
        lines
            .iter()
            .all(|line| line["state"] == "succeeded" && line["result"]["version"] == 1),
        "{told}"
    );

    let (code, told, _) = ingest(
        &["a.md", "--local", "--space", "trees"],
        folder.path(),
        &here,
    );

    assert!(
        code == Some(0) && told.contains("unchanged, version 1"),
        "{told}"
    );
}

/// `-` reads the output of another program.
#[test]
fn ingests_standard_input_as_a_source() {
    let (folder, database) = (folder(), TestDatabase::sqlite());
    let run = |arguments: &[&str], piped: &str| {
        use std::io::Write as _;

        let mut child = Command::new(env!("CARGO_BIN_EXE_memoir"))
            .args([&["ingest"], arguments, &["--local", "--json"]].concat())
            .current_dir(folder.path())
            .env_clear()
            .envs([
                ("DATABASE_URL", database.url.as_str()),
                ("MEMOIR__TELEMETRY__LOG_LEVEL", "error"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();

        // The command may fail and stop reading before it has read everything.
        let written = child.stdin.take().unwrap().write_all(piped.as_bytes());
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        assert!(written.as_ref().err().is_none_or(gone), "{written:?}");
        let output = child.wait_with_output().unwrap();

        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };

    let (code, told, problem) = run(&["-", "a.md"], "The elm tree.");
    assert_eq!(code, Some(0), "{problem}");
    assert_eq!(told.lines().count(), 2, "{told}");
    let (code, told, problem) = run(&["-", "--title", "Elms"], "The elm tree.");
    assert_eq!(code, Some(0), "{problem}");
    let line: Value = serde_json::from_str(&told).unwrap();

    assert_eq!(
        (&line["path"], &line["state"], &line["result"]["version"]),
        (&json!("-"), &json!("succeeded"), &json!(1))
    );

    let listed = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(["list", "--local"])
        .env_clear()
        .envs([
            ("DATABASE_URL", database.url.as_str()),
            ("MEMOIR__TELEMETRY__LOG_LEVEL", "error"),
        ])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("/Elms.txt"), "{listed}");
    assert!(listed.contains("/untitled-1.txt"), "{listed}");

    for (arguments, piped, wanted) in [
        (&["-"][..], " ", r#""code":"invalid_request""#),
        (
            &["-", "a.md", "--title", "Two"],
            "The elm tree.",
            "--title requires a single source",
        ),
    ] {
        let (code, told, problem) = run(arguments, piped);
        assert!(
            code != Some(0) && (told.clone() + &problem).contains(wanted),
            "{told}{problem}"
        );
    }
}

/// Named pipes, circular links, and paths with detours.
#[tokio::test(flavor = "multi_thread")]
async fn ingests_every_file_once_and_skips_named_pipes() {
    let service = Ingest::with(FLAT).await;
    let server = format!("http://{}", service.app.address);
    let folder = folder();
    let pipe = folder.path().join("pipe.txt");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );

    std::os::unix::fs::symlink("..", folder.path().join("more/up")).unwrap();
    std::os::unix::fs::symlink("a.md", folder.path().join("0-latest.md")).unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "A secret of another folder.").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("more/secret.txt")).unwrap();
    let run = |arguments: &[&str]| {
        ingest(
            &[arguments, &["--server", &server]].concat(),
            folder.path(),
            &[],
        )
    };

    for arguments in [
        &["."][..],
        &["**/*.md", "**/*.txt"],
        &["**"],
        &["a.md", "more/../a.md", "more/b.txt"],
    ] {
        let (code, told, problem) = run(arguments);
        assert_eq!(
            (code, told.lines().count()),
            (Some(0), 2),
            "{arguments:?}: {told} {problem}"
        );
    }

    let sources = service.list("/v1/sources").await;
    let mut names: Vec<&str> = sources
        .iter()
        .map(|source| source["filename"].as_str().unwrap())
        .collect();

    names.sort_unstable();
    assert_eq!(
        names,
        ["a.md", "b.txt"],
        "a file itself rather than a link to it"
    );

    let through = |source: &Value| source["path"].as_str().unwrap().contains("/up/");
    assert!(
        !sources.iter().any(through),
        "the straight way: {sources:?}"
    );

    let (code, _, problem) = run(&["pipe.txt"]);
    assert!(
        code == Some(1) && problem.contains("not a regular file"),
        "{problem}"
    );
}

/// Files are sent in batches; a rejected file does not hold up the others, and a batch that does
/// not fit into the queue is split.
#[tokio::test(flavor = "multi_thread")]
async fn ingests_a_folder_of_many_files_in_batches() {
    for (most_queued, expected) in [("10000", 1..2), ("10", 3..25)] {
        let settings = [FLAT[0], ("JOBS__MAX_QUEUED", most_queued)];
        let service = Ingest::with(&settings).await;
        let server = format!("http://{}", service.app.address);
        let folder = tempfile::tempdir().unwrap();
        for number in 0..30 {
            let text = format!("category1: Ash\nThe ash tree number {number}.");
            std::fs::write(folder.path().join(format!("{number}.md")), text).unwrap();
        }

        std::fs::write(folder.path().join("bad.txt"), b"\xff\xfe").unwrap();
        std::fs::write(folder.path().join("empty.md"), " ").unwrap();
        let run = |arguments: &[&str]| {
            ingest(
                &[&[".", "--server", &server], arguments].concat(),
                folder.path(),
                &[],
            )
        };

        let (code, told, problem) = run(&[]);
        assert_eq!(code, Some(1));
        assert_eq!(told.matches("version 1, 1 chunk,").count(), 30, "{told}");
        assert!(
            problem.contains("2 of 32 files were not filed"),
            "{problem}"
        );
        assert!(problem.contains("bad.txt: must be UTF-8 text"), "{problem}");
        assert!(
            problem.contains("empty.md: text: must not be empty"),
            "{problem}"
        );

        // The jobs of one batch have the same time.
        let batches = "SELECT COUNT(DISTINCT run_after) FROM jobs";
        let batches = count(&service.app.database, batches).await;
        assert!(expected.contains(&batches), "{batches} batches");

        let (code, told, problem) = run(&["--json"]);
        assert_eq!((code, told.lines().count()), (Some(1), 32), "{problem}");
        let lines = told
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let (rejected, filed): (Vec<_>, Vec<_>) = lines.partition(|line| line["state"] == "failed");
        // Nothing has changed since the first run.
        assert!(filed.iter().all(|line| line["result"]["unchanged"] == true));
        assert!(filed.iter().all(|line| line["result"]["version"] == 1));
        assert_eq!((filed.len(), rejected.len()), (30, 2));
        let empty = rejected
            .iter()
            .find(|line| line["path"].as_str().unwrap().ends_with("empty.md"))
            .unwrap();
        assert_eq!(empty["error"]["errors"][0]["field"], "text", "{empty}");
        service.app.finish().await;
    }
}
