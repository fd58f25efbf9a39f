//! How a text can be found: `ingestion.indexes`, as a setting and per request.

use serde_json::{Value, json};

use super::{Setup, each};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count};

const TEXT: &str = "The violin maker chose spruce for the belly and maple for the back.";

#[tokio::test]
async fn a_text_for_search_only_calls_no_model() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[]).await;
        let body = json!({"path": "/v.md", "text": TEXT, "options": {"indexes": ["semantic"]}});
        let job = ingest.run(&body).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        assert_eq!(job["result"]["chunks_written"], 0);
        assert_eq!(job["result"]["retrieval_chunks_written"], 1);
        assert_eq!(
            ingest.model.requests().len(),
            0,
            "neither a description nor a filing nor a vector"
        );

        let found = ingest
            .app
            .post("/v1/search", &json!({"query": "violin wood"}))
            .await
            .json();

        assert_eq!(each(&found, "path"), ["/v.md"]);
        let id = found["items"][0]["source_id"].as_str().unwrap();
        let chunks = |profile: &str| format!("/v1/sources/{id}/chunks?profile={profile}");
        let listed = ingest.app.get(&chunks("retrieval")).await.json();
        assert_eq!(listed["items"][0]["text_content"], TEXT);
        assert_eq!(listed["items"][0]["category_id"], Value::Null);
        assert_eq!(
            ingest.app.get(&chunks("taxonomy")).await.json()["items"],
            json!([])
        );

        // The same text again shares the chunks.
        let again = ingest.run(&body).await;
        assert_eq!(again["result"]["shares_chunks_of_version"], 1, "{again}");
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn a_text_for_the_hierarchy_only_is_found_by_keyword() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[("INGESTION__INDEXES", r#"["taxonomy"]"#)]).await;
        let job = ingest.run(&json!({"path": "/v.md", "text": TEXT})).await;
        assert_eq!(job["result"]["chunks_written"], 1, "{job}");
        assert_eq!(job["result"]["retrieval_chunks_written"], 0);
        assert!(
            ingest
                .model
                .requests()
                .iter()
                .all(|seen| seen.stage != "embeddings")
        );

        for kind in ["keyword", "hybrid"] {
            let found = ingest
                .app
                .post(
                    "/v1/search",
                    &json!({"query": "violin spruce", "type": kind}),
                )
                .await
                .json();

            assert_eq!(each(&found, "profile"), ["taxonomy"], "{found}");
            assert!(found["items"][0]["category_id"].is_number());
        }

        let found = ingest
            .app
            .post(
                "/v1/search",
                &json!({"query": "violin", "type": "semantic"}),
            )
            .await
            .json();

        assert_eq!(found["items"], json!([]));
        ingest.app.finish().await;
    }
}

/// The only chunk of a short text is filed, searched and read as the version's text.
#[tokio::test]
async fn a_short_text_is_stored_once() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        let text = format!("{TEXT} Ærlig talt, it took him a year.");
        let both = json!({"path": "/v.md", "text": text, "options": {"indexes": ["taxonomy", "semantic"]}});
        let id = setup.bring_as(both.clone()).await;
        let stored = "SELECT COUNT(*) FROM chunks";
        assert_eq!(count(&setup.app.database, stored).await, 1);
        let copies = "SELECT COUNT(*) FROM source_versions WHERE content <> ''";
        assert_eq!(count(&setup.app.database, copies).await, 0);

        for profile in ["taxonomy", "retrieval"] {
            let path = format!("/v1/sources/{id}/chunks?profile={profile}");
            let listed = setup.app.get(&path).await.json();
            assert_eq!(listed["items"][0]["text_content"], *text, "{listed}");
            assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        }

        let body = json!({"query": "violin", "type": "semantic"});
        let found = setup.app.post("/v1/search", &body).await.json();
        assert_eq!(found["items"][0]["text_content"], *text, "{found}");
        assert!(found["items"][0]["category_id"].is_number(), "{found}");

        // A version with the same content shares the text, and both can be read and compared.
        setup.bring_as(both).await;
        assert_eq!(count(&setup.app.database, copies).await, 0);
        for version in [1, 2] {
            let path = format!("/v1/sources/{id}/versions/{version}/content");
            assert_eq!(setup.app.get(&path).await.text, text);
        }

        let body = json!({"meta": {"filename": "v.md"}});
        let found = setup.app.post("/v1/documents/retrieve", &body).await.json();
        assert!(found.to_string().contains("Ærlig talt"), "{found}");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn a_text_can_be_stored_without_an_index() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        let kept = json!({"path": "/v.md", "text": TEXT, "options": {"indexes": []}});
        let id = setup.bring_as(kept.clone()).await;
        assert_eq!(
            setup.paths(json!({"query": "violin"})).await,
            Vec::<String>::new()
        );

        let content = setup
            .app
            .get(&format!("/v1/sources/{id}/versions/1/content"))
            .await;

        assert_eq!(content.text, TEXT);
        assert_eq!(setup.bring_as(kept).await, id);
        let version = setup
            .app
            .get(&format!("/v1/sources/{id}/versions/2"))
            .await
            .json();

        assert_eq!(version["version"], 2, "{version}");
        // Ingested again with an index, it is found.
        setup.bring("/v.md", TEXT).await;
        assert_eq!(setup.paths(json!({"query": "violin"})).await, ["/v.md"]);
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn search_chunks_are_long_and_overlap() {
    let app = TestApp::spawn().await;
    let text =
        "There is a sentence that speaks of a harbour, and another that does not. ".repeat(500);
    let body = json!({"path": "/long.md", "text": text, "wait": true, "options": {"indexes": ["semantic"]}});
    let id = app.post("/v1/ingestions", &body).await.json()["result"]["source_id"]
        .as_str()
        .unwrap()
        .to_owned();

    let listed = app
        .get(&format!("/v1/sources/{id}/chunks?profile=retrieval"))
        .await
        .json();

    let items = listed["items"].as_array().unwrap();
    assert!(items.len() > 5, "{}", items.len());
    for two in items.windows(2) {
        let number = |item: &Value, field: &str| item[field].as_i64().unwrap();
        assert!(number(&two[0], "token_count") <= 1024);
        let shared = number(&two[0], "end_char") - number(&two[1], "start_char");
        let share = text
            .chars()
            .skip(usize::try_from(number(&two[1], "start_char")).unwrap());
        let share: String = share.take(usize::try_from(shared).unwrap()).collect();
        let counted = app
            .post("/v1/tokens/count", &json!({"text": share}))
            .await
            .json();

        let tokens = counted["tokens"].as_i64().unwrap();
        assert!((150..=250).contains(&tokens), "{tokens} tokens in common");
    }

    app.finish().await;
}

#[tokio::test]
async fn index_settings_are_validated() {
    let refused = |name: &str, value: &str| {
        let environment = [(format!("MEMOIR__{name}"), value.to_owned())]
            .into_iter()
            .collect();
        let origin = memoir::config::Origin {
            file: None,
            environment,
        };

        memoir::config::Config::load(&origin)
            .unwrap_err()
            .to_string()
    };
    for (name, value, key) in [
        ("VECTOR__STORE", "chroma", "vector.store"),
        ("VECTOR__OVERLAP_TOKENS", "600", "vector.overlap_tokens"),
        ("VECTOR__CHUNK_TOKENS", "1", "vector.chunk_tokens"),
        ("VECTOR__MODEL", "größer:modell", "vector.model"),
        ("INGESTION__INDEXES", r#"["colour"]"#, "ingestion.indexes"),
    ] {
        let error = refused(name, value);
        assert!(error.contains(key), "{error}");
    }
}
