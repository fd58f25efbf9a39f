//! What a search finds, and what it must not.

use memoir::base::clock::Clock as _;
use serde_json::{Value, json};

use super::{Setup, each};
use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;

const KINDS: [&str; 3] = ["keyword", "semantic", "hybrid"];

pub const TEXTS: [(&str, &str); 6] = [
    (
        "/light.md",
        "The lighthouse on the northern cape was built in 1843. Its lamp burned whale oil until 1902.",
    ),
    (
        "/bread.md",
        "Knead the dough for ten minutes, let it rise overnight, and bake the loaves on a hot stone.",
    ),
    (
        "/orbit.md",
        "The satellite entered a polar orbit after its second engine burn. Telemetry was received at once.",
    ),
    (
        "/tax.md",
        "Travel expenses are refunded within thirty days when the receipt is attached to the claim.",
    ),
    (
        "/garden.md",
        "Prune the roses in late winter, before the buds swell, and burn what you cut off.",
    ),
    (
        "/größe.md",
        "Die Größe der Bögen: 東京都 と 京都. Naïve café owners résumé.",
    ),
];

async fn filled(database: TestDatabase) -> Setup {
    let setup = Setup::on(database, &[]).await;
    for (path, text) in TEXTS {
        setup.bring(path, text).await;
    }

    setup
}

#[tokio::test]
async fn words_in_quotes_are_found_as_they_stand() {
    for database in TestDatabase::each().await {
        let setup = filled(database).await;
        for (query, paths) in [
            ("\"Lamp burned whale\"", vec!["/light.md"]),
            ("\"whale burned\"", vec![]),
            ("\"was built\" \"whale oil\"", vec!["/light.md"]),
        ] {
            for by in ["chunks", "sources"] {
                let found = setup.search(json!({"query": query, "scope": by})).await;
                let items = found["items"].as_array().unwrap();
                let found: Vec<&Value> = items.iter().map(|item| &item["path"]).collect();
                assert_eq!(found, paths, "{query} {by}");
            }
        }
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn each_search_type_finds_its_chunks_and_shows_the_score_parts() {
    for database in TestDatabase::each().await {
        let setup = filled(database).await;
        for kind in KINDS {
            let found = setup
                .search(json!({"query": "When was the lighthouse built?", "type": kind}))
                .await;
            assert_eq!(found["items"][0]["path"], "/light.md", "{kind}: {found}");
            assert_eq!(found["items"][0]["rank"], 1);
            assert_eq!(found["items"][0]["text_content"], TEXTS[0].1);
            assert_eq!(found["index"], "memory");
            let scores: Vec<f64> = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["score"].as_f64().unwrap())
                .collect();

            assert!(
                scores.is_sorted_by(|a, b| a >= b) && scores[0] <= 1.0,
                "{scores:?}"
            );

            let parts = &found["items"][0]["score_parts"];
            assert_eq!(parts["keyword"].is_number(), kind != "semantic", "{parts}");
            assert_eq!(parts["semantic"].is_number(), kind != "keyword", "{parts}");

            for item in found["items"].as_array().unwrap() {
                let standing = |name: &str| item["score_parts"][name].as_f64();
                let mean = standing("keyword_standing")
                    .zip(standing("semantic_standing"))
                    .map(|(a, b)| f64::midpoint(a, b));
                assert_eq!(mean.is_some(), kind == "hybrid", "{item}");
                let score = item["score"].as_f64().unwrap();

                assert!((0.0..=1.0).contains(&score) || kind == "semantic", "{item}");
            }

            let timings = &found["timings"];
            let sum =
                timings["provider_ms"].as_f64().unwrap() + timings["own_ms"].as_f64().unwrap();
            assert!((sum - timings["total_ms"].as_f64().unwrap()).abs() < 0.01);
        }

        let found = setup
            .search(json!({"query": "burning", "type": "keyword"}))
            .await;
        assert_eq!(
            each(&found, "path").len(),
            3,
            "endings do not matter: {found}"
        );

        assert_eq!(
            setup
                .paths(json!({"query": "grosse", "type": "keyword"}))
                .await,
            Vec::<String>::new()
        );

        for words in ["größe", "CAFE", "京都", "resume"] {
            assert_eq!(
                setup
                    .paths(json!({"query": words, "type": "keyword"}))
                    .await,
                ["/größe.md"],
                "{words}"
            );
        }

        assert_eq!(
            setup
                .paths(json!({"query": "zzzz", "type": "keyword"}))
                .await,
            Vec::<String>::new()
        );

        assert_eq!(
            setup.paths(json!({"query": "the"})).await.len(),
            6,
            "a question of stop words still finds"
        );

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn only_current_versions_are_found_without_as_of() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        setup.app.clock.advance_seconds(10);
        let id = setup
            .bring("/plan.md", "The heron nests by the weir.")
            .await;
        let then = setup.app.clock.now().to_string();
        setup.app.clock.advance_seconds(60);
        assert_eq!(
            setup
                .bring("/plan.md", "The otter swims below the bridge.")
                .await,
            id
        );

        for kind in KINDS {
            let now = setup
                .search(json!({"query": "heron otter", "type": kind}))
                .await;
            assert_eq!(each(&now, "source_version"), ["2"], "{kind}");
            let past = setup
                .search(json!({"query": "heron otter", "type": kind, "filters": {"as_of": then}}))
                .await;
            assert_eq!(each(&past, "source_version"), ["1"], "{kind}: {past}");
            let before = json!({"query": "heron", "type": kind, "filters": {"as_of": "2001-01-01T00:00:00Z"}});

            assert_eq!(setup.paths(before).await, Vec::<String>::new());
        }

        // The same text again is a version that shares its chunks.
        setup.app.clock.advance_seconds(60);
        setup
            .bring("/plan.md", "The heron nests by the weir.")
            .await;
        let again = setup
            .search(json!({"query": "heron", "type": "keyword"}))
            .await;
        assert_eq!(each(&again, "source_version"), ["1"]);

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn filters_hold_and_never_leak() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        let text = "A quiet harbour in the north.";
        let plain = setup.bring("/a.md", text).await;
        let ann = setup
            .bring_as(
                json!({"path": "/b.md", "text": text, "user_id": "ann", "tags": ["red", "old"]}),
            )
            .await;

        setup
            .bring_as(json!({"path": "/c.md", "text": text, "user_id": "bob", "tags": ["red"]}))
            .await;
        let other = json!({"path": "/d.md", "text": text, "wait": true, "options": {"indexes": ["semantic"]}});
        let request = setup
            .app
            .request(reqwest::Method::POST, "/v1/ingestions")
            .header("X-Memoir-Space", "other");

        assert_eq!(
            send(request.json(&other)).await.json()["state"],
            "succeeded"
        );

        for kind in KINDS {
            let find = |filters: Value| {
                setup.paths(json!({"query": "quiet harbour", "type": kind, "filters": filters}))
            };
            assert_eq!(find(json!({})).await, ["/a.md", "/b.md", "/c.md"], "{kind}");
            assert_eq!(find(json!({"tags": ["red"]})).await, ["/b.md", "/c.md"]);
            assert_eq!(find(json!({"tags": ["red", "old"]})).await, ["/b.md"]);
            assert_eq!(find(json!({"user_id": "bob"})).await, ["/c.md"]);
            assert_eq!(
                find(json!({"user_id": "nobody"})).await,
                Vec::<String>::new()
            );

            assert_eq!(
                find(json!({"source_ids": [plain, ann]})).await,
                ["/a.md", "/b.md"]
            );

            assert_eq!(
                find(json!({"source_ids": [plain], "user_id": "ann"})).await,
                Vec::<String>::new()
            );

            let body = json!({"query": "quiet harbour", "type": kind});
            let request = setup
                .app
                .request(reqwest::Method::POST, "/v1/search")
                .header("X-Memoir-Space", "other");

            assert_eq!(
                each(&send(request.json(&body)).await.json(), "path"),
                ["/d.md"]
            );

            let request = setup
                .app
                .request(reqwest::Method::POST, "/v1/search")
                .header("X-Memoir-Space", "empty");

            assert_eq!(
                each(&send(request.json(&body)).await.json(), "path"),
                Vec::<String>::new()
            );
        }

        // Excluded and deleted sources are not found from then on.
        setup.change(&ann, &json!({"eligible": false})).await;
        setup.remove(&plain).await;
        for kind in KINDS {
            assert_eq!(
                setup
                    .paths(json!({"query": "quiet harbour", "type": kind}))
                    .await,
                ["/c.md"]
            );

            let named =
                json!({"query": "quiet", "type": kind, "filters": {"source_ids": [ann, plain]}});
            assert_eq!(setup.paths(named).await, Vec::<String>::new());
        }

        setup.change(&ann, &json!({"eligible": true})).await;
        assert_eq!(
            setup.paths(json!({"query": "quiet harbour"})).await,
            ["/b.md", "/c.md"]
        );

        let left = "SELECT (SELECT COUNT(*) FROM embeddings) - (SELECT COUNT(*) FROM search_entries WHERE owner_kind = 'chunk')";
        let row = sqlx::query(left)
            .fetch_one(&mut setup.app.database.connect().await)
            .await
            .unwrap();

        assert_eq!(
            sqlx::Row::get::<i64, _>(&row, 0),
            0,
            "vectors go with their chunks"
        );

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn sources_are_ranked_by_their_best_chunk() {
    for database in TestDatabase::each().await {
        let settings = [
            ("VECTOR__CHUNK_TOKENS", "32"),
            ("VECTOR__OVERLAP_TOKENS", "0"),
        ];

        let setup = Setup::on(database, &settings).await;
        let dull = "Nothing much happened on that day, and nobody minded. ".repeat(12);
        setup
            .bring(
                "/long.md",
                &format!("{dull}The comet was seen from the comet observatory. {dull}"),
            )
            .await;

        setup.bring("/short.md", "A comet.").await;
        setup.bring("/none.md", &dull).await;
        for kind in KINDS {
            let body =
                json!({"query": "comet observatory", "type": kind, "scope": "sources", "k": 2});
            let found = setup.search(body).await;
            let mut paths = each(&found, "path");
            paths.sort();
            assert_eq!(paths, ["/long.md", "/short.md"], "{kind}");
            let long = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["path"] == "/long.md")
                .unwrap();

            assert!(
                long["text_content"].as_str().unwrap().contains("comet"),
                "{long}"
            );
        }

        let all = setup
            .search(json!({"query": "nobody minded", "k": 200, "scope": "sources"}))
            .await;
        assert_eq!(all["items"].as_array().unwrap().len(), 3);
        let few = setup
            .search(json!({"query": "nobody minded", "k": 3}))
            .await;
        assert_eq!(few["items"].as_array().unwrap().len(), 3);

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn a_category_filter_includes_its_descendants() {
    for database in TestDatabase::each().await {
        let setup = Setup::on(database, &[]).await;
        let both = json!({"indexes": ["taxonomy", "semantic"]});
        for (path, text) in TEXTS {
            setup
                .bring_as(json!({"path": path, "text": text, "options": both}))
                .await;
        }

        let roots = setup.app.get("/v1/categories?level=1").await.json();
        let mut seen = Vec::new();
        for root in roots["items"].as_array().unwrap() {
            let body =
                json!({"query": "the", "min_score": 0, "filters": {"category_id": root["id"]}});
            seen.extend(setup.paths(body).await);
        }

        seen.sort();
        let mut all: Vec<String> = TEXTS.iter().map(|(path, _)| (*path).to_owned()).collect();
        all.sort();
        assert_eq!(seen, all, "each is under one category of level 1: {roots}");

        let nowhere = json!({"query": "the", "min_score": 0, "filters": {"category_id": 999_999}});
        assert_eq!(setup.paths(nowhere).await, Vec::<String>::new());
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn min_score_filters_and_invalid_searches_are_rejected() {
    let setup = filled(TestDatabase::sqlite()).await;
    let all = setup
        .search(json!({"query": "burn", "type": "keyword"}))
        .await;
    let scores: Vec<f64> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["score"].as_f64().unwrap())
        .collect();

    assert!(scores.len() == 3 && scores[0] > scores[2], "{scores:?}");
    let some = setup
        .search(json!({"query": "burn", "type": "keyword", "min_score": scores[0]}))
        .await;
    assert_eq!(
        some["items"].as_array().unwrap().len(),
        scores.iter().filter(|score| **score >= scores[0]).count()
    );

    for (body, field) in [
        (json!({"query": " "}), "query"),
        (json!({"query": "x".repeat(10_001)}), "query"),
        (json!({"query": "x", "k": 0}), "k"),
        (json!({"query": "x", "k": 201}), "k"),
        (json!({"query": "x", "min_score": 1.5}), "min_score"),
        (json!({"query": "x", "type": "fuzzy"}), "type"),
        (json!({"query": "x", "scope": "pages"}), "scope"),
        (
            json!({"query": "x", "filters": {"source_ids": ["nope"]}}),
            "filters.source_ids[0]",
        ),
        (
            json!({"query": "x", "filters": {"as_of": "yesterday"}}),
            "filters.as_of",
        ),
        (
            json!({"query": "x", "filters": {"tags": [""]}}),
            "filters.tags[0]",
        ),
        (
            json!({"query": "x", "filters": {"user_id": ""}}),
            "filters.user_id",
        ),
        (json!({"query": "x", "filters": [["coast"]]}), "filters"),
    ] {
        let reply = setup.ask(&body).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], field, "{}", reply.text);
    }

    for odd in [
        "'; DROP TABLE chunks;--",
        "\"",
        "AND OR NOT NEAR(",
        "*",
        "+-<>()~*\"@",
        "qa",
        "a'b\\c%_",
        "😀",
    ] {
        for kind in KINDS {
            let reply = setup.ask(&json!({"query": odd, "type": kind})).await;
            assert_eq!(reply.status, 200, "{odd}: {}", reply.text);
        }
    }

    setup.app.finish().await;
}

#[tokio::test]
async fn processes_on_one_database_find_the_same_chunks() {
    for database in TestDatabase::each().await {
        let here = filled(database).await;
        let database = std::sync::Arc::clone(&here.app.database);
        let there = Setup {
            app: TestApp::at(&database.url.clone(), database, &[]).await,
        };

        // Both have the vectors in memory before anything changes.
        let question =
            json!({"query": "a kite above the dunes", "type": "semantic", "min_score": 0.3});
        for setup in [&here, &there] {
            assert_eq!(setup.paths(question.clone()).await, Vec::<String>::new());
        }

        let id = here
            .bring("/kite.md", "A kite flew above the dunes all day.")
            .await;
        assert_eq!(
            there.paths(question.clone()).await,
            ["/kite.md"],
            "what came in elsewhere"
        );

        there
            .bring("/kite.md", "Invoices are paid by the end of the month.")
            .await;
        assert_eq!(
            here.paths(question.clone()).await,
            Vec::<String>::new(),
            "its text has changed"
        );

        there
            .bring("/kite.md", "A kite flew above the dunes all day.")
            .await;
        assert_eq!(here.paths(question.clone()).await, ["/kite.md"]);
        there.change(&id, &json!({"eligible": false})).await;
        assert_eq!(
            here.paths(question.clone()).await,
            Vec::<String>::new(),
            "switched off elsewhere"
        );

        there.change(&id, &json!({"eligible": true})).await;
        there.remove(&id).await;
        assert_eq!(
            here.paths(question).await,
            Vec::<String>::new(),
            "removed elsewhere"
        );

        there.app.finish().await;
        here.app.finish().await;
    }
}
