//! What a caller can send, what memoir searches for, and what it returns.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Setup, each, moment};
use crate::support::app::send;

#[tokio::test]
async fn a_name_is_enough_to_retrieve_one_whole_version() {
    for setup in Setup::each().await {
        let text = "# Storage\r\n\r\nWhere memory is kept: ∅ 记忆.  \n";
        let id = setup
            .file_at("08:00", "/home/me/docs/memory_storage.md", text)
            .await;
        setup
            .file_at("09:00", "/home/me/docs/other.md", "Another one, and newer.")
            .await;

        // Exactly one text, byte for byte.
        let found = setup
            .find(json!({"meta": {"filename": "memory_storage.md"}}))
            .await;
        assert_eq!(found["content"], text);
        assert_eq!(
            (&found["source_id"], &found["version"]),
            (&json!(id), &json!(1))
        );

        assert_eq!(found["source"]["id"], json!(id));
        // Candidates are returned only on request.
        assert_eq!(found["explain"], Value::Null);
        assert!(found.get("candidates").is_none());

        // The response contains the defaults of omitted fields.
        assert_eq!(
            (&found["k"], &found["strategy"], &found["as_of"]),
            (&json!(50), &json!("latest"), &Value::Null)
        );

        assert_eq!(
            (&found["user_id"], &found["strict"]),
            (&json!("default"), &json!(false))
        );

        // The metadata of the version.
        let metadata = &found["metadata"];
        assert_eq!(metadata["kind"], "file_ingest");
        assert_eq!(metadata["filename"], "memory_storage.md");
        assert_eq!(metadata["path"], "/home/me/docs/memory_storage.md");
        assert_eq!(metadata["ingested_at"], "2025-12-04T08:00:00.000000Z");
        assert!(
            found["tags"]
                .as_array()
                .unwrap()
                .contains(&json!("file_ingest"))
        );

        // Both spellings of the field, and the last segment of a path.
        for meta in [
            json!({"file_name": "memory_storage.md"}),
            json!({"filename": " ", "file_name": "memory_storage.md"}),
            json!({"filename": "docs/memory_storage.md"}),
            json!({"filename": "MEMORY_storage.MD"}),
        ] {
            let found = setup.find(json!({"meta": meta})).await;
            assert_eq!(
                (&found["content"], &found["filename_filter"]),
                (&json!(text), &json!("applied")),
                "{meta}"
            );
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn text_plain_returns_only_the_content() {
    for setup in Setup::each().await {
        let id = setup.file_at("08:00", "/a.md", "First.").await;
        setup
            .file_at("09:00", "/a.md", "Second, <b>longer</b>.")
            .await;
        let ask = |meta: Value| {
            let request = setup
                .app
                .request(Method::POST, "/v1/documents/retrieve")
                .header("accept", "text/plain");
            send(request.json(&json!({"meta": meta})))
        };

        let reply = ask(json!({"filename": "a.md"})).await;
        assert_eq!(
            (reply.status.as_u16(), reply.text.as_str()),
            (200, "Second, <b>longer</b>.")
        );

        assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(
            (
                reply.header("x-memoir-source-id"),
                reply.header("x-memoir-source-version")
            ),
            (id.as_str(), "2")
        );

        assert_eq!(reply.header("x-memoir-relaxed"), "");
        let reply = ask(json!({"filename": "nobody.md", "tags": ["nothing"]})).await;
        assert_eq!(
            (reply.text.as_str(), reply.header("x-memoir-relaxed")),
            ("Second, <b>longer</b>.", "filename, tags")
        );

        let request = setup
            .app
            .request(Method::POST, "/v1/documents/retrieve")
            .header("accept", "text/plain");

        let reply = send(
            request
                .header("x-memoir-space", "empty")
                .json(&json!({"meta": {}})),
        )
        .await;

        reply.assert_problem(404, "document_not_found");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn query_and_required_tags_are_composed_from_the_fields() {
    for setup in Setup::each().await {
        setup
            .put_at(
                "08:00",
                json!({"path": "/a.md", "text": "Text.", "tags": ["base", "docs"]}),
            )
            .await;

        let explained = async |meta: Value, default_tags: Value| {
            let body = json!({"meta": meta, "default_tags": default_tags, "explain": true});
            setup.find(body).await["explain"].clone()
        };

        // The search query is composed of the given fields, in a fixed order.
        for (meta, query) in [
            (
                json!({"provider": "evert", "note": "of May", "topic": "design"}),
                "design of May provided by evert",
            ),
            (json!({"provider": "evert"}), "provided by evert"),
            (json!({}), "document relevant to current request"),
            (json!({"filename": "a.md", "topic": "design"}), "a.md"),
            (
                json!({"filename": "a.md", "query": "  My own,  verbatim? "}),
                "  My own,  verbatim? ",
            ),
        ] {
            assert_eq!(explained(meta, Value::Null).await["query"], query);
        }

        // `file_ingest` comes first, then each tag once, in order; null also requires
        // `file_ingest`.
        let tags = explained(json!({"tags": ["docs", "base", "docs"]}), json!(["base"])).await["required_tags"].clone();
        assert_eq!(tags, json!(["file_ingest", "base", "docs"]));
        assert_eq!(
            explained(json!({}), Value::Null).await["required_tags"],
            json!(["file_ingest"])
        );

        // One round trip to the store is enough.
        assert_eq!(
            explained(json!({"topic": "x"}), Value::Null).await["store_queries"],
            1
        );

        // A candidate has its text and its metadata.
        let candidate = explained(json!({}), Value::Null).await["candidates"][0].clone();
        assert_eq!(candidate["content"], "Text.");
        assert_eq!(candidate["tags"], json!(["file_ingest", "base", "docs"]));
        assert!(candidate["score"].is_f64());
        for field in ["kind", "filename", "path", "ingested_at"] {
            assert!(candidate["metadata"][field].is_string(), "{field}");
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn ignores_other_fields_of_meta_and_names_invalid_ones() {
    let setup = Setup::each().await.swap_remove(0);
    setup.file_at("08:00", "/a.md", "Text.").await;

    // Unknown and empty fields are ignored.
    let meta = json!({"filename": "a.md", "colour": "red", "confidence": 0.5, "topic": null, "note": "", "tags": null});
    assert_eq!(setup.text(json!({"meta": meta})).await, "Text.");

    // Invalid values are named.
    for (body, field, word) in [
        (json!({}), "meta", "missing"),
        (json!({"meta": "a.md"}), "meta", "expected"),
        (json!({"meta": []}), "meta", "an object"),
        (json!({"meta": null}), "meta", "an object"),
        (json!({"meta": {"filename": 7}}), "meta.filename", "string"),
        (json!({"meta": {"tags": "docs"}}), "meta.tags", "sequence"),
        (json!({"meta": {}, "colour": 1}), "colour", "unknown field"),
        (json!({"meta": {}, "k": 0}), "k", "from 1 to 1000"),
        (json!({"meta": {}, "k": -1}), "k", "from 1 to 1000"),
        (json!({"meta": {}, "k": 1001}), "k", "from 1 to 1000"),
        (
            json!({"meta": {}, "strategy": "newest"}),
            "strategy",
            "`latest`, `earliest`, `longest`, `score`",
        ),
        (
            json!({"meta": {}, "as_of": "yesterday"}),
            "as_of",
            "timestamp",
        ),
        (
            json!({"meta": {}, "as_of": "2025-12-04T09:00:00"}),
            "as_of",
            "timestamp",
        ),
        (json!({"meta": {}, "user_id": ""}), "user_id", "1 to 128"),
        (
            json!({"meta": {"topic": "x".repeat(4001)}}),
            "meta.topic",
            "4000",
        ),
        (
            json!({"meta": {"tags": ["x".repeat(101)]}}),
            "meta.tags[0]",
            "100",
        ),
    ] {
        let reply = setup.retrieve(&body).await;
        reply.assert_problem(422, "invalid_request");
        let error = &reply.json()["errors"][0];
        assert_eq!(error["field"], field, "{body}");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }

    // A text without content is rejected.
    for text in ["", " \n"] {
        let reply = setup
            .app
            .post("/v1/ingestions", &json!({"text": text}))
            .await;
        reply.assert_problem(422, "invalid_request");
    }

    setup.app.finish().await;
}

#[tokio::test]
async fn names_and_paths_are_kept_as_given() {
    for setup in Setup::each().await {
        // Only the last segment becomes the name; an absolute path is kept.
        setup
            .put_at("08:00", json!({"filename": "a/b/c.md", "text": "No path."}))
            .await;
        let first = setup.find(json!({"meta": {"filename": "c.md"}})).await["metadata"].clone();
        assert_eq!(first["filename"], "c.md");
        assert!(first["path"].as_str().unwrap().starts_with('/'));
        assert_eq!(
            setup.find(json!({"meta": {"filename": "c.md"}})).await["metadata"],
            first
        );

        setup
            .put_at(
                "08:10",
                json!({"path": "C:\\docs\\d.md", "text": "On Windows."}),
            )
            .await;

        assert_eq!(
            setup.find(json!({"meta": {"filename": "d.md"}})).await["metadata"]["path"],
            "C:\\docs\\d.md"
        );

        // A name may contain any character that a file system allows, and is never treated as a
        // pattern.
        for name in [
            "100%_sure?.md",
            "it's \"here\".md",
            "Ünïcödé 文档.md",
            "=plan.md",
        ] {
            setup
                .put_at(
                    "08:20",
                    json!({"filename": name, "text": format!("This is {name}.")}),
                )
                .await;
        }

        for name in [
            "100%_sure?.md",
            "it's \"here\".md",
            "ÜNÏCÖDÉ 文档.MD",
            "=plan.md",
        ] {
            let found = setup
                .find(json!({"meta": {"filename": name}, "strict": true}))
                .await;
            assert_eq!(
                found["metadata"]["filename"]
                    .as_str()
                    .unwrap()
                    .to_lowercase(),
                name.to_lowercase()
            );
        }

        setup
            .retrieve(&json!({"meta": {"filename": "100%"}, "strict": true}))
            .await
            .assert_problem(404, "document_not_found");

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn retrieves_by_name_topic_tags_time_and_strategy() {
    for setup in Setup::each().await {
        let tags = json!(["llm-thalamus", "docs", "design"]);
        let put = async |at: &str, text: &str| {
            let body = json!({"path": "/src/docs/memory_storage.md", "text": text, "tags": tags,
                "topic": "llm-thalamus memory design"});
            setup.put_at(at, body).await;
        };

        put(
            "07:00",
            "# Memory storage, as it was first written, which was rather long.",
        )
        .await;

        put("09:00", "# Memory storage, second").await;
        put("11:00", "# Memory storage, third").await;
        setup
            .put_at(
                "12:00",
                json!({"path": "/new.md", "text": "A newer one.", "tags": tags}),
            )
            .await;

        let meta = json!({"filename": "memory_storage.md", "topic": "llm-thalamus memory design", "tags": tags});
        // Without a time: the latest version.
        let found = setup.find(json!({"meta": meta})).await;
        assert_eq!(found["content"], "# Memory storage, third");
        assert_eq!(
            (&found["tag_filter_relaxed"], &found["filename_filter"]),
            (&json!(false), &json!("applied"))
        );

        // With a time: the version that was current then.
        let body =
            json!({"meta": meta, "strategy": "latest", "as_of": "2025-12-04T09:00:00+00:00"});
        let found = setup.find(body).await;
        assert_eq!(
            (&found["content"], &found["as_of_fallback"]),
            (&json!("# Memory storage, second"), &json!(false))
        );

        // Other strategies.
        for strategy in ["earliest", "longest"] {
            let text = setup
                .text(json!({"meta": meta, "strategy": strategy}))
                .await;
            assert_eq!(
                text, "# Memory storage, as it was first written, which was rather long.",
                "{strategy}"
            );
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn every_ingestion_is_a_version_with_the_time_of_its_request() {
    for setup in Setup::each().await {
        // Identical content also creates a version.
        for (at, text) in [("08:00", "Same."), ("08:01", "Same."), ("08:02", "Other.")] {
            setup.file_at(at, "/a.md", text).await;
        }

        let id = setup.find(json!({"meta": {"filename": "a.md"}})).await["source_id"]
            .as_str()
            .unwrap()
            .to_owned();

        let versions = setup
            .app
            .get(&format!("/v1/sources/{id}/versions"))
            .await
            .json();

        // The time of a version is the time of its request.
        let times: Vec<Value> = ["08:02", "08:01", "08:00"]
            .map(|at| json!(moment(at).replace('Z', ".000000Z")))
            .to_vec();
        assert_eq!(each(&versions["items"], "ingested_at"), times);
        setup.app.finish().await;
    }
}
