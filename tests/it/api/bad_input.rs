//! Every kind of bad input gets a 4xx problem document, and the service keeps running.

use reqwest::Method;
use serde_json::json;

use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;

#[tokio::test]
async fn rejects_invalid_bodies() {
    let app = TestApp::spawn().await;
    let deep = |n: usize| {
        format!(
            r#"{{"filename":"a","tags":{}{}}}"#,
            "[".repeat(n),
            "]".repeat(n)
        )
    };

    let many =
        json!({"filename": "a", "tags": (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>()})
            .to_string();
    let long = json!({"filename": "x".repeat(1_000_000)}).to_string();
    let cases: Vec<(u16, &str, Vec<u8>)> = vec![
        (400, "malformed_request", b"".to_vec()),
        (400, "malformed_request", b"{".to_vec()),
        (
            400,
            "malformed_request",
            b"{\"filename\":\"a\"} trailing".to_vec(),
        ),
        (
            400,
            "malformed_request",
            b"\xef\xbb\xbf{\"filename\":\"a\"}".to_vec(),
        ),
        (
            400,
            "malformed_request",
            b"{\"filename\":\"\xff\xfe\"}".to_vec(),
        ),
        (
            400,
            "malformed_request",
            br#"{"filename":"\ud800"}"#.to_vec(),
        ),
        (
            400,
            "malformed_request",
            br#"{"filename":"a","filename":"b"}"#.to_vec(),
        ),
        (
            400,
            "malformed_request",
            br#"{"filename":"a","eligible":NaN}"#.to_vec(),
        ),
        (
            400,
            "malformed_request",
            br#"{"filename":"a","eligible":1e999}"#.to_vec(),
        ),
        (422, "invalid_request", deep(128).into_bytes()),
        (422, "invalid_request", deep(100_000).into_bytes()),
        (400, "malformed_request", "[".repeat(100_000).into_bytes()),
        (422, "invalid_request", deep(120).into_bytes()),
        (422, "invalid_request", b"null".to_vec()),
        (422, "invalid_request", b"[]".to_vec()),
        (422, "invalid_request", b"{}".to_vec()),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","unknown":1}"#.to_vec(),
        ),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","space":"other"}"#.to_vec(),
        ),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","id":"mine"}"#.to_vec(),
        ),
        (422, "invalid_request", br#"{"filename":7}"#.to_vec()),
        (
            422,
            "invalid_request",
            br#"{"filename":"a\u0000b"}"#.to_vec(),
        ),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","tags":["x\u0000"]}"#.to_vec(),
        ),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","user_id":"\u0000"}"#.to_vec(),
        ),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","eligible":-0}"#.to_vec(),
        ),
        (
            422,
            "invalid_request",
            br#"{"filename":"a","eligible":9223372036854775808}"#.to_vec(),
        ),
        (422, "invalid_request", br#"{"filename":"\r\n"}"#.to_vec()),
        (422, "invalid_request", many.into_bytes()),
        (422, "invalid_request", long.into_bytes()),
    ];

    for (status, code, body) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let request = app
            .request(Method::POST, "/v1/sources")
            .header("content-type", "application/json")
            .body(body);

        let reply = send(request).await;
        assert_eq!(reply.status, status, "{shown}: {}", reply.text);
        reply.assert_problem(status, code);
    }

    assert_eq!(app.get("/v1/sources").await.json()["items"], json!([]));
}

#[tokio::test]
async fn rejects_a_body_over_the_limit_and_keeps_the_connection() {
    let app = TestApp::with(&[("LIMITS__MAX_BODY_BYTES", "100000")]).await;
    let body = |size: usize| format!(r#"{{"text":"{}"}}"#, "x".repeat(size - 11));
    for (size, status) in [(100_000, 200), (100_001, 413), (11 << 20, 413)] {
        let request = app
            .request(Method::POST, "/v1/tokens/count")
            .header("content-type", "application/json");
        let reply = send(request.body(body(size))).await;
        assert_eq!(reply.status, status);
        if status == 413 {
            reply.assert_problem(413, "body_too_large");
            assert_eq!(reply.json()["context"]["max_body_bytes"], 100_000);
        }
    }
}

#[tokio::test]
async fn accepts_only_plain_json() {
    let app = TestApp::spawn().await;
    for (header, value) in [
        ("content-type", "text/plain"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-type", "application/jsonp"),
        ("content-encoding", "gzip"),
    ] {
        let mut request = app
            .request(Method::POST, "/v1/sources")
            .header(header, value)
            .body(r#"{"filename":"a"}"#);
        if header != "content-type" {
            request = request.header("content-type", "application/json");
        }
        send(request)
            .await
            .assert_problem(415, "unsupported_media_type");
    }

    for accepted in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/merge-patch+json",
    ] {
        let request = app
            .request(Method::POST, "/v1/tokens/count")
            .header("content-type", accepted);
        assert_eq!(
            send(request.body(r#"{"text":"a"}"#)).await.status,
            200,
            "{accepted}"
        );
    }
}

#[tokio::test]
async fn rejects_invalid_query_strings_and_paths() {
    let app = TestApp::spawn().await;
    for (path, status, code) in [
        ("/v1/sources?limit=0", 422, "invalid_request"),
        ("/v1/sources?limit=501", 422, "invalid_request"),
        ("/v1/sources?limit=-1", 422, "invalid_request"),
        ("/v1/sources?limit=many", 422, "invalid_request"),
        (
            "/v1/sources?limit=99999999999999999999",
            422,
            "invalid_request",
        ),
        ("/v1/sources?limit=1&limit=2", 422, "invalid_request"),
        ("/v1/sources?eligible=perhaps", 422, "invalid_request"),
        ("/v1/sources?colour=red", 422, "invalid_request"),
        ("/v1/sources?tag=a%00b", 422, "invalid_request"),
        ("/v1/sources?cursor=nonsense", 400, "invalid_cursor"),
        (
            "/v1/sources?cursor=eyJhZnRlciI6WzEsMl0sImZpbHRlciI6IiJ9",
            400,
            "invalid_cursor",
        ),
        ("/v1/sources/none", 404, "not_found"),
        ("/v1/sources/%00", 404, "not_found"),
        ("/v1/sources/%FF", 400, "malformed_request"),
        ("/v1/sources/'%20OR%201=1--", 404, "not_found"),
        ("/v1/sources/..%2F..%2Fetc%2Fpasswd", 404, "not_found"),
        (
            "/v1/sources/00000000-0000-7000-8000-000000000000",
            404,
            "not_found",
        ),
        ("/v1/nothing", 404, "unknown_route"),
        ("/v2/info", 404, "unknown_route"),
        ("/docs/../../etc/passwd", 404, "unknown_route"),
        ("/docs/nothing.js", 404, "unknown_route"),
        ("//", 404, "unknown_route"),
    ] {
        let reply = app.get(path).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        reply.assert_problem(status, code);
    }

    for user in ["a%00b", &"u".repeat(200), "%20"] {
        let path = format!("/v1/users/{user}");
        let reply = send(app.request(Method::DELETE, &path)).await;
        reply.assert_problem(422, "invalid_request");
    }

    app.get("/v1/sources?tag=%FF")
        .await
        .assert_problem(400, "malformed_request");
    for query in [
        "tag=%27%3B--",
        "tag=%25_%5C",
        "tag=$1",
        "filename=..%2Fx",
        "user_id=%E2%80%AE",
    ] {
        assert_eq!(
            app.get(&format!("/v1/sources?{query}")).await.status,
            200,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_wrong_method_lists_the_allowed_ones() {
    let app = TestApp::spawn().await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/info", "GET,HEAD"),
        (Method::DELETE, "/v1/sources", "GET,HEAD,POST"),
        (Method::POST, "/v1/sources/x", "DELETE,GET,HEAD,PATCH"),
        (Method::TRACE, "/health/live", "GET,HEAD"),
        (Method::OPTIONS, "/v1/info", "GET,HEAD"),
        (Method::from_bytes(b"BREW").unwrap(), "/v1/info", "GET,HEAD"),
    ] {
        let reply = send(app.request(method.clone(), path)).await;
        reply.assert_problem(405, "method_not_allowed");
        let mut named: Vec<&str> = reply.header("allow").split(',').collect();
        named.sort_unstable();
        assert_eq!(named.join(","), allow, "{method} {path}");
    }

    let head = send(app.request(Method::HEAD, "/v1/info")).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
}

/// A database may fail to compare values that it cannot store.
#[tokio::test]
async fn strange_filters_and_forged_cursors_cause_no_server_error() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    for database in TestDatabase::each().await {
        let settings = [("TESTING__PROBE_JOBS", "true"), ("JOBS__WORKERS", "0")];
        let app = TestApp::on(database, &settings).await;
        for _ in 0..2 {
            assert_eq!(
                app.post("/v1/sources", &json!({"filename": "a"}))
                    .await
                    .status,
                201
            );
            assert_eq!(app.post("/v1/testing/jobs", &json!({})).await.status, 202);
        }

        for path in ["/v1/sources", "/v1/jobs"] {
            let honest = app.get(&format!("{path}?limit=1")).await.json()["next_cursor"]
                .as_str()
                .unwrap()
                .to_owned();

            let mut cursor: serde_json::Value =
                serde_json::from_slice(&URL_SAFE_NO_PAD.decode(honest).unwrap()).unwrap();
            let with = |cursor: &serde_json::Value| {
                format!(
                    "{path}?cursor={}",
                    URL_SAFE_NO_PAD.encode(cursor.to_string())
                )
            };

            // A cursor that is decoded and encoded again still works, so only the id can cause the
            // rejection below.
            assert_eq!(app.get(&with(&cursor)).await.status, 200);
            for id in ["\0", "日", "x", "'", ""] {
                cursor["after"][1] = id.into();
                app.get(&with(&cursor))
                    .await
                    .assert_problem(400, "invalid_cursor");
            }
        }

        for query in [
            "/v1/jobs?kind=日&source_id=😀",
            "/v1/jobs?kind=probe%20",
            "/v1/sources?tag=日%20",
            "/v1/sources?user_id=😀",
        ] {
            let reply = app.get(query).await;
            assert_eq!(
                (reply.status.as_u16(), &reply.json()["items"]),
                (200, &json!([])),
                "{query}: {}",
                reply.text
            );
        }
    }
}
