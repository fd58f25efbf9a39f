//! Providers that reject an output mode, a schema or a parameter: memoir finds another form once
//! and remembers it.

use memoir::scripted_model::{Fault, OutputMode, Reply, ScriptedModel, Seen};

use crate::support::door::{Door, choice, five_chunks, in_mode};

const KINDS: [&str; 3] = ["openai_stub", "anthropic_stub", "gemini_stub"];

fn modes(model: &ScriptedModel) -> Vec<OutputMode> {
    model.requests().into_iter().map(|seen| seen.mode).collect()
}

#[tokio::test]
async fn a_rejected_mode_is_replaced_once_and_remembered() {
    use OutputMode::{Native, Prompted, Tool};
    for kind in KINDS {
        let door = Door::open().await;
        let session = door.session().with_model(Some(format!("{kind}:m")));
        door.model
            .edit_script(|script| script.reject_native = Some(String::new()));
        for _ in 0..2 {
            door.llm.ask(&session, five_chunks()).await.unwrap();
        }

        assert_eq!(modes(&door.model), [Native, Tool, Tool], "{kind}");
        // Another model of the same provider is not affected.
        let other = door.session().with_model(Some(format!("{kind}:other")));
        door.llm.ask(&other, five_chunks()).await.unwrap();
        assert_eq!(modes(&door.model)[3..], [Native, Tool], "{kind}");

        door.model.clear();
        door.model
            .edit_script(|script| script.reject_tool = Some(String::new()));
        for _ in 0..2 {
            door.llm.ask(&session, five_chunks()).await.unwrap();
        }

        assert_eq!(modes(&door.model), [Tool, Prompted, Prompted], "{kind}");
        assert!(
            door.model.requests()[1]
                .system
                .contains("\"additionalProperties\":false")
        );
    }
}

#[tokio::test]
async fn a_configured_mode_that_is_rejected_is_replaced() {
    let door = Door::with(&in_mode("tool")).await;
    door.model
        .edit_script(|script| script.reject_tool = Some("tool_choice is not supported".to_owned()));
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    assert_eq!(modes(&door.model), [OutputMode::Tool, OutputMode::Prompted]);
}

#[tokio::test]
async fn a_schema_that_is_too_large_loses_its_closed_choice_first() {
    let door = Door::open().await;
    door.model.push(Fault::RefuseNative {
        status: 400,
        body: r#"{"error": {"message": "The compiled grammar is too large"}}"#.to_owned(),
    });

    for _ in 0..2 {
        door.llm
            .ask(&door.session(), choice(&["Alpha", "Beta"], 1))
            .await
            .unwrap();
    }

    let seen = door.model.requests();
    assert_eq!(modes(&door.model), [OutputMode::Native; 3]);
    let closed: Vec<bool> = seen
        .iter()
        .map(|seen| seen.body.to_string().contains("enum"))
        .collect();

    assert_eq!(closed, [true, false, false]);
}

#[tokio::test]
async fn a_rejected_parameter_is_omitted_and_recorded() {
    for (name, shown) in [("temperature", "temperature"), ("seed", "seed")] {
        let door = Door::open().await;
        door.model
            .edit_script(|script| script.reject_parameters = vec![name.to_owned()]);
        let session = door.session().deterministic(true);
        for _ in 0..2 {
            door.llm.ask(&session, five_chunks()).await.unwrap();
        }

        let seen = door.model.requests();
        assert_eq!(seen.len(), 3, "{name}");
        assert!(
            seen[0].body.get(name).is_some() && seen[1].body.get(name).is_none(),
            "{name}"
        );

        assert_eq!(
            seen[1].mode,
            OutputMode::Native,
            "the mode was not to blame"
        );

        assert_eq!(session.calls()[1].provider_params[shown], "unsupported");
    }
}

#[tokio::test]
async fn the_token_limit_uses_the_parameter_that_the_model_accepts() {
    let door = Door::open().await;
    door.model
        .edit_script(|script| script.reject_parameters = vec!["max_tokens".to_owned()]);
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    let seen = door.model.requests();
    assert_eq!(seen[0].body["max_tokens"], 4096);
    assert_eq!(seen[1].body["max_completion_tokens"], 4096);
    assert!(seen[1].body.get("max_tokens").is_none());
}

#[tokio::test]
async fn deterministic_sends_temperature_0_and_a_seed_if_supported() {
    for (kind, seed) in [
        ("openai_stub", true),
        ("anthropic_stub", false),
        ("gemini_stub", true),
    ] {
        let door = Door::with(&[("LLM__TEMPERATURE", "0.7")]).await;
        let plain = door.session().with_model(Some(format!("{kind}:m")));
        door.llm.ask(&plain, five_chunks()).await.unwrap();
        assert_eq!(plain.calls()[0].provider_params["temperature"], 0.7);
        let session = door
            .session()
            .with_model(Some(format!("{kind}:m")))
            .deterministic(true);
        door.llm.ask(&session, five_chunks()).await.unwrap();
        let seen = door.model.requests();
        assert_eq!(seen[1].temperature, Some(0.0), "{kind}");
        assert_eq!(
            seen[1].body.to_string().contains("\"seed\""),
            seed,
            "{kind}"
        );
        assert_eq!(session.calls()[0].provider_params["temperature"], 0.0);
        assert_eq!(
            session.calls()[0].provider_params["seed"] == "unsupported",
            !seed
        );
    }
}

#[tokio::test]
async fn models_without_temperature_support_get_none() {
    let door = Door::open().await;
    let session = door
        .session()
        .with_model(Some("openai_stub:gpt-5-mini".to_owned()));
    door.llm.ask(&session, five_chunks()).await.unwrap();
    assert_eq!(door.model.requests()[0].temperature, None);
    assert_eq!(
        session.calls()[0].provider_params["temperature"],
        "unsupported"
    );

    let told = Door::with(&[("LLM__PROVIDERS__OPENAI_STUB__SUPPORTS_TEMPERATURE", "no")]).await;
    told.llm.ask(&told.session(), five_chunks()).await.unwrap();

    assert_eq!(told.model.requests()[0].temperature, None);
}

#[tokio::test]
async fn an_unrelated_rejection_changes_nothing() {
    let door = Door::open().await;
    let body = r#"{"error": {"message": "This model's maximum context length is 8192 tokens"}}"#
        .to_owned();
    door.model.push(Fault::Status {
        status: 400,
        headers: [].into(),
        body,
    });

    let error = door
        .llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert_eq!(error.code(), "llm_rejected");
    assert!(error.to_string().contains("8192"), "{error}");
    assert_eq!(door.model.requests().len(), 1);
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    assert_eq!(modes(&door.model)[1], OutputMode::Native);
}

/// A model that does not support tools writes something else; it then gets the schema in the
/// prompt, permanently if that helps.
#[tokio::test]
async fn a_model_that_ignores_tools_gets_the_schema_in_the_prompt() {
    let door = Door::with(&in_mode("tool")).await;
    door.model.set_rule(|seen| match seen.mode {
        OutputMode::Tool => {
            Reply::text("I would file them all under Alpha.").with_fault(Fault::NoToolCall)
        }
        _ => Reply::sensible(seen),
    });

    for _ in 0..2 {
        door.llm.ask(&door.session(), five_chunks()).await.unwrap();
    }

    assert_eq!(
        modes(&door.model),
        [OutputMode::Tool, OutputMode::Prompted, OutputMode::Prompted]
    );
}

/// Which requests have limits in their schema.
fn limited(door: &Door) -> Vec<bool> {
    let requests = door.model.requests();
    let has_limits = |seen: &Seen| seen.body.to_string().contains("maxItems");
    requests.iter().map(has_limits).collect()
}

/// Only models that need them get limits in the schema: small ones on a local server whose answer
/// was truncated.
#[tokio::test]
async fn a_truncated_small_model_gets_limits_in_its_schema() {
    let door = Door::open().await;
    door.model.push(Fault::Truncated { keep_chars: 20 });
    door.llm.ask(&door.session(), five_chunks()).await.unwrap();

    assert_eq!(limited(&door), [false, true, true]);
}

/// One that takes too long may be writing endlessly: the next attempt has limits already.
#[tokio::test]
async fn a_small_model_that_takes_too_long_gets_limits_in_its_schema() {
    let door = Door::with(&[("LLM__TRANSPORT__READ_TIMEOUT", "1")]).await;
    door.model.push(Fault::Stall);
    let answered = door.llm.ask(&door.session(), five_chunks()).await.unwrap();
    assert_eq!(answered.calls.len(), 2);

    assert_eq!(limited(&door), [false, true]);
}

#[tokio::test]
async fn an_unspecific_rejection_is_not_retried_in_another_form() {
    let door = Door::open().await;
    let body = r#"{"error": {"message": "Bad request"}}"#.to_owned();
    door.model.always(Fault::Status {
        status: 400,
        headers: [].into(),
        body,
    });

    let error = door
        .llm
        .ask(&door.session(), five_chunks())
        .await
        .unwrap_err();

    assert_eq!(
        (error.code(), door.model.requests().len()),
        ("llm_rejected", 1)
    );
}
