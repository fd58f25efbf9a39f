//! `as_of` on sources, versions, chunks and the hierarchy: the content of that time, with the
//! current tags and eligibility.

use memoir::base::clock::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::each;
use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::library::Desk;

const HERE: &[&str] = &["A", "B", "C"];
const THERE: &[&str] = &["A", "B", "D"];
const ELSEWHERE: &[&str] = &["X", "Y", "Z"];

/// A setup with two sources, and the times after each of four writes.
async fn told(database: TestDatabase) -> (Desk, [String; 2], [Timestamp; 4]) {
    let desk = Desk::on(database, &[]).await;
    let library = &desk.library;
    let first = library.add("/1.txt", &[(HERE, "one")]).await;
    let t1 = library.now();
    library
        .add_version(&first, 2, &[(HERE, "two"), (THERE, "three")])
        .await;
    let t2 = library.now();
    let second = library.add("/2.txt", &[(ELSEWHERE, "other")]).await;
    let t3 = library.now();

    library.add_version(&first, 3, &[(HERE, "last")]).await;
    let t4 = library.now();
    (
        desk,
        [first.to_string(), second.to_string()],
        [t1, t2, t3, t4],
    )
}

async fn items(desk: &Desk, path: &str) -> Value {
    let reply = desk.app.get(path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    reply.json()["items"].clone()
}

#[tokio::test]
async fn as_of_shows_earlier_sources_and_versions() {
    for database in TestDatabase::each().await {
        let (desk, [first, second], [t1, t2, t3, t4]) = told(database).await;
        let before = Timestamp::from_micros(t1.as_micros() - 1);
        for (moment, wanted) in [
            (before, json!([])),
            (t1, json!([1])),
            (t2, json!([2])),
            (t3, json!([2, 1])),
            (t4, json!([3, 1])),
        ] {
            let listed = items(&desk, &format!("/v1/sources?as_of={moment}")).await;
            assert_eq!(json!(each(&listed, "latest_version")), wanted, "{moment}");
        }

        let then = desk
            .app
            .get(&format!("/v1/sources/{first}?as_of={t2}"))
            .await;

        assert_eq!(
            (then.status.as_u16(), &then.json()["latest_version"]),
            (200, &json!(2))
        );

        assert_eq!(then.header("etag"), "", "nothing to hold a change against");
        desk.app
            .get(&format!("/v1/sources/{second}?as_of={t2}"))
            .await
            .assert_problem(404, "not_found");

        desk.app
            .get(&format!("/v1/sources/{second}/versions?as_of={t2}"))
            .await
            .assert_problem(404, "not_found");

        let versions = items(&desk, &format!("/v1/sources/{first}/versions?as_of={t3}")).await;
        assert_eq!(each(&versions, "version"), [2, 1]);
        let chunks = items(&desk, &format!("/v1/sources/{first}/chunks?as_of={t3}")).await;
        assert_eq!(each(&chunks, "text_content"), ["two", "three"]);
        let chunks = items(
            &desk,
            &format!("/v1/sources/{first}/chunks?as_of={t3}&version=1"),
        )
        .await;

        assert_eq!(each(&chunks, "text_content"), ["one"]);
        let late = format!("/v1/sources/{first}/chunks?as_of={t3}&version=3");
        desk.app.get(&late).await.assert_problem(404, "not_found");

        // Tags and eligibility are the current ones.
        let change = json!({"tags": ["file_ingest", "new"], "eligible": false});
        send(
            desk.app
                .request(Method::PATCH, &format!("/v1/sources/{first}"))
                .json(&change),
        )
        .await;

        let then = items(
            &desk,
            &format!("/v1/sources?as_of={t1}&tag=new&eligible=false"),
        )
        .await;

        assert_eq!(
            (&then[0]["tags"], &then[0]["latest_version"]),
            (&json!(["file_ingest", "new"]), &json!(1))
        );

        desk.close().await;
    }
}

#[tokio::test]
async fn as_of_shows_the_earlier_hierarchy_and_its_chunks() {
    for database in TestDatabase::each().await {
        let (desk, _, [t1, t2, t3, _]) = told(database).await;
        let counted = async |query: &str| {
            let listed = items(&desk, &format!("/v1/categories?{query}")).await;
            let listed = listed.as_array().unwrap().iter();
            let listed = listed
                .map(|one| format!("{} {}", one["name"].as_str().unwrap(), one["chunk_count"]));
            listed.collect::<Vec<_>>()
        };

        assert_eq!(counted("level=3").await, ["C 1", "D 0", "Z 1"]);
        assert_eq!(counted(&format!("level=3&as_of={t1}")).await, ["C 1"]);
        assert_eq!(
            counted(&format!("level=3&as_of={t2}")).await,
            ["C 1", "D 1"]
        );

        assert_eq!(counted(&format!("level=1&as_of={t2}")).await, ["A 2"]);
        assert_eq!(
            counted(&format!("level=1&as_of={t3}")).await,
            ["A 2", "X 1"]
        );

        assert_eq!(
            counted("as_of=2020-01-01T00:00:00Z").await,
            Vec::<String>::new()
        );

        // An offset that is not percent-encoded is accepted.
        assert_eq!(
            counted("as_of=2020-01-01T00:00:00+01:00").await,
            Vec::<String>::new()
        );

        let tree = desk
            .app
            .get(&format!("/v1/categories/tree?as_of={t2}&limit=2"))
            .await
            .json();

        assert_eq!(each(&tree["levels"], "categories"), [1, 1, 2]);
        assert_eq!(each(&tree["items"], "name"), ["A", "B"]);
        let next = tree["next_cursor"].as_str().unwrap();
        let page = items(
            &desk,
            &format!("/v1/categories/tree?as_of={t2}&limit=2&cursor={next}"),
        )
        .await;

        assert_eq!(each(&page, "name"), ["C", "D"]);
        let other = format!("/v1/categories/tree?limit=2&cursor={next}");
        desk.app
            .get(&other)
            .await
            .assert_problem(400, "invalid_cursor");

        let leaves = items(&desk, "/v1/categories?level=3").await;
        let (c, d) = (
            leaves[0]["id"].as_i64().unwrap(),
            leaves[1]["id"].as_i64().unwrap(),
        );

        desk.app
            .get(&format!("/v1/categories/{d}?as_of={t1}"))
            .await
            .assert_problem(404, "not_found");

        let then = desk
            .app
            .get(&format!("/v1/categories/{d}?as_of={t2}"))
            .await
            .json();

        assert_eq!(
            (&then["chunk_count"], &then["path"]),
            (&json!(1), &json!(["A", "B", "D"]))
        );

        for (query, wanted) in [
            (String::new(), vec!["last"]),
            (format!("as_of={t2}"), vec!["two"]),
            (format!("as_of={t2}&version_scope=all"), vec!["one", "two"]),
            ("version_scope=all".to_owned(), vec!["one", "two", "last"]),
        ] {
            let chunks = items(&desk, &format!("/v1/categories/{c}/chunks?{query}")).await;
            assert_eq!(each(&chunks, "text_content"), wanted, "{query}");
        }

        desk.app
            .get(&format!("/v1/categories/{d}/chunks?as_of={t1}"))
            .await
            .assert_problem(404, "not_found");

        for path in ["/v1/categories", "/v1/categories/tree", "/v1/sources"] {
            desk.app
                .get(&format!("{path}?as_of=then"))
                .await
                .assert_problem(422, "invalid_request");
        }

        // Queries with the same `as_of` do not find sources that are not eligible.
        let asked = desk
            .ask(json!({"query": "?", "mode": "retrieve", "as_of": t1.to_string()}))
            .await;
        assert_eq!(
            each(&Desk::answered(&asked)["chunks"], "text_content"),
            ["one"]
        );

        desk.close().await;
    }
}
