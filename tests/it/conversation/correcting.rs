//! Corrections: a user's terms replace a model's, and stay.

use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};
use crate::support::database::TestDatabase;

#[tokio::test]
async fn a_correction_stays_when_the_message_is_classified_again() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["billing"], 0.5),
            intent(&["shipping"], false),
        ));
        let thread = desk.thread("ann", None).await;
        let message = desk
            .say(&thread, &json!({"content": "My parcel is late."}))
            .await;
        let id = message["id"].as_str().unwrap();
        assert_eq!(desk.settled(id).await["corrected_fields"], json!([]));

        let change = json!({
            "topics": ["shipping", "order_status", "shipping"], "message_type": "follow_up", "importance": 0.8,
        });
        let path = format!("/v1/memories/{id}?user_id=ann");
        let reply = desk.patch(&path, &change).await;
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        let corrected = reply.json();
        assert_eq!(
            corrected["corrected_fields"],
            json!(["topics", "message_type", "importance"])
        );
        assert_eq!(
            corrected["metadata"]["topics"],
            json!(["shipping", "order_status"])
        );

        // The list by topic follows the correction.
        let listed = async |topic: &str| {
            let path = format!("/v1/memories?user_id=ann&type=message&topic={topic}");
            let found = desk.app.get(&path).await.json();
            found["items"].as_array().unwrap().len()
        };
        assert_eq!((listed("shipping").await, listed("billing").await), (1, 0));

        let again = desk
            .app
            .post(&format!("/v1/memories/{id}/enrich?user_id=ann"), &json!({}))
            .await;
        assert_eq!(again.status.as_u16(), 202, "{}", again.text);
        let done = desk.settled(id).await;
        assert_eq!(desk.seen("classify_message").len(), 2, "a model was asked");
        assert_eq!(done["corrected_fields"], corrected["corrected_fields"]);
        let metadata = &done["metadata"];
        assert_eq!(metadata["topics"], json!(["shipping", "order_status"]));
        assert_eq!(metadata["message_type"], "follow_up");
        assert_eq!(metadata["importance"], 0.8);
        assert_eq!(metadata["category"], "inquiry", "not corrected");
        assert_eq!((listed("shipping").await, listed("billing").await), (1, 0));

        // Null ends the correction: the next classification decides.
        let released = desk.patch(&path, &json!({"topics": null})).await.json();
        assert_eq!(
            released["corrected_fields"],
            json!(["message_type", "importance"])
        );
        desk.app
            .post(&format!("/v1/memories/{id}/enrich?user_id=ann"), &json!({}))
            .await;
        let done = desk.settled(id).await;
        assert_eq!(done["metadata"]["topics"], json!(["billing"]));
        assert_eq!(done["metadata"]["message_type"], "follow_up");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn an_approved_suggestion_does_not_change_a_corrected_message() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |_: &str| {
            let mut found = classified(&["general_inquiry"], 0.5);
            found["confidence"] = json!("low");
            found["suggested_topic"] = json!("warranty");
            found
        };
        desk.model.set_rule(answering(classify, intent(&[], false)));
        let thread = desk.thread("ann", None).await;
        let each: Vec<Value> = (0..6)
            .map(|n| json!({"content": format!("guarantee {n}")}))
            .collect();
        let stored = desk.say(&thread, &json!(each)).await;
        let ids: Vec<String> = stored["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["id"].as_str().unwrap().to_owned())
            .collect();
        for id in &ids {
            desk.settled(id).await;
        }

        let path = format!("/v1/memories/{}", ids[0]);
        let corrected = desk.patch(&path, &json!({"topics": ["returns"]})).await;
        assert_eq!(corrected.status.as_u16(), 200, "{}", corrected.text);
        let approved = desk
            .app
            .post(
                "/v1/admin/vocabulary/approve",
                &json!({"suggestion": "warranty"}),
            )
            .await
            .json();
        assert_eq!(approved["backfilled"], 5, "{approved}");
        let topics = async |id: &str| desk.memory(id).await["metadata"]["topics"].clone();
        assert_eq!(topics(&ids[0]).await, json!(["returns"]));
        assert_eq!(
            topics(&ids[1]).await,
            json!(["general_inquiry", "warranty"])
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn rejects_terms_that_the_vocabulary_lacks() {
    let desk = Desk::open().await;
    desk.model.set_rule(answering(
        |_| classified(&["billing"], 0.5),
        intent(&[], false),
    ));
    let thread = desk.thread("ann", None).await;
    let message = desk.say(&thread, &json!({"content": "Hello"})).await;
    let path = format!("/v1/memories/{}", message["id"].as_str().unwrap());
    desk.settled(message["id"].as_str().unwrap()).await;

    let wrong = json!({"topics": ["gardens"], "category": "praise", "message_type": "song"});
    let reply = desk.patch(&path, &wrong).await;
    reply.assert_problem(422, "invalid_request");
    let fields: Vec<String> = reply.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(fields, ["topics", "category", "message_type"]);

    let many = json!({"topics": ["refund", "shipping", "billing", "payment"]});
    desk.patch(&path, &many)
        .await
        .assert_problem(422, "invalid_request");
    let kept = desk.memory(message["id"].as_str().unwrap()).await;
    assert_eq!(kept["metadata"]["topics"], json!(["billing"]));
    assert_eq!(kept["corrected_fields"], json!([]));

    let preference = json!({"user_id": "ann", "type": "preference", "content": "Likes SMS"});
    let preference = desk.app.post("/v1/memories", &preference).await.json();
    let path = format!("/v1/memories/{}", preference["id"].as_str().unwrap());
    desk.patch(&path, &json!({"category": "inquiry"}))
        .await
        .assert_problem(422, "invalid_request");
    desk.app.finish().await;
}
