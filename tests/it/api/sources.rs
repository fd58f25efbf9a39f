use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

async fn create(app: &TestApp, body: Value) -> Value {
    let reply = app.post("/v1/sources", &body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

async fn patch(app: &TestApp, id: &str, body: &Value, if_match: Option<&str>) -> Reply {
    let mut request = app
        .request(Method::PATCH, &format!("/v1/sources/{id}"))
        .json(body);
    if let Some(etag) = if_match {
        request = request.header("if-match", etag);
    }

    send(request).await
}

/// The whole life of a source; every engine gives the same responses.
#[tokio::test]
async fn the_life_of_a_source_is_the_same_on_every_engine() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let app = TestApp::on(database, &[]).await;
        let created = app
            .post(
                "/v1/sources",
                &json!({"path": "/docs/Plan.md", "tags": ["design", " design "]}),
            )
            .await;

        assert_eq!(created.status, 201, "{engine:?}: {}", created.text);
        let id = created.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(created.header("location"), format!("/v1/sources/{id}"));
        insta::allow_duplicates! {
            insta::assert_json_snapshot!("source", created.json(), { ".id" => "[id]" });
        }

        let read = app.get(&format!("/v1/sources/{id}")).await;
        assert_eq!(read.json(), created.json());
        assert_eq!(read.header("etag"), created.header("etag"));

        app.clock.advance_seconds(60);
        let body = json!({"tags": ["file_ingest", "b", "a"], "eligible": false});
        let changed = patch(&app, &id, &body, Some(read.header("etag"))).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        assert_eq!(changed.json()["tags"], json!(["file_ingest", "b", "a"]));
        assert_eq!(changed.json()["eligible"], false);
        assert_eq!(changed.json()["updated_at"], "2026-01-31T12:01:00.000000Z");
        assert_eq!(
            app.get(&format!("/v1/sources/{id}")).await.json(),
            changed.json()
        );

        patch(&app, &id, &body, Some(read.header("etag")))
            .await
            .assert_problem(412, "precondition_failed");

        let path = format!("/v1/sources/{id}");
        assert_eq!(send(app.request(Method::DELETE, &path)).await.status, 200);
        app.get(&path).await.assert_problem(404, "not_found");
        send(app.request(Method::DELETE, &path))
            .await
            .assert_problem(404, "not_found");

        app.finish().await;
    }
}

#[tokio::test]
async fn an_unchanged_source_is_not_sent_again() {
    let app = TestApp::spawn().await;
    let id = create(&app, json!({"filename": "a.txt"})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();

    let path = format!("/v1/sources/{id}");
    let etag = app.get(&path).await.header("etag").to_owned();
    let again = send(
        app.request(Method::GET, &path)
            .header("if-none-match", &etag),
    )
    .await;

    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    assert_eq!(
        send(
            app.request(Method::GET, &path)
                .header("if-none-match", "\"other\"")
        )
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn one_path_is_one_source_per_user() {
    let app = TestApp::spawn().await;
    let first = create(&app, json!({"path": "/a/b.md"})).await;
    let second = app.post("/v1/sources", &json!({"path": "/a/b.md"})).await;
    second.assert_problem(409, "source_exists");
    assert_eq!(second.json()["context"]["source_id"], first["id"]);
    create(&app, json!({"path": "/a/b.md", "user_id": "someone"})).await;

    create(&app, json!({"path": "/a/B.md"})).await;
}

#[tokio::test]
async fn concurrent_registrations_of_one_path_create_one_source() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let body = json!({"path": "/race.md"});
        let mut racing = tokio::task::JoinSet::new();
        for _ in 0..20 {
            racing.spawn(send(app.request(Method::POST, "/v1/sources").json(&body)));
        }

        let mut statuses: Vec<u16> = racing
            .join_all()
            .await
            .iter()
            .map(|reply| reply.status.as_u16())
            .collect();

        statuses.sort_unstable();
        let mut wanted = vec![409; 20];
        wanted[0] = 201;
        assert_eq!(statuses, wanted, "{:?}", app.database.engine);
    }
}

#[tokio::test]
async fn hostile_text_is_returned_unchanged() {
    let texts = [
        "'; DROP TABLE sources;--",
        "100%_\\",
        "$1 ? ?? :x",
        "\"quoted\" `ticks`",
        "emoji 👩‍👩‍👧 и кириллица",
        "<script>x</script>",
        "\u{202e}rtl\u{200b}",
    ];
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        for text in texts {
            let made = create(
                &app,
                json!({"filename": text.replace('/', "|"), "user_id": text, "tags": [text]}),
            )
            .await;

            let read = app
                .get(&format!("/v1/sources/{}", made["id"].as_str().unwrap()))
                .await
                .json();

            assert_eq!(read["user_id"], text);
            assert_eq!(read["tags"], json!(["file_ingest", text]));
            let request = app
                .request(Method::GET, "/v1/sources")
                .query(&[("tag", text), ("user_id", text)]);
            let mut listed = send(request).await.json()["items"].take();
            for item in listed.as_array_mut().unwrap() {
                let item = item.as_object_mut().unwrap();
                // Only the list has them.
                assert_eq!(item.remove("size_bytes"), Some(Value::Null));
                assert_eq!(item.remove("helper"), Some(Value::Null));
            }
            assert_eq!(listed, json!([read]), "{text}");
        }
    }
}

#[tokio::test]
async fn pages_contain_every_source_once_in_order() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        for n in 0..23 {
            // Sources with equal times are ordered by id.
            if n % 5 == 0 {
                app.clock.advance_seconds(1);
            }

            let tag = if n % 2 == 0 { "even" } else { "odd" };
            create(
                &app,
                json!({"filename": format!("{n}.md"), "tags": [tag], "eligible": n % 3 == 0}),
            )
            .await;
        }

        for (query, wanted) in [
            ("", 23),
            ("&newest_first=true", 23),
            ("&newest_first=true&tag=even", 12),
            ("&tag=even", 12),
            ("&tag=odd&eligible=true", 4),
            ("&filename=7.md", 1),
            ("&user_id=x", 0),
        ] {
            let mut names: Vec<String> = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = app
                    .get(&format!("/v1/sources?limit=4{query}{cursor}"))
                    .await
                    .json();

                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= 4);
                names.extend(
                    items
                        .iter()
                        .map(|item| item["filename"].as_str().unwrap().to_owned()),
                );

                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(names.len(), wanted, "{query}");
            let mut numbers: Vec<u32> = names
                .iter()
                .map(|name| name.trim_end_matches(".md").parse().unwrap())
                .collect();
            if query.contains("newest_first") {
                numbers.reverse();
            }
            assert!(
                numbers.is_sorted(),
                "{:?} {query}: {numbers:?}",
                app.database.engine
            );
        }

        let cursor = app.get("/v1/sources?limit=1").await.json()["next_cursor"]
            .as_str()
            .unwrap()
            .to_owned();

        for other in ["tag=odd", "newest_first=true"] {
            app.get(&format!("/v1/sources?{other}&cursor={cursor}"))
                .await
                .assert_problem(400, "invalid_cursor");
        }
    }
}

#[tokio::test]
async fn validation_errors_name_each_field() {
    let app = TestApp::spawn().await;
    let bad =
        json!({"filename": "", "path": "relative", "user_id": " ", "tags": ["ok", "", "x\u{7}"]});
    let reply = app.post("/v1/sources", &bad).await;
    reply.assert_problem(422, "invalid_request");
    let json = reply.json();
    let fields: Vec<&str> = json["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["field"].as_str().unwrap())
        .collect();

    assert_eq!(
        fields,
        ["filename", "path", "user_id", "tags[1]", "tags[2]"]
    );

    let id = create(&app, json!({"filename": "a"})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();

    patch(&app, &id, &json!({"tags": ["a"]}), None)
        .await
        .assert_problem(422, "invalid_request");
}
