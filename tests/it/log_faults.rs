//! A log that cannot be written: no request and no process fails because of it, and lost lines are
//! counted and reported.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::binary::{Binary, text};
use crate::support::small_disk::SmallDisk;

const LOST: &str = "log lines were lost";

fn memoir() -> Binary {
    Binary::new()
        .env("MEMOIR__TELEMETRY__LOG_FORMAT", "json")
        .env("MEMOIR__LLM__NOTICE_LOCAL_MODELS", "false")
}

fn call(address: SocketAddr, method: &str, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Request-Id: {}\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        "r".repeat(64),
        body.len()
    )
    .unwrap();

    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    call(address, "GET", path, &Value::Null)
}

fn assert_status(answer: &str, status: u16) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status}")),
        "{answer}"
    );
}

/// The number of lost lines that the metrics show.
fn lost_lines(address: SocketAddr) -> u64 {
    let metrics = get(address, "/metrics");
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("memoir_log_lines_lost_total "));

    line.map_or(0, |number| number.trim().parse().unwrap())
}

/// The number in the line that reports lost lines.
fn reported(line: &str) -> u64 {
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], "WARN", "{line}");
    line["lines"].as_u64().unwrap()
}

#[test]
fn a_full_device_as_log_stops_nothing() {
    let memoir = memoir();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let running = memoir.serve_logging_to(full());

    for _ in 0..3 {
        assert_status(&get(running.address, "/v1/info"), 200);
        assert_status(&get(running.address, "/v1/nothing"), 404);
    }

    let made = call(
        running.address,
        "POST",
        "/v1/sources",
        &json!({"path": "/a"}),
    );
    assert_status(&made, 201);

    // The lines of the seven requests, and those of the start.
    let began = Instant::now();
    while lost_lines(running.address) < 8 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }

    assert_eq!(running.signal_and_wait("TERM"), Some(0));
}

/// Nobody reads a pipe any more, and somebody else does later.
#[test]
fn a_log_whose_reader_is_gone_resumes_with_the_next_reader() {
    let memoir = memoir();
    let path = memoir.folder.path().join("log");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );

    // A pipe can be opened for writing only while it has a reader.
    let reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let log = OpenOptions::new().write(true).open(&path).unwrap();
    let running = memoir.serve_logging_to(log);
    drop(reader);

    for _ in 0..5 {
        assert_status(&get(running.address, "/v1/info"), 200);
    }

    let began = Instant::now();
    while lost_lines(running.address) < 5 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }

    let reader = BufReader::new(File::open(&path).unwrap());
    let mut lines = reader.lines().map(Result::unwrap);
    let report = lines.find(|line| line.contains(LOST)).unwrap();
    assert_eq!(reported(&report), lost_lines(running.address), "{report}");

    assert_status(&get(running.address, "/v1/nothing"), 404);
    assert!(lines.any(|line| line.contains(r#""status":404"#)));
    running.terminate();
    let rest: Vec<String> = lines.collect();
    assert_eq!(running.wait(), Some(0));
    assert!(
        rest.last().unwrap().contains("memoir has stopped"),
        "the last line is written before the process ends: {rest:?}"
    );
}

#[test]
fn a_log_and_a_database_on_a_full_disk_recover_together() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this process may not mount a small file system");
        return;
    };

    let url = format!("sqlite://{}/memoir.db", disk.path().display());
    let memoir = memoir().env("DATABASE_URL", &url);
    let path = disk.path().join("memoir.log");
    let running = memoir.serve_logging_to(File::create(&path).unwrap());
    let add = |name: String| {
        call(
            running.address,
            "POST",
            "/v1/sources",
            &json!({"path": name}),
        )
    };
    assert_status(&add("/before".to_owned()), 201);

    let filler = disk.fill();
    let began = Instant::now();
    let mut number = 0;
    loop {
        let answer = add(format!("/{number}"));
        if !answer.starts_with("HTTP/1.1 201") {
            assert_status(&answer, 503);
            break;
        }

        assert!(
            began.elapsed() < Duration::from_mins(1),
            "it never got full"
        );
        number += 1;
    }

    // The last block of the log may still have space.
    while lost_lines(running.address) == 0 {
        assert_status(&get(running.address, "/v1/info"), 200);
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "it never got full"
        );
    }
    assert_status(&get(running.address, "/health/live"), 200);

    std::fs::remove_file(filler).unwrap();
    assert_status(&add("/after".to_owned()), 201);
    let began = Instant::now();
    let report = loop {
        let log = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        if let Some(line) = log.lines().find(|line| line.contains(LOST)) {
            break line.to_owned();
        }

        assert!(began.elapsed() < Duration::from_secs(20), "{log}");
        std::thread::sleep(Duration::from_millis(20));
    };

    assert_eq!(reported(&report), lost_lines(running.address));
    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    let log = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
    assert!(log.contains("memoir has stopped"), "{log}");
}

/// A reader that is there and does not read: the pipe is full, and no request waits for it.
#[test]
fn a_log_that_nobody_reads_blocks_nothing() {
    let memoir = memoir();
    let (reader, log) = std::io::pipe().unwrap();
    let running = memoir.serve_logging_to(log);

    // More than the 64 KiB that a pipe holds.
    for _ in 0..400 {
        assert_status(&get(running.address, "/v1/nothing"), 404);
    }

    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    drop(reader);
}

#[test]
fn a_command_whose_output_nobody_reads_ends_in_order() {
    let memoir = memoir();
    let running = memoir.serve();
    let url = format!("http://{}", running.address);
    let made = call(
        running.address,
        "POST",
        "/v1/sources",
        &json!({"path": "/a"}),
    );
    assert_status(&made, 201);

    for arguments in [
        &["list", "--server", &url][..],
        &["tree", "--server", &url],
        &["config", "print"],
        &["openapi"],
        &["--help"],
    ] {
        let (reader, out) = std::io::pipe().unwrap();
        drop(reader);
        let output = memoir.run_printing_to(arguments, out);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}
