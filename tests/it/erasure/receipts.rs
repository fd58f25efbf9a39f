//! The receipts: who may list them, what they show, and that they stay.

use memoir::model::erasure::SubjectKind;
use reqwest::Method;
use serde_json::{Value, json};

use super::{MARK, assert_gone, delete, hash, ingest, marked_text};
use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

const KEYS: &str = r#"[
    {"name": "root", "key": "root-key", "space": "*", "role": "admin"},
    {"name": "reader", "key": "reader-key", "space": "default", "role": "read"},
    {"name": "writer", "key": "writer-key", "space": "default", "role": "user"},
    {"name": "of another", "key": "other-key", "space": "other", "role": "admin"}
]"#;

async fn call(app: &TestApp, key: &str, method: Method, path: &str) -> Reply {
    send(app.request(method, path).bearer_auth(key)).await
}

#[tokio::test]
async fn receipts_tell_who_deleted_and_only_admins_list_them() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    for user in ["ann", "bob", "cem"] {
        let path = format!("/v1/users/{user}");
        let gone = call(&app, "writer-key", Method::DELETE, &path).await.json();
        assert_eq!(gone["key_name"], "writer", "{gone}");
    }

    for key in ["reader-key", "writer-key"] {
        let refused = call(&app, key, Method::GET, "/v1/erasures").await;
        refused.assert_problem(403, "forbidden");
    }

    let other = call(&app, "other-key", Method::GET, "/v1/erasures").await;
    assert_eq!(other.json()["items"], json!([]));

    let list = "/v1/erasures?limit=2";
    let first = call(&app, "root-key", Method::GET, list).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = format!("/v1/erasures?limit=2&cursor={cursor}");
    let second = call(&app, "root-key", Method::GET, &second).await.json();
    let all: Vec<&Value> = [&first, &second]
        .into_iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .collect();
    let hashes: Vec<&str> = all
        .iter()
        .map(|one| one["subject_sha256"].as_str().unwrap())
        .collect();
    let wanted = ["cem", "bob", "ann"].map(|user| hash(SubjectKind::User, user));
    assert_eq!(hashes, wanted);
    let id = all[0]["id"].as_str().unwrap();
    let path = format!("/v1/erasures/{id}");
    let one = call(&app, "root-key", Method::GET, &path).await;
    assert_eq!(one.json(), *all[0]);
    let none = call(&app, "root-key", Method::GET, "/v1/erasures/x").await;
    none.assert_problem(404, "not_found");
    app.finish().await;
}

#[tokio::test]
async fn a_deleted_space_leaves_only_its_receipt() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        ingest(&app, &marked_text("ann")).await;
        let question = json!({"query": "Who lights the lamp?", "user_id": "ann"});
        assert_eq!(app.post("/v1/queries", &question).await.status, 200);
        // The receipt may be written a moment after the answer.
        let asked = app.get("/v1/queries").await.json();
        assert_eq!(asked["items"].as_array().map(Vec::len), Some(1));
        let receipt = delete(&app, "/v1/admin/spaces/default?confirm=default").await;
        assert_eq!(receipt["kind"], "space", "{receipt}");
        assert!(
            receipt["removed"]["text_uses"].as_u64() > Some(0),
            "{receipt}"
        );
        assert_gone(&app, MARK).await;

        let listed = app.get("/v1/erasures").await.json();
        assert_eq!(listed["items"][0]["id"], receipt["id"], "{listed}");
        let gone = app.get("/v1/admin/spaces/default").await;
        gone.assert_problem(404, "not_found");
        app.finish().await;
    }
}

/// As after a crash right after the receipt was stored.
#[tokio::test]
async fn an_interrupted_erasure_is_completed_at_the_next_start() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        ingest(&app, &marked_text("ann")).await;
        let database = std::sync::Arc::clone(&app.database);
        app.finish().await;
        let used = memoir::base::ids::use_of_user("ann");
        let pending = json!({"subject": "ann", "user_id": "ann", "used": [used]});
        let hash = hash(SubjectKind::User, "ann");
        database
            .execute(&format!(
                "INSERT INTO erasures (space, id, seq, kind, subject_sha256, rows_json, pending_json, created_at) \
                 VALUES ('default', '0199a7e0-0000-7000-8000-000000000000', 1, 'user', '{hash}', '{{}}', '{pending}', 1)"
            ))
            .await;

        let url = database.url.clone();
        let app = TestApp::at(&url, database, &[]).await;
        let finished = async || {
            let list = app.get("/v1/erasures").await.json();
            list["items"][0]["finished_at"].is_string()
        };
        crate::support::ingest::until("the erasure is completed", finished).await;
        assert_gone(&app, MARK).await;
        assert_eq!(app.get("/v1/sources").await.json()["items"], json!([]));
        app.finish().await;
    }
}

/// A repeat continues what was interrupted, and then nothing is left to do: what is stored afterwards
/// stays, also after a restart.
#[tokio::test]
async fn a_repeated_erasure_leaves_what_is_stored_afterwards() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        ingest(&app, &marked_text("ann")).await;
        let database = std::sync::Arc::clone(&app.database);
        for (kind, subject, id) in [
            (
                SubjectKind::User,
                "ann",
                "0199a7e0-0000-7000-8000-000000000001",
            ),
            (
                SubjectKind::User,
                "ann",
                "0199a7e0-0000-7000-8000-000000000002",
            ),
            (
                SubjectKind::Space,
                "default",
                "0199a7e0-0000-7000-8000-000000000003",
            ),
        ] {
            let pending = json!({"subject": subject, "user_id": subject});
            let (kind, hash) = (kind.into_str(), hash(kind, subject));
            database
                .execute(&format!(
                    "INSERT INTO erasures (space, id, seq, kind, subject_sha256, rows_json, pending_json, created_at) \
                     VALUES ('default', '{id}', 0, '{kind}', '{hash}', '{{}}', '{pending}', 1)"
                ))
                .await;
        }

        delete(&app, "/v1/users/ann").await;
        delete(&app, "/v1/admin/spaces/default?confirm=default").await;
        assert_gone(&app, MARK).await;
        let list = app.get("/v1/erasures").await.json();
        let list = list["items"].as_array().unwrap();
        assert_eq!(list.len(), 3, "no further receipt: {list:?}");
        assert!(
            list.iter().all(|one| one["finished_at"].is_string()),
            "{list:?}"
        );

        ingest(&app, &marked_text("ann")).await;
        app.finish().await;
        let url = database.url.clone();
        let app = TestApp::at(&url, database, &[]).await;
        let sources = app.get("/v1/sources").await.json();
        assert_eq!(sources["items"].as_array().map(Vec::len), Some(1));
        app.finish().await;
    }
}
