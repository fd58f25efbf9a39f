//! Queries about sources and the memories of a user together.

use serde_json::json;

use super::each;
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

/// An application with a source of several pages and a memory of ann.
async fn furnished(database: TestDatabase) -> TestApp {
    let app = TestApp::on(database, &[]).await;
    let days: Vec<String> = (1..60)
        .map(|day| {
            format!(
                "On day {day} the keeper of the lighthouse cleaned the lamp, wound up the clockwork and \
                 wrote down which ships had passed the cape in the night.\n\n"
            )
        })
        .collect();
    let source = json!({"path": "/log.md", "user_id": "ann", "text": days.concat(), "wait": true});
    assert_eq!(
        app.post("/v1/ingestions", &source).await.json()["state"],
        "succeeded"
    );
    let fact = json!({
        "type": "fact", "user_id": "ann", "content": "The keeper of the lighthouse is my uncle."
    });
    assert_eq!(app.post("/v1/memories", &fact).await.status, 201);
    app
}

#[tokio::test]
async fn later_pages_have_no_memories_again_and_replay_as_they_were() {
    for database in TestDatabase::each().await {
        let app = furnished(database).await;
        let mut query = json!({
            "query": "Who is the keeper of the lighthouse?", "scope": "both", "user_id": "ann",
            "mode": "retrieve", "max_token_budget": 1200, "reuse": false
        });
        let mut pages = 0;
        loop {
            let reply = app.post("/v1/queries", &query).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            let page = reply.json();
            let memories = each(&page["memories"], "text_content");
            assert_eq!(memories.len(), usize::from(pages == 0), "page {pages}");
            let path = format!("/v1/queries/{}/replay", page["id"].as_str().unwrap());
            let again = app.post(&path, &json!({})).await.json();
            assert_eq!(again["identical"], true, "page {pages}: {again:#}");
            pages += 1;
            if page["next_cursor"].is_null() {
                break;
            }

            query["cursor"] = page["next_cursor"].clone();
        }

        assert!(pages > 1, "the source has one page only");
        app.finish().await;
    }
}
