//! `POST /v1/ingestions/batch`: many texts in one request, all of them or none.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, chunk, count, request, source};
use crate::support::probes::Api;

const FLAT: &[(&str, &str)] = &[("TAXONOMY__HIERARCHY_DEPTH", "1")];
/// Jobs stay in the queue.
const IDLE: (&str, &str) = ("JOBS__WORKERS", "0");
const PATH: &str = "/v1/ingestions/batch";

async fn batch(app: &TestApp, items: &[Value]) -> Reply {
    app.post(PATH, &json!({ "items": items })).await
}

async fn lines(app: &TestApp, body: &str) -> Reply {
    let request = app
        .request(Method::POST, PATH)
        .header("content-type", "application/x-ndjson");
    send(request.body(body.to_owned())).await
}

/// The jobs of a response, checked for their order.
#[track_caller]
fn jobs(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 202, "{}", reply.text);
    let jobs = reply.json()["jobs"].as_array().unwrap().clone();
    for (job, index) in jobs.iter().zip(0..) {
        assert_eq!(
            (&job["index"], &job["state"]),
            (&json!(index), &json!("queued"))
        );
    }

    jobs
}

/// The invalid fields of a response.
#[track_caller]
fn fields(reply: &Reply) -> Vec<String> {
    reply.assert_problem(422, "invalid_request");
    let problem = reply.json();
    let errors = problem["errors"].as_array().unwrap().iter();
    errors
        .map(|error| error["field"].as_str().unwrap().to_owned())
        .collect()
}

async fn stored(app: &TestApp) -> i64 {
    count(&app.database, "SELECT COUNT(*) FROM jobs").await
}

fn id(job: &Value) -> &str {
    job["job_id"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_texts_become_jobs_and_can_be_found() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, FLAT).await;
        let items: Vec<Value> = (0..100)
            .map(|n| {
                let text = format!(
                    "{} token{n}mark",
                    chunk(["Ash", "Birch", "Cedar"][n % 3], n)
                );
                let path = (n % 2 == 0).then(|| format!("/notes/{n}.md"));
                request(&text, &json!({"path": path, "tags": ["batch"]}))
            })
            .collect();

        let queued = jobs(&batch(&ingest.app, &items).await);
        assert_eq!(queued.len(), 100);
        for job in &queued {
            let finished = ingest.finished(id(job)).await;
            assert_eq!(finished["state"], "succeeded", "{finished:#}");
            assert_eq!(finished["source_id"], job["source_id"]);
            assert_eq!(finished["created_at"], job["created_at"]);
        }

        for n in [0, 51, 99] {
            let body = json!({"query": format!("token{n}mark"), "type": "keyword"});
            let found = ingest.app.post("/v1/search", &body).await.json();
            assert_eq!(
                found["items"][0]["source_id"], queued[n]["source_id"],
                "{found:#}"
            );
        }

        assert_eq!(ingest.list("/v1/sources?tag=batch").await.len(), 100);
        // Each job has its events, in order.
        for job in &queued {
            let path = format!("/v1/jobs/{}/events", id(job));
            let events = ingest.app.get(&path).await.text;
            let numbers: Vec<usize> = events
                .lines()
                .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
                .collect();

            assert!(numbers.len() >= 3, "{events}");
            assert!(numbers.iter().copied().eq(1..=numbers.len()), "{events}");
            let states = ["queued", "running", "succeeded"].map(|state| events.find(state));
            assert!(states[0] < states[1] && states[1] < states[2], "{events}");
        }

        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn takes_json_lines() {
    let ingest = Ingest::with(FLAT).await;
    let app = &ingest.app;
    let body = "\n{\"text\": \"category1: Ash\\nThe ash.\", \"path\": \"/ash.md\"}\r\n  \n\
                {\"text\": \"category1: Birch\\nThe\\u0000 birch.\"}";
    let queued = jobs(&lines(app, body).await);
    assert_eq!(queued.len(), 2);
    for job in &queued {
        let job = ingest.finished(id(job)).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }

    // Items are counted without blank lines; lines are counted with them.
    let reply = lines(
        app,
        "{\"text\": \"a\"}\n\n{\"text\": 1}\n{\"txt\": \"b\"}\n[]\n",
    )
    .await;
    assert_eq!(
        fields(&reply),
        ["items[1].text", "items[2].txt", "items[3]"]
    );
    let reply = lines(app, "{\"text\": \"a\"}\n\n{\"text\": \n").await;
    reply.assert_problem(400, "malformed_request");
    assert!(
        reply.json()["detail"]
            .as_str()
            .unwrap()
            .starts_with("line 3: "),
        "{}",
        reply.text
    );

    assert_eq!(fields(&lines(app, "\n\n").await), ["items"]);
    let request = app
        .request(Method::POST, PATH)
        .header("content-type", "text/plain");
    send(request.body("{}"))
        .await
        .assert_problem(415, "unsupported_media_type");
    assert_eq!(stored(app).await, 2);
}

#[tokio::test]
async fn invalid_items_are_named_and_nothing_is_queued() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[IDLE]).await;
        let good = json!({"text": "The ash tree."});
        let missing = "0199a7e0-1c2d-7000-8000-000000000000";
        let items = [
            good.clone(),
            json!({"text": " "}),
            json!({"text": "a", "options": {"batch_size": 0}, "title": "\u{1}"}),
            json!({"text": 7}),
            json!({"text": "a", "colour": "red"}),
            json!({"path": "/a.md"}),
            json!({"text": "a", "path": "relative"}),
            json!({"text": "a", "source_id": missing}),
            json!({"text": "a", "source_id": "none"}),
            json!({"text": "a", "options": {"model": "nobody:m"}}),
            json!({"text": "a", "wait": true}),
            json!({"text": "a", "timeout_s": 601}),
            json!({"text": "a", "tags": ["b\u{0}"]}),
            json!({"text": "a", "mtime": "yesterday"}),
            json!({"text": "a", "options": {"indexes": vec!["semantic"; 11]}}),
            json!("text"),
            good.clone(),
        ];

        let wanted = [
            "items[1].text",
            "items[2].title",
            "items[2].options.batch_size",
            "items[3].text",
            "items[4].colour",
            "items[5].text",
            "items[6].path",
            "items[7].source_id",
            "items[8].source_id",
            "items[9].options.model",
            "items[10].wait",
            "items[11].timeout_s",
            "items[12].tags[0]",
            "items[13].mtime",
            "items[14].options.indexes",
            "items[15]",
        ];

        let reply = batch(&app, &items).await;
        assert_eq!(fields(&reply), wanted, "{}", reply.text);

        // The first hundred are listed, the others counted.
        let empty = vec![json!({"text": ""}); 150];
        let reply = batch(&app, &empty).await;
        assert_eq!(fields(&reply).len(), 100);
        let problem = reply.json();
        assert_eq!(problem["context"]["more_errors"], 50);
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .ends_with("and 50 more errors")
        );
        assert_eq!(stored(&app).await, 0);
    }
}

#[tokio::test]
async fn rejects_a_body_that_is_not_a_batch() {
    let app = TestApp::with(&[IDLE, ("LIMITS__MAX_BODY_BYTES", "100000")]).await;
    let item = json!({"text": "a"});
    for (body, field) in [
        (json!({"items": []}), "items"),
        (json!({"items": vec![item.clone(); 1001]}), "items"),
        (json!({}), "items"),
        (json!({"items": {"text": "a"}}), "items"),
        (json!({"items": [item], "more": 1}), "more"),
        (json!([item]), "(body)"),
    ] {
        assert_eq!(fields(&app.post(PATH, &body).await), [field]);
    }

    for body in [
        "",
        "{\"items\": [",
        "{\"items\": [{\"text\": \"a\", \"text\": \"b\"}]}",
        "{\"items\": [{\"text\": \"a\"}], \"items\": []}",
    ] {
        let request = app
            .request(Method::POST, PATH)
            .header("content-type", "application/json");
        send(request.body(body))
            .await
            .assert_problem(400, "malformed_request");
    }

    let large = json!({"text": "word ".repeat(15_000)});
    batch(&app, &[large.clone(), large])
        .await
        .assert_problem(413, "body_too_large");
    assert_eq!(stored(&app).await, 0);

    // The maximum number is accepted.
    assert_eq!(jobs(&batch(&app, &vec![item; 1000]).await).len(), 1000);
    assert_eq!(stored(&app).await, 1000);
}

#[tokio::test]
async fn a_repeated_batch_returns_the_same_jobs() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[IDLE]).await;
        let body =
            json!({"items": [{"text": "The ash."}, {"text": "The birch.", "path": "/b.md"}]});
        let post = async |body: &Value| {
            let request = app
                .request(Method::POST, PATH)
                .header("idempotency-key", "k-1");
            send(request.json(body)).await
        };

        let first = post(&body).await;
        assert_eq!(jobs(&first).len(), 2);
        let again = post(&body).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
        assert_eq!(again.header("idempotency-replayed"), "true");

        post(&json!({"items": [{"text": "The cedar."}]}))
            .await
            .assert_problem(422, "idempotency_key_reused");
        assert_eq!(stored(&app).await, 2);

        // A rejected batch does not use up its key.
        let post = async |text: &str| {
            let request = app
                .request(Method::POST, PATH)
                .header("idempotency-key", "k-2");
            send(request.json(&json!({"items": [{ "text": text }]}))).await
        };

        assert_eq!(fields(&post("").await), ["items[0].text"]);
        assert_eq!(jobs(&post("The elm.").await).len(), 1);
    }
}

#[tokio::test]
async fn a_batch_that_does_not_fit_into_the_queue_is_not_queued() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[IDLE, ("JOBS__MAX_QUEUED", "5")]).await;
        let items = vec![json!({"text": "The ash tree."}); 6];
        assert_eq!(jobs(&batch(&app, &items[..3]).await).len(), 3);

        for too_many in [&items[..3], &items] {
            let refused = batch(&app, too_many).await;
            refused.assert_problem(429, "queue_full");
            assert_eq!(refused.header("retry-after"), "10");
            assert_eq!(stored(&app).await, 3, "{:?}", app.database.engine);
        }

        // What fits is accepted, up to the last place.
        assert_eq!(jobs(&batch(&app, &items[..2]).await).len(), 2);
        batch(&app, &items[..1])
            .await
            .assert_problem(429, "queue_full");
        app.post("/v1/ingestions", &items[0])
            .await
            .assert_problem(429, "queue_full");
    }
}

/// Texts of one path keep their order, in one batch, and with the requests before and after it.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_one_path_become_versions_in_the_order_of_the_items() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, FLAT).await;
        let text = |n: usize| request(&chunk("Ash", n), &json!({"path": "/ash.md"}));
        let other = request(&chunk("Birch", 1), &json!({}));

        let first = ingest.queue(&text(1)).await;
        let items = [text(2), other.clone(), text(3), other, text(4)];
        let queued = jobs(&batch(&ingest.app, &items).await);
        let last = ingest.queue(&text(5)).await;

        for job in &queued {
            let job = ingest.finished(id(job)).await;
            assert_eq!(job["state"], "succeeded", "{job:#}");
        }

        let job = ingest.finished(&last).await;
        let ash = source(&job);
        assert_eq!(ingest.finished(&first).await["source_id"], ash);
        for (index, version) in [(0, 2), (2, 3), (4, 4)] {
            assert_eq!(queued[index]["source_id"], ash);
            let path = format!("/v1/sources/{ash}/versions/{version}/content");
            let content = ingest.app.get(&path).await.text;
            assert_eq!(
                content,
                chunk("Ash", version),
                "{:?}",
                ingest.app.database.engine
            );
        }

        let path = format!("/v1/sources/{ash}/versions/5/content");
        assert_eq!(ingest.app.get(&path).await.text, chunk("Ash", 5));

        // An existing source is found by its path and by its id.
        let named = request(&chunk("Ash", 6), &json!({ "source_id": ash }));
        let queued = jobs(&batch(&ingest.app, &[text(7), named]).await);
        assert!(
            queued.iter().all(|job| job["source_id"] == ash),
            "{queued:?}"
        );
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn a_batch_sees_only_its_own_space() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let post = async |space: &str, items: Value| {
            let request = app
                .request(Method::POST, PATH)
                .header("x-memoir-space", space);
            send(request.json(&json!({ "items": items }))).await
        };

        let item = json!({"text": "The ash tree.", "path": "/ash.md"});
        let here = jobs(&post("here", json!([item, item])).await);
        let there = jobs(&post("there", json!([item])).await);
        assert_eq!(here[0]["source_id"], here[1]["source_id"]);
        assert_ne!(here[0]["source_id"], there[0]["source_id"]);

        let api = Api::at(app.address);
        let finished = api.finished("here", id(&here[1])).await;
        assert_eq!(finished["state"], "succeeded", "{finished:#}");
        let job = app.get(&format!("/v1/jobs/{}", id(&here[0]))).await;
        job.assert_problem(404, "not_found");

        let foreign = json!({"text": "The birch.", "source_id": here[0]["source_id"]});
        let reply = post("there", json!([item, foreign])).await;
        assert_eq!(fields(&reply), ["items[1].source_id"]);
        assert_eq!(jobs(&post("here", json!([foreign])).await).len(), 1);
    }
}

#[tokio::test]
async fn a_key_pays_for_all_jobs_and_needs_its_role() {
    let keys = r#"[
        {"name": "writer", "key": "writer-key-00000000", "space": "a", "role": "user", "models": ["local:*"]},
        {"name": "reader", "key": "reader-key-00000000", "space": "a", "role": "read"}
    ]"#;
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[IDLE, ("AUTH__KEYS", keys)]).await;
        let post = async |key: &str, items: Value| {
            let request = app.request(Method::POST, PATH).bearer_auth(key);
            send(request.json(&json!({ "items": items }))).await
        };

        let item = json!({"text": "The ash tree."});
        let two = json!([item, item]);
        post("reader-key-00000000", two.clone())
            .await
            .assert_problem(403, "forbidden");
        assert_eq!(jobs(&post("writer-key-00000000", two).await).len(), 2);
        let paid = "SELECT COUNT(*) FROM job_requests WHERE budget_json IS NOT NULL";
        assert_eq!(count(&app.database, paid).await, 2);

        let other = json!({"text": "a", "options": {"model": "openai:gpt-4o"}});
        let refused = post("writer-key-00000000", json!([item, other])).await;
        refused.assert_problem(403, "forbidden");
        assert!(refused.text.contains("items[1]"), "{}", refused.text);
        assert_eq!(stored(&app).await, 2);
    }
}

/// The limit on bodies applies to all files of a batch together.
#[tokio::test]
async fn a_batch_can_name_files_on_the_server() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    for name in ["a.md", "b.md", "c.md"] {
        std::fs::write(at(name), format!("{name} {}", "word ".repeat(8000))).unwrap();
    }

    let settings = [
        IDLE,
        ("INGESTION__ROOT", root.path().to_str().unwrap()),
        ("LIMITS__MAX_BODY_BYTES", "100000"),
    ];

    let app = TestApp::with(&settings).await;
    let file = |name: &str| json!({"path": at(name)});
    assert_eq!(
        jobs(&batch(&app, &[file("a.md"), file("b.md")]).await).len(),
        2
    );
    let reply = batch(&app, &[file("a.md"), file("gone.md"), file("x.exe")]).await;
    assert_eq!(fields(&reply), ["items[1].path", "items[2].path"]);

    batch(&app, &[file("a.md"), file("b.md"), file("c.md")])
        .await
        .assert_problem(413, "body_too_large");
    assert_eq!(stored(&app).await, 2);
}

/// The embedded model's jobs run several at a time; each keeps its own record.
#[tokio::test(flavor = "multi_thread")]
async fn small_texts_run_together_and_a_cancelled_one_affects_no_other() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let text = |n: i64| format!("Note {n}: the master of harbour {n} counted {n} boats.");
        let items: Vec<Value> = (0..40).map(|n| json!({"text": text(n)})).collect();
        let queued = jobs(&batch(&app, &items).await);
        let last = id(&queued[39]);
        app.post(&format!("/v1/jobs/{last}/cancel"), &json!({}))
            .await;

        let mut succeeded = 0;
        for job in &queued {
            let path = format!("/v1/jobs/{}?wait=60", id(job));
            let job = app.get(&path).await.json();
            if job["id"] == last && job["state"] == "cancelled" {
                continue;
            }

            succeeded += 1;
            assert_eq!(job["state"], "succeeded", "{job}");
            let responses = job["responses"].as_array().unwrap().len();
            assert_eq!(job["result"]["llm_calls"], responses, "{job}");
            assert_eq!(job["batches"].as_array().unwrap().len(), 3, "{job}");
            assert_eq!(job["warnings"][0]["code"], "below_min_tokens", "{job}");
            assert_eq!(job["helper_events"][0]["event"], "generated", "{job}");
        }

        assert!(succeeded >= 39, "{succeeded}");
        for sql in [
            "SELECT COUNT(*) FROM sources WHERE latest_version = 1",
            "SELECT COUNT(*) FROM chunks WHERE profile = 'taxonomy'",
            "SELECT COUNT(*) FROM embeddings",
            "SELECT COUNT(*) FROM jobs WHERE state = 'succeeded' AND log_json IS NOT NULL",
        ] {
            assert_eq!(count(&app.database, sql).await, succeeded, "{sql}");
        }

        app.finish().await;
    }
}
