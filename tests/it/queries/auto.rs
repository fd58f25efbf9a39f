//! The default strategy: search first, ask a model only in doubt, and say when nothing was found.

use memoir::scripted_model::Reply;
use serde_json::{Value, json};

use super::{each, texts, three_by_three};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::Ingest;
use crate::support::library::Desk;

const NOTES: &[(&str, &str)] = &[
    (
        "/notes/lighthouse.md",
        "The lighthouse on the northern cape was built in 1843 by Ada Brown. Its lamp is visible for twenty miles.",
    ),
    (
        "/notes/bakery.md",
        "The bakery opens at six in the morning. Rye bread is sold on Tuesdays and Fridays only.",
    ),
    (
        "/notes/garden.md",
        "Tomatoes were planted in the second week of May. The roses need pruning before spring.",
    ),
    (
        "/notes/boat.md",
        "The boat lies in the old harbour. Its engine was repaired in June, and the sails are new.",
    ),
];

async fn bring(app: &TestApp, path: &str, text: &str) -> String {
    let body = json!({"path": path, "text": text, "wait": true});
    let reply = app.post("/v1/ingestions", &body).await;
    assert_eq!(reply.json()["state"], "succeeded", "{}", reply.text);
    reply.json()["source_id"].as_str().unwrap().to_owned()
}

async fn notes(app: &TestApp) {
    for (path, text) in NOTES {
        bring(app, path, text).await;
    }
}

async fn ask(app: &TestApp, body: Value) -> Value {
    let reply = app.post("/v1/queries", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn replayed(app: &TestApp, result: &Value) -> Value {
    let id = result["id"].as_str().unwrap();
    let reply = app
        .post(&format!("/v1/queries/{id}/replay"), &json!({}))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn tiers(result: &Value) -> Vec<Value> {
    each(&result["tiers"], "tier")
}

#[tokio::test]
async fn finds_what_a_search_finds_on_every_engine() {
    let mut all = Vec::new();
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        notes(&app).await;
        let result = ask(
            &app,
            json!({"query": "When was the lighthouse built?", "mode": "retrieve"}),
        )
        .await;

        assert_eq!(result["strategy"], "auto");
        assert_eq!(result["tier"], "search");
        assert_eq!(result["found"], true);
        assert_eq!(result["confidence"], "high", "{:#}", result["tiers"]);
        assert_eq!(texts(&result)[0], NOTES[0].1);
        assert_eq!(each(&result["chunks"], "rank"), [1, 2, 3, 4]);
        let relevance: Vec<f64> = each(&result["chunks"], "relevance")
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect();
        assert!(relevance.is_sorted_by(|one, other| one >= other));
        assert!(relevance.iter().all(|value| (0.0..=1.0).contains(value)));
        assert_eq!(result["responses"], json!([]), "no model was called");

        let found = app
            .post(
                "/v1/search",
                &json!({"query": "When was the lighthouse built?"}),
            )
            .await;
        let found: Vec<String> = each(&found.json()["items"], "text_content")
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(texts(&result), found, "in the order of the search");

        let id = result["id"].as_str().unwrap();
        let receipt = app.get(&format!("/v1/queries/{id}")).await.json();
        assert_eq!(receipt["tier"], "search");
        assert_eq!(receipt["tiers"][0]["decision"], "stop");
        assert_eq!(receipt["tiers"][0]["chunks"], 4);
        assert_eq!(receipt["confidence"], "high");
        assert_eq!(replayed(&app, &result).await["identical"], true);
        all.push(texts(&result));
        app.finish().await;
    }

    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn answers_from_the_best_chunks() {
    let app = TestApp::with(&[]).await;
    notes(&app).await;
    let result = ask(&app, json!({"query": "When is rye bread sold?"})).await;
    assert!(
        result["answer"].as_str().unwrap().contains("Tuesdays"),
        "{result:#}"
    );
    assert_eq!(each(&result["responses"], "stage"), ["answer"]);
    let chunk = &result["chunks"][0];
    assert_eq!(chunk["filename"], "bakery.md");
    assert_eq!(chunk["path"], "/notes/bakery.md");
    let letters: Vec<char> = chunk["text_content"].as_str().unwrap().chars().collect();
    let marked: Vec<String> = chunk["highlights"]
        .as_array()
        .unwrap()
        .iter()
        .map(|range| {
            let at = |name: &str| usize::try_from(range[name].as_u64().unwrap()).unwrap();
            letters[at("start")..at("end")].iter().collect()
        })
        .collect();
    assert_eq!(marked, ["Rye", "bread", "sold"]);

    let citation = &result["citations"][0];
    let quote = "Rye bread is sold on Tuesdays and Fridays only.";
    assert_eq!(citation["quote"], quote);
    assert_eq!(citation["chunk_id"], chunk["chunk_id"]);
    assert_eq!(citation["filename"], "bakery.md");
    let start = NOTES[1].1.find(quote).unwrap();
    assert_eq!(citation["start_char"], start);
    assert_eq!(citation["end_char"], start + quote.len());
    assert_eq!(
        result["used_chunks"][0]["chunk_id"],
        result["chunks"][0]["chunk_id"]
    );
    assert_eq!(replayed(&app, &result).await["identical"], true);
    app.finish().await;
}

#[tokio::test]
async fn an_answer_is_only_sure_if_it_has_what_is_asked_for() {
    let app = TestApp::with(&[]).await;
    notes(&app).await;
    for (query, of_search, of_answer) in [
        ("When is rye bread sold?", "high", "high"),
        ("Who built the lighthouse on the cape?", "high", "high"),
        // Nobody is named, and no colour.
        ("Who sells rye bread?", "high", "medium"),
        ("What colour are the sails of the boat?", "high", "medium"),
        // A weekday is no amount.
        ("How much does the rye bread cost?", "medium", "low"),
    ] {
        let found = ask(&app, json!({"query": query, "mode": "retrieve"})).await;
        assert_eq!(found["confidence"], of_search, "{query}");
        let result = ask(&app, json!({"query": query})).await;
        assert_eq!(result["confidence"], of_answer, "{result:#}");
        assert_eq!(replayed(&app, &result).await["identical"], true);
    }

    app.finish().await;
}

#[tokio::test]
async fn says_that_nothing_was_found() {
    let app = TestApp::with(&[]).await;
    let empty = ask(&app, json!({"query": "Is anything here?"})).await;
    assert_eq!(empty["found"], false);
    assert_eq!(empty["answer"], Value::Null);
    assert_eq!(empty["nearest"], json!([]));

    notes(&app).await;
    let query = json!({"query": "What is the capital of Mongolia?"});
    let result = ask(&app, query).await;
    assert_eq!(result["found"], false, "{:#}", result["tiers"]);
    assert_eq!(result["answer"], Value::Null);
    assert_eq!(result["confidence"], "low");
    assert_eq!(result["chunks"], json!([]));
    assert_eq!(result["used_chunks"], json!([]));
    assert_eq!(result["responses"], json!([]), "no model was called");
    assert_eq!(result["nearest"].as_array().unwrap().len(), 4);
    assert_eq!(replayed(&app, &result).await["identical"], true);

    // Without an answer, the caller decides.
    let result = ask(
        &app,
        json!({"query": "What is the capital of Mongolia?", "mode": "retrieve"}),
    )
    .await;
    assert_eq!(result["found"], false);
    assert_eq!(result["chunks"].as_array().unwrap().len(), 4);
    app.finish().await;
}

/// Whoever answers: a language model that says so in more words, or the embedded model; and with
/// every strategy.
#[tokio::test]
async fn an_answer_that_says_that_there_is_none_is_not_found() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    for said in [
        "Not found in what is stored.",
        "**Not found in what is stored.** The chunks are about plants.",
    ] {
        desk.model.set_rule(move |seen| match seen.stage.as_str() {
            "answer" => Reply::json(json!({"answer": said})),
            _ => Reply::sensible(seen),
        });
        for strategy in ["auto", "one_shot", "wide_branch", "zoom_in", "branch_out"] {
            let query = json!({"query": "Which small plants are new?", "strategy": strategy, "reuse": false});
            let result = Desk::answered(&desk.ask(query).await);
            assert_eq!(result["found"], false, "{strategy}");
            assert_eq!(result["answer"], Value::Null, "{strategy}");
            assert_eq!(result["citations"], json!([]), "{strategy}");
            assert_ne!(result["nearest"], json!([]), "{strategy}");
            assert_eq!(replayed(&desk.app, &result).await["identical"], true);
        }
    }
    desk.close().await;

    let app = TestApp::with(&[]).await;
    notes(&app).await;
    let query = json!({"query": "What is the capital of Mongolia?", "strategy": "wide_branch"});
    let result = ask(&app, query).await;
    assert_eq!(
        (&result["found"], &result["answer"]),
        (&json!(false), &Value::Null)
    );
    app.finish().await;
}

#[tokio::test]
async fn fills_the_budget_with_the_best_chunks_and_pages_through_the_others() {
    let app = TestApp::with(&[("INGESTION__CHUNK_MIN_TOKENS", "10")]).await;
    let long = "The harbour is full of boats and ropes. ".repeat(40);
    bring(
        &app,
        "/long.txt",
        &format!("The lamp of the lighthouse. {long}"),
    )
    .await;
    notes(&app).await;
    let mut query = json!({
        "query": "the lamp of the lighthouse", "mode": "retrieve", "max_token_budget": 300, "reuse": false
    });

    let mut seen: Vec<Value> = Vec::new();
    let mut pages = 0;
    loop {
        let page = ask(&app, query.clone()).await;
        let ranks = each(&page["chunks"], "rank");
        let first = i64::try_from(seen.len()).unwrap() + 1;
        assert_eq!(ranks.first(), Some(&json!(first)), "ranks go on");
        for id in each(&page["chunks"], "chunk_id") {
            assert!(!seen.contains(&id), "twice: {id}");
            seen.push(id);
        }

        assert_eq!(page["found"], true);
        assert_eq!(page["tier"], "search");
        assert_eq!(replayed(&app, &page).await["identical"], true);
        pages += 1;
        if page["next_cursor"].is_null() {
            break;
        }
        query["cursor"] = page["next_cursor"].clone();
    }

    assert!(pages > 1, "{pages}");
    assert!(seen.len() >= 4, "{seen:?}");

    query["query"] = json!("another query");
    let reply = app.post("/v1/queries", &query).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    app.finish().await;
}

#[tokio::test]
async fn a_forged_cursor_shows_nothing_outside_the_scope() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let app = TestApp::with(&[]).await;
    notes(&app).await;
    let long = "The lighthouse keeper lives in town. ".repeat(120);
    let source = bring(&app, "/other.md", &long).await;
    let all = ask(&app, json!({"query": "the lighthouse", "mode": "retrieve"})).await;
    let mut query = json!({
        "query": "the lighthouse", "mode": "retrieve", "source_ids": [source], "limit": 1
    });
    let first = ask(&app, query.clone()).await;
    assert_eq!(first["chunks"].as_array().unwrap().len(), 1);

    let cursor = URL_SAFE_NO_PAD.decode(first["next_cursor"].as_str().unwrap());
    let mut cursor: Value = serde_json::from_slice(&cursor.unwrap()).unwrap();
    let ids = each(&all["chunks"], "chunk_id");
    cursor["rest"] = ids.iter().map(|id| json!([id, 500])).collect();
    query["limit"] = json!(100);
    query["cursor"] = json!(URL_SAFE_NO_PAD.encode(cursor.to_string()));
    let forged = ask(&app, query).await;
    let sources = each(&forged["chunks"], "source_id");
    assert!(!sources.is_empty());
    assert!(sources.iter().all(|id| *id == source), "{sources:?}");
    app.finish().await;
}

#[tokio::test]
async fn the_same_query_is_recalled_until_something_is_written() {
    let app = TestApp::with(&[]).await;
    notes(&app).await;
    let query = json!({"query": "When is rye bread sold?"});
    let first = ask(&app, query.clone()).await;
    let again = ask(&app, query.clone()).await;
    assert_eq!(again["tier"], "recalled");
    assert_ne!(again["id"], first["id"]);
    assert_eq!(again["answer"], first["answer"]);
    assert_eq!(again["chunks"], first["chunks"]);
    assert_eq!(again["responses"], json!([]));
    assert_eq!(tiers(&again), ["recalled"]);
    let replay = replayed(&app, &again).await;
    assert_eq!(replay["identical"], true, "{replay:#}");

    let fresh = ask(
        &app,
        json!({"query": "When is rye bread sold?", "reuse": false}),
    )
    .await;
    assert_eq!(fresh["tier"], "search");

    bring(&app, "/notes/bakery.md", "Rye bread is sold on Sundays.").await;
    let changed = ask(&app, query).await;
    assert_eq!(changed["tier"], "search");
    assert!(changed["answer"].as_str().unwrap().contains("Sundays"));
    app.finish().await;
}

#[tokio::test]
async fn sees_only_the_sources_and_versions_of_its_scope() {
    let app = TestApp::with(&[]).await;
    notes(&app).await;
    let bakery = bring(&app, "/notes/bakery.md", "Rye bread is sold on Sundays.").await;
    let query = |more: Value| {
        let mut query = json!({"query": "When is rye bread sold?", "mode": "retrieve"});
        query
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        query
    };

    let now = ask(&app, query(json!({"source_ids": [bakery]}))).await;
    assert_eq!(texts(&now), ["Rye bread is sold on Sundays."]);
    let both = ask(
        &app,
        query(json!({"source_ids": [bakery], "version_scope": "all"})),
    )
    .await;
    assert_eq!(both["chunks"].as_array().unwrap().len(), 2, "{both:#}");
    let versions = app
        .get(&format!("/v1/sources/{bakery}/versions"))
        .await
        .json();
    let first = versions["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|version| version["version"] == 1)
        .unwrap();
    let then = ask(&app, query(json!({"as_of": first["ingested_at"]}))).await;
    assert_eq!(texts(&then)[0], NOTES[1].1);
    assert_eq!(replayed(&app, &then).await["identical"], true);
    let nobody = ask(&app, query(json!({"user_id": "nobody"}))).await;
    assert_eq!(nobody["found"], false);
    assert_eq!(nobody["chunks"], json!([]));
    app.finish().await;
}

#[tokio::test]
async fn finds_texts_that_are_not_filed() {
    let app = TestApp::with(&[]).await;
    let body = json!({
        "path": "/a.md", "text": NOTES[0].1, "wait": true, "options": {"indexes": ["semantic"]}
    });
    app.post("/v1/ingestions", &body).await;
    let result = ask(&app, json!({"query": "When was the lighthouse built?"})).await;
    assert!(result["answer"].as_str().unwrap().contains("1843"));
    assert_eq!(result["chunks"][0]["category_path"], json!([]));
    assert_eq!(replayed(&app, &result).await["identical"], true);
    app.finish().await;
}

#[tokio::test]
async fn runs_as_a_job() {
    let app = TestApp::with(&[]).await;
    notes(&app).await;
    let query = json!({"query": "When is rye bread sold?", "wait": false});
    let job = app.post("/v1/queries", &query).await.json();
    let id = job["id"].as_str().unwrap();
    let job = app.get(&format!("/v1/jobs/{id}?wait=20")).await.json();
    assert_eq!(job["state"], "succeeded", "{job:#}");
    assert_eq!(job["result"]["tier"], "search");
    assert!(
        job["result"]["answer"]
            .as_str()
            .unwrap()
            .contains("Tuesdays")
    );
    app.finish().await;
}

/// Texts whose categories the scripted model takes from their lines.
async fn filed(ingest: &Ingest) {
    for (path, text) in [
        (
            "/sea.txt",
            "category1: Sea\ncategory2: Coast\ncategory3: Lights\nThe lamp on the cape burns all night.",
        ),
        (
            "/land.txt",
            "category1: Land\ncategory2: Food\ncategory3: Bread\nRye loaves come out at six.",
        ),
        (
            "/air.txt",
            "category1: Air\ncategory2: Birds\ncategory3: Geese\nThey fly south in autumn.",
        ),
    ] {
        ingest.succeed(&json!({"path": path, "text": text})).await;
    }
    ingest.model.clear();
}

/// Two of its four words are in one text, so that a search leaves doubt.
const DOUBTFUL: &str = "Where did grandmother keep the lamp at night?";

#[tokio::test]
async fn asks_a_language_model_only_in_doubt() {
    let ingest = Ingest::with(&[]).await;
    filed(&ingest).await;
    let app = &ingest.app;

    let clear = ask(
        app,
        json!({"query": "the lamp on the cape", "mode": "retrieve"}),
    )
    .await;
    assert_eq!(clear["tier"], "search", "{:#}", clear["tiers"]);
    assert!(ingest.asked("select").is_empty());

    let doubtful = ask(app, json!({"query": DOUBTFUL})).await;
    assert_eq!(doubtful["tiers"][0]["decision"], "continue", "{doubtful:#}");
    let asked = ingest.asked("select");
    assert!(!asked.is_empty());
    assert!(
        asked[0].user.contains("- Sea / Coast / Lights"),
        "{}",
        asked[0].user
    );
    assert_eq!(ingest.asked("answer").len(), 1);
    let replay = replayed(app, &doubtful).await;
    assert_eq!(replay["identical"], true, "{replay:#}");
    let id = doubtful["id"].as_str().unwrap();
    let receipt = app.get(&format!("/v1/queries/{id}")).await.json();
    assert_eq!(receipt["levels"][0]["level"], 0);

    // Without a call for a pick, the search has to do.
    ingest.model.clear();
    let short = ask(app, json!({"query": DOUBTFUL, "max_calls": 1})).await;
    assert_eq!(tiers(&short), ["search"]);
    assert!(ingest.asked("select").is_empty());

    let estimate = app
        .post("/v1/queries/estimate", &json!({"query": DOUBTFUL}))
        .await
        .json();
    assert_eq!(estimate["strategies"][0]["strategy"], "auto");
    assert_eq!(estimate["strategies"][0]["answer_calls"], 1);
    assert!(estimate["strategies"][0]["calls"].as_i64().unwrap() >= 2);
    ingest.app.finish().await;
}

#[tokio::test]
async fn shows_the_heading_above_each_chunk() {
    let app = TestApp::with(&[
        ("INGESTION__CHUNK_MIN_TOKENS", "20"),
        ("INGESTION__CHUNK_MAX_TOKENS", "60"),
    ])
    .await;
    let lines = |word: &str| format!("The {word} is kept in good order by its keeper. ").repeat(12);
    let text = format!(
        "# The lamp\n\n{}\n\n## The bell\n\n{}\n",
        lines("lamp"),
        lines("bell")
    );
    bring(&app, "/keeper.md", &text).await;
    let result = ask(&app, json!({"query": "the bell", "mode": "retrieve"})).await;
    let chunks = result["chunks"].as_array().unwrap();
    assert!(chunks.len() > 2, "{result:#}");
    for chunk in chunks {
        let text = chunk["text_content"].as_str().unwrap();
        let wanted = if text.contains("The bell is") && !text.contains("lamp") {
            "The lamp › The bell"
        } else {
            "The lamp"
        };
        assert_eq!(chunk["heading"], wanted, "{text}");
    }

    let found = app
        .post("/v1/search", &json!({"query": "the bell"}))
        .await
        .json();
    assert_eq!(found["items"][0]["heading"], "The lamp", "where it begins");
    assert!(
        !found["items"][0]["highlights"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    app.finish().await;
}

#[tokio::test]
async fn a_number_that_names_no_chunk_is_not_cited() {
    let ingest = Ingest::with(&[]).await;
    filed(&ingest).await;
    ingest.model.set_rule(|seen| {
        if seen.stage == "answer" {
            Reply::json(json!({"answer": "It burns all night [999999]."}))
        } else {
            Reply::sensible(seen)
        }
    });

    let result = ask(&ingest.app, json!({"query": "the lamp on the cape"})).await;
    assert_eq!(result["citations"], json!([]));
    assert_eq!(each(&result["warnings"], "code"), ["unknown_citations"]);
    ingest.app.finish().await;
}
