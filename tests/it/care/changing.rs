//! What each operation does, what it refuses, and what a dry run says.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Setup, assert_done};
use crate::support::app::send;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn a_merged_leaf_gives_its_chunks_to_the_other() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        setup
            .ingest_file("/a.md", &["Home/Boiler", "Home/Boilers", "Work/Tax"])
            .await;
        // An earlier version, whose chunks move as well.
        setup.ingest_file("/b.md", &["Home/Boiler"]).await;
        setup.ingest_file("/b.md", &["Work/Tax"]).await;
        let (from, into) = (setup.id("Boiler").await, setup.id("Boilers").await);

        let before = setup.tree().await;
        let body = json!({"into": into, "dry_run": true});
        let path = format!("/v1/categories/{from}/merge");
        let would = assert_done(&setup.post(&path, &body).await);
        assert_eq!(setup.tree().await, before, "{engine:?}");
        assert_eq!(setup.changes().await, [] as [Value; 0], "{engine:?}");

        let done = assert_done(&setup.merge(from, into).await);
        for outcome in [&would, &done] {
            let effect =
                json!([{"id": from, "name": "Boiler", "effect": "merged", "into_id": into}]);
            assert_eq!(outcome["categories"], effect, "{engine:?}");
            assert_eq!(outcome["chunks_moved"], 2, "{engine:?}: {outcome}");
        }
        assert_eq!(would["dry_run"], true);
        assert_eq!(would["change"], Value::Null);

        let change = &setup.changes().await[0];
        assert_eq!(&done["change"], change, "{engine:?}");
        assert_eq!(
            (&change["kind"], &change["from"], &change["to"]),
            (&json!("merge"), &json!("Boiler"), &json!("Boilers"))
        );
        let paths = ["Home/Boilers 2", "Work/Tax 2"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;

        let gone = format!("/v1/categories/{from}");
        let gone = setup.ingest.app.get(&gone).await;
        gone.assert_problem(404, "not_found");
        setup
            .merge(from, into)
            .await
            .assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_merged_category_gives_its_children_to_the_other() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "House/Boiler", "Home/Roof", "House/Lawn"];
        setup.ingest_file("/a.md", &paths).await;
        let (from, into) = (setup.id("House").await, setup.id("Home").await);
        let done = assert_done(&setup.merge(from, into).await);

        assert_eq!(done["chunks_moved"], 1, "{engine:?}: {done}");
        let paths = ["Home/Boiler 2", "Home/Lawn 1", "Home/Roof 1"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;

        // Later filing under the former path goes to what took its place.
        let again = ["House/Boiler", "House/Lawn", "House/Stairs"];
        setup.ingest_file("/b.md", &again).await;
        let paths = [
            "Home/Boiler 3",
            "Home/Lawn 2",
            "Home/Roof 1",
            "Home/Stairs 1",
        ];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn a_moved_category_keeps_its_level_and_its_chunks() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Work/Tax", "Work/Boiler two", "Work/Pens"];
        setup.ingest_file("/a.md", &paths).await;
        let (home, work) = (setup.id("Home").await, setup.id("Work").await);
        let tax = setup.id("Tax").await;

        let done = assert_done(&setup.shift(tax, home).await);
        assert_eq!(
            (&done["change"]["from"], &done["change"]["to"]),
            (&json!("Work"), &json!("Home")),
            "{engine:?}"
        );
        let paths = [
            "Home/Boiler 1",
            "Home/Tax 1",
            "Work/Boiler two 1",
            "Work/Pens 1",
        ];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;

        setup.ingest_file("/b.md", &["Work/Tax", "Work/Pens"]).await;
        assert!(
            setup.paths("").await.contains(&"Home/Tax 2".to_owned()),
            "{engine:?}: {:?}",
            setup.paths("").await
        );

        for (id, parent, status, code) in [
            (home, work, 422, "invalid_request"),
            (tax, tax, 422, "invalid_request"),
            (tax, home, 422, "invalid_request"),
            (tax, 999_999, 422, "invalid_request"),
            (999_999, home, 404, "not_found"),
        ] {
            setup.shift(id, parent).await.assert_problem(status, code);
        }

        let two = setup.id("Boiler two").await;
        assert_eq!(setup.rename(two, "boiler").await.status, 200);
        let taken = setup.shift(two, home).await;
        taken.assert_problem(409, "category_exists");
    }
}

#[tokio::test]
async fn a_category_with_chunks_is_removed_only_into_another() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        setup
            .ingest_file("/a.md", &["Home/Boiler", "Home/Roof", "Work/Tax"])
            .await;
        let (roof, boiler) = (setup.id("Roof").await, setup.id("Boiler").await);
        let (home, work) = (setup.id("Home").await, setup.id("Work").await);

        let kept = setup.remove(roof, "").await;
        kept.assert_problem(409, "category_not_empty");
        for (query, status, code) in [
            (format!("?into={work}"), 422, "invalid_request"),
            (format!("?into={roof}"), 422, "invalid_request"),
            ("?into=999999".to_owned(), 422, "invalid_request"),
            ("?into=x".to_owned(), 422, "invalid_request"),
        ] {
            setup
                .remove(roof, &query)
                .await
                .assert_problem(status, code);
        }

        let query = format!("?into={boiler}");
        assert_eq!(setup.remove(roof, &query).await.status, 204, "{engine:?}");
        assert_eq!(setup.changes().await[0]["kind"], "remove", "{engine:?}");
        let query = format!("?into={work}");
        assert_eq!(setup.remove(home, &query).await.status, 204, "{engine:?}");
        let paths = ["Work/Boiler 2", "Work/Tax 1"];
        assert_eq!(setup.paths("").await, paths, "{engine:?}");
        setup.assert_sound().await;
    }
}

#[tokio::test]
async fn the_limit_of_a_parent_holds_for_a_person_too() {
    for database in TestDatabase::each().await {
        let settings = [("TAXONOMY__MAX_CHILDREN", "2")];
        let setup = Setup::with(database, &settings).await;
        let paths = ["Home/Boiler", "Home/Roof", "Work/Tax", "Work/Pens"];
        setup.ingest_file("/a.md", &paths).await;
        let (home, work) = (setup.id("Home").await, setup.id("Work").await);
        let before = setup.tree().await;

        let full = setup.shift(setup.id("Tax").await, home).await;
        full.assert_problem(422, "category_limit");
        let full = setup.merge(work, home).await;
        full.assert_problem(422, "category_limit");
        assert_eq!(setup.tree().await, before);
        assert_eq!(setup.changes().await, [] as [Value; 0]);

        // A closed category takes no room.
        let (tax, pens) = (setup.id("Tax").await, setup.id("Pens").await);
        assert_done(&setup.merge(pens, tax).await);
        setup.ingest_file("/b.md", &["Work/Phones"]).await;
        let phones = setup.paths("").await;
        assert!(phones.contains(&"Work/Phones 1".to_owned()), "{phones:?}");
    }
}

#[tokio::test]
async fn what_is_in_another_space_is_not_found() {
    let setup = Setup::on(TestDatabase::sqlite()).await;
    let job = setup
        .ingest_file("/a.md", &["Home/Boiler", "Home/Roof"])
        .await;
    let (boiler, roof) = (setup.id("Boiler").await, setup.id("Roof").await);
    let chunk = setup.chunks(&job).await[0];
    assert_done(&setup.rename(roof, "Roofs").await);
    let change = setup.changes().await[0]["id"].clone();

    for (method, path, body) in [
        (
            Method::POST,
            format!("/v1/categories/{boiler}/merge"),
            json!({"into": roof}),
        ),
        (
            Method::POST,
            format!("/v1/categories/{boiler}/move"),
            json!({"parent_id": roof}),
        ),
        (
            Method::DELETE,
            format!("/v1/categories/{boiler}?into={roof}"),
            Value::Null,
        ),
        (
            Method::PATCH,
            format!("/v1/chunks/{chunk}"),
            json!({"category_id": roof}),
        ),
        (
            Method::POST,
            format!("/v1/categories/changes/{change}/undo"),
            Value::Null,
        ),
    ] {
        let request = setup.ingest.app.request(method, &path);
        let request = request.header("x-memoir-space", "other");
        let request = if body.is_null() {
            request
        } else {
            request.json(&body)
        };
        send(request).await.assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn bad_input_is_refused() {
    let setup = Setup::on(TestDatabase::sqlite()).await;
    let job = setup.ingest_file("/a.md", &["Home/Boiler"]).await;
    let (home, leaf) = (setup.id("Home").await, setup.id("Boiler").await);
    let chunk = setup.chunks(&job).await[0];

    for (path, body, status, code) in [
        (
            format!("/v1/categories/{leaf}/merge"),
            json!({}),
            422,
            "invalid_request",
        ),
        (
            format!("/v1/categories/{leaf}/merge"),
            json!({"into": leaf}),
            422,
            "invalid_request",
        ),
        (
            format!("/v1/categories/{leaf}/merge"),
            json!({"into": home}),
            422,
            "invalid_request",
        ),
        (
            "/v1/categories/x/merge".to_owned(),
            json!({"into": home}),
            404,
            "not_found",
        ),
        (
            "/v1/categories/changes/x/undo".to_owned(),
            Value::Null,
            404,
            "not_found",
        ),
        (
            "/v1/categories/changes/77/undo".to_owned(),
            Value::Null,
            404,
            "not_found",
        ),
    ] {
        let reply = setup.send(Method::POST, &path, &body).await;
        reply.assert_problem(status, code);
    }

    let not_a_leaf = setup.move_chunk(chunk, home).await;
    not_a_leaf.assert_problem(422, "not_a_leaf");
    let unknown = setup.move_chunk(999_999, leaf).await;
    unknown.assert_problem(404, "not_found");
}

#[tokio::test]
async fn a_field_that_names_no_open_category_is_invalid() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let setup = Setup::on(database).await;
        let paths = ["Home/Boiler", "Home/Roof", "Work/Tax"];
        let job = setup.ingest_file("/a.md", &paths).await;
        let (boiler, roof) = (setup.id("Boiler").await, setup.id("Roof").await);
        let (tax, chunk) = (setup.id("Tax").await, setup.chunks(&job).await[0]);
        assert_done(&setup.merge(roof, boiler).await);
        let changes = setup.changes().await.len();

        for unknown in [roof, 999_999] {
            for (reply, field) in [
                (setup.merge(boiler, unknown).await, "into"),
                (setup.remove(tax, &format!("?into={unknown}")).await, "into"),
                (setup.shift(boiler, unknown).await, "parent_id"),
                (setup.move_chunk(chunk, unknown).await, "category_id"),
            ] {
                reply.assert_problem(422, "invalid_request");
                assert_eq!(
                    reply.json()["errors"][0]["field"],
                    field,
                    "{engine:?}: {}",
                    reply.text
                );
            }
        }
        assert_eq!(setup.changes().await.len(), changes, "{engine:?}");

        // Of two ways in which a change cannot be undone, each has its own advice.
        let merge = setup.changes().await[0]["id"].as_i64().unwrap();
        assert_done(&setup.undo(merge).await);
        let again = setup.undo(merge).await;
        again.assert_problem(409, "change_conflicts");
        assert!(
            again.text.contains("Nothing is left to undo"),
            "{engine:?}: {}",
            again.text
        );
    }
}
