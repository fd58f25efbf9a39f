//! The settings of queries: their defaults, their rules, and that they can be read.

use std::collections::HashMap;

use memoir::config::{Config, ConfigurationError, Origin};
use memoir::scripted_model::ScriptedModel;
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::library::Desk;

fn load(settings: &[(&str, &str)]) -> Result<Config, ConfigurationError> {
    let environment: HashMap<String, String> = settings
        .iter()
        .map(|(name, value)| (format!("MEMOIR__{name}"), (*value).to_owned()))
        .collect();
    Config::load(&Origin {
        file: None,
        environment,
    })
}

#[tokio::test]
async fn the_defaults_are_shown() {
    let app = TestApp::spawn().await;
    let info = app.get("/v1/info").await.json();
    let wanted = json!({
        "strategy": "auto", "n": 0, "n2": 2, "per_level_max": 12, "prompt_limiting_strategy": "PRUNE",
        "max_token_budget": 8000, "use_rankings": true, "overflow": "trim",
        "summarization_instruction_headroom_tokens": 1024, "summary_char_overage_tolerance_percent": 5,
        "summary_max_retries": 1, "per_path_limit": 0, "limit": 500, "timeout_s": 300, "reuse_ttl": 600,
    });

    assert_eq!(info["settings"]["query"], wanted);
    app.finish().await;
}

#[test]
fn a_budget_must_be_set() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("m.yaml", "query:\n  max_token_budget: null\n"),
        ("m.json", r#"{"query": {"max_token_budget": null}}"#),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let error = Config::load(&Origin {
            file: Some(file),
            environment: HashMap::new(),
        })
        .unwrap_err();
        assert!(
            error.to_string().contains("query.max_token_budget"),
            "{error}"
        );
    }
}

/// Only the provider that the query names is called.
#[tokio::test]
async fn a_query_can_name_its_model() {
    let other = ScriptedModel::local().await.unwrap();
    let url = other.openai_url();
    let desk = Desk::with(&[
        ("LLM__PROVIDERS__OTHER__KIND", "openai"),
        ("LLM__PROVIDERS__OTHER__BASE_URL", &url),
        ("LLM__PROVIDERS__OTHER__API_KEY", "sk-other"),
    ])
    .await;

    super::three_by_three(&desk).await;
    let result = desk
        .ask_well(json!({"query": "small plants", "model": "other:gpt-4o-mini"}))
        .await;
    assert_eq!(
        (desk.model.stats().requests, other.stats().requests),
        (0, 4)
    );

    let models = super::each(&result["responses"], "model");
    assert!(
        models
            .iter()
            .all(|model| model == "gpt-4o-mini" || model == "other:gpt-4o-mini"),
        "{models:?}"
    );

    desk.ask_well(json!({"query": "small plants"})).await;
    assert_eq!(
        (desk.model.stats().requests, other.stats().requests),
        (4, 4)
    );

    let body = json!({"text": "A text about plants.", "wait": true, "options": {"model": "other:gpt-4o-mini"}});
    let job = desk.app.post("/v1/ingestions", &body).await.json();
    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(desk.model.stats().requests, 4);
    assert!(other.stats().requests > 4);

    desk.close().await;
}

#[test]
fn settings_are_validated() {
    for (name, value, fine) in [
        ("STRATEGY", "zoom_in", true),
        ("STRATEGY", "sideways", false),
        ("N", "100", true),
        ("N", "101", false),
        ("N", "-1", false),
        ("N2", "0", true),
        ("PER_LEVEL_MAX", "0", false),
        ("PROMPT_LIMITING_STRATEGY", "SUMMARIZE", true),
        ("PROMPT_LIMITING_STRATEGY", "summarize", false),
        ("MAX_TOKEN_BUDGET", "400", false),
        ("MAX_TOKEN_BUDGET", "401", true),
        ("MAX_TOKEN_BUDGET", "many", false),
        ("MAX_TOKEN_BUDGET", "1.5", false),
        ("OVERFLOW", "ignore", false),
        ("USE_RANKINGS", "perhaps", false),
        ("SUMMARY_MAX_RETRIES", "0", true),
        ("SUMMARY_MAX_RETRIES", "-1", false),
        ("LIMIT", "0", false),
        ("LIMIT", "501", false),
        ("TIMEOUT_S", "0", false),
    ] {
        let loaded = load(&[(&format!("QUERY__{name}"), value)]);
        assert_eq!(loaded.is_ok(), fine, "{name} = {value}");
        if let Err(error) = loaded {
            assert!(
                error
                    .to_string()
                    .contains(&format!("query.{}", name.to_lowercase())),
                "{error}"
            );
        }
    }

    let both = [
        ("QUERY__PROMPT_LIMITING_STRATEGY", "SUMMARIZE"),
        ("QUERY__MAX_TOKEN_BUDGET", "1024"),
    ];

    assert!(
        load(&both).is_err(),
        "SUMMARIZE needs more than its headroom"
    );

    assert!(load(&[both[0], ("QUERY__MAX_TOKEN_BUDGET", "1025")]).is_ok());
}

#[tokio::test]
async fn settings_apply_to_omitted_fields() {
    let desk = Desk::with(&[
        ("QUERY__STRATEGY", "zoom_in"),
        ("QUERY__N", "2"),
        ("QUERY__N2", "1"),
    ])
    .await;

    super::three_by_three(&desk).await;
    let result = desk
        .ask_well(json!({"query": "plants", "mode": "retrieve"}))
        .await;
    assert_eq!(
        super::each(&result["responses"], "max_selectable"),
        [2, 1, 1]
    );

    let result = desk
        .ask_well(json!({"query": "plants", "mode": "retrieve", "strategy": "wide_branch", "n": 3}))
        .await;
    assert_eq!(
        super::each(&result["responses"], "max_selectable"),
        [3, 3, 3]
    );

    desk.close().await;
}
