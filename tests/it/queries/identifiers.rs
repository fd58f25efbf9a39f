//! Queries that name a version or an id: the answer quotes its entry, and the confidence tells
//! whether it is stored at all.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

const LOG: &str = "# Changelog of tokio\n\n## 1.54.2 (June 3rd, 2026)\n\n- Revert the timer fix of \
    1.54.1\n\n## 1.54.1 (May 5th, 2026)\n\n### Fixed\n\n- Timers fire once after a sleep\n- A leak in \
    the scheduler that 1.54.0 has\n\n## 1.54.0 (April 1st, 2026)\n\n- Tasks have names\n- Timers are \
    sorted in one list\n";
const ORDERS: &str = "Order #5677 has a sofa. It is delivered on Monday.\n\nOrder #5678 has two \
    lamps. It is delivered on Friday.\n\nOrder #5679 has 5678 screws. It is delivered on Sunday.\n";

async fn filled(database: TestDatabase) -> TestApp {
    let app = TestApp::on(database, &[]).await;
    for (path, text) in [("/tokio/CHANGELOG.md", LOG), ("/shop/orders.md", ORDERS)] {
        let body = json!({"path": path, "text": text, "wait": true});
        let reply = app.post("/v1/ingestions", &body).await;
        assert_eq!(reply.json()["state"], "succeeded", "{}", reply.text);
    }

    app
}

async fn ask(app: &TestApp, query: &str) -> Value {
    let reply = app.post("/v1/queries", &json!({"query": query})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

#[tokio::test]
async fn the_answer_quotes_the_entry_of_the_version() {
    for database in TestDatabase::each().await {
        let app = filled(database).await;
        for (query, has, lacks) in [
            (
                "What changed in tokio 1.54.1?",
                vec!["Timers fire once", "A leak in the scheduler"],
                vec!["Revert", "names", "sorted"],
            ),
            (
                "When was tokio 1.54.1 released?",
                vec!["May 5th"],
                vec!["June", "April"],
            ),
            (
                "What was done to timers in tokio 1.54.0?",
                vec!["sorted in one list"],
                vec!["Revert", "fire once"],
            ),
            (
                "When is order #5678 delivered?",
                vec!["Friday"],
                vec!["Monday", "Sunday"],
            ),
        ] {
            let result = ask(&app, query).await;
            let answer = result["answer"].as_str().unwrap_or_default();
            for words in has {
                assert!(answer.contains(words), "{query}: {answer}");
            }
            for words in lacks {
                assert!(!answer.contains(words), "{query}: {answer}");
            }

            assert_eq!(result["found"], true, "{query}");
            let id = result["id"].as_str().unwrap();
            let path = format!("/v1/queries/{id}/replay");
            let replayed = app.post(&path, &json!({})).await.json();
            assert_eq!(replayed["identical"], true, "{query}");
        }

        app.finish().await;
    }
}

#[tokio::test]
async fn a_version_that_is_not_stored_gives_no_sure_answer() {
    let app = filled(TestDatabase::sqlite()).await;
    let known = ask(&app, "What changed in tokio 1.54.1?").await;
    assert_ne!(known["confidence"], "low", "{known:#}");
    for query in [
        "What changed in tokio 1.54.7?",
        "When was tokio 1.54.7 released?",
        "When is order #15678 delivered?",
    ] {
        let result = ask(&app, query).await;
        assert_ne!(result["confidence"], "high", "{result:#}");
    }

    app.finish().await;
}
