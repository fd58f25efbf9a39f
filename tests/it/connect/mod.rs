//! Ways in for other programs: the Model Context Protocol over HTTP and over standard input, hooks, and the settings
//! that agents need for them.

mod hooks;
mod mcp_all_tools;
mod mcp_http;
mod mcp_stdio;
mod mcp_tools;
mod settings;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};

/// A JSON-RPC request.
pub fn rpc(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// A message of an agent to `/mcp`, with its headers.
pub async fn post(app: &TestApp, message: &Value, headers: &[(&str, &str)]) -> Reply {
    let mut request = app
        .request(Method::POST, "/mcp")
        .header("Accept", "application/json, text/event-stream")
        .json(message);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(request).await
}

/// The result of a request.
pub async fn ask(app: &TestApp, method: &str, params: &Value) -> Value {
    let reply = post(app, &rpc(method, params), &[]).await;
    assert_eq!(reply.status, 200, "{method}: {}", reply.text);
    let answer = reply.json();
    assert_eq!(answer["error"], Value::Null, "{method}: {answer}");
    answer["result"].clone()
}

/// Calls a tool as somebody.
pub async fn call_as(
    app: &TestApp,
    headers: &[(&str, &str)],
    tool: &str,
    arguments: Value,
) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let reply = post(app, &rpc("tools/call", &params), headers).await;
    assert_eq!(reply.status, 200, "{tool}: {}", reply.text);
    reply.json()["result"].clone()
}

/// What a tool returns as data.
pub async fn call(app: &TestApp, tool: &str, arguments: Value) -> Value {
    let result = call_as(app, &[], tool, arguments).await;
    assert_ne!(result["isError"], true, "{tool}: {result}");
    result["structuredContent"].clone()
}

/// What a tool says of a call that failed.
pub fn failure(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
