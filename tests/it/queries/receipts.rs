//! Receipts and replays: what is stored of a query, and that a replay reproduces it.

use memoir::model::llm_call::Payer;
use serde_json::{Value, json};

use super::{each, texts, three_by_three};
use crate::support::ingest::until;
use crate::support::library::{Desk, choosing};

fn id(result: &Value) -> String {
    result["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_receipt_contains_every_decision_and_no_text() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model.set_rule(choosing(&[
        ("1", &["Plants", "Stones"]),
        ("2", &["Plants / Small", "Plants / Big"]),
    ]));

    let result = desk
        .ask_well(json!({"query": "small plants?", "strategy": "wide_branch", "n": 2}))
        .await;
    let reply = desk.app.get(&format!("/v1/queries/{}", id(&result))).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    let receipt = reply.json();
    assert_eq!(
        (&receipt["state"], &receipt["query"]),
        (&json!("succeeded"), &json!("small plants?"))
    );

    assert_eq!(receipt["parameters"], result["parameters"]);
    let level = &receipt["levels"][1];
    assert_eq!(each(&level["options"], "label").len(), 6);
    assert_eq!(
        each(&level["chosen"], "label"),
        ["Plants / Small", "Plants / Big"]
    );

    assert_eq!(each(&level["chosen"], "ranked_relevance"), [2, 1]);
    assert_eq!(each(&level["rejected"], "label").len(), 4);
    assert_eq!(level["max_selectable"], 2);
    assert_eq!(
        each(&receipt["paths"], "names"),
        each(&result["paths"], "names")
    );

    assert_eq!(receipt["dropped_paths"], result["dropped_paths"]);
    assert_eq!(receipt["estimate"], result["estimate"]);
    assert_eq!(
        each(&receipt["responses"], "llm_output"),
        each(&result["responses"], "llm_output")
    );

    assert_eq!(receipt["totals"]["calls"], 4);
    let stored = desk
        .library
        .store
        .find_query(&desk.library.space, &id(&result).parse().unwrap())
        .await
        .unwrap()
        .unwrap();

    for text in texts(&result) {
        assert!(
            !stored.receipt.to_string().contains(text.trim()),
            "no chunk text is stored"
        );
    }

    desk.close().await;
}

#[tokio::test]
async fn receipts_are_listed_newest_first_in_their_space() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    for number in 0..5 {
        desk.app.clock.advance_seconds(1);
        desk.ask_well(json!({"query": format!("plants {number}"), "mode": "retrieve"}))
            .await;
    }

    desk.ask(json!({"query": "of a user", "user_id": "nobody"}))
        .await
        .assert_problem(404, "no_chunks_found");
    let first = desk.app.get("/v1/queries?limit=4").await.json();
    let last = desk
        .app
        .get(&format!(
            "/v1/queries?limit=4&cursor={}",
            first["next_cursor"].as_str().unwrap()
        ))
        .await
        .json();

    let mut asked = each(&first["items"], "query");
    asked.extend(each(&last["items"], "query"));
    let wanted = [
        "of a user",
        "plants 4",
        "plants 3",
        "plants 2",
        "plants 1",
        "plants 0",
    ];

    asked.sort_by_key(|query| wanted.iter().position(|wanted| query == wanted));
    assert_eq!(asked, wanted);
    assert_eq!(last["next_cursor"], Value::Null);
    let own = desk.app.get("/v1/queries?user_id=nobody").await.json();
    assert_eq!(each(&own["items"], "error"), ["no_chunks_found"]);
    assert_eq!(each(&own["items"], "state"), ["failed"]);
    let other = desk
        .app
        .request(reqwest::Method::GET, "/v1/queries")
        .header("x-memoir-space", "other");

    assert_eq!(
        crate::support::app::send(other).await.json()["items"],
        json!([])
    );

    desk.app
        .get("/v1/queries/0199a7e0-1c2d-7000-8000-000000000000")
        .await
        .assert_problem(404, "not_found");

    desk.app
        .get("/v1/queries/nonsense")
        .await
        .assert_problem(404, "not_found");

    desk.close().await;
}

/// A result without its times.
fn timeless(mut result: Value) -> String {
    for time in ["elapsed_ms", "total_latency"] {
        result[time] = Value::Null;
    }

    for item in result["retrievals"].as_array_mut().unwrap() {
        item["latency_ms"] = Value::Null;
    }

    result.to_string()
}

#[tokio::test]
async fn a_recorded_replay_is_identical_whatever_has_changed() {
    let desk = Desk::with(&[("QUERY__SUMMARIZATION_INSTRUCTION_HEADROOM_TOKENS", "100")]).await;
    three_by_three(&desk).await;
    let source = desk
        .library
        .add(
            "/more.txt",
            &[
                (&["Plants", "Small", "New"], &"long ".repeat(200)),
                (&["Plants", "Small", "New"], &"wide ".repeat(200)),
            ],
        )
        .await;

    desk.library.describe(&source, "A list.").await;
    desk.library.category(&["Plants", "Small", "Bare"]).await;

    // Two invalid answers, which are part of the record.
    desk.model.push(memoir::scripted_model::Fault::RawText {
        text: "{}".to_owned(),
    });
    let bodies = [
        json!({"query": "small new plants?"}),
        json!({"query": "small new plants?", "strategy": "branch_out"}),
        json!({"query": "small new plants?", "strategy": "branch_out", "max_token_budget": 250}),
        json!({"query": "small new plants?", "prompt_limiting_strategy": "SUMMARIZE", "max_token_budget": 600}),
        json!({"query": "small new plants?", "mode": "retrieve", "limit": 1}),
    ];

    let mut asked = Vec::new();
    for body in &bodies {
        asked.push(desk.ask_well(body.clone()).await);
    }

    let mut next = bodies[4].clone();
    next["cursor"] = asked[4]["next_cursor"].clone();
    asked.push(desk.ask_well(next).await);
    let failed = desk.ask(json!({"query": "small bare plants?"})).await;
    failed.assert_problem(404, "no_chunks_found");

    // Everything changes: chunks move to another leaf, new ones are filed in the same leaves; there
    // are new categories, another version and another helper.
    let leaf = |name: &str| format!("(SELECT id FROM categories WHERE name = '{name}')");
    let moved = format!(
        "UPDATE chunks SET category_id = {} WHERE category_id = {}",
        leaf("Bare"),
        leaf("New")
    );

    desk.app.database.execute(&moved).await;
    desk.library
        .add(
            "/new.txt",
            &[
                (&["Plants", "Small", "New"], "newer"),
                (&["Fungi", "Small", "New"], "other"),
            ],
        )
        .await;

    desk.library
        .add_version(&source, 2, &[(&["Plants", "Small", "New"], "rewritten")])
        .await;
    desk.library
        .describe(&source, "Another list altogether.")
        .await;
    desk.model.clear();

    for result in asked {
        let answered = desk
            .app
            .post(&format!("/v1/queries/{}/replay", id(&result)), &json!({}))
            .await;

        assert_eq!(answered.status.as_u16(), 200, "{}", answered.text);
        let replay = answered.json();
        assert_eq!(timeless(replay["result"].clone()), timeless(result.clone()));
        assert_eq!(
            (&replay["identical"], &replay["mode"]),
            (&json!(true), &json!("recorded"))
        );

        assert_eq!(
            (
                &replay["differences"]["leaves"]["added"],
                &replay["differences"]["calls"]
            ),
            (&json!([]), &json!(0))
        );
    }

    let failed = failed.json()["context"]["id"].as_str().unwrap().to_owned();
    let replay = desk
        .app
        .post(
            &format!("/v1/queries/{failed}/replay"),
            &json!({"mode": "recorded"}),
        )
        .await
        .json();

    assert_eq!(
        (&replay["identical"], &replay["error"]),
        (&json!(true), &json!("no_chunks_found"))
    );

    assert!(desk.model.requests().is_empty(), "no model is called");
    assert_eq!(
        desk.app.get("/v1/queries").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        7,
        "and nothing of it is stored"
    );

    // A query on a deleted source keeps only numbers, and cannot be replayed.
    let gone = desk
        .app
        .request(reqwest::Method::DELETE, &format!("/v1/sources/{source}"));
    crate::support::app::send(gone).await;
    let first = desk.app.get("/v1/queries").await.json();
    let oldest = first["items"].as_array().unwrap().last().unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();

    let replay = desk
        .app
        .post(&format!("/v1/queries/{oldest}/replay"), &json!({}))
        .await;

    replay.assert_problem(410, "erased");
    desk.close().await;
}

#[tokio::test]
async fn a_live_replay_reports_the_differences() {
    let desk = Desk::with(&[(
        "LLM__PROVIDERS__STUB__PRICES",
        r#"{"*": {"input": 1.0, "output": 2.0}}"#,
    )])
    .await;

    three_by_three(&desk).await;
    let result = desk.ask_well(json!({"query": "small new plants?"})).await;
    let path = format!("/v1/queries/{}/replay", id(&result));
    let replay = desk
        .app
        .post(&path, &json!({"mode": "live", "strategy": "wide_branch"}))
        .await
        .json();

    assert_eq!(
        (&replay["mode"], &replay["identical"]),
        (&json!("live"), &Value::Null)
    );

    assert_eq!(replay["result"]["strategy"], "wide_branch");
    assert_eq!(replay["result"]["parameters"]["n"], 3);
    assert_eq!(
        replay["differences"]["leaves"]["kept"],
        json!([["Plants", "Small", "New"]])
    );

    assert_eq!(
        replay["differences"]["leaves"]["added"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    assert_eq!(replay["differences"]["leaves"]["removed"], json!([]));
    assert!(replay["differences"]["tokens_prompt"].as_i64().unwrap() > 0);
    assert!(replay["differences"]["cost_usd"].as_f64().unwrap() > 0.0);
    assert_ne!(replay["result"]["id"], result["id"]);
    assert_eq!(replay["original"]["id"], result["id"]);
    let other = desk
        .app
        .post(&path, &json!({"mode": "live", "model": "local:embedded"}))
        .await
        .json();

    assert_eq!(other["result"]["responses"][0]["provider"], "local");
    assert_eq!(
        other["differences"]["leaves"]["kept"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    for body in [
        json!({"strategy": "zoom_in"}),
        json!({"mode": "live", "n": 0}),
        json!({"mode": "again"}),
        json!({"x": 1}),
    ] {
        desk.app
            .post(&path, &body)
            .await
            .assert_problem(422, "invalid_request");
    }

    desk.app
        .post(&path, &json!({"mode": "live", "model": "nobody:x"}))
        .await
        .assert_problem(422, "unknown_model");

    desk.close().await;
}

#[tokio::test]
async fn without_audit_nothing_is_stored() {
    let desk = Desk::with(&[("AUDIT__PERSIST", "false")]).await;
    three_by_three(&desk).await;
    let result = desk.ask_well(json!({"query": "small plants"})).await;
    desk.app
        .get(&format!("/v1/queries/{}", id(&result)))
        .await
        .assert_problem(404, "not_found");

    assert_eq!(desk.app.get("/v1/queries").await.json()["items"], json!([]));
    let usage = desk.app.get("/v1/usage").await.json();
    assert_eq!(usage["totals"]["calls"], 4, "the sums of the day stay");
    let calls = async || {
        desk.library
            .store
            .list_calls_of(&desk.library.space, &Payer::Query(id(&result).clone()))
            .await
            .unwrap()
    };

    until("the calls are gone", || async { calls().await.is_empty() }).await;
    desk.close().await;
}

#[tokio::test]
async fn old_receipts_are_deleted_with_their_calls_but_daily_totals_stay() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let old = id(&desk
        .ask_well(json!({"query": "plants of old", "mode": "retrieve"}))
        .await);
    desk.app.clock.advance_seconds(24 * 60 * 60);
    let young = id(&desk
        .ask_well(json!({"query": "plants of today", "mode": "retrieve"}))
        .await);

    // Reading the ledger waits until it is written.
    let spent = desk.app.get("/v1/usage?from=2000-01-01").await.json()["totals"].clone();
    assert!(spent["calls"].as_i64().unwrap() >= 2, "{spent}");
    let before = memoir::base::clock::Clock::now(&*desk.app.clock).minus_seconds(60 * 60);
    assert_eq!(
        desk.library.store.remove_old_queries(before).await.unwrap(),
        1
    );

    desk.app
        .get(&format!("/v1/queries/{old}"))
        .await
        .assert_problem(404, "not_found");

    let calls = desk
        .library
        .store
        .list_calls_of(&desk.library.space, &Payer::Query(old.clone()))
        .await
        .unwrap();

    assert!(calls.is_empty());
    assert_eq!(
        desk.app
            .get(&format!("/v1/queries/{young}"))
            .await
            .status
            .as_u16(),
        200
    );

    assert_eq!(
        desk.app.get("/v1/usage?from=2000-01-01").await.json()["totals"],
        spent
    );

    assert_eq!(
        desk.library.store.remove_old_queries(before).await.unwrap(),
        0
    );

    desk.close().await;
}
