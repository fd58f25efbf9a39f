//! What the filters accept, and what happens if nothing matches.

use memoir::base::clock::Timestamp;
use memoir::base::ids::{SourceId, Space};
use memoir::store::{NewVersion, Store};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Setup, facts, moment};
use crate::support::app::{load, send};

#[tokio::test]
async fn all_tags_must_match_and_an_unknown_tag_is_ignored_with_a_reason() {
    for setup in Setup::each().await {
        setup
            .put_at(
                "08:00",
                json!({"path": "/both.md", "text": "Both.", "tags": ["docs", "design"]}),
            )
            .await;

        setup
            .put_at(
                "09:00",
                json!({"path": "/one.md", "text": "One.", "tags": ["docs"]}),
            )
            .await;

        // The newer source lacks a tag.
        let found = setup
            .find(json!({"meta": {"tags": ["docs", "design"]}}))
            .await;
        assert_eq!(
            (&found["content"], &found["tag_filter_relaxed"]),
            (&json!("Both."), &json!(false))
        );

        assert_eq!(
            (&found["relaxed"], &found["filename_filter"]),
            (&json!([]), &Value::Null)
        );

        assert_eq!(
            setup.text(json!({"meta": {"tags": ["docs"]}})).await,
            "One."
        );

        let body = json!({"meta": {"tags": ["design"]}, "default_tags": ["docs"], "strict": true});
        assert_eq!(setup.text(body).await, "Both.");

        // If no source has the tags, the filter is ignored and listed with the reason.
        let found = setup
            .find(json!({"meta": {"tags": ["docs", "nowhere"]}}))
            .await;
        assert_eq!(
            (&found["content"], &found["tag_filter_relaxed"]),
            (&json!("One."), &json!(true))
        );

        assert_eq!(found["relaxed"][0]["filter"], "tags");
        assert!(
            found["relaxed"][0]["reason"]
                .as_str()
                .unwrap()
                .contains("file_ingest, docs, nowhere")
        );

        let reply = setup
            .retrieve(&json!({"meta": {"tags": ["nowhere"]}, "strict": true}))
            .await;
        reply.assert_problem(404, "document_not_found");
        assert_eq!(reply.json()["context"]["filter"], "the required tags");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn a_named_file_wins_over_newer_ones_and_an_unknown_name_is_ignored() {
    for setup in Setup::each().await {
        setup
            .put_at(
                "08:00",
                json!({"path": "/x/plan.md", "text": "The plan.", "tags": ["docs"]}),
            )
            .await;

        setup
            .put_at(
                "09:00",
                json!({"path": "/x/Plan.md", "text": "The other plan.", "tags": ["docs"]}),
            )
            .await;

        setup
            .put_at(
                "10:00",
                json!({"path": "/x/new.md", "text": "Newer.", "tags": ["docs"]}),
            )
            .await;

        // The exact name is preferred to one in another case, and both to anything newer.
        for (name, text) in [
            ("plan.md", "The plan."),
            ("Plan.md", "The other plan."),
            ("PLAN.md", "The other plan."),
        ] {
            let found = setup
                .find(json!({"meta": {"filename": name, "tags": ["docs"]}}))
                .await;
            assert_eq!(
                (&found["content"], &found["filename_filter"]),
                (&json!(text), &json!("applied")),
                "{name}"
            );
        }

        let found = setup
            .find(json!({"meta": {"filename": "nobody.md", "tags": ["docs"]}}))
            .await;
        assert_eq!(
            (&found["content"], &found["filename_filter"]),
            (&json!("Newer."), &json!("relaxed"))
        );

        let reply = setup
            .retrieve(&json!({"meta": {"filename": "nobody.md"}, "strict": true}))
            .await;
        reply.assert_problem(404, "document_not_found");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn as_of_returns_the_version_of_that_time_or_else_the_latest() {
    for setup in Setup::each().await {
        for (at, text) in [("08:00", "first"), ("09:00", "second"), ("10:00", "third")] {
            setup.file_at(at, "/a.md", text).await;
        }

        let as_of = |at: &str| json!({"meta": {"filename": "a.md"}, "as_of": moment(at)});
        // A version ingested exactly at `as_of` counts.
        for (at, text) in [
            ("08:00", "first"),
            ("08:59", "first"),
            ("09:00", "second"),
            ("23:00", "third"),
        ] {
            let found = setup.find(as_of(at)).await;
            assert_eq!(
                (&found["content"], &found["as_of_fallback"]),
                (&json!(text), &json!(false)),
                "{at}"
            );
        }

        let found = setup.find(as_of("07:59")).await;
        assert_eq!(
            (&found["content"], &found["as_of_fallback"]),
            (&json!("third"), &json!(true))
        );

        assert_eq!(found["relaxed"][0]["filter"], "as_of");
        let mut strict = as_of("07:59");
        strict["strict"] = json!(true);
        setup
            .retrieve(&strict)
            .await
            .assert_problem(404, "document_not_found");

        // The same time with another offset.
        let body = json!({"meta": {"filename": "a.md"}, "as_of": "2025-12-04T11:00:00+02:00"});
        assert_eq!(setup.text(body).await, "second");

        // The other strategies ignore `as_of`, with a warning.
        for strategy in ["earliest", "longest", "score"] {
            let body = json!({"meta": {"filename": "a.md"}, "as_of": moment("07:00"), "strategy": strategy});
            let found = setup.find(body).await;
            assert_eq!(
                (&found["as_of_fallback"], &found["warnings"][0]["code"]),
                (&json!(false), &json!("as_of_ignored"))
            );

            let mut body = json!({"meta": {"filename": "a.md"}, "as_of": moment("07:00"), "strategy": strategy});
            body["strict"] = json!(true);
            setup
                .retrieve(&body)
                .await
                .assert_problem(422, "invalid_request");
        }

        setup.app.finish().await;
    }
}

#[tokio::test]
async fn never_returns_sources_of_another_space_or_user() {
    for setup in Setup::each().await {
        setup
            .put_at(
                "08:00",
                json!({"path": "/a.md", "text": "Ann's.", "user_id": "ann", "tags": ["docs"]}),
            )
            .await;

        // Each user has sources of their own.
        let ann = json!({"meta": {"filename": "a.md", "tags": ["docs"]}, "user_id": "ann"});
        assert_eq!(setup.text(ann.clone()).await, "Ann's.");
        for body in [
            json!({"meta": {"filename": "a.md", "tags": ["docs"]}}),
            json!({"meta": {"filename": "a.md"}, "user_id": "bob"}),
            json!({"meta": {"query": "Ann's"}, "user_id": "ANN", "strategy": "score"}),
            json!({"meta": {"tags": ["docs"]}, "user_id": "bob", "as_of": moment("09:00")}),
        ] {
            setup
                .retrieve(&body)
                .await
                .assert_problem(404, "document_not_found");
        }

        let request = setup
            .app
            .request(Method::POST, "/v1/documents/retrieve")
            .header("x-memoir-space", "other");

        send(request.json(&ann))
            .await
            .assert_problem(404, "document_not_found");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn sources_that_are_not_eligible_or_have_no_text_are_not_found() {
    for setup in Setup::each().await {
        // Only ingested sources are candidates; a registered source without a text is not.
        let reply = setup
            .app
            .post("/v1/sources", &json!({"path": "/registered/a.md"}))
            .await;

        assert_eq!(reply.status, 201);
        setup
            .retrieve(&json!({"meta": {"filename": "a.md"}}))
            .await
            .assert_problem(404, "document_not_found");

        let id = setup.file_at("08:00", "/a.md", "Kept.").await;
        setup.file_at("09:00", "/b.md", "Other.").await;
        assert_eq!(
            setup.find(json!({"meta": {"filename": "a.md"}})).await["content"],
            "Kept."
        );

        // A source that is not eligible is not found.
        let change = |eligible: bool| {
            let request = setup
                .app
                .request(Method::PATCH, &format!("/v1/sources/{id}"));
            send(request.json(&json!({"eligible": eligible})))
        };

        assert_eq!(change(false).await.json()["eligible"], false);
        let found = setup.find(json!({"meta": {"filename": "a.md"}})).await;
        assert_eq!(
            (&found["content"], &found["filename_filter"]),
            (&json!("Other."), &json!("relaxed"))
        );

        assert_eq!(change(true).await.json()["eligible"], true);
        assert_eq!(
            setup.text(json!({"meta": {"filename": "a.md"}})).await,
            "Kept."
        );

        // The tag `file_ingest` cannot be removed.
        let request = setup
            .app
            .request(Method::PATCH, &format!("/v1/sources/{id}"))
            .json(&json!({"tags": ["x"]}));

        send(request).await.assert_problem(422, "invalid_request");
        // A deleted source is not found.
        send(
            setup
                .app
                .request(Method::DELETE, &format!("/v1/sources/{id}")),
        )
        .await;

        let reply = setup
            .retrieve(&json!({"meta": {"filename": "a.md"}, "strict": true}))
            .await;
        reply.assert_problem(404, "document_not_found");
        setup.app.finish().await;
    }
}

#[tokio::test]
async fn many_versions_of_one_source_do_not_hide_another_with_its_name() {
    for setup in Setup::each().await {
        let hidden = setup.file_at("08:00", "/hidden/log.md", "Hidden.").await;
        let shown = json!({"path": "/shown/log.md", "text": "Shown.", "tags": ["b"]});
        setup.put_at("07:00", shown).await;
        let store = Store::connect(&load(&setup.app.database.url, &[]).database)
            .await
            .unwrap();
        add_versions(&store, &hidden, 600).await;

        // The tag decides, however many versions the other source has.
        let found = setup
            .find(json!({"meta": {"filename": "log.md", "tags": ["b"]}, "strict": true}))
            .await;
        assert_eq!(
            (&found["content"], &found["tag_filter_relaxed"]),
            (&json!("Shown."), &json!(false))
        );

        let change = setup
            .app
            .request(Method::PATCH, &format!("/v1/sources/{hidden}"));
        assert_eq!(
            send(change.json(&json!({"eligible": false}))).await.status,
            200
        );

        let found = setup
            .find(json!({"meta": {"filename": "log.md"}, "strict": true}))
            .await;
        assert_eq!(found["content"], "Shown.");
        store.close().await;
        setup.app.finish().await;
    }
}

/// Writes versions of a source directly to the store, without models.
async fn add_versions(store: &Store, id: &str, count: i64) {
    let (space, id) = (Space::default(), id.parse::<SourceId>().unwrap());
    let mut tx = store.begin().await.unwrap();
    for version in 2..=count {
        let facts = facts("Hidden.");
        let new = NewVersion {
            source_id: &id,
            version,
            content: "Hidden.",
            facts: &facts,
            content_version_id: None,
        };

        let at = Timestamp::from_micros(1_765_000_000_000_000 + version);
        let number = tx.add_source_version(&space, new, at).await.unwrap();
        tx.update_latest_version(&space, &id, version, number, at)
            .await
            .unwrap();
    }

    tx.commit().await.unwrap();
}
