//! Requests from web pages of other origins.

use reqwest::Method;
use serde_json::json;

use crate::support::app::{Reply, TestApp, send};

const TRUSTED: &str = "https://app.example.com";

/// A request as a browser sends it; `own` in the origin stands for the service's own address.
async fn ask(
    app: &TestApp,
    method: Method,
    path: &str,
    origin: Option<&str>,
    site: Option<&str>,
) -> Reply {
    let mut request = app
        .request(method, path)
        .bearer_auth("k")
        .json(&json!({"filename": "planted.md"}));

    if let Some(origin) = origin {
        request = request.header("origin", origin.replace("own", &app.address.to_string()));
    }

    if let Some(site) = site {
        request = request.header("sec-fetch-site", site);
    }

    send(request).await
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing() {
    let keys = ("AUTH__KEYS", r#"[{"key":"k","space":"*","role":"admin"}]"#);
    for settings in [vec![], vec![keys], vec![("SERVER__CORS_ORIGINS", TRUSTED)]] {
        let trusts = settings
            .iter()
            .any(|(name, _)| *name == "SERVER__CORS_ORIGINS");
        let app = TestApp::with(&settings).await;
        for (origin, site, foreign) in [
            // The command line and servers.
            (None, None, false),
            // The page itself, in a current and in an old browser.
            (Some("http://own"), Some("same-origin"), false),
            (Some("http://own"), None, false),
            (None, Some("same-origin"), false),
            (Some("http://own"), Some("same-site"), false),
            // The page itself behind a proxy that changes the Host header: the browser reports that
            // it has the same origin.
            (Some("https://memoir.example"), Some("same-origin"), false),
            (None, Some("none"), false),
            // Other pages.
            (Some("https://evil.example"), Some("cross-site"), true),
            (Some("https://evil.example"), None, true),
            (Some("https://evil.example"), Some("none"), true),
            (Some("http://127.0.0.1:1"), Some("same-site"), true),
            (Some("http://127.0.0.1:1"), None, true),
            (Some("null"), Some("cross-site"), true),
            (Some("null"), None, true),
            (Some("http://own"), Some("cross-site"), true),
            (Some("http://own.evil.example"), None, true),
            (None, Some("cross-site"), true),
            (None, Some("same-site"), true),
            (None, Some("something-new"), true),
            // An origin in `server.cors_origins`.
            (Some(TRUSTED), Some("cross-site"), !trusts),
            (Some(TRUSTED), None, !trusts),
            (
                Some("https://app.example.com:444"),
                Some("cross-site"),
                true,
            ),
            (Some("http://app.example.com"), None, true),
        ] {
            let reply = ask(&app, Method::POST, "/v1/sources", origin, site).await;
            if foreign {
                reply.assert_problem(403, "cross_origin_request");
                assert!(
                    reply.json()["remediation"]
                        .as_str()
                        .unwrap()
                        .contains("server.cors_origins")
                );
            } else {
                assert_eq!(reply.status, 201, "{origin:?} {site:?} {}", reply.text);
            }
            // Reading is allowed; the browser hides the response from the page.
            assert_eq!(
                ask(&app, Method::GET, "/v1/sources", origin, site)
                    .await
                    .status,
                200,
                "{origin:?} {site:?}"
            );
        }
    }
}

#[tokio::test]
async fn every_operation_that_changes_something_is_guarded() {
    let app = TestApp::spawn().await;
    let document = app.get("/openapi.json").await.json();
    let mut tried = 0;

    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations
            .as_object()
            .unwrap()
            .keys()
            .filter(|method| *method != "get")
        {
            let method: Method = method.to_uppercase().parse().unwrap();
            let reply = ask(
                &app,
                method,
                &path.replace("{id}", "x"),
                Some("https://evil.example"),
                None,
            )
            .await;

            reply.assert_problem(403, "cross_origin_request");
            tried += 1;
        }
    }

    assert!(tried > 15, "{tried}");
}

/// The requests of `fetch` with `mode: "no-cors"`, and of a form without a script.
#[tokio::test]
async fn rejects_simple_requests_from_a_page_of_another_origin() {
    let app = TestApp::spawn().await;
    let part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nplanted\r\n--b--\r\n";
    for (kind, body) in [
        ("multipart/form-data; boundary=b", part),
        ("text/plain", r#"{"text": "planted"}"#),
        ("application/x-www-form-urlencoded", "text=planted"),
    ] {
        let request = app
            .request(Method::POST, "/v1/ingestions")
            .header("content-type", kind)
            .body(body);
        let request = request
            .header("origin", "https://evil.example")
            .header("sec-fetch-site", "cross-site");
        send(request)
            .await
            .assert_problem(403, "cross_origin_request");
    }

    assert_eq!(app.get("/v1/jobs").await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_repeated_origin_header_counts_as_another_origin() {
    let app = TestApp::spawn().await;
    let own = format!("http://{}", app.address);
    let request = app
        .request(Method::POST, "/v1/sources")
        .json(&json!({"filename": "a.md"}));
    let request = request
        .header("origin", &own)
        .header("origin", "https://evil.example");

    send(request)
        .await
        .assert_problem(403, "cross_origin_request");
}
