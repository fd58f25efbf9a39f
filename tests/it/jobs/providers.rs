//! Providers that are unreachable, busy, or reject their key: jobs wait, none fails, and few calls
//! are sent in the meantime.
//!
//! `MEMOIR_TEST_OUTAGES` sets the lengths of the outages in seconds, with the default settings
//! (scripts/soak: 0.5, 10 and 60).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use memoir::scripted_model::{Fault, Reply, ScriptedModel, Step};
use serde_json::{Value, json};

use crate::support::binary::Binary;
use crate::support::database::{TestDatabase, variable};
use crate::support::ingest::{Ingest, count, document};
use crate::support::probes::Api;

const FLAT: &[(&str, &str)] = &[
    ("TAXONOMY__HIERARCHY_DEPTH", "1"),
    ("SERVER__MAX_CONNECTIONS", "200"),
];
/// Longer than any of these tests takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

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

/// Polls until the condition holds.
async fn eventually<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let began = Instant::now();
    while !look().await {
        assert!(began.elapsed() < DEADLINE, "it does not come: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A source for queries, ingested before the outage.
async fn filed_before(ingest: &Ingest) {
    ingest.succeed(&document(&["A"], &json!({}))).await;
    ingest.model.clear();
}

async fn queue_documents(ingest: &Ingest, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let more = json!({"path": format!("/{number}.md"), "options": {"indexes": ["taxonomy"]}});
        ids.push(ingest.queue(&document(&["A"], &more)).await);
    }

    ids
}

async fn all_wait(ingest: &Ingest, count: usize, code: &str) -> bool {
    let jobs = ingest.list("/v1/jobs").await;
    assert!(jobs.iter().all(|job| job["state"] != "failed"), "{jobs:#?}");
    let waits =
        |job: &&Value| job["phase"] == "waiting_for_provider" && job["error"]["code"] == code;
    jobs.iter().filter(waits).count() == count
}

async fn all_succeed(ingest: &Ingest, ids: &[String]) {
    for id in ids {
        let job = ingest.finished(id).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("succeeded"), &json!(1)),
            "{job:#}"
        );

        assert_eq!(job["waiting"], Value::Null, "{job:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_key_fails_no_queued_job() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let ingest = Ingest::on(database, FLAT).await;
        filed_before(&ingest).await;
        ingest.model.always(status(401, &[], "who is sk-test?"));
        let began = Instant::now();
        let ids = queue_documents(&ingest, 60).await;

        eventually("all wait", async || {
            all_wait(&ingest, 60, "provider_auth").await
        })
        .await;

        let sent = ingest.model.requests().len();
        // Two workers, and a probe after 5, 15, 35 and 75 seconds.
        let probes = [5, 15, 35, 75]
            .iter()
            .filter(|second| began.elapsed().as_secs() >= **second)
            .count();

        assert!(
            (1..=2 + probes).contains(&sent),
            "{engine:?}: {sent} calls in {:?}",
            began.elapsed()
        );

        let job = ingest.job(&ids[0]).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("queued"), &json!(0)),
            "{job:#}"
        );

        assert!(
            job["error"]["remediation"]
                .as_str()
                .unwrap()
                .contains("llm.providers.openai_stub"),
            "{job:#}"
        );

        assert!(job["waiting"]["next_try_at"].is_string(), "{job:#}");
        check_pause_is_shown(&ingest).await;

        let asked = ingest
            .app
            .post(
                "/v1/queries",
                &json!({"query": "what?", "strategy": "one_shot"}),
            )
            .await;

        asked.assert_problem(502, "provider_auth");
        assert!(
            asked.headers.contains_key("retry-after"),
            "{:?}",
            asked.headers
        );

        // One can be cancelled; the others resume once the key is valid, immediately if a user
        // probes the model.
        let (cancelled, rest) = ids.split_last().unwrap();
        let reply = ingest
            .app
            .post(&format!("/v1/jobs/{cancelled}/cancel"), &Value::Null)
            .await;

        assert_eq!(reply.status, 200, "{}", reply.text);
        ingest.model.clear_faults();
        assert_eq!(
            ingest.app.post("/v1/models/probe", &json!({})).await.json()["ok"],
            true
        );

        all_succeed(&ingest, rest).await;
        assert_eq!(
            ingest.app.get("/health/ready").await.json(),
            json!({"status": "ok", "warnings": []})
        );

        ingest.app.finish().await;
    }
}

async fn check_pause_is_shown(ingest: &Ingest) {
    let models = ingest.app.get("/v1/models").await.json();
    let provider = models["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["name"] == "openai_stub")
        .unwrap();

    let pause = &provider["pauses"][0];
    assert_eq!(
        (&pause["code"], &pause["model"]),
        (&json!("provider_auth"), &Value::Null),
        "{provider:#}"
    );

    for member in ["detail", "remediation", "since", "next_probe_at"] {
        assert!(
            pause[member].as_str().is_some_and(|text| !text.is_empty()),
            "{member}: {pause:#}"
        );
    }

    assert!(!models.to_string().contains("sk-test"), "{models:#}");

    let ready = ingest.app.get("/health/ready").await;
    assert_eq!(ready.status, 200, "{}", ready.text);
    let warning = &ready.json()["warnings"][0];
    assert_eq!(
        (&warning["code"], &warning["provider"]),
        (&json!("provider_auth"), &json!("openai_stub"))
    );

    assert!(
        warning["remediation"]
            .as_str()
            .unwrap()
            .contains("llm.providers.openai_stub"),
        "{warning}"
    );

    assert!(
        !ready.text.contains("who is"),
        "the provider's message is not shown to all callers: {}",
        ready.text
    );
}

/// An unknown model or an account without credit: jobs wait for that model or for the whole
/// provider.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_every_permanent_rejection() {
    for (code, body, told) in [
        (402, "pay first", "provider_quota"),
        (
            429,
            r#"{"error": {"message": "You exceeded", "code": "insufficient_quota"}}"#,
            "provider_quota",
        ),
        (403, "not you", "provider_auth"),
        (404, "no such model", "model_not_found"),
        (
            400,
            r#"{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}"#,
            "provider_auth",
        ),
    ] {
        let ingest = Ingest::with(FLAT).await;
        ingest.model.always(status(code, &[], body));
        let ids = queue_documents(&ingest, 8).await;
        eventually("all wait", async || all_wait(&ingest, 8, told).await).await;
        let sent = ingest.model.requests().len();
        assert!((1..=4).contains(&sent), "{code}: {sent} calls");
        ingest.model.clear_faults();
        assert_eq!(
            ingest.app.post("/v1/models/probe", &json!({})).await.json()["ok"],
            true
        );
        all_succeed(&ingest, &ids).await;
        ingest.app.finish().await;
    }
}

/// A wrong model name in a request fails that request and delays no other.
#[tokio::test]
async fn an_unknown_model_in_a_request_fails_its_job() {
    let ingest = Ingest::with(FLAT).await;
    ingest
        .model
        .always(Step::new(status(404, &[], "")).only_model("typo"));
    let wrong = document(&["A"], &json!({"options": {"model": "openai_stub:typo"}}));
    ingest.fail(&wrong, "model_not_found").await;
    ingest.succeed(&document(&["B"], &json!({}))).await;

    ingest.app.finish().await;
}

fn serve(model: &ScriptedModel, key: &str, database: &TestDatabase) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__TESTING__PROBE_JOBS", "true")
        .env(
            "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
            &model.openai_url(),
        )
        .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", key)
        .env("MEMOIR__LLM__MODEL", "stub:m")
}

/// Jobs resume on their own: immediately after a restart with a valid key, and when the provider
/// accepts the key again.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_resume_when_the_key_is_valid() {
    let model = ScriptedModel::local().await.unwrap();
    model.set_rule(|seen| match seen.header("authorization") {
        Some("Bearer right-key") => Reply::sensible(seen),
        _ => Reply::fault(status(401, &[], "no")),
    });

    let database = TestDatabase::sqlite();
    let wrong = serve(&model, "wrong-key", &database);
    let running = wrong.serve();
    let mut ids = queue_probes(&Api::at(running.address), 3).await;
    waiting(&Api::at(running.address), &ids).await;
    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    let log = wrong.log();

    assert_eq!(log.matches("provider paused").count(), 1, "{log}");
    assert!(
        log.contains("llm.providers.stub") && !log.contains("wrong-key"),
        "{log}"
    );

    let right = serve(&model, "right-key", &database);
    let running = right.serve();
    let api = Api::at(running.address);
    let began = Instant::now();
    succeeded(&api, &ids).await;
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "woken by the start: {:?}",
        began.elapsed()
    );

    model.set_rule(|_| Reply::fault(status(403, &[], "no")));
    ids = queue_probes(&api, 3).await;
    waiting(&api, &ids).await;
    model.set_rule(Reply::sensible);
    succeeded(&api, &ids).await;
    assert_eq!(running.signal_and_wait("TERM"), Some(0));

    assert_eq!(
        right.log().matches("its pause has ended").count(),
        1,
        "{}",
        right.log()
    );
}

async fn queue_probes(api: &Api, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(
            api.queue("default", &json!({"classify": ["one", "two", "three"]}))
                .await
                .unwrap(),
        );
    }

    ids
}

async fn waiting(api: &Api, ids: &[String]) {
    for id in ids {
        let path = format!("/v1/jobs/{id}");
        eventually("it waits", async || {
            api.get("default", &path).await["phase"] == "waiting_for_provider"
        })
        .await;
    }
}

/// All jobs once they are over; none may have lost an attempt.
async fn succeeded(api: &Api, ids: &[String]) {
    let began = Instant::now();
    for id in ids {
        loop {
            let job = api.get("default", &format!("/v1/jobs/{id}?wait=10")).await;
            assert!(
                job["state"] != "failed" && began.elapsed() < 3 * DEADLINE,
                "{job:#}"
            );

            if job["state"] == "succeeded" {
                assert_eq!(job["attempt"], 1, "{job:#}");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_retry_after_delays_all_callers() {
    for (code, cap) in [(429, "60"), (503, "1")] {
        let ingest =
            Ingest::with(&[FLAT, &[("LLM__TRANSPORT__RETRY_AFTER_CAP", cap)]].concat()).await;
        filed_before(&ingest).await;
        ingest
            .model
            .always(status(code, &[("retry-after", "120")], "later"));
        let ids = queue_documents(&ingest, 60).await;
        eventually("all wait", async || {
            all_wait(&ingest, 60, "llm_unavailable").await
        })
        .await;

        let sent = ingest.model.requests().len();
        assert!(
            (1..=2).contains(&sent),
            "{code}: {sent} calls by two workers"
        );

        let asked = ingest
            .app
            .post(
                "/v1/queries",
                &json!({"query": "what?", "strategy": "one_shot"}),
            )
            .await;

        asked.assert_problem(502, "llm_unavailable");
        let wait: u64 = asked.headers["retry-after"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();

        assert!((30..=120).contains(&wait), "{wait}");
        assert_eq!(ingest.model.requests().len(), sent, "nothing was sent");

        ingest.model.clear_faults();
        assert_eq!(
            ingest.app.post("/v1/models/probe", &json!({})).await.json()["ok"],
            true
        );

        all_succeed(&ingest, &ids).await;
        ingest.app.finish().await;
    }
}

/// The waits of a real outage, but shorter, with a breaker that opens and one that does not.
#[tokio::test(flavor = "multi_thread")]
async fn one_job_or_many_wait_out_an_outage() {
    for (jobs, breaker) in [(1, "1000"), (1, "5"), (60, "5")] {
        let quick = [
            ("JOBS__BACKOFF_MS", "50"),
            ("JOBS__BACKOFF_CAP_MS", "500"),
            ("LLM__TRANSPORT__BREAKER_FAILURES", breaker),
            ("LLM__TRANSPORT__BREAKER_COOLDOWN", "1"),
        ];

        let ingest = Ingest::with(&[FLAT, &quick].concat()).await;
        ingest.model.always(Fault::Close);
        let ids = queue_documents(&ingest, jobs).await;

        // More waits than would have used up all three attempts.
        eventually("it has waited", async || {
            ingest.job(&ids[0]).await["waiting"]["waits"].as_i64() >= Some(4)
        })
        .await;

        let sent = ingest.model.requests().len();
        ingest.model.clear_faults();
        all_succeed(&ingest, &ids).await;
        if breaker == "5" {
            assert!(sent < 40, "{jobs} jobs sent {sent} calls");
        }

        ingest.app.finish().await;
    }
}

/// Progress restarts the wait. It is stored while the job runs, so that it survives a crash.
#[tokio::test]
async fn progress_resets_the_wait_of_a_job() {
    let patient = [
        ("LLM__TRANSPORT__TRIES", "1"),
        ("LLM__TRANSPORT__READ_TIMEOUT", "30"),
    ];

    let ingest = Ingest::with(&[FLAT, &patient].concat()).await;
    let faults = [
        status(503, &[], ""),
        status(503, &[], ""),
        status(503, &[], ""),
        Fault::Delay { ms: 0 },
        Fault::Delay { ms: 4000 },
        status(429, &[("retry-after", "3600")], ""),
    ];

    for fault in faults {
        ingest.model.push(Step::new(fault).only_stage("classify"));
    }

    let body = document(
        &["A", "B", "C"],
        &json!({"options": {"batch_size": 1, "indexes": ["taxonomy"]}}),
    );

    let id = ingest.queue(&body).await;

    eventually("the fifth call", async || {
        ingest.asked("classify").len() == 5
    })
    .await;

    let forgotten =
        "SELECT COUNT(*) FROM jobs WHERE state = 'running' AND waits = 0 AND waiting_since IS NULL";
    eventually("the waits are forgotten", async || {
        count(&ingest.app.database, forgotten).await == 1
    })
    .await;

    eventually("it waits again", async || {
        ingest.job(&id).await["state"] == "queued"
    })
    .await;

    let job = ingest.job(&id).await;
    assert_eq!(
        (&job["waiting"]["waits"], &job["attempt"]),
        (&json!(1), &json!(0)),
        "{job:#}"
    );

    ingest.app.finish().await;
}

/// Real outages with real waits: measures how long after the recovery the last job is done, and
/// what was sent in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_survive_outages_of_any_length() {
    let lengths = variable("MEMOIR_TEST_OUTAGES").unwrap_or_else(|| "0.5".to_owned());
    for seconds in lengths
        .split(',')
        .map(|seconds| seconds.trim().parse::<f64>().unwrap())
    {
        for jobs in [1, 60] {
            let model = ScriptedModel::local().await.unwrap();
            let database = TestDatabase::sqlite();
            let running = serve(&model, "key", &database).serve();
            let api = Api::at(running.address);
            model.always(Fault::Close);
            let began = Instant::now();
            let ids = queue_probes(&api, jobs).await;

            tokio::time::sleep(Duration::from_secs_f64(seconds).saturating_sub(began.elapsed()))
                .await;
            let sent = model.requests().len();
            model.clear_faults();
            let back = Instant::now();
            succeeded(&api, &ids).await;
            let late = back.elapsed();

            eprintln!(
                "outage of {seconds} s, {jobs} jobs: {sent} calls meanwhile, all done {:.1} s after the return",
                late.as_secs_f64()
            );

            assert!(sent <= 40, "{sent} calls");
            assert!(
                late < Duration::from_mins(1),
                "noticed {late:?} after the return"
            );
        }
    }
}
