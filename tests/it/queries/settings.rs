//! The settings of questions: their defaults, their rules, and that they are seen (M-9.C, M-7A.1, K-38).

use std::collections::HashMap;

use memoir::config::{Config, ConfigurationError, Origin};
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::library::Desk;

fn load(settings: &[(&str, &str)]) -> Result<Config, ConfigurationError> {
    let environment: HashMap<String, String> =
        settings.iter().map(|(name, value)| (format!("MEMOIR__{name}"), (*value).to_owned())).collect();
    Config::load(&Origin { file: None, environment })
}

#[tokio::test]
async fn the_defaults_are_shown() {
    let app = TestApp::spawn().await;
    let info = app.get("/v1/info").await.json();
    let wanted = json!({
        "strategy": "one_shot", "n": 0, "n2": 2, "per_level_max": 12, "prompt_limiting_strategy": "PRUNE",
        "max_token_budget": 8000, "use_rankings": true, "overflow": "trim",
        "summarization_instruction_headroom_tokens": 1024, "summary_char_overage_tolerance_percent": 5,
        "summary_max_retries": 1, "per_path_limit": 0, "limit": 500, "timeout_s": 300,
    });
    assert_eq!(info["settings"]["query"], wanted);
    app.finish().await;
}

#[test]
fn rules_are_kept() {
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
            assert!(error.to_string().contains(&format!("query.{}", name.to_lowercase())), "{error}");
        }
    }
    let both = [("QUERY__PROMPT_LIMITING_STRATEGY", "SUMMARIZE"), ("QUERY__MAX_TOKEN_BUDGET", "1024")];
    assert!(load(&both).is_err(), "SUMMARIZE needs more than its headroom");
    assert!(load(&[both[0], ("QUERY__MAX_TOKEN_BUDGET", "1025")]).is_ok());
}

#[tokio::test]
async fn settings_hold_where_the_question_says_nothing() {
    let desk = Desk::with(&[("QUERY__STRATEGY", "zoom_in"), ("QUERY__N", "2"), ("QUERY__N2", "1")]).await;
    super::three_by_three(&desk).await;
    let result = desk.ask_well(json!({"query": "plants", "mode": "retrieve"})).await;
    assert_eq!(super::each(&result["responses"], "max_selectable"), [2, 1, 1]);
    let result = desk.ask_well(json!({"query": "plants", "mode": "retrieve", "strategy": "wide_branch", "n": 3})).await;
    assert_eq!(super::each(&result["responses"], "max_selectable"), [3, 3, 3]);
    desk.close().await;
}
