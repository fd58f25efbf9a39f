//! The header `Host`: what is not a host and a port is refused, with and without keys.

use super::transport::{open, until_closed};
use crate::support::app::TestApp;

/// The status of a request with these lines after its request line.
async fn status(app: &TestApp, target: &str, lines: &str) -> u16 {
    let request = format!(
        "GET {target} HTTP/1.1\r\n{lines}Authorization: Bearer k\r\nConnection: close\r\n\r\n"
    );
    let answer = until_closed(&mut open(app, request.as_bytes()).await).await;
    let status = answer.get(9..12).unwrap_or_default();
    status
        .parse()
        .unwrap_or_else(|_| panic!("{lines}: {answer}"))
}

/// The lines of the header, and the status without keys and with keys.
const HOSTS: &[(&str, u16, u16)] = &[
    ("Host: localhost\r\n", 200, 200),
    ("Host: localhost:80\r\n", 200, 200),
    ("Host: LOCALHOST:8080\r\n", 200, 200),
    ("Host: localhost.\r\n", 200, 200),
    ("Host: 127.0.0.1:9\r\n", 200, 200),
    ("Host: [::1]:9\r\n", 200, 200),
    ("Host: [::1]\r\n", 200, 200),
    // Valid names of another machine: only for a service with keys.
    ("Host: evil\r\n", 403, 200),
    ("Host: evil.example:80\r\n", 403, 200),
    ("Host: my_service:8080\r\n", 403, 200),
    ("Host: [2001:db8::1]:80\r\n", 403, 200),
    ("Host: 10.0.0.1\r\n", 403, 200),
    ("Host: localhost.evil\r\n", 403, 200),
    // Not a host and a port.
    ("Host: localhost:80@evil\r\n", 400, 400),
    ("Host: localhost@evil\r\n", 400, 400),
    ("Host: evil@localhost\r\n", 400, 400),
    ("Host: user:pass@localhost:80\r\n", 400, 400),
    ("Host: localhost evil\r\n", 400, 400),
    ("Host: localhost:80 evil\r\n", 400, 400),
    ("Host: localhost,evil\r\n", 400, 400),
    ("Host: localhost/evil\r\n", 400, 400),
    ("Host: localhost?evil\r\n", 400, 400),
    ("Host: localhost#evil\r\n", 400, 400),
    ("Host: localhost\\evil\r\n", 400, 400),
    ("Host: evil%00.localhost\r\n", 400, 400),
    ("Host: http://localhost\r\n", 400, 400),
    ("Host: localhost:evil\r\n", 400, 400),
    ("Host: localhost:80:80\r\n", 400, 400),
    ("Host: localhost:99999\r\n", 400, 400),
    ("Host: localhost:-1\r\n", 400, 400),
    ("Host: localhost:+1\r\n", 400, 400),
    ("Host: ::1\r\n", 400, 400),
    ("Host: [::1\r\n", 400, 400),
    ("Host: [::1]evil\r\n", 400, 400),
    ("Host: [::1]:80@evil\r\n", 400, 400),
    ("Host: [localhost]\r\n", 400, 400),
    ("Host: [::1]]:80\r\n", 400, 400),
    ("Host: lócalhost\r\n", 400, 400),
    ("Host: .localhost\r\n", 400, 400),
    ("Host: evil..localhost\r\n", 400, 400),
    ("Host: :80\r\n", 400, 400),
    ("Host: \r\n", 400, 400),
    ("Host: localhost\r\nHost: localhost\r\n", 400, 400),
    ("Host: localhost\r\nHost: evil\r\n", 400, 400),
    ("Host: evil\r\nHost: localhost\r\n", 400, 400),
];

/// The target, the lines, and the status without keys and with keys.
const TARGETS: &[(&str, &str, u16, u16)] = &[
    ("http://localhost/v1/info", "Host: localhost\r\n", 200, 200),
    (
        "http://LOCALHOST:80/v1/info",
        "Host: localhost:80\r\n",
        200,
        200,
    ),
    ("http://evil/v1/info", "Host: evil\r\n", 403, 200),
    ("http://evil/v1/info", "Host: localhost\r\n", 400, 400),
    ("http://localhost/v1/info", "Host: evil\r\n", 400, 400),
    (
        "http://localhost@evil/v1/info",
        "Host: localhost\r\n",
        400,
        400,
    ),
    (
        "http://localhost:80@evil/v1/info",
        "Host: localhost:80@evil\r\n",
        400,
        400,
    ),
    (
        "http://localhost:80/v1/info",
        "Host: localhost:81\r\n",
        400,
        400,
    ),
    ("http://evil/v1/info", "", 403, 200),
];

#[tokio::test]
async fn a_malformed_host_is_refused() {
    let open = TestApp::spawn().await;
    let keys = r#"[{"key":"k","space":"*","role":"admin"}]"#;
    let guarded = TestApp::with(&[("AUTH__KEYS", keys)]).await;
    let mut wrong = Vec::new();
    for (lines, without_keys, with_keys) in HOSTS {
        for (app, wanted) in [(&open, without_keys), (&guarded, with_keys)] {
            let seen = status(app, "/v1/info", lines).await;
            if seen != *wanted {
                wrong.push(format!("{lines:?}: {seen} instead of {wanted}"));
            }
        }
    }

    for (target, lines, without_keys, with_keys) in TARGETS {
        for (app, wanted) in [(&open, without_keys), (&guarded, with_keys)] {
            let seen = status(app, target, lines).await;
            if seen != *wanted {
                wrong.push(format!("{target} {lines:?}: {seen} instead of {wanted}"));
            }
        }
    }

    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The page, the documentation and the probes too.
#[tokio::test]
async fn no_route_accepts_a_malformed_host() {
    let app = TestApp::spawn().await;
    for path in [
        "/",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/health/live",
        "/nothing",
    ] {
        assert_eq!(
            status(&app, path, "Host: localhost:80@evil\r\n").await,
            400,
            "{path}"
        );
    }
}
