//! `/mcp`: both generations of the protocol, without sessions; keys, spaces, roles, hosts and origins as elsewhere.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, call_as, failure, post, rpc};
use crate::support::app::{TestApp, send};

const KEYS: &str = r#"[
    {"name": "reader", "key": "reader-key-0123456789abcdef", "space": "a", "role": "read"},
    {"name": "writer", "key": "writer-key-0123456789abcdef", "space": "a", "role": "user"},
    {"name": "other", "key": "other-key-0123456789abcdef0", "space": "b", "role": "user"}
]"#;
const READER: (&str, &str) = ("Authorization", "Bearer reader-key-0123456789abcdef");
const WRITER: (&str, &str) = ("Authorization", "Bearer writer-key-0123456789abcdef");
const OTHER: (&str, &str) = ("Authorization", "Bearer other-key-0123456789abcdef0");

fn initialize(version: &str) -> Value {
    rpc(
        "initialize",
        &json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
    )
}

#[tokio::test]
async fn the_handshake_of_2025_is_answered_without_a_session() {
    let app = TestApp::spawn().await;
    let reply = post(&app, &initialize("2025-11-25"), &[]).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.header("mcp-session-id"), "");
    let result = &reply.json()["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "memoir");
    for capability in ["tools", "resources", "prompts"] {
        assert!(result["capabilities"][capability].is_object(), "{result}");
    }
    assert!(result["instructions"].as_str().unwrap().contains("recall"));

    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&app, &ready, &[]).await.status, 202);
    assert_eq!(ask(&app, "ping", &json!({})).await, json!({}));
    app.finish().await;
}

#[tokio::test]
async fn requests_of_2026_are_complete_in_themselves() {
    let app = TestApp::spawn().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = |method| {
        [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ]
    };

    let discover = rpc("server/discover", &json!({"_meta": meta}));
    let found = post(&app, &discover, &headers("server/discover")).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let versions = found.json()["result"]["supportedVersions"].clone();
    assert!(
        versions.as_array().unwrap().contains(&json!("2026-07-28")),
        "{versions}"
    );

    let listed = rpc("tools/list", &json!({"_meta": meta}));
    let listed = post(&app, &listed, &headers("tools/list")).await;
    assert_eq!(listed.status, 200, "{}", listed.text);
    let result = &listed.json()["result"];
    assert_eq!(result["resultType"], "complete", "{result}");
    assert_eq!(result["tools"].as_array().unwrap().len(), 5);
    app.finish().await;
}

#[tokio::test]
async fn only_post_is_served() {
    let app = TestApp::spawn().await;
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let reply = send(app.request(method, "/mcp")).await;
        reply.assert_problem(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), "POST");
    }
    app.finish().await;
}

#[tokio::test]
async fn nonsense_is_refused_without_500() {
    let app = TestApp::spawn().await;
    for body in [
        "",
        "{",
        "[]",
        "null",
        "1",
        "{\"jsonrpc\":\"1.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":5}",
    ] {
        let request = app
            .request(Method::POST, "/mcp")
            .header("Accept", "application/json, text/event-stream")
            .header("Content-Type", "application/json")
            .body(body);
        let status = send(request).await.status.as_u16();
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    for (tool, arguments) in [
        ("remember", json!({})),
        ("remember", json!({"text": ""})),
        ("remember", json!({"text": "x", "unknown": 1})),
        (
            "remember",
            json!({"text": "x", "thread": "t", "kind": "fact"}),
        ),
        ("recall", json!({"query": 5})),
        ("read", json!({})),
        ("read", json!({"id": "../../v1/info"})),
        ("read", json!({"id": "\u{0}"})),
        ("ingest", json!({"filename": "x"})),
        ("ingest", json!({"path": "/etc/passwd"})),
    ] {
        let result = call_as(&app, &[], tool, arguments.clone()).await;
        assert!(!failure(&result).is_empty(), "{tool} {arguments}");
    }

    let unknown = rpc("tools/call", &json!({"name": "nothing"}));
    let unknown = post(&app, &unknown, &[]).await.json();
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    app.finish().await;
}

#[tokio::test]
async fn keys_roles_and_spaces_hold() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    let list = rpc("tools/list", &json!({}));
    post(&app, &list, &[])
        .await
        .assert_problem(401, "unauthorized");
    let elsewhere = [WRITER, ("X-Memoir-Space", "b")];
    post(&app, &list, &elsewhere)
        .await
        .assert_problem(403, "forbidden");

    let fact = json!({"text": "The boiler was serviced by Mr. Okonkwo"});
    let refused = call_as(&app, &[READER], "remember", fact.clone()).await;
    assert!(failure(&refused).contains("role user"), "{refused}");
    let stored = call_as(&app, &[WRITER], "remember", fact).await;
    assert_eq!(stored["isError"], false, "{stored}");

    let question = json!({"query": "Who serviced the boiler?"});
    let known = call_as(&app, &[READER], "recall", question.clone()).await;
    assert!(
        known["structuredContent"]["text"]
            .as_str()
            .unwrap()
            .contains("Okonkwo"),
        "{known}"
    );
    let foreign = call_as(&app, &[OTHER], "recall", question).await;
    assert!(!foreign.to_string().contains("Okonkwo"), "{foreign}");
    app.finish().await;
}

#[tokio::test]
async fn users_do_not_see_each_other() {
    let app = TestApp::with(&[("MCP__ALLOW_FORGET", "true")]).await;
    let (ann, ben) = (("X-Memoir-User", "ann"), ("X-Memoir-User", "ben"));
    let secret = json!({"text": "Ann's locker has the code tangerine", "tags": ["locker"]});
    let memory = call_as(&app, &[ann], "remember", secret).await;
    let memory = memory["structuredContent"]["id"].clone();
    let document =
        json!({"text": "# Locker\n\nThe locker of Ann is tangerine.", "filename": "locker.md"});
    let source = call_as(&app, &[ann], "ingest", document).await;
    let source = source["structuredContent"]["source_id"].clone();

    let question = "What is the code of Ann's locker?";
    for (tool, arguments) in [
        ("recall", json!({"query": question})),
        ("ask", json!({"question": question})),
        ("read", json!({"id": memory})),
        ("read", json!({"id": source})),
        ("read", json!({"filename": "locker.md"})),
        ("forget", json!({"id": memory})),
        ("forget", json!({"id": source})),
    ] {
        let result = call_as(&app, &[ben], tool, arguments).await;
        assert!(
            !result.to_string().contains("tangerine"),
            "{tool}: {result}"
        );
    }
    for (tool, id) in [
        ("read", &memory),
        ("read", &source),
        ("forget", &memory),
        ("forget", &source),
    ] {
        failure(&call_as(&app, &[ben], tool, json!({"id": id})).await);
    }
    for tool in ["recall", "ask"] {
        let field = if tool == "ask" { "question" } else { "query" };
        let result = call_as(&app, &[ann], tool, json!({field: question})).await;
        assert!(result.to_string().contains("tangerine"), "{tool}: {result}");
    }

    let listed = rpc("resources/list", &json!({}));
    assert!(!post(&app, &listed, &[ben]).await.text.contains("locker"));
    assert!(post(&app, &listed, &[ann]).await.text.contains("locker.md"));
    let uri = json!({"uri": format!("memoir://sources/{}", source.as_str().unwrap())});
    let foreign = post(&app, &rpc("resources/read", &uri), &[ben])
        .await
        .json();
    assert_eq!(foreign["error"]["code"], -32002, "{foreign}");
    app.finish().await;
}

#[tokio::test]
async fn foreign_pages_and_hosts_are_refused() {
    let app = TestApp::spawn().await;
    let list = rpc("tools/list", &json!({}));
    let page = [("Origin", "https://evil.example")];
    post(&app, &list, &page)
        .await
        .assert_problem(403, "cross_origin_request");
    let rebound = [("Host", "evil.example")];
    assert_eq!(post(&app, &list, &rebound).await.status, 403);
    app.finish().await;
}

#[tokio::test]
async fn progress_is_told_as_a_stream_if_wanted() {
    let app = TestApp::spawn().await;
    let params = json!({
        "name": "ingest", "arguments": {"text": "# Cello\n\nPractise bar 32.", "filename": "cello.md"},
        "_meta": {"progressToken": "p1"},
    });
    let reply = post(&app, &rpc("tools/call", &params), &[]).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    let events: Vec<Value> = reply
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect();
    let told = events
        .iter()
        .filter(|event| event["method"] == "notifications/progress");
    assert!(told.clone().count() > 0, "{}", reply.text);
    assert!(
        told.into_iter()
            .all(|event| event["params"]["progressToken"] == "p1")
    );
    let last = events.last().unwrap();
    assert_eq!(
        last["result"]["structuredContent"]["state"], "succeeded",
        "{last}"
    );
    app.finish().await;
}

#[tokio::test]
async fn a_call_in_progress_is_answered_before_a_stop() {
    let app = Arc::new(TestApp::spawn().await);
    let document =
        json!({"text": "# Weir\n\nThe weir is old.\n".repeat(200), "filename": "weir.md"});
    let params = json!({"name": "ingest", "arguments": document});
    let calling = Arc::clone(&app);
    #[expect(clippy::disallowed_methods, reason = "awaited below")]
    let call = tokio::spawn(async move { post(&calling, &rpc("tools/call", &params), &[]).await });
    loop {
        let jobs = app.get("/v1/jobs").await.json();
        if jobs["items"]
            .as_array()
            .is_some_and(|jobs| !jobs.is_empty())
        {
            break;
        }
        tokio::task::yield_now().await;
    }
    app.stop.cancel();
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_ne!(
        reply.json()["result"]["structuredContent"]["source_id"],
        "",
        "{}",
        reply.text
    );
    Arc::into_inner(app).unwrap().finish().await;
}

#[tokio::test]
async fn a_client_that_disconnects_loses_nothing_that_was_accepted() {
    let app = TestApp::spawn().await;
    let document =
        json!({"text": "# Sluice\n\nThe sluice has nine gates.\n", "filename": "sluice.md"});
    let message = rpc(
        "tools/call",
        &json!({"name": "ingest", "arguments": document}),
    )
    .to_string();
    let mut stream = tokio::net::TcpStream::connect(app.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{message}",
        message.len()
    );
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes())
        .await
        .unwrap();
    loop {
        let jobs = app.get("/v1/jobs").await.json();
        if jobs["items"]
            .as_array()
            .is_some_and(|jobs| !jobs.is_empty())
        {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(stream);
    loop {
        let read = call_as(&app, &[], "read", json!({"filename": "sluice.md"})).await;
        if read.to_string().contains("nine gates") {
            break;
        }
        tokio::task::yield_now().await;
    }
    app.finish().await;
}
