//! Errors have OpenAI's form, and a provider's own words pass through without its secrets.

use std::collections::BTreeMap;

use memoir::scripted_model::Fault;
use reqwest::Method;
use serde_json::json;

use super::{Talk, user};
use crate::support::app::{Reply, send};
use crate::support::database::TestDatabase;

#[track_caller]
fn assert_error(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text);
    assert_eq!(reply.header("content-type"), "application/json");
    let error = reply.json()["error"].clone();
    assert_eq!(error["code"], code, "{}", reply.text);
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    assert!(error["type"].is_string());
}

#[tokio::test]
async fn errors_have_openais_form() {
    let keys = r#"[{"name": "reader", "key": "key-of-the-reader-0123456789-abcdef", "space": "default", "role": "read"}, {"name": "user", "key": "key-of-the-user-0123456789-abcdefgh", "space": "default", "role": "user"}]"#;
    let talk = Talk::on(TestDatabase::sqlite(), &[("AUTH__KEYS", keys)]).await;
    let chat = "/openai/v1/chat/completions";
    let post = |path: &str, key: &str, body: String| {
        let request = talk.desk.app.request(Method::POST, path);
        let request = request.header("content-type", "application/json");
        let request = if key.is_empty() {
            request
        } else {
            request.bearer_auth(key)
        };
        send(request.body(body))
    };
    let (reader, caller) = (
        "key-of-the-reader-0123456789-abcdef",
        "key-of-the-user-0123456789-abcdefgh",
    );
    let good = json!({"model": super::MODEL, "messages": [user("Hi")]}).to_string();
    assert_error(&post(chat, "", good.clone()).await, 401, "unauthorized");
    assert_error(&post(chat, reader, good.clone()).await, 403, "forbidden");
    assert_error(
        &post("/openai/v1/audio", caller, good.clone()).await,
        404,
        "unknown_route",
    );
    assert_error(
        &post("/openai/v1/models", caller, good.clone()).await,
        405,
        "method_not_allowed",
    );
    for body in ["", "{", "[]", "{\"model\": \"stub:m\"}"] {
        assert_error(
            &post(chat, caller, body.to_owned()).await,
            400,
            "malformed_request",
        );
    }
    let body = |model: &str| json!({"model": model, "messages": [user("Hi")]}).to_string();
    assert_error(
        &post(chat, caller, body("local:embedded")).await,
        400,
        "model_not_supported",
    );
    assert_error(
        &post(
            "/openai/v1/responses",
            caller,
            json!({"model": super::MODEL, "input": "x"}).to_string(),
        )
        .await,
        400,
        "model_not_supported",
    );
    assert_error(
        &post(chat, caller, body("stub:a b")).await,
        422,
        "unknown_model",
    );
    let request = talk
        .desk
        .app
        .request(Method::POST, chat)
        .bearer_auth(caller);
    let reply = send(
        request
            .header("content-type", "text/plain")
            .body(good.clone()),
    )
    .await;
    assert_eq!(reply.status, 415);
    assert!(reply.json()["error"]["code"].is_string());
    let named =
        json!({"model": super::MODEL, "messages": [user("Hi")], "memoir": {"thread": "a\nb"}});
    assert_error(
        &post(chat, caller, named.to_string()).await,
        422,
        "invalid_request",
    );
    let named =
        json!({"model": super::MODEL, "messages": [user("Hi")], "memoir": {"context": "maybe"}});
    assert_error(
        &post(chat, caller, named.to_string()).await,
        400,
        "malformed_request",
    );
    assert_eq!(talk.desk.model.requests().len(), 0, "nothing was sent");
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn a_provider_that_fails_is_reported() {
    let talk = Talk::open().await;
    let chat = "/openai/v1/chat/completions";
    let body = json!({"model": super::MODEL, "messages": [user("Hi")]});
    let status = |status: u16, body: &str| Fault::Status {
        status,
        headers: BTreeMap::from([("retry-after".to_owned(), "1".to_owned())]),
        body: body.to_owned(),
    };
    let own = r#"{"error":{"message":"bad key sk-test? no: bad temperature","type":"invalid_request_error","param":"temperature","code":null}}"#;
    talk.desk.model.push(status(400, own));
    let reply = send(talk.post(chat, "t", &body)).await;
    assert_eq!(
        (reply.status.as_u16(), reply.text.as_str()),
        (400, own.replace("sk-test", "***").as_str())
    );

    talk.desk.model.push(status(500, ""));
    assert_error(
        &send(talk.post(chat, "t", &body)).await,
        502,
        "llm_unavailable",
    );
    talk.desk.model.push(Fault::Html);
    assert_error(
        &send(talk.post(chat, "t", &body)).await,
        502,
        "llm_unavailable",
    );
    talk.desk
        .model
        .push(status(429, r#"{"error":{"message":"slow down"}}"#));
    let reply = send(talk.post(chat, "t", &body)).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("retry-after")),
        (429, "1")
    );
    assert_eq!(
        talk.stored("t")
            .await
            .iter()
            .filter(|one| one["role"] == "assistant")
            .count(),
        0
    );
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn caps_hold() {
    let talk = Talk::on(
        TestDatabase::sqlite(),
        &[("LLM__CAPS__SPACE_DAY__CALLS", "2")],
    )
    .await;
    talk.chat("", &[user("One")]).await;
    talk.chat("", &[user("Two")]).await;
    let body = json!({"model": super::MODEL, "messages": [user("Three")]});
    let reply = send(talk.post("/openai/v1/chat/completions", "", &body)).await;
    assert_error(&reply, 429, "spend_cap_reached");
    assert_eq!(talk.desk.model.requests().len(), 2);
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn the_thread_of_another_user_is_not_found() {
    let talk = Talk::open().await;
    let thread = talk.desk.thread("ben", None).await;
    let body = json!({"model": super::MODEL, "messages": [user("Hi")]});
    let reply = send(talk.post("/openai/v1/chat/completions", &thread, &body)).await;
    assert_error(&reply, 404, "not_found");
    assert_eq!(talk.desk.model.requests().len(), 0);
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn a_header_that_is_sent_twice_is_refused() {
    let talk = Talk::open().await;
    let body = json!({"model": super::MODEL, "messages": [user("Hello.")]});
    for name in ["X-Memoir-User", "X-Memoir-Thread"] {
        let request = talk.post("/openai/v1/chat/completions", "t", &body);
        let reply = send(request.header(name, "victim")).await;
        assert_eq!(reply.status, 422, "{name}: {}", reply.text);
        assert!(reply.json()["error"].is_object(), "{name}: {}", reply.text);
    }
    let path = "/openai/u/%FF/t/x/v1/chat/completions";
    let reply = send(talk.post(path, "", &body)).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.json()["error"].is_object(), "{}", reply.text);
    talk.desk.app.finish().await;
}

/// Each of them would take minutes if its work grew with the square of its length.
#[tokio::test]
async fn large_requests_are_read_in_one_pass() {
    let talk = Talk::open().await;
    let many = vec![user("a"); 100_000];
    let marks = "<memoir-context sha256=\"00000000000000000000000000000000\">\n".repeat(50_000);
    let members: Vec<String> = (0..300_000).map(|n| format!("\"k{n}\":1")).collect();
    let members = members.join(",");
    for body in [
        json!({"model": "none:m", "messages": many}).to_string(),
        json!({"model": "none:m", "messages": [user(&format!("{marks}\n</memoir-context>"))]})
            .to_string(),
        format!("{{\"model\":\"none:m\",\"messages\":[],{members}}}"),
    ] {
        let request = talk.post("/openai/v1/chat/completions", "t", &json!(null));
        let reply = send(request.body(body)).await;
        assert!(!reply.status.is_server_error(), "{}", reply.text);
    }
    talk.desk.app.finish().await;
}
