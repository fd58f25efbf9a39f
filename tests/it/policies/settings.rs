//! The settings of the policy: ranges, roles, versions.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

const PATH: &str = "/v1/admin/memory-settings";

async fn put(app: &TestApp, settings: &Value) -> Reply {
    send(app.request(Method::PUT, PATH).json(settings)).await
}

#[tokio::test]
async fn every_change_is_a_new_version_that_stays_available() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let defaults = app.get(PATH).await.json();
        assert_eq!(
            defaults,
            json!({
                "name": "retrieval", "version": 0, "created_at": null,
                "retrieval": {"topK": 8, "clipSentences": 2, "maxTokens": 1500, "searchType": "hybrid",
                    "minScore": 0.3, "enableRedaction": false},
                "interleaving": {"strategy": "alternate"},
                "redaction": {"replacement": "[REDACTED]"},
            })
        );

        // What was read can be changed and sent back.
        let mut changed = defaults.clone();
        changed["retrieval"]["topK"] = json!(20);
        let first = put(&app, &changed).await;
        assert_eq!(first.status, 200, "{}", first.text);
        assert_eq!(first.json()["version"], 1);
        let second = put(&app, &json!({"retrieval": {"topK": 3}})).await.json();
        assert_eq!(
            (&second["version"], &second["retrieval"]["topK"]),
            (&json!(2), &json!(3))
        );
        assert_eq!(app.get(PATH).await.json()["retrieval"]["topK"], 3);

        let listed = app.get("/v1/policies").await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        assert_eq!(listed["items"][0]["version"], 2);

        let page = app
            .get("/v1/policies/retrieval/versions?limit=2")
            .await
            .json();
        assert_eq!(versions(&page), [2, 1]);
        let cursor = page["next_cursor"].as_str().unwrap();
        let path = format!("/v1/policies/retrieval/versions?limit=2&cursor={cursor}");
        let rest = app.get(&path).await.json();
        assert_eq!(
            (versions(&rest), &rest["next_cursor"]),
            (vec![0], &Value::Null)
        );

        app.get("/v1/policies/nobody/versions")
            .await
            .assert_problem(404, "not_found");
        app.finish().await;
    }
}

fn versions(page: &Value) -> Vec<i64> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["version"].as_i64().unwrap())
        .collect()
}

#[tokio::test]
async fn writers_at_once_get_a_version_each() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let writers = (1..=8).map(|top_k| {
            let app = &app;
            async move { put(app, &json!({"retrieval": {"topK": top_k}})).await }
        });
        let replies = futures_util::future::join_all(writers).await;

        let mut given: Vec<i64> = replies
            .iter()
            .map(|reply| reply.json()["version"].as_i64().unwrap())
            .collect();
        given.sort_unstable();
        assert_eq!(given, (1..=8).collect::<Vec<_>>());
        app.finish().await;
    }
}

#[tokio::test]
async fn values_beyond_the_range_are_rejected_together() {
    let app = TestApp::spawn().await;
    for retrieval in [
        json!({"topK": 1, "clipSentences": 1, "maxTokens": 100, "minScore": 0}),
        json!({"topK": 20, "clipSentences": 5, "maxTokens": 3000, "minScore": 1}),
    ] {
        let reply = put(&app, &json!({"retrieval": retrieval})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    for (settings, fields) in [
        (
            json!({"retrieval": {"topK": 0, "clipSentences": 6, "maxTokens": 99, "minScore": 1.1}}),
            vec![
                "retrieval.topK",
                "retrieval.clipSentences",
                "retrieval.maxTokens",
                "retrieval.minScore",
            ],
        ),
        (
            json!({"retrieval": {"searchType": "psychic"}}),
            vec!["retrieval.searchType"],
        ),
        (
            json!({"retrieval": {"customRedactionPatterns": ["ok", "("]}}),
            vec!["retrieval.customRedactionPatterns[1]"],
        ),
        (
            json!({"interleaving": {"strategy": "score_first", "ratio": 2}}),
            vec!["interleaving.ratio"],
        ),
        (json!({"retrieval": {"topK": -1}}), vec!["retrieval.topK"]),
    ] {
        let reply = put(&app, &settings).await;
        reply.assert_problem(422, "invalid_request");
        let problem = reply.json();
        let named: Vec<&str> = problem["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error["field"].as_str().unwrap())
            .collect();
        assert_eq!(named, fields, "{}", reply.text);
    }
}

#[tokio::test]
async fn only_an_admin_may_see_or_change_them_and_spaces_share_nothing() {
    let keys = r#"[
        {"name": "root", "key": "root-key", "space": "*", "role": "admin"},
        {"name": "user", "key": "user-key", "space": "one", "role": "user"}
    ]"#;
    let app = TestApp::with(&[("AUTH__KEYS", keys)]).await;
    let settings = json!({"retrieval": {"topK": 5}});

    put(&app, &settings)
        .await
        .assert_problem(401, "unauthorized");
    let by = |key: &'static str, space: &'static str| {
        let request = app.request(Method::PUT, PATH).bearer_auth(key);
        send(request.header("x-memoir-space", space).json(&settings))
    };
    by("user-key", "one").await.assert_problem(403, "forbidden");
    assert_eq!(by("root-key", "one").await.json()["version"], 1);

    let other = app
        .request(Method::GET, PATH)
        .bearer_auth("root-key")
        .header("x-memoir-space", "two");
    assert_eq!(send(other).await.json()["version"], 0);
}
