//! Every protocol in every mode: how the request is parsed, and what the response looks like.

use super::common::*;
use memoir::scripted_model::*;
use serde_json::{Value, json};

#[tokio::test]
async fn every_protocol_and_mode_is_understood_and_answered() {
    let model = model().await;
    for protocol in PROTOCOLS {
        for mode in MODES {
            model.clear();
            let (status, body) = ask(&model, protocol, mode).await;
            assert_eq!(status, 200, "{body}");
            assert_eq!(
                answer(protocol, mode, &body),
                right_answer(),
                "{protocol:?} {mode:?}"
            );

            let seen = model.requests().remove(0);
            assert_eq!((seen.protocol, seen.mode), (protocol, mode));
            assert_eq!(
                (seen.stage.as_str(), seen.model.as_str()),
                ("select", "m-1")
            );

            assert_eq!(
                (seen.system.as_str(), seen.user.as_str()),
                ("Be brief.", SELECT)
            );

            assert_eq!((seen.temperature, seen.max_tokens), (Some(0.0), Some(500)));
            assert_eq!(seen.schema.is_some(), mode != OutputMode::Prompted);
            assert_eq!(seen.header("X-Note"), Some("hello"));
            assert_eq!(seen.outcome, Outcome::Answered(200));
        }
    }
}

#[tokio::test]
async fn finish_reasons_are_the_protocols_own() {
    let model = model().await;
    let expected = [
        (Protocol::OpenAi, ["stop", "tool_calls"]),
        (Protocol::Anthropic, ["end_turn", "tool_use"]),
        (Protocol::Gemini, ["STOP", "STOP"]),
    ];

    for (protocol, [plain, tool]) in expected {
        assert_eq!(
            finish(protocol, &ask(&model, protocol, OutputMode::Native).await.1),
            plain
        );
        assert_eq!(
            finish(protocol, &ask(&model, protocol, OutputMode::Tool).await.1),
            tool
        );
    }

    let mut body = request(Protocol::OpenAi, OutputMode::Tool, SELECT);
    body["tool_choice"] = json!({"type": "function", "function": {"name": "select"}});
    let forced: Value = post(&model, Protocol::OpenAi, &body)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    assert_eq!(finish(Protocol::OpenAi, &forced), "stop");
}

#[tokio::test]
async fn usage_is_counted_by_length_or_fixed() {
    let model = model().await;
    let (_, body) = ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    let sent = ("Be brief.".len() + SELECT.len()).div_ceil(4);
    assert_eq!(body["usage"]["prompt_tokens"], sent);
    assert_eq!(
        body["usage"]["completion_tokens"],
        right_answer().to_string().len().div_ceil(4)
    );

    let usage = UsageScript {
        prompt_tokens: Some(100),
        completion_tokens: Some(7),
        cached_tokens: 60,
        omit: false,
    };

    model.set_script(Script {
        usage,
        ..Script::default()
    });

    let (_, body) = ask(&model, Protocol::OpenAi, OutputMode::Tool).await;
    assert_eq!(body["usage"]["total_tokens"], 107);
    assert_eq!(body["usage"]["prompt_tokens_details"]["cached_tokens"], 60);
    let (_, body) = ask(&model, Protocol::Anthropic, OutputMode::Tool).await;
    assert_eq!(body["usage"]["input_tokens"], 40);
    assert_eq!(body["usage"]["cache_read_input_tokens"], 60);
    assert_eq!(body["usage"]["output_tokens"], 7);
    let (_, body) = ask(&model, Protocol::Gemini, OutputMode::Tool).await;
    let counts = json!({"promptTokenCount": 100, "candidatesTokenCount": 7, "totalTokenCount": 107,
        "cachedContentTokenCount": 60});

    assert_eq!(body["usageMetadata"], counts);
    assert_eq!(
        model.stats().completion_tokens,
        21 + right_answer().to_string().len().div_ceil(4) as u64
    );
}

#[tokio::test]
async fn embeddings_answer_in_order() {
    let model = model().await;
    let mut body = request(Protocol::Embeddings, OutputMode::Prompted, "sea");
    let answer: Value = post(&model, Protocol::Embeddings, &body)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    assert_eq!(answer["data"][1]["index"], 1);
    assert_eq!(answer["data"][0]["embedding"].as_array().unwrap().len(), 64);
    body["dimensions"] = json!(8);
    let answer: Value = post(&model, Protocol::Embeddings, &body)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    assert_eq!(answer["data"][0]["embedding"].as_array().unwrap().len(), 8);
    assert_eq!(model.stats().by_stage["embed"], 2);
    assert_eq!(model.requests()[0].protocol, Protocol::Embeddings);
}

#[tokio::test]
async fn a_closure_can_answer() {
    let model = model().await;
    model.set_rule(|seen| {
        if seen.number == 1 {
            return Reply::fault(Fault::Status {
                status: 503,
                headers: [].into(),
                body: String::new(),
            });
        }
        Reply::json(json!({"n": seen.number})).with_usage(Usage {
            prompt_tokens: 1,
            ..Usage::default()
        })
    });

    let (status, body) = ask(&model, Protocol::Anthropic, OutputMode::Native).await;
    assert_eq!(
        (status, &body["error"]["type"]),
        (503, &json!("overloaded_error"))
    );

    let (_, body) = ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    assert_eq!(text(Protocol::OpenAi, &body), Some(r#"{"n":2}"#));
    assert_eq!(body["usage"]["prompt_tokens"], 1);
}

#[tokio::test]
async fn unknown_stages_get_a_minimal_valid_answer() {
    let model = model().await;
    let mut body = request(Protocol::OpenAi, OutputMode::Prompted, "Ready?");
    let schema =
        json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
    body["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "probe", "schema": schema}});
    let answer: Value = post(&model, Protocol::OpenAi, &body)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    assert_eq!(text(Protocol::OpenAi, &answer), Some(r#"{"ok":false}"#));
    assert_eq!(model.requests()[0].stage, "probe");
}

#[tokio::test]
async fn bad_requests_get_errors_in_the_protocols_format() {
    let model = model().await;
    let (status, body) = {
        let response = post(
            &model,
            Protocol::Anthropic,
            &json!({"model": "m", "messages": []}),
        )
        .await
        .unwrap();
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };

    assert_eq!(status, 400);
    assert_eq!(body["type"], "error");
    assert!(
        body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("max_tokens")
    );

    let response = post(&model, Protocol::Gemini, &json!([])).await.unwrap();
    assert_eq!(
        response.json::<Value>().await.unwrap()["error"]["status"],
        "INVALID_ARGUMENT"
    );

    assert_eq!((model.stats().unreadable, model.stats().requests), (1, 1));
}
