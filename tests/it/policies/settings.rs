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
                "name": "retrieval", "version": 1, "created_at": null,
                "retrieval": {"topK": 8, "clipSentences": 2, "clipping": "best", "maxTokens": 1500, "searchType": "hybrid",
                    "minScore": 0.3, "enableRedaction": false},
                "interleaving": {"strategy": "score_first"},
                "redaction": {"replacement": "[REDACTED]"},
            })
        );

        // What was read can be changed and sent back.
        let mut changed = defaults.clone();
        changed["retrieval"]["topK"] = json!(20);
        let first = put(&app, &changed).await;
        assert_eq!(first.status, 200, "{}", first.text);
        assert_eq!(first.json()["version"], 2);
        let second = put(&app, &json!({"retrieval": {"topK": 3}})).await.json();
        assert_eq!(
            (&second["version"], &second["retrieval"]["topK"]),
            (&json!(3), &json!(3))
        );
        assert_eq!(app.get(PATH).await.json()["retrieval"]["topK"], 3);

        let listed = app.get("/v1/policies").await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        assert_eq!(listed["items"][0]["version"], 3);

        let page = app
            .get("/v1/policies/retrieval/versions?limit=2")
            .await
            .json();
        assert_eq!(versions(&page), [3, 2]);
        let cursor = page["next_cursor"].as_str().unwrap();
        let path = format!("/v1/policies/retrieval/versions?limit=2&cursor={cursor}");
        let rest = app.get(&path).await.json();
        assert_eq!(
            (versions(&rest), &rest["next_cursor"]),
            (vec![1, 0], &Value::Null)
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
        assert_eq!(given, (2..=9).collect::<Vec<_>>());
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
    assert_eq!(by("root-key", "one").await.json()["version"], 2);

    let other = app
        .request(Method::GET, PATH)
        .bearer_auth("root-key")
        .header("x-memoir-space", "two");
    assert_eq!(send(other).await.json()["version"], 1);
}

#[tokio::test]
async fn single_settings_change_alone_and_only_if_nobody_was_faster() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let patch = async |body: Value, etag: Option<&str>| {
            let mut request = app.request(Method::PATCH, PATH).json(&body);
            if let Some(etag) = etag {
                request = request.header("If-Match", etag);
            }
            send(request).await
        };

        let read = app.get(PATH).await;
        let (before, etag) = (read.json(), read.header("etag").to_owned());
        let changed = patch(json!({"retrieval": {"minScore": 0.2}}), Some(&etag)).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        let mut wanted = before.clone();
        wanted["retrieval"]["minScore"] = json!(0.2);
        wanted["version"] = json!(2);
        wanted["created_at"] = changed.json()["created_at"].clone();
        assert_eq!(changed.json(), wanted);

        let late = patch(json!({"retrieval": {"topK": 3}}), Some(&etag)).await;
        late.assert_problem(412, "precondition_failed");
        let request = app.request(Method::PUT, PATH).json(&json!({}));
        let late = send(request.header("If-Match", &etag)).await;
        late.assert_problem(412, "precondition_failed");
        // What is wrong is wrong, whoever was faster.
        let wrong = json!({"retrieval": {"topK": 99}});
        let request = app.request(Method::PUT, PATH).json(&wrong);
        let wrong_and_late = send(request.header("If-Match", &etag)).await;
        wrong_and_late.assert_problem(422, "invalid_request");
        let wrong_and_late = patch(wrong, Some(&etag)).await;
        wrong_and_late.assert_problem(422, "invalid_request");

        let next = patch(
            json!({"retrieval": {"topK": 3}}),
            Some(changed.header("etag")),
        )
        .await;
        assert_eq!(next.json()["retrieval"]["topK"], 3, "{}", next.text);
        assert_eq!(next.json()["retrieval"]["minScore"], 0.2);

        // A mistake changes nothing.
        let before = app.get(PATH).await.json();
        for (wrong, field) in [
            (json!({"retrieval": {"topK": 99}}), "retrieval.topK"),
            (json!({"retrieval": {"topK": "many"}}), "retrieval.topK"),
            (json!({"retrieval": {"top": 1}}), "retrieval.top"),
            (json!({"retrieval": {"topK": null}}), "retrieval.topK"),
            (json!({"retrieval": 7}), "retrieval"),
            (json!({"retrieval": null}), "retrieval"),
            (json!({"order": {}}), "order"),
        ] {
            let reply = patch(wrong.clone(), None).await;
            reply.assert_problem(422, "invalid_request");
            let named = reply.json()["errors"][0]["field"].clone();
            assert_eq!(named, field, "{wrong}: {}", reply.text);
        }

        assert_eq!(app.get(PATH).await.json(), before);
        app.finish().await;
    }
}

#[tokio::test]
async fn a_space_has_policies_of_other_names() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let path = format!("{PATH}?policy=short-answers");
        app.get(&path).await.assert_problem(404, "not_found");
        // What does not exist has no ETag that a condition could name.
        for method in [Method::PATCH, Method::PUT] {
            let body = json!({"retrieval": {"topK": 2}});
            let request = app.request(method, &path).json(&body);
            let refused = send(request.header("If-Match", "*")).await;
            refused.assert_problem(412, "precondition_failed");
        }
        app.get(&path).await.assert_problem(404, "not_found");

        for (version, top_k) in [(1, 2), (2, 3)] {
            let body = json!({"retrieval": {"topK": top_k}});
            let changed = send(app.request(Method::PATCH, &path).json(&body)).await;
            assert_eq!(changed.status, 200, "{}", changed.text);
            let changed = changed.json();
            let seen = [&changed["name"], &changed["version"]];
            assert_eq!(seen, [&json!("short-answers"), &json!(version)]);
            assert_eq!(app.get(&path).await.json(), changed);
        }

        // The one that requests use without a name is not touched, and both are listed.
        assert_eq!(app.get(PATH).await.json()["version"], 1);
        let listed = app.get("/v1/policies").await.json();
        let mut names: Vec<&str> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["retrieval", "short-answers"]);
        let ask = json!({"policy": "short-answers@1", "query": "tea", "candidates": []});
        let tried = app.post("/v1/policies/try", &ask).await;
        assert_eq!(tried.json()["policy"], "short-answers@1", "{}", tried.text);

        for wrong in ["", "Short", "retrieval@1", "a/b"] {
            let path = format!("{PATH}?policy={wrong}");
            let body = json!({"retrieval": {"topK": 2}});
            let refused = send(app.request(Method::PATCH, &path).json(&body)).await;
            refused.assert_problem(422, "invalid_request");
        }
        app.finish().await;
    }
}

#[tokio::test]
async fn stored_settings_that_are_no_longer_valid_can_be_replaced() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let paths = [PATH.to_owned(), format!("{PATH}?policy=short-answers")];
        let put = async |path: &str, top_k: i64| {
            let body = json!({"retrieval": {"topK": top_k}});
            let reply = send(app.request(Method::PUT, path).json(&body)).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        };
        for path in &paths {
            put(path, 5).await;
        }
        let spoil =
            "UPDATE policies SET body_json = REPLACE(body_json, '\"topK\":5', '\"topK\":99')";
        app.database.execute(spoil).await;

        for path in &paths {
            let spoilt = app.get(path).await;
            spoilt.assert_problem(422, "invalid_request");
            // The advice names the policy that is invalid.
            let advice = format!("PUT {path})");
            assert!(spoilt.text.contains(&advice), "{}", spoilt.text);
            put(path, 6).await;
            assert_eq!(app.get(path).await.json()["retrieval"]["topK"], 6);
        }
        app.finish().await;
    }
}
