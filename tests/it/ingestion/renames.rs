//! Renamed categories: the embedded model renames a leaf that has grown beyond its name, names of users
//! stay, and a former name still leads to its category.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::count;
use crate::support::library::Library;

/// One leaf for everything, so that the tests do not depend on where a text is filed.
const ONE_LEAF: &[(&str, &str)] = &[
    ("TAXONOMY__HIERARCHY_DEPTH", "2"),
    ("TAXONOMY__MAX_CATEGORIES_DEFAULT", "1"),
];
const NAME: &str = "Wedding photographs";

fn report(number: usize) -> String {
    format!(
        "The radiator in room {number} was cold in the morning. The plumber opened the radiator and let the air out."
    )
}

async fn ingest(app: &TestApp, body: &Value) -> Value {
    let mut body = body.clone();
    body["wait"] = json!(true);
    let reply = app.post("/v1/ingestions", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let job = reply.json();
    assert_eq!(job["state"], "succeeded", "{job:#}");
    job["result"].clone()
}

async fn patch(app: &TestApp, id: i64, name: &str) -> Reply {
    let request = app.request(Method::PATCH, &format!("/v1/categories/{id}"));
    send(request.json(&json!({"name": name}))).await
}

async fn name_of(app: &TestApp, id: i64) -> String {
    let category = app.get(&format!("/v1/categories/{id}")).await.json();
    category["name"].as_str().unwrap().to_owned()
}

async fn changes(app: &TestApp, filter: &str) -> Vec<Value> {
    let reply = app.get(&format!("/v1/categories/changes{filter}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_leaf_that_has_grown_is_renamed_after_most_of_its_chunks() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, ONE_LEAF).await;
        let library = Library::at(&app.database.url).await;
        let path = ["Home", NAME];
        for number in 0..7 {
            let file = format!("/report-{number}.txt");
            library.add(&file, &[(&path, &report(number))]).await;
        }

        let leaf = library.category(&path).await;
        let ask = json!({"query": "Which radiator was cold?", "strategy": "one_shot", "mode": "retrieve"});
        let before = app.post("/v1/queries", &ask).await.json();
        assert_eq!(
            before["paths"][0]["names"],
            json!(path),
            "{engine:?}: {before:#}"
        );

        let result = ingest(&app, &json!({"text": report(7)})).await;
        let renamed = json!([{"category_id": leaf, "from": NAME, "to": "Radiator"}]);
        assert_eq!(result["renamed"], renamed, "{engine:?}");
        assert_eq!(name_of(&app, leaf).await, "Radiator", "{engine:?}");

        let all = changes(&app, "").await;
        assert_eq!(all.len(), 1, "{engine:?}: {all:?}");
        let change = &all[0];
        assert_eq!(
            (
                &change["from"],
                &change["to"],
                &change["actor"],
                &change["kind"]
            ),
            (
                &json!(NAME),
                &json!("Radiator"),
                &json!("embedded"),
                &json!("rename")
            ),
            "{engine:?}"
        );
        let reason = change["reason"].as_str().unwrap();
        assert!(
            reason.contains("0 of 8") && reason.contains("fits 8"),
            "{reason}"
        );
        assert!(change["created_at"].is_string(), "{engine:?}");

        // A walk sees the new name; a receipt from before keeps its own.
        let after = app.post("/v1/queries", &ask).await.json();
        let path = json!(["Home", "Radiator"]);
        assert_eq!(after["paths"][0]["names"], path, "{engine:?}: {after:#}");
        let id = before["id"].as_str().unwrap();
        let replay = app
            .post(&format!("/v1/queries/{id}/replay"), &json!({}))
            .await
            .json();
        assert_eq!(replay["identical"], true, "{engine:?}: {replay:#}");

        // The name fits now, so it stays.
        for number in 8..17 {
            let result = ingest(&app, &json!({"text": report(number)})).await;
            assert_eq!(result["renamed"], json!([]), "{engine:?}");
        }
        assert_eq!(changes(&app, "").await.len(), 1, "{engine:?}");
    }
}

#[tokio::test]
async fn a_name_given_or_changed_by_a_user_stays() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, ONE_LEAF).await;
        let library = Library::at(&app.database.url).await;
        let root = library.category(&["Home"]).await;
        let body = json!({"name": NAME, "parent_id": root});
        let leaf = app.post("/v1/categories", &body).await.json();
        let leaf = leaf["id"].as_i64().unwrap();
        for number in 0..16 {
            let result = ingest(&app, &json!({"text": report(number)})).await;
            assert_eq!(result["renamed"], json!([]), "{engine:?}");
        }
        assert_eq!(name_of(&app, leaf).await, NAME, "{engine:?}");

        // The embedded model named this one, until a user renames it.
        assert_eq!(patch(&app, root, "House").await.status, 200, "{engine:?}");
        let change = &changes(&app, &format!("?category_id={root}")).await[0];
        assert_eq!(
            (
                &change["from"],
                &change["to"],
                &change["actor"],
                &change["reason"]
            ),
            (
                &json!("Home"),
                &json!("House"),
                &json!("user"),
                &Value::Null
            ),
            "{engine:?}"
        );

        assert_eq!(patch(&app, leaf, "Prints").await.status, 200, "{engine:?}");
        let page = app.get("/v1/categories/changes?limit=1").await.json();
        assert_eq!(page["items"][0]["to"], "Prints", "{engine:?}");
        let next = page["next_cursor"].as_str().unwrap();
        let filter = format!("?limit=1&cursor={next}");
        assert_eq!(changes(&app, &filter).await[0]["to"], "House", "{engine:?}");
    }
}

#[tokio::test]
async fn a_former_name_leads_to_its_category() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[]).await;
        let text = |year: usize| {
            format!(
                "# Boiler service\n\nThe boiler was serviced in {year}. The technician cleaned the burner.\n"
            )
        };

        let body = |year: usize| json!({"text": text(year), "path": "/boiler.md"});
        ingest(&app, &body(2023)).await;
        let leaves = app.get("/v1/categories?level=3").await.json();
        let leaf = &leaves["items"][0];
        assert_eq!(leaf["name"], "Boiler", "{engine:?}: {leaves}");

        let id = leaf["id"].as_i64().unwrap();
        assert_eq!(patch(&app, id, "Heating checks").await.status, 200);
        let result = ingest(&app, &body(2024)).await;
        assert_eq!(result["categories_created"], 0, "{engine:?}: {result}");
        let chunks = app.get(&format!("/v1/categories/{id}/chunks")).await.json();
        let found = chunks["items"][0]["text_content"].as_str().unwrap();
        assert_eq!(found, text(2024), "{engine:?}");

        // A name that the category has again is no alias any more.
        let sql = "SELECT COUNT(*) FROM category_aliases";
        assert_eq!(count(&app.database, sql).await, 1, "{engine:?}");
        assert_eq!(patch(&app, id, "  BOILER").await.status, 200);
        let sql = "SELECT COUNT(*) FROM category_aliases WHERE name_key = 'heating checks'";
        assert_eq!(count(&app.database, sql).await, 1, "{engine:?}");
    }
}

#[tokio::test]
async fn a_name_that_a_sibling_has_is_refused() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[]).await;
        let made = async |name: &str| {
            let reply = app.post("/v1/categories", &json!({"name": name})).await;
            reply.json()["id"].as_i64().unwrap()
        };
        let (sea, land) = (made("Sea").await, made("Land").await);

        patch(&app, land, " sea ")
            .await
            .assert_problem(409, "category_exists");
        patch(&app, land, " ")
            .await
            .assert_problem(422, "invalid_request");
        patch(&app, 999_999, "Sky")
            .await
            .assert_problem(404, "not_found");
        assert_eq!(changes(&app, "").await, Vec::<Value>::new(), "{engine:?}");

        // Another spelling of its own name is allowed, and no alias.
        assert_eq!(patch(&app, sea, "SEA").await.status, 200, "{engine:?}");
        assert_eq!(name_of(&app, sea).await, "SEA", "{engine:?}");
        let aliases = count(&app.database, "SELECT COUNT(*) FROM category_aliases").await;
        assert_eq!(aliases, 0, "{engine:?}");
    }
}
