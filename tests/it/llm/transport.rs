//! Providers that are busy, unreachable or failing: retries, the circuit breaker, the fallback
//! model, and timeouts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir::llm::tasks::classify::Classify;
use memoir::llm::{Hint, LlmError};
use memoir::scripted_model::{Fault, Script};
use serde_json::json;

use crate::support::door::{Door, MODES, five_chunks, in_mode};

const KINDS: [&str; 3] = ["openai_stub", "anthropic_stub", "gemini_stub"];

fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Fault {
    let headers: BTreeMap<String, String> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Fault::Status {
        status,
        headers,
        body: body.to_owned(),
    }
}

#[tokio::test]
async fn temporary_errors_are_retried_in_every_mode_and_protocol() {
    for (mode, _) in MODES {
        for kind in KINDS {
            let door = Door::with(&in_mode(mode)).await;
            for code in [408, 409, 429, 500, 502, 503, 504, 529] {
                door.model.clear();
                door.model.push(status(code, &[], "busy"));
                door.model
                    .push(status(code, &[], r#"{"detail": "still busy"}"#));
                let answered = door.ask(kind).await;
                let answered =
                    answered.unwrap_or_else(|error| panic!("{kind} {mode} {code}: {error}"));
                let outcomes: Vec<&str> = answered
                    .calls
                    .iter()
                    .map(|call| call.outcome.as_str())
                    .collect();

                assert_eq!(
                    outcomes,
                    ["transport_error", "transport_error", "ok"],
                    "{kind} {mode} {code}"
                );

                let attempts: Vec<i64> = answered.calls.iter().map(|call| call.attempt).collect();
                assert_eq!(attempts, [1, 2, 3]);
                assert_eq!(
                    answered.calls[0].provider_params["error"],
                    format!("status {code}")
                );
            }
        }
    }
}

#[tokio::test]
async fn broken_connections_are_retried() {
    for (mode, _) in MODES {
        for kind in KINDS {
            let door = Door::with(&in_mode(mode)).await;
            for fault in [Fault::Close, Fault::ResetMidBody, Fault::Html] {
                door.model.clear();
                door.model.push(fault.clone());
                let answered = door.ask(kind).await;
                let answered =
                    answered.unwrap_or_else(|error| panic!("{kind} {mode} {fault:?}: {error}"));

                assert_eq!(
                    answered.calls[0].outcome, "transport_error",
                    "{kind} {fault:?}"
                );

                assert_eq!(answered.calls.len(), 2);
            }
        }
    }
}

#[tokio::test]
async fn a_silent_provider_meets_the_read_timeout() {
    for kind in KINDS {
        let door = Door::with(&[("LLM__TRANSPORT__READ_TIMEOUT", "1")]).await;
        for fault in [Fault::Stall, Fault::StallMidBody] {
            door.model.push(fault.clone());
            let begun = Instant::now();
            let answered = door.ask(kind).await.unwrap();
            assert_eq!(
                answered.calls[0].provider_params["error"], "timeout",
                "{kind} {fault:?}"
            );

            assert!(
                (1..20).contains(&begun.elapsed().as_secs()),
                "{kind} {fault:?} {:?}",
                begun.elapsed()
            );

            assert!(
                answered.calls[0].tokens_prompt > 0,
                "the provider may have worked on it"
            );
        }
    }
}

#[tokio::test]
async fn an_endless_response_meets_the_total_timeout() {
    let settings = [
        ("LLM__TRANSPORT__TOTAL_TIMEOUT", "1"),
        ("LLM__TRANSPORT__READ_TIMEOUT", "60"),
    ];

    let door = Door::with(&[&settings[..], &[("LLM__TRANSPORT__TRIES", "1")]].concat()).await;
    door.model.push(Fault::Delay { ms: 20_000 });
    let error = door
        .llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert!(error.to_string().contains("no response in time"), "{error}");
}

#[tokio::test]
async fn retries_wait_as_long_as_the_provider_asks() {
    for headers in [&[("retry-after-ms", "300")][..], &[("retry-after", "0.3")]] {
        for kind in KINDS {
            let door = Door::open().await;
            door.model.push(status(429, headers, "slow down"));
            let begun = Instant::now();
            door.ask(kind).await.unwrap();

            assert!(
                begun.elapsed() >= Duration::from_millis(300),
                "{kind} {headers:?} {:?}",
                begun.elapsed()
            );
        }
    }

    // Google sends it in the body.
    let door = Door::open().await;
    let body =
        json!({"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "0.3s"}]}})
            .to_string();
    door.model.push(status(429, &[], &body));
    let session = door.session().with_model(Some("gemini_stub:m".to_owned()));
    let begun = Instant::now();

    door.llm.ask(&session, five_chunks()).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_provider_that_asks_for_too_long_a_wait_counts_as_unreachable() {
    let door = Door::open().await;
    door.model
        .push(status(429, &[("retry-after", "3600")], "tomorrow"));
    let begun = Instant::now();
    let error = door
        .llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert_eq!(error.code(), "llm_unavailable");
    assert!(begun.elapsed() < Duration::from_secs(20) && door.model.requests().len() == 1);

    // No other caller sends a request before that time, and none waits for it inside the call.
    let next = tokio::time::timeout(
        Duration::from_secs(20),
        door.llm.ask(&door.session(), five_chunks()),
    )
    .await;

    let LlmError::Unavailable {
        wait: Some(wait), ..
    } = next.unwrap().unwrap_err()
    else {
        panic!()
    };

    assert!((3000..=3600).contains(&wait.as_secs()), "{wait:?}");
    assert_eq!(door.model.requests().len(), 1, "nothing was sent");

    // A probe ignores the wait, and its success ends it for all callers.
    assert!(
        door.llm
            .probe(door.session())
            .await
            .unwrap()
            .error
            .is_none()
    );

    door.llm.ask(&door.session(), five_chunks()).await.unwrap();
}

/// A 429 for one caller delays all callers of the same provider.
#[tokio::test]
async fn all_callers_wait_if_the_provider_asks_one_to() {
    let door = Door::open().await;
    // The first call takes longer, because it creates the client.
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    door.model.clear();
    door.model
        .push(status(429, &[("retry-after-ms", "1500")], "slow down"));
    let (first, second) = (door.session(), door.session());
    let later = async {
        assert!(
            door.model
                .wait_for_requests(1, Duration::from_secs(10))
                .await
        );

        tokio::time::sleep(Duration::from_millis(300)).await;
        door.llm.ask(&second, five_chunks()).await
    };

    let (one, two) = tokio::join!(door.llm.ask(&first, five_chunks()), later);
    one.unwrap();
    two.unwrap();
    let times: Vec<u64> = door
        .model
        .requests()
        .iter()
        .map(|seen| seen.at_ms)
        .collect();

    assert_eq!(times.len(), 3);
    assert!(
        times[1] >= times[0] + 1450 && times[2] >= times[0] + 1450,
        "{times:?}"
    );
}

#[tokio::test]
async fn x_should_retry_overrides_the_status() {
    let door = Door::open().await;
    door.model
        .push(status(500, &[("x-should-retry", "false")], "no use"));
    door.llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert_eq!(door.model.requests().len(), 1);
}

#[tokio::test]
async fn an_unreachable_provider_uses_up_the_tries() {
    for (mode, _) in MODES {
        let door = Door::with(&in_mode(mode)).await;
        door.model.always(status(503, &[], ""));
        let error = door
            .llm
            .ask(&door.session(), five_chunks())
            .await
            .unwrap_err();

        assert_eq!(
            (error.code(), door.model.requests().len()),
            ("llm_unavailable", 3),
            "{mode}"
        );

        assert!(error.may_pass(), "a job tries again later");
    }

    let door = Door::with(&[("LLM__PROVIDERS__GONE__BASE_URL", "http://127.0.0.1:1/v1")]).await;
    let session = door.session().with_model(Some("gone:m".to_owned()));
    let error = door.llm.ask(&session, five_chunks()).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!(session.calls().len(), 3);
    let tls = door.model.openai_url().replace("http://", "https://");
    let door = Door::with(&[
        ("LLM__PROVIDERS__TLS__BASE_URL", &tls),
        ("LLM__PROVIDERS__TLS__API_KEY", "k"),
    ])
    .await;

    let session = door.session().with_model(Some("tls:m".to_owned()));
    assert_eq!(
        door.llm
            .ask(&session, five_chunks())
            .await
            .unwrap_err()
            .code(),
        "llm_unavailable"
    );
}

#[tokio::test]
async fn a_rejected_key_or_model_is_reported_at_once() {
    for (mode, _) in MODES {
        let door = Door::with(&in_mode(mode)).await;
        for kind in KINDS {
            for (code, body, wanted) in [
                (401, "", "provider_auth"),
                (401, r#"{"detail": "who are you"}"#, "provider_auth"),
                (403, "forbidden", "provider_auth"),
                (
                    403,
                    r#"{"error": {"message": "Flagged", "metadata": {"reasons": ["violence"]}}}"#,
                    "llm_rejected",
                ),
                (
                    404,
                    r#"{"error": {"message": "The model `m` does not exist"}}"#,
                    "model_not_found",
                ),
                (402, "pay first", "provider_quota"),
                (
                    429,
                    r#"{"error": {"message": "You exceeded", "code": "insufficient_quota"}}"#,
                    "provider_quota",
                ),
                (413, "too large", "llm_rejected"),
            ] {
                door.model.clear();
                door.model.clear_faults();
                door.model.always(status(code, &[], body));
                let error = door.ask(kind).await.unwrap_err();
                assert_eq!(error.code(), wanted, "{kind} {code} {error}");
                assert_eq!(door.model.requests().len(), 1, "{kind} {code}: no retry");
                assert!(!error.remediation().is_empty());
                // A wrong model name in a request fails at once; jobs wait for a valid key and for
                // credit.
                assert_eq!(
                    error.may_pass(),
                    [401, 402, 429].contains(&code),
                    "{kind} {code}"
                );
                door.model.clear_faults();
                door.llm
                    .probe(door.session().with_model(Some(format!("{kind}:m"))))
                    .await
                    .unwrap();
            }
        }
    }
}

#[tokio::test]
async fn the_breaker_opens_and_a_single_probe_closes_it() {
    let settings = [
        ("LLM__TRANSPORT__BREAKER_FAILURES", "6"),
        ("LLM__TRANSPORT__BREAKER_COOLDOWN", "3"),
    ];

    let door = Door::with(&settings).await;
    door.model.always(status(500, &[], ""));
    for _ in 0..2 {
        door.llm
            .ask(&door.session(), five_chunks())
            .await
            .unwrap_err();
    }

    assert_eq!(door.model.requests().len(), 6);
    let error = door
        .llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert!(
        error.to_string().contains("sends it no requests"),
        "{error}"
    );
    assert_eq!(door.model.requests().len(), 6, "nothing was sent");
    assert!(
        door.llm
            .models()
            .providers
            .iter()
            .any(|provider| provider.name == "openai_stub" && provider.resting)
    );

    tokio::time::sleep(Duration::from_millis(3100)).await;
    door.model.clear_faults();
    door.model.edit_script(|script| script.latency_ms = 200);
    let (first, second) = (door.session(), door.session());
    let (one, two) = tokio::join!(
        door.llm.ask(&first, five_chunks()),
        door.llm.ask(&second, five_chunks())
    );

    assert_eq!(
        [one.is_ok(), two.is_ok()].iter().filter(|ok| **ok).count(),
        1,
        "one probe at a time"
    );

    door.llm.ask(&door.session(), five_chunks()).await.unwrap();
}

#[tokio::test]
async fn the_fallback_model_is_called_once() {
    let door = Door::with(&[("LLM__FALLBACK_MODEL", "anthropic_stub:small")]).await;
    let step =
        |fault: Fault, model: &str| memoir::scripted_model::Step::new(fault).only_model(model);
    door.model.always(step(status(503, &[], ""), "m"));
    let answered = door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    let asked: Vec<&str> = answered
        .calls
        .iter()
        .map(|call| call.model.as_str())
        .collect();

    assert_eq!(asked, ["m", "m", "m", "small"]);
    assert_eq!(answered.calls[3].provider, "anthropic_stub");

    door.model.clear();
    door.model.always(step(status(503, &[], ""), "small"));
    let error = door
        .llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert!(
        matches!(&error, LlmError::Unavailable { model, .. } if model == "openai_stub:m"),
        "{error}"
    );

    assert_eq!(
        door.model
            .requests()
            .iter()
            .filter(|seen| seen.model == "small")
            .count(),
        1
    );

    // Only once, even if its answer has to be split.
    door.model.clear();
    door.model.clear_faults();
    door.model.always(step(status(503, &[], ""), "m"));
    door.model
        .push(step(Fault::Truncated { keep_chars: 30 }, "small"));
    let answered = door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    let asked: Vec<&str> = answered
        .calls
        .iter()
        .map(|call| call.model.as_str())
        .collect();

    assert_eq!(
        asked,
        ["m", "m", "m", "small", "small", "small"],
        "the first model is not called again"
    );

    // Also for answers that stay invalid; but a wrong key must be reported.
    for (fault, calls) in [
        (Fault::RawText { text: "no".into() }, 3),
        (status(401, &[], ""), 1),
    ] {
        door.model.clear();
        door.model.clear_faults();
        door.model.always(step(fault, "m"));
        let _ = door.llm.ask(&door.session(), five_chunks()).await;
        assert_eq!(door.model.requests().len(), calls);
    }
}

/// A second look at filed chunks is not worth the cost of another model.
#[tokio::test]
async fn a_second_look_does_not_use_the_fallback_model() {
    let door = Door::with(&[("LLM__FALLBACK_MODEL", "anthropic_stub:small")]).await;
    door.model
        .always(memoir::scripted_model::Step::new(status(503, &[], "")).only_model("m"));
    let task = Classify {
        hint: Hint::second_look([].into(), Arc::new((1..=5).map(|id| (id, 0)).collect())),
        ..five_chunks()
    };

    let error = door.llm.ask(&door.session(), task).await.unwrap_err();
    assert!(
        matches!(&error, LlmError::Unavailable { model, .. } if model == "openai_stub:m"),
        "{error}"
    );

    assert!(door.model.requests().iter().all(|seen| seen.model == "m"));
}

#[tokio::test]
async fn a_dropped_caller_aborts_its_request() {
    for kind in KINDS {
        let door = Door::open().await;
        door.model.edit_script(|script| script.latency_ms = 10_000);
        let session = door.session().with_model(Some(format!("{kind}:m")));
        let until_it_waits = async {
            assert!(
                door.model
                    .wait_for_requests(1, Duration::from_secs(10))
                    .await,
                "{kind}"
            );
            tokio::time::sleep(Duration::from_millis(150)).await;
        };

        tokio::select! {
            _ = door.llm.ask(&session, five_chunks()) => panic!("it was to wait"),
            () = until_it_waits => {}
        }

        assert!(
            door.model
                .wait_until(|stats| stats.abandoned == 1, Duration::from_secs(10))
                .await,
            "{kind}"
        );

        let [call] = &session.calls()[..] else {
            panic!()
        };
        assert_eq!(call.outcome, "cancelled");
        assert!(
            call.latency_ms >= 100.0 && call.tokens_prompt > 0,
            "{call:?}"
        );
    }
}

#[tokio::test]
async fn all_callers_share_the_concurrency_limit_of_a_provider() {
    let door = Door::with(&[("LLM__PROVIDERS__OPENAI_STUB__MAX_CONCURRENCY", "3")]).await;
    door.model.set_script(Script {
        latency_ms: 30,
        ..Script::default()
    });

    let sessions: Vec<_> = (0..12).map(|_| door.session()).collect();
    let asking = sessions
        .iter()
        .map(|session| door.llm.ask(session, five_chunks()));
    assert!(
        futures_util::future::join_all(asking)
            .await
            .iter()
            .all(Result::is_ok)
    );

    assert_eq!(door.model.stats().max_in_flight, 3);
}

#[tokio::test]
async fn requests_keep_to_the_rate_limit_of_a_provider() {
    let door = Door::with(&[("LLM__PROVIDERS__OPENAI_STUB__REQUESTS_PER_MINUTE", "60")]).await;
    let begun = Instant::now();
    let sessions: Vec<_> = (0..8).map(|_| door.session()).collect();
    let asking = sessions
        .iter()
        .map(|session| door.llm.ask(session, five_chunks()));
    assert!(
        futures_util::future::join_all(asking)
            .await
            .iter()
            .all(Result::is_ok)
    );

    // Six may start at once; the seventh and eighth wait 1.1 s each.
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}
