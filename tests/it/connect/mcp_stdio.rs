//! `memoir mcp` over standard input and output: with a running service, or with a store of its own; it ends with its
//! input, and leaves nothing behind.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::rpc;
use crate::support::app::TestApp;
use crate::support::binary::Binary;

/// `memoir mcp`, started as an agent starts it.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Agent {
    /// `data` holds its own store; `folder` is the working directory.
    fn start(data: &Path, folder: &Path, arguments: &[&str]) -> Self {
        let mut child = command(data, folder, arguments).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut agent = Self {
            child,
            input,
            output,
            next: 1,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        assert_eq!(
            agent.ask("initialize", &hello)["serverInfo"]["name"],
            "memoir"
        );
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let mut message = rpc(method, params);
        message["id"] = self.next.into();
        self.next += 1;
        self.send(&message);
        let mut line = String::new();
        assert_ne!(
            self.output.read_line(&mut line).unwrap(),
            0,
            "the server ended"
        );
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["error"], Value::Null, "{method}: {answer}");
        answer["result"].clone()
    }

    #[expect(clippy::needless_pass_by_value, reason = "shorter calls")]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Ends the input, and waits for the end of the process.
    fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        wait(&mut self.child)
    }
}

fn command(data: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memoir"));
    command
        .arg("mcp")
        .args(arguments)
        .env_clear()
        .env("XDG_DATA_HOME", data)
        // Nothing listens there.
        .env("MEMOIR__SERVER__LISTEN", "127.0.0.1:9")
        .env("MEMOIR__LLM__NOTICE_LOCAL_MODELS", "false")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn wait(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "memoir mcp does not end"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_a_service_it_keeps_a_store_of_its_own() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut agent = Agent::start(data.path(), folder.path(), &[]);
    let stored = agent.call(
        "remember",
        json!({"text": "The shed key hangs behind the clock"}),
    );
    assert_eq!(stored["isError"], false, "{stored}");
    assert!(agent.end().success());

    let mut later = Agent::start(data.path(), folder.path(), &[]);
    let known = later.call("recall", json!({"query": "Where is the key of the shed?"}));
    assert!(known.to_string().contains("behind the clock"), "{known}");
    assert!(later.end().success());
    assert!(data.path().join("memoir/memoir.db").exists());
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is written there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_service_is_used() {
    let app = TestApp::spawn().await;
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = format!("http://{}", app.address);
    let arguments = [
        "--server",
        server.as_str(),
        "--space",
        "team",
        "--user",
        "ann",
    ];
    let ended = tokio::task::block_in_place(|| {
        let mut agent = Agent::start(data.path(), folder.path(), &arguments);
        let stored = agent.call("remember", json!({"text": "The pump is in hall 4"}));
        assert_eq!(stored["isError"], false, "{stored}");
        agent.end()
    });
    assert!(ended.success());
    assert!(!data.path().join("memoir").exists(), "no store of its own");
    let listed = app.request(reqwest::Method::GET, "/v1/memories?user_id=ann");
    let listed = crate::support::app::send(listed.header("X-Memoir-Space", "team")).await;
    assert!(listed.text.contains("hall 4"), "{}", listed.text);
    app.finish().await;
}

#[test]
fn a_service_at_the_configured_address_is_found() {
    let service = Binary::new();
    let running = service.serve();
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut child = command(data.path(), folder.path(), &[])
        .env("MEMOIR__SERVER__LISTEN", running.address.to_string())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    writeln!(input, "{}", rpc("initialize", &hello)).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("serverInfo"));
    assert!(!data.path().join("memoir").exists(), "no store of its own");
    drop(input);
    assert!(wait(&mut child).success());
    drop(running);
}

#[test]
fn files_are_read_below_the_working_directory_only() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = data.path().join("private.md");
    std::fs::write(&outside, "# Private\n\nNot for the agent.\n").unwrap();
    std::fs::create_dir(folder.path().join("docs")).unwrap();
    std::fs::write(
        folder.path().join("docs/heron.md"),
        "# Heron\n\nThe heron stands in the reeds.\n",
    )
    .unwrap();
    std::os::unix::fs::symlink(&outside, folder.path().join("link.md")).unwrap();

    let mut agent = Agent::start(data.path(), folder.path(), &[]);
    let done = agent.call("ingest", json!({"path": "docs/heron.md"}));
    assert_eq!(done["structuredContent"]["state"], "succeeded", "{done}");
    let outside = outside.to_str().unwrap();
    for path in [
        outside,
        "link.md",
        "../private.md",
        "docs",
        "missing.md",
        "/etc/passwd",
    ] {
        let refused = agent.call("ingest", json!({"path": path}));
        assert_eq!(refused["isError"], true, "{path}: {refused}");
        assert!(!refused.to_string().contains("Not for the agent"), "{path}");
    }
    assert!(agent.end().success());
}

#[test]
fn several_agents_share_the_store_and_one_process_runs_the_jobs() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut agents: Vec<Agent> = (0..3)
        .map(|_| Agent::start(data.path(), folder.path(), &[]))
        .collect();
    let lock = data.path().join("memoir/memoir.jobs.lock");
    let is_free = || std::fs::File::open(&lock).unwrap().try_lock().is_ok();
    for n in 0..6 {
        let text = format!("# Matter {n}\n\nMatter {n} is settled by committee {n}.\n");
        let done = agents[n % 3].call(
            "ingest",
            json!({"text": text, "filename": format!("matter-{n}.md")}),
        );
        assert_eq!(done["structuredContent"]["state"], "succeeded", "{done}");
        assert!(!is_free(), "one of them runs the jobs");
    }

    // Another takes over, even from one that is killed.
    agents[0].child.kill().unwrap();
    agents.remove(0).child.wait().unwrap();
    let text = "# Last\n\nThe last matter is settled.\n";
    let done = agents[0].call("ingest", json!({"text": text, "filename": "last.md"}));
    assert_eq!(done["structuredContent"]["state"], "succeeded", "{done}");
    for agent in agents {
        assert!(agent.end().success());
    }
    assert!(is_free());
}

#[test]
fn a_hundred_that_are_left_end_by_themselves() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The schema is there already.
    assert!(
        Agent::start(data.path(), folder.path(), &[])
            .end()
            .success()
    );
    for round in 0..10 {
        let mut left: Vec<Child> = (0..10)
            .map(|_| command(data.path(), folder.path(), &[]).spawn().unwrap())
            .collect();
        for (n, child) in left.iter_mut().enumerate() {
            // Some ends come before the first message, some after it, and some in the middle of one.
            let mut input = child.stdin.take().unwrap();
            match (round + n) % 3 {
                0 => {}
                1 => writeln!(input, "{}", rpc("ping", &json!({}))).unwrap(),
                _ => write!(input, "{{\"jsonrpc\":").unwrap(),
            }
            drop(input);
        }
        for child in &mut left {
            wait(child);
        }
    }
    let mut agent = Agent::start(data.path(), folder.path(), &[]);
    let known = agent.call("recall", json!({"query": "Anything?"}));
    assert_eq!(known["isError"], false, "{known}");
    assert!(agent.end().success());
}

#[test]
fn a_killed_server_loses_nothing_that_was_confirmed() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..4 {
        let mut agent = Agent::start(data.path(), folder.path(), &[]);
        for m in 0..3 {
            let text = format!("Crate number {} holds cargo {n} of ship {m}", n * 10 + m);
            let stored = agent.call("remember", json!({"text": text}));
            assert_eq!(stored["isError"], false, "{stored}");
        }
        agent.child.kill().unwrap();
        agent.child.wait().unwrap();
    }

    let mut agent = Agent::start(data.path(), folder.path(), &[]);
    for n in 0..4 {
        for m in 0..3 {
            let known = agent.call(
                "recall",
                json!({"query": format!("What does crate number {} hold?", n * 10 + m)}),
            );
            assert!(
                known
                    .to_string()
                    .contains(&format!("cargo {n} of ship {m}")),
                "{known}"
            );
        }
    }
    assert!(agent.end().success());
}

#[test]
fn sigterm_ends_it_and_gives_its_jobs_back() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut agent = Agent::start(data.path(), folder.path(), &[]);
    let stored = agent.call("remember", json!({"text": "The gauge is at the bridge"}));
    assert_eq!(stored["isError"], false, "{stored}");
    // In progress when the signal comes.
    let text = "# Ledger\n\nThe ledger of the mill is complete.\n".repeat(3000);
    let ingest = json!({"name": "ingest", "arguments": {"text": text, "filename": "ledger.md"}});
    agent.send(&rpc("tools/call", &ingest));
    let pid = agent.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    wait(&mut agent.child);

    // The next one need not wait until a lease ends.
    let mut next = Agent::start(data.path(), folder.path(), &[]);
    let known = next.call("recall", json!({"query": "Where is the gauge?"}));
    assert!(known.to_string().contains("at the bridge"), "{known}");
    let done = next.call(
        "ingest",
        json!({"text": "# Mill\n\nIt stands.\n", "filename": "mill.md"}),
    );
    assert_eq!(done["structuredContent"]["state"], "succeeded", "{done}");
    assert!(next.end().success());
}

#[test]
fn it_keeps_out_of_the_project_in_whose_folder_it_runs() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for url in [
        "sqlite://project.db",
        "postgres://nobody@127.0.0.1:9/project",
        "nonsense",
    ] {
        let mut child = command(data.path(), folder.path(), &[])
            .env("DATABASE_URL", url)
            .spawn()
            .unwrap();
        drop(child.stdin.take());
        assert!(wait(&mut child).success(), "{url}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{url}"
        );
        assert!(data.path().join("memoir/memoir.db").exists(), "{url}");
    }
}
