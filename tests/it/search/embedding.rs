//! Vectors from an external model, and the change from one model to another.

use std::time::Duration;

use memoir::scripted_model::{Fault, Step};
use serde_json::{Value, json};

use super::each;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, assert_failed};

const OUTSIDE: (&str, &str) = ("VECTOR__MODEL", "openai_stub:embedder");
const PATIENT: (&str, &str) = ("LLM__TRANSPORT__READ_TIMEOUT", "20");
const SMALL: [(&str, &str); 2] = [
    ("VECTOR__CHUNK_TOKENS", "16"),
    ("VECTOR__OVERLAP_TOKENS", "0"),
];

/// A text that is indexed for search only.
fn brought(path: &str, text: &str) -> Value {
    json!({"path": path, "text": text, "options": {"indexes": ["semantic"]}})
}

/// Thirty chunks that are increasingly similar to the query.
fn thirty() -> String {
    let line = |number: usize| {
        let (same, other) = (number / 3, 10 - number / 3);
        format!(
            "{}{}\n\n",
            "heron ".repeat(same),
            format!("thing{number} ").repeat(other.min(4))
        )
    };
    (0..30).map(line).collect::<Vec<_>>().concat()
}

async fn search(ingest: &Ingest, body: &Value) -> Value {
    let reply = ingest.app.post("/v1/search", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// The vector that the model returns for a text.
async fn vector(ingest: &Ingest, text: &str) -> Vec<f64> {
    let url = format!("{}/embeddings", ingest.model.openai_url());
    let body = json!({"model": "embedder", "input": [text]});
    let reply: Value = ingest
        .app
        .client
        .post(url)
        .json(&body)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();

    reply["data"][0]["embedding"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

#[tokio::test]
async fn an_external_model_embeds_each_text_once_and_its_cosines_decide_the_order() {
    for database in TestDatabase::each().await {
        let settings = [OUTSIDE, SMALL[0], SMALL[1]];
        let ingest = Ingest::on(database, &settings).await;
        let job = ingest.succeed(&brought("/thirty.md", &thirty())).await;
        let chunks = job["result"]["retrieval_chunks_written"].as_i64().unwrap();
        assert!(chunks >= 30, "{job}");
        let asked = |ingest: &Ingest| {
            ingest
                .model
                .requests()
                .iter()
                .filter(|seen| seen.stage == "embed")
                .count()
        };

        assert_eq!(asked(&ingest), 1, "all in one request");
        assert_eq!(job["result"]["llm_calls"], 1);

        let body = json!({"query": "heron", "type": "semantic"});
        let found = search(&ingest, &body).await;
        assert_eq!(found["embedding_model"], "openai_stub:embedder");
        let items = found["items"].as_array().unwrap();
        assert_eq!(items.len(), 20, "twenty by default");
        let question = vector(&ingest, "heron").await;
        let mut last = f64::INFINITY;

        for item in items {
            let chunk = vector(&ingest, item["text_content"].as_str().unwrap()).await;
            let cosine: f64 = question.iter().zip(&chunk).map(|(a, b)| a * b).sum();
            assert!(
                (cosine - item["score"].as_f64().unwrap()).abs() < 1e-5,
                "{cosine}: {item}"
            );

            assert!(cosine <= last + 1e-6);
            last = cosine;
        }

        // Repeating the query calls no model, and a restart does not embed stored texts again.
        let before = asked(&ingest);
        assert_eq!(search(&ingest, &body).await["items"], found["items"]);
        assert_eq!(asked(&ingest), before);
        let ingest = ingest.restart(&settings).await;
        assert_eq!(search(&ingest, &body).await["items"], found["items"]);
        assert_eq!(asked(&ingest), before + 1, "only the question");
        let usage = ingest.app.get("/v1/usage").await.json();
        let stages = usage["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|day| day["stage"].as_str().unwrap());

        assert!(stages.collect::<Vec<_>>().contains(&"embed"), "{usage}");
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn searches_use_the_previous_model_while_a_space_is_re_embedded() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &SMALL).await;
        ingest.succeed(&brought("/thirty.md", &thirty())).await;
        let body = json!({"query": "heron", "type": "semantic", "k": 200});
        assert_eq!(
            search(&ingest, &body).await["embedding_model"],
            "local:embedded"
        );

        assert_eq!(ingest.model.requests().len(), 0);

        ingest.model.edit_script(|script| script.latency_ms = 1_500);
        let settings = [OUTSIDE, PATIENT, SMALL[0], SMALL[1]];
        let ingest = ingest.restart(&settings).await;
        assert!(
            ingest
                .model
                .wait_for_requests(1, Duration::from_secs(20))
                .await
        );

        // The job is re-embedding. Searches and new texts still use the previous model.
        assert_eq!(
            search(&ingest, &body).await["embedding_model"],
            "local:embedded"
        );

        ingest
            .succeed(&brought("/late.md", "A heron that came late."))
            .await;
        let found = search(&ingest, &body).await;
        assert!(
            each(&found, "path").contains(&"/late.md".to_owned()),
            "{found}"
        );

        assert_eq!(found["embedding_model"], "local:embedded");

        ingest.model.edit_script(|script| script.latency_ms = 0);
        let jobs = ingest.app.get("/v1/jobs?kind=reembed").await.json();
        let job = ingest
            .finished(jobs["items"][0]["id"].as_str().unwrap())
            .await;
        assert_eq!(job["state"], "succeeded", "{job}");
        let found = search(&ingest, &body).await;

        assert_eq!(found["embedding_model"], "openai_stub:embedder");
        assert_eq!(
            each(&found, "path").len(),
            found["items"].as_array().unwrap().len()
        );

        assert!(
            each(&found, "path").contains(&"/late.md".to_owned()),
            "{found}"
        );

        let sql = "SELECT COUNT(DISTINCT model), COUNT(*) - (SELECT COUNT(*) FROM search_entries WHERE owner_kind = 'chunk') FROM embeddings";
        let row = sqlx::query(sql)
            .fetch_one(&mut ingest.app.database.connect().await)
            .await
            .unwrap();

        assert_eq!(
            (
                sqlx::Row::get::<i64, _>(&row, 0),
                sqlx::Row::get::<i64, _>(&row, 1)
            ),
            (1, 0)
        );

        // Another start has nothing to do.
        let ingest = ingest.restart(&settings).await;
        let jobs = ingest.app.get("/v1/jobs?kind=reembed").await.json();
        assert_eq!(jobs["items"].as_array().unwrap().len(), 1);
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn an_unreachable_embedding_model_fails_only_what_needs_it() {
    let settings = [
        OUTSIDE,
        SMALL[0],
        SMALL[1],
        ("LLM__TRANSPORT__TRIES", "1"),
        ("JOBS__MAX_ATTEMPTS", "1"),
        ("JOBS__PATIENCE", "0"),
    ];

    let ingest = Ingest::with(&settings).await;
    ingest
        .succeed(&brought("/one.md", "A heron by the weir."))
        .await;
    ingest.model.always(Step::from(Fault::Status {
        status: 503,
        headers: std::collections::BTreeMap::new(),
        body: String::new(),
    }));

    let job = ingest
        .run(&brought("/two.md", "An otter below the bridge."))
        .await;
    assert_failed(&job, "llm_unavailable");
    ingest
        .app
        .post("/v1/search", &json!({"query": "otter"}))
        .await
        .assert_problem(502, "llm_unavailable");

    let found = search(&ingest, &json!({"query": "heron", "type": "keyword"})).await;
    assert_eq!(each(&found, "path"), ["/one.md"]);
    ingest.model.clear_faults();
    assert_eq!(ingest.retry(&job).await["state"], "succeeded");
    assert_eq!(
        each(&search(&ingest, &json!({"query": "otter"})).await, "path")[0],
        "/two.md"
    );

    ingest.app.finish().await;
}

#[tokio::test]
async fn finding_a_document_by_words_calls_no_external_model() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[OUTSIDE, SMALL[0], SMALL[1]]).await;
        ingest
            .succeed(&brought("/one.md", "A heron by the weir."))
            .await;

        // The settings name the embedded model, and the space still has the vectors of the other.
        let settings = [
            ("JOBS__WORKERS", "0"),
            ("LLM__TRANSPORT__TRIES", "1"),
            SMALL[0],
            SMALL[1],
        ];
        let ingest = ingest.restart(&settings).await;
        ingest.model.always(Step::from(Fault::Status {
            status: 401,
            headers: std::collections::BTreeMap::new(),
            body: String::new(),
        }));
        let asked = ingest.model.requests().len();
        let body = json!({"meta": {"query": "heron"}, "strategy": "score"});
        let found = ingest.app.post("/v1/documents/retrieve", &body).await;
        assert_eq!(found.status, 200, "{}", found.text);
        assert_eq!(found.json()["metadata"]["path"], "/one.md");
        assert_eq!(ingest.model.requests().len(), asked);
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn rejects_vectors_that_do_not_match() {
    for odd in [
        json!({"data": []}),
        json!({"data": [{"index": 0, "embedding": ["a"]}]}),
        json!({"data": [{"index": 7, "embedding": [1.0]}]}),
        json!({"object": "list"}),
    ] {
        let settings = [
            OUTSIDE,
            ("LLM__TRANSPORT__TRIES", "1"),
            ("JOBS__MAX_ATTEMPTS", "1"),
            ("JOBS__PATIENCE", "0"),
        ];
        let ingest = Ingest::with(&settings).await;
        ingest.model.always(Step::from(Fault::Status {
            status: 200,
            headers: std::collections::BTreeMap::new(),
            body: odd.to_string(),
        }));
        assert_failed(
            &ingest.run(&brought("/one.md", "A heron.")).await,
            "llm_unavailable",
        );
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn rejects_a_model_without_a_provider_at_start() {
    let database = TestDatabase::sqlite();
    let config = crate::support::app::load(&database.url, &[("VECTOR__MODEL", "nobody:x")]);
    let clock = std::sync::Arc::new(crate::support::clock::ManualClock::default());
    let error = memoir::app::App::build(config, clock)
        .await
        .err()
        .unwrap()
        .to_string();

    assert!(
        error.contains("vector.model") && error.contains("no such provider"),
        "{error}"
    );
}
