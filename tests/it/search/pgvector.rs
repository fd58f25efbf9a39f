//! A space that does not fit into memory, on PostgreSQL with pgvector: the database compares the
//! vectors, and the order is the same.

use std::sync::Arc;

use serde_json::json;

use super::engines::told;
use super::{Setup, each};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::dice::Dice;
use crate::support::ingest::{count, until};

const VECTORS: &str = "SELECT COUNT(*) FROM embeddings";
const COPIED: &str = "SELECT COUNT(*) FROM embedding_vectors";

#[tokio::test]
async fn pgvector_finds_what_memory_finds() {
    let Some(database) = TestDatabase::pgvector().await else {
        return;
    };
    let cut = [
        ("VECTOR__CHUNK_TOKENS", "64"),
        ("VECTOR__OVERLAP_TOKENS", "16"),
    ];

    let setup = Setup::on(database, &cut).await;
    let mut dice = Dice(7);
    for number in 0..20 {
        let words = 20 + dice.index(400);
        setup
            .bring(&format!("/{number}.md"), &dice.text(words))
            .await;
    }

    // The extension is created after the first texts.
    let database = Arc::clone(&setup.app.database);
    setup.app.finish().await;
    database.execute("CREATE EXTENSION vector").await;
    let start = async |memory| {
        let settings = [cut[0], cut[1], ("VECTOR__MEMORY_MB", memory)];
        Setup {
            app: TestApp::at(&database.url, Arc::clone(&database), &settings).await,
        }
    };

    let (roomy, small) = (start("64").await, start("0").await);
    let all = count(&database, VECTORS).await;
    assert!(all > 50, "{all}");
    until("every vector for pgvector", async || {
        count(&database, COPIED).await == all
    })
    .await;

    // A chunk without a copy is no longer found by meaning, which shows that the copies are
    // compared.
    let lost = roomy
        .bring("/lost.md", "A zeppelin over the glacier.")
        .await;
    assert_eq!(
        count(&database, COPIED).await,
        all + 1,
        "written with the text"
    );

    let asked = json!({"query": "zeppelin glacier", "type": "semantic", "k": 1});
    assert_eq!(small.paths(asked.clone()).await, ["/lost.md"]);
    let one = "(SELECT c.id FROM search_entries c JOIN sources s ON s.id = c.group_id WHERE s.path = '/lost.md' AND c.owner_kind = 'chunk')";

    // Repeated, because a process that is still copying may restore it.
    until("pgvector is used", async || {
        database
            .execute(&format!(
                "DELETE FROM embedding_vectors WHERE entry_id IN {one}"
            ))
            .await;
        small.paths(asked.clone()).await != ["/lost.md"]
    })
    .await;

    roomy.remove(&lost).await;

    roomy
        .bring_as(json!({"path": "/bob.md", "text": dice.text(40), "user_id": "bob"}))
        .await;
    compare(&small, &roomy, &mut dice, &["semantic", "hybrid"]).await;

    // Earlier versions are in the table too, but are not searched.
    for number in 0..10 {
        roomy.bring(&format!("/{number}.md"), &dice.text(200)).await;
    }

    compare(&small, &roomy, &mut dice, &["semantic"]).await;
    let removed = roomy.bring("/gone.md", "An obelisk of quartz.").await;
    roomy.remove(&removed).await;
    assert_eq!(
        count(&database, COPIED).await,
        count(&database, VECTORS).await
    );

    small.app.finish().await;
    roomy.app.finish().await;
}

/// The database and the in-memory index find the same chunks.
async fn compare(small: &Setup, roomy: &Setup, dice: &mut Dice, kinds: &[&str]) {
    for query in (0..6).map(|_| dice.text(5)).collect::<Vec<_>>() {
        for kind in kinds {
            for scope in ["chunks", "sources"] {
                for filters in [json!({}), json!({"user_id": "bob"})] {
                    let body = json!({"query": query, "type": kind, "scope": scope, "k": 15, "filters": filters});
                    let (there, here) = (
                        small.search(body.clone()).await,
                        roomy.search(body.clone()).await,
                    );

                    assert_eq!(
                        (&there["index"], &here["index"]),
                        (&json!("database"), &json!("memory"))
                    );

                    assert_eq!(told(&there), told(&here), "{body}");
                    assert!(!each(&there, "path").is_empty());
                }
            }
        }
    }
}

#[tokio::test]
async fn another_embedding_model_leaves_no_copies_behind() {
    let Some(database) = TestDatabase::pgvector().await else {
        return;
    };
    database.execute("CREATE EXTENSION vector").await;
    let setup = Setup::on(database, &[("VECTOR__MEMORY_MB", "0")]).await;
    let database = Arc::clone(&setup.app.database);
    setup.bring("/a.md", "A zeppelin over the glacier.").await;
    database
        .execute("UPDATE settings SET value_json = 'old:model' WHERE name = 'embedding_model'")
        .await;
    database
        .execute("UPDATE embeddings SET model = 'old:model'")
        .await;
    database
        .execute("UPDATE embedding_vectors SET model = 'old:model'")
        .await;
    setup.app.finish().await;
    let settings = [("VECTOR__MEMORY_MB", "0")];
    let setup = Setup {
        app: TestApp::at(&database.url, Arc::clone(&database), &settings).await,
    };
    let old = "SELECT COUNT(*) FROM embedding_vectors WHERE model = 'old:model'";

    until("the old copies are deleted", async || {
        count(&database, old).await == 0
    })
    .await;

    assert_eq!(count(&database, COPIED).await, 1);
    assert_eq!(
        setup
            .paths(json!({"query": "zeppelin", "type": "semantic"}))
            .await,
        ["/a.md"]
    );

    setup.app.finish().await;
}
