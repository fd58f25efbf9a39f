use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};

const KEYS: &str = r#"[
    {"name": "a", "key": "key-of-a", "space": "a"},
    {"name": "b", "key": "key-of-b", "space": "b", "role": "admin"},
    {"name": "all", "key": "key-of-all", "space": "*", "role": "admin"},
    {"name": "hashed", "key_sha256": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", "space": "a"}
]"#;

async fn guarded() -> TestApp {
    TestApp::with(&[("AUTH__KEYS", KEYS)]).await
}

async fn call(
    app: &TestApp,
    method: Method,
    path: &str,
    key: &str,
    space: Option<&str>,
    body: Option<&Value>,
) -> Reply {
    let mut request = app.request(method, path).bearer_auth(key);
    if let Some(space) = space {
        request = request.header("x-memoir-space", space);
    }

    if let Some(body) = body {
        request = request.json(body);
    }

    send(request).await
}

#[tokio::test]
async fn rejects_requests_without_a_known_key() {
    let app = guarded().await;
    let bare = app.get("/v1/info").await;
    bare.assert_problem(401, "unauthorized");
    assert_eq!(bare.header("www-authenticate"), "Bearer");

    for header in [
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic a2V5LW9mLWE=",
        "key-of-a",
        "Bearer key-of-a x",
        "Bearer KEY-OF-A",
    ] {
        let request = app
            .request(Method::GET, "/v1/info")
            .header("authorization", header);
        send(request).await.assert_problem(401, "unauthorized");
    }

    for header in ["Bearer key-of-a", "bearer key-of-b", "Bearer foo"] {
        let request = app
            .request(Method::GET, "/v1/info")
            .header("authorization", header);
        assert_eq!(send(request).await.status, 200, "{header}");
    }

    for open in [
        "/",
        "/assets/app.js",
        "/health/live",
        "/health/ready",
        "/openapi.json",
        "/docs",
    ] {
        assert_eq!(app.get(open).await.status, 200, "{open}");
    }
}

#[tokio::test]
async fn rejects_two_keys_in_one_request() {
    let app = guarded().await;
    for second in ["Bearer key-of-a", "Bearer key-of-b", "Basic a2V5LW9mLWE="] {
        let request = app
            .request(Method::GET, "/v1/info")
            .bearer_auth("key-of-a")
            .header("authorization", second);
        send(request).await.assert_problem(400, "malformed_request");
    }

    // Nor if the service needs no key.
    let open = TestApp::spawn().await;
    let request = open
        .request(Method::GET, "/v1/info")
        .bearer_auth("a")
        .header("authorization", "Bearer b");

    send(request).await.assert_problem(400, "malformed_request");
}

#[tokio::test]
async fn a_key_opens_its_own_space_only() {
    let app = guarded().await;
    for (key, space, status) in [
        ("key-of-a", None, 200),
        ("key-of-a", Some("a"), 200),
        ("key-of-a", Some("b"), 403),
        ("key-of-a", Some("default"), 403),
        ("key-of-all", Some("a"), 200),
        ("key-of-all", None, 200),
        ("key-of-a", Some("A"), 422),
        ("key-of-all", Some("a/b"), 422),
        ("key-of-all", Some(""), 422),
    ] {
        let reply = call(&app, Method::GET, "/v1/sources", key, space, None).await;
        assert_eq!(reply.status, status, "{key} {space:?}: {}", reply.text);
    }
}

#[tokio::test]
async fn metrics_require_an_admin_key_of_all_spaces() {
    let app = guarded().await;
    for key in ["key-of-a", "key-of-b"] {
        call(&app, Method::GET, "/metrics", key, None, None)
            .await
            .assert_problem(403, "forbidden");
    }

    let metrics = call(&app, Method::GET, "/metrics", "key-of-all", None, None).await;
    assert!(
        metrics
            .text
            .contains("memoir_http_request_duration_seconds_bucket"),
        "{}",
        metrics.text
    );
}

/// Every operation that takes an id, tried from another space, because spaces share no data.
#[tokio::test]
async fn an_id_of_another_space_is_not_found() {
    let app = guarded().await;
    let made = call(
        &app,
        Method::POST,
        "/v1/sources",
        "key-of-a",
        None,
        Some(&json!({"path": "/secret.md"})),
    )
    .await;

    let id = made.json()["id"].as_str().unwrap().to_owned();
    let document: Value = app.get("/openapi.json").await.json();
    let mut tried = 0;

    for (path, operations) in document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, _)| path.contains("{id}"))
    {
        for (method, _) in operations.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let body = [Method::POST, Method::PUT, Method::PATCH]
                .contains(&method)
                .then(|| match path.as_str() {
                    "/v1/categories/{id}" => json!({"name": "Secrets"}),
                    "/v1/categories/{id}/merge" => json!({"into": 1}),
                    "/v1/categories/{id}/move" => json!({"parent_id": 1}),
                    "/v1/chunks/{id}" => json!({"category_id": 1}),
                    "/v1/threads/{id}/episodic" => json!({"query": "secrets"}),
                    "/v1/threads/{id}/messages" => json!({"role": "user", "content": "secrets"}),
                    _ => json!({}),
                });
            let reply = call(
                &app,
                method,
                &path.replace("{id}", &id),
                "key-of-b",
                None,
                body.as_ref(),
            )
            .await;

            reply.assert_problem(404, "not_found");
            tried += 1;
        }
    }

    assert!(tried >= 3, "the source lost its operations");
    let listed = call(&app, Method::GET, "/v1/sources", "key-of-b", None, None).await;
    assert_eq!(listed.json()["items"], json!([]));
    assert_eq!(
        call(
            &app,
            Method::GET,
            &format!("/v1/sources/{id}"),
            "key-of-a",
            None,
            None
        )
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn without_keys_every_space_is_open_and_separate() {
    let app = TestApp::spawn().await;
    let request = app
        .request(Method::POST, "/v1/sources")
        .header("x-memoir-space", "team-7");
    let made = send(request.json(&json!({"path": "/x.md"}))).await;
    assert_eq!(made.status, 201);
    let path = made.header("location").to_owned();

    app.get(&path).await.assert_problem(404, "not_found");
    assert_eq!(
        send(
            app.request(Method::GET, &path)
                .header("x-memoir-space", "team-7")
        )
        .await
        .status,
        200
    );
}

/// A web page must not reach an open service through a host name that it points at this machine.
#[tokio::test]
async fn without_keys_only_host_names_of_this_machine_are_served() {
    let app = TestApp::spawn().await;
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("evil.example", 403),
        ("192.168.1.4", 403),
    ] {
        let reply = send(app.request(Method::GET, "/v1/info").header("host", host)).await;
        assert_eq!(reply.status, status, "{host}");
    }
}

#[tokio::test]
async fn the_clock_header_works_only_if_it_is_enabled() {
    for (setting, created_at) in [
        ("true", "2030-05-06T07:08:09.000000Z"),
        ("false", "2026-01-31T12:00:00.000000Z"),
    ] {
        let app = TestApp::with(&[("TESTING__CLOCK_HEADER", setting)]).await;
        let request = app
            .request(Method::POST, "/v1/sources")
            .header("x-memoir-now", "2030-05-06T07:08:09Z");
        let made = send(request.json(&json!({"filename": "a"}))).await;
        assert_eq!(made.json()["created_at"], created_at);
        let wrong = send(
            app.request(Method::GET, "/v1/info")
                .header("x-memoir-now", "soon"),
        )
        .await;
        assert_eq!(wrong.status, if setting == "true" { 422 } else { 200 });
    }
}
