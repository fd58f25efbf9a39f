//! Helpers of sources: generated once and within limits, or written by their users step by step.

use memoir::scripted_model::{Fault, Step};
use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};

use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, document, ids, line, source};

const FLAT: &[(&str, &str)] = &[("TAXONOMY__HIERARCHY_DEPTH", "1")];

fn helper_says(answer: Value) -> Step {
    Step::new(Fault::RawAnswer { json: answer }).only_stage("helper")
}

fn fields(date: &str, author: &str, topic: &str, description: &str) -> Value {
    json!({"date": date, "author": author, "topic": topic, "description": description})
}

/// The helper in every classification prompt since the requests were last cleared.
fn used(ingest: &Ingest) -> Vec<String> {
    let mut all: Vec<String> = ingest
        .asked("classify")
        .iter()
        .map(|seen| line(seen, "contextual_helper:").to_owned())
        .collect();

    all.dedup();
    all
}

async fn helpers(ingest: &Ingest, id: &str) -> Value {
    ingest
        .app
        .get(&format!("/v1/sources/{id}/helpers"))
        .await
        .json()
}

#[tokio::test]
async fn a_helper_is_generated_once_and_part_of_every_prompt() {
    let ingest = Ingest::new().await;
    ingest.model.push(helper_says(json!({
        "author": "Grace Hill", "date": null, "topic": "Compilers", "summary": "Notes on\na compiler."
    })));
    let path = json!({"path": "/a.md"});
    let job = ingest.succeed(&document(&["A/B/C", "D/E/F"], &path)).await;
    let again = ingest.succeed(&document(&["A/B/C", "D/E/F"], &path)).await;
    assert_eq!(again["result"]["version"], 2);
    assert_eq!(ingest.asked("helper").len(), 1, "once for one content");
    let text = "Author: Grace Hill. Topic: Compilers. Notes on a compiler.";

    assert_eq!(used(&ingest), [text]);
    for seen in ingest.asked("classify") {
        assert!(
            seen.user
                .starts_with(&format!("contextual_helper: {text}\n")),
            "{}",
            seen.user
        );
    }

    let schema = ingest.asked("helper")[0].schema.clone().unwrap();
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["author", "date", "topic", "summary"]);
    let listed = helpers(&ingest, source(&job)).await;
    let items = listed["items"].as_array().unwrap();

    assert_eq!(items.len(), 1);
    assert_eq!(
        (&items[0]["version"], &items[0]["origin"]),
        (&json!(1), &json!("generated"))
    );

    assert_eq!(
        (&items[0]["text"], &items[0]["date"]),
        (&json!(text), &json!(null))
    );

    // Both the job and the source list the event.
    for event in [&job["helper_events"][0], &listed["helper_events"][0]] {
        assert_eq!(event["origin"], "generated", "{event}");
        assert!(
            event["timestamp"]
                .as_str()
                .is_some_and(|time| time.starts_with("2026-")),
            "{event}"
        );

        assert!(
            event["tokens_prompt"].as_i64().unwrap() > 0
                && event["tokens_completion"].as_i64().unwrap() > 0
        );

        assert_eq!(event["token_count"], items[0]["token_count"]);
    }
}

#[tokio::test]
async fn new_content_gets_a_new_helper_and_no_prompt_has_the_old_one() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[]).await;
        let path = json!({"path": "/plan.md"});
        let says = |summary: &str| {
            helper_says(json!({"author": null, "date": null, "topic": "Plan", "summary": summary}))
        };
        ingest.model.push(says("We ship in March."));
        let first = ingest.succeed(&document(&["A/B/C"], &path)).await;
        assert_eq!(first["result"]["helper_regenerated"], false);
        ingest.model.push(says("We ship in May."));
        let second = ingest.succeed(&document(&["G/H/I"], &path)).await;
        assert_eq!(second["result"]["helper_regenerated"], true, "{second:#}");
        assert_eq!(second["result"]["helper_version"], 2);

        ingest.model.clear();
        let query = json!({"query": "G", "strategy": "one_shot"});
        let reply = ingest.app.post("/v1/queries", &query).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let asked = &ingest.asked("answer")[0].user;
        assert!(asked.contains("May") && !asked.contains("March"), "{asked}");

        // Without filing, no helper is generated, and the old one is not used.
        let mut unfiled = document(&["J/K/L"], &path);
        unfiled["options"] = json!({"indexes": ["semantic"]});
        ingest.succeed(&unfiled).await;
        ingest.model.clear();
        let query = json!({"query": "category1: J"});
        let reply = ingest.app.post("/v1/queries", &query).await;
        assert_eq!(reply.json()["found"], true, "{}", reply.text);
        let asked = &ingest.asked("answer")[0].user;
        assert!(asked.contains("contextual_helper: none"), "{asked}");
        ingest.app.finish().await;
    }
}

#[tokio::test]
async fn unchanged_content_makes_no_version_if_only_changes_are_wanted() {
    let ingest = Ingest::new().await;
    let mut body = document(&["A/B/C"], &json!({"path": "/a.md"}));
    ingest.succeed(&body).await;
    body["if_changed"] = json!(true);
    let same = ingest.succeed(&body).await;
    assert_eq!(same["result"]["unchanged"], true, "{same:#}");
    assert_eq!(same["result"]["version"], 1);

    // Without it, each ingestion is a version; and the latest one counts.
    body["if_changed"] = json!(false);
    let version = ingest.succeed(&body).await;
    assert_eq!(version["result"]["version"], 2);
    assert_eq!(version["result"]["unchanged"], false);
    body["if_changed"] = json!(true);
    assert_eq!(ingest.succeed(&body).await["result"]["version"], 2);
    let changed = ingest
        .succeed(&document(
            &["D/E/F"],
            &json!({"path": "/a.md", "if_changed": true}),
        ))
        .await;
    assert_eq!(changed["result"]["version"], 3);
    let back = ingest.succeed(&body).await;
    assert_eq!(back["result"]["version"], 4, "a change back is a change");
    ingest.app.finish().await;
}

#[tokio::test]
async fn a_helper_is_generated_from_name_title_and_first_chunks() {
    let ingest = Ingest::with(FLAT).await;
    let paragraph = |number| format!("Paragraph {number} {}.\n\n", "tells of matters ".repeat(30));
    let body = (0..60).map(paragraph).collect::<Vec<_>>().concat();
    let text = format!("# The Great Plan\n\nIntroduction that is brief.\n\n## Scope\n\n{body}");
    let job = ingest
        .succeed(&json!({"text": text, "path": "/docs/plan.md", "author": "Ada", "topic": "Plans", "tags": ["x"]}))
        .await;
    let asked = &ingest.asked("helper")[0];
    let head = "filename: plan.md\ntitle: The Great Plan; Scope\nmetadata: author=Ada; topic=Plans; tags=x\nChunk 1:\n\"\"\"\n";

    assert!(asked.user.starts_with(head), "{}", asked.user);
    let sent = ids(asked);
    assert!(
        (1..=5).contains(&sent.len())
            && sent == (1..=i64::try_from(sent.len()).unwrap()).collect::<Vec<_>>()
    );

    let chunks = ingest.chunks(&job).await;
    let tokens: i64 = chunks[..sent.len()]
        .iter()
        .map(|chunk| chunk["token_count"].as_i64().unwrap())
        .sum();

    assert!(tokens <= 2000 && chunks.len() > 5, "{tokens}");
    // Small chunks: the first five, and no sixth.
    ingest.succeed(&document(&["A"; 7], &json!({}))).await;
    assert_eq!(ids(&ingest.asked("helper")[1]), [1, 2, 3, 4, 5]);

    // One chunk that is larger than the limit: its beginning.
    let options = json!({"chunk_min_tokens": 2500, "chunk_max_tokens": 3000});
    ingest
        .succeed(&json!({"text": text, "options": options, "title": "Given"}))
        .await;
    let asked = &ingest.asked("helper")[2];
    assert_eq!((ids(asked).len(), line(asked, "title:")), (1, "Given"));
    let shown = asked
        .user
        .split_once("Chunk 1:\n\"\"\"\n")
        .unwrap()
        .1
        .trim_end_matches("\n\"\"\"");

    let tokens = TokenCounter::for_model(None).count(shown);
    assert!((1900..=2000).contains(&tokens), "{tokens}");
}

#[tokio::test]
async fn a_helper_that_is_too_long_is_requested_again_and_then_shortened() {
    let ingest = Ingest::with(FLAT).await;
    let long = |n: usize| {
        let sentence = |n| format!("Sentence number {n} goes on for a while. ");
        let summary = (0..n).map(sentence).collect::<Vec<_>>().concat();
        json!({"author": null, "date": null, "topic": "Length", "summary": summary})
    };

    // The second, shorter answer is used.
    ingest.model.push(helper_says(long(45)));
    let job = ingest.succeed(&document(&["A"], &json!({}))).await;
    assert_eq!(ingest.asked("helper").len(), 2);
    assert!(used(&ingest)[0].starts_with("Author: Ada Example."));
    assert_eq!(job["state"], "succeeded");
    ingest.model.clear();
    ingest.model.push(helper_says(long(45)));
    ingest.model.push(helper_says(long(60)));
    let job = ingest.succeed(&document(&["A"], &json!({}))).await;

    assert_eq!(ingest.asked("helper").len(), 2, "retried once");
    let stored = &helpers(&ingest, source(&job)).await["items"][0];
    let (text, count) = (
        stored["text"].as_str().unwrap(),
        stored["token_count"].as_u64().unwrap(),
    );

    assert!((200..=300).contains(&count), "{stored}");
    assert_eq!(TokenCounter::for_model(None).count(text) as u64, count);
    assert!(text.ends_with("a while."), "cut at a sentence: {text}");
    assert_eq!(used(&ingest), [text]);
}

#[tokio::test]
async fn a_job_waits_for_the_users_helper_if_none_may_be_generated() {
    let ingest = Ingest::with(FLAT).await;
    let body = document(
        &["A", "B"],
        &json!({"path": "/w.md", "auto_source_identification": false}),
    );

    let id = ingest.queue(&body).await;
    ingest.awaiting(&id).await;
    assert_eq!(
        (ingest.model.stats().requests, ingest.rows().await),
        (0, [0; 5]),
        "no call, nothing written"
    );

    let path = format!("/v1/jobs/{id}/helper");
    let confirm = format!("{path}/confirm");
    assert_eq!(
        ingest.app.post(&confirm, &Value::Null).await.status,
        409,
        "there is nothing to confirm yet"
    );

    let words = |count: usize| vec!["word"; count].join(" ");
    let good = fields("2025-01-31", "Ada", "Engines", "On engines.");
    for name in ["date", "author", "topic", "description"] {
        let mut some = good.clone();
        some.as_object_mut().unwrap().remove(name);
        let refused = ingest.put(&path, &some).await;
        refused.assert_problem(422, "invalid_request");
        assert_eq!(
            refused.json()["errors"][0]["field"],
            name,
            "{}",
            refused.text
        );

        // Three answers of "unknown" are one too few.
        let mut unknown = fields("unknown", "unknown", "unknown", "unknown");
        unknown.as_object_mut().unwrap().remove(name);
        assert_eq!(ingest.put(&path, &unknown).await.status, 422);
    }

    for date in ["2025-13-40", "2025-02-29", "yesterday", "31.01.2025"] {
        let refused = ingest
            .put(&path, &fields(date, "Ada", "Engines", "On engines."))
            .await;
        refused.assert_problem(422, "invalid_date");
        assert!(
            refused.text.contains("2025-01-31"),
            "an example: {}",
            refused.text
        );
    }

    let refused = ingest
        .put(&path, &fields("unknown", "Ada", "Engines", &words(201)))
        .await;
    refused.assert_problem(422, "invalid_request");
    assert!(
        refused.text.contains("201") && refused.text.contains("description"),
        "{}",
        refused.text
    );

    let refused = ingest
        .put(&path, &fields("unknown", "Ada", &words(120), &words(200)))
        .await;
    refused.assert_problem(422, "invalid_request");
    assert!(refused.text.contains("300"), "{}", refused.text);

    for date in [
        "2025-01-31",
        "2025-01-31T09:30:00",
        "2025-01-31 09:30:00",
        "2025 01 31",
        "unknown",
    ] {
        assert_eq!(
            ingest
                .put(&path, &fields(date, "Ada", "x", &words(200)))
                .await
                .status,
            200,
            "{date}"
        );
    }

    ingest.awaiting(&id).await;
    // A preview, another one, and only then the confirmation.
    let preview = ingest.put(&path, &good).await;
    assert_eq!(
        preview.json()["preview"],
        "Author: Ada. Date: 2025-01-31. Topic: Engines. On engines."
    );

    let edited = ingest
        .put(
            &path,
            &fields("unknown", "Grace", "unknown", "On\ncompilers."),
        )
        .await;

    assert_eq!(edited.json()["preview"], "Author: Grace. On compilers.");
    let count = TokenCounter::for_model(None).count("Author: Grace. On compilers.") as u64;
    assert_eq!(edited.json()["token_count"], count);
    let waiting = ingest.awaiting(&id).await;
    assert_eq!(waiting["progress"]["preview"], edited.json()["preview"]);
    assert_eq!(
        (ingest.model.stats().requests, ingest.rows().await),
        (0, [0; 5])
    );

    // All of this survives a restart.
    let ingest = ingest.restart(FLAT).await;
    ingest.awaiting(&id).await;
    let reply = ingest.app.post(&confirm, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let job = ingest.finished(&id).await;

    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(used(&ingest), ["Author: Grace. On compilers."]);
    assert!(ingest.asked("helper").is_empty());
    let stored = &helpers(&ingest, source(&job)).await["items"][0];
    assert_eq!(
        (&stored["origin"], &stored["author"]),
        (&json!("user"), &json!("Grace"))
    );

    let event = &job["helper_events"][0];
    assert_eq!(
        (&event["event"], &event["origin"], &event["token_count"]),
        (&json!("confirmed"), &json!("user"), &json!(count))
    );

    assert_eq!(ingest.put(&path, &good).await.status, 409, "it is over");
    // The next text of the same source does not wait, because the user has provided a helper.
    ingest
        .succeed(&document(
            &["C"],
            &json!({"path": "/w.md", "auto_source_identification": false}),
        ))
        .await;
}

#[tokio::test]
async fn four_unknown_fields_are_valid_and_a_cancelled_job_stores_nothing() {
    let ingest = Ingest::with(&[FLAT[0], ("INGESTION__AUTO_SOURCE_IDENTIFICATION", "false")]).await;
    let id = ingest.queue(&document(&["A"], &json!({}))).await;
    ingest.awaiting(&id).await;
    let path = format!("/v1/jobs/{id}/helper");
    let reply = ingest
        .put(&path, &fields("unknown", "unknown", "Unknown", "unknown"))
        .await;

    assert_eq!(
        (
            reply.json()["preview"].as_str(),
            reply.json()["token_count"].as_i64()
        ),
        (Some(""), Some(0))
    );

    let cancelled = ingest
        .app
        .post(&format!("/v1/jobs/{id}/cancel"), &Value::Null)
        .await;

    assert_eq!(cancelled.json()["state"], "cancelled");
    assert_eq!(
        (ingest.model.stats().requests, ingest.rows().await),
        (0, [0; 5])
    );

    assert_eq!(
        ingest
            .app
            .post(&format!("{path}/confirm"), &Value::Null)
            .await
            .status,
        409
    );

    // A retry waits again; this time it is confirmed.
    let retried = ingest
        .app
        .post(&format!("/v1/jobs/{id}/retry"), &Value::Null)
        .await;

    assert_eq!(retried.status, 202);
    ingest.awaiting(&id).await;
    ingest
        .put(&path, &fields("unknown", "unknown", "unknown", "unknown"))
        .await;
    assert_eq!(
        ingest
            .app
            .post(&format!("{path}/confirm"), &Value::Null)
            .await
            .status,
        200
    );

    let job = ingest.finished(&id).await;
    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(used(&ingest), ["none"], "nothing is known of it");

    // A generated helper does not count as provided by the user.
    let auto = json!({"path": "/b.md", "auto_source_identification": true});
    ingest.succeed(&document(&["A"], &auto)).await;
    let id = ingest
        .queue(&document(&["B"], &json!({"path": "/b.md"})))
        .await;
    ingest.awaiting(&id).await;

    // A helper sent with the text does.
    let given = json!({"path": "/c.md", "contextual_helper": "A letter.\nOf 1900."});
    let job = ingest.succeed(&document(&["A"], &given)).await;
    assert_eq!(used(&ingest).last().unwrap(), "A letter. Of 1900.");
    assert_eq!(job["helper_events"][0]["event"], "provided");
    let given = json!({"contextual_helper": fields("2025-13-40", "a", "b", "c")});
    let refused = ingest.submit(&document(&["A"], &given)).await;

    refused.assert_problem(422, "invalid_request");
    assert!(
        refused.text.contains("contextual_helper.date"),
        "{}",
        refused.text
    );
}

/// A source that is not filed gets a helper too.
#[tokio::test]
async fn a_source_that_is_not_filed_gets_a_helper_from_its_text() {
    let ingest = Ingest::with(FLAT).await;
    for indexes in [json!(["semantic"]), json!([])] {
        let body =
            json!({"text": "The violin maker chose spruce.", "options": {"indexes": indexes}});
        let job = ingest.succeed(&body).await;
        ingest.model.clear();
        let reply = ingest
            .app
            .post(
                &format!("/v1/sources/{}/helper/regenerate", source(&job)),
                &Value::Null,
            )
            .await;

        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        let asked = &ingest.asked("helper")[0].user;
        assert!(
            asked.ends_with("Chunk 1:\n\"\"\"\nThe violin maker chose spruce.\n\"\"\""),
            "{asked}"
        );
    }
}

#[tokio::test]
async fn a_users_helper_stays_until_it_is_regenerated() {
    let ingest = Ingest::with(FLAT).await;
    let path = |more: Value| {
        let mut body = json!({"path": "/a.md", "title": "T1"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };

    let job = ingest
        .succeed(&document(&["A", "B"], &path(json!({}))))
        .await;
    let id = source(&job).to_owned();
    let own = ingest
        .put(
            &format!("/v1/sources/{id}/helper"),
            &json!({"text": "My own words."}),
        )
        .await;

    assert_eq!(
        (
            own.status.as_u16(),
            &own.json()["version"],
            &own.json()["origin"]
        ),
        (200, &json!(2), &json!("user"))
    );

    ingest.model.clear();
    ingest.succeed(&document(&["C"], &path(json!({})))).await;
    assert_eq!(
        (used(&ingest), ingest.asked("helper").len()),
        (vec!["My own words.".to_owned()], 0)
    );

    // The flag `regenerate_helper`, with the same content and with new content.
    ingest.model.clear();
    let job = ingest
        .succeed(&document(
            &["D"; 7],
            &path(json!({"regenerate_helper": true})),
        ))
        .await;

    assert_eq!(
        (
            &job["result"]["helper_version"],
            ingest.asked("helper").len()
        ),
        (&json!(3), 1)
    );

    assert_eq!(ids(&ingest.asked("helper")[0]), [1, 2, 3, 4, 5]);
    assert!(used(&ingest)[0].starts_with("Author: Ada Example."));
    ingest.model.clear();
    let job = ingest
        .succeed(&document(
            &["D"; 7],
            &path(json!({"regenerate_helper": true})),
        ))
        .await;

    assert_eq!(
        (
            &job["result"]["helper_version"],
            &job["result"]["chunks_written"]
        ),
        (&json!(4), &json!(0))
    );

    // The route, which uses the stored text.
    ingest.model.clear();
    ingest.model.push(helper_says(
        json!({"author": null, "date": null, "topic": null, "summary": "Anew."}),
    ));
    let reply = ingest
        .app
        .post(&format!("/v1/sources/{id}/helper/regenerate"), &Value::Null)
        .await;

    assert_eq!(
        (reply.status.as_u16(), &reply.json()["version"]),
        (200, &json!(5)),
        "{}",
        reply.text
    );

    assert_eq!(
        (&reply.json()["text"], &reply.json()["origin"]),
        (&json!("Anew."), &json!("generated"))
    );

    let asked = &ingest.asked("helper")[0];
    assert!(
        asked
            .user
            .starts_with("filename: a.md\ntitle: T1\nmetadata: none\nChunk 1:\n"),
        "{}",
        asked.user
    );

    assert_eq!(ids(asked), [1, 2, 3, 4, 5]);
    let listed = helpers(&ingest, &id).await;
    let versions: Vec<i64> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| h["version"].as_i64().unwrap())
        .collect();

    assert_eq!(versions, [5, 4, 3, 2, 1]);
    let origins: Vec<&Value> = listed["helper_events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| &h["origin"])
        .collect();

    assert_eq!(
        origins,
        ["generated", "generated", "generated", "user", "generated"]
    );

    let current = ingest
        .app
        .get(&format!("/v1/sources/{id}/helper"))
        .await
        .json();

    assert_eq!(current["text"], "Anew.");
}

/// Small models omit fields instead of returning null.
#[tokio::test]
async fn a_model_may_omit_fields_of_a_helper() {
    let ingest = Ingest::with(FLAT).await;
    ingest
        .model
        .push(helper_says(json!({"summary": "A note on boilers."})));
    ingest.succeed(&document(&["A"], &json!({}))).await;
    assert_eq!(
        ingest.asked("helper").len(),
        1,
        "the first answer was valid"
    );
    assert_eq!(used(&ingest), ["A note on boilers."]);
}
