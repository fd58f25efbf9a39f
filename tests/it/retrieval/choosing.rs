//! Which of the matching versions is returned, also when there are many.

use std::collections::BTreeSet;

use memoir::base::clock::Timestamp;
use memoir::base::ids::{SourceId, Space};
use memoir::model::source::{Source, SourceKind};
use memoir::store::{NewVersion, Store};
use serde_json::json;

use super::{Setup, each, facts, moment};
use crate::support::app::load;

#[tokio::test]
async fn each_strategy_returns_its_version() {
    for setup in Setup::each().await {
        for (at, text) in [
            ("08:00", "In the beginning."),
            ("09:00", "The whales came by in spring."),
            (
                "10:00",
                "This one is by far the longest of all the versions that there are.",
            ),
            ("11:00", "The end of it."),
        ] {
            setup.file_at(at, "/log.md", text).await;
        }

        // Each strategy returns another version of the same data.
        let meta = json!({"filename": "log.md", "query": "whales in spring"});
        let mut answers = BTreeSet::new();
        for (body, wanted) in [
            (json!({"meta": meta}), 4),
            (json!({"meta": meta, "as_of": moment("10:30")}), 3),
            (json!({"meta": meta, "strategy": "earliest"}), 1),
            (json!({"meta": meta, "strategy": "longest"}), 3),
            (json!({"meta": meta, "strategy": "score"}), 2),
        ] {
            let found = setup.find(body.clone()).await;
            assert_eq!(found["version"], wanted, "{body}");
            answers.insert(wanted);
        }

        assert_eq!(answers.len(), 4);
        let found = setup
            .find(json!({"meta": meta, "strategy": "score", "explain": true}))
            .await;
        let scores: Vec<f64> = each(&found["explain"]["candidates"], "score")
            .iter()
            .map(|score| score.as_f64().unwrap())
            .collect();

        assert_eq!(
            found["score"].as_f64(),
            scores.iter().copied().max_by(f64::total_cmp)
        );

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn ties_are_decided_by_length_then_match_then_age() {
    for setup in Setup::each().await {
        // All were ingested at the same time.
        for (path, text) in [
            ("/1.md", "short"),
            ("/2.md", "a red boat"),
            ("/3.md", "a red kite"),
            ("/4.md", "a red kite"),
        ] {
            setup.file_at("08:00", path, text).await;
        }

        // Ties: the longer text wins, then the better match, then the first version.
        for (strategy, query, wanted) in [
            ("latest", "kite", "/3.md"),
            ("latest", "boat", "/2.md"),
            ("latest", "nothing of it", "/2.md"),
            ("longest", "kite", "/3.md"),
            ("longest", "boat", "/2.md"),
            ("earliest", "kite", "/3.md"),
            ("score", "red", "/2.md"),
        ] {
            for _ in 0..20 {
                let found = setup
                    .find(json!({"meta": {"query": query}, "strategy": strategy}))
                    .await;
                assert_eq!(found["metadata"]["path"], wanted, "{strategy} {query}");
            }
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn k_limits_the_candidates_but_not_the_correctness() {
    for setup in Setup::each().await {
        for minute in 10..22 {
            setup
                .file_at(
                    &format!("08:{minute}"),
                    "/a.md",
                    &format!("Version of minute {minute}."),
                )
                .await;
            setup
                .file_at(
                    &format!("08:{minute}"),
                    &format!("/{minute}.md"),
                    "Some other source.",
                )
                .await;
        }

        // `k` limits the candidates.
        for (k, wanted) in [(1, 1), (5, 5), (50, 12)] {
            let body = json!({"meta": {"filename": "a.md"}, "k": k, "explain": true});
            assert_eq!(
                setup.find(body).await["explain"]["raw_candidates"],
                wanted,
                "{k}"
            );
        }

        for k in [1, 3, 50] {
            for (more, wanted) in [
                (json!({}), 21),
                (json!({"as_of": moment("08:14")}), 14),
                (json!({"strategy": "earliest"}), 10),
            ] {
                let mut body = json!({"meta": {"filename": "a.md"}, "k": k});
                body.as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                assert_eq!(
                    setup.text(body.clone()).await,
                    format!("Version of minute {wanted}."),
                    "{body}"
                );
            }
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn finds_a_source_by_words_without_its_name() {
    for setup in Setup::each().await {
        let quasar = json!({"path": "/q.md", "text": "Far away a quasar shines, brighter than its galaxy.",
            "topic": "Radio astronomy", "provider": "Jodrell Bank"});
        setup.put_at("08:00", quasar).await;
        for number in 10..40 {
            let text = format!(
                "Minutes of the council meeting, number {number}, about the annual budget."
            );
            setup
                .file_at(&format!("09:{number}"), &format!("/m{number}.md"), &text)
                .await;
        }

        for meta in [
            json!({"topic": "radio ASTRONOMY"}),
            json!({"query": "What do we know about quasars and the quasar?"}),
            json!({"provider": "Jodrell Bank"}),
            json!({"filename": "quasar.md"}),
        ] {
            // Thirty versions are newer, and only three are scored.
            let body = json!({"meta": meta, "strategy": "score", "k": 3});
            assert_eq!(
                setup.find(body).await["metadata"]["path"],
                "/q.md",
                "{meta}"
            );
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn a_version_without_its_text_is_an_error() {
    for setup in Setup::each().await {
        setup
            .file_at("10:00", "/a.md", "All that there was to say.")
            .await;
        setup
            .app
            .database
            .execute("UPDATE source_versions SET content = ''")
            .await;
        setup.app.database.execute("DELETE FROM chunks").await;

        let reply = setup.retrieve(&json!({"meta": {"filename": "a.md"}})).await;
        reply.assert_problem(500, "document_content_missing");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn finds_the_right_version_among_a_thousand() {
    for setup in Setup::each().await {
        let store = Store::connect(&load(&setup.app.database.url, &[]).database)
            .await
            .unwrap();
        fill(&store, 100, 10).await;
        store.analyze().await.unwrap();

        for number in 0..60 {
            let found = setup
                .find(json!({"meta": {"filename": format!("{number}.md"), "tags": ["even"]}}))
                .await;
            assert_eq!(
                (&found["version"], &found["tag_filter_relaxed"]),
                (&json!(10), &json!(number % 2 == 1))
            );
        }

        store.close().await;
        setup.app.finish().await;
    }
}

/// Writes sources with versions directly to the store, without models.
async fn fill(store: &Store, sources: i64, versions: i64) {
    let space = Space::default();
    let mut tx = store.begin().await.unwrap();
    for number in 0..sources {
        let now = Timestamp::from_micros(1_764_000_000_000_000 + number);
        let mut tags = vec!["file_ingest".to_owned()];
        tags.extend((number % 2 == 0).then(|| "even".to_owned()));
        let source = Source {
            id: SourceId::new(),
            user_id: "default".to_owned(),
            filename: format!("{number}.md"),
            path: format!("/{number}.md"),
            kind: SourceKind::FileIngest,
            file_type: "md".to_owned(),
            eligible: true,
            tags,
            latest_version: 0,
            created_at: now,
            updated_at: now,
        };

        tx.add_source(&space, &source).await.unwrap();
        for version in 1..=versions {
            let content = format!("Version {version} of source {number}.");
            let facts = facts(&content);
            let new = NewVersion {
                source_id: &source.id,
                version,
                content: &content,
                facts: &facts,
                content_version_id: None,
            };

            let at = Timestamp::from_micros(now.as_micros() + version * 1000);
            let id = tx.add_source_version(&space, new, at).await.unwrap();
            tx.update_latest_version(&space, &source.id, version, id, at)
                .await
                .unwrap();
        }
    }

    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_source_is_found_by_meaning_if_no_word_matches() {
    for setup in Setup::each().await {
        let bread =
            "Sourdough bread: knead flour, water and salt, let it rise, and put it in the oven.";
        setup.file_at("08:00", "/bread.md", bread).await;
        for number in 10..16 {
            let text = format!("Minutes of meeting number {number}, about the annual budget.");
            setup
                .file_at(&format!("09:{number}"), &format!("/m{number}.md"), &text)
                .await;
        }

        // Three versions are scored, and six are newer.
        let meta = json!({"query": "loaf baking"});
        for k in [3, 50] {
            let body = json!({"meta": meta, "strategy": "score", "strict": true, "k": k});
            let found = setup.find(body).await;
            assert_eq!(found["metadata"]["path"], "/bread.md", "{found}");
            assert!(found["score"].as_f64().unwrap() > 0.0);
        }

        setup.app.finish().await;
    }
}
