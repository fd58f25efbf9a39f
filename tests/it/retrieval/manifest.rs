//! The manifest, and the differences between two versions.

use memoir_text::hash::sha256_hex;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::{Setup, each, moment};
use crate::support::app::send;

#[tokio::test]
async fn the_manifest_describes_each_file() {
    for setup in Setup::each().await {
        let text = "Räder und Maße.\n";
        let mtime = "2025-11-30T10:20:30.123456Z";
        let id = setup
            .put_at(
                "08:00",
                json!({"path": "/docs/a.MD", "text": "Before.", "tags": ["docs"]}),
            )
            .await;

        setup
            .put_at(
                "09:00",
                json!({"path": "/docs/a.MD", "text": text, "mtime": mtime}),
            )
            .await;

        setup
            .app
            .post(
                "/v1/sources",
                &json!({"path": "/docs/later.json", "eligible": false}),
            )
            .await;

        let manifest = setup.app.get("/v1/manifest").await.json();
        let wanted = json!({
            "source_id": id, "user_id": "default", "path": "/docs/a.MD", "filename": "a.MD", "kind": "file_ingest",
            "type": "md", "sha256": sha256_hex(text.as_bytes()), "size_bytes": text.len(), "mtime": mtime,
            "tags": ["file_ingest", "docs"], "eligible": true, "latest_version": 2,
            "ingested_at": "2025-12-04T09:00:00.000000Z",
        });

        assert_eq!(manifest["items"][0], wanted);
        let registered = &manifest["items"][1];
        assert_eq!(
            (&registered["latest_version"], &registered["sha256"]),
            (&json!(0), &Value::Null)
        );

        assert_eq!(
            (&registered["type"], &registered["eligible"]),
            (&json!("json"), &json!(false))
        );

        assert_eq!(manifest["next_cursor"], Value::Null);
        // As of an earlier time.
        let then = setup
            .app
            .get(&format!("/v1/manifest?as_of={}", moment("08:30")))
            .await
            .json();

        assert_eq!(
            each(&then["items"], "sha256"),
            [json!(sha256_hex(b"Before."))]
        );

        assert_eq!(each(&then["items"], "latest_version"), [1]);
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn the_manifest_can_be_paged_and_filtered() {
    for setup in Setup::each().await {
        for minute in 10..17 {
            let user = if minute % 2 == 0 { "ann" } else { "bob" };
            let body = json!({"path": format!("/{minute}.md"), "text": "Text.", "user_id": user, "tags": [user]});
            setup.put_at(&format!("08:{minute}"), body).await;
        }

        let (mut paths, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = setup
                .app
                .get(&format!("/v1/manifest?limit=3{cursor}"))
                .await
                .json();

            paths.extend(each(&page["items"], "path"));
            let Some(next) = page["next_cursor"].as_str() else {
                break;
            };
            cursor = format!("&cursor={next}");
        }

        let wanted: Vec<Value> = (10..17)
            .map(|minute| json!(format!("/{minute}.md")))
            .collect();
        assert_eq!(paths, wanted);
        for (filter, count) in [
            ("user_id=ann", 4),
            ("tag=bob", 3),
            ("filename=12.md", 1),
            ("eligible=false", 0),
            ("user_id=nobody", 0),
        ] {
            let page = setup
                .app
                .get(&format!("/v1/manifest?{filter}"))
                .await
                .json();
            assert_eq!(page["items"].as_array().unwrap().len(), count, "{filter}");
        }

        setup
            .app
            .get("/v1/manifest?limit=0")
            .await
            .assert_problem(422, "invalid_request");

        setup
            .app
            .get("/v1/manifest?as_of=soon")
            .await
            .assert_problem(422, "invalid_request");

        setup
            .app
            .get("/v1/manifest?colour=red")
            .await
            .assert_problem(422, "invalid_request");

        setup
            .app
            .get("/v1/manifest?cursor=x")
            .await
            .assert_problem(400, "invalid_cursor");

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn accepts_five_file_types_and_no_others() {
    let setup = Setup::each().await.swap_remove(0);
    let upload = |name: &str| {
        let form = format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\nkey: value\r\n--b--\r\n"
        );
        let request = setup
            .app
            .request(Method::POST, "/v1/ingestions")
            .header(CONTENT_TYPE, "multipart/form-data; boundary=b");

        send(request.body(form))
    };

    for name in ["a.txt", "a.md", "a.json", "a.yml", "a.yaml"] {
        assert_eq!(upload(name).await.status, 202, "{name}");
    }

    let reply = upload("a.pdf").await;
    assert_eq!(reply.status, 415);
    for kind in ["txt", "md", "json", "yml", "yaml"] {
        assert!(reply.text.contains(kind), "{}", reply.text);
    }

    setup.app.finish().await;
}

#[tokio::test]
async fn differences_are_returned_as_a_unified_diff() {
    for setup in Setup::each().await {
        let id = setup.file_at("08:00", "/a.md", "one\ntwo\nthree\n").await;
        setup.file_at("09:00", "/a.md", "one\n2\nthree\n").await;
        let diff = |a: &str, b: &str| format!("/v1/sources/{id}/versions/{a}/diff/{b}");
        let reply = setup.app.get(&diff("1", "2")).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        let wanted =
            "--- a.md (version 1)\n+++ a.md (version 2)\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";

        assert_eq!(reply.text, wanted);
        assert!(
            setup
                .app
                .get(&diff("2", "1"))
                .await
                .text
                .contains("-2\n+two\n")
        );

        assert_eq!(setup.app.get(&diff("2", "2")).await.text, "");
        for (a, b) in [
            ("1", "3"),
            ("0", "1"),
            ("x", "1"),
            ("1", "99999999999999999999"),
        ] {
            setup
                .app
                .get(&diff(a, b))
                .await
                .assert_problem(404, "not_found");
        }

        setup
            .app
            .get("/v1/sources/nobody/versions/1/diff/2")
            .await
            .assert_problem(404, "not_found");

        let other = setup
            .app
            .request(Method::GET, &diff("1", "2"))
            .header("x-memoir-space", "other");

        send(other).await.assert_problem(404, "not_found");
        setup.app.finish().await;
    }
}
