//! A memory is replaced once: whoever comes later learns by which memory.

use serde_json::{Value, json};

use super::Desk;
use crate::support::database::TestDatabase;

async fn add(desk: &Desk, content: &str, supersedes: Option<&str>) -> Value {
    let body = json!({"user_id": "ann", "content": content, "supersedes": supersedes});
    let reply = desk.app.post("/v1/memories", &body).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
    reply.json()
}

#[tokio::test]
async fn a_superseded_memory_cannot_be_superseded_again() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let bonn = add(&desk, "Lives in Bonn", None).await;
        let bonn = bonn["id"].as_str().unwrap();
        let rome = add(&desk, "Lives in Rome", Some(bonn)).await;

        let again = json!({"user_id": "ann", "content": "Lives in Oslo", "supersedes": bonn});
        let reply = desk.app.post("/v1/memories", &again).await;
        reply.assert_problem(409, "memory_superseded");
        assert_eq!(reply.json()["context"]["superseded_by"], rome["id"]);
        assert_eq!(desk.memory(bonn).await["superseded_by"], rome["id"]);
        let found = desk.app.get("/v1/memories?user_id=ann").await.json();
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");

        // The one that replaced it can be replaced, and a restored one too.
        let oslo = add(&desk, "Lives in Oslo", rome["id"].as_str()).await;
        let path = format!("/v1/memories/{bonn}");
        let restored = desk.patch(&path, &json!({"restore": true})).await;
        assert_eq!(restored.status.as_u16(), 200, "{}", restored.text);
        let cork = add(&desk, "Lives in Cork", Some(bonn)).await;
        assert_eq!(desk.memory(bonn).await["superseded_by"], cork["id"]);
        assert_eq!(oslo["superseded_by"], Value::Null);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn of_several_that_supersede_a_memory_at_once_one_does() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let old = add(&desk, "Lives in Bonn", None).await;
        let id = old["id"].as_str().unwrap();
        let mut asking = tokio::task::JoinSet::new();
        for n in 0..6 {
            let body =
                json!({"user_id": "ann", "content": format!("Lives in {n}"), "supersedes": id});
            let request = desk.app.request(reqwest::Method::POST, "/v1/memories");
            asking.spawn(crate::support::app::send(request.json(&body)));
        }

        let replies = asking.join_all().await;
        let (won, lost): (Vec<_>, Vec<_>) = replies
            .into_iter()
            .partition(|reply| reply.status.as_u16() == 201);
        assert_eq!(won.len(), 1);
        let winner = won[0].json()["id"].clone();
        for reply in lost {
            reply.assert_problem(409, "memory_superseded");
            assert_eq!(reply.json()["context"]["superseded_by"], winner);
        }

        assert_eq!(desk.memory(id).await["superseded_by"], winner);
        let found = desk.app.get("/v1/memories?user_id=ann").await.json();
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
        desk.app.finish().await;
    }
}
