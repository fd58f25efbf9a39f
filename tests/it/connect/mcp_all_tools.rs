//! With `mcp.tools = "all"`, every other call of the API is a tool too; those that delete only if that is allowed.

use serde_json::{Value, json};

use super::{ask, call_as, failure};
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

    // Who is named by the client cannot act for somebody else.
    let ben = [("X-Memoir-User", "ben")];
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
