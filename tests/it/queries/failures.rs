//! Invalid queries and model errors: each gets its problem code, with the calls made so far.

use std::collections::BTreeMap;

use memoir::scripted_model::{Fault, Step};
use serde_json::{Value, json};

use super::three_by_three;
use crate::support::library::Desk;

#[tokio::test]
async fn an_invalid_query_is_rejected_before_any_call() {
    let desk = Desk::with(&[("INGESTION__CHUNK_MIN_TOKENS", "300")]).await;
    three_by_three(&desk).await;
    for (field, value) in [
        ("query", json!("")),
        ("query", json!("  \n ")),
        ("query", json!("x".repeat(100_001))),
        ("mode", json!("guess")),
        ("strategy", json!("sideways")),
        ("n", json!(0)),
        ("n", json!(-1)),
        ("n", json!(1.5)),
        ("n", json!(101)),
        ("n2", json!(-1)),
        ("per_level_max", json!(0)),
        ("prompt_limiting_strategy", json!("prune")),
        ("prompt_limiting_strategy", json!("BOTH")),
        ("max_token_budget", json!(400)),
        ("max_token_budget", json!("many")),
        ("max_token_budget", json!(-1)),
        ("overflow", json!("ignore")),
        ("as_of", json!("yesterday")),
        ("version_scope", json!("some")),
        ("per_path_limit", json!(0)),
        ("limit", json!(0)),
        ("limit", json!(501)),
        ("max_calls", json!(0)),
        ("max_cost_usd", json!(0)),
        ("max_cost_usd", json!(-0.5)),
        ("timeout_s", json!(0)),
        ("timeout_s", json!(3601)),
        ("user_id", json!("")),
        ("surprise", json!(1)),
    ] {
        let mut body = json!({"query": "plants?"});
        body[field] = value.clone();
        let reply = desk.ask(body).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(
            reply.json()["errors"][0]["field"],
            field,
            "{value} {}",
            reply.text
        );
    }

    for (field, value) in [("source_ids", json!(["x"])), ("tags", json!(["a\u{7}"]))] {
        let mut body = json!({"query": "plants?"});
        body[field] = value;
        let reply = desk.ask(body).await;
        reply.assert_problem(422, "invalid_request");

        assert_eq!(reply.json()["errors"][0]["field"], format!("{field}[0]"));
    }

    // All errors are reported at once.
    let reply = desk.ask(json!({"query": "", "n": 0, "limit": 0})).await;
    assert_eq!(reply.json()["errors"].as_array().unwrap().len(), 3);
    desk.ask(json!({"query": "?", "model": "nobody:x"}))
        .await
        .assert_problem(422, "unknown_model");
    let fits = desk
        .ask(json!({"query": "plants?", "max_token_budget": 401}))
        .await;
    assert_ne!(fits.status.as_u16(), 422, "{}", fits.text);
    desk.model.clear();

    // SUMMARIZE needs a budget above its headroom.
    let reply =
        desk.ask(json!({"query": "?", "prompt_limiting_strategy": "SUMMARIZE", "max_token_budget": 1024})).await;
    reply.assert_problem(422, "invalid_request");
    assert!(desk.model.requests().is_empty());
    desk.close().await;
}

#[tokio::test]
async fn a_refusing_or_unreachable_model_fails_the_query() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let refusal = Fault::Refusal {
        text: "I would rather not".to_owned(),
        blocked_prompt: false,
    };

    desk.model.push(Step::new(refusal).only_stage("answer"));
    let reply = desk.ask(json!({"query": "plants small new"})).await;
    reply.assert_problem(502, "llm_refused");
    let context = &reply.json()["context"];
    assert_eq!(context["responses"].as_array().unwrap().len(), 4);
    assert_eq!(
        context["considered_paths"],
        json!([["Plants", "Small", "New"]])
    );

    desk.model.always(Fault::Status {
        status: 503,
        headers: BTreeMap::default(),
        body: String::new(),
    });

    let reply = desk.ask(json!({"query": "plants"})).await;
    reply.assert_problem(502, "llm_unavailable");
    let outcomes: Vec<Value> = super::each(&reply.json()["context"]["responses"], "outcome");
    assert_eq!(outcomes, ["transport_error"; 3]);

    desk.close().await;
}

#[tokio::test]
async fn an_answer_that_violates_its_schema_is_requested_again_once() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    for wrong in [
        json!({"answer": ""}),
        json!({"answer": 5}),
        json!({"reply": "x"}),
        json!({"answer": "x", "more": 1}),
    ] {
        desk.model.clear();
        desk.model.push(
            Step::new(Fault::RawAnswer {
                json: wrong.clone(),
            })
            .only_stage("answer"),
        );
        let result = desk.ask_well(json!({"query": "plants"})).await;
        assert_eq!(desk.seen("answer").len(), 2, "{wrong}");
        assert!(result["answer"].is_string());
    }

    desk.close().await;
}

#[tokio::test]
async fn a_query_has_a_timeout() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model
        .push(Step::new(Fault::Stall).only_stage("answer"));
    let reply = desk.ask(json!({"query": "plants", "timeout_s": 1})).await;
    reply.assert_problem(504, "query_timeout");
    let context = &reply.json()["context"];
    let outcomes = super::each(&context["responses"], "outcome");

    assert_eq!(outcomes, ["ok", "ok", "ok", "cancelled"]);
    desk.close().await;
}

#[tokio::test]
async fn the_same_query_gets_the_same_answer() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let ask = async || {
        let mut result = desk
            .ask_well(
                json!({"query": "small plants", "strategy": "branch_out", "deterministic": true}),
            )
            .await;

        assert_eq!(
            result["responses"][0]["provider_params"]["temperature"],
            0.0
        );

        for time in ["id", "elapsed_ms", "total_latency"] {
            result[time] = Value::Null;
        }

        for list in ["responses", "retrievals"] {
            for item in result[list].as_array_mut().unwrap() {
                item["latency_ms"] = Value::Null;
                item["timestamp"] = Value::Null;
            }
        }

        result.to_string()
    };

    assert_eq!(ask().await, ask().await);
    assert!(
        desk.model
            .requests()
            .iter()
            .all(|seen| seen.temperature == Some(0.0))
    );

    desk.close().await;
}
