//! Trials of a policy over given candidates.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};

fn candidate(id: &str, content: &str, score: f64, day: u8) -> Value {
    json!({"id": id, "content": content, "score": score, "timestamp": format!("2026-11-{day:02}T09:30:00Z"),
        "sessionId": "s", "role": "user"})
}

#[tokio::test]
async fn a_trial_shows_the_payload_and_every_step() {
    let app = TestApp::spawn().await;
    let body = json!({"candidates": [
        candidate("low", "Too weak to matter.", 0.29, 3),
        candidate("same", "  i like TEA!", 0.5, 4),
        candidate("tea", "I like tea.", 0.9, 1),
        candidate("news", "One. Two. Three.", 0.3, 9),
    ]});
    let trial = app.post("/v1/policies/try", &body).await;
    assert_eq!(trial.status, 200, "{}", trial.text);
    let trial = trial.json();

    assert_eq!(trial["policy"], "retrieval@1");
    let memories = trial["memories"].as_array().unwrap();
    assert_eq!(memories.len(), 2);
    assert_eq!(
        memories[1],
        json!({"id": "news", "content": "One. Two....", "score": 0.3, "timestamp": "2026-11-09T09:30:00.000000Z",
            "sessionId": "s", "type": "message", "role": "user", "provenance": {"collection": "candidates",
            "searchType": "hybrid", "originalLength": 16, "wasRedacted": false}})
    );
    assert_eq!(
        trial["metadata"],
        json!({"queryTime": 0, "totalResults": 4, "includedResults": 2, "totalTokens": 6,
            "appliedFilters": ["score_threshold", "deduplication", "interleaving", "clipping", "token_budget"],
            "config": {"topK": 8, "clipSentences": 2, "maxTokens": 1500, "searchType": "hybrid", "minScore": 0.3},
            "redaction": {"enabled": false, "replacement": "[REDACTED]"}})
    );
    assert_eq!(
        trial["systemPrompt"],
        "## Relevant Context from Previous Conversations\n\n### Previous Messages\n\
         [2026-11-01 09:30:00 UTC] user: I like tea.\n[2026-11-09 09:30:00 UTC] user: One. Two....\n\n\
         _Retrieved 2 memories in 0ms_\n"
    );

    let effects: Vec<Value> = trial["steps"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|step| step["effects"].as_array().unwrap().clone())
        .collect();
    assert_eq!(
        json!(effects),
        json!([
            {"id": "low", "action": "dropped", "reason": "below_min_score", "numbers": {"score": 0.29, "minScore": 0.3}},
            {"id": "same", "action": "dropped", "reason": "duplicate", "numbers": {"duplicateOf": "tea", "key": effects[1]["numbers"]["key"]}},
            {"id": "news", "action": "changed", "reason": "clipped", "numbers": {"sentences": 3, "kept": 2}},
        ])
    );
}

#[tokio::test]
async fn an_older_version_or_settings_of_the_request_can_be_tried() {
    let app = TestApp::spawn().await;
    let settings =
        json!({"retrieval": {"enableRedaction": true, "customRedactionPatterns": ["ID-[0-9]+"]}});
    let put = app
        .request(Method::PUT, "/v1/admin/memory-settings")
        .json(&settings);
    assert_eq!(send(put).await.status, 200);

    let secret = candidate("a", "Mail ann@example.org about ID-77.", 0.9, 1);
    for (request, content) in [
        (json!({}), "Mail [REDACTED] about [REDACTED]."),
        (
            json!({"policy": "retrieval@2"}),
            "Mail [REDACTED] about [REDACTED].",
        ),
        (
            json!({"policy": "retrieval@0"}),
            "Mail ann@example.org about ID-77.",
        ),
        (
            json!({"settings": {"retrieval": {"enableRedaction": true}, "redaction": {"replacement": "***"}}}),
            "Mail *** about ID-77.",
        ),
    ] {
        let mut body = request;
        body["candidates"] = json!([secret.clone()]);
        let trial = app.post("/v1/policies/try", &body).await;
        assert_eq!(
            trial.json()["memories"][0]["content"],
            content,
            "{}",
            trial.text
        );
    }
}

#[tokio::test]
async fn a_wrong_trial_says_what_is_wrong() {
    let app = TestApp::spawn().await;
    let one = candidate("a", "Tea.", 0.9, 1);
    for (body, field) in [
        (json!({"candidates": [one, one]}), "candidates[1].id"),
        (
            json!({"candidates": [candidate("a", "Tea.", 1.5, 1)]}),
            "candidates[0].score",
        ),
        (
            json!({"candidates": [{"id": "a", "content": "", "score": 0, "timestamp": "soon"}]}),
            "candidates[0].timestamp",
        ),
        (json!({"candidates": [], "policy": "Retrieval?"}), "policy"),
        (
            json!({"candidates": [], "settings": {"retrieval": {"topK": 0}}}),
            "settings.retrieval.topK",
        ),
        (
            json!({"candidates": [], "policy": "retrieval", "settings": {}}),
            "settings",
        ),
    ] {
        let reply = app.post("/v1/policies/try", &body).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], field, "{}", reply.text);
    }

    let missing = json!({"candidates": [], "policy": "retrieval@7"});
    app.post("/v1/policies/try", &missing)
        .await
        .assert_problem(404, "not_found");
}

/// A trial of settings with these patterns on one text.
fn trial_of(patterns: &[&str], content: &str) -> Value {
    json!({"settings": {"retrieval": {"enableRedaction": true, "customRedactionPatterns": patterns}},
        "candidates": [candidate("a", content, 0.9, 1)]})
}

#[tokio::test]
async fn a_pattern_for_the_beginning_matches_once() {
    let app = TestApp::spawn().await;
    let trial = trial_of(&["^a"], &"a".repeat(100_000));
    let trial = app.post("/v1/policies/try", &trial).await;
    assert_eq!(trial.status, 200, "{}", trial.text);
    let effects = &trial.json()["steps"][3]["effects"];
    assert_eq!(
        effects,
        &json!([{"id": "a", "action": "changed", "reason": "redacted",
            "numbers": {"matches": 1, "patterns": ["custom[0]"]}}])
    );
    app.finish().await;
}

#[tokio::test]
async fn a_pattern_that_takes_too_long_drops_the_text_and_nothing_waits_for_it() {
    let app = TestApp::spawn().await;
    // Each match is one letter, and looks for a y to the end of the text first.
    let slow = trial_of(&["ok", "x.*y|x"], &"x".repeat(100_000));
    let trials = (0..4).map(|_| app.post("/v1/policies/try", &slow));
    let trials = futures_util::future::join_all(trials);
    let others = async {
        for _ in 0..20 {
            assert_eq!(app.get("/health/live").await.status, 200);
        }
    };

    let (trials, ()) = tokio::join!(trials, others);
    for trial in trials {
        assert_eq!(trial.status, 200, "{}", trial.text);
        let trial = trial.json();
        assert_eq!(trial["memories"], json!([]));
        assert_eq!(
            trial["steps"][3]["effects"],
            json!([{"id": "a", "action": "dropped", "reason": "redaction_too_slow",
                "numbers": {"pattern": "custom[1]"}}])
        );
    }
    app.finish().await;
}

#[tokio::test]
async fn a_trial_that_is_too_large_says_what_to_change() {
    let app = TestApp::spawn().await;
    let many = json!({"candidates": (0..11).map(|n| candidate(&n.to_string(), &"é".repeat(95_000), 0.9, 1)).collect::<Vec<_>>()});
    for (body, field, advice) in [
        (
            trial_of(&[], &"a".repeat(100_001)),
            "candidates[0].content",
            "at most 100000",
        ),
        (many, "candidates", "fewer or shorter"),
        (
            trial_of(&[".{300}"], "a"),
            "settings.retrieval.customRedactionPatterns[0]",
            "smaller numbers",
        ),
        (
            trial_of(&["[a-z]{200}"; 11], "a"),
            "settings.retrieval.customRedactionPatterns",
            "fewer patterns",
        ),
        (
            trial_of(&[r"\w{15}"; 10], "a"),
            "settings.retrieval.customRedactionPatterns",
            "[A-Za-z0-9_]",
        ),
    ] {
        let trial = app.post("/v1/policies/try", &body).await;
        assert_eq!(trial.status, 422, "{}", trial.text);
        let error = &trial.json()["errors"][0];
        assert_eq!(error["field"], field);
        assert!(
            error["message"].as_str().unwrap().contains(advice),
            "{error}"
        );
    }
    app.finish().await;
}
