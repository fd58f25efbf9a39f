//! A search for something that no text has to do with.

use serde_json::json;

use super::Setup;
use super::finding::TEXTS;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn words_that_have_nothing_in_common_with_any_text_find_nothing() {
    for memory in ["512", "0"] {
        for database in TestDatabase::each().await {
            let settings = [("VECTOR__MEMORY_MB", memory)];
            let setup = Setup::on(database, &settings).await;
            for (path, text) in TEXTS {
                setup.bring(path, text).await;
            }
            let fact = json!({"type": "fact", "content": "The lighthouse keeper is my uncle.", "user_id": "default"});
            assert_eq!(setup.app.post("/v1/memories", &fact).await.status, 201);

            for query in ["zzzqqqxxx", "qwrtpsdf blorp", "kangaroo"] {
                for scope in ["chunks", "sources", "memories", "both"] {
                    let body =
                        json!({"query": query, "scope": scope, "filters": {"user_id": "default"}});
                    let found = setup.search(body).await;
                    assert_eq!(found["items"], json!([]), "{query} {scope}");
                }

                // Who asks for the nearest gets them.
                let nearest = setup.search(json!({"query": query, "min_score": 0})).await;
                assert_eq!(nearest["items"].as_array().unwrap().len(), TEXTS.len());
            }

            // Another word for what is stored, and a word that only the name of a file has.
            for (query, path) in [
                ("beacon", "/light.md"),
                ("flowers", "/garden.md"),
                ("orbit.md", "/orbit.md"),
            ] {
                let found = setup.search(json!({"query": query})).await;
                assert_eq!(found["items"][0]["path"], path, "{query}: {found}");
            }
            let body =
                json!({"query": "uncle", "scope": "memories", "filters": {"user_id": "default"}});
            assert_eq!(
                setup.search(body).await["items"].as_array().unwrap().len(),
                1
            );
            setup.app.finish().await;
        }
    }
}
