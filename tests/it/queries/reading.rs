//! Which chunks of the leaves are read, in which order, and from which sources.

use serde_json::{Value, json};

use super::{each, texts, three_by_three};
use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::library::{Desk, choosing};
use reqwest::Method;

const HERE: &[&str] = &["A", "B", "C"];
const THERE: &[&str] = &["A", "B", "D"];

#[tokio::test]
async fn chunks_are_ordered_by_time_and_number() {
    let desk = Desk::open().await;
    desk.library
        .add(
            "/1.txt",
            &[(HERE, "one"), (HERE, "two"), (THERE, "elsewhere")],
        )
        .await;

    desk.library.add("/2.txt", &[(HERE, "three")]).await;
    desk.model.set_rule(choosing(&[("3", &["D", "C"])]));
    let result = desk
        .ask_well(json!({"query": "?", "mode": "retrieve", "strategy": "wide_branch"}))
        .await;

    // The path with the higher rank first; within a path by time, equal times by number.
    assert_eq!(texts(&result), ["elsewhere", "one", "two", "three"]);
    let ids: Vec<i64> = each(&result["chunks"], "chunk_id")
        .iter()
        .map(|id| id.as_i64().unwrap())
        .collect();

    assert!(ids[1] < ids[2] && ids[2] < ids[3]);
    assert_eq!(
        each(&result["chunks"], "created_at")[1],
        each(&result["chunks"], "created_at")[2]
    );

    for field in [
        "source_id",
        "source_version",
        "start_char",
        "end_char",
        "created_at",
        "category_path",
    ] {
        assert!(!result["chunks"][0][field].is_null(), "{field}");
    }

    assert_eq!(each(&result["retrievals"], "chunk_count"), [1, 3]);
    assert_eq!(
        result["retrievals"][1]["latency_ms"], 0.0,
        "both were read in one trip"
    );

    desk.close().await;
}

#[tokio::test]
async fn pages_and_limits_keep_the_order() {
    let desk = Desk::open().await;
    for number in 0..5 {
        let (one, two) = (format!("c{number}"), format!("d{number}"));
        desk.library
            .add(&format!("/{number}.txt"), &[(HERE, &one), (THERE, &two)])
            .await;
    }

    desk.model.set_rule(choosing(&[("3", &["C", "D"])]));
    let body = json!({"query": "?", "mode": "retrieve", "strategy": "wide_branch"});
    let whole = desk.ask_well(body.clone()).await;
    assert_eq!(texts(&whole).len(), 10);
    assert_eq!(whole["next_cursor"], Value::Null);

    let (mut gathered, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    desk.model.clear();
    loop {
        let mut body = body.clone();
        body["limit"] = json!(2);
        if !cursor.is_null() {
            body["cursor"] = cursor;
        }

        let page = desk.ask_well(body).await;
        assert!(texts(&page).len() <= 2);
        assert_eq!(page["path_errors"], json!([]));
        gathered.extend(page["chunks"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
        pages += 1;
        if cursor.is_null() {
            break;
        }

        assert_eq!(each(&page["warnings"], "code"), ["limited"]);
    }

    assert_eq!(
        (Value::Array(gathered), pages),
        (whole["chunks"].clone(), 5)
    );

    assert_eq!(
        desk.seen("select").len(),
        1,
        "only the first page is walked"
    );

    let mut first = body.clone();
    first["per_path_limit"] = json!(1);
    assert_eq!(texts(&desk.ask_well(first.clone()).await), ["c0", "d0"]);
    first["limit"] = json!(1);
    let page = desk.ask_well(first.clone()).await;

    first["cursor"] = page["next_cursor"].clone();
    assert_eq!(
        (texts(&page), texts(&desk.ask_well(first).await)),
        (vec!["c0".to_owned()], vec!["d0".to_owned()])
    );

    for (change, with) in [
        ("query", json!("another")),
        ("tags", json!(["x"])),
        ("strategy", json!("zoom_in")),
    ] {
        let mut other = body.clone();
        other["cursor"] = page["next_cursor"].clone();
        other[change] = with;
        desk.ask(other).await.assert_problem(400, "invalid_cursor");
    }

    let mut forged = body;
    forged["cursor"] = json!("bm9uc2Vuc2U");
    desk.ask(forged).await.assert_problem(400, "invalid_cursor");
    desk.close().await;
}

/// If the limit leaves no chunks for a chosen path, the result says so.
#[tokio::test]
async fn paths_over_the_limit_are_reported() {
    let desk = Desk::open().await;
    let paths: [&[&str]; 3] = [&["A", "B", "C"], &["A", "B", "D"], &["A", "B", "E"]];
    let filed: Vec<_> = paths
        .iter()
        .flat_map(|path| [(*path, "one. "), (*path, "two. ")])
        .collect();

    desk.library.add("/1.txt", &filed).await;
    desk.model.set_rule(choosing(&[("3", &["C", "D", "E"])]));
    let body = json!({"query": "?", "strategy": "wide_branch", "limit": 3});
    let result = desk.ask_well(body.clone()).await;
    assert_eq!(
        result["dropped_paths"],
        json!([{"path": ["A", "B", "E"], "reason": "limited"}])
    );

    assert_eq!(texts(&result).len(), 3);
    let again = format!("/v1/queries/{}/replay", result["id"].as_str().unwrap());
    let replay = desk.app.post(&again, &json!({})).await.json();
    assert_eq!(replay["identical"], true, "{replay}");

    // With `mode: retrieve`, the cursor returns the rest.
    let mut pages = body;
    pages["mode"] = json!("retrieve");
    assert_eq!(desk.ask_well(pages).await["dropped_paths"], json!([]));
    desk.close().await;
}

#[tokio::test]
async fn an_empty_leaf_is_reported_and_the_query_continues() {
    let desk = Desk::open().await;
    desk.library.add("/1.txt", &[(HERE, "one")]).await;
    desk.library.category(THERE).await;
    let result = desk
        .ask_well(json!({"query": "?", "strategy": "wide_branch"}))
        .await;
    assert_eq!(texts(&result), ["one"]);
    assert_eq!(
        each(&result["path_errors"], "path"),
        [json!(["A", "B", "D"])]
    );

    assert_eq!(
        result["dropped_paths"],
        json!([{"path": ["A", "B", "D"], "reason": "empty"}])
    );

    assert_eq!(result["retrievals"].as_array().unwrap().len(), 2);

    desk.model.set_rule(choosing(&[("3", &["D"])]));
    let reply = desk.ask(json!({"query": "?"})).await;
    reply.assert_problem(404, "no_chunks_found");
    let context = &reply.json()["context"];
    assert_eq!(
        context["dropped_paths"],
        json!([{"path": ["A", "B", "D"], "reason": "empty"}])
    );

    assert_eq!(each(&context["responses"], "stage"), ["select"]);
    assert_eq!(context["answer"], Value::Null);
    assert!(
        context["id"].is_string() && context["parameters"].is_object(),
        "it is the result, in its own shape"
    );

    desk.close().await;
}

#[tokio::test]
async fn only_current_versions_are_read_by_default() {
    let desk = Desk::open().await;
    let source = desk.library.add("/1.txt", &[(HERE, "first")]).await;
    let first = desk.library.now();
    desk.library
        .add_version(&source, 2, &[(HERE, "second"), (THERE, "second there")])
        .await;
    let second = desk.library.now();

    // Has the same text as the second version and shares its chunks.
    desk.library.add_version(&source, 3, &[]).await;
    desk.library
        .add_version(&source, 4, &[(HERE, "fourth")])
        .await;
    let ask = |extra: Value| {
        let mut body = json!({"query": "?", "mode": "retrieve", "strategy": "wide_branch"});
        body.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        desk.ask(body)
    };

    let found = async |extra: Value| texts(&Desk::answered(&ask(extra).await));
    assert_eq!(found(json!({})).await, ["fourth"]);
    assert_eq!(
        found(json!({"version_scope": "all"})).await,
        ["first", "second", "fourth", "second there"]
    );

    assert_eq!(found(json!({"as_of": first.to_string()})).await, ["first"]);
    assert_eq!(
        found(json!({"as_of": second.to_string()})).await,
        ["second", "second there"]
    );

    let third = second.as_micros() + 1_500_000;
    let third = memoir::base::clock::Timestamp::from_micros(third).to_string();
    assert_eq!(
        found(json!({"as_of": third})).await,
        ["second", "second there"]
    );

    assert_eq!(
        found(json!({"as_of": second.to_string(), "version_scope": "all"})).await,
        ["first", "second", "second there"]
    );

    ask(json!({"as_of": "2020-01-01T00:00:00Z"}))
        .await
        .assert_problem(404, "no_chunks_found");
    let result = Desk::answered(&ask(json!({})).await);
    assert_eq!(result["chunks"][0]["source_version"], 4);
    desk.close().await;
}

#[tokio::test]
async fn filters_show_only_categories_with_matching_chunks() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let own = desk
        .library
        .add_of(
            "ann",
            &["red"],
            "/a.txt",
            &[(&["Stones", "Big", "Old"], "ann's")],
        )
        .await;

    let other = desk
        .library
        .add_of(
            "bob",
            &["red", "blue"],
            "/b.txt",
            &[(&["Plants", "Big", "Old"], "bob's")],
        )
        .await;

    let ask = async |extra: Value| {
        desk.model.clear();
        let mut body = json!({"query": "?", "mode": "retrieve", "strategy": "wide_branch"});
        body.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let reply = desk.ask(body).await;

        if reply.status.as_u16() == 200 {
            texts(&reply.json())
        } else {
            vec![reply.json()["code"].to_string()]
        }
    };

    assert_eq!(ask(json!({"user_id": "ann"})).await, ["ann's"]);
    assert!(
        desk.model.requests().is_empty(),
        "only one path: no model is called"
    );

    assert_eq!(
        ask(json!({"source_ids": [own.to_string()]})).await,
        ["ann's"]
    );

    let mut red = ask(json!({"tags": ["red"]})).await;
    red.sort();
    assert_eq!(red, ["ann's", "bob's"]);
    assert!(
        desk.seen("select")[0]
            .user
            .ends_with("options:\n- Plants\n- Stones")
    );

    assert_eq!(ask(json!({"tags": ["red", "blue"]})).await, ["bob's"]);
    assert_eq!(
        ask(json!({"tags": ["red"], "user_id": "bob"})).await,
        ["bob's"]
    );

    assert_eq!(
        ask(json!({"tags": ["green"]})).await,
        ["\"no_chunks_found\""]
    );

    assert_eq!(
        ask(json!({"user_id": "nobody"})).await,
        ["\"no_chunks_found\""]
    );

    assert_eq!(
        ask(json!({"source_ids": [memoir::base::ids::new_uuid()]})).await,
        ["\"no_chunks_found\""]
    );

    // Sources that are not eligible are not found.
    let patch = desk
        .app
        .request(Method::PATCH, &format!("/v1/sources/{other}"))
        .json(&json!({"eligible": false}));

    assert_eq!(send(patch).await.status.as_u16(), 200);
    assert_eq!(
        ask(json!({"user_id": "bob"})).await,
        ["\"no_chunks_found\""]
    );

    let unscoped = desk
        .ask_well(json!({"query": "plants big old", "mode": "retrieve"}))
        .await;
    assert_eq!(texts(&unscoped), ["Plants that are Big and Old. "]);
    desk.close().await;
}

/// Deleted categories, and categories that contain only excluded sources, are not options.
#[tokio::test]
async fn categories_without_visible_chunks_are_not_options() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let hidden = desk
            .library
            .add(
                "/hidden.txt",
                &[(&["Animals", "Big", "Old"], "an old elephant")],
            )
            .await;

        desk.library
            .add(
                "/shown.txt",
                &[
                    (&["Plants", "Big", "Old"], "an oak"),
                    (&["Stones", "Big", "Old"], "a rock"),
                ],
            )
            .await;

        let offered = async || {
            desk.model.clear();
            desk.ask_well(json!({"query": "animals big old", "mode": "retrieve"}))
                .await;
            desk.seen("select")[0]
                .user
                .rsplit_once("options:\n")
                .unwrap()
                .1
                .to_owned()
        };

        assert_eq!(offered().await, "- Animals\n- Plants\n- Stones");
        let switch = async |eligible: bool| {
            let patch = desk
                .app
                .request(Method::PATCH, &format!("/v1/sources/{hidden}"));
            assert_eq!(
                send(patch.json(&json!({"eligible": eligible})))
                    .await
                    .status
                    .as_u16(),
                200
            );
        };

        switch(false).await;
        for _ in 0..2 {
            assert_eq!(offered().await, "- Plants\n- Stones");
        }

        switch(true).await;
        assert_eq!(offered().await, "- Animals\n- Plants\n- Stones");
        switch(false).await;
        assert_eq!(offered().await, "- Plants\n- Stones");
        let gone = desk
            .app
            .request(Method::DELETE, &format!("/v1/sources/{hidden}"));

        assert_eq!(send(gone).await.status.as_u16(), 200);
        assert_eq!(offered().await, "- Plants\n- Stones");

        desk.close().await;
    }
}

#[tokio::test]
async fn another_space_sees_nothing() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let request = desk
        .app
        .request(Method::POST, "/v1/queries")
        .header("x-memoir-space", "other");

    send(request.json(&json!({"query": "plants"})))
        .await
        .assert_problem(404, "no_chunks_found");
    assert!(desk.model.requests().is_empty());
    desk.close().await;
}

#[tokio::test]
async fn helpers_are_included_for_a_few_named_sources() {
    let desk = Desk::open().await;
    let source = desk
        .library
        .add("/1.txt", &[(HERE, "one"), (THERE, "two")])
        .await;

    desk.library.describe(&source, "An old description.").await;
    desk.library
        .describe(&source, "A book about\nletters.")
        .await;
    desk.ask_well(json!({"query": "?"})).await;
    assert!(
        desk.seen("select")[0]
            .user
            .starts_with("contextual_helper: none\n")
    );

    assert!(
        desk.seen("answer")[0]
            .user
            .contains("contextual_helper: A book about letters.\nChunk ")
    );

    desk.model.clear();
    desk.ask_well(json!({"query": "?", "source_ids": [source.to_string()]}))
        .await;
    assert!(
        desk.seen("select")[0]
            .user
            .starts_with("contextual_helper: A book about letters.\n")
    );

    desk.close().await;
}

#[tokio::test]
async fn many_leaves_are_read_in_a_few_statements_up_to_the_limit() {
    let desk = Desk::with(&[("TAXONOMY__HIERARCHY_DEPTH", "1")]).await;
    let names: Vec<String> = (0..40).map(|number| format!("C{number:02}")).collect();
    let paths: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
    let filed: Vec<_> = paths
        .iter()
        .map(|path| (path.as_slice(), path[0]))
        .collect();

    desk.library.add("/many.txt", &filed).await;
    let body = |limit: i64| json!({"query": "?", "mode": "retrieve", "strategy": "wide_branch", "n": 40, "limit": limit});
    let whole = desk.ask_well(body(500)).await;
    assert_eq!(texts(&whole), names);
    let trips = each(&whole["retrievals"], "latency_ms")
        .iter()
        .filter(|ms| ms.as_f64() > Some(0.0))
        .count();

    assert_eq!(trips, 3);
    let some = desk.ask_well(body(10)).await;
    assert_eq!(
        (texts(&some).as_slice(), &some["path_errors"]),
        (&names[..10], &json!([])),
        "what was not read is not empty"
    );

    desk.close().await;
}
