use reqwest::Method;

use crate::support::app::{TestApp, send};

#[tokio::test]
async fn a_request_keeps_its_id_and_its_trace() {
    let app = TestApp::spawn().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = app
        .request(Method::GET, "/v1/nothing")
        .header("x-request-id", "mine-1");
    let reply =
        send(request.header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))).await;
    assert_eq!(reply.header("x-request-id"), "mine-1");
    assert_eq!(reply.json()["request_id"], "mine-1");
    let parts: Vec<&str> = reply.header("traceparent").split('-').collect();

    assert_eq!((parts[1], parts[3]), (trace, "01"));
    assert_ne!(parts[2], "b7ad6b7169203331");
}

#[tokio::test]
async fn a_request_without_a_usable_id_gets_one() {
    let app = TestApp::spawn().await;
    for id in ["", "with space", &"x".repeat(129)] {
        let reply = send(
            app.request(Method::GET, "/v1/info")
                .header("x-request-id", id),
        )
        .await;
        assert_eq!(reply.header("x-request-id").len(), 36);
    }
}

#[tokio::test]
async fn every_response_has_security_headers() {
    let app = TestApp::spawn().await;
    for path in ["/v1/info", "/docs", "/nothing", "/health/live"] {
        let reply = app.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("x-frame-options"), "DENY");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");

        assert!(
            reply
                .header("content-security-policy")
                .starts_with("default-src '")
        );
    }

    assert_eq!(
        app.get("/v1/info").await.header("cache-control"),
        "no-store"
    );
}

#[tokio::test]
async fn long_responses_are_compressed_on_request() {
    let app = TestApp::spawn().await;
    let plain = crate::support::client::builder().no_gzip().build().unwrap();
    for (path, encoding) in [("/openapi.json", "gzip"), ("/health/live", "")] {
        let url = format!("http://{}{path}", app.address);
        let reply = plain
            .get(url)
            .header("accept-encoding", "gzip")
            .send()
            .await
            .unwrap();

        assert_eq!(
            reply
                .headers()
                .get("content-encoding")
                .map_or("", |v| v.to_str().unwrap()),
            encoding,
            "{path}"
        );
    }

    assert!(app.get("/openapi.json").await.json()["paths"].is_object());
}

#[tokio::test]
async fn only_listed_origins_are_allowed() {
    let origin = "https://app.example.com";
    let closed = TestApp::spawn().await;
    let reply = send(
        closed
            .request(Method::GET, "/v1/info")
            .header("origin", origin),
    )
    .await;

    assert_eq!(reply.header("access-control-allow-origin"), "");

    let open = TestApp::with(&[("SERVER__CORS_ORIGINS", origin)]).await;
    for (asking, allowed) in [(origin, origin), ("https://evil.example", "")] {
        let preflight = open
            .request(Method::OPTIONS, "/v1/sources")
            .header("origin", asking);
        let preflight = send(preflight.header("access-control-request-method", "POST")).await;
        assert_eq!(preflight.header("access-control-allow-origin"), allowed);
        let reply = send(
            open.request(Method::GET, "/v1/info")
                .header("origin", asking),
        )
        .await;
        assert_eq!(reply.header("access-control-allow-origin"), allowed);
    }
}
