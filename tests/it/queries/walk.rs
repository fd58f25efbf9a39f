//! The walk: the model calls on each level, what is chosen, and what is dropped.

use memoir::scripted_model::Fault;
use serde_json::{Value, json};

use super::{each, texts, three_by_three};
use crate::support::library::{Desk, choosing};

#[tokio::test]
async fn a_query_walks_the_hierarchy_and_is_answered() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model.edit_script(|script| script.latency_ms = 100);
    let result = desk
        .ask_well(json!({"query": "Which plants are small and recent?"}))
        .await;

    let selects = desk.seen("select");
    let levels: Vec<&str> = selects
        .iter()
        .map(|seen| {
            seen.user
                .lines()
                .find(|line| line.starts_with("level: "))
                .unwrap()
        })
        .collect();

    assert_eq!(levels, ["level: 1 of 3", "level: 2 of 3", "level: 3 of 3"]);
    assert!(
        selects
            .iter()
            .all(|seen| seen.user.contains("select: at most 1\n"))
    );

    let schema = selects[0].schema.as_ref().unwrap();
    let item = schema.pointer("/properties/selections/items").unwrap();
    let fields: Vec<&String> = item["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["category", "ranked_relevance"]);
    assert_eq!(
        item["properties"]["category"]["enum"],
        json!(["Animals", "Plants", "Stones"])
    );

    let last = desk.seen("answer").pop().unwrap();
    let fields: Vec<String> = last.schema.unwrap()["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();

    assert_eq!(fields, ["answer"]);

    assert_eq!(
        result["paths"][0]["names"],
        json!(["Plants", "Small", "Recent"])
    );

    assert_eq!(result["paths"][0]["ids"].as_array().unwrap().len(), 3);
    assert_eq!(texts(&result), ["Plants that are Small and Recent. "]);
    assert!(
        result["answer"]
            .as_str()
            .unwrap()
            .contains("Plants that are Small")
    );

    let chunk = &result["chunks"][0];
    assert_eq!(chunk["category_path"], json!(["Plants", "Small", "Recent"]));
    assert_eq!(
        (&chunk["ranked_relevance"], &chunk["path_relevance"]),
        (&json!(1), &json!(1.0))
    );

    assert_eq!(result["used_chunks"][0]["chunk_id"], chunk["chunk_id"]);
    assert_eq!(
        each(&result["responses"], "stage"),
        ["select", "select", "select", "answer"]
    );

    assert_eq!(
        each(&result["responses"], "level"),
        [json!(1), json!(2), json!(3), Value::Null]
    );

    assert_eq!(
        result["responses"].as_array().unwrap().len(),
        desk.model.requests().len()
    );

    assert_eq!(
        result["responses"][0]["llm_output"],
        json!({"selections": [{"category": "Plants", "ranked_relevance": 1}]})
    );

    let latencies: Vec<f64> = each(&result["responses"], "latency_ms")
        .iter()
        .map(|ms| ms.as_f64().unwrap())
        .collect();

    assert!(latencies.iter().all(|ms| *ms >= 100.0), "{latencies:?}");
    let retrievals: f64 = each(&result["retrievals"], "latency_ms")
        .iter()
        .map(|ms| ms.as_f64().unwrap())
        .sum();

    let total = result["total_latency"].as_f64().unwrap();
    assert!((latencies.iter().sum::<f64>() + retrievals - total).abs() < 0.01);
    assert!(result["elapsed_ms"].as_f64().unwrap() >= total - 1.0);
    let times = each(&result["responses"], "timestamp");
    assert!(
        times
            .windows(2)
            .all(|pair| pair[0].as_str() <= pair[1].as_str())
    );

    for call in result["responses"].as_array().unwrap() {
        for field in [
            "model",
            "tokens_prompt",
            "tokens_completion",
            "provider_params",
            "outcome",
            "attempt",
        ] {
            assert!(!call[field].is_null(), "{field}");
        }
    }

    assert_eq!(result["dropped_paths"], json!([]));
    desk.close().await;
}

#[tokio::test]
async fn each_strategy_selects_its_number_of_categories_per_level() {
    let desk = Desk::open().await;
    let mut chunks: Vec<(Vec<String>, String)> = Vec::new();
    for one in 0..7 {
        for two in 0..2 {
            for three in 0..2 {
                let path = vec![format!("A{one}"), format!("B{two}"), format!("C{three}")];
                chunks.push((path, format!("chunk {one} {two} {three}")));
            }
        }
    }

    let paths: Vec<Vec<&str>> = chunks
        .iter()
        .map(|(path, _)| path.iter().map(String::as_str).collect())
        .collect();

    let filed: Vec<_> = paths
        .iter()
        .zip(&chunks)
        .map(|(path, (_, text))| (path.as_slice(), text.as_str()))
        .collect();

    desk.library.add("/many.txt", &filed).await;
    for (body, wanted, leaves) in [
        (json!({"strategy": "one_shot"}), [1, 1, 1], 1),
        (json!({"strategy": "wide_branch"}), [3, 3, 3], 3),
        (json!({"strategy": "wide_branch", "n": 2}), [2, 2, 2], 2),
        (json!({"strategy": "zoom_in"}), [6, 4, 2], 2),
        (
            json!({"strategy": "zoom_in", "n": 3, "n2": 3}),
            [3, 1, 1],
            1,
        ),
        (json!({"strategy": "branch_out"}), [6, 8, 10], 10),
        (
            json!({"strategy": "branch_out", "per_level_max": 7}),
            [6, 7, 7],
            7,
        ),
        // Not more than the number of options.
        (
            json!({"strategy": "branch_out", "n": 7, "n2": 5, "per_level_max": 50}),
            [7, 12, 17],
            17,
        ),
        (json!({"strategy": "wide_branch", "n": 9}), [7, 9, 9], 9),
    ] {
        let mut body = body;
        body["query"] = json!("anything");
        body["mode"] = json!("retrieve");
        let result = desk.ask_well(body.clone()).await;
        assert_eq!(
            each(&result["responses"], "max_selectable"),
            wanted,
            "{body}"
        );
        assert_eq!(result["paths"].as_array().unwrap().len(), leaves, "{body}");
        assert_eq!(result["strategy"], body["strategy"]);
        assert_eq!(result["parameters"]["strategy"], body["strategy"]);
        assert_eq!(result["answer"], Value::Null);
        assert_eq!(result["retrievals"].as_array().unwrap().len(), leaves);
    }

    desk.close().await;
}

#[tokio::test]
async fn options_under_several_parents_are_shown_with_their_path() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model.set_rule(choosing(&[
        ("1", &["Stones", "Animals"]),
        ("2", &["Animals / Big", "Stones / Small"]),
        ("3", &["Stones / Small / Old", "Animals / Big / New"]),
    ]));

    let result = desk
        .ask_well(json!({"query": "?", "strategy": "wide_branch", "n": 2}))
        .await;
    let selects = desk.seen("select");
    assert!(selects[0].user.contains("\n- Animals\n"));
    assert!(
        selects[1].user.contains("\n- Stones / Big\n") && !selects[1].user.contains("- Plants")
    );
    assert!(selects[2].user.contains("\n- Animals / Big / Old\n"));

    // The order of the ranks, level by level: Stones had the higher rank on level 1.
    let names: Vec<Value> = each(&result["paths"], "names");
    assert_eq!(
        names,
        [
            json!(["Stones", "Small", "Old"]),
            json!(["Animals", "Big", "New"])
        ]
    );

    let ranks = &result["paths"][1]["ranks"];
    assert_eq!(each(ranks, "ranked_relevance"), [1, 2, 1]);
    assert_eq!(
        result["paths"][1]["path_relevance"],
        json!((0.5 + 1.0 + 0.5) / 3.0)
    );

    assert_eq!(each(&result["chunks"], "ranked_relevance"), [2, 1]);
    desk.close().await;
}

#[tokio::test]
async fn options_under_one_parent_are_shown_by_name() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model.set_rule(choosing(&[
        ("1", &["Stones", "Animals"]),
        ("2", &["Animals / Big"]),
        ("3", &["New", "Old"]),
    ]));

    let result = desk
        .ask_well(json!({"query": "?", "strategy": "wide_branch", "n": 2}))
        .await;
    assert!(desk.seen("select")[2].user.contains("\n- Old\n"));

    // A parent without a chosen child.
    assert_eq!(
        result["dropped_paths"],
        json!([{"path": ["Stones"], "reason": "not_selected"}])
    );

    desk.close().await;
}

#[tokio::test]
async fn a_level_with_one_option_needs_no_call() {
    let desk = Desk::open().await;
    desk.library
        .add("/a.txt", &[(&["Only", "Way", "Down"], "the chunk")])
        .await;
    let result = desk
        .ask_well(json!({"query": "?", "strategy": "branch_out"}))
        .await;
    assert!(desk.seen("select").is_empty());
    assert_eq!(result["responses"].as_array().unwrap().len(), 1);
    let first = json!({"ranked_relevance": 1, "best": 1});

    assert_eq!(
        result["paths"][0]["ranks"],
        json!([first.clone(), first.clone(), first])
    );

    desk.close().await;
}

#[tokio::test]
async fn an_empty_store_needs_no_call() {
    let desk = Desk::open().await;
    let reply = desk.ask(json!({"query": "anything?"})).await;
    reply.assert_problem(404, "no_chunks_found");
    let context = &reply.json()["context"];
    assert_eq!(
        (&context["responses"], &context["dropped_paths"]),
        (&json!([]), &json!([]))
    );

    assert!(desk.model.requests().is_empty());
    desk.close().await;
}

#[tokio::test]
async fn a_branch_without_children_is_dropped() {
    let desk = Desk::open().await;
    desk.library
        .add("/a.txt", &[(&["Full", "Shelf", "Leaf"], "the chunk")])
        .await;
    desk.library.category(&["Bare"]).await;
    desk.library.category(&["Full", "Stub"]).await;
    let result = desk
        .ask_well(json!({"query": "?", "strategy": "wide_branch"}))
        .await;
    let dropped = result["dropped_paths"].as_array().unwrap();

    assert!(
        dropped.contains(&json!({"path": ["Bare"], "reason": "not_leaf"})),
        "{dropped:?}"
    );

    assert!(
        dropped.contains(&json!({"path": ["Full", "Stub"], "reason": "not_leaf"})),
        "{dropped:?}"
    );

    assert_eq!(texts(&result), ["the chunk"]);

    desk.model.set_rule(choosing(&[("1", &["Bare"])]));
    let reply = desk.ask(json!({"query": "?"})).await;
    reply.assert_problem(404, "no_chunks_found");
    assert_eq!(
        reply.json()["context"]["dropped_paths"],
        json!([{"path": ["Bare"], "reason": "not_leaf"}])
    );

    assert_eq!(
        reply.json()["context"]["responses"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    desk.close().await;
}

#[tokio::test]
async fn a_category_that_is_selected_twice_is_one_path() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model.set_rule(choosing(&[
        ("1", &["Plants"]),
        ("2", &["Big"]),
        ("3", &["Old", "Old"]),
    ]));

    let result = desk
        .ask_well(json!({"query": "?", "strategy": "wide_branch", "n": 3, "mode": "retrieve"}))
        .await;
    assert_eq!(
        each(&result["paths"], "names"),
        [json!(["Plants", "Big", "Old"])]
    );

    assert_eq!(result["retrievals"].as_array().unwrap().len(), 1);
    desk.close().await;
}

#[tokio::test]
async fn invalid_ranks_and_names_are_requested_again() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let one = |category: &str, rank: i64| json!({"category": category, "ranked_relevance": rank});

    for (wrong, why) in [
        (json!([one("Plants", 2), one("Stones", 2)]), "twice"),
        (
            json!([one("Plants", 3), one("Stones", 0)]),
            "not from 1 to 3",
        ),
        (json!([one("Plants", 4)]), "not from 1 to 3"),
        (json!([one("Plants", 2)]), "the best must have the rank 3"),
        (
            json!([one("Plants", 3), one("Ghosts", 2)]),
            "not one of the options",
        ),
        (json!([]), "nothing was chosen"),
        (
            json!([
                one("Plants", 3),
                one("Stones", 2),
                one("Animals", 1),
                one("Plants", 1)
            ]),
            "at most 3",
        ),
        (json!([{"category": "Plants"}]), "ranked_relevance"),
        (
            json!([{"category": "Plants", "ranked_relevance": 3, "score": 1}]),
            "score",
        ),
        (json!("Plants"), "array"),
    ] {
        desk.model.clear();
        desk.model.push(Fault::RawAnswer {
            json: json!({"selections": wrong.clone()}),
        });
        let body = json!({"query": "?", "strategy": "wide_branch", "mode": "retrieve"});
        let result = desk.ask_well(body.clone()).await;
        assert_eq!(result["responses"][0]["outcome"], "invalid", "{wrong}");
        assert_eq!(result["responses"][1]["outcome"], "ok", "{wrong}");
        assert_eq!(
            each(&result["responses"], "attempt")[..3],
            [json!(1), json!(2), json!(1)],
            "{wrong}"
        );
        let repair = &desk.model.requests()[1].user;
        assert!(repair.contains(why), "{why}: {repair}");

        // Two invalid answers are an error that names the rule and lists the calls.
        desk.model.push(Fault::RawAnswer {
            json: json!({"selections": wrong.clone()}),
        });
        desk.model.push(Fault::RawAnswer {
            json: json!({"selections": wrong.clone()}),
        });
        let reply = desk.ask(body).await;
        reply.assert_problem(502, "llm_invalid_output");
        let context = &reply.json()["context"];
        assert!(context["violations"].to_string().contains(why), "{context}");
        assert_eq!(context["responses"].as_array().unwrap().len(), 2);
    }

    desk.close().await;
}

#[tokio::test]
async fn walks_hierarchies_of_one_and_a_hundred_levels() {
    let desk = Desk::with(&[("TAXONOMY__HIERARCHY_DEPTH", "1")]).await;
    desk.library
        .add("/a.txt", &[(&["Here"], "one"), (&["There"], "two")])
        .await;
    let result = desk.ask_well(json!({"query": "what is there"})).await;
    assert_eq!(
        (texts(&result), desk.seen("select").len()),
        (vec!["two".to_owned()], 1)
    );

    desk.close().await;

    let desk = Desk::with(&[("TAXONOMY__HIERARCHY_DEPTH", "100")]).await;
    let names: Vec<String> = (1..=100).map(|level| format!("L{level}")).collect();
    let mut way: Vec<&str> = names.iter().map(String::as_str).collect();
    let other = way.clone();
    way[99] = "Other";
    desk.library
        .add("/deep.txt", &[(&other, "deep one"), (&way, "deep two")])
        .await;
    let result = desk
        .ask_well(json!({"query": "the other", "strategy": "zoom_in"}))
        .await;

    assert_eq!(desk.seen("select").len(), 1);
    assert_eq!(result["paths"][0]["names"].as_array().unwrap().len(), 100);
    assert_eq!(texts(&result), ["deep two"]);
    desk.close().await;
}
