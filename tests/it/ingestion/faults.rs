//! Failures of models and providers: the job succeeds, or fails with a reason and a remedy; a
//! received answer is never requested again, and nothing invalid is stored.

use std::collections::BTreeMap;

use memoir::scripted_model::{Fault, Reply, Step};
use serde_json::{Value, json};

use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, assert_failed, count, document, ids, text, until};

const FLAT: &[(&str, &str)] = &[
    ("TAXONOMY__HIERARCHY_DEPTH", "1"),
    ("JOBS__MAX_ATTEMPTS", "2"),
];

fn status(status: u16, headers: &[(&str, &str)]) -> Fault {
    let headers: BTreeMap<String, String> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Fault::Status {
        status,
        headers,
        body: String::new(),
    }
}

fn edit(pointer: &str, value: Value) -> Fault {
    Fault::Edit {
        pointer: pointer.to_owned(),
        value,
    }
}

fn answer(chunks: &Value) -> Fault {
    Fault::RawAnswer {
        json: json!({ "chunks": chunks }),
    }
}

/// Faults that pass or that a repeated request fixes: one attempt, three chunks, nothing else.
#[tokio::test]
async fn temporary_faults_use_up_no_attempt_and_leave_no_trace() {
    let in_the_past = [("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")];
    let cases: Vec<(&str, Fault, u64)> = vec![
        ("429 in seconds", status(429, &[("retry-after", "0")]), 1),
        (
            "429 in milliseconds",
            status(429, &[("retry-after-ms", "5")]),
            1,
        ),
        ("429 with a date", status(429, &in_the_past), 1),
        ("429 without a word", status(429, &[]), 1),
        (
            "429 with nonsense",
            status(429, &[("retry-after", "soon")]),
            1,
        ),
        ("500", status(500, &[]), 1),
        ("503", status(503, &[]), 1),
        ("529", status(529, &[]), 1),
        ("closed", Fault::Close, 1),
        ("reset", Fault::ResetMidBody, 1),
        ("stalled", Fault::StallMidBody, 1),
        (
            "fenced",
            Fault::Fenced {
                before: "Sure!\n".to_owned(),
                after: "\nBye.".to_owned(),
            },
            0,
        ),
        ("truncated", Fault::Truncated { keep_chars: 30 }, 2),
        ("empty", Fault::Empty, 1),
        (
            "prose",
            Fault::RawText {
                text: "All of them are about finance.".to_owned(),
            },
            1,
        ),
        ("a page", Fault::Html, 1),
        (
            "too much",
            Fault::Huge {
                bytes: 1_000_000,
                chunked: true,
            },
            1,
        ),
        ("without counts", Fault::NoUsage, 0),
        (
            "wrong numbers",
            answer(&json!([{"id": 7, "category": "X"}, {"id": 8, "category": "Y"}])),
            1,
        ),
        (
            "numbers as texts",
            answer(&json!([{"id": "1", "category": "X"}])),
            1,
        ),
        (
            "an extra number",
            edit("/chunks/-", json!({"id": 4, "category": "Extra"})),
            0,
        ),
        (
            "no list",
            Fault::RawAnswer {
                json: json!({"chunks": {}}),
            },
            1,
        ),
        (
            "5,000 characters",
            edit("/chunks/1/category", json!("x".repeat(5000))),
            1,
        ),
        ("NUL", edit("/chunks/1/category", json!("B\u{0}B")), 1),
        ("a bell", edit("/chunks/1/category", json!("B\u{7}")), 1),
        (
            "nothing but space",
            edit("/chunks/1/category", json!("\u{a0}\t ")),
            1,
        ),
        (
            "the form itself",
            edit("/chunks/1/category", json!("<category>")),
            1,
        ),
    ];

    for (name, fault, more) in cases {
        let ingest = Ingest::with(FLAT).await;
        ingest.model.push(Step::new(fault).only_stage("classify"));
        let job = ingest
            .succeed(&document(&["A", "B", "C"], &json!({})))
            .await;
        assert_eq!(job["attempt"], 1, "{name}: {job:#}");
        assert_eq!(ingest.rows().await, [1, 1, 1, 3, 3], "{name}");
        assert_eq!(ingest.names(1).await, ["A", "B", "C"], "{name}");
        assert_eq!(
            ingest.model.stats().by_stage["classify"],
            1 + more,
            "{name}: {job:#}"
        );

        let calls = job["responses"].as_array().unwrap().len() as u64;
        assert_eq!(
            calls,
            ingest.model.stats().requests,
            "{name}: every attempt is in the record"
        );
    }
}

/// A truncated answer is requested again in halves; the same request is never repeated.
#[tokio::test]
async fn truncated_answers_are_requested_in_parts() {
    let ingest = Ingest::with(FLAT).await;
    ingest
        .model
        .push(Step::new(Fault::Truncated { keep_chars: 40 }).only_stage("classify"));
    let job = ingest
        .succeed(&document(&["A", "B", "C", "D", "E"], &json!({})))
        .await;
    let asked: Vec<Vec<i64>> = ingest.asked("classify").iter().map(ids).collect();
    assert_eq!(asked, [vec![1, 2, 3, 4, 5], vec![1, 2], vec![3, 4, 5]]);
    let outcomes: Vec<&Value> = job["responses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["outcome"])
        .collect();

    assert_eq!(outcomes, ["ok", "truncated", "ok", "ok"]);
    assert_eq!(
        (
            &job["batches"][0]["retries"],
            &job["batches"][0]["successes"]
        ),
        (&json!(2), &json!(5))
    );
}

/// A permanent fault ends the job: nothing is written, and once the fault is fixed, a retry
/// continues.
#[tokio::test]
async fn permanent_faults_fail_with_a_reason_and_can_be_retried() {
    let cases = [
        ("away", status(503, &[]), "llm_unavailable", 2),
        (
            "prose",
            Fault::RawText {
                text: "no".to_owned(),
            },
            "llm_invalid_output",
            1,
        ),
        (
            "declined",
            Fault::Refusal {
                text: "I cannot.".to_owned(),
                blocked_prompt: false,
            },
            "llm_refused",
            1,
        ),
        (
            "always too long",
            Fault::Truncated { keep_chars: 3 },
            "llm_output_truncated",
            1,
        ),
    ];
    for (name, fault, code, attempts) in cases {
        let impatient = [
            ("LLM__TRANSPORT__BREAKER_FAILURES", "100"),
            ("JOBS__PATIENCE", "0"),
        ];

        let ingest = Ingest::with(&[FLAT, &impatient].concat()).await;
        // The helper and the first batch are answered.
        let body = document(
            &["A", "B", "C", "D"],
            &json!({"options": {"batch_size": 2}}),
        );

        ingest.model.set_rule(move |seen| match ids(seen).first() {
            Some(1) => Reply::sensible(seen),
            _ => Reply::fault(fault.clone()),
        });

        let job = ingest.fail(&body, code).await;
        assert_eq!(job["attempt"], attempts, "{name}: {job:#}");
        assert_eq!(ingest.rows().await, [0; 5], "{name}");
        ingest.model.set_rule(Reply::sensible);
        ingest.model.clear();
        let job = ingest.retry(&job).await;

        assert_eq!(job["state"], "succeeded", "{name}: {job:#}");
        let asked: Vec<Vec<i64>> = ingest.model.requests().iter().map(ids).collect();
        assert_eq!(asked, [[3, 4]], "{name}: only what had no answer");
        assert_eq!(ingest.names(1).await, ["A", "B", "C", "D"], "{name}");

        // The log contains every call, including those after the failure.
        let batches = job["batches"].as_array().unwrap();
        let successes: i64 = batches
            .iter()
            .map(|batch| batch["successes"].as_i64().unwrap())
            .sum();

        assert_eq!(successes, 4, "{name}: {batches:#?}");
        assert!(
            batches.iter().any(|batch| batch["failures"] == 2),
            "{name}: {batches:#?}"
        );
    }
}

/// memoir does not call a busy provider for as long as the provider asks, and the job uses up no
/// attempt.
#[tokio::test]
async fn a_job_waits_for_a_busy_model() {
    let patient = ("LLM__TRANSPORT__RETRY_AFTER_CAP", "1");
    let breaker = [
        ("LLM__TRANSPORT__BREAKER_FAILURES", "3"),
        ("LLM__TRANSPORT__BREAKER_COOLDOWN", "2"),
    ];

    let cases = [
        (
            "asked to wait",
            status(429, &[("retry-after", "2")]),
            3,
            vec![patient],
        ),
        (
            "busy without a word",
            status(429, &[]),
            7,
            vec![("LLM__TRANSPORT__BREAKER_FAILURES", "100")],
        ),
        (
            "away",
            status(503, &[]),
            5,
            vec![("LLM__TRANSPORT__BREAKER_FAILURES", "100")],
        ),
        ("the breaker", status(503, &[]), 3, breaker.to_vec()),
    ];

    for (name, fault, times, settings) in cases {
        let ingest = Ingest::with(&[FLAT, &settings].concat()).await;
        for _ in 0..times {
            ingest
                .model
                .push(Step::new(fault.clone()).only_stage("classify"));
        }

        let job = ingest
            .succeed(&document(&["A", "B", "C"], &json!({})))
            .await;
        assert_eq!(job["attempt"], 1, "{name}: {job:#}");
        assert_eq!(ingest.rows().await, [1, 1, 1, 3, 3], "{name}");
    }

    // A long wait is shortened, and the job shows it.
    let ingest = Ingest::with(FLAT).await;
    ingest
        .model
        .always(Step::new(status(429, &[("retry-after", "3600")])).only_stage("classify"));
    let id = ingest.queue(&document(&["A"], &json!({}))).await;
    let waits = "SELECT COUNT(*) FROM jobs WHERE state = 'queued' AND error_json IS NOT NULL AND attempt = 0";
    until("the wait", async || {
        count(&ingest.app.database, waits).await == 1
    })
    .await;

    let job = ingest.job(&id).await;
    assert_eq!(
        (&job["state"], &job["attempt"], &job["error"]["code"]),
        (&json!("queued"), &json!(0), &json!("llm_unavailable")),
        "{job:#}"
    );

    assert_eq!(
        (&job["phase"], &job["waiting"]["waits"]),
        (&json!("waiting_for_provider"), &json!(1)),
        "{job:#}"
    );

    assert!(
        job["waiting"]["since"].is_string() && job["waiting"]["next_try_at"].is_string(),
        "{job:#}"
    );

    let least =
        "SELECT MIN(run_after) - CAST(strftime('%s', 'now') AS INTEGER) * 1000000 FROM jobs";
    let pause = count(&ingest.app.database, least).await;
    assert!(
        (40_000_000..80_000_000).contains(&pause),
        "{pause}: about a minute"
    );

    // After an hour of waiting an attempt is used up and the wait starts again; after the last
    // attempt the job fails.
    let long_ago = "UPDATE jobs SET run_after = 0, waiting_since = 1";
    ingest.app.database.execute(long_ago).await;
    until("a lost attempt", async || {
        let job = ingest.job(&id).await;
        job["attempt"] == 1 && job["waiting"]["waits"] == 1
    })
    .await;

    ingest.app.database.execute(long_ago).await;
    assert_failed(&ingest.finished(&id).await, "llm_unavailable");
    assert_eq!(
        ingest.asked("classify").len(),
        1,
        "no call was sent while the provider asked for a pause"
    );

    // A probe notices that the model responds before the time that the provider named; a retry
    // starts again.
    ingest.model.clear_faults();
    assert_eq!(
        ingest.app.post("/v1/models/probe", &json!({})).await.json()["ok"],
        true
    );

    let job = ingest.retry(&ingest.job(&id).await).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
}

#[tokio::test]
async fn an_unreachable_provider_fails_the_job_and_a_retry_succeeds_with_another() {
    let nowhere = (
        "LLM__PROVIDERS__OPENAI_STUB__BASE_URL",
        "http://127.0.0.1:1/v1",
    );

    let ingest = Ingest::with(&[FLAT, &[nowhere, ("JOBS__PATIENCE", "0")]].concat()).await;
    let job = ingest
        .fail(&document(&["A"], &json!({})), "llm_unavailable")
        .await;
    assert_eq!(
        (ingest.rows().await, ingest.model.stats().requests),
        ([0; 5], 0)
    );

    let ingest = ingest.restart(FLAT).await;
    let job = ingest.retry(&job).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
}

/// The fallback model makes the calls at which the first model fails.
#[tokio::test]
async fn the_fallback_model_files_what_the_first_model_cannot() {
    let other = memoir::scripted_model::ScriptedModel::local()
        .await
        .unwrap();
    let url = other.openai_url();
    let fallback = [
        ("LLM__FALLBACK_MODEL", "other:m2"),
        ("LLM__PROVIDERS__OTHER__KIND", "openai"),
        ("LLM__PROVIDERS__OTHER__BASE_URL", url.as_str()),
        ("LLM__PROVIDERS__OTHER__API_KEY", "sk-other"),
    ];

    for fault in [
        status(503, &[]),
        Fault::RawText {
            text: "no".to_owned(),
        },
    ] {
        let ingest = Ingest::with(&[FLAT, &fallback].concat()).await;
        ingest.model.always(Step::new(fault).only_stage("classify"));
        let before = other.stats().requests;
        let job = ingest
            .succeed(&document(&["A", "B", "C"], &json!({})))
            .await;
        assert_eq!(
            (&job["attempt"], other.stats().requests - before),
            (&json!(1), 1),
            "{job:#}"
        );
        assert_eq!(ingest.names(1).await, ["A", "B", "C"]);
        let last = job["responses"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&last["provider"], &last["model"], &last["outcome"]),
            (&json!("other"), &json!("m2"), &json!("ok")),
            "{last}"
        );
    }
}

#[tokio::test]
async fn only_the_chunk_that_stays_invalid_is_requested_again() {
    for value in [
        json!(7),
        json!("x".repeat(5000)),
        json!("B\u{0}B"),
        Value::Null,
    ] {
        let ingest = Ingest::with(FLAT).await;
        let spoilt = value.clone();
        ingest
            .model
            .set_rule(move |seen| match ids(seen).iter().position(|id| *id == 3) {
                Some(place) if seen.stage == "classify" => Reply::sensible(seen)
                    .with_fault(edit(&format!("/chunks/{place}/category"), spoilt.clone())),
                _ => Reply::sensible(seen),
            });
        let job = ingest
            .fail(
                &document(&["A", "B", "C", "D", "E"], &json!({})),
                "llm_invalid_output",
            )
            .await;
        assert_eq!(job["error"]["context"]["items"], json!([3]), "{job:#}");
        let asked: Vec<Vec<i64>> = ingest.asked("classify").iter().map(ids).collect();
        assert_eq!(
            asked,
            [vec![1, 2, 3, 4, 5], vec![3]],
            "requested again once, alone"
        );
        assert_eq!(ingest.rows().await, [0; 5]);
        ingest.model.set_rule(Reply::sensible);
        ingest.model.clear();
        let job = ingest.retry(&job).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        assert_eq!(
            ingest.model.requests().iter().map(ids).collect::<Vec<_>>(),
            [[3]]
        );
        assert_eq!(ingest.rows().await, [1, 1, 1, 5, 5]);
    }
}

/// Names that look the same to a reader become one category, within one answer, across answers, and
/// on every engine.
#[tokio::test]
async fn spellings_of_one_name_become_one_category() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, FLAT).await;
        let names = [
            "Finance",
            "FINANCE",
            " finance ",
            "Ｆｉｎａｎｃｅ",
            "- finance",
            "fin\u{e1}nce",
            "fina\u{301}nce",
        ];

        let answers: Vec<Value> = (1..)
            .zip(&names)
            .map(|(id, name)| json!({"id": id, "category": name}))
            .collect();

        ingest
            .model
            .push(Step::new(answer(&answers.into())).only_stage("classify"));
        let body = document(&["A"; 7], &json!({"options": {"batch_size": 7}}));
        let job = ingest.succeed(&body).await;
        let made = ingest.names(1).await;
        assert_eq!(
            made,
            ["Finance", "fin\u{e1}nce"],
            "{engine:?}: an accent makes a name, its spelling does not"
        );

        let keys = "SELECT COUNT(DISTINCT name_key) FROM categories";
        assert_eq!(
            count(&ingest.app.database, keys).await,
            i64::try_from(made.len()).unwrap()
        );

        assert_eq!(ingest.chunks(&job).await.len(), 7);
        let longest =
            "SELECT COUNT(*) FROM categories WHERE LENGTH(name) > 400 OR name <> TRIM(name)";
        assert_eq!(count(&ingest.app.database, longest).await, 0, "{engine:?}");
    }
}

#[tokio::test]
async fn a_cap_stops_the_job_and_a_retry_repeats_no_call() {
    let cap = ("LLM__CAPS__JOB__CALLS", "3");
    let ingest = Ingest::with(&[FLAT, &[cap]].concat()).await;
    let body = document(
        &["A", "B", "C", "D", "E", "F"],
        &json!({"options": {"batch_size": 1}}),
    );

    let job = ingest.fail(&body, "spend_cap_reached").await;
    assert_eq!(job["attempt"], 1, "{job:#}");
    assert_eq!(job["error"]["context"]["limit"], 3.0, "{job:#}");
    assert_eq!(
        (ingest.model.stats().requests, ingest.rows().await),
        (3, [0; 5])
    );

    // Nothing has changed: the job stops again without a call.
    let job = ingest.retry(&job).await;
    assert_failed(&job, "spend_cap_reached");
    assert_eq!(ingest.model.stats().requests, 3);
    let ingest = ingest.restart(FLAT).await;
    let job = ingest.retry(&job).await;

    assert_eq!(job["state"], "succeeded", "{job:#}");
    let mut asked: Vec<Vec<i64>> = ingest.asked("classify").iter().map(ids).collect();
    asked.sort();
    assert_eq!(
        asked,
        [[1], [2], [3], [4], [5], [6]],
        "each once, over three runs"
    );

    assert_eq!(
        (ingest.asked("helper").len(), &job["result"]["llm_calls"]),
        (1, &json!(7))
    );

    assert_eq!(ingest.chunks(&job).await.len(), 6);
}

/// If no helper can be generated, the job fails before anything is filed.
#[tokio::test]
async fn faults_while_generating_the_helper_are_faults_of_the_job() {
    let ingest = Ingest::with(FLAT).await;
    for (fault, code) in [
        (
            Fault::RawText {
                text: "no".to_owned(),
            },
            "llm_invalid_output",
        ),
        (Fault::Empty, "llm_invalid_output"),
        // PostgreSQL would reject it.
        (
            Fault::RawAnswer {
                json: json!({"author": null, "date": null, "topic": null, "summary": "a\u{0}b"}),
            },
            "llm_invalid_output",
        ),
    ] {
        ingest.model.clear();
        ingest.model.always(Step::new(fault).only_stage("helper"));
        let job = ingest.fail(&json!({"text": text(&["A"])}), code).await;
        ingest.model.clear_faults();
        assert!(ingest.asked("classify").is_empty());
        let job = ingest.retry(&job).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }

    let stored = ingest.list("/v1/sources").await;
    for document in stored {
        let helper = ingest
            .app
            .get(&format!(
                "/v1/sources/{}/helper",
                document["id"].as_str().unwrap()
            ))
            .await
            .json();
        assert!(!helper["text"].as_str().unwrap().contains('\0'), "{helper}");
    }
}
