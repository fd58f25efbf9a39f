//! Blocks, stages, files, eligibility, targets.

use serde_json::{Value, json};

use super::{BELL, BOAT, Bench, LAMP, answer, chunk_ids, reasons, stages};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::count;
use memoir::base::ids::SourceId;
use memoir::scripted_model::Reply as ModelReply;

const TASK: &str = "What does the lamp of the lighthouse burn?";
const ORDER: [&str; 8] = [
    "shape", "files", "retrieve", "rerank", "nli", "condense", "audit", "build",
];

#[tokio::test]
async fn a_prompt_has_its_blocks_in_the_order_of_authority() {
    for database in TestDatabase::each().await {
        let bench = Bench::on(database, &[]).await;
        bench.file("/docs/lamp.md", LAMP).await;
        bench.file("/docs/boat.md", BOAT).await;
        let text = "Line one\r\n\n  \"\"\"indented\"\"\"\n\tünïcode ❖ end  \n";
        let rules = bench.file("/docs/rules.md", text).await;
        bench
            .workspace(
                &json!({"hard_rules": "Never guess.", "project_memory": "The tower is old."}),
            )
            .await;
        bench.test.model.clear();

        let prompt = bench
            .compose(&json!({"task": TASK, "mode": "brief", "files": [{"source_id": rules}]}))
            .await;
        let whole = prompt["prompt"].as_str().unwrap();
        let headers = [
            "[Hard Rules]\nNever guess.",
            "[Project Memory]\nThe tower is old.",
            "[❖ FILES]\nFile: /docs/rules.md",
            "[S_ctx]\nFacts:\n",
            "[Task/Mode]\n",
        ];
        let places: Vec<usize> = headers
            .iter()
            .map(|header| {
                whole
                    .find(header)
                    .unwrap_or_else(|| panic!("{header}: {whole}"))
            })
            .collect();
        assert!(places.is_sorted(), "{whole}");
        assert!(
            whole.contains(&format!(")\n```\n{text}\n```\nEnd of file: /docs/rules.md")),
            "{whole}"
        );
        assert!(
            whole.ends_with(&format!("Mode: brief\n\nTask:\n{TASK}")),
            "{whole}"
        );
        let names: Vec<&str> = prompt["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["hard_rules", "project_memory", "files", "s_ctx", "task"]
        );
        assert_eq!(prompt["files"][0]["text"], text);

        assert_eq!(stages(&prompt), ORDER);
        let keys: Vec<&String> = prompt["s_ctx"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["facts", "constraints", "open_issues"]);
        for fact in prompt["s_ctx"]["facts"].as_array().unwrap() {
            assert!(!fact["citations"].as_array().unwrap().is_empty());
        }

        // Every chunk once: the injected file is a duplicate of itself.
        let mut ids: Vec<i64> = reasons(&prompt).iter().map(|one| one.0).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), reasons(&prompt).len());
        let said: Vec<String> = reasons(&prompt).into_iter().map(|one| one.2).collect();
        assert!(
            said.contains(&"kept: strong semantic match".to_owned()),
            "{said:?}"
        );
        assert!(
            said.contains(&"dropped: duplicate of ❖ FILES".to_owned()),
            "{said:?}"
        );

        assert_eq!(prompt["estimate"]["within_ceiling"], true);
        assert!(prompt["estimate"]["tokens"].as_u64().unwrap() > 50);
        for stage in ["shape", "rerank", "nli", "condense", "audit"] {
            assert_eq!(bench.asked(stage).len(), 1, "{stage}");
        }

        // The ledger has the calls, and none of their words.
        let usage = bench.test.app.get("/v1/usage").await.json();
        assert!(usage.to_string().contains("condense"), "{usage}");
        let database = &bench.test.app.database;
        let paid = "SELECT COUNT(*) FROM llm_calls WHERE stage = 'condense'";
        assert_eq!(count(database, paid).await, 1);
        let kept = "SELECT COUNT(*) FROM llm_calls WHERE stage IN ('shape', 'rerank', 'nli', 'condense', 'audit') AND output_json IS NOT NULL";
        assert_eq!(count(database, kept).await, 0);
        bench.test.app.finish().await;
    }
}

#[tokio::test]
async fn the_embedded_model_composes_a_usable_prompt() {
    let app = TestApp::with(&[("LLM__MODEL", "local:embedded")]).await;
    for (name, text) in [("lamp.md", LAMP), ("boat.md", BOAT), ("bell.md", BELL)] {
        let body = json!({"text": text, "filename": name, "wait": true});
        assert_eq!(app.post("/v1/ingestions", &body).await.status, 200);
    }

    let reply = app.post("/v1/prompts", &json!({"task": TASK})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let prompt = reply.json();
    assert_eq!(stages(&prompt), ORDER);
    assert_eq!(prompt["s_ctx_fallback"], false);
    let whole = prompt["prompt"].as_str().unwrap();
    assert!(
        whole.contains(
            "The lamp of the lighthouse burns whale oil. It is 30 m above the sea. [chunk "
        ),
        "{whole}"
    );
    assert!(whole.ends_with(TASK), "{whole}");
    for entry in prompt["trace"].as_array().unwrap() {
        assert_eq!(entry["status"], "ok", "{entry}");
    }

    // The same request gives the same prompt, to the byte.
    let again = app.post("/v1/prompts", &json!({"task": TASK})).await.json();
    assert_eq!(again["prompt"], prompt["prompt"]);
    app.finish().await;
}

#[tokio::test]
async fn locked_files_skip_retrieval_and_everything_after_it() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    bench.file("/docs/boat.md", BOAT).await;
    bench.test.model.clear();
    let body = json!({"task": TASK, "files": [{"path": "/docs/boat.md"}], "lock": true});
    let prompt = bench.compose(&body).await;

    assert_eq!(stages(&prompt), ORDER);
    let called: Vec<String> = bench
        .test
        .model
        .requests()
        .iter()
        .map(|one| one.stage.clone())
        .collect();
    assert_eq!(called, ["shape"]);
    assert_eq!(
        prompt["s_ctx"],
        json!({"facts": [], "constraints": [], "open_issues": []})
    );
    assert_eq!(prompt["transparency"]["candidates"], json!([]));
    let whole = prompt["prompt"].as_str().unwrap();
    assert!(
        whole.contains(BOAT) && !whole.contains("[S_ctx]"),
        "{whole}"
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn the_gate_keeps_what_is_entailed_with_theta() {
    let bench = Bench::with_three_files().await;
    bench.test.model.set_rule(|seen| {
        if seen.stage != "nli" {
            return answer(seen);
        }
        let verdicts: Vec<Value> = chunk_ids(&seen.user)
            .iter()
            .zip([
                ("entailment", 0.9),
                ("entailment", 0.4),
                ("contradiction", 0.9),
            ])
            .map(|(id, (label, score))| json!({"id": id, "label": label, "score": score}))
            .collect();
        ModelReply::json(json!({"verdicts": verdicts}))
    });

    let prompt = bench.compose(&json!({"task": TASK})).await;
    let said: Vec<String> = reasons(&prompt).into_iter().map(|one| one.2).collect();
    assert_eq!(
        said,
        [
            "kept: strong semantic match",
            "dropped: entailment 0.40 is below θ 0.50",
            "dropped: contradiction"
        ]
    );
    let loose = bench.compose(&json!({"task": TASK, "theta": 0.3})).await;
    let kept = reasons(&loose).iter().filter(|one| one.1).count();
    assert_eq!(kept, 2);
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_model_that_judges_every_chunk_alike_drops_none() {
    let bench = Bench::with_three_files().await;
    bench.test.model.set_rule(|seen| {
        if seen.stage != "nli" {
            return answer(seen);
        }
        let shrug = |id: &i64| json!({"id": id, "label": "neutral", "score": 0.5});
        let verdicts: Vec<Value> = chunk_ids(&seen.user).iter().map(shrug).collect();
        ModelReply::json(json!({"verdicts": verdicts}))
    });

    let prompt = bench.compose(&json!({"task": TASK})).await;
    for (_, kept, reason) in reasons(&prompt) {
        assert!(kept, "{reason}");
        assert_eq!(reason, "kept: not checked for entailment");
    }
    let trace = prompt["trace"].as_array().unwrap();
    let gate = trace.iter().find(|one| one["stage"] == "nli").unwrap();
    assert_eq!(gate["status"], "fallback");
    assert!(
        gate["note"]
            .as_str()
            .unwrap()
            .contains("judged every chunk alike")
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn the_reranker_decides_the_order_and_is_named() {
    let bench = Bench::with_three_files().await;
    bench.test.model.set_rule(|seen| {
        if seen.stage != "rerank" {
            return answer(seen);
        }
        let ids = chunk_ids(&seen.user);
        let reversed: Vec<Value> = (0_u32..)
            .zip(&ids)
            .map(|(place, id)| json!({"id": id, "score": f64::from(place) / 10.0}))
            .collect();
        ModelReply::json(json!({"ranking": reversed}))
    });

    let body = json!({"task": TASK, "top_k": 3, "search_type": "semantic"});
    let prompt = bench.compose(&body).await;
    let found = chunk_ids(&bench.asked("rerank")[0].user);
    let judged = chunk_ids(&bench.asked("nli")[0].user);
    assert_eq!(found.len(), 3);
    assert_eq!(judged, found.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(prompt["trace"][3]["model"], "openai_stub:m");
    let ranks: Vec<i64> = prompt["transparency"]["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["rank"].as_i64().unwrap())
        .collect();
    assert_eq!(ranks, [3, 2, 1]);

    // The semantic search is by cosine.
    let cosines = |prompt: &Value| -> Vec<f64> {
        let mut all: Vec<(i64, f64)> = prompt["transparency"]["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                (
                    one["rank"].as_i64().unwrap(),
                    one["semantic"].as_f64().unwrap(),
                )
            })
            .collect();
        all.sort_by_key(|one| one.0);
        all.into_iter().map(|one| one.1).collect()
    };
    assert!(cosines(&prompt).is_sorted_by(|a, b| a >= b));
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_source_that_is_off_reaches_no_stage() {
    for database in TestDatabase::each().await {
        let bench = Bench::on(database, &[]).await;
        bench.file("/docs/lamp.md", LAMP).await;
        let boat = bench.file("/docs/boat.md", BOAT).await;
        bench.test.model.clear();
        let prompt = bench
            .compose(&json!({"task": TASK, "off_source_ids": [boat]}))
            .await;
        assert_eq!(reasons(&prompt).len(), 1);
        for stage in ["rerank", "nli", "condense"] {
            let seen = &bench.asked(stage)[0].user;
            assert!(
                seen.contains("30 m above") && !seen.contains("Mondays"),
                "{seen}"
            );
        }

        // All of them off: nothing is found, and the run completes.
        let lamp = prompt["transparency"]["candidates"][0]["source_id"].clone();
        let none = bench
            .compose(&json!({"task": TASK, "off_source_ids": [boat, lamp]}))
            .await;
        assert_eq!(none["transparency"]["candidates"], json!([]));
        bench.test.app.finish().await;
    }
}

/// In memory, and where the database searches.
#[tokio::test]
async fn hundreds_of_sources_can_be_off() {
    for memory in ["512", "0"] {
        for database in TestDatabase::each().await {
            let settings = [("VECTOR__MEMORY_MB", memory)];
            let bench = Bench::on(database, &settings).await;
            let lamp = bench.file("/docs/lamp.md", LAMP).await;
            let mut off = vec![bench.file("/docs/boat.md", BOAT).await];
            for number in 0..2 {
                let path = format!("/docs/lamp-{number}.md");
                off.push(bench.file(&path, &format!("{LAMP} {number}")).await);
            }
            // Sources that were deleted meanwhile do no harm.
            off.extend((0..300).map(|_| SourceId::default().to_string()));

            let prompt = bench
                .compose(&json!({"task": TASK, "off_source_ids": off}))
                .await;
            let candidates = prompt["transparency"]["candidates"].as_array().unwrap();
            assert!(!candidates.is_empty());
            assert!(
                candidates.iter().all(|one| one["source_id"] == lamp),
                "{candidates:?}"
            );
            bench.test.app.finish().await;
        }
    }
}

#[tokio::test]
async fn each_stage_can_be_switched_off() {
    let bench = Bench::open().await;
    let lamp = bench.file("/docs/lamp.md", LAMP).await;
    bench.file("/docs/boat.md", BOAT).await;
    for (agent, stage) in [
        ("shape", "shape"),
        ("files", "files"),
        ("retrieve", "retrieve"),
        ("rerank", "rerank"),
        ("nli", "nli"),
        ("condense", "condense"),
        ("audit", "audit"),
    ] {
        bench.test.model.clear();
        let body = json!({"task": TASK, "files": [{"source_id": lamp}], "agents": {agent: false}});
        let prompt = bench.compose(&body).await;
        let trace = prompt["trace"].as_array().unwrap();
        let entry = trace.iter().find(|one| one["stage"] == stage).unwrap();
        assert_eq!(entry["status"], "skipped", "{entry}");
        assert!(bench.asked(stage).is_empty(), "{stage}");
        assert_eq!(prompt["s_ctx_fallback"], json!(agent == "condense"));
    }
    bench.test.app.finish().await;
}

#[tokio::test]
async fn chunks_with_long_sources_give_way_instead_of_exceeding_the_ceiling() {
    let bench = Bench::open().await;
    for n in 1..=40 {
        let path = format!("/archive/of-the-lighthouse/papers-about-the-lamp-{n}/the-lamp-{n}.md");
        let text = format!("The lamp number {n} of the lighthouse burns whale oil all night.");
        bench.file(&path, &text).await;
    }

    // The chunks alone would fit; the list of their sources takes more tokens than they do.
    let off =
        json!({"shape": false, "rerank": false, "nli": false, "condense": false, "audit": false});
    let body = json!({"task": TASK, "agents": off, "top_k": 60, "ceilings": {"tokens": 2000}});
    let prompt = bench.compose(&body).await;
    assert_eq!(prompt["estimate"]["within_ceiling"], true);
    let facts = prompt["s_ctx"]["facts"].as_array().unwrap();
    assert!(!facts.is_empty());
    let candidates = prompt["transparency"]["candidates"].as_array().unwrap();
    let kept = candidates.iter().filter(|one| one["kept"] == true).count();
    assert_eq!(kept, facts.len());
    let over = json!("dropped: over the token ceiling");
    assert!(candidates.iter().any(|one| one["reason"] == over));

    // No more is left out than must be: one more takes some sixty tokens.
    let tokens = prompt["estimate"]["tokens"].as_u64().unwrap();
    assert!((1900..=2000).contains(&tokens), "{tokens}");
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_packed_file_fits_and_a_full_one_over_the_ceiling_is_refused_without_a_call() {
    let bench = Bench::open().await;
    let parts: Vec<String> = (1..=200)
        .map(|n| {
            format!("# Part {n}\n\nParagraph {n} says that the lamp has {n} wicks of cotton.\n\n")
        })
        .collect();
    let long = parts.concat();
    bench.file("/docs/long.md", &long).await;
    bench.test.model.clear();
    let file = |mode: &str| {
        json!({"task": TASK, "files": [{"path": "/docs/long.md", "mode": mode}], "lock": true,
            "pack_tokens": 300, "ceilings": {"tokens": 1000}})
    };
    let packed = bench.compose(&file("pack")).await;
    let tokens = packed["files"][0]["tokens"].as_u64().unwrap();
    assert!((150..=300).contains(&tokens), "{tokens}");
    let again = bench.compose(&file("pack")).await;
    assert_eq!(again["files"], packed["files"]);

    bench.test.model.clear();
    let refused = bench.post(&file("full")).await;
    refused.assert_problem(422, "prompt_over_ceiling");
    let context = &refused.json()["context"];
    assert_eq!(context["ceiling"], 1000);
    assert!(context["estimate"]["tokens"].as_u64().unwrap() > 1000);
    assert!(bench.test.model.requests().is_empty());

    // A request cannot raise the ceilings of the workspace.
    bench.workspace(&json!({"ceilings": {"tokens": 60}})).await;
    let body = json!({"task": "word ".repeat(200), "lock": true, "ceilings": {"tokens": 5000}});
    bench
        .post(&body)
        .await
        .assert_problem(422, "prompt_over_ceiling");
    assert!(bench.test.model.requests().is_empty());
    bench.test.app.finish().await;
}

#[tokio::test]
async fn messages_for_a_provider_begin_with_the_stable_parts() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    bench
        .workspace(&json!({"hard_rules": "Never guess."}))
        .await;
    let compose = |target: &'static str, mode: &'static str| {
        let bench = &bench;
        async move {
            let body = json!({"task": TASK, "target": target, "mode": mode});
            bench.compose(&body).await
        }
    };

    let text = compose("text", "brief").await;
    assert_eq!(
        (&text["system"], &text["messages"]),
        (&Value::Null, &Value::Null)
    );
    let anthropic = compose("anthropic", "brief").await;
    assert_eq!(anthropic["system"][0]["text"], "[Hard Rules]\nNever guess.");
    assert_eq!(anthropic["system"][0]["cache_control"]["type"], "ephemeral");
    let parts = anthropic["messages"][0]["content"].as_array().unwrap();
    assert!(parts[0]["text"].as_str().unwrap().starts_with("[S_ctx]"));
    assert_eq!(parts[0]["cache_control"]["type"], "ephemeral");
    assert!(parts[1].get("cache_control").is_none());

    let openai = compose("openai", "brief").await;
    assert_eq!(openai["messages"][0]["role"], "system");
    let gemini = compose("gemini", "brief").await;
    assert_eq!(gemini["messages"][0]["parts"].as_array().unwrap().len(), 2);

    // Another task block leaves the bytes before it as they are.
    let other = compose("text", "in detail").await;
    let prefix = |prompt: &Value| {
        let whole = prompt["prompt"].as_str().unwrap().to_owned();
        whole.split_once("[Task/Mode]").unwrap().0.to_owned()
    };
    assert_eq!(prefix(&other), prefix(&text));
    assert_ne!(other["prompt"], text["prompt"]);
    assert_eq!(other["cache_prefix_tokens"], text["cache_prefix_tokens"]);
    assert!(text["cache_prefix_tokens"].as_u64().unwrap() > 10);
    bench.test.app.finish().await;
}

#[tokio::test]
async fn bad_requests_are_explained() {
    let bench = Bench::open().await;
    for (body, status, code) in [
        (json!({}), 422, "invalid_request"),
        (json!({"task": "  "}), 422, "invalid_request"),
        (json!({"task": "x", "files": [{}]}), 422, "invalid_request"),
        (
            json!({"task": "x", "files": [{"path": "/no"}]}),
            404,
            "not_found",
        ),
        (
            json!({"task": "x", "off_source_ids": ["no"]}),
            422,
            "invalid_request",
        ),
        (
            json!({"task": "x", "off_source_ids": vec![SourceId::default().to_string(); 10_001]}),
            422,
            "invalid_request",
        ),
        (json!({"task": "x", "run_id": "no"}), 422, "invalid_request"),
        (json!({"task": "x", "thread_id": "no"}), 404, "not_found"),
        (
            json!({"task": "x", "model": "no:model"}),
            422,
            "unknown_model",
        ),
        (json!({"task": "x", "theta": 2}), 422, "invalid_request"),
        (
            json!({"task": "x", "target": "mail"}),
            422,
            "invalid_request",
        ),
        (json!({"task": "x", "tools": []}), 422, "invalid_request"),
    ] {
        let reply = bench.post(&body).await;
        assert_eq!(reply.status.as_u16(), status, "{body} {}", reply.text);
        reply.assert_problem(status, code);
    }
    assert!(bench.test.model.requests().is_empty());
    bench.test.app.finish().await;
}
