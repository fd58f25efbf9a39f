//! With `mcp.tools = "all"`, every other call of the API is a tool too; those that delete only if that is allowed.

use serde_json::{Value, json};

use super::{ask, call_as, failure, post, rpc};
use crate::support::app::TestApp;

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_call_is_a_tool_with_its_own_schema() {
    let app = TestApp::with(&[("MCP__TOOLS", "all")]).await;
    let listed = ask(&app, "tools/list", &json!({})).await;
    let names = names(&listed);
    assert!(names.len() > 60, "{names:?}");
    for wanted in ["search", "create_thread", "list_sources", "merge_category"] {
        assert!(names.contains(&wanted), "{wanted}: {names:?}");
    }
    for left_out in [
        "delete_source",
        "delete_space",
        "watch_job",
        "create_ingestion",
        "forget",
        "get_page",
    ] {
        assert!(!names.contains(&left_out), "{left_out}");
    }
    for tool in listed["tools"].as_array().unwrap() {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        jsonschema::draft202012::new(schema).unwrap_or_else(|error| panic!("{error}: {tool}"));
    }

    let made = json!({"body": {"title": "Boiler", "user_id": "ann"}});
    let made = call_as(&app, &[], "create_thread", made).await;
    let made: Value = serde_json::from_str(made["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(made["title"], "Boiler");
    let read = call_as(&app, &[], "get_thread", json!({"id": made["id"]})).await;
    assert!(
        read["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("Boiler"),
        "{read}"
    );
    let none = call_as(&app, &[], "get_thread", json!({})).await;
    assert_eq!(failure(&none), "id: is missing");
    let odd = call_as(&app, &[], "list_sources", json!({"colour": "red"})).await;
    assert!(failure(&odd).contains("colour"), "{odd}");
    let invalid = call_as(&app, &[], "search", json!({"body": {"query": ""}})).await;
    assert!(failure(&invalid).contains("query"), "{invalid}");

    app.finish().await;
}

#[tokio::test]
async fn a_single_user_gets_only_calls_that_are_limited_to_users() {
    let app = TestApp::with(&[("MCP__TOOLS", "all"), ("MCP__ALLOW_FORGET", "true")]).await;
    let (ann, ben) = ([("X-Memoir-User", "ann")], [("X-Memoir-User", "ben")]);
    let document = json!({"text": "The locker is tangerine", "filename": "locker.md"});
    let document = call_as(&app, &ann, "ingest", document).await;
    let source = document["structuredContent"]["source_id"].clone();
    let secret = json!({"text": "My locker is tangerine"});
    let memory = call_as(&app, &ann, "remember", secret).await;
    let memory = memory["structuredContent"]["id"].clone();
    let thread = json!({"body": {"title": "Tangerine", "user_id": "ann"}});
    let thread = call_as(&app, &ann, "create_thread", thread).await;
    let thread = thread["content"][0]["text"].as_str().unwrap();
    let thread: Value = serde_json::from_str(thread).unwrap();

    let listed = post(&app, &rpc("tools/list", &json!({})), &ben)
        .await
        .json();
    let names = names(&listed["result"]);
    for withheld in [
        "get_source",
        "search",
        "retrieve_memory",
        "get_chunk",
        "delete_user",
        "delete_source",
    ] {
        assert!(!names.contains(&withheld), "{withheld}");
        let unknown = rpc("tools/call", &json!({"name": withheld, "arguments": {}}));
        let unknown = post(&app, &unknown, &ben).await.json();
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }

    // Every tool that is left, with ann's ids and ann's name.
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let mut arguments = json!({});
        for name in tool["inputSchema"]["properties"]
            .as_object()
            .unwrap()
            .keys()
        {
            arguments[name] = match name.as_str() {
                "body" => {
                    json!({"user_id": "ann", "query": "locker tangerine", "task": "locker", "text": "x",
                    "thread_id": thread["id"], "source_ids": [source]})
                }
                "user_id" => json!("ann"),
                "id" if tool["name"].as_str().unwrap().contains("memory") => memory.clone(),
                "id" => thread["id"].clone(),
                _ => continue,
            };
        }
        let name = tool["name"].as_str().unwrap();
        let result = call_as(&app, &ben, name, arguments).await;
        let told = result["content"].to_string();
        assert!(
            !told.to_lowercase().contains("is tangerine"),
            "{name}: {told}"
        );
    }
    let kept = call_as(
        &app,
        &ann,
        "recall",
        json!({"query": "Which colour has my locker?"}),
    )
    .await;
    assert!(kept.to_string().contains("is tangerine"), "{kept}");

    // Who is named by the client cannot act for somebody else.
    let posed = json!({"body": {"title": "Posed", "user_id": "ann"}});
    let posed = call_as(&app, &ben, "create_thread", posed).await;
    assert!(
        posed["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("\"ben\""),
        "{posed}"
    );
    app.finish().await;
}

#[tokio::test]
async fn calls_that_delete_need_the_permission() {
    let app = TestApp::with(&[("MCP__TOOLS", "all"), ("MCP__ALLOW_FORGET", "true")]).await;
    let listed = ask(&app, "tools/list", &json!({})).await;
    let names = names(&listed);
    for wanted in ["forget", "delete_source", "delete_thread"] {
        assert!(names.contains(&wanted), "{wanted}");
    }
    app.finish().await;
}
