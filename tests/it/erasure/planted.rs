//! After the deletion of a user, a source, a thread, a memory or a space, no marked word of it is in
//! any row, nor in an SQLite file; the words of another person all stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::planting::{GONE, KEPT, Person, Planted, SETTINGS, found, found_in_files};
use crate::support::database::TestDatabase;
use crate::support::ingest::Ingest;

type Places = BTreeSet<(String, String, String)>;

async fn open(database: TestDatabase) -> Ingest {
    Ingest::on(database, &SETTINGS).await
}

fn people(ingest: &Ingest) -> (Person<'_>, Person<'_>) {
    let person = |marker| Person {
        ingest,
        space: "default",
        marker,
    };
    (person(GONE), person(KEPT))
}

/// Plants everything for somebody, except work that runs.
async fn plant(person: Person<'_>) -> Planted {
    let mut planted = Planted::default();
    person.ingest.model.set_rule(person.rule());
    person.plant_source(&mut planted).await;
    person.plant_more_sources(&mut planted).await;
    person.plant_thread(&mut planted).await;
    person.plant_memory(&mut planted).await;
    person.plant_reads(&mut planted).await;
    person.plant_ended_jobs(&mut planted).await;
    planted
}

/// What a test plants must be found before it is deleted, or its absence would show nothing.
#[track_caller]
fn assert_planted(places: &Places, columns: &[(&str, &str)]) {
    for (table, column) in columns {
        let there = places
            .iter()
            .any(|(at, name, _)| at.ends_with(&format!("/{table}")) && name == column);
        assert!(there, "nothing is planted in {table}.{column}: {places:#?}");
    }
}

fn list(places: &Places) -> String {
    let each = places
        .iter()
        .map(|(table, column, word)| format!("{table}.{column}: {word}"));
    each.collect::<Vec<_>>().join("\n")
}

/// Nothing is left, right after the deletion and once everything has come to rest; the other
/// person's words are where they were.
async fn assert_gone(ingest: Ingest, kept: &Places, what: &str) {
    let database = Arc::clone(&ingest.app.database);
    let engine = database.engine;
    let mut left = found(&database, GONE).await;
    left.extend(found_in_files(&database, GONE));
    assert!(
        left.is_empty(),
        "{engine:?}, {what}, at once:\n{}",
        list(&left)
    );

    // Work that ran stops, or a restart finds what was queued.
    ingest
        .model
        .set_rule(memoir::scripted_model::Reply::sensible);
    let ingest = ingest.restart(&SETTINGS).await;
    let (gone, _) = people(&ingest);
    gone.all_settled().await;
    let mut left = found(&database, GONE).await;
    left.extend(found_in_files(&database, GONE));
    assert!(
        left.is_empty(),
        "{engine:?}, {what}, in the end:\n{}",
        list(&left)
    );

    let now = found(&database, KEPT).await;
    let missing: Places = kept.difference(&now).cloned().collect();
    assert!(
        missing.is_empty(),
        "{engine:?}, {what}, missing of another person:\n{}",
        list(&missing)
    );
    ingest.app.finish().await;
}

const OF_SOURCES: [(&str, &str); 14] = [
    ("sources", "path"),
    ("sources", "filename"),
    ("source_tags", "tag"),
    ("source_versions", "metadata_json"),
    ("source_versions", "note"),
    ("source_versions", "topic"),
    ("contextual_helpers", "text"),
    ("chunks", "text_content"),
    ("categories", "name"),
    ("search_entries", "tokens"),
    ("jobs", "result_json"),
    ("jobs", "log_json"),
    ("idempotency_keys", "response_json"),
    ("llm_calls", "output_json"),
];
const OF_USERS: [(&str, &str); 14] = [
    ("sources", "user_id"),
    ("threads", "user_id"),
    ("threads", "title"),
    ("memories", "content"),
    ("memories", "title"),
    ("memories", "suggested_topic"),
    ("memory_entities", "value"),
    ("memory_tags", "tag"),
    ("jobs", "user_id"),
    ("jobs", "error_json"),
    ("job_requests", "request_json"),
    ("queries", "request_json"),
    ("queries", "user_id"),
    ("queries", "receipt_json"),
];

#[tokio::test]
async fn nothing_of_a_deleted_user_is_left() {
    for database in TestDatabase::each().await {
        let ingest = open(database).await;
        let (gone, stays) = people(&ingest);
        plant(stays).await;
        let kept = found(&ingest.app.database, KEPT).await;
        assert_planted(&kept, &OF_SOURCES);

        let planted = plant(gone).await;
        let places = found(&ingest.app.database, GONE).await;
        assert_planted(&places, &OF_SOURCES);
        assert_planted(&places, &OF_USERS[..9]);
        assert_planted(&places, &OF_USERS[10..]);

        gone.delete(&format!("/v1/users/{}", gone.user_id())).await;
        answers_nothing(gone, &planted).await;
        assert_gone(ingest, &kept, "a user").await;
    }
}

/// A deletion with work in progress: jobs that wait for a model, and jobs behind them.
#[tokio::test]
async fn nothing_of_a_user_is_left_who_is_deleted_while_jobs_run() {
    for database in TestDatabase::each().await {
        let ingest = open(database).await;
        let (gone, stays) = people(&ingest);
        plant(stays).await;
        let kept = found(&ingest.app.database, KEPT).await;

        let mut planted = plant(gone).await;
        gone.plant_running_jobs(&mut planted).await;
        gone.delete(&format!("/v1/users/{}", gone.user_id())).await;
        for job in &planted.unfinished {
            let job = gone.get(&format!("/v1/jobs/{job}")).await;
            assert!(
                job.status == 404 || job.json()["state"] == "cancelled",
                "{}",
                job.text
            );
        }
        assert_gone(ingest, &kept, "a user with running jobs").await;
    }
}

/// Nothing that the API answers repeats what is gone, and what is kept of it is marked as erased.
async fn answers_nothing(gone: Person<'_>, planted: &Planted) {
    for id in &planted.queries {
        let replay = format!("/v1/queries/{id}/replay");
        let replay = gone.post_any(&replay, &json!({})).await;
        assert!(
            [404, 410].contains(&replay.status.as_u16()),
            "{}",
            replay.text
        );
    }
    for id in &planted.queries_of_others {
        let replay = format!("/v1/queries/{id}/replay");
        let replay = gone.post_any(&replay, &json!({})).await;
        replay.assert_problem(410, "erased");
        let receipt = gone.get(&format!("/v1/queries/{id}")).await;
        assert_eq!(receipt.status, 200, "{}", receipt.text);
        assert!(
            !receipt.text.to_lowercase().contains(GONE),
            "{}",
            receipt.text
        );
    }
    for (key, path, body) in &planted.idempotent {
        gone.repeat(key, path, body)
            .await
            .assert_problem(410, "erased");
    }

    let retrieve = json!({
        "userId": gone.user_id(), "sessionId": planted.thread, "useMemory": true,
        "query": format!("Which {}?", gone.word("boat")),
    });
    let retrieved = gone.ingest.app.post("/v1/memory/retrieve", &retrieve).await;
    assert!(
        retrieved.status != 200 || retrieved.json()["memories"] == json!([]),
        "{}",
        retrieved.text
    );

    let erasures = gone.get("/v1/erasures").await;
    assert_eq!(erasures.status, 200, "{}", erasures.text);
    assert!(!erasures.json()["items"].as_array().unwrap().is_empty());
    assert!(!erasures.text.contains(GONE), "{}", erasures.text);
}

#[tokio::test]
async fn nothing_of_a_deleted_source_is_left() {
    for database in TestDatabase::each().await {
        let ingest = open(database).await;
        let (gone, stays) = people(&ingest);
        plant(stays).await;
        let kept = found(&ingest.app.database, KEPT).await;

        // Only the source has this person's words, so the questions about it have none.
        let mut planted = Planted::default();
        gone.plant_source(&mut planted).await;
        let read =
            json!({"query": "When was it built, and by whom?", "strategy": "wide_branch", "n": 20});
        let result = gone.post("/v1/queries", &read).await;
        assert!(result.to_string().contains(GONE), "{result:#}");
        let job = json!({"query": "What was built in 1843?", "strategy": "wide_branch", "n": 20, "wait": false});
        let job = gone.post("/v1/queries", &job).await;
        gone.settled(job["id"].as_str().unwrap()).await;
        let places = found(&ingest.app.database, GONE).await;
        assert_planted(&places, &OF_SOURCES[..9]);

        gone.delete(&format!("/v1/sources/{}", planted.source))
            .await;
        for (key, path, body) in &planted.idempotent {
            let job = gone.repeat(key, path, body).await.json();
            assert_eq!(job["phase"], "erased", "{job:#}");
            assert_eq!(job["result"], json!(null), "{job:#}");
        }
        let left: Places = without_person(found(&ingest.app.database, GONE).await);
        assert!(left.is_empty(), "{}", list(&left));
        gone.delete(&format!("/v1/users/{}", gone.user_id())).await;
        assert_gone(ingest, &kept, "a source").await;
    }
}

#[tokio::test]
async fn nothing_of_a_deleted_thread_is_left() {
    for database in TestDatabase::each().await {
        let ingest = open(database).await;
        let (gone, stays) = people(&ingest);
        plant(stays).await;
        let kept = found(&ingest.app.database, KEPT).await;

        let mut planted = Planted::default();
        gone.plant_thread(&mut planted).await;
        let body = json!({"query": "What did I buy?", "user_id": gone.user_id(), "thread_id": planted.thread});
        gone.post("/v1/context", &body).await;
        let query =
            json!({"query": "What did I buy?", "user_id": gone.user_id(), "scope": "memories"});
        let result = gone.post("/v1/queries", &query).await;
        gone.delete(&format!(
            "/v1/threads/{}?user_id={}",
            planted.thread,
            gone.user_id()
        ))
        .await;
        let receipt = result["id"].as_str().unwrap_or_default();
        let replay = gone
            .post_any(&format!("/v1/queries/{receipt}/replay"), &json!({}))
            .await;
        assert_eq!(replay.status, 410, "{}", replay.text);

        let left: Places = without_person(found(&ingest.app.database, GONE).await);
        assert!(left.is_empty(), "{}", list(&left));
        gone.delete(&format!("/v1/users/{}", gone.user_id())).await;
        assert_gone(ingest, &kept, "a thread").await;
    }
}

#[tokio::test]
async fn nothing_of_a_deleted_memory_is_left() {
    for database in TestDatabase::each().await {
        let ingest = open(database).await;
        let (gone, stays) = people(&ingest);
        plant(stays).await;
        let kept = found(&ingest.app.database, KEPT).await;

        let mut planted = Planted::default();
        gone.plant_memory(&mut planted).await;
        for query in ["What does the person own?", "What does the person prefer?"] {
            for path in ["/v1/context", "/v1/queries"] {
                let mut body = json!({"query": query, "user_id": gone.user_id()});
                if path == "/v1/queries" {
                    body["scope"] = json!("memories");
                }
                gone.post(path, &body).await;
            }
        }

        let newer = gone
            .get(&format!("/v1/memories/{}", planted.memory))
            .await
            .json();
        let newer = newer["superseded_by"].as_str().unwrap().to_owned();
        for id in [newer, planted.memory] {
            gone.delete(&format!("/v1/memories/{id}?user_id={}", gone.user_id()))
                .await;
        }

        let left: Places = without_person(found(&ingest.app.database, GONE).await);
        assert!(left.is_empty(), "{}", list(&left));
        gone.delete(&format!("/v1/users/{}", gone.user_id())).await;
        assert_gone(ingest, &kept, "a memory").await;
    }
}

#[tokio::test]
async fn nothing_of_a_deleted_space_is_left() {
    for database in TestDatabase::each().await {
        let ingest = open(database).await;
        let (_, stays) = people(&ingest);
        plant(stays).await;
        let kept = found(&ingest.app.database, KEPT).await;

        let doomed = Person {
            ingest: &ingest,
            space: "doomed",
            marker: GONE,
        };
        let mut planted = plant(doomed).await;
        doomed.plant_running_jobs(&mut planted).await;
        stays.delete("/v1/admin/spaces/doomed?confirm=doomed").await;
        assert_gone(ingest, &kept, "a space").await;
    }
}

/// Without the name of the person, whose other data may stay.
fn without_person(places: Places) -> Places {
    let person = |word: &str| word == GONE;
    places
        .into_iter()
        .filter(|(.., word)| !person(word))
        .collect()
}
