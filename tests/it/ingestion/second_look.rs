//! Passages that are filed already are looked at again as others come, by the embedded model alone, and nothing is lost on
//! the way to another category.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::count;

const CARDS: [&str; 4] = [
    "When will my new card arrive?",
    "My bank card was not delivered",
    "How long does the delivery of a card take?",
    "I am still waiting for my card in the post",
];
const RATES: [&str; 4] = [
    "Which exchange rate does the bank use?",
    "The exchange rate of my payment is wrong",
    "How is the exchange rate of a currency set?",
    "I got a bad exchange rate for my currency",
];

/// Enquiries about two matters in turn.
fn enquiries() -> impl Iterator<Item = String> {
    let each = |forms: [&'static str; 4]| (1..12).flat_map(move |n| forms.map(|form| format!("{form} Case {n}.")));
    each(CARDS).zip(each(RATES)).flat_map(|(card, rate)| [card, rate])
}

async fn bring(app: &TestApp, text: &str) -> Value {
    let body = json!({"text": text, "wait": true});
    let reply = app.post("/v1/ingestions", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let job = reply.json();
    assert_eq!(job["state"], "succeeded", "{job:#}");
    job
}

/// Categories whose count is not that of the rows below them.
async fn miscounted(database: &TestDatabase) -> i64 {
    let sql = "SELECT COUNT(*) FROM categories k WHERE k.chunk_count <> (SELECT COUNT(*) FROM chunks c \
               JOIN categories leaf ON leaf.id = c.category_id WHERE leaf.id = k.id OR leaf.parent_id = k.id)";
    count(database, sql).await
}

/// The leaf that holds most of the passages that begin like this.
async fn leaf_of(database: &TestDatabase, form: &str) -> i64 {
    let sql = format!(
        "SELECT category_id FROM chunks WHERE category_id IS NOT NULL AND text_content LIKE '{form}%' \
         GROUP BY category_id ORDER BY COUNT(*) DESC, category_id LIMIT 1"
    );
    count(database, &sql).await
}

#[tokio::test]
async fn what_lies_in_the_wrong_place_moves_to_the_right_one() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[("TAXONOMY__HIERARCHY_DEPTH", "2")]).await;
        let mut texts = enquiries();
        for text in texts.by_ref().take(52) {
            bring(&app, &text).await;
        }
        let database = &app.database;
        let (cards, rates) =
            (leaf_of(database, "When will my new card").await, leaf_of(database, "Which exchange").await);
        let parents = format!("SELECT COUNT(DISTINCT parent_id) FROM categories WHERE id IN ({cards}, {rates})");
        assert!(cards != rates && count(database, &parents).await == 1, "{engine:?}");
        let stray = format!("SELECT MAX(id) FROM chunks WHERE category_id = {rates}");
        let stray = count(database, &stray).await;
        // As if it had come when there was no better place for it.
        for sql in [
            format!("UPDATE chunks SET category_id = {cards} WHERE id = {stray}"),
            format!("UPDATE categories SET chunk_count = chunk_count + 1 WHERE id = {cards}"),
            format!(
                "UPDATE categories SET chunk_count = chunk_count - 1, created_at = created_at + 3600000000 WHERE id = {rates}"
            ),
        ] {
            database.execute(&sql).await;
        }
        let mut moved = Vec::new();
        for text in texts {
            let job = bring(&app, &text).await;
            moved.extend(job["result"]["moved"].as_array().unwrap().iter().cloned());
            if moved.iter().any(|one| one["chunk_id"] == stray) {
                break;
            }
        }
        let its: Vec<&Value> = moved.iter().filter(|one| one["chunk_id"] == stray).collect();
        assert_eq!(its.first().map(|one| &one["from"]), Some(&json!(cards)), "{engine:?}: {moved:?}");
        let chunk = app.get(&format!("/v1/chunks/{stray}")).await.json();
        assert_eq!(chunk["category_id"], its[its.len() - 1]["to"], "{engine:?}");
        assert!(chunk["text_content"].as_str().unwrap().contains("exchange rate"), "{engine:?}: {chunk}");
        let home = &chunk["category_id"];
        let then = chunk["created_at"].as_str().unwrap();
        let back = app.get(&format!("/v1/categories/{home}/chunks?limit=200&as_of={then}")).await.json();
        let there = back["items"].as_array().unwrap().iter().any(|one| one["chunk_id"] == stray);
        assert!(there, "{engine:?}: {back}");
        assert_eq!(miscounted(database).await, 0, "{engine:?}");
    }
}

#[tokio::test]
async fn who_does_not_want_it_keeps_everything_in_its_place() {
    let settings = [("TAXONOMY__HIERARCHY_DEPTH", "2"), ("TAXONOMY__SECOND_LOOK", "false")];
    let app = TestApp::with(&settings).await;
    for text in enquiries().take(56) {
        let job = bring(&app, &text).await;
        assert_eq!(job["result"]["moved"], json!([]));
    }
    let asked = "SELECT COUNT(*) FROM job_checkpoints WHERE step = 'second_look'";
    assert_eq!(count(&app.database, asked).await, 0);
}
