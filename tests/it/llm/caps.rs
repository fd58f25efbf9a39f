//! The ledger counts every attempt, on every engine, and caps are checked before a call.

use memoir::base::ids::{JobId, Space};
use memoir::config::llm::Caps;
use memoir::llm::{LlmError, Session};
use memoir::model::llm_call::Spent;
use memoir::scripted_model::Fault;
use memoir::store::{CallPart, UsageFilter};

use crate::support::database::TestDatabase;
use crate::support::door::{Door, call, call_in, chunks, five_chunks};

fn every_day() -> UsageFilter {
    UsageFilter {
        from: "2000-01-01".to_owned(),
        to: "9999-12-31".to_owned(),
        ..UsageFilter::default()
    }
}

fn query(caps: Caps) -> Session {
    Session::of_query(call(), memoir::base::ids::new_uuid(), caps)
}

#[tokio::test]
async fn every_attempt_is_in_the_ledger_on_every_engine() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let door = Door::on(
            database,
            &[(
                "LLM__PROVIDERS__OPENAI_STUB__PRICES",
                r#"{"*": {"input": 1.0, "output": 2.0}}"#,
            )],
        )
        .await;

        door.model.edit_script(|script| {
            script.usage.prompt_tokens = Some(1000);
            script.usage.completion_tokens = Some(100);
        });

        door.model.push(Fault::Close);
        door.model.push(Fault::RawText {
            text: "no".to_owned(),
        });
        door.llm.ask(&door.session(), five_chunks()).await.unwrap();

        let other: Space = "other".parse().unwrap();
        door.llm
            .ask(&Session::of_caller(call_in(other.clone())), five_chunks())
            .await
            .unwrap();

        let (own, total) = door
            .llm
            .usage(&call(), &every_day(), None, 10)
            .await
            .unwrap();

        let [day] = own.as_slice() else {
            panic!("{engine:?} {own:?}")
        };
        assert_eq!(
            (
                day.stage.as_str(),
                day.provider.as_str(),
                day.model.as_str()
            ),
            ("classify", "openai_stub", "m")
        );

        assert_eq!(
            (day.calls, day.tokens_prompt, day.tokens_completion),
            (3, 2000, 200),
            "{engine:?}"
        );

        assert!(
            (day.cost_usd - 0.0024).abs() < 1e-9,
            "{engine:?} {}",
            day.cost_usd
        );

        assert_eq!(
            (total.calls, total.tokens_prompt, total.tokens_completion),
            (3, 2000, 200),
            "{engine:?}"
        );

        let (foreign, _) = door
            .llm
            .usage(&call_in(other), &every_day(), None, 10)
            .await
            .unwrap();

        assert_eq!(foreign[0].calls, 1, "a space sees its own");
        door.llm.close().await;
        door.store.close().await;
    }
}

#[tokio::test]
async fn many_writers_lose_no_call() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let door = Door::on(
            database,
            &[("LLM__PROVIDERS__OPENAI_STUB__MAX_CONCURRENCY", "16")],
        )
        .await;

        let sessions: Vec<_> = (0..60).map(|_| door.session()).collect();
        let asking = sessions
            .iter()
            .map(|session| door.llm.ask(session, five_chunks()));
        assert!(
            futures_util::future::join_all(asking)
                .await
                .iter()
                .all(Result::is_ok)
        );

        let (days, _) = door
            .llm
            .usage(&call(), &every_day(), None, 10)
            .await
            .unwrap();

        assert_eq!(days[0].calls, 60, "{engine:?}");
        door.store.close().await;
    }
}

#[tokio::test]
async fn a_cap_is_checked_before_the_call() {
    let door = Door::with(&[(
        "LLM__PROVIDERS__OPENAI_STUB__PRICES",
        r#"{"m": {"input": 1000.0, "output": 1000.0}}"#,
    )])
    .await;

    let cases = [
        (
            Caps {
                calls: 2,
                ..Caps::default()
            },
            "calls",
            2,
        ),
        (
            Caps {
                tokens: 600,
                ..Caps::default()
            },
            "tokens",
            1,
        ),
        (
            Caps {
                usd: 0.6,
                ..Caps::default()
            },
            "usd",
            1,
        ),
    ];

    for (caps, wanted, calls) in cases {
        door.model.clear();
        let session = query(caps);
        let error = loop {
            if let Err(error) = door.llm.ask(&session, five_chunks()).await {
                break error;
            }
        };

        let LlmError::SpendCapReached { unit, scope, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*scope, *unit), ("query", wanted));
        assert_eq!(door.model.requests().len(), calls, "{wanted}");
        assert_eq!(error.code(), "spend_cap_reached");
    }
}

#[tokio::test]
async fn calls_in_flight_count_towards_a_cap() {
    let door = Door::open().await;
    door.model.edit_script(|script| script.latency_ms = 50);
    let session = query(Caps {
        calls: 3,
        ..Caps::default()
    });

    let asking = (0..8).map(|_| door.llm.ask(&session, five_chunks()));
    let fine = futures_util::future::join_all(asking)
        .await
        .iter()
        .filter(|answer| answer.is_ok())
        .count();

    assert_eq!((fine, door.model.requests().len()), (3, 3));
}

#[tokio::test]
async fn the_spending_of_a_job_counts_in_its_next_attempt() {
    let door = Door::open().await;
    let spent = Spent {
        calls: 4,
        tokens: 10,
        usd: 0.0,
    };

    let caps = Caps {
        calls: 5,
        ..Caps::default()
    };

    let session = Session::of_job(call(), JobId::new(), caps, spent, 5);
    let answered = door.llm.ask(&session, five_chunks()).await.unwrap();
    assert_eq!(answered.calls[0].seq, 5);
    let error = door.llm.ask(&session, five_chunks()).await.unwrap_err();

    assert_eq!(error.code(), "spend_cap_reached");
}

#[tokio::test]
async fn the_daily_cap_of_a_space_covers_all_its_work_and_no_other() {
    for database in TestDatabase::each().await {
        let door = Door::on(database, &[("LLM__CAPS__SPACE_DAY__CALLS", "3")]).await;
        for _ in 0..3 {
            door.llm
                .ask(&query(Caps::default()), five_chunks())
                .await
                .unwrap();
        }

        let error = door
            .llm
            .ask(&query(Caps::default()), five_chunks())
            .await
            .unwrap_err();

        let LlmError::SpendCapReached { scope, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((*scope, door.model.requests().len()), ("space and day", 3));
        let other = Session::of_caller(call_in("other".parse().unwrap()));
        door.llm.ask(&other, five_chunks()).await.unwrap();

        door.store.close().await;
    }
}

#[tokio::test]
async fn the_daily_cap_of_a_space_holds_for_concurrent_calls() {
    let door = Door::with(&[("LLM__CAPS__SPACE_DAY__CALLS", "3")]).await;
    door.model.edit_script(|script| script.latency_ms = 100);
    let sessions: Vec<_> = (0..12).map(|_| query(Caps::default())).collect();
    let asking = sessions
        .iter()
        .map(|session| door.llm.ask(session, five_chunks()));
    let fine = futures_util::future::join_all(asking)
        .await
        .iter()
        .filter(|answer| answer.is_ok())
        .count();

    assert_eq!((fine, door.model.requests().len()), (3, 3));
    let error = door
        .llm
        .ask(&query(Caps::default()), five_chunks())
        .await
        .unwrap_err();

    assert!(
        error.context()["resets_in_seconds"]
            .as_u64()
            .is_some_and(|left| left <= 86_400),
        "{error:?}"
    );
}

/// Whatever counts a provider reports, the ledger stays valid and caps hold.
#[tokio::test]
async fn absurd_token_counts_of_a_provider_are_harmless() {
    for database in TestDatabase::each().await {
        let door = Door::on(database, &[]).await;
        for (prompt, completion) in [
            ("9e18", "9e18"),
            ("-1000000", "-5"),
            ("1", "null"),
            ("9223372036854775807", "1"),
        ] {
            let body = format!(
                r#"{{"choices":[{{"message":{{"content":"{{\"chunks\":[{{\"id\":1,\"category\":\"A\"}}]}}"}}}}],
                    "usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},
                    "prompt_tokens_details":{{"cached_tokens":{prompt}}}}}}}"#
            );
            for _ in 0..3 {
                door.model.push(Fault::Status {
                    status: 200,
                    headers: [].into(),
                    body: body.clone(),
                });

                let session = query(Caps {
                    tokens: 1_000_000_000_000,
                    ..Caps::default()
                });

                door.llm
                    .ask(&session, chunks(&["one"], &[], true))
                    .await
                    .unwrap();

                assert!(session.spent().tokens >= 0);
            }
        }

        let (days, _) = door
            .llm
            .usage(&call(), &every_day(), None, 10)
            .await
            .unwrap();

        assert_eq!(days[0].calls, 12);
        assert!(
            days[0].tokens_prompt > 0 && days[0].tokens_cached <= days[0].tokens_prompt,
            "{days:?}"
        );

        door.store.close().await;
    }
}

/// A commit whose response was lost may have taken effect, so writing it again must change nothing.
#[tokio::test]
async fn a_call_that_is_recorded_twice_counts_once() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let door = Door::on(database, &[]).await;
        let session = door.session();
        door.llm.ask(&session, five_chunks()).await.unwrap();
        door.llm.flush().await.unwrap();
        let (space, payer) = (Space::default(), memoir::model::llm_call::Payer::Request);
        let call = &session.calls()[0];

        door.store
            .add_llm_calls(&[(&space, &payer, call, CallPart::Whole)])
            .await
            .unwrap();

        let (days, _) = door
            .llm
            .usage(&call_in(space), &every_day(), None, 10)
            .await
            .unwrap();

        assert_eq!(days[0].calls, 1, "{engine:?}");
        door.store.close().await;
    }
}

/// A cap must be reported, not hidden by a cheaper model.
#[tokio::test]
async fn a_reached_cap_does_not_use_the_fallback_model() {
    let door = Door::with(&[("LLM__FALLBACK_MODEL", "openai_stub:small")]).await;
    let session = query(Caps {
        calls: 1,
        ..Caps::default()
    });

    door.llm.ask(&session, five_chunks()).await.unwrap();
    door.llm.ask(&session, five_chunks()).await.unwrap_err();
    assert_eq!(door.model.requests().len(), 1);
}
