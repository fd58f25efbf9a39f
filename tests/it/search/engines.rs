//! One ranking on three databases, in memory and with the engine's own full-text index.

use memoir::base::ids::random_fraction;
use serde_json::{Value, json};

use super::Setup;
use crate::support::database::TestDatabase;
use crate::support::dice::Dice;

impl Dice {
    /// Words with the frequencies of a language: the first often, the last rarely.
    pub fn text(&mut self, words: usize) -> String {
        const WORDS: [&str; 40] = [
            "the",
            "and",
            "river",
            "house",
            "council",
            "winter",
            "bridge",
            "engine",
            "garden",
            "letter",
            "harbour",
            "market",
            "teacher",
            "mountain",
            "railway",
            "kitchen",
            "doctor",
            "forest",
            "window",
            "painting",
            "Größe",
            "café",
            "東京都",
            "дома",
            "budget",
            "senator",
            "violin",
            "lantern",
            "orchard",
            "glacier",
            "compass",
            "pilgrim",
            "anvil",
            "turbine",
            "heron",
            "quartz",
            "saffron",
            "zeppelin",
            "obelisk",
            "marzipan",
        ];

        let mut text = String::new();
        for _ in 0..words {
            let place = self.index(WORDS.len()) * self.index(WORDS.len()) / WORDS.len();
            text.push_str(WORDS[place]);
            text.push(' ');
        }

        text
    }
}

pub fn told(found: &Value) -> Vec<(String, i64, i64)> {
    let digits = |score: &Value| {
        #[expect(clippy::cast_possible_truncation, reason = "eight digits")]
        let rounded = (score.as_f64().unwrap_or(-1.0) * 1e8).round() as i64;
        rounded
    };

    let items = found["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let parts =
                digits(&item["score_parts"]["keyword"]) ^ digits(&item["score_parts"]["semantic"]);
            (
                format!("{}#{}", item["path"].as_str().unwrap(), item["ordinal"]),
                digits(&item["score"]),
                parts,
            )
        })
        .collect()
}

#[tokio::test]
async fn every_engine_gives_the_same_order_in_memory_and_in_the_database() {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a seed"
    )]
    let seed = (random_fraction() * 1e9) as u64;
    eprintln!("seed {seed}");
    let mut first: Option<Vec<Vec<(String, i64, i64)>>> = None;

    for database in TestDatabase::each().await {
        let engine = database.engine;
        let settings = [
            ("VECTOR__CHUNK_TOKENS", "64"),
            ("VECTOR__OVERLAP_TOKENS", "16"),
        ];

        let setup = Setup::on(database, &settings).await;
        let mut dice = Dice(seed);
        for number in 0..30 {
            let words = 20 + dice.index(400);
            setup
                .bring(&format!("/{number}.md"), &dice.text(words))
                .await;
        }

        let queries: Vec<String> = (0..8)
            .map(|_| dice.text(5))
            .chain(["marzipan".to_owned()])
            .collect();

        let mut all = Vec::new();
        for query in &queries {
            for kind in ["keyword", "semantic", "hybrid"] {
                for scope in ["chunks", "sources"] {
                    let body = json!({"query": query, "type": kind, "scope": scope, "k": 50});
                    let found = setup.search(body).await;
                    assert_eq!(found["index"], "memory");
                    all.push(told(&found));
                }
            }
        }

        // The same database without memory for the index.
        let small = crate::support::app::TestApp::at(
            &setup.app.database.url,
            std::sync::Arc::clone(&setup.app.database),
            &[("VECTOR__MEMORY_MB", "0")],
        )
        .await;

        let small = Setup { app: small };
        let mut place = 0;
        for query in &queries {
            for kind in ["keyword", "semantic", "hybrid"] {
                for scope in ["chunks", "sources"] {
                    let body = json!({"query": query, "type": kind, "scope": scope, "k": 50});
                    let found = small.search(body).await;
                    assert_eq!(found["index"], "database");
                    assert_eq!(
                        told(&found),
                        all[place],
                        "{engine:?} in the database: {query:?} {kind} {scope}"
                    );

                    place += 1;
                }
            }
        }

        match &first {
            None => first = Some(all),
            Some(first) => assert_eq!(first, &all, "{engine:?}"),
        }

        small.app.finish().await;
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn the_full_text_index_follows_what_is_written_and_removed() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[("VECTOR__MEMORY_MB", "0")]).await;
        let id = setup.bring("/one.md", "saffron and quartz").await;
        setup.bring("/two.md", "saffron alone").await;
        let find = |query: &str| setup.paths(json!({"query": query, "type": "keyword"}));
        assert_eq!(find("saffron").await.len(), 2);
        setup.bring("/two.md", "something else").await;
        assert_eq!(find("saffron").await, ["/one.md"]);
        setup.remove(&id).await;
        assert_eq!(find("saffron quartz").await, Vec::<String>::new());
        assert_eq!(find("else").await, ["/two.md"]);

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn filters_hold_where_the_space_does_not_fit_into_memory() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[("VECTOR__MEMORY_MB", "0")]).await;
        for (user, path, text) in [
            ("ann", "/ann.md", "saffron for the kitchen"),
            ("ann", "/ann2.md", "the budget of the kitchen"),
            ("bob", "/bob.md", "the budget of the harbour"),
        ] {
            let mut body = json!({"path": path, "text": text, "user_id": user});
            body["tags"] = json!([format!("of_{user}")]);
            setup.bring_as(body).await;
        }

        for kind in ["keyword", "hybrid"] {
            // Only another user's source contains the rarest word.
            for filters in [json!({"user_id": "bob"}), json!({"tags": ["of_bob"]})] {
                let body =
                    json!({"query": "saffron budget", "type": kind, "k": 1, "filters": filters});
                let found = setup.search(body).await;
                assert_eq!(
                    (&found["index"], &found["items"][0]["path"]),
                    (&json!("database"), &json!("/bob.md"))
                );
            }

            let body = json!({"query": "saffron budget", "type": kind, "scope": "sources"});
            assert_eq!(setup.paths(body).await.len(), 3, "{kind}");
        }

        let body = json!({"query": "budget", "type": "semantic", "filters": {"user_id": "bob"}});
        assert_eq!(setup.paths(body).await, ["/bob.md"]);
        let body = json!({"query": "budget", "filters": {"as_of": "2020-01-01T00:00:00Z"}});
        assert_eq!(setup.paths(body).await, Vec::<String>::new());

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn a_deleted_source_can_be_ingested_again() {
    for memory in ["0", "64"] {
        for database in TestDatabase::each().await {
            let setup = Setup::on(database, &[("VECTOR__MEMORY_MB", memory)]).await;
            let find = || setup.paths(json!({"query": "saffron", "type": "keyword", "k": 1}));
            let first = setup.bring("/a.md", "saffron saffron").await;
            let other = setup
                .bring("/b.md", "saffron and more words than that")
                .await;
            assert_eq!(find().await, ["/a.md"]);
            setup.remove(&first).await;
            assert_eq!(find().await, ["/b.md"]);
            let again = setup.bring("/a.md", "saffron saffron").await;

            assert_eq!(find().await, ["/a.md"]);
            setup.remove(&other).await;
            assert_eq!(find().await, ["/a.md"]);
            setup.remove(&again).await;
            assert_eq!(find().await, Vec::<String>::new());

            setup.app.finish().await;
        }
    }
}
