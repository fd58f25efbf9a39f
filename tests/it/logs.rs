//! The log: one line per request, and never a text, a key or a password.

use memoir::scripted_model::{Fault, ScriptedModel};
use serde_json::{Value, json};

use crate::support::binary::Binary;
use crate::support::probes::Api;

#[test]
fn the_log_contains_routes_and_times_but_no_text() {
    let memoir = Binary::new()
        .env("MEMOIR__TELEMETRY__LOG_LEVEL", "trace")
        .env("MEMOIR__TELEMETRY__LOG_FORMAT", "json")
        .env(
            "MEMOIR__AUTH__KEYS",
            r#"[{"key":"MARKERkey","space":"*","role":"admin"}]"#,
        );

    let running = memoir.serve();
    let call = |method: &str, path: &str, body: &str| {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer MARKERkey\r\nX-Request-Id: call\r\n\
             Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );

        request.push_str(body);
        let mut stream = std::net::TcpStream::connect(running.address).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();

        answer
    };

    for (method, path, body, status) in [
        (
            "POST",
            "/v1/sources",
            r#"{"path":"/MARKERpath.md","tags":["MARKERtag"],"user_id":"MARKERuser"}"#,
            "201",
        ),
        (
            "POST",
            "/v1/sources",
            r#"{"path":"/MARKERpath.md","user_id":"MARKERuser"}"#,
            "409",
        ),
        (
            "POST",
            "/v1/sources",
            r#"{"path":"MARKERrelative","MARKERfield":1}"#,
            "422",
        ),
        ("POST", "/v1/sources", r#"{"path":"MARKERbroken"#, "400"),
        (
            "POST",
            "/v1/tokens/count",
            r#"{"text":"MARKERtext","model":"MARKERmodel"}"#,
            "200",
        ),
        ("GET", "/v1/sources?tag=MARKERquery", "", "200"),
        ("GET", "/v1/sources/MARKERid", "", "404"),
        ("GET", "/MARKERroute", "", "404"),
    ] {
        let answer = call(method, path, body);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    assert_eq!(running.signal_and_wait("TERM"), Some(0));

    let log = memoir.log();
    assert!(!log.contains("MARKER"), "{log}");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let requests: Vec<&Value> = lines
        .iter()
        .filter(|line| line["request_id"] == "call")
        .collect();
    assert_eq!(requests.len(), 8, "one line per request: {log}");
    for line in &requests {
        assert!(
            line["route"].is_string() && line["status"].is_u64() && line["ms"].is_f64(),
            "{line}"
        );
    }
    assert_eq!(requests[0]["route"], "/v1/sources");
    assert_eq!(requests[6]["route"], "/v1/sources/{id}");
    assert_eq!(requests[7]["route"], "(unmatched)");
}

/// Prompts, model outputs and provider messages never reach the log, whatever goes wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_contains_no_prompts_and_no_model_outputs() {
    let model = ScriptedModel::local().await.unwrap();
    let memoir = Binary::new()
        .env("MEMOIR__TELEMETRY__LOG_LEVEL", "trace")
        .env("MEMOIR__TESTING__PROBE_JOBS", "true")
        .env("MEMOIR__JOBS__MAX_ATTEMPTS", "1")
        .env(
            "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
            &model.openai_url(),
        )
        .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "MARKERkey")
        .env("MEMOIR__LLM__PROVIDERS__CLAUDE__KIND", "anthropic")
        .env(
            "MEMOIR__LLM__PROVIDERS__CLAUDE__BASE_URL",
            &model.anthropic_url(),
        )
        .env("MEMOIR__LLM__TRANSPORT__BACKOFF_MS", "1")
        .env("MEMOIR__LLM__MODEL", "stub:m")
        .env("MEMOIR__JOBS__PATIENCE", "0")
        .env("MEMOIR__LLM__FALLBACK_MODEL", "claude:m");
    let running = memoir.serve();
    let api = Api::at(running.address);
    let said = |body: &str| Fault::Status {
        status: 500,
        headers: [].into(),
        body: body.to_owned(),
    };
    for fault in [
        Fault::RawText {
            text: "MARKERanswer is not JSON".to_owned(),
        },
        Fault::Refusal {
            text: "MARKERrefusal".to_owned(),
            blocked_prompt: false,
        },
        said("MARKERerror of key MARKERkey"),
        said(r#"{"error": {"message": "MARKERmessage"}}"#),
        Fault::Status {
            status: 400,
            headers: [].into(),
            body: r#"{"detail": "MARKERdetail"}"#.to_owned(),
        },
        Fault::Truncated { keep_chars: 5 },
    ] {
        model.clear_faults();
        model.always(fault);
        let id = api
            .queue("default", &json!({"classify": ["MARKERchunk"]}))
            .await
            .unwrap();
        assert_eq!(api.finished("default", &id).await["state"], "failed");
    }
    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    let log = memoir.log();
    assert!(!log.contains("MARKER"), "{log}");
    for code in [
        "llm_invalid_output",
        "llm_refused",
        "llm_unavailable",
        "llm_rejected",
        "llm_output_truncated",
    ] {
        assert!(log.contains(code), "{code} is told: {log}");
    }
}

/// Only that it is full and whose job met it: names of categories come from texts.
#[test]
fn the_log_says_that_the_hierarchy_is_full() {
    let memoir = Binary::new().env("MEMOIR__TAXONOMY__MAX_CHILDREN", "1");
    let running = memoir.serve();
    let server = format!("http://{}", running.address);
    for title in ["Harbour", "Bread"] {
        let file = memoir.folder.path().join(format!("{title}.md"));
        let text = format!("# {title}\n\nThe {title} is described here at some length.");
        std::fs::write(&file, text).unwrap();
        let ingested = memoir.run(&["ingest", file.to_str().unwrap(), "--server", &server]);
        assert!(ingested.status.success(), "{ingested:?}");
    }
    running.terminate();
    running.wait();

    let log = memoir.log();
    let full: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("the hierarchy is full"))
        .collect();
    assert!(!full.is_empty(), "{log}");
    for line in full {
        assert!(
            line.contains("parent_full") && line.contains("job_id"),
            "{line}"
        );
        assert!(
            !line.contains("Harbour") && !line.contains("Bread"),
            "{line}"
        );
    }
}
