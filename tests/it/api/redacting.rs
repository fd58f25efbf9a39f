//! `X-Memoir-Redact: secrets`: keys and tokens are redacted in what a request stores, whatever the
//! policy of the space says.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

/// Built here, so that no scanner takes it for a real key.
fn key() -> String {
    format!("sk-{}", "a1B2c3D4".repeat(4))
}

async fn redacted(app: &TestApp, method: Method, path: &str, body: &Value) -> Reply {
    let request = app
        .request(method, path)
        .header("X-Memoir-Redact", "secrets");
    send(request.json(body)).await
}

#[tokio::test]
async fn secrets_are_redacted_before_they_are_stored_on_every_engine() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let post = async |path: &str, body: Value| {
            let reply = redacted(&app, Method::POST, path, &body).await;
            assert!(reply.status.is_success(), "{path}: {}", reply.text);
            assert!(!reply.text.contains(&key()), "{path}: {}", reply.text);
            reply.json()
        };

        let said = format!("My key is {} and my mail ann@example.org.", key());
        let clean = "My key is [REDACTED] and my mail ann@example.org.";
        let thread = post("/v1/threads", json!({"title": format!("About {}", key())})).await;
        assert_eq!(thread["title"], "About [REDACTED]");
        let path = format!("/v1/threads/{}/messages", thread["id"].as_str().unwrap());
        let message = post(
            &path,
            json!({"content": said, "tags": [key()], "enrich": false}),
        )
        .await;
        assert_eq!(message["content"], clean);
        assert_eq!(message["redacted"], true, "{message}");
        let memory = json!({"content": said, "type": "fact"});
        assert_eq!(post("/v1/memories", memory).await["content"], clean);
        let source = post("/v1/sources", json!({"filename": "a.md", "tags": [key()]})).await;
        assert!(source["tags"].to_string().contains("[REDACTED]"));

        let long = format!("{} {said}", "Words about ships. ".repeat(20_000));
        let job = json!({
            "text": long, "filename": "notes.md", "title": key(), "tags": [key()], "author": key(),
            "contextual_helper": format!("Notes with {}.", key()), "options": {"indexes": []},
        });
        let job = post("/v1/ingestions", job).await;
        let job = app
            .get(&format!("/v1/jobs/{}?wait=30", job["id"].as_str().unwrap()))
            .await;
        assert_eq!(job.json()["state"], "succeeded", "{}", job.text);
        let source = job.json()["source_id"].as_str().unwrap().to_owned();
        for part in ["versions/1/content", "helper", "versions", ""] {
            let shown = app.get(&format!("/v1/sources/{source}/{part}")).await;
            assert!(!shown.text.contains("sk-a1B2"), "{part}: {}", shown.text);
        }

        let helper = format!("/v1/sources/{source}/helper");
        let body = json!({"text": format!("The key is {}.", key())});
        let reply = redacted(&app, Method::PUT, &helper, &body).await;
        assert_eq!(reply.json()["text"], "The key is [REDACTED].");
        let body = json!({"tags": ["file_ingest", key()]});
        let path = format!("/v1/sources/{source}");
        let reply = redacted(&app, Method::PATCH, &path, &body).await;
        assert!(
            reply.json()["tags"].to_string().contains("[REDACTED]"),
            "{}",
            reply.text
        );

        let items = json!({"items": [{"text": said, "filename": "b.md"}]});
        let batch = post("/v1/ingestions/batch", items).await;
        let job = batch["jobs"][0]["job_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{batch}"));
        let job = app.get(&format!("/v1/jobs/{job}?wait=30")).await;
        let source = job.json()["source_id"].as_str().unwrap().to_owned();
        let content = app
            .get(&format!("/v1/sources/{source}/versions/1/content"))
            .await;
        assert_eq!(content.text, clean);
        app.finish().await;
    }
}

#[tokio::test]
async fn without_the_header_nothing_is_redacted_and_other_values_are_rejected() {
    let app = TestApp::spawn().await;
    let body = json!({"title": key()});
    let thread = app.post("/v1/threads", &body).await;
    assert_eq!(thread.json()["title"], json!(key()));

    for value in ["", "all", "Secrets, secrets"] {
        let request = app
            .request(Method::POST, "/v1/threads")
            .header("x-memoir-redact", value);
        let reply = send(request.json(&body)).await;
        reply.assert_problem(400, "malformed_request");
    }
    app.finish().await;
}
