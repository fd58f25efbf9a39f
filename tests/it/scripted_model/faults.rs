//! The faults, in the protocols and modes where they look different.

use std::time::{Duration, Instant};

use super::common::*;
use memoir::scripted_model::*;
use serde_json::{Value, json};

const ALL: [(Protocol, OutputMode); 9] = {
    use OutputMode::{Native, Prompted, Tool};
    use Protocol::{Anthropic, Gemini, OpenAi};
    [
        (OpenAi, Native),
        (OpenAi, Tool),
        (OpenAi, Prompted),
        (Anthropic, Native),
        (Anthropic, Tool),
        (Anthropic, Prompted),
        (Gemini, Native),
        (Gemini, Tool),
        (Gemini, Prompted),
    ]
};

fn status(status: u16) -> Fault {
    Fault::Status {
        status,
        headers: [("retry-after".to_owned(), "7".to_owned())].into(),
        body: String::new(),
    }
}

#[tokio::test]
async fn a_status_is_played_once_with_its_headers() {
    let model = model().await;
    for (protocol, mode) in ALL {
        model.push(status(429));
        let response = post(&model, protocol, &request(protocol, mode, SELECT))
            .await
            .unwrap();
        assert_eq!(
            (
                response.status().as_u16(),
                &response.headers()["retry-after"]
            ),
            (429, &"7".parse().unwrap())
        );

        assert!(response.json::<Value>().await.unwrap()["error"]["message"].is_string());
        assert_eq!(ask(&model, protocol, mode).await.0, 200);
    }

    assert_eq!(model.stats().by_status, [(200, 9), (429, 9)].into());
    assert_eq!(
        (model.stats().faults_met, model.stats().faults_queued),
        (9, 0)
    );
}

#[tokio::test]
async fn steps_apply_to_their_stage_and_model() {
    let model = model().await;
    model.push(Step::new(status(500)).only_stage("classify"));
    model.push(Step::new(status(501)).only_model("m-2"));
    model.push(
        Step::new(status(502))
            .only_model("m-1")
            .only_stage("select"),
    );

    model.always(status(503));
    assert_eq!(
        ask(&model, Protocol::Gemini, OutputMode::Native).await.0,
        502
    );

    assert_eq!(
        ask(&model, Protocol::Gemini, OutputMode::Native).await.0,
        503
    );

    assert_eq!(model.stats().faults_queued, 2);
    model.clear_faults();
    assert_eq!(
        ask(&model, Protocol::Gemini, OutputMode::Native).await.0,
        200
    );
}

#[tokio::test]
async fn texts_and_answers_are_replaced_in_every_mode() {
    let model = model().await;
    for (protocol, mode) in ALL {
        model.push(Fault::RawText {
            text: "not { json".to_owned(),
        });
        let (_, body) = ask(&model, protocol, mode).await;
        match mode {
            OutputMode::Tool => assert_eq!(arguments(protocol, &body), Some("not { json".into())),
            _ => assert_eq!(text(protocol, &body), Some("not { json")),
        }

        model.push(Fault::RawAnswer {
            json: json!({"a": 1}),
        });
        assert_eq!(
            answer(protocol, mode, &ask(&model, protocol, mode).await.1),
            json!({"a": 1})
        );

        model.push(Fault::Edit {
            pointer: "/selections/0/category".to_owned(),
            value: json!("Nowhere"),
        });

        let (_, body) = ask(&model, protocol, mode).await;
        assert_eq!(
            answer(protocol, mode, &body)["selections"][0]["category"],
            "Nowhere"
        );

        model.push(Fault::Remove {
            pointer: "/selections".to_owned(),
        });
        assert_eq!(
            answer(protocol, mode, &ask(&model, protocol, mode).await.1),
            json!({})
        );

        model.push(Fault::Edit {
            pointer: "/no/such".to_owned(),
            value: json!(1),
        });

        assert_eq!(ask(&model, protocol, mode).await.0, 501);
    }
}

#[tokio::test]
async fn answers_can_be_truncated_fenced_emptied_and_refused() {
    let model = model().await;
    let reasons = [
        (Protocol::OpenAi, "length"),
        (Protocol::Anthropic, "max_tokens"),
        (Protocol::Gemini, "MAX_TOKENS"),
    ];

    for (protocol, reason) in reasons {
        model.push(Fault::Truncated { keep_chars: 9 });
        let (_, body) = ask(&model, protocol, OutputMode::Native).await;
        assert_eq!(
            (text(protocol, &body), finish(protocol, &body)),
            (Some(r#"{"selecti"#), reason)
        );
        model.push(Fault::Fenced {
            before: "Sure:".to_owned(),
            after: "Bye".to_owned(),
        });
        let (_, body) = ask(&model, protocol, OutputMode::Prompted).await;
        let expected = format!("Sure:\n```json\n{}\n```\nBye", right_answer());
        assert_eq!(text(protocol, &body), Some(expected.as_str()));
        model.push(Fault::Empty);
        let (_, body) = ask(&model, protocol, OutputMode::Native).await;
        assert_eq!(text(protocol, &body).unwrap_or_default(), "");
        model.push(Fault::NoToolCall);
        let (_, body) = ask(&model, protocol, OutputMode::Tool).await;
        assert_eq!(
            text(protocol, &body),
            Some(right_answer().to_string().as_str())
        );
        assert_eq!(arguments(protocol, &body), None);
        model.push(Fault::NoUsage);
        let (_, body) = ask(&model, protocol, OutputMode::Tool).await;
        assert!(body.get("usage").is_none() && body.get("usageMetadata").is_none());
    }
}

#[tokio::test]
async fn refusals_have_each_providers_shape() {
    let model = model().await;
    for _ in 0..3 {
        model.push(Fault::Refusal {
            text: "No.".to_owned(),
            blocked_prompt: false,
        });
    }
    model.push(Fault::Refusal {
        text: "No.".to_owned(),
        blocked_prompt: true,
    });
    let (_, body) = ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    assert_eq!(body["choices"][0]["message"]["refusal"], "No.");
    assert_eq!(
        (
            finish(Protocol::OpenAi, &body),
            text(Protocol::OpenAi, &body)
        ),
        ("stop", None)
    );
    let (_, body) = ask(&model, Protocol::Anthropic, OutputMode::Tool).await;
    assert_eq!(finish(Protocol::Anthropic, &body), "refusal");
    let (_, body) = ask(&model, Protocol::Gemini, OutputMode::Native).await;
    assert_eq!(finish(Protocol::Gemini, &body), "SAFETY");
    let (_, body) = ask(&model, Protocol::Gemini, OutputMode::Native).await;
    assert_eq!(body["promptFeedback"]["blockReason"], "SAFETY");
    assert!(body.get("candidates").is_none());
}

#[tokio::test]
async fn a_provider_can_lack_modes_and_parameters() {
    let model = model().await;
    model.set_script(Script {
        reject_native: Some("no schemas here".to_owned()),
        reject_tool: Some(String::new()),
        ..Script::default()
    });
    for protocol in PROTOCOLS {
        assert_eq!(
            ask(&model, protocol, OutputMode::Native).await,
            (400, json!("no schemas here"))
        );
        let (status, body) = ask(&model, protocol, OutputMode::Tool).await;
        assert_eq!((status, body["error"]["message"].is_string()), (400, true));
        assert_eq!(ask(&model, protocol, OutputMode::Prompted).await.0, 200);
    }
    model.set_script(Script {
        reject_parameters: vec!["temperature".to_owned()],
        ..Script::default()
    });
    let (status, body) = ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    assert_eq!(
        (status, &body["error"]["param"]),
        (400, &json!("temperature"))
    );
    assert_eq!(
        ask(&model, Protocol::Gemini, OutputMode::Native).await.0,
        400
    );
    let mut body = request(Protocol::OpenAi, OutputMode::Native, SELECT);
    body.as_object_mut().unwrap().remove("temperature");
    assert_eq!(
        post(&model, Protocol::OpenAi, &body)
            .await
            .unwrap()
            .status(),
        200
    );
    model.set_script(Script::default());
    model.always(Fault::RefuseTool {
        status: 422,
        body: String::new(),
    });
    assert_eq!(
        ask(&model, Protocol::OpenAi, OutputMode::Native).await.0,
        200
    );
    assert_eq!(ask(&model, Protocol::OpenAi, OutputMode::Tool).await.0, 422);
}

#[tokio::test]
async fn responds_with_html_pages_and_huge_answers() {
    let model = model().await;
    model.push(Fault::Html);
    let response = post(
        &model,
        Protocol::OpenAi,
        &request(Protocol::OpenAi, OutputMode::Native, SELECT),
    )
    .await
    .unwrap();
    assert!(
        response.headers()["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
    for chunked in [false, true] {
        model.push(Fault::Huge {
            bytes: 3_000_000,
            chunked,
        });
        let body = request(Protocol::Gemini, OutputMode::Native, SELECT);
        let response = post(&model, Protocol::Gemini, &body).await.unwrap();
        assert_eq!(response.headers().contains_key("content-length"), !chunked);
        assert!(response.bytes().await.unwrap().len() >= 3_000_000);
    }
    assert_eq!(model.stats().answered, 3);
}

#[tokio::test]
async fn a_delay_step_delays_the_response() {
    let model = model().await;
    model.edit_script(|script| script.latency_ms = 20);
    model.push(Fault::Delay { ms: 40 });
    let start = Instant::now();
    assert_eq!(
        ask(&model, Protocol::OpenAi, OutputMode::Native).await.0,
        200
    );
    assert!(start.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn vectors_can_be_invalid() {
    let model = model().await;
    model.push(Fault::Edit {
        pointer: "/data/0/index".to_owned(),
        value: json!(9),
    });
    model.push(Fault::Truncated { keep_chars: 5 });
    let body = request(Protocol::Embeddings, OutputMode::Prompted, "sea");
    let answer: Value = post(&model, Protocol::Embeddings, &body)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(answer["data"][0]["index"], 9);
    assert_eq!(
        post(&model, Protocol::Embeddings, &body)
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
            .len(),
        5
    );
}
