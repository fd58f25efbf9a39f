//! Models, probes and usage over HTTP, and a job whose provider rejects its key.

use memoir::scripted_model::{Fault, ScriptedModel};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::until;
use crate::support::probes::Api;

async fn app(model: &ScriptedModel, settings: &[(&str, &str)]) -> TestApp {
    let url = model.openai_url();
    let base = [
        ("LLM__PROVIDERS__STUB__BASE_URL", url.as_str()),
        ("LLM__PROVIDERS__STUB__API_KEY", "sk-very-secret"),
        ("LLM__MODEL", "stub:m"),
        ("LLM__TRANSPORT__BACKOFF_MS", "5"),
        ("TESTING__PROBE_JOBS", "true"),
    ];

    TestApp::with(&[&base[..], settings].concat()).await
}

#[tokio::test]
async fn the_embedded_model_is_the_default() {
    let app = TestApp::spawn().await;
    let info = app.get("/v1/info").await.json();
    assert_eq!(
        info["llm"],
        json!({"model": "local:embedded", "embedded": true, "local_models": []})
    );

    let models = app.get("/v1/models").await.json();
    assert_eq!(models["default"], "local:embedded");
    let names: Vec<&str> = models["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["name"].as_str())
        .collect();

    assert_eq!(
        names,
        [
            "openai",
            "anthropic",
            "gemini",
            "xai",
            "mistral",
            "groq",
            "ollama",
            "vllm",
            "lmstudio",
            "llamacpp",
            "local"
        ]
    );

    let probe = app.post("/v1/models/probe", &json!({})).await.json();
    assert_eq!(
        (&probe["ok"], &probe["mode"], &probe["cost_usd"]),
        (&json!(true), &json!("embedded"), &json!(0.0))
    );
}

#[tokio::test]
async fn a_probe_reports_the_mode_or_the_error_of_a_model() {
    let model = ScriptedModel::local().await.unwrap();
    let app = app(&model, &[]).await;
    let probe = app.post("/v1/models/probe", &json!({})).await.json();
    assert_eq!(
        (&probe["ok"], &probe["model"], &probe["mode"]),
        (&json!(true), &json!("stub:m"), &json!("native"))
    );

    assert_eq!(model.requests().len(), 1);

    model.push(Fault::Status {
        status: 401,
        headers: [].into(),
        body: String::new(),
    });

    let reply = app
        .post("/v1/models/probe", &json!({"model": "stub:other"}))
        .await;
    let probe = reply.json();
    assert_eq!(
        (reply.status.as_u16(), &probe["ok"], &probe["error"]["code"]),
        (200, &json!(false), &json!("provider_auth"))
    );

    assert!(
        probe["error"]["remediation"]
            .as_str()
            .unwrap()
            .contains("llm.providers.stub")
    );

    for (given, said) in [("nowhere:m", "no such provider"), ("local:big", "embedded")] {
        let reply = app.post("/v1/models/probe", &json!({"model": given})).await;
        reply.assert_problem(422, "unknown_model");
        assert!(reply.text.contains(said), "{}", reply.text);
    }

    let keyless = app
        .post("/v1/models/probe", &json!({"model": "openai"}))
        .await
        .json();

    assert_eq!(
        (&keyless["ok"], &keyless["error"]["code"]),
        (&json!(false), &json!("provider_not_configured"))
    );

    assert!(
        keyless["error"]["remediation"]
            .as_str()
            .unwrap()
            .contains("Set OPENAI_API_KEY")
    );

    app.post("/v1/models/probe", &json!({"modell": "x"}))
        .await
        .assert_problem(422, "invalid_request");

    let usage = app.get("/v1/usage").await.json();
    let calls: Vec<(&Value, &Value)> = usage["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (&item["model"], &item["calls"]))
        .collect();

    assert_eq!(
        calls,
        [(&json!("m"), &json!(1)), (&json!("other"), &json!(1))]
    );
}

/// A probe tests one model; no other model answers instead.
#[tokio::test]
async fn a_probe_does_not_use_the_fallback_model() {
    let model = ScriptedModel::local().await.unwrap();
    let settings = [
        ("LLM__FALLBACK_MODEL", "local"),
        ("LLM__TRANSPORT__BREAKER_FAILURES", "3"),
        ("LLM__TRANSPORT__BREAKER_COOLDOWN", "3600"),
    ];

    let app = app(&model, &settings).await;
    model.always(Fault::Status {
        status: 500,
        headers: [].into(),
        body: String::new(),
    });

    let probe = app.post("/v1/models/probe", &json!({})).await.json();
    assert_eq!(
        (&probe["ok"], &probe["attempts"]),
        (&json!(false), &json!(3))
    );

    // The probe also calls a provider that is temporarily avoided, to find out whether it has
    // recovered.
    model.clear_faults();
    let probe = app.post("/v1/models/probe", &json!({})).await.json();
    assert_eq!(probe["ok"], true, "{probe}");
}

/// Providers and gateways quote the request in their errors.
#[tokio::test]
async fn a_secret_quoted_by_a_provider_is_removed() {
    let model = ScriptedModel::local().await.unwrap();
    let app = app(
        &model,
        &[("LLM__PROVIDERS__STUB__HEADERS", r#"{"x-org": "org-hush"}"#)],
    )
    .await;

    let body = r#"{"error": {"message": "bad key Bearer sk-very-secret of org-hush"}}"#.to_owned();
    model.push(Fault::Status {
        status: 401,
        headers: [].into(),
        body,
    });

    let text = app.post("/v1/models/probe", &json!({})).await.text;
    assert!(
        text.contains("bad key") && !text.contains("sk-very-secret") && !text.contains("org-hush"),
        "{text}"
    );
}

#[tokio::test]
async fn a_daily_cap_says_when_it_is_reset() {
    let model = ScriptedModel::local().await.unwrap();
    let app = app(&model, &[("LLM__CAPS__SPACE_DAY__CALLS", "1")]).await;
    assert_eq!(
        app.post("/v1/models/probe", &json!({})).await.json()["ok"],
        true
    );

    let reply = app.post("/v1/models/probe", &json!({})).await;
    reply.assert_problem(429, "spend_cap_reached");
    assert!(
        reply
            .header("retry-after")
            .parse::<u64>()
            .is_ok_and(|left| left <= 86_400),
        "{:?}",
        reply.headers
    );
}

#[tokio::test]
async fn neither_keys_nor_addresses_are_shown() {
    let model = ScriptedModel::local().await.unwrap();
    let app = app(&model, &[]).await;
    for path in ["/v1/models", "/v1/info"] {
        let text = app.get(path).await.text;
        assert!(
            !text.contains("sk-very-secret") && !text.contains(&model.openai_url()),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn usage_is_paged_filtered_and_limited_to_its_space() {
    let model = ScriptedModel::local().await.unwrap();
    let app = app(&model, &[]).await;
    for name in ["a", "b", "c"] {
        app.post(
            "/v1/models/probe",
            &json!({"model": format!("stub:{name}")}),
        )
        .await;
    }

    let mut found = Vec::new();
    let mut path = "/v1/usage?limit=2".to_owned();
    loop {
        let page = app.get(&path).await.json();
        found.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["model"].as_str().unwrap().to_owned()),
        );

        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/usage?limit=2&cursor={cursor}"),
            None => break,
        }
    }

    assert_eq!(found, ["a", "b", "c"]);
    assert_eq!(
        app.get("/v1/usage?limit=1").await.json()["totals"]["calls"],
        3
    );

    assert_eq!(
        app.get("/v1/usage?to=2001-01-01").await.json()["totals"]["calls"],
        0
    );

    let one = app
        .get("/v1/usage?model=b&stage=probe&provider=stub")
        .await
        .json();

    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        app.get("/v1/usage?to=2001-01-01").await.json()["items"],
        json!([])
    );

    let foreign = app
        .request(reqwest::Method::GET, "/v1/usage")
        .header("x-memoir-space", "other");
    let foreign: Value = foreign.send().await.unwrap().json().await.unwrap();
    assert_eq!(foreign["items"], json!([]));

    for bad in [
        "from=yesterday",
        "to=2026-13-40",
        "from=2026-1-1",
        "limit=0",
        "days=3",
        "from=2026-01-02&to=2026-01-01",
    ] {
        let reply = app.get(&format!("/v1/usage?{bad}")).await;
        assert!(reply.status.is_client_error(), "{bad}: {}", reply.text);
    }

    app.get("/v1/usage?cursor=nonsense")
        .await
        .assert_problem(400, "invalid_cursor");
}

/// The job waits with a remedy and resumes where it stopped, on every engine.
#[tokio::test]
async fn a_job_stopped_by_a_rejected_key_resumes_after_the_fix() {
    for database in TestDatabase::each().await {
        let model = ScriptedModel::local().await.unwrap();
        let url = model.openai_url();
        let settings = [
            ("LLM__PROVIDERS__STUB__BASE_URL", url.as_str()),
            ("LLM__MODEL", "stub:m"),
            ("TESTING__PROBE_JOBS", "true"),
        ];

        let app = TestApp::on(database, &settings).await;
        let api = Api::at(app.address);
        model.push(Fault::Delay { ms: 0 });
        model.push(Fault::Status {
            status: 403,
            headers: [].into(),
            body: "no".to_owned(),
        });

        let id = api
            .queue(
                "default",
                &json!({"classify": ["one", "two", "three", "four"]}),
            )
            .await
            .unwrap();

        let path = format!("/v1/jobs/{id}");
        until("it waits", async || {
            api.get("default", &path).await["phase"] == "waiting_for_provider"
        })
        .await;

        let job = api.get("default", &path).await;
        assert_eq!(
            (&job["attempt"], &job["error"]["code"]),
            (&json!(0), &json!("provider_auth")),
            "{job}"
        );

        assert!(
            job["error"]["remediation"]
                .as_str()
                .unwrap()
                .contains("llm.providers.stub")
        );

        assert_eq!(job["responses"].as_array().unwrap().len(), 2);

        let probed = app.post("/v1/models/probe", &json!({})).await.json();
        assert_eq!(probed["ok"], true, "{probed}");
        let job = api.finished("default", &id).await;
        assert_eq!(
            (&job["state"], &job["attempt"], &job["waiting"]),
            (&json!("succeeded"), &json!(1), &json!(null))
        );

        assert_eq!(model.requests().len(), 4, "answered calls are not repeated");

        let responses = job["responses"].as_array().unwrap();
        let outcomes: Vec<&str> = responses
            .iter()
            .filter_map(|call| call["outcome"].as_str())
            .collect();

        assert_eq!(outcomes, ["ok", "transport_error", "ok"]);
        for call in responses {
            for field in [
                "stage",
                "attempt",
                "timestamp",
                "latency_ms",
                "provider",
                "model",
                "mode",
                "provider_params",
            ] {
                assert!(!call[field].is_null(), "{field}: {call}");
            }
        }

        app.finish().await;
    }
}

#[tokio::test]
async fn an_unreachable_model_uses_up_attempts_and_a_cap_fails_the_job_at_once() {
    let model = ScriptedModel::local().await.unwrap();
    let app = app(
        &model,
        &[("JOBS__BACKOFF_MS", "10"), ("LLM__CAPS__JOB__CALLS", "7")],
    )
    .await;

    let api = Api::at(app.address);
    model.always(Fault::Status {
        status: 503,
        headers: [].into(),
        body: String::new(),
    });

    let id = api
        .queue("default", &json!({"classify": ["one"]}))
        .await
        .unwrap();

    let job = api.finished("default", &id).await;
    // Two attempts of three tries each, and one more try until the cap of seven.
    assert_eq!(
        (&job["state"], &job["error"]["code"]),
        (&json!("failed"), &json!("spend_cap_reached")),
        "{job}"
    );

    assert_eq!(job["error"]["status"], 429);
    assert_eq!(model.requests().len(), 7);
}
