//! The requests that each kind of provider receives, and how its responses are read.

use memoir::llm::Task as _;
use serde_json::{Value, json};

use crate::support::door::{Door, MODES, choice, five_chunks, in_mode};

const KINDS: [&str; 3] = ["openai_stub", "anthropic_stub", "gemini_stub"];

/// The only request of a call, without the parts that change with every run.
async fn sent(kind: &str, mode: &'static str) -> Value {
    let door = Door::with(&in_mode(mode)).await;
    let session = door
        .session()
        .with_model(Some(format!("{kind}:m-1")))
        .deterministic(true);

    door.llm
        .ask(&session, choice(&["Alpha", "Beta", "Gamma"], 2))
        .await
        .unwrap();

    let seen = door.model.requests();
    assert_eq!(seen.len(), 1, "{kind} {mode}");
    let header = |name: &str| {
        seen[0]
            .headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
    };

    json!({
        "authorization": header("authorization"), "x-api-key": header("x-api-key"),
        "x-goog-api-key": header("x-goog-api-key"), "anthropic-version": header("anthropic-version"),
        "content-type": header("content-type"), "body": seen[0].body,
    })
}

#[tokio::test]
async fn every_kind_of_provider_gets_exactly_this_request_in_each_mode() {
    for kind in KINDS {
        for (mode, _) in MODES {
            insta::assert_json_snapshot!(format!("request_{kind}_{mode}"), sent(kind, mode).await);
        }
    }
}

#[tokio::test]
async fn a_request_never_has_both_tools_and_a_response_format() {
    for kind in KINDS {
        for (mode, _) in MODES {
            let body = sent(kind, mode).await["body"].to_string();
            let native = ["response_format", "output_config", "responseJsonSchema"]
                .iter()
                .any(|name| body.contains(name));
            let tool = body.contains("\"tools\"");
            assert_eq!(
                (native, tool),
                (mode == "native", mode == "tool"),
                "{kind} {mode}"
            );

            assert!(
                body.contains("ranked_relevance"),
                "every mode contains the schema"
            );
        }
    }
}

#[tokio::test]
async fn tokens_are_read_in_every_protocol_and_priced() {
    let prices = r#"{"m-1": {"input": 2.0, "cached": 0.5, "output": 10.0}}"#;
    for kind in KINDS {
        let setting = format!("LLM__PROVIDERS__{}__PRICES", kind.to_uppercase());
        let door = Door::with(&[(&setting, prices)]).await;
        door.model.edit_script(|script| {
            script.usage.prompt_tokens = Some(1000);
            script.usage.completion_tokens = Some(50);
            script.usage.cached_tokens = 400;
        });

        let session = door.session().with_model(Some(format!("{kind}:m-1")));
        let answered = door.llm.ask(&session, five_chunks()).await.unwrap();
        let [call] = answered.calls.as_slice() else {
            panic!("{:?}", answered.calls)
        };
        assert_eq!(
            (
                call.tokens_prompt,
                call.tokens_completion,
                call.tokens_cached
            ),
            (1000, 50, 400),
            "{kind}"
        );

        let cost = call.cost_usd.unwrap();
        assert!(
            (cost - (600.0 * 2.0 + 400.0 * 0.5 + 50.0 * 10.0) / 1e6).abs() < 1e-12,
            "{kind} {cost}"
        );

        assert_eq!(
            (
                call.outcome.as_str(),
                call.mode.as_str(),
                call.stage.as_str()
            ),
            ("ok", "native", "classify")
        );

        assert_eq!(call.level, Some(1));
        assert_eq!(
            call.llm_output.as_ref().unwrap()["chunks"]
                .as_array()
                .unwrap()
                .len(),
            5
        );
    }
}

#[tokio::test]
async fn tokens_are_estimated_if_the_provider_reports_none() {
    let door = Door::open().await;
    door.model.edit_script(|script| script.usage.omit = true);
    let answered = door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    assert!(answered.calls[0].tokens_prompt > 50, "{:?}", answered.calls);
    assert_eq!(answered.calls[0].provider_params["usage"], "estimated");
}

#[tokio::test]
async fn extra_headers_are_sent_and_no_key_means_no_authorization() {
    let door = Door::with(&[
        (
            "LLM__PROVIDERS__OPENAI_STUB__HEADERS",
            r#"{"x-org": "acme"}"#,
        ),
        ("LLM__PROVIDERS__BARE__BASE_URL", "http://127.0.0.1:1/v1"),
    ])
    .await;

    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    let headers = &door.model.requests()[0].headers;
    assert!(
        headers.contains(&("x-org".to_owned(), "acme".to_owned())),
        "{headers:?}"
    );

    let bare = Door::with(&[(
        "LLM__PROVIDERS__KEYLESS__BASE_URL",
        &door.model.openai_url(),
    )])
    .await;

    let session = bare.session().with_model(Some("keyless:m".to_owned()));
    bare.llm.ask(&session, five_chunks()).await.unwrap();
    let headers = &door.model.requests()[1].headers;
    assert!(
        !headers.iter().any(|(name, _)| name == "authorization"),
        "{headers:?}"
    );
}

/// The prompt is the same every time, because providers' caches depend on it.
#[tokio::test]
async fn the_prompt_contains_nothing_that_changes_between_calls() {
    let door = Door::open().await;
    for _ in 0..2 {
        door.llm.ask(&door.session(), five_chunks()).await.unwrap();
    }

    let seen = door.model.requests();
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(seen[0].user, five_chunks().frame());
}

#[tokio::test]
async fn two_profiles_call_their_own_servers() {
    let first = Door::open().await;
    let second = Door::with(&[("LLM__PROVIDERS__B__BASE_URL", &first.model.openai_url())]).await;
    let session = second.session().with_model(Some("b:x".to_owned()));
    second.llm.ask(&session, five_chunks()).await.unwrap();
    assert_eq!(
        (first.model.requests().len(), second.model.requests().len()),
        (1, 0)
    );

    assert_eq!(first.model.requests()[0].model, "x");
}

#[tokio::test]
async fn stages_can_have_their_own_models() {
    let door = Door::with(&[("LLM__MODELS__SELECT", "openai_stub:chooser")]).await;
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    door.llm
        .ask(&door.session(), choice(&["A", "B"], 1))
        .await
        .unwrap();

    let models: Vec<String> = door
        .model
        .requests()
        .into_iter()
        .map(|seen| seen.model)
        .collect();

    assert_eq!(models, ["m", "chooser"]);
}

/// Variables of the environment that are meant for other programs are not sent.
#[tokio::test]
async fn unrelated_environment_variables_are_not_sent() {
    let door = Door::open().await;
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    let names: Vec<String> = door.model.requests()[0]
        .headers
        .iter()
        .map(|(name, _)| name.clone())
        .collect();

    for name in &names {
        let known = [
            "accept",
            "accept-encoding",
            "authorization",
            "content-length",
            "content-type",
            "host",
            "user-agent",
        ];
        assert!(known.contains(&name.as_str()), "{names:?}");
    }
}

/// A request may name a model, and for some providers the name becomes part of a URL.
#[tokio::test]
async fn a_model_name_cannot_change_the_requested_path() {
    let door = Door::open().await;
    let long = "x".repeat(300);
    for name in [
        "../../admin",
        "x/../../files",
        "m?force=1",
        "m#x",
        "m m",
        "m\u{202e}",
        "a\nb",
        "/m",
        "%2e%2e/m",
        &long,
    ] {
        for kind in KINDS {
            let session = door.session().with_model(Some(format!("{kind}:{name}")));
            let error = door.llm.ask(&session, five_chunks()).await.unwrap_err();
            assert_eq!(error.code(), "unknown_model", "{kind} {name}");
            assert!(error.to_string().len() < 300, "{error}");
        }
    }

    assert!(door.model.requests().is_empty());
}
