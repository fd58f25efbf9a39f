//! Facts taken from messages: with their words, replaced and restored, and nothing that was not said.

use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};
use crate::support::database::TestDatabase;
use crate::support::probes::Api;
use memoir::scripted_model::{Reply as ModelReply, Seen};

/// Answers calls for facts by the text of the message, everything else as usual.
fn facts(
    by_text: impl Fn(&str) -> Value + Send + Sync + 'static,
) -> impl Fn(&Seen) -> ModelReply + Send + Sync + 'static {
    let usual = answering(|_| classified(&["shipping"], 0.5), intent(&[], false));
    move |seen: &Seen| match seen.stage.as_str() {
        "extract" => ModelReply::json(json!({"facts": by_text(&seen.user)})),
        _ => usual(seen),
    }
}

async fn finished(desk: &Desk, id: &Value) -> Value {
    let api = Api::at(desk.app.address);
    api.finished("default", id.as_str().unwrap()).await
}

async fn known(desk: &Desk, query: &str) -> Vec<Value> {
    let path = format!("/v1/memories?user_id=ann{query}");
    let list = desk.app.get(&path).await.json();
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn facts_name_their_words_and_replace_each_other_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(facts(|frame| {
            if frame.contains("Rome") && !frame.contains("known facts: none") {
                json!([{"type": "fact", "content": "Lives in Rome", "quote": "I live in Rome", "replaces": 1}])
            } else {
                json!([
                    {"type": "fact", "content": "Lives in Bonn", "quote": "I live in Bonn", "replaces": null},
                    {"type": "fact", "content": "Owns a castle in Spain", "quote": "I live in Bonn", "replaces": null},
                ])
            }
        }));
        let thread = desk.thread("ann", None).await;
        let said = desk
            .say(
                &thread,
                &json!({"content": "Grüße! I live in Bonn, by the river.", "extract": true, "created_at": "2025-01-01T00:00:00Z"}),
            )
            .await;
        let job = finished(&desk, &said["extraction_job_id"]).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        assert_eq!(
            (&job["result"]["facts"], &job["result"]["rejected"]),
            (&json!(1), &json!(1)),
            "{job}"
        );
        let facts = known(&desk, "").await;
        assert_eq!(facts.len(), 1);
        assert_eq!(
            (&facts[0]["content"], &facts[0]["source"]),
            (&json!("Lives in Bonn"), &json!("model"))
        );
        let evidence = &facts[0]["evidence"];
        assert_eq!(evidence["message_ids"], json!([said["id"]]));
        assert_eq!(
            (
                &evidence["quote"],
                &evidence["start_char"],
                &evidence["end_char"]
            ),
            (&json!("I live in Bonn"), &json!(7), &json!(21))
        );

        let later = desk
            .say(
                &thread,
                &json!({"content": "I live in Rome now.", "extract": true, "created_at": "2025-06-01T00:00:00Z"}),
            )
            .await;
        let job = finished(&desk, &later["extraction_job_id"]).await;
        assert_eq!(job["result"]["replaced"], 1, "{job}");
        let texts = async |query: &str| {
            let list = known(&desk, query).await;
            list.iter()
                .map(|one| one["content"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("").await, ["Lives in Rome"]);
        assert_eq!(
            texts("&as_of=2025-03-01T00:00:00Z").await,
            ["Lives in Bonn"]
        );
        let new = known(&desk, "").await[0].clone();
        assert_eq!(new["supersedes"], facts[0]["id"]);

        let old = format!("/v1/memories/{}", facts[0]["id"].as_str().unwrap());
        let restored = desk.patch(&old, &json!({"restore": true})).await;
        assert_eq!(restored.status.as_u16(), 200, "{}", restored.text);
        assert_eq!(texts("").await.len(), 2);

        // What quotes a thread goes with it.
        let receipt = desk.delete(&format!("/v1/threads/{thread}")).await.json();
        assert_eq!(receipt["memories"], 2, "{receipt}");
        assert!(known(&desk, "&superseded=true").await.is_empty());
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn what_was_said_later_wins_whichever_was_stored_first() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(facts(|frame| {
            let replaces = if frame.contains("known facts: none") { Value::Null } else { json!(1) };
            let place = if frame.contains("I live in Rome") { "Rome" } else { "Bonn" };
            let quote = format!("I live in {place}");
            json!([{"type": "fact", "content": format!("Lives in {place}"), "quote": quote, "replaces": replaces}])
        }));
        let thread = desk.thread("ann", None).await;
        // The newer chat is stored first, then an older one is imported.
        for (content, day) in [
            ("I live in Rome.", "2025-06-01"),
            ("I live in Bonn.", "2024-01-01"),
        ] {
            let said = json!({"content": content, "extract": true, "created_at": format!("{day}T00:00:00Z")});
            let said = desk.say(&thread, &said).await;
            let job = finished(&desk, &said["extraction_job_id"]).await;
            assert_eq!(job["state"], "succeeded", "{job}");
            assert_eq!(job["result"]["replaced"], 0, "{job}");
        }

        let asked = &desk.seen("extract")[1].user;
        assert!(asked.contains("1. Lives in Rome (2025-06-01)"), "{asked}");
        assert!(asked.contains("day of the message: 2024-01-01"), "{asked}");
        let facts = known(&desk, "").await;
        assert_eq!(facts.len(), 1);
        assert_eq!(facts[0]["content"], "Lives in Rome");
        let then = known(&desk, "&as_of=2024-03-01T00:00:00Z").await;
        assert_eq!(then.len(), 1);
        assert_eq!(then[0]["content"], "Lives in Bonn");
        let context = desk
            .context(&json!({"query": "Where do I live?", "user_id": "ann"}))
            .await;
        let shown = context["memories"].as_array().unwrap().iter();
        let facts: Vec<&Value> = shown.filter(|one| one["type"] == "fact").collect();
        assert!(
            facts.iter().all(|one| one["content"] != "Lives in Bonn"),
            "{context}"
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn words_that_were_not_said_are_asked_again_and_never_stored() {
    let desk = Desk::open().await;
    desk.model.set_rule(facts(
        |_| json!([{"type": "fact", "content": "Lives in Paris", "quote": "I live in Paris", "replaces": null}]),
    ));
    let thread = desk.thread("ann", None).await;
    let said = desk
        .say(
            &thread,
            &json!({"messages": [
                {"content": "I live in Bonn."},
                {"role": "assistant", "content": "I live in Paris, said the robot."},
            ], "extract": true}),
        )
        .await;
    assert_eq!(said["items"][1]["extraction_job_id"], Value::Null);
    let job = finished(&desk, &said["items"][0]["extraction_job_id"]).await;
    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(job["result"]["facts"], 0, "{job}");
    assert!(known(&desk, "").await.is_empty());
    assert!(desk.seen("extract").len() >= 2, "asked again");
    desk.app.finish().await;
}

#[tokio::test]
async fn the_embedded_model_takes_simple_statements_word_for_word() {
    let desk = Desk::on(TestDatabase::sqlite(), &[("LLM__MODEL", "local:embedded")]).await;
    let thread = desk.thread("ann", None).await;
    let mut jobs = Vec::new();
    for text in [
        "Hello! I live in Bonn. Do I need an umbrella?",
        "I moved to Rome. I love espresso.",
        "What is the weather like?",
    ] {
        let said = desk
            .say(&thread, &json!({"content": text, "extract": true}))
            .await;
        jobs.push(finished(&desk, &said["extraction_job_id"]).await);
    }

    let counts: Vec<&Value> = jobs.iter().map(|job| &job["result"]["facts"]).collect();
    assert_eq!(counts, [&json!(1), &json!(2), &json!(0)]);
    let mut texts: Vec<Value> = known(&desk, "")
        .await
        .iter()
        .map(|one| json!([one["type"], one["content"]]))
        .collect();
    texts.sort_by_key(ToString::to_string);
    assert_eq!(
        texts,
        [
            // Whether the first is still true is not for it to decide.
            json!(["fact", "I live in Bonn"]),
            json!(["fact", "I moved to Rome"]),
            json!(["preference", "I love espresso"])
        ]
    );
    desk.app.finish().await;
}
