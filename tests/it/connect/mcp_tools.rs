//! The tools: what an agent stores, it finds again; results are bounded; secrets are not stored; nothing is opened.

use std::fmt::Write as _;

use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};

use super::{ask, call, call_as, failure};
use crate::support::app::TestApp;

/// A text of about 60,000 characters whose sentences differ.
fn long_text() -> String {
    let mut text = String::new();
    for n in 0..1000 {
        let (pallet, hall) = (n * 7, n % 13);
        writeln!(
            text,
            "Sentence {n} tells that pallet {pallet} stands in hall {hall}."
        )
        .unwrap();
    }
    text
}

#[tokio::test]
async fn what_is_remembered_is_recalled_read_and_forgotten() {
    let app = TestApp::with(&[("MCP__ALLOW_FORGET", "true")]).await;
    let fact =
        json!({"text": "Ms. Abernathy from accounting approves travel costs", "tags": ["work"]});
    let stored = call(&app, "remember", fact).await;
    assert_eq!(stored["kind"], "fact");
    let said = json!({"text": "I prefer trains to planes", "thread": "chat 7", "role": "user"});
    assert_eq!(call(&app, "remember", said).await["kind"], "message");
    let prefers = json!({"text": "Answers in metric units", "kind": "preference"});
    assert_eq!(call(&app, "remember", prefers).await["kind"], "preference");

    let known = call(
        &app,
        "recall",
        json!({"query": "Who approves travel costs?"}),
    )
    .await;
    assert_eq!(known["found"], true, "{known}");
    assert!(
        known["text"].as_str().unwrap().contains("Abernathy"),
        "{known}"
    );
    assert_eq!(known["memories"][0]["id"], stored["id"], "{known}");

    let id = json!({"id": stored["id"]});
    let whole = call(&app, "read", id.clone()).await;
    assert_eq!(whole["kind"], "memory");
    assert!(
        whole["text"].as_str().unwrap().contains("Abernathy"),
        "{whole}"
    );
    assert_eq!(call(&app, "forget", id.clone()).await["kind"], "memory");
    assert!(failure(&call_as(&app, &[], "read", id.clone()).await).contains("nothing has this id"));
    assert!(failure(&call_as(&app, &[], "forget", id).await).contains("no memory and no document"));
    let known = call(
        &app,
        "recall",
        json!({"query": "Who approves travel costs?"}),
    )
    .await;
    assert!(!known.to_string().contains("Abernathy"), "{known}");
    app.finish().await;
}

#[tokio::test]
async fn a_document_is_ingested_asked_and_read() {
    let app = TestApp::spawn().await;
    let text = "# Observatory\n\nThe telescope of the school has a mirror of 254 millimetres. It was built by Vera Lind.\n";
    let document = json!({"text": text, "filename": "observatory.md", "tags": ["astronomy"]});
    let done = call(&app, "ingest", document.clone()).await;
    assert_eq!(
        (&done["state"], &done["version"]),
        (&json!("succeeded"), &json!(1)),
        "{done}"
    );
    let again = call(&app, "ingest", document).await;
    assert_eq!(
        again["source_id"], done["source_id"],
        "one name is one document"
    );

    let question = json!({"question": "Who built the telescope of the school?"});
    let answered = call(&app, "ask", question).await;
    assert_eq!(answered["found"], true, "{answered}");
    let citation = &answered["citations"][0];
    assert!(
        citation["quote"].as_str().unwrap().contains("Vera Lind"),
        "{answered}"
    );
    assert_eq!(citation["id"], done["source_id"], "{answered}");
    assert!(
        citation["place"]
            .as_str()
            .unwrap()
            .contains("observatory.md"),
        "{answered}"
    );

    let whole = call(&app, "read", json!({"id": done["source_id"]})).await;
    assert_eq!(whole["text"], text);
    assert_eq!(whole["more"], false);
    let part = json!({"filename": "observatory.md", "start_char": 2, "max_chars": 11});
    assert_eq!(call(&app, "read", part).await["text"], "Observatory");
    let later = json!({"text": "# Later\n\nChanged last.\n", "filename": "twice.md"});
    let earlier = json!({"filename": "twice.md", "path": "/elsewhere/twice.md", "text": "Earlier"});
    app.post("/v1/ingestions", &{
        let mut earlier = earlier;
        earlier["wait"] = true.into();
        earlier
    })
    .await;
    call(&app, "ingest", later).await;
    let last = call(&app, "read", json!({"filename": "twice.md"})).await;
    assert!(
        last["text"].as_str().unwrap().contains("Changed last"),
        "{last}"
    );
    let version = json!({"id": done["source_id"], "version": 9});
    assert!(failure(&call_as(&app, &[], "read", version).await).contains("no version 9"));

    let nothing = call(&app, "ask", json!({"question": "Qwerty zxcvb plugh?"})).await;
    assert_eq!(
        (&nothing["found"], &nothing["answer"]),
        (&json!(false), &json!("")),
        "{nothing}"
    );
    app.finish().await;
}

#[tokio::test]
async fn results_have_at_most_so_many_tokens() {
    let app = TestApp::with(&[("MCP__MAX_RESULT_TOKENS", "900")]).await;
    let text = long_text();
    let done = call(
        &app,
        "ingest",
        json!({"text": text, "filename": "pallets.txt"}),
    )
    .await;
    for n in 0..40 {
        let said = format!(
            "Pallet {n} was moved by forklift {n} to the hall at the harbour, which is far away"
        );
        call(&app, "remember", json!({"text": said})).await;
    }

    let counter = TokenCounter::for_model(None);
    let mut read = String::new();
    let mut start = 0;
    loop {
        let part = json!({"id": done["source_id"], "start_char": start});
        let result = call_as(&app, &[], "read", part).await;
        assert!(counter.count(&result.to_string()) <= 900, "{result}");
        let part = &result["structuredContent"];
        read.push_str(part["text"].as_str().unwrap());
        start = part["end_char"].as_u64().unwrap();
        if part["more"] == false {
            break;
        }
    }
    assert_eq!(read, text, "the parts together are the whole");

    for (tool, arguments) in [
        (
            "recall",
            json!({"query": "Where is the pallet that the forklift moved?", "max_tokens": 50_000}),
        ),
        (
            "ask",
            json!({"question": "In which hall does pallet 70 stand?"}),
        ),
    ] {
        let result = call_as(&app, &[], tool, arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        assert!(
            counter.count(&result.to_string()) <= 900,
            "{tool}: {result}"
        );
    }
    app.finish().await;
}

#[tokio::test]
async fn secrets_are_replaced_before_anything_is_stored() {
    let app = TestApp::spawn().await;
    let key = "sk-proj-Zk3vQ9xT7bN2mW8rY4cL6dF1";
    let fact = json!({"text": format!("The key of the billing service is {key}")});
    assert_eq!(call(&app, "remember", fact).await["redacted"], true);
    let message =
        json!({"text": format!("Use {key} for billing"), "thread": "billing", "role": "assistant"});
    assert_eq!(call(&app, "remember", message).await["redacted"], true);
    let document =
        json!({"text": format!("# Billing\n\nThe key is {key}.\n"), "filename": "billing.md"});
    let done = call(&app, "ingest", document).await;
    let whole = call(&app, "read", json!({"id": done["source_id"]})).await;
    assert!(!whole.to_string().contains(key), "{whole}");
    let known = call(
        &app,
        "recall",
        json!({"query": "What is the key of the billing service?"}),
    )
    .await;
    assert!(
        !known.to_string().contains(key) && known["found"] == true,
        "{known}"
    );
    app.finish().await;
}

#[tokio::test]
async fn sources_and_categories_are_resources_and_the_workbench_is_a_prompt() {
    let app = TestApp::spawn().await;
    for name in ["tides.md", "dough.md"] {
        let text = format!("# {name}\n\nWhat {name} says about the matter.\n");
        call(&app, "ingest", json!({"text": text, "filename": name})).await;
    }

    let listed = ask(&app, "resources/list", &json!({})).await;
    let resources = listed["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 3, "{listed}");
    assert_eq!(resources[0]["uri"], "memoir://categories");
    for resource in resources {
        let read = ask(&app, "resources/read", &json!({"uri": resource["uri"]})).await;
        let text = read["contents"][0]["text"].as_str().unwrap();
        let name = resource["name"].as_str().unwrap();
        assert!(name == "categories" || text.contains(name), "{read}");
    }
    let templates = ask(&app, "resources/templates/list", &json!({})).await;
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);

    let prompts = ask(&app, "prompts/list", &json!({})).await;
    assert_eq!(prompts["prompts"][0]["name"], "compose");
    let wanted = json!({"name": "compose", "arguments": {"task": "Explain the tides"}});
    let prompt = ask(&app, "prompts/get", &wanted).await;
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.contains("Explain the tides") && text.contains("tides.md"),
        "{text}"
    );
    app.finish().await;
}

#[tokio::test]
async fn descriptions_and_schemas_suit_the_clients() {
    let app = TestApp::with(&[("MCP__ALLOW_FORGET", "true")]).await;
    let listed = ask(&app, "tools/list", &json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["remember", "recall", "ask", "read", "ingest", "forget"]
    );
    for tool in tools {
        let description = tool["description"].as_str().unwrap();
        assert!(
            description.contains("Use it") || description.contains("Call it"),
            "{description}"
        );
        assert!(
            description.contains("not "),
            "when not to use it: {description}"
        );
        for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
            assert_eq!(schema["type"], "object", "{tool}");
            let dialect = schema["$schema"]
                .as_str()
                .unwrap_or("https://json-schema.org/draft/2020-12/schema");
            assert_eq!(
                dialect, "https://json-schema.org/draft/2020-12/schema",
                "{tool}"
            );
            for refused in ["anyOf", "oneOf", "allOf"] {
                assert_eq!(schema[refused], Value::Null, "{tool}");
            }
            jsonschema::meta::validate(schema).unwrap();
        }
        let hints = &tool["annotations"];
        assert_eq!(hints["openWorldHint"], false, "{tool}");
        let name = tool["name"].as_str().unwrap();
        assert_eq!(
            hints["readOnlyHint"],
            ["recall", "ask", "read"].contains(&name),
            "{tool}"
        );
        assert_eq!(hints["destructiveHint"], name == "forget", "{tool}");
    }
    app.finish().await;
}
