//! Topics that the embedded model proposes where the vocabulary fits too few of a user's messages.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

const BEES: [&str; 9] = [
    "I opened the hive this morning and the bees were calm.",
    "The queen of the second hive has stopped laying.",
    "How many frames does a hive need before winter?",
    "Margriet told me that my hive looks weak.",
    "I painted the roof of a hive yellow.",
    "Margriet brought her smoker to the meadow.",
    "The wasps came back to the meadow at noon.",
    "I walked to the meadow with Margriet.",
    "Good evening.",
];

/// Stores messages of a user and waits until the jobs about them have ended.
async fn say(app: &TestApp, user_id: &str, texts: &[&str]) -> Vec<String> {
    let thread = app.post("/v1/threads", &json!({"user_id": user_id})).await;
    let thread = thread.json()["id"].as_str().unwrap().to_owned();
    let messages: Vec<Value> = texts.iter().map(|text| json!({"content": text})).collect();
    let path = format!("/v1/threads/{thread}/messages");
    let stored = app.post(&path, &json!(messages)).await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    loop {
        let jobs = app.get("/v1/jobs?kind=enrich&limit=100").await.json();
        let is_left = |job: &&Value| job["state"] == "queued" || job["state"] == "running";
        let jobs = jobs["items"].as_array().unwrap().clone();
        let Some(left) = jobs.iter().find(is_left) else {
            break;
        };
        app.get(&format!("/v1/jobs/{}?wait=5", left["id"].as_str().unwrap()))
            .await;
    }

    let items = stored.json()["items"].as_array().unwrap().clone();
    let ids = items
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned());
    ids.collect()
}

async fn suggestions(app: &TestApp, min_frequency: i64) -> Vec<(String, i64)> {
    let path = format!("/v1/vocabulary/suggestions?min_frequency={min_frequency}");
    let found = app.get(&path).await.json();
    let items = found["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let suggestion = item["suggestion"].as_str().unwrap().to_owned();
            (suggestion, item["frequency"].as_i64().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn nouns_that_recur_in_unfit_messages_are_suggested_and_can_be_approved() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let ids = say(&app, "ann", &BEES).await;
        let found = suggestions(&app, 1).await;
        assert_eq!(
            found,
            [("hive".to_owned(), 5), ("meadow".to_owned(), 3)],
            "no name, no stop word, nothing from a single message"
        );

        let approved = json!({"suggestion": "hive"});
        let approved = app
            .post("/v1/admin/vocabulary/approve", &approved)
            .await
            .json();
        assert_eq!(approved["backfilled"], 5, "{approved}");
        let first = app.get(&format!("/v1/memories/{}", ids[0])).await.json();
        let topics = first["metadata"]["topics"].as_array().unwrap();
        assert!(topics.contains(&json!("hive")), "{first}");
        assert_eq!(suggestions(&app, 1).await, [("meadow".to_owned(), 3)]);
        app.finish().await;
    }
}

#[tokio::test]
async fn after_a_suggestion_the_next_one_waits_for_more_messages() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let hives = async || suggestions(&app, 1).await[0].clone();
        say(&app, "ann", &BEES).await;
        assert_eq!(hives().await, ("hive".to_owned(), 5));
        say(&app, "ann", &BEES[..1]).await;
        assert_eq!(hives().await, ("hive".to_owned(), 5));
        let more: Vec<&str> = (0..19).map(|n| BEES[n % 5]).collect();
        say(&app, "ann", &more).await;
        assert_eq!(hives().await, ("hive".to_owned(), 25));
        app.finish().await;
    }
}

#[tokio::test]
async fn messages_of_several_users_are_not_mixed() {
    let app = TestApp::on(TestDatabase::sqlite(), &[]).await;
    // Each of them says too little to propose anything.
    for (user_id, texts) in [("ann", &BEES[..4]), ("bob", &BEES[4..])] {
        say(&app, user_id, texts).await;
    }
    assert_eq!(suggestions(&app, 1).await, []);
    app.finish().await;
}

#[tokio::test]
async fn nothing_is_suggested_while_the_vocabulary_fits_most_messages() {
    let app = TestApp::on(TestDatabase::sqlite(), &[]).await;
    let fitting = [
        "I want a refund for the lamp.",
        "When will the refund arrive?",
        "My payment failed.",
        "Please cancel my subscription.",
        "I was billed twice, please check the billing.",
        "How much is the shipping?",
        "The shipping took three weeks.",
        "I cannot access my account.",
        "Can you change the payment method?",
        "What is the pricing of the subscription?",
    ];
    let texts: Vec<&str> = fitting.iter().chain(&BEES[..4]).copied().collect();
    say(&app, "ann", &texts).await;
    assert_eq!(suggestions(&app, 1).await, []);
    app.finish().await;
}
