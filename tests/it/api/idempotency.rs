use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

async fn create(app: &TestApp, key: &str, space: &str, body: &Value) -> Reply {
    let request = app
        .request(Method::POST, "/v1/sources")
        .header("idempotency-key", key);
    send(request.header("x-memoir-space", space).json(body)).await
}

#[tokio::test]
async fn a_repeated_request_has_one_effect_and_one_response() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let body = json!({"path": "/a.md"});
        let first = create(&app, "k-1", "default", &body).await;
        assert_eq!(first.status, 201, "{}", first.text);

        for key in ["k-1", "\"k-1\""] {
            let again = create(&app, key, "default", &body).await;
            assert_eq!((again.status, &again.text), (first.status, &first.text));
            for header in ["location", "etag", "content-type"] {
                assert_eq!(again.header(header), first.header(header));
            }

            assert_eq!(again.header("idempotency-replayed"), "true");
        }

        create(&app, "k-1", "default", &json!({"path": "/b.md"}))
            .await
            .assert_problem(422, "idempotency_key_reused");
        // A key belongs to its space.
        assert_eq!(
            create(&app, "k-1", "other", &json!({"path": "/b.md"}))
                .await
                .status,
            201
        );

        // After a day the key is free again, but the path exists.
        app.clock.advance_seconds(24 * 60 * 60 + 1);
        create(&app, "k-1", "default", &body)
            .await
            .assert_problem(409, "source_exists");
    }
}

#[tokio::test]
async fn a_failed_request_does_not_use_up_its_key() {
    let app = TestApp::spawn().await;
    create(&app, "k", "default", &json!({"path": "relative"}))
        .await
        .assert_problem(422, "invalid_request");
    assert_eq!(
        create(&app, "k", "default", &json!({"path": "/now-right.md"}))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn two_hundred_concurrent_requests_with_one_key_create_one_source() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let body = json!({"filename": "same.md"});
        let mut racing = tokio::task::JoinSet::new();

        for _ in 0..200 {
            let request = app
                .request(Method::POST, "/v1/sources")
                .header("idempotency-key", "storm")
                .json(&body);
            racing.spawn(async move {
                loop {
                    let reply = send(request.try_clone().unwrap()).await;
                    // On a busy machine some wait too long for their turn; a client repeats them.
                    if reply.status != 503 {
                        return reply;
                    }
                }
            });
        }

        let replies = racing.join_all().await;
        for reply in &replies {
            assert_eq!(
                (reply.status.as_u16(), &reply.text),
                (201, &replies[0].text),
                "{:?}",
                app.database.engine
            );
        }

        assert_eq!(
            app.get("/v1/sources").await.json()["items"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn rejects_an_invalid_key() {
    let app = TestApp::spawn().await;
    for key in ["", "\"\"", "two words", &"x".repeat(256)] {
        create(&app, key, "default", &json!({"filename": "a"}))
            .await
            .assert_problem(422, "invalid_request");
    }
}
