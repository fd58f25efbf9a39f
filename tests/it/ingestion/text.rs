//! Ingested texts: the forms of a request, how texts are split, and that they are stored unchanged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir::scripted_model::Fault;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::{FILED, Ingest, chunk, document, request, source, text, until};

const FLAT: &[(&str, &str)] = &[("TAXONOMY__HIERARCHY_DEPTH", "1")];

fn joined(chunks: &[Value]) -> String {
    chunks
        .iter()
        .map(|chunk| chunk["text_content"].as_str().unwrap())
        .collect()
}

fn tokens(chunks: &[Value]) -> Vec<i64> {
    chunks
        .iter()
        .map(|chunk| chunk["token_count"].as_i64().unwrap())
        .collect()
}

fn warnings(job: &Value) -> Vec<&str> {
    job["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["code"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn texts_are_split_at_delimiters_without_loss() {
    let ingest = Ingest::with(FLAT).await;
    // Chunks end at delimiters.
    let clauses =
        "one two three four five; six seven. eight\nnine ten; eleven twelve thirteen; ".repeat(6);
    let options = json!({"delimiters": [";"], "chunk_min_tokens": 4, "chunk_max_tokens": 14});
    let job = ingest
        .succeed(&json!({"text": clauses, "options": options}))
        .await;
    let chunks = ingest.chunks(&job).await;
    let (_, others) = chunks.split_last().unwrap();

    assert!(
        others
            .iter()
            .all(|chunk| chunk["text_content"].as_str().unwrap().ends_with(';')),
        "{chunks:?}"
    );

    assert_eq!(joined(&chunks), clauses);
    // Prose: chunk sizes stay within their range.
    let sentence = "The harbour lay still that morning, and nobody on the quay spoke a word. ";
    let prose: String = (0..330)
        .map(|n| {
            if n % 7 == 6 {
                format!("{sentence}\n\n")
            } else {
                sentence.to_owned()
            }
        })
        .collect();

    let job = ingest.succeed(&json!({ "text": prose })).await;
    let chunks = ingest.chunks(&job).await;
    let counts = tokens(&chunks);
    assert!(
        counts.iter().sum::<i64>() >= 5000 && counts.iter().all(|count| *count <= 500),
        "{counts:?}"
    );

    assert!(
        counts[..counts.len() - 1].iter().all(|count| *count >= 300),
        "{counts:?}"
    );

    assert!(
        chunks[..1]
            .iter()
            .all(|chunk| chunk["text_content"].as_str().unwrap().ends_with("\n\n"))
    );

    assert_eq!(joined(&chunks), prose);
    let mut at = 0;
    for (chunk, ordinal) in chunks.iter().zip(1..) {
        assert_eq!(
            (chunk["ordinal"].as_i64(), chunk["start_char"].as_i64()),
            (Some(ordinal), Some(at))
        );

        at = chunk["end_char"].as_i64().unwrap();
        assert_eq!(chunk["profile"], "taxonomy");
    }

    let content = ingest
        .app
        .get(&format!("/v1/sources/{}/versions/1/content", source(&job)))
        .await;

    assert_eq!(content.text, prose);
    // A short text is a single chunk, with a warning.
    let short = "Twenty tokens or so, which is fewer than a chunk should have by itself.";
    let job = ingest.succeed(&json!({ "text": short })).await;
    assert_eq!(
        (warnings(&job), ingest.chunks(&job).await.len()),
        (vec!["below_min_tokens"], 1)
    );

    // A text without delimiters is split all the same.
    let endless = "word ".repeat(2000);
    let job = ingest.succeed(&json!({ "text": endless })).await;
    let chunks = ingest.chunks(&job).await;
    assert!(chunks.len() >= 4 && tokens(&chunks).iter().all(|count| *count <= 500));

    assert_eq!(joined(&chunks), endless);
}

#[tokio::test]
async fn texts_with_any_characters_are_returned_unchanged() {
    let texts = [
        "'; DROP TABLE chunks;-- \" ` % _ \\ \\' $1 ? ?? :name @var /* */ #\n",
        "🦀👩‍👩‍👧‍👦 e\u{301} ﬁ ＡＢＣ 你好 \u{202e}rtl\u{202c} \u{feff} \u{1}\u{7f}\r\n\ttab\u{2028}",
        "  leading and trailing blanks stay  \n\n\n",
    ];
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, FLAT).await;
        for text in texts {
            let body = json!({"text": text, "title": "Robert'); DROP TABLE sources;--", "note": "100 % \\ 🦀"});
            let job = ingest.succeed(&body).await;
            let id = source(&job);
            assert_eq!(joined(&ingest.chunks(&job).await), text);
            let version = format!("/v1/sources/{id}/versions/1");

            assert_eq!(
                ingest.app.get(&format!("{version}/content")).await.text,
                text
            );

            let facts = ingest.app.get(&version).await.json();
            assert_eq!(
                (&facts["note"], &facts["metadata"]["title"]),
                (&body["note"], &body["title"])
            );

            assert_eq!(
                facts["char_count"].as_u64().unwrap(),
                text.chars().count() as u64
            );
        }

        // NUL is removed from the text and rejected in other fields.
        let job = ingest.succeed(&json!({"text": "a\u{0}b\u{0}c"})).await;
        assert_eq!(joined(&ingest.chunks(&job).await), "abc");
        assert!(warnings(&job).contains(&"nul_removed"), "{job}");
        let refused = ingest
            .submit(&json!({"text": "abc", "title": "a\u{0}b"}))
            .await;
        refused.assert_problem(422, "invalid_request");

        assert!(refused.text.contains("title"), "{}", refused.text);
    }
}

#[tokio::test]
async fn rejects_invalid_requests_immediately() {
    let ingest = Ingest::new().await;
    let options = |options: Value| json!({"text": "abc", "options": options});
    for (body, field) in [
        (json!({}), "text"),
        (json!({"text": ""}), "text"),
        (json!({"text": " \n\t\u{0}\u{a0} "}), "text"),
        (json!({"text": 7}), "text"),
        (json!({"text": "abc", "path": "relative.md"}), "path"),
        (json!({"text": "abc", "mtime": "yesterday"}), "mtime"),
        (json!({"text": "abc", "timeout_s": -1}), "timeout_s"),
        (json!({"text": "abc", "colour": "red"}), "colour"),
        (
            json!({"text": "abc", "contextual_helper": "word ".repeat(301)}),
            "contextual_helper",
        ),
        (
            json!({"text": "abc", "provider": "x".repeat(256)}),
            "provider",
        ),
        (
            json!({"text": "abc", "contextual_helper": ["2024", "me", "it", "that"]}),
            "contextual_helper",
        ),
        (options(json!([])), "options"),
        (options(json!({"batch_size": 0})), "options.batch_size"),
        (options(json!({"batch_size": 51})), "options.batch_size"),
        (
            options(json!({"chunk_min_tokens": 400, "chunk_max_tokens": 400})),
            "options.chunk_min_tokens",
        ),
        (
            options(json!({"chunk_min_tokens": 7900, "chunk_max_tokens": 9000})),
            "options.chunk_min_tokens",
        ),
        (options(json!({"delimiters": []})), "options.delimiters"),
        (options(json!({"delimiters": [""]})), "options.delimiters"),
        (options(json!({"model": "nobody:m"})), "model"),
    ] {
        let reply = ingest.submit(&body).await;
        assert_eq!(reply.status, 422, "{body}: {}", reply.text);
        reply.assert_problem(422, reply.json()["code"].as_str().unwrap());
        assert!(reply.text.contains(field), "{field}: {}", reply.text);
    }

    for fine in [
        json!({"batch_size": 1}),
        json!({"batch_size": 50}),
        json!({"chunk_min_tokens": 7899, "chunk_max_tokens": 9000}),
    ] {
        ingest.queue(&options(fine)).await;
    }

    assert_eq!(ingest.count("jobs").await, 3);
}

/// Without `wait`, the request never waits for a model.
#[tokio::test]
async fn a_request_waits_for_the_job_only_with_wait() {
    let ingest = Ingest::with(&[FLAT[0], ("LLM__TRANSPORT__READ_TIMEOUT", "20")]).await;
    ingest.succeed(&document(&["A"], &json!({}))).await;
    ingest.model.push(Fault::Delay { ms: 5000 });
    let began = Instant::now();
    let reply = ingest
        .submit(&document(&["A"], &json!({"wait": false})))
        .await;

    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );

    assert_eq!(reply.status, 202);
    assert_eq!(
        reply.header("location"),
        format!("/v1/jobs/{}", reply.json()["id"].as_str().unwrap())
    );

    assert!(["queued", "running"].contains(&reply.json()["state"].as_str().unwrap()));
    let id = reply.json()["id"].as_str().unwrap().to_owned();

    // If the wait ends before the job, the response shows its current state.
    ingest.model.push(Fault::Stall);
    let reply = ingest
        .submit(&document(&["A"], &json!({"wait": true, "timeout_s": 0.2})))
        .await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    assert_eq!(ingest.finished(&id).await["state"], "succeeded");
    ingest.model.clear_faults();
    let reply = ingest
        .submit(&document(&["A"], &json!({"wait": true})))
        .await;

    assert_eq!(
        (reply.status.as_u16(), &reply.json()["state"]),
        (200, &json!("succeeded")),
        "{}",
        reply.text
    );

    assert_eq!(reply.json()["result"]["chunks_written"], 1);
    // The request does not wait for a job that waits for the user.
    let began = Instant::now();
    let body = document(
        &["A"],
        &json!({"wait": true, "timeout_s": 30, "auto_source_identification": false}),
    );

    let reply = ingest.submit(&body).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["state"]),
        (202, &json!("awaiting_helper"))
    );

    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_with_one_key_queue_one_job() {
    let ingest = Arc::new(Ingest::with(FLAT).await);
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let ingest = Arc::clone(&ingest);
        sending.spawn(async move {
            let body = document(&["A"], &json!({}));
            let reply = ingest
                .app
                .request(Method::POST, "/v1/ingestions")
                .header("idempotency-key", "k1")
                .json(&body);

            let reply = send(reply).await;
            assert_eq!(reply.status, 202, "{}", reply.text);
            reply.json()["id"].as_str().unwrap().to_owned()
        });
    }

    let mut found = sending.join_all().await;
    found.dedup();
    assert_eq!(found.len(), 1);
    assert_eq!(ingest.finished(&found[0]).await["state"], "succeeded");
    assert_eq!(
        (ingest.count("jobs").await, ingest.count(FILED).await),
        (1, 1)
    );

    let other = ingest
        .app
        .request(Method::POST, "/v1/ingestions")
        .header("idempotency-key", "k1");

    let other = send(other.json(&document(&["B"], &json!({})))).await;
    other.assert_problem(422, "idempotency_key_reused");
}

async fn upload(
    ingest: &Ingest,
    filename: &str,
    content: &[u8],
    metadata: Option<&Value>,
) -> Reply {
    let mut body = format!(
        "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    )
    .into_bytes();

    body.extend_from_slice(content);
    if let Some(metadata) = metadata {
        let part = format!(
            "\r\n--frontier\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{metadata}"
        );
        body.extend_from_slice(part.as_bytes());
    }

    body.extend_from_slice(b"\r\n--frontier--\r\n");
    let request = ingest
        .app
        .request(Method::POST, "/v1/ingestions")
        .body(body);

    send(request.header("content-type", "multipart/form-data; boundary=frontier")).await
}

#[tokio::test]
async fn accepts_five_file_types_as_forms() {
    let ingest = Ingest::with(FLAT).await;
    let content = "key: value\r\n\r\n{\"a\": [1, 2]}\n🦀";
    for name in ["a.txt", "b.MD", "c.json", "d.yml", "e.yaml"] {
        let reply = upload(
            &ingest,
            name,
            content.as_bytes(),
            Some(&json!({"tags": ["x"], "wait": true})),
        )
        .await;

        assert_eq!(reply.status, 200, "{name}: {}", reply.text);
        let job = reply.json();
        assert_eq!(joined(&ingest.chunks(&job).await), content, "{name}");
        let found = ingest
            .app
            .get(&format!("/v1/sources/{}", source(&job)))
            .await
            .json();

        assert_eq!(found["filename"], name);
        assert!(
            found["tags"].as_array().unwrap().contains(&json!("x")),
            "{found}"
        );
    }

    for name in ["a.pdf", "noextension", "a.txt.exe"] {
        let refused = upload(&ingest, name, content.as_bytes(), None).await;
        refused.assert_problem(415, "unsupported_file_type");
        for kind in [".txt", ".md", ".json", ".yml", ".yaml"] {
            assert!(
                refused.json()["detail"].as_str().unwrap().contains(kind),
                "{}",
                refused.text
            );
        }
    }

    upload(&ingest, "a.txt", b"latin \xe9", None)
        .await
        .assert_problem(422, "invalid_request");
    upload(&ingest, "a.txt", b"  ", None)
        .await
        .assert_problem(422, "invalid_request");
    upload(&ingest, "a.txt", b"x", Some(&json!({"text": "y"})))
        .await
        .assert_problem(422, "invalid_request");
    assert_eq!(ingest.count("jobs").await, 5);
}

/// A repeated text shares the chunks; any other text is filed again, and counts follow the
/// latest version.
#[tokio::test]
async fn versions_with_the_same_text_share_chunks() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, FLAT).await;
        let path = json!({"path": "/notes/a.md"});
        let with = |more: Value| {
            let mut body = path.clone();
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            body
        };

        let paths = ["A", "A", "B"];
        let first = ingest.succeed(&document(&paths, &path)).await;
        let calls = ingest.model.stats().requests;
        let again = ingest.succeed(&document(&paths, &path)).await;
        assert_eq!(ingest.model.stats().requests, calls, "no model is called");
        assert_eq!(
            (source(&first), &again["result"]["version"]),
            (source(&again), &json!(2))
        );

        assert_eq!(
            (
                &again["result"]["chunks_written"],
                &again["result"]["llm_calls"]
            ),
            (&json!(0), &json!(0))
        );

        assert_eq!(ingest.chunks(&again).await, ingest.chunks(&first).await);
        assert_eq!(ingest.chunks(&again).await.len(), 3);
        assert_eq!(
            counts(&ingest).await,
            [("A".to_owned(), 2), ("B".to_owned(), 1)]
        );

        let forced = ingest
            .succeed(&document(&paths, &with(json!({"force": true}))))
            .await;
        assert_eq!(
            (
                &forced["result"]["version"],
                &forced["result"]["chunks_written"]
            ),
            (&json!(3), &json!(3))
        );

        assert!(ingest.model.stats().requests > calls);
        assert_eq!(
            counts(&ingest).await,
            [("A".to_owned(), 2), ("B".to_owned(), 1)]
        );

        let calls = ingest.model.stats().requests;
        let other = ingest
            .succeed(&document(
                &paths,
                &with(json!({"options": {"chunk_max_tokens": 300}})),
            ))
            .await;

        assert_eq!(
            (
                &other["result"]["version"],
                &other["result"]["chunks_written"]
            ),
            (&json!(4), &json!(1))
        );

        assert!(ingest.model.stats().requests > calls);
        assert_eq!(
            counts(&ingest).await,
            [("A".to_owned(), 1), ("B".to_owned(), 0)]
        );

        ingest.succeed(&document(&["B", "C"], &path)).await;
        assert_eq!(
            counts(&ingest).await,
            [
                ("A".to_owned(), 0),
                ("B".to_owned(), 1),
                ("C".to_owned(), 1)
            ]
        );

        // The first text again: its chunks are shared and counted again.
        let back = ingest.succeed(&document(&paths, &path)).await;
        assert_eq!(
            (
                &back["result"]["chunks_written"],
                &back["result"]["version"]
            ),
            (&json!(0), &json!(6))
        );

        assert_eq!(
            counts(&ingest).await,
            [
                ("A".to_owned(), 2),
                ("B".to_owned(), 1),
                ("C".to_owned(), 0)
            ]
        );

        let other = ingest.succeed(&document(&["C"], &json!({}))).await;
        let gone = send(
            ingest
                .app
                .request(Method::DELETE, &format!("/v1/sources/{}", source(&first))),
        )
        .await;

        assert_eq!(gone.status, 200);
        // Categories without a chunk are gone with it.
        assert_eq!(counts(&ingest).await, [("C".to_owned(), 1)]);

        assert_eq!(
            (
                ingest.count(FILED).await,
                ingest.count("source_versions").await
            ),
            (1, 1)
        );

        assert_eq!(ingest.chunks(&other).await.len(), 1);
    }
}

async fn counts(ingest: &Ingest) -> Vec<(String, i64)> {
    let found = ingest.list("/v1/categories?level=1").await;
    let count = |category: &Value| {
        (
            category["name"].as_str().unwrap().to_owned(),
            category["chunk_count"].as_i64().unwrap(),
        )
    };

    found.iter().map(count).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_text_sent_for_a_path_is_the_latest_version() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[FLAT[0], ("JOBS__WORKERS", "4")]).await;
        let mut queued = Vec::new();
        for number in 1..=6 {
            // The early ones are slow.
            ingest.model.push(Fault::Delay {
                ms: 60 - 10 * number,
            });
            let body = request(
                &chunk("A", usize::try_from(number).unwrap()),
                &json!({"path": "/a.txt"}),
            );

            queued.push(ingest.queue(&body).await);
        }

        for (id, version) in queued.iter().zip(1..) {
            let job = ingest.finished(id).await;
            assert_eq!(
                (&job["state"], &job["result"]["version"]),
                (&json!("succeeded"), &json!(version)),
                "{job}"
            );
        }

        let job = ingest.job(queued.last().unwrap()).await;
        assert_eq!(joined(&ingest.chunks(&job).await), chunk("A", 6));
        let helpers = ingest.asked("helper").len();
        assert_eq!(helpers, 6, "every content has a helper of its own");
    }
}

/// The first response is returned even if the source was deleted.
#[tokio::test]
async fn a_repeated_request_gets_its_first_response_even_if_the_source_is_deleted() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, FLAT).await;
        let registered = ingest
            .app
            .post("/v1/sources", &json!({"path": "/a.md"}))
            .await
            .json();

        let id = registered["id"].as_str().unwrap();
        let body = document(&["A"], &json!({"source_id": id}));
        let keyed = || {
            ingest
                .app
                .request(Method::POST, "/v1/ingestions")
                .header("idempotency-key", "k-1")
        };

        let first = send(keyed().json(&body)).await;
        assert_eq!(first.status, 202, "{}", first.text);
        ingest.finished(first.json()["id"].as_str().unwrap()).await;
        let gone = send(
            ingest
                .app
                .request(Method::DELETE, &format!("/v1/sources/{id}")),
        )
        .await;

        assert_eq!(gone.status, 200);
        let again = send(keyed().json(&body)).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
        assert_eq!(again.header("idempotency-replayed"), "true");
        let other = send(keyed().json(&document(&["B"], &json!({"source_id": id})))).await;

        other.assert_problem(422, "idempotency_key_reused");
        ingest.submit(&body).await.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_cancelled_job_stores_nothing() {
    let ingest = Ingest::with(FLAT).await;
    ingest.model.always(Fault::Stall);
    let id = ingest.queue(&document(&["A", "B"], &json!({}))).await;
    until("the first call", || async {
        ingest.model.stats().in_flight > 0
    })
    .await;

    let reply = ingest
        .app
        .post(&format!("/v1/jobs/{id}/cancel"), &Value::Null)
        .await;

    assert_eq!(
        (reply.status.as_u16(), &reply.json()["state"]),
        (200, &json!("cancelled"))
    );

    until("the call is dropped", || async {
        ingest.model.stats().in_flight == 0
    })
    .await;

    assert_eq!(ingest.rows().await, [0; 5]);
    ingest.model.clear_faults();
    let job = ingest.retry(&reply.json()).await;
    assert_eq!(job["state"], "succeeded", "{job}");

    assert_eq!(joined(&ingest.chunks(&job).await), text(&["A", "B"]));
}

#[tokio::test]
async fn a_source_can_have_the_maximum_number_of_tags() {
    let ingest = Ingest::new().await;
    let tags: Vec<String> = (0..99).map(|number| format!("tag-{number}")).collect();
    let job = ingest
        .succeed(&document(
            &["A/B/C"],
            &json!({"path": "/a.md", "tags": tags}),
        ))
        .await;

    let found = ingest
        .app
        .get(&format!("/v1/sources/{}", source(&job)))
        .await
        .json();

    assert_eq!(found["tags"].as_array().unwrap().len(), 100);
    // One tag too many is rejected immediately, not dropped later.
    let more = document(&["A/B/C"], &json!({"path": "/a.md", "tags": ["another"]}));
    ingest
        .submit(&more)
        .await
        .assert_problem(422, "invalid_request");
}
