//! Replies that are passed on while they are written, in every protocol and mode.

use std::sync::Mutex;
use std::time::Duration;

use memoir::llm::tasks::answer::{Answer, Evidence};
use memoir::llm::tasks::send::SendPrompt;
use memoir::llm::{MemberListener, TextListener, Written};
use memoir::scripted_model::{Fault, Outcome, Reply, UsageScript};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::door::{Door, MODES, in_mode};

const KINDS: [&str; 3] = ["openai_stub", "anthropic_stub", "gemini_stub"];
const ANSWER: &str = "It was built in 1843 [7].\nThe \"old\" one, 世界 𝄞, stood \\ before it.";

fn question() -> Answer {
    let evidence = Evidence {
        about: "".into(),
        chunk_id: 7,
        path: "A / B".into(),
        text: "The lighthouse was built in 1843.".into(),
    };

    Answer {
        query: "When was it built?".into(),
        contextual_helpers: Vec::new(),
        chunks: vec![evidence],
        note_room: None,
    }
}

fn prompt(text: &str) -> SendPrompt {
    SendPrompt {
        system: "".into(),
        prompt: text.into(),
    }
}

fn pieces(heard: &[Written]) -> Vec<&str> {
    heard
        .iter()
        .filter_map(|written| match written {
            Written::Piece(text) => Some(text.as_str()),
            Written::Restarted => None,
        })
        .collect()
}

#[tokio::test]
async fn the_answer_arrives_in_pieces_in_every_mode_and_protocol() {
    for (mode, _) in MODES {
        for kind in KINDS {
            let door = Door::with(&in_mode(mode)).await;
            door.model
                .set_rule(|_| Reply::json(json!({"answer": ANSWER})));
            let session = door.session().with_model(Some(format!("{kind}:m")));
            let heard = Mutex::new(Vec::new());
            let listener = MemberListener::new("answer", |one| heard.lock().unwrap().push(one));
            let answered = door
                .llm
                .ask_streaming(&session, question(), Some(&listener))
                .await;
            let answered = answered.unwrap_or_else(|error| panic!("{kind} {mode}: {error}"));

            assert_eq!(answered.value.answer, ANSWER, "{kind} {mode}");
            let heard = heard.into_inner().unwrap();
            let pieces = pieces(&heard);
            assert_eq!(pieces.concat(), ANSWER, "{kind} {mode}");

            // Gemini sends the arguments of a function as a whole.
            let whole = kind == "gemini_stub" && mode == "tool";
            assert_eq!(pieces.len() > 4, !whole, "{kind} {mode}: {pieces:?}");

            let seen = door.model.requests();
            assert!(seen.len() == 1 && seen[0].streamed, "{kind} {mode}");
            let call = &answered.calls[0];
            let stats = door.model.stats();
            assert_eq!(
                (call.tokens_prompt, call.tokens_completion),
                (
                    i64::try_from(stats.prompt_tokens).unwrap(),
                    i64::try_from(stats.completion_tokens).unwrap()
                ),
                "{kind} {mode}"
            );
        }
    }
}

#[tokio::test]
async fn a_free_text_is_sent_and_returned_as_it_is() {
    for kind in KINDS {
        let door = Door::open().await;
        door.model.set_rule(|_| Reply::text(ANSWER));
        let session = door.session().with_model(Some(format!("{kind}:m")));
        let heard = Mutex::new(Vec::new());
        let listener = TextListener::new(|one| heard.lock().unwrap().push(one));
        let sent = prompt("Rules first.\n\nThen the task: \"why\"?");
        let answered = door
            .llm
            .ask_streaming(&session, sent, Some(&listener))
            .await;
        let answered = answered.unwrap_or_else(|error| panic!("{kind}: {error}"));

        assert_eq!(answered.value.text, ANSWER, "{kind}");
        assert_eq!(pieces(&heard.into_inner().unwrap()).concat(), ANSWER);
        let seen = &door.model.requests()[0];
        assert_eq!(seen.user, "Rules first.\n\nThen the task: \"why\"?");
        assert_eq!((seen.system.as_str(), seen.stage.as_str()), ("", "send"));
        let call = &answered.calls[0];
        assert_eq!((call.stage.as_str(), call.mode.as_str()), ("send", "text"));
        assert_eq!(call.llm_output, None, "the reply belongs to its caller");
    }
}

#[tokio::test]
async fn tokens_that_a_stream_does_not_report_are_counted() {
    let omitted = UsageScript {
        omit: true,
        ..UsageScript::default()
    };
    let none = UsageScript {
        prompt_tokens: Some(0),
        completion_tokens: Some(0),
        ..UsageScript::default()
    };
    let all = KINDS.map(|kind| [(kind, omitted), (kind, none)]);
    for (kind, usage) in all.into_iter().flatten() {
        let door = Door::open().await;
        door.model
            .set_rule(|_| Reply::text("one two three four five"));
        door.model.edit_script(|script| script.usage = usage);

        let session = door.session().with_model(Some(format!("{kind}:gpt-4o")));
        let listener = TextListener::new(drop);
        let answered = door
            .llm
            .ask_streaming(&session, prompt("one two three"), Some(&listener))
            .await
            .unwrap();
        let call = &answered.calls[0];
        assert_eq!(
            (call.tokens_prompt, call.tokens_completion),
            (3, 5),
            "{kind}"
        );
        assert_eq!(call.provider_params["usage"], "counted", "{kind}");
    }
}

#[tokio::test]
async fn a_server_that_rejects_stream_options_is_asked_without_them() {
    let door = Door::open().await;
    door.model
        .edit_script(|script| script.reject_parameters = vec!["stream_options".to_owned()]);
    let session = door.session();
    for calls in [2, 1] {
        door.model.clear();
        let listener = TextListener::new(drop);
        let sent = door
            .llm
            .ask_streaming(&session, prompt("Why?"), Some(&listener))
            .await
            .unwrap();
        assert_eq!(sent.value.text, "You asked: Why?");
        assert_eq!(door.model.requests().len(), calls, "it is remembered");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_repeated_and_its_listener_is_told() {
    for kind in KINDS {
        let door = Door::open().await;
        door.model
            .set_rule(|_| Reply::text("All is well that ends well, they say."));
        door.model.push(Fault::ResetMidBody);
        let session = door.session().with_model(Some(format!("{kind}:m")));
        let heard = Mutex::new(Vec::new());
        let listener = TextListener::new(|one| heard.lock().unwrap().push(one));
        let answered = door
            .llm
            .ask_streaming(&session, prompt("Why?"), Some(&listener))
            .await
            .unwrap_or_else(|error| panic!("{kind}: {error}"));

        let outcomes: Vec<&str> = answered
            .calls
            .iter()
            .map(|call| call.outcome.as_str())
            .collect();
        assert_eq!(outcomes, ["transport_error", "ok"], "{kind}");
        let heard = heard.into_inner().unwrap();
        let again = heard.iter().position(|one| *one == Written::Restarted);
        let kept = again.map_or(&heard[..], |place| &heard[place..]);
        assert_eq!(pieces(kept).concat(), answered.value.text, "{kind}");
    }
}

#[tokio::test]
async fn errors_before_a_stream_are_read_as_usual() {
    for kind in KINDS {
        let door = Door::open().await;
        for status in [429, 500, 529] {
            door.model.push(Fault::Status {
                status,
                headers: [("retry-after".to_owned(), "0".to_owned())].into(),
                body: String::new(),
            });
        }

        door.model.clear();
        let session = door.session().with_model(Some(format!("{kind}:m")));
        let listener = TextListener::new(drop);
        let error = door
            .llm
            .ask_streaming(&session, prompt("Why?"), Some(&listener))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "llm_unavailable", "{kind}: {error}");
        let statuses: Vec<String> = session
            .calls()
            .iter()
            .map(|call| call.provider_params["error"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            statuses,
            ["status 429", "status 500", "status 529"],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_stream_on_the_wire() {
    for kind in KINDS {
        let door = Door::open().await;
        door.model.set_rule(|_| Reply::text("x".repeat(4000)));
        door.model.edit_script(|script| script.piece_ms = 50);
        let session = door.session().with_model(Some(format!("{kind}:m")));
        let (heard, arrived) = (Mutex::new(0), Notify::new());
        let listener = TextListener::new(|_| {
            *heard.lock().unwrap() += 1;
            arrived.notify_one();
        });
        tokio::select! {
            _ = door.llm.ask_streaming(&session, prompt("Why?"), Some(&listener)) => panic!("{kind}"),
            () = arrived.notified() => {}
        }

        let ended = door
            .model
            .wait_until(|stats| stats.abandoned == 1, Duration::from_secs(5));
        assert!(ended.await, "{kind}");
        assert_eq!(door.model.requests()[0].outcome, Outcome::Abandoned);

        let call = &session.calls()[0];
        assert_eq!(call.outcome, "cancelled", "{kind}");
        let received = i64::from(*heard.lock().unwrap()) * 2;
        assert_eq!(call.tokens_completion, received, "what arrived is counted");
    }
}
