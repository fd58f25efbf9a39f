//! API keys: created, shown once, limited, expired, revoked; and the role that each route needs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Row as _;

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::Ingest;

const KEYS: &str = r#"[
    {"name": "root", "key": "root-key", "space": "*", "role": "admin"},
    {"name": "of a", "key": "admin-of-a", "space": "a", "role": "admin"},
    {"name": "reader", "key": "reader-of-a", "space": "a", "role": "read"},
    {"name": "user", "key": "user-of-a", "space": "a", "role": "user"}
]"#;

async fn call(app: &TestApp, key: &str, method: Method, path: &str, body: Option<&Value>) -> Reply {
    let request = app.request(method, path).bearer_auth(key);
    send(match body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

async fn get(app: &TestApp, key: &str, path: &str) -> Reply {
    call(app, key, Method::GET, path, None).await
}

async fn post(app: &TestApp, key: &str, path: &str, body: &Value) -> Reply {
    call(app, key, Method::POST, path, Some(body)).await
}

/// Creates a key and returns its id and secret.
async fn make(app: &TestApp, key: &str, body: &Value) -> (String, String) {
    let made = post(app, key, "/v1/admin/keys", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.json();
    (
        made["key"]["id"].as_str().unwrap().to_owned(),
        made["secret"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn a_key_is_shown_once_and_stored_hashed() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[("AUTH__KEYS", KEYS)]).await;
        let body = json!({"name": "wiki", "space": "a", "role": "read", "expires_at": "2027-01-01T00:00:00Z",
            "limits": {"requests_per_minute": 1000, "models": ["local:*"], "day": {"usd": 1.5}}});
        let (id, secret) = make(&app, "root-key", &body).await;
        assert!(
            secret.starts_with("memoir_") && secret.len() == 50,
            "{secret}"
        );

        assert_eq!(
            get(&app, &secret, "/v1/info").await.json()["auth"]["required"],
            true
        );

        assert_eq!(
            get(&app, &secret, "/v1/sources").await.status,
            200,
            "{engine:?}"
        );

        let shown = get(&app, "root-key", &format!("/v1/admin/keys/{id}")).await;
        assert!(!shown.text.contains(&secret));
        let shown = shown.json();
        assert_eq!(shown["prefix"], secret[..12]);
        assert_eq!(
            (&shown["origin"], &shown["state"], &shown["space"]),
            (&json!("api"), &json!("active"), &json!("a"))
        );

        assert_eq!(
            shown["limits"]["day"],
            json!({"calls": 0, "tokens": 0, "usd": 1.5})
        );

        let listed = get(&app, "root-key", "/v1/admin/keys").await;
        assert!(
            !listed.text.contains(&secret)
                && listed.text.contains(&id)
                && listed.text.contains("config-")
        );

        // The secret is in no column of any table that could contain it.
        let mut connection = app.database.connect().await;
        let row = sqlx::query("SELECT key_sha256, prefix, limits_json FROM api_keys")
            .fetch_one(&mut connection)
            .await;
        let row = row.unwrap();
        let stored: Vec<String> = (0..3).map(|index| row.get(index)).collect();
        assert_eq!(stored[0], memoir_text::hash::sha256_hex(secret.as_bytes()));
        assert!(!stored.concat().contains(&secret));
        let kept = sqlx::query("SELECT COUNT(*) FROM idempotency_keys")
            .fetch_one(&mut connection)
            .await
            .unwrap();

        assert_eq!(kept.get::<i64, _>(0), 0);

        let keyed = app
            .request(Method::POST, "/v1/admin/keys")
            .bearer_auth("root-key")
            .header("idempotency-key", "k");

        send(keyed.json(&body))
            .await
            .assert_problem(422, "invalid_request");
        app.finish().await;
    }
}

#[tokio::test]
async fn keys_are_listed_in_pages() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    for name in ["one", "two", "three"] {
        make(&app, "root-key", &json!({"name": name, "space": "b"})).await;
    }

    let mut names = Vec::new();
    let mut path = "/v1/admin/keys?limit=2".to_owned();
    loop {
        let page = get(&app, "root-key", &path).await.json();
        names.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|key| key["name"].as_str().unwrap().to_owned()),
        );

        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/admin/keys?limit=2&cursor={cursor}");
    }

    assert_eq!(
        (names.len(), &names[4..]),
        (7, ["one", "two", "three"].map(str::to_owned).as_slice())
    );

    let of_b = get(&app, "root-key", "/v1/admin/keys?space=b").await.json();
    assert_eq!(of_b["items"].as_array().unwrap().len(), 3);
    get(&app, "root-key", "/v1/admin/keys?space=B")
        .await
        .assert_problem(422, "invalid_request");
}

/// Calls every operation of the OpenAPI document with a key of each role: the documented role is
/// enforced.
#[tokio::test]
async fn every_route_requires_its_documented_role() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    let document: Value = app.get("/openapi.json").await.json();
    let mut tried = 0;

    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if !path.starts_with("/v1/") {
                continue;
            }

            tried += 1;
            let text = operation["description"].as_str().unwrap();
            let role = text
                .rsplit("with the role `")
                .next()
                .and_then(|rest| rest.split('`').next())
                .unwrap();

            let method: Method = method.to_uppercase().parse().unwrap();
            let place = ["{id}", "{version}", "{a}", "{b}", "{space}"]
                .iter()
                .fold(path.clone(), |p, part| p.replace(part, "1"));
            let body = [Method::POST, Method::PUT, Method::PATCH]
                .contains(&method)
                .then(|| json!({}));
            let bare = app.request(method.clone(), &place);
            send(bare).await.assert_problem(401, "unauthorized");

            for (key, allowed) in [
                ("reader-of-a", role == "read"),
                ("user-of-a", role != "admin"),
                ("admin-of-a", true),
            ] {
                let reply = call(&app, key, method.clone(), &place, body.as_ref()).await;
                let refused = reply.status == 403 && reply.json()["context"]["needed_role"] == role;
                assert_eq!(
                    refused, !allowed,
                    "{key} {method} {path} needs {role}: {}",
                    reply.text
                );
            }

            // A reader may not change anything.
            let only_reads = method == Method::GET || role == "read";
            assert!(
                only_reads || ["user", "admin"].contains(&role),
                "{method} {path}: {role}"
            );
        }
    }

    assert!(tried > 45, "{tried}");
    let reading: Vec<&String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, item)| {
            item["post"]["description"]
                .as_str()
                .is_some_and(|text| text.contains("role `read`"))
        })
        .map(|(path, _)| path)
        .collect();

    assert_eq!(
        reading,
        [
            "/v1/context",
            "/v1/context/analyze",
            "/v1/documents/retrieve",
            "/v1/exports",
            "/v1/memory/retrieve",
            "/v1/policies/try",
            "/v1/prompts",
            "/v1/prompts/estimate",
            "/v1/queries",
            "/v1/queries/estimate",
            "/v1/queries/{id}/replay",
            "/v1/runs/{id}/cancel",
            "/v1/search",
            "/v1/sources/{id}/helper/preview",
            "/v1/threads/{id}/episodic",
            "/v1/tokens/count"
        ],
        "a POST that readers may send: be sure that it changes nothing"
    );
}

#[tokio::test]
async fn a_reader_can_query_but_change_nothing() {
    let test = Ingest::with(&[("AUTH__KEYS", KEYS), ("LLM__MODEL", "local:embedded")]).await;
    let app = &test.app;
    let ingestion =
        json!({"text": "Lighthouses warn ships of rocks.", "filename": "a.md", "wait": true});
    post(app, "reader-of-a", "/v1/ingestions", &ingestion)
        .await
        .assert_problem(403, "forbidden");
    assert_eq!(
        post(app, "user-of-a", "/v1/ingestions", &ingestion)
            .await
            .status,
        200
    );

    let found = post(
        app,
        "reader-of-a",
        "/v1/search",
        &json!({"query": "lighthouses"}),
    )
    .await;

    assert_eq!(
        found.json()["items"].as_array().unwrap().len(),
        1,
        "{}",
        found.text
    );

    let answer = post(
        app,
        "reader-of-a",
        "/v1/queries",
        &json!({"query": "What do lighthouses do?"}),
    )
    .await;

    assert_eq!(answer.status, 200, "{}", answer.text);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let replay = format!("/v1/queries/{id}/replay");
    assert_eq!(
        post(app, "reader-of-a", &replay, &json!({"mode": "recorded"}))
            .await
            .status,
        200
    );

    let live = post(app, "reader-of-a", &replay, &json!({"mode": "live"})).await;
    live.assert_problem(403, "forbidden");
    assert_eq!(live.json()["context"]["needed_role"], "user");
}

#[tokio::test]
async fn rejects_an_expired_key() {
    for database in TestDatabase::each().await {
        let keys = r#"[{"name": "root", "key": "root-key", "space": "*", "role": "admin"},
            {"name": "brief", "key": "brief-key", "expires": "2026-01-31T13:00:00Z"}]"#;
        let app = TestApp::on(database, &[("AUTH__KEYS", keys)]).await;
        let body = json!({"name": "an hour", "expires_at": "2026-01-31T13:00:00Z"});
        let (id, secret) = make(&app, "root-key", &body).await;
        let past = json!({"name": "past", "expires_at": "2026-01-31T11:00:00Z"});

        post(&app, "root-key", "/v1/admin/keys", &past)
            .await
            .assert_problem(422, "invalid_request");
        for key in [secret.as_str(), "brief-key"] {
            assert_eq!(get(&app, key, "/v1/sources").await.status, 200);
        }

        app.clock.advance_seconds(3600);
        for key in [secret.as_str(), "brief-key"] {
            let refused = get(&app, key, "/v1/sources").await;
            refused.assert_problem(401, "unauthorized");
            assert!(refused.text.contains("expired"), "{}", refused.text);
        }

        let path = format!("/v1/admin/keys/{id}");
        assert_eq!(
            get(&app, "root-key", &path).await.json()["state"],
            "expired"
        );

        let later = json!({"expires_at": "2026-02-28T00:00:00Z"});
        assert_eq!(
            call(&app, "root-key", Method::PATCH, &path, Some(&later))
                .await
                .json()["state"],
            "active"
        );

        assert_eq!(get(&app, &secret, "/v1/sources").await.status, 200);
        app.finish().await;
    }
}

#[tokio::test]
async fn every_process_rejects_a_revoked_key() {
    for database in TestDatabase::each().await {
        let database = Arc::new(database);
        let url = database.url.clone();
        let settings = [("AUTH__KEYS", KEYS)];
        let here = TestApp::at(&url, Arc::clone(&database), &settings).await;
        let there = TestApp::at(&url, Arc::clone(&database), &settings).await;
        let (id, secret) = make(
            &here,
            "root-key",
            &json!({"name": "wiki", "space": "a", "role": "user"}),
        )
        .await;

        assert_eq!(get(&here, &secret, "/v1/sources").await.status, 200);
        // A key created in one process works in the other within the documented time.
        let seen = until(&there, &secret, 200).await;
        assert!(seen < Duration::from_secs(10), "{seen:?}");

        let path = format!("/v1/admin/keys/{id}");
        assert_eq!(
            call(&here, "root-key", Method::DELETE, &path, None)
                .await
                .status,
            204
        );

        let refused = get(&here, &secret, "/v1/sources").await;
        refused.assert_problem(401, "unauthorized");
        assert!(refused.text.contains("revoked"), "{}", refused.text);
        until(&there, &secret, 401).await;
        assert_eq!(
            call(&there, "root-key", Method::DELETE, &path, None)
                .await
                .status,
            204,
            "once more is fine"
        );

        // A change does not reactivate it.
        call(
            &there,
            "root-key",
            Method::PATCH,
            &path,
            Some(&json!({"name": "other"})),
        )
        .await;

        assert_eq!(
            get(&here, "root-key", &path).await.json()["state"],
            "revoked"
        );

        let of_config =
            get(&here, "root-key", "/v1/admin/keys").await.json()["items"][0]["id"].clone();
        let path = format!("/v1/admin/keys/{}", of_config.as_str().unwrap());
        call(&here, "root-key", Method::DELETE, &path, None)
            .await
            .assert_problem(409, "key_of_configuration");
        here.finish().await;

        there.finish().await;
    }
}

/// Measures the time until requests with a key get this status; a busy machine gets more than the
/// documented time.
async fn until(app: &TestApp, key: &str, status: u16) -> Duration {
    let began = Instant::now();
    while get(app, key, "/v1/sources").await.status != status {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "not seen after {:?}",
            began.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    began.elapsed()
}

#[tokio::test]
async fn unknown_keys_cause_no_database_query() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    get(&app, "guess", "/v1/sources")
        .await
        .assert_problem(401, "unauthorized");

    // Without its table, every lookup would fail.
    app.database.execute("DROP TABLE api_keys").await;
    for number in 0..50 {
        get(&app, &format!("guess-{number}"), "/v1/sources")
            .await
            .assert_problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn requests_per_minute_are_counted_across_processes() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let database = Arc::new(database);
        let url = database.url.clone();
        let keys = r#"[{"name": "slow", "key": "slow-key", "requests_per_minute": 12}]"#;
        let here = TestApp::at(&url, Arc::clone(&database), &[("AUTH__KEYS", keys)]).await;
        let there = TestApp::at(&url, Arc::clone(&database), &[("AUTH__KEYS", keys)]).await;
        let mut fine = 0;
        let mut refused = None;

        for _ in 0..10 {
            for app in [&here, &there] {
                let reply = get(app, "slow-key", "/v1/info").await;
                if reply.status == 200 {
                    fine += 1;
                } else {
                    refused = Some(reply);
                }
            }
        }

        assert_eq!(fine, 12, "{engine:?}");
        let refused = refused.unwrap();
        refused.assert_problem(429, "rate_limited");
        assert_eq!(
            (
                refused.header("retry-after"),
                refused.header("ratelimit-limit")
            ),
            ("60", "12")
        );

        for app in [&here, &there] {
            app.clock.advance_seconds(60);
            assert_eq!(
                get(app, "slow-key", "/v1/info").await.status,
                200,
                "{engine:?}: the next minute"
            );
        }

        here.finish().await;
        there.finish().await;
    }
}

#[tokio::test]
async fn concurrent_requests_stay_within_the_limit() {
    let keys = r#"[{"name": "quick", "key": "quick-key", "requests_per_minute": 100}]"#;
    let app = TestApp::with(&[("AUTH__KEYS", keys)]).await;
    let asking = (0..200).map(|_| get(&app, "quick-key", "/v1/info"));
    let replies = futures_util::future::join_all(asking).await;
    assert_eq!(
        replies.iter().filter(|reply| reply.status == 200).count(),
        100
    );

    assert!(
        replies
            .iter()
            .all(|reply| [200, 429].contains(&reply.status.as_u16()))
    );
}

#[tokio::test]
async fn a_key_can_use_only_its_models() {
    let keys = r#"[{"name": "cheap", "key": "cheap-key", "models": ["local:*"]}]"#;
    let test = Ingest::with(&[("AUTH__KEYS", keys)]).await;
    let other = "openai_stub:m";

    for (path, body) in [
        ("/v1/queries", json!({"query": "x", "model": other})),
        (
            "/v1/queries",
            json!({"query": "x", "model": "openai_stub:other"}),
        ),
        (
            "/v1/ingestions",
            json!({"text": "x", "options": {"model": other}}),
        ),
        ("/v1/models/probe", json!({"model": other})),
    ] {
        let refused = post(&test.app, "cheap-key", path, &body).await;
        refused.assert_problem(403, "forbidden");
        assert_eq!(refused.json()["context"]["models"], json!(["local:*"]));
    }

    let fine = post(
        &test.app,
        "cheap-key",
        "/v1/models/probe",
        &json!({"model": "local"}),
    )
    .await;

    assert_eq!(fine.json()["ok"], true, "{}", fine.text);
    assert_eq!(test.model.requests().len(), 0);
}

/// Every model call counts for the key: those of a request and those of a job that it queued.
#[tokio::test]
async fn the_daily_cap_of_a_key_covers_requests_and_jobs() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let keys = r#"[{"name": "root", "key": "root-key", "space": "*", "role": "admin"}]"#;
        let test = Ingest::on(database, &[("AUTH__KEYS", keys)]).await;
        let body = json!({"name": "capped", "space": "a", "limits": {"day": {"calls": 4}}});
        let (_, capped) = make(&test.app, "root-key", &body).await;
        let (_, free) = make(
            &test.app,
            "root-key",
            &json!({"name": "free", "space": "a"}),
        )
        .await;

        for _ in 0..2 {
            let probed = post(&test.app, &capped, "/v1/models/probe", &json!({})).await;
            assert_eq!(probed.status, 200, "{engine:?} {}", probed.text);
        }

        let ingestion =
            json!({"text": "Lighthouses warn ships of rocks.", "filename": "a.md", "wait": true});
        let ended = post(&test.app, &capped, "/v1/ingestions", &ingestion)
            .await
            .json();
        assert_eq!(ended["state"], "failed", "{engine:?} {ended}");
        assert_eq!(ended["error"]["code"], "spend_cap_reached", "{ended}");
        assert_eq!(ended["error"]["context"]["scope"], "key and day", "{ended}");
        let refused = post(&test.app, &capped, "/v1/models/probe", &json!({})).await;

        refused.assert_problem(429, "spend_cap_reached");
        assert!(!refused.header("retry-after").is_empty());
        assert_eq!(test.model.requests().len(), 4, "{engine:?}");

        // Another key of the same space is not affected.
        assert_eq!(
            post(&test.app, &free, "/v1/models/probe", &json!({}))
                .await
                .json()["ok"],
            true
        );

        test.app.finish().await;
    }
}

#[tokio::test]
async fn an_admin_of_one_space_manages_only_that_space() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    let (of_b, _) = make(&app, "root-key", &json!({"name": "b", "space": "b"})).await;
    let (of_a, _) = make(&app, "admin-of-a", &json!({"name": "a"})).await;
    let listed = get(&app, "admin-of-a", "/v1/admin/keys").await;
    assert!(
        listed.text.contains(&of_a)
            && !listed.text.contains(&of_b)
            && !listed.text.contains("root")
    );

    for method in [Method::GET, Method::DELETE] {
        let foreign = format!("/v1/admin/keys/{of_b}");
        call(&app, "admin-of-a", method, &foreign, None)
            .await
            .assert_problem(404, "not_found");
    }

    for space in ["b", "*"] {
        let body = json!({"name": "more", "space": space});
        post(&app, "admin-of-a", "/v1/admin/keys", &body)
            .await
            .assert_problem(403, "forbidden");
    }

    let metrics = get(&app, "admin-of-a", "/metrics").await;
    metrics.assert_problem(403, "forbidden");
    assert!(
        metrics.json()["remediation"]
            .as_str()
            .unwrap()
            .contains("/v1/admin/spaces/{space}")
    );

    assert_eq!(get(&app, "root-key", "/metrics").await.status, 200);
}

#[tokio::test]
async fn no_key_creates_a_key_with_more_rights() {
    let keys = r#"[{"name": "root", "key": "root-key", "space": "*", "role": "admin"},
        {"name": "brief", "key": "brief-key", "space": "*", "role": "admin", "expires": "2026-02-28T00:00:00Z"},
        {"name": "slow", "key": "slow-key", "space": "*", "role": "admin", "requests_per_minute": 60}]"#;
    let app = TestApp::with(&[("AUTH__KEYS", keys)]).await;
    let later = json!({"name": "x", "expires_at": "2026-03-01T00:00:00Z"});
    post(&app, "brief-key", "/v1/admin/keys", &later)
        .await
        .assert_problem(403, "forbidden");
    let (id, _) = make(&app, "brief-key", &json!({"name": "x"})).await;
    let path = format!("/v1/admin/keys/{id}");

    assert_eq!(
        get(&app, "brief-key", &path).await.json()["expires_at"],
        "2026-02-28T00:00:00.000000Z"
    );

    let never = json!({"expires_at": "never"});
    let changed = call(&app, "brief-key", Method::PATCH, &path, Some(&never)).await;
    assert_eq!(changed.json()["expires_at"], "2026-02-28T00:00:00.000000Z");
    post(&app, "slow-key", "/v1/admin/keys", &json!({"name": "x"}))
        .await
        .assert_problem(403, "forbidden");

    for wrong in [
        json!({"name": ""}),
        json!({"name": "x", "role": "owner"}),
        json!({"name": "x", "space": "A"}),
        json!({"name": "x", "expires_at": "soon"}),
        json!({"name": "x", "limits": {"requests_per_minute": 9_999_999}}),
        json!({"name": "x", "limits": {"day": {"usd": -1.0}}}),
        json!({"name": "x", "limits": {"models": ["with space"]}}),
    ] {
        post(&app, "root-key", "/v1/admin/keys", &wrong)
            .await
            .assert_problem(422, "invalid_request");
    }
}

/// Without a key, the service is open to this machine; the first key closes it in all processes.
#[tokio::test]
async fn the_first_key_closes_an_open_service() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let (user, admin) = (
            json!({"name": "u"}),
            json!({"name": "root", "space": "*", "role": "admin"}),
        );

        app.post("/v1/admin/keys", &user)
            .await
            .assert_problem(409, "first_key");
        let made = app.post("/v1/admin/keys", &admin).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let secret = made.json()["secret"].as_str().unwrap().to_owned();
        app.get("/v1/info")
            .await
            .assert_problem(401, "unauthorized");
        assert_eq!(get(&app, &secret, "/v1/info").await.status, 200);

        // It stays closed after the last key is revoked.
        let path = format!(
            "/v1/admin/keys/{}",
            made.json()["key"]["id"].as_str().unwrap()
        );

        assert_eq!(
            call(&app, &secret, Method::DELETE, &path, None)
                .await
                .status,
            204
        );

        app.get("/v1/info")
            .await
            .assert_problem(401, "unauthorized");
        app.finish().await;
    }
}

/// A row from an older or newer memoir may be unreadable; it must not open the service.
#[tokio::test]
async fn an_unreadable_key_keeps_the_service_closed() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let admin = json!({"name": "root", "space": "*", "role": "admin"});
        assert_eq!(app.post("/v1/admin/keys", &admin).await.status, 201);
        app.database
            .execute("UPDATE api_keys SET role = 'emperor'")
            .await;

        let second = TestApp::at(&app.database.url, Arc::clone(&app.database), &[]).await;
        second
            .get("/v1/info")
            .await
            .assert_problem(401, "unauthorized");

        second.finish().await;
        app.finish().await;
    }
}

#[tokio::test]
async fn the_last_use_of_a_key_is_recorded_at_intervals() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    let (id, secret) = make(&app, "root-key", &json!({"name": "wiki"})).await;
    let path = format!("/v1/admin/keys/{id}");
    assert_eq!(
        get(&app, "root-key", &path).await.json()["last_used_at"],
        Value::Null
    );

    get(&app, &secret, "/v1/info").await;
    used_at(&app, &path, "2026-01-31T12:00:00.000000Z").await;
    app.clock.advance_seconds(60);
    get(&app, &secret, "/v1/info").await;
    app.clock.advance_seconds(600);
    get(&app, &secret, "/v1/info").await;

    used_at(&app, &path, "2026-01-31T12:11:00.000000Z").await;
}

async fn used_at(app: &TestApp, path: &str, moment: &str) {
    let began = Instant::now();
    while get(app, "root-key", path).await.json()["last_used_at"] != moment {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{moment} was not noted"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The service deletes receipts after 90 days unless the settings say otherwise.
#[tokio::test]
async fn receipts_are_kept_for_90_days() {
    for database in TestDatabase::each().await {
        let database = Arc::new(database);
        let url = database.url.clone();
        let app = TestApp::at(&url, Arc::clone(&database), &[]).await;
        app.finish().await;

        // The test clock is at 2026-01-31.
        for (id, day) in [("old", "2025-11-01"), ("young", "2025-11-04")] {
            let at = memoir::base::clock::Timestamp::parse_rfc3339(&format!("{day}T00:00:00Z"))
                .unwrap()
                .as_micros();
            let sql = format!(
                "INSERT INTO queries (space, id, user_id, request_json, receipt_json, state, answer_chars, elapsed_ms, \
                 created_at) VALUES ('a', '{id}', '', '{{}}', '{{}}', 'succeeded', 0, 0, {at})"
            );

            database.execute(&sql).await;
        }

        let app = TestApp::at(&url, Arc::clone(&database), &[]).await;
        let began = Instant::now();
        loop {
            let mut connection = database.connect().await;
            let rows = sqlx::query("SELECT id FROM queries")
                .fetch_all(&mut connection)
                .await
                .unwrap();

            let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            if left == ["young"] {
                break;
            }

            assert!(began.elapsed() < Duration::from_secs(30), "{left:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }

        app.finish().await;
    }
}
