//! Rerankers and classifiers behind HTTP, in the form of each server, and with faults.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{BELL, BOAT, Bench, LAMP, reasons};

const TASK: &str = "What does the lamp of the lighthouse burn?";

/// What a server answers, and what it was asked.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    async fn start(answer: impl Fn(&Value) -> Response + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/score", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let log = Arc::clone(&asked);
        let handler = post(move |Json(body): Json<Value>| {
            let reply = answer(&body);
            log.lock().unwrap().push(body);
            async move { reply }
        });
        let app = Router::new().route("/score", handler);
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

async fn bench(settings: &[(&str, &str)]) -> Bench {
    let bench = Bench::with(settings).await;
    for (path, text) in [("/lamp.md", LAMP), ("/boat.md", BOAT), ("/bell.md", BELL)] {
        bench.file(path, text).await;
    }
    bench
}

fn ranks(prompt: &Value) -> Vec<i64> {
    let all = prompt["transparency"]["candidates"].as_array().unwrap();
    all.iter()
        .map(|one| one["rank"].as_i64().unwrap())
        .collect()
}

/// The last text is the best.
fn tei(body: &Value) -> Response {
    let Some(texts) = body["texts"].as_array() else {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    };
    let each = (0_u32..).zip(texts);
    let mut scores: Vec<Value> = each
        .map(|(place, _)| json!({"index": place, "score": f64::from(place) / 10.0}))
        .collect();
    scores.reverse();
    Json(scores).into_response()
}

fn jina(body: &Value) -> Response {
    let Some(texts) = body["documents"].as_array() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let each = (0_u32..)
        .zip(texts)
        .map(|(place, _)| json!({"index": place, "relevance_score": f64::from(place) - 5.0}));
    Json(json!({"model": body["model"], "results": each.collect::<Vec<_>>()})).into_response()
}

#[tokio::test]
async fn a_reranker_is_asked_in_the_form_that_it_takes() {
    for (speaks_tei, model) in [(true, ""), (true, "m"), (false, ""), (false, "jina-v2")] {
        let server = Server::start(if speaks_tei { tei } else { jina }).await;
        let bench = bench(&[
            ("WORKBENCH__RERANKER", "http"),
            ("WORKBENCH__RERANKER_URL", &server.url),
            ("WORKBENCH__RERANKER_MODEL", model),
            ("WORKBENCH__RERANKER_KEY", "secret"),
        ])
        .await;
        let prompt = bench.compose(&json!({"task": TASK})).await;
        assert_eq!(ranks(&prompt), [3, 2, 1], "{speaks_tei} {model}");
        assert_eq!(prompt["trace"][3]["status"], "ok", "{}", prompt["trace"][3]);
        let named = if model.is_empty() { "127.0.0.1" } else { model };
        assert_eq!(prompt["trace"][3]["model"], named);
        assert!(bench.asked("rerank").is_empty());

        // The form is remembered: one request per run from now on.
        let before = server.asked().len();
        bench.compose(&json!({"task": TASK})).await;
        assert_eq!(server.asked().len(), before + 1);
        let info = bench.test.app.get("/v1/info").await;
        assert!(!info.text.contains("secret") && !info.text.contains(&server.url));
        bench.test.app.finish().await;
    }
}

#[tokio::test]
async fn one_request_ranks_at_most_twenty_chunks_and_a_task_is_embedded_once() {
    let server = Server::start(jina).await;
    let bench = Bench::with(&[
        ("WORKBENCH__RERANKER", "http"),
        ("WORKBENCH__RERANKER_URL", &server.url),
        ("WORKBENCH__RERANKER_MODEL", "jina-v2"),
        ("VECTOR__MODEL", "openai_stub:embedder"),
    ])
    .await;
    for number in 0..30 {
        let text = format!("{LAMP} Page {number}.");
        bench.file(&format!("/lamp-{number}.md"), &text).await;
    }
    bench.compose(&json!({"task": TASK})).await;
    let (reranked, embedded) = (server.asked().len(), bench.asked("embeddings").len());

    let prompt = bench.compose(&json!({"task": TASK})).await;
    assert_eq!(ranks(&prompt).len(), 20);
    let asked = server.asked().split_off(reranked);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["documents"].as_array().unwrap().len(), 20);
    assert_eq!(bench.asked("embeddings").len(), embedded);
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_broken_reranker_leaves_the_order_of_the_search() {
    let answers: [fn(&Value) -> Response; 4] = [
        |_| StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        |_| "no JSON".into_response(),
        |_| Json(json!([{"index": 0, "score": 0.5}])).into_response(),
        |_| Json(json!({"results": [{"index": 77, "relevance_score": 1.0}]})).into_response(),
    ];
    for answer in answers {
        let server = Server::start(answer).await;
        let bench = bench(&[
            ("WORKBENCH__RERANKER", "http"),
            ("WORKBENCH__RERANKER_URL", &server.url),
        ])
        .await;
        let prompt = bench.compose(&json!({"task": TASK})).await;
        assert_eq!(ranks(&prompt), [1, 2, 3]);
        assert_eq!(prompt["trace"][3]["status"], "fallback");
        bench.test.app.finish().await;
    }
}

#[tokio::test]
async fn a_classifier_behind_http_judges_the_chunks() {
    let server = Server::start(|body: &Value| {
        let pairs = body["inputs"].as_array().unwrap();
        let each = pairs.iter().map(|pair| {
            let helps = pair[0].as_str().unwrap().contains("30 m above");
            let (yes, no) = if helps { (0.8, 0.1) } else { (0.1, 0.8) };
            json!([{"label": "entailment", "score": yes}, {"label": "neutral", "score": no},
                {"label": "contradiction", "score": 0.1}])
        });
        Json(each.collect::<Vec<_>>()).into_response()
    })
    .await;
    let bench = bench(&[
        ("WORKBENCH__NLI", "http"),
        ("WORKBENCH__NLI_URL", &server.url),
        ("WORKBENCH__RERANKER", "lexical"),
    ])
    .await;
    let prompt = bench.compose(&json!({"task": TASK})).await;
    let kept: Vec<String> = reasons(&prompt).into_iter().map(|one| one.2).collect();
    assert_eq!(
        kept,
        [
            "kept: strong semantic match",
            "dropped: not entailed",
            "dropped: not entailed"
        ]
    );
    assert_eq!(prompt["trace"][3]["model"], "lexical");
    assert!(bench.asked("nli").is_empty() && bench.asked("rerank").is_empty());
    bench.test.app.finish().await;
}

#[tokio::test]
async fn the_lexical_gate_keeps_and_marks() {
    let bench = bench(&[("WORKBENCH__NLI", "lexical")]).await;
    let prompt = bench.compose(&json!({"task": TASK})).await;
    assert!(
        reasons(&prompt)
            .iter()
            .all(|one| one.2 == "kept: not checked for entailment")
    );
    assert_eq!(prompt["trace"][4]["model"], "lexical");
    bench.test.app.finish().await;
}
