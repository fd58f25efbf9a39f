//! Estimates, and queries that are rejected before their first call.

use serde_json::{Value, json};

use super::three_by_three;
use crate::support::library::Desk;

const PRICE: (&str, &str) = (
    "LLM__PROVIDERS__STUB__PRICES",
    r#"{"*": {"input": 1.0, "output": 2.0}}"#,
);

fn of<'v>(estimate: &'v Value, strategy: &str) -> &'v Value {
    estimate["strategies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["strategy"] == strategy)
        .unwrap()
}

#[tokio::test]
async fn an_estimate_is_an_upper_bound_for_every_strategy() {
    let desk = Desk::with(&[PRICE]).await;
    three_by_three(&desk).await;
    let reply = desk
        .app
        .post("/v1/queries/estimate", &json!({"query": "small plants"}))
        .await;

    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    let estimate = reply.json();
    assert!(desk.model.requests().is_empty(), "no model is called");
    assert_eq!(estimate["model"], "stub:gpt-4o");

    for strategy in ["one_shot", "wide_branch", "zoom_in", "branch_out"] {
        let bound = of(&estimate, strategy);
        assert_eq!(
            (
                &bound["calls"],
                &bound["select_calls"],
                &bound["answer_calls"]
            ),
            (&json!(4), &json!(3), &json!(1))
        );

        assert_eq!(bound["calls_with_retries"], 8);
        desk.model.clear();
        let result = desk
            .ask_well(json!({"query": "small plants", "strategy": strategy}))
            .await;
        let calls = desk.model.requests();
        assert!(calls.len() <= usize::try_from(bound["calls"].as_i64().unwrap()).unwrap());
        let sum = |field: &str| {
            super::each(&result["responses"], field)
                .iter()
                .map(|n| n.as_i64().unwrap())
                .sum::<i64>()
        };

        assert!(sum("tokens_prompt") <= bound["tokens_prompt"].as_i64().unwrap());
        assert!(sum("tokens_completion") <= bound["tokens_completion"].as_i64().unwrap());
        let selectable = super::each(&bound["levels"], "max_selectable");
        assert_eq!(
            super::each(&result["responses"], "max_selectable")[..3],
            selectable[..],
            "{strategy}"
        );

        assert!(bound["cost_usd"].as_f64().unwrap() > 0.0);
        // The estimate counts the longest form of the schema, and each option with its marks.
        for (level, call) in bound["levels"].as_array().unwrap().iter().zip(&calls) {
            let sent = super::sent_tokens(call);
            let bound = level["tokens_prompt"].as_i64().unwrap();
            assert!(
                sent <= bound && bound < sent * 2,
                "{strategy} {sent} {bound}"
            );
        }
    }

    let plain = desk
        .app
        .post(
            "/v1/queries/estimate",
            &json!({"query": "?", "mode": "retrieve"}),
        )
        .await
        .json();

    assert_eq!(of(&plain, "one_shot")["calls"], 3);
    let shortened =
        json!({"query": "?", "prompt_limiting_strategy": "SUMMARIZE", "strategy": "wide_branch"});
    let shortened = desk
        .app
        .post("/v1/queries/estimate", &shortened)
        .await
        .json();

    assert_eq!(
        of(&shortened, "wide_branch")["summarize_calls"],
        3,
        "three leaves of one chunk each"
    );

    desk.close().await;
}

/// Also with helpers of sources, and with the schema in the prompt.
#[tokio::test]
async fn an_estimate_is_an_upper_bound_for_any_query_text() {
    for mode in ["native", "tool", "prompted"] {
        let desk = Desk::with(&[PRICE, ("LLM__PROVIDERS__STUB__STRUCTURED_OUTPUT", mode)]).await;
        let text = "A text about plants.";
        let leaves: [&[&str]; 3] = [
            &["Plants", "A \"quoted\" name", "New"],
            &["Animals", "Small", "Old"],
            &["Stones", "Red", "Hard"],
        ];

        let mut ids = Vec::new();
        for number in 0..4 {
            let filed: Vec<_> = leaves.iter().map(|leaf| (*leaf, text)).collect();
            let id = desk.library.add(&format!("/{number}.txt"), &filed).await;
            desk.library
                .describe(
                    &id,
                    &format!("Source {number}: {}", "all about small things. ".repeat(50)),
                )
                .await;

            ids.push(id.to_string());
        }

        for named in 0..=4 {
            let mut body = json!({"query": "small plants", "source_ids": ids[..named]});
            if named == 0 {
                body.as_object_mut().unwrap().remove("source_ids");
            }

            let estimate = desk.app.post("/v1/queries/estimate", &body).await.json();
            for strategy in ["one_shot", "wide_branch", "branch_out"] {
                let bound = of(&estimate, strategy);
                desk.model.clear();
                body["strategy"] = json!(strategy);
                desk.ask_well(body.clone()).await;
                for call in desk.seen("select") {
                    // With four sources, no helper is included.
                    let described = call.user.matches("Source ").count();
                    assert_eq!(
                        described,
                        if named <= 3 { named } else { 0 },
                        "{}",
                        call.user
                    );

                    let level: i64 = call
                        .user
                        .lines()
                        .find_map(|line| line.strip_prefix("level: "))
                        .unwrap()[..1]
                        .parse()
                        .unwrap();

                    let levels = bound["levels"].as_array().unwrap();
                    let most =
                        levels.iter().find(|one| one["level"] == level).unwrap()["tokens_prompt"]
                            .as_i64()
                            .unwrap();

                    let sent = super::sent_tokens(&call);
                    assert!(
                        sent <= most && most < sent + 350,
                        "{mode} {named} {strategy}: {sent} of {most}"
                    );
                }
            }
        }

        desk.close().await;
    }
}

#[tokio::test]
async fn the_estimate_for_an_empty_store_is_zero() {
    let desk = Desk::open().await;
    let estimate = desk
        .app
        .post("/v1/queries/estimate", &json!({"query": "?"}))
        .await
        .json();

    assert_eq!(of(&estimate, "branch_out")["calls"], 0);
    desk.close().await;
}

#[tokio::test]
async fn a_query_that_may_exceed_its_limit_is_rejected_before_its_first_call() {
    let desk = Desk::with(&[PRICE]).await;
    three_by_three(&desk).await;
    for (limit, unit) in [
        (json!({"max_calls": 3}), "calls"),
        (json!({"max_cost_usd": 0.000_01}), "usd"),
    ] {
        let mut body = json!({"query": "plants"});
        body.as_object_mut()
            .unwrap()
            .extend(limit.as_object().unwrap().clone());
        let reply = desk.ask(body).await;
        reply.assert_problem(429, "spend_cap_reached");
        assert_eq!(
            (
                &reply.json()["context"]["unit"],
                &reply.json()["context"]["scope"]
            ),
            (&json!(unit), &json!("query"))
        );
    }

    assert!(desk.model.requests().is_empty());
    desk.ask_well(json!({"query": "plants", "max_calls": 4, "max_cost_usd": 1.0}))
        .await;

    // A retry counts only when it happens.
    desk.model.push(memoir::scripted_model::Fault::RawText {
        text: "no".to_owned(),
    });
    let reply = desk.ask(json!({"query": "plants", "max_calls": 4})).await;
    reply.assert_problem(429, "spend_cap_reached");
    assert_eq!(
        reply.json()["context"]["responses"]
            .as_array()
            .unwrap()
            .len(),
        4
    );

    desk.close().await;
}

#[tokio::test]
async fn a_cost_limit_requires_prices() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let reply = desk
        .ask(json!({"query": "plants", "max_cost_usd": 1.0}))
        .await;
    reply.assert_problem(422, "invalid_request");
    assert_eq!(reply.json()["errors"][0]["field"], "max_cost_usd");

    desk.close().await;
}

#[tokio::test]
async fn the_settings_cap_every_query() {
    let desk = Desk::with(&[("LLM__CAPS__QUERY__CALLS", "2")]).await;
    three_by_three(&desk).await;
    let reply = desk.ask(json!({"query": "plants"})).await;
    reply.assert_problem(429, "spend_cap_reached");
    assert_eq!(desk.model.requests().len(), 2);

    desk.close().await;
}
