//! The commands, as a user runs them.

use crate::support::binary::{Binary, free_address, text};
use crate::support::database::TestDatabase;

#[test]
fn help_has_examples_on_every_command() {
    let memoir = Binary::new();
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["migrate", "--help"],
        &["openapi", "--help"],
        &["config", "print", "--help"],
        &["config", "check", "--help"],
        &["healthcheck", "--help"],
        &["doctor", "--help"],
        &["list", "--help"],
        &["tree", "--help"],
        &["categories", "--help"],
        &["show", "--help"],
        &["rm", "--help"],
    ] {
        let output = memoir.run(arguments);
        assert!(output.status.success());
        assert!(
            text(&output.stdout).contains("Examples:\n  "),
            "{arguments:?}: {}",
            text(&output.stdout)
        );
    }

    assert_eq!(
        memoir.run(&["--version"]).stdout,
        format!("memoir {}\n", env!("CARGO_PKG_VERSION")).into_bytes()
    );

    assert_eq!(memoir.run(&["dance"]).status.code(), Some(2));
}

#[test]
fn configuration_errors_exit_with_2_and_are_all_reported() {
    let memoir = Binary::new()
        .env("MEMOIR__SERVER__LISTEN", "nonsense")
        .env("MEMOIR__SERVER__LISTENN", "127.0.0.1:1")
        .env("DATABASE_URL", "oracle://me:s3cret@db/x");
    for arguments in [
        &[][..],
        &["serve"],
        &["migrate"],
        &["config", "check"],
        &["config", "print"],
        &["doctor"],
    ] {
        let output = memoir.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "talk belongs on stderr");
        let said = text(&output.stderr);
        for part in [
            "ConfigurationError: 3 settings",
            "server.listen = \"nonsense\"",
            "did you mean server.listen?",
            "oracle://me:***@db/x",
            "sqlite://FILE",
            "example:",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("s3cret"));
    }
}

#[test]
fn the_effective_settings_can_be_printed_and_used() {
    let memoir = Binary::new()
        .env("DATABASE_URL", "postgres://me:s3cret@db/x")
        .env("MEMOIR__AUTH__KEYS", r#"[{"key":"s3cret2"}]"#);
    let printed = text(&memoir.run(&["config", "print"]).stdout);
    assert!(
        printed.contains("postgres://me:***@db/x") && !printed.contains("s3cret"),
        "{printed}"
    );

    let defaults = memoir.run(&["config", "print", "--defaults"]).stdout;
    std::fs::write(memoir.folder.path().join("mine.toml"), &defaults).unwrap();
    assert!(
        memoir
            .run(&["--config", "mine.toml", "config", "check"])
            .status
            .success()
    );

    let named = Binary::new()
        .env("MEMOIR_CONFIG", "missing.toml")
        .run(&["config", "check"]);
    assert_eq!(named.status.code(), Some(2));
    assert!(text(&named.stderr).contains("missing.toml"));
}

#[test]
fn the_service_starts_without_configuration() {
    let memoir = Binary::new();
    let running = memoir.serve();
    assert!(memoir.folder.path().join("memoir.db").exists());
    let ready = memoir.run(&["healthcheck", "--address", &running.address.to_string()]);
    assert!(ready.status.success() && text(&ready.stderr).contains("ready"));
    assert!(
        memoir
            .log()
            .contains(&format!("memoir is ready on http://{}", running.address)),
        "{}",
        memoir.log()
    );

    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    let log = std::fs::metadata(memoir.folder.path().join("memoir.db-wal"));
    assert!(
        log.map_or(true, |log| log.len() == 0),
        "the log was folded into the file"
    );

    let gone = memoir.run(&["healthcheck", "--address", &free_address().to_string()]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("no response"));
}

#[test]
fn a_kill_loses_no_acknowledged_write() {
    let memoir = Binary::new();
    let running = memoir.serve();
    let client = reqwest_blocking(&running.address.to_string(), "/kept.md");
    assert!(client.starts_with("HTTP/1.1 201"), "{client}");
    assert_eq!(running.signal_and_wait("KILL"), None);
    let running = memoir.serve();
    let again = reqwest_blocking(&running.address.to_string(), "/kept.md");

    assert!(again.starts_with("HTTP/1.1 409"), "{again}");
}

fn reqwest_blocking(address: &str, path: &str) -> String {
    use std::io::{Read as _, Write as _};

    let body = format!(r#"{{"path":"{path}"}}"#);
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );

    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_port_in_use_is_reported_and_exits_with_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Binary::new()
        .env("MEMOIR__SERVER__LISTEN", &address)
        .run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));

    assert!(
        text(&output.stderr).contains(&format!("cannot listen on {address}")),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_unreachable_database_exits_with_2_and_a_remedy() {
    let address = free_address();
    for (url, part) in [
        (
            format!("postgres://me:s3cret@{address}/x"),
            address.to_string(),
        ),
        (
            format!("mysql://me:s3cret@{address}/x"),
            address.to_string(),
        ),
        (
            "sqlite:///nowhere/at/all/memoir.db".to_owned(),
            "/nowhere/at/all".to_owned(),
        ),
    ] {
        let memoir = Binary::new()
            .env("DATABASE_URL", &url)
            .env("MEMOIR__DATABASE__ACQUIRE_TIMEOUT", "1");
        for command in ["serve", "migrate"] {
            let output = memoir.run(&[command]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{url}: {said}");
            let hint = if url.starts_with("sqlite") {
                "the file's folder exists"
            } else {
                "the database is running"
            };

            assert!(
                said.contains(&part) && said.contains(hint) && !said.contains("s3cret"),
                "{said}"
            );
        }
    }
}

#[tokio::test]
async fn migrate_and_doctor_report_the_state_of_the_schema() {
    for database in TestDatabase::each().await {
        let memoir = Binary::new().env("DATABASE_URL", &database.url);
        let migrated = memoir.run(&["migrate"]);
        assert!(migrated.status.success(), "{}", text(&migrated.stderr));
        assert!(text(&migrated.stdout).starts_with("applied 0001_service\n"));
        let doctor = memoir.run(&["doctor"]);

        assert!(
            doctor.status.success() && text(&doctor.stdout).contains("ok    schema"),
            "{}",
            text(&doctor.stdout)
        );

        database.execute("DROP TABLE job_batches").await;
        let doctor = memoir.run(&["doctor"]);
        assert_eq!(doctor.status.code(), Some(1));
        assert!(
            text(&doctor.stdout).contains("FAIL  schema: table job_batches is missing"),
            "{}",
            text(&doctor.stdout)
        );

        database
            .execute("INSERT INTO schema_migrations VALUES (9999, '9999_future', 'x')")
            .await;
        let refused = memoir.run(&["serve"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused.stderr).contains("newer than this memoir supports"),
            "{}",
            text(&refused.stderr)
        );
    }
}

#[test]
fn openapi_is_printed_and_written() {
    let memoir = Binary::new();
    for (arguments, version) in [
        (&["openapi"][..], "3.1.0"),
        (&["openapi", "--spec", "3.0"], "3.0.3"),
    ] {
        let printed: serde_json::Value =
            serde_json::from_slice(&memoir.run(arguments).stdout).unwrap();
        assert_eq!(printed["openapi"], version);
    }

    assert!(memoir.run(&["openapi", "--write", "."]).status.success());
    assert!(memoir.folder.path().join("openapi-3.0.json").exists());
}

#[test]
fn output_that_cannot_be_written_exits_with_1() {
    let memoir = Binary::new().env("MEMOIR__LLM__NOTICE_LOCAL_MODELS", "false");
    let file = memoir.folder.path().join("cape.md");
    std::fs::write(&file, "The lighthouse was built in 1843.").unwrap();
    let ingested = memoir.run(&["ingest", "--local", file.to_str().unwrap()]);
    assert!(ingested.status.success(), "{}", text(&ingested.stderr));

    let running = memoir.serve();
    let url = format!("http://{}", running.address);
    for arguments in [
        &["doc", "cape.md", "--server", &url][..],
        &["list", "--server", &url],
        &["tree", "--server", &url],
        &["search", "lighthouse", "--server", &url],
        &["ask", "When was the lighthouse built?", "--server", &url],
        &["context", "lighthouse", "--user", "ann", "--server", &url],
        &["prompt", "Describe the lighthouse", "--server", &url],
        &["openapi"],
        &["config", "print"],
        &["doctor"],
        &["--help"],
    ] {
        assert!(memoir.run(arguments).status.success(), "{arguments:?}");
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = memoir.run_printing_to(arguments, full);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains("cannot write to standard output: No space left"),
            "{arguments:?}: {said}"
        );

        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let output = memoir.run_printing_to(arguments, closed);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!text(&output.stderr).contains("standard output"));
    }
}

#[test]
fn lists_shows_and_deletes_what_is_stored() {
    let memoir = Binary::new();
    let folder = memoir.folder.path().join("notes");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("cape.md"), "The lighthouse was built in 1843.").unwrap();
    std::fs::write(folder.join("bread.md"), "Bake the loaf for forty minutes.").unwrap();
    let ingested = memoir.run(&["ingest", "--local", folder.to_str().unwrap()]);
    assert!(ingested.status.success(), "{}", text(&ingested.stderr));

    let listed = memoir.run(&["list", "--local"]);
    let lines = text(&listed.stdout);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    assert!(
        lines.contains("/cape.md") && lines.ends_with("2 sources\n"),
        "{lines}"
    );

    let tree = memoir.run(&["tree", "--local"]);
    assert!(text(&tree.stdout).contains("└─ "), "{}", text(&tree.stdout));
    let tree = memoir.run(&["tree", "--local", "--levels", "1", "--json"]);
    let tree: serde_json::Value = serde_json::from_slice(&tree.stdout).unwrap();
    let levels = tree.as_array().unwrap().iter().map(|one| &one["level"]);
    assert!(levels.into_iter().all(|level| level == 1), "{tree}");

    let found = memoir.run(&["search", "--local", "--json", "lighthouse"]);
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    let chunk = found["items"][0]["chunk_id"].to_string();
    let shown = memoir.run(&["show", "--local", &chunk]);
    let shown = text(&shown.stdout);
    assert!(
        shown.starts_with("The lighthouse was built in 1843.\n")
            && shown.contains("/cape.md, version 1"),
        "{shown}"
    );

    let context = memoir.run(&[
        "context",
        "--local",
        "--json",
        "--user",
        "ann",
        "lighthouse",
    ]);
    let context: serde_json::Value = serde_json::from_slice(&context.stdout).unwrap();
    assert_eq!(context["memories"], serde_json::json!([]), "{context}");

    // Without a terminal nothing is deleted unless it is said.
    let refused = memoir.run(&["rm", "--local", "cape.md"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("--yes"),
        "{}",
        text(&refused.stderr)
    );
    let unknown = memoir.run(&["rm", "--local", "--yes", "nothing.md"]);
    assert_eq!(unknown.status.code(), Some(1));
    let gone = memoir.run(&["rm", "--local", "--yes", "cape.md"]);
    assert!(gone.status.success(), "{}", text(&gone.stderr));
    let listed = memoir.run(&["list", "--local"]);
    let lines = text(&listed.stdout);
    assert!(
        lines.contains("/bread.md") && lines.ends_with("1 source\n"),
        "{lines}"
    );
}
