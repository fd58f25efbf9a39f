//! Models that name categories without seeing any: memoir folds the names onto what exists.

use memoir::scripted_model::{Reply, Seen};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, chunk, line, request};

const FREE: &[(&str, &str)] = &[
    ("LLM__PROVIDERS__OPENAI_STUB__FREE_NAMING", "yes"),
    ("INGESTION__FILING", "auto"),
    ("INGESTION__LINGER", "0"),
];

/// A text whose names the scripted model takes from its first lines.
fn note(path: &str, words: &str) -> Value {
    let labels = path.split('/').zip(1..);
    let labels: Vec<String> = labels
        .map(|(name, level)| format!("category{level}: {name}\n"))
        .collect();
    let labels = labels.concat();
    json!({"text": format!("{labels}{words}")})
}

/// Ingests a text; returns its job and where its only chunk was filed.
async fn filed(ingest: &Ingest, body: &Value) -> (Value, Value) {
    ingest.model.clear();
    let job = ingest.succeed(body).await;
    let chunks = ingest.chunks(&job).await;
    assert_eq!(chunks.len(), 1, "{chunks:#?}");
    (job, chunks[0]["category_path"].clone())
}

fn shows_no_options(seen: &Seen) -> bool {
    let has = |label: &str| seen.user.lines().any(|line| line.starts_with(label));
    !has("categories:") && !has("- ") && !has("new categories:")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_names_all_levels_of_a_short_text_and_shows_no_options() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, FREE).await;
        for words in [
            "The boiler was serviced in May.",
            "The boiler lost pressure.",
        ] {
            let (job, path) = filed(&ingest, &note("Home/Heating/Boiler", words)).await;
            assert_eq!(path, json!(["Home", "Heating", "Boiler"]));
            assert_eq!(job["batches"][0]["level"], 0);

            let asked = ingest.model.requests();
            assert_eq!(asked.len(), 1, "{asked:#?}");
            assert_eq!(line(&asked[0], "level:"), "0 of 3");
            assert!(shows_no_options(&asked[0]), "{}", asked[0].user);
            let schema = asked[0].schema.as_ref().unwrap();
            let fields = &schema["properties"]["chunks"]["items"]["required"];
            assert_eq!(*fields, json!(["id", "subject", "category", "topics"]));
        }
        assert_eq!(ingest.count("categories").await, 3);

        // What it is about is kept with the chunk, and found by no search.
        let told = "chunks WHERE subject = 'The boiler was serviced in May.'";
        assert_eq!(ingest.count(told).await, 1);
        let told = "chunks WHERE subject IS NOT NULL AND profile <> 'taxonomy'";
        assert_eq!(ingest.count(told).await, 0);
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn a_name_that_means_an_existing_category_is_folded_onto_it() {
    let ingest = Ingest::with(FREE).await;
    filed(
        &ingest,
        &note("Automotive/Repairs/Brakes", "New brakes for the car."),
    )
    .await;
    let (_, path) = filed(&ingest, &note("Vehicle/Repair/Brake", "The brakes squeak.")).await;
    assert_eq!(path, json!(["Automotive", "Repairs", "Brakes"]));
    let (_, path) = filed(&ingest, &note("Music/Piano/Lessons", "A sonata.")).await;
    assert_eq!(path, json!(["Music", "Piano", "Lessons"]));
    assert_eq!(ingest.names(1).await, ["Automotive", "Music"]);

    // A former name leads to its category, whatever that is called now.
    let categories = ingest.list("/v1/categories?level=1").await;
    let place = format!("/v1/categories/{}", categories[0]["id"]);
    let renamed = ingest.app.request(Method::PATCH, &place);
    let renamed = send(renamed.json(&json!({"name": "Zeppelin"}))).await;
    assert_eq!(renamed.status, 200, "{}", renamed.text);
    let (_, path) = filed(&ingest, &note("Automotive/Repairs/Brakes", "Again.")).await;
    assert_eq!(path, json!(["Zeppelin", "Repairs", "Brakes"]));
    assert_eq!(ingest.count("categories").await, 6);
    ingest.app.finish().await;
}

#[tokio::test]
async fn where_a_limit_forbids_a_new_category_the_nearest_is_taken() {
    let settings = [FREE, &[("TAXONOMY__MAX_CHILDREN", "2")]].concat();
    let ingest = Ingest::with(&settings).await;
    filed(
        &ingest,
        &note("Cooking/Cakes/Pancakes", "Pancakes need eggs."),
    )
    .await;
    filed(&ingest, &note("Finance/Taxes/Income", "The tax return.")).await;
    let (job, path) = filed(&ingest, &note("Baking/Bread/Rye", "A rye bread.")).await;
    assert_eq!(path[0], "Cooking");
    assert_eq!(ingest.names(1).await, ["Cooking", "Finance"]);
    let warnings = job["warnings"].to_string();
    assert!(warnings.contains("parent_full"), "{warnings}");
    assert_eq!(ingest.model.requests().len(), 1, "nothing is asked again");
    ingest.app.finish().await;
}

#[tokio::test]
async fn a_longer_text_is_named_level_by_level() {
    let ingest = Ingest::with(FREE).await;
    let paths = [
        "Home/Heating/Boiler",
        "Home/Garden/Hedge",
        "Music/Piano/Lessons",
    ];
    let text: String = paths
        .iter()
        .zip(1..)
        .map(|(path, at)| chunk(path, at))
        .collect();
    let job = ingest.succeed(&request(&text, &json!({}))).await;
    let chunks = ingest.chunks(&job).await;
    let found: Vec<String> = chunks
        .iter()
        .map(|chunk| serde_json::from_value(chunk["category_path"].clone()).unwrap())
        .map(|path: Vec<String>| path.join("/"))
        .collect();
    assert_eq!(found, paths);

    let asked = ingest.asked("classify");
    assert!(asked.iter().all(shows_no_options));
    let levels: Vec<&str> = asked.iter().map(|seen| line(seen, "level:")).collect();
    assert_eq!(levels[0], "1 of 3");
    assert!(!levels.contains(&"0 of 3"), "{levels:?}");
    ingest.app.finish().await;
}

#[tokio::test]
async fn a_small_model_is_known_by_its_name_and_a_wrong_answer_is_requested_again() {
    let settings = [&FREE[1..], &[("LLM__MODEL", "openai_stub:llama3.2:3b")]].concat();
    let ingest = Ingest::with(&settings).await;
    ingest.model.set_rule(|seen| {
        let wrong = json!({"chunks": [{"id": 1, "subject": "a", "category": "", "topics": ["b"]}]});
        if seen.user.contains("must not be empty") {
            Reply::sensible(seen)
        } else {
            Reply::json(wrong)
        }
    });

    let (job, path) = filed(&ingest, &note("Home/Heating/Boiler", "The boiler.")).await;
    assert_eq!(path, json!(["Home", "Heating", "Boiler"]));
    assert_eq!(job["batches"][0]["retries"], 1);
    assert!(shows_no_options(&ingest.model.requests()[0]));
    ingest.app.finish().await;
}

#[tokio::test]
async fn a_small_model_selects_from_the_eight_best_options() {
    let ingest = Ingest::with(FREE).await;
    let fields = [
        ("Finance", "The tax return is due in May."),
        ("Travel", "The flight to Rome leaves at nine."),
        ("Cooking", "Pancakes need eggs and flour."),
        ("Physics", "Photons have no mass."),
        ("Football", "The match ended without a goal."),
        ("Law", "The contract was signed by both parties."),
        ("Gardening", "The hedge is cut in autumn."),
        ("Religion", "The sermon was about mercy."),
        ("Chess", "The rook takes the bishop."),
        ("Music", "The piano lessons begin on Monday."),
    ];
    for (field, words) in fields {
        filed(
            &ingest,
            &note(&format!("{field}/{field} things/{field} notes"), words),
        )
        .await;
    }
    assert_eq!(ingest.names(1).await.len(), fields.len());

    ingest.model.clear();
    let question = "When do the piano lessons begin?";
    let body = json!({"query": question, "strategy": "one_shot"});
    let reply = ingest.app.post("/v1/queries", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let asked = ingest.asked("select");
    let options: Vec<&str> = asked[0]
        .user
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .collect();
    assert_eq!((options.len(), options[0]), (8, "Music"), "{options:?}");

    let id = reply.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/queries/{id}/replay");
    let replayed = ingest.app.post(&path, &json!({})).await;
    assert_eq!(replayed.status, 200, "{}", replayed.text);
    assert_eq!(replayed.json()["identical"], true, "{}", replayed.text);

    // By default the search and the embedded model decide.
    ingest.model.clear();
    let reply = ingest
        .app
        .post("/v1/queries", &json!({"query": question}))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(ingest.asked("select").len(), 0);
    assert_eq!(reply.json()["found"], true);
    ingest.app.finish().await;
}
