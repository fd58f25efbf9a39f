//! Searches and queries over memories: only those of the user who is named.

use memoir::scripted_model::{Reply, Seen};
use serde_json::{Value, json};

use super::{Desk, answering, busy, classified, intent};
use crate::support::database::TestDatabase;

/// A source, and messages of two users about the same thing.
async fn furnish(desk: &Desk) -> (String, String) {
    let body = json!({"text": "The harbour office opens at nine. Ships report to the harbour office first.",
        "filename": "harbour.md", "wait": true, "user_id": "ann", "options": {"indexes": ["semantic"]}});
    let reply = desk.app.post("/v1/ingestions", &body).await;
    assert!(reply.status.is_success(), "{}", reply.text);
    let (ann, bob) = (
        desk.thread("ann", Some("Harbour")).await,
        desk.thread("bob", None).await,
    );
    for (thread, who) in [(&ann, "ann"), (&bob, "bob")] {
        desk.say(
            thread,
            &json!({"messages": [
                {"content": format!("My boat lies at the harbour, says {who}"), "tags": ["boat"]},
                {"role": "assistant", "content": "Yes, at pier seven"},
                {"content": "Let us talk about the garden"},
            ], "enrich": false}),
        )
        .await;
    }

    (ann, bob)
}

async fn search(desk: &Desk, body: &Value) -> Vec<Value> {
    let reply = desk.app.post("/v1/search", body).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_search_of_memories_finds_those_of_one_user_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("LLM__MODEL", "local:embedded")]).await;
        let (ann, _) = furnish(&desk).await;
        let ask = |scope: &str, user: &str| json!({"query": "harbour boat", "scope": scope, "filters": {"user_id": user}});

        let memories = search(&desk, &ask("memories", "ann")).await;
        assert_eq!(
            memories[0]["text_content"],
            "My boat lies at the harbour, says ann"
        );
        for item in &memories {
            assert_eq!(
                (&item["owner"], &item["user_id"]),
                (&json!("memory"), &json!("ann"))
            );
            assert_eq!(item["thread_id"], ann);
            assert_eq!(item["source_id"], Value::Null);
            assert!(!item["text_content"].as_str().unwrap().contains("bob"));
        }

        assert_eq!(memories[0]["highlights"][0]["start"], 3);
        assert!(memories[0]["score_parts"]["neighbours"].as_f64().unwrap() >= 0.0);

        let both = search(&desk, &ask("both", "ann")).await;
        let owners: Vec<&str> = both
            .iter()
            .map(|item| item["owner"].as_str().unwrap())
            .collect();
        assert!(
            owners.contains(&"source") && owners.contains(&"memory"),
            "{owners:?}"
        );
        let scores: Vec<f64> = both
            .iter()
            .map(|item| item["score"].as_f64().unwrap())
            .collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "best first: {scores:?}");
        assert!(both.iter().all(|item| item["user_id"] == "ann"));

        // Bob has no source, and nobody has what Carol has.
        let bob = search(&desk, &ask("both", "bob")).await;
        assert!(
            bob.iter()
                .all(|item| item["user_id"] == "bob" && item["owner"] == "memory")
        );
        assert!(search(&desk, &ask("memories", "carol")).await.is_empty());
        let plain = search(&desk, &json!({"query": "harbour boat"})).await;
        assert!(plain.iter().all(|item| item["owner"] == "source"));

        let tagged = json!({"query": "harbour", "scope": "memories", "filters": {"user_id": "ann", "tags": ["boat"]}});
        assert_eq!(search(&desk, &tagged).await.len(), 1);
        let before = json!({"query": "harbour", "scope": "memories", "filters": {"user_id": "ann", "as_of": "2001-01-01T00:00:00Z"}});
        assert!(search(&desk, &before).await.is_empty());
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_context_is_found_by_search_unless_stages_are_named() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        // The stages would look for a topic that nothing here has.
        desk.model.set_rule(answering(
            |_| classified(&["shipping"], 0.5),
            intent(&["refund"], false),
        ));
        let (here, there) = (
            desk.thread("ann", None).await,
            desk.thread("ann", None).await,
        );
        let said = json!([
            {"content": "When did you see the zeppelin museum?"},
            {"role": "assistant", "content": "Yes, last Tuesday"},
        ]);
        desk.say(&there, &json!({"messages": said, "enrich": false}))
            .await;

        let found = |context: &Value, text: &str| {
            let memories = context["memories"].as_array().unwrap();
            memories.iter().any(|one| one["content"] == text)
        };
        let museum = "When did you see the zeppelin museum?";
        let ask = json!({"query": "zeppelin museum", "user_id": "ann", "thread_id": here});
        let context = desk.context(&ask).await;
        assert!(found(&context, museum), "{context}");
        assert!(context["memories"][0]["score_parts"]["search"].is_number());
        assert_eq!(context["intent"]["topics"], json!(["refund"]));
        assert!(!found(&desk.staged(&ask).await, museum));

        // A message with its context takes the same options.
        let say = json!({"content": "the zeppelin museum", "with_context": true, "enrich": false});
        let with = async |more: Value| {
            let mut say = say.clone();
            for (name, value) in more.as_object().unwrap() {
                say[name] = value.clone();
            }
            desk.say(&here, &say).await["context"].clone()
        };
        assert!(found(&with(json!({})).await, museum));
        assert!(found(&with(json!({"rank": "search"})).await, museum));
        assert!(!found(&with(json!({"rank": "staged"})).await, museum));
        let around = with(json!({"expand": 1})).await;
        assert!(found(&around, "Yes, last Tuesday"), "{around}");

        // What is refused is not stored.
        let path = format!("/v1/threads/{here}");
        let before = desk.app.get(&path).await.json()["message_count"].clone();
        for (field, value) in [
            ("expand", json!(2)),
            ("max_tokens", json!(1)),
            ("rank", json!("best")),
        ] {
            let mut bad = say.clone();
            bad[field] = value;
            let reply = desk.app.post(&format!("{path}/messages"), &bad).await;
            reply.assert_problem(422, "invalid_request");
            assert_eq!(reply.json()["errors"][0]["field"], field, "{}", reply.text);
        }
        assert_eq!(desk.app.get(&path).await.json()["message_count"], before);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_context_needs_no_model_at_all() {
    let desk = Desk::on(
        TestDatabase::sqlite(),
        &[("VECTOR__MODEL", "stub:text-embedding-3-small")],
    )
    .await;
    desk.model.always(busy());
    let thread = desk.thread("ann", None).await;
    desk.say(
        &thread,
        &json!({"content": "The zeppelin museum opens at nine", "enrich": false}),
    )
    .await;
    let ask = json!({"query": "zeppelin museum", "user_id": "ann"});
    let found = desk.context(&ask).await;
    assert_eq!(found["intent_fallback"], true);
    assert_eq!(
        found["memories"][0]["content"],
        "The zeppelin museum opens at nine"
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn memories_without_a_user_are_refused() {
    let desk = Desk::open().await;
    for scope in ["memories", "both"] {
        let reply = desk
            .app
            .post("/v1/search", &json!({"query": "x", "scope": scope}))
            .await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], "filters.user_id");
        let reply = desk
            .app
            .post("/v1/queries", &json!({"query": "x", "scope": scope}))
            .await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], "user_id");
    }

    let mixed =
        json!({"query": "x", "scope": "memories", "filters": {"user_id": "ann", "category_id": 1}});
    let reply = desk.app.post("/v1/search", &mixed).await;
    reply.assert_problem(422, "invalid_request");
    assert_eq!(reply.json()["errors"][0]["field"], "filters.category_id");
    desk.app.finish().await;
}

#[tokio::test]
async fn a_query_answers_from_memories_of_one_user_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("LLM__MODEL", "local:embedded")]).await;
        furnish(&desk).await;
        let run = async |body: Value| {
            let reply = desk.app.post("/v1/queries", &body).await;
            assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
            reply.json()
        };

        let own =
            run(json!({"query": "Where does my boat lie?", "scope": "memories", "user_id": "ann"}))
                .await;
        assert_eq!(own["parameters"]["scope"], "memories");
        assert_eq!(own["found"], true, "{own}");
        assert!(own["answer"].as_str().unwrap().contains("harbour"), "{own}");
        assert_eq!(own["chunks"], json!([]));
        let memories = own["memories"].as_array().unwrap();
        assert!(memories.iter().all(|memory| memory["user_id"] == "ann"));
        assert_eq!(memories[0]["number"], 1);
        assert_eq!(memories[0]["cited"], true, "{own}");
        assert_eq!(own["warnings"], json!([]));
        let citation = &own["citations"][0];
        assert_eq!(citation["number"], 1, "{own}");
        assert_eq!(citation["memory_id"], memories[0]["memory_id"]);
        assert_eq!(citation["thread_id"], memories[0]["thread_id"]);
        assert_eq!(citation["chunk_id"], Value::Null);
        let quote = "My boat lies at the harbour, says ann";
        assert_eq!(citation["quote"], quote);
        assert_eq!(
            (&citation["start_char"], &citation["end_char"]),
            (&json!(0), &json!(quote.len()))
        );

        let both = run(
            json!({"query": "Where does my boat lie, and when does the harbour office open?",
            "scope": "both", "user_id": "ann"}),
        )
        .await;
        assert!(!both["memories"].as_array().unwrap().is_empty());
        for citation in both["citations"].as_array().unwrap() {
            let is_memory = !citation["memory_id"].is_null();
            assert_eq!(is_memory, citation["chunk_id"].is_null(), "{citation}");
            let owners = both[if is_memory { "memories" } else { "chunks" }].as_array();
            let quote = citation["quote"].as_str().unwrap();
            let quoted = |one: &Value| one["text_content"].as_str().unwrap().contains(quote);
            assert!(owners.unwrap().iter().any(quoted), "{citation}");
        }

        let none = run(
            json!({"query": "Where does my boat lie?", "scope": "memories", "user_id": "carol"}),
        )
        .await;
        assert_eq!(
            (&none["found"], &none["answer"], &none["memories"]),
            (&json!(false), &Value::Null, &json!([]))
        );

        // The record proves the answer.
        let id = own["id"].as_str().unwrap();
        let replay = desk
            .app
            .post(&format!("/v1/queries/{id}/replay"), &json!({}))
            .await
            .json();
        assert_eq!(replay["identical"], true, "{replay}");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn an_answer_from_both_cites_chunks_and_memories() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        // Names every number that the prompt offers, and one that it does not.
        desk.model
            .set_rule(|seen: &Seen| match seen.stage.as_str() {
                "answer" => {
                    let numbers = seen.user.split("Chunk ").skip(1).filter_map(|part| {
                        let digits: String =
                            part.chars().take_while(char::is_ascii_digit).collect();
                        (!digits.is_empty()).then(|| format!("[{digits}]"))
                    });
                    let numbers: Vec<String> = numbers.collect();
                    let answer = format!(
                        "The boat lies at the harbour {} [999999999].",
                        numbers.join("")
                    );
                    Reply::json(json!({"answer": answer}))
                }
                _ => Reply::sensible(seen),
            });
        furnish(&desk).await;
        let body = json!({"query": "Where does my boat lie at the harbour?", "scope": "both", "user_id": "ann"});
        let reply = desk.app.post("/v1/queries", &body).await;
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        let result = reply.json();
        let citations = result["citations"].as_array().unwrap();
        let of = |field: &str| {
            let those = citations.iter().filter(|one| !one[field].is_null());
            those.count()
        };
        assert!(of("chunk_id") > 0 && of("memory_id") > 0, "{result}");
        assert_eq!(of("chunk_id") + of("memory_id"), citations.len());
        let memories = result["memories"].as_array().unwrap();
        assert!(
            memories.iter().all(|memory| memory["cited"] == true),
            "{result}"
        );
        assert_eq!(result["warnings"][0]["code"], "unknown_citations");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn neighbours_in_a_long_thread_are_those_next_to_the_hits() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("LLM__MODEL", "local:embedded")]).await;
        let thread = desk.thread("ann", None).await;
        let messages: Vec<Value> = (0..1000)
            .map(|n| match n {
                700 | 900 => json!({"content": format!("zeppelin number {n}")}),
                _ => json!({"content": format!("filler {n}"), "role": if n % 2 == 0 { "user" } else { "assistant" }}),
            })
            .collect();
        let body = json!({"messages": messages, "enrich": false});
        desk.say(&thread, &body).await;
        // The rest of the turn of the first, and the turn after it, are gone.
        let listed = desk
            .app
            .get(&format!(
                "/v1/threads/{thread}/messages?limit=500&user_id=ann&newest_first=true"
            ))
            .await
            .json();
        // Newest first: the last of 1,000 messages is the first here.
        let items = listed["items"].as_array().unwrap();
        for gone in &items[999 - 703..=999 - 701] {
            desk.delete(&format!("/v1/memories/{}", gone["id"].as_str().unwrap()))
                .await;
        }

        let ask = json!({"query": "zeppelin", "user_id": "ann", "rank": "search", "expand": 1});
        let context = desk.context(&ask).await;
        let found: Vec<&str> = context["memories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|memory| memory["content"].as_str().unwrap())
            .collect();
        for wanted in ["filler 699", "filler 704", "filler 899", "filler 901"] {
            assert!(
                found.contains(&wanted),
                "{:?} {wanted}: {found:?}",
                desk.app.database.engine
            );
        }

        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_user_is_searched_in_memory_though_all_users_together_do_not_fit() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("VECTOR__MEMORY_MB", "1")]).await;
        let many = desk.thread("bob", None).await;
        for start in [0, 1000] {
            let each = start..start + 1000;
            let said = each.map(|n| json!({"content": format!("A bell rang {n} times.")}));
            let said: Vec<Value> = said.collect();
            desk.say(&many, &json!({"messages": said, "enrich": false}))
                .await;
        }

        let thread = desk.thread("ann", None).await;
        let say = async |content: &str| {
            let body = json!({"content": content, "enrich": false});
            let stored = desk.say(&thread, &body).await;
            stored["id"].as_str().unwrap().to_owned()
        };
        let found = async |user: &str| {
            let body =
                json!({"query": "bell", "scope": "memories", "filters": {"user_id": user}, "k": 2});
            let reply = desk.app.post("/v1/search", &body).await;
            assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
            let result = reply.json();
            let count = result["items"].as_array().unwrap().len();
            (result["index"].as_str().unwrap().to_owned(), count)
        };

        let first = say("The bell of the ferry.").await;
        let in_memory = |count: usize| ("memory".to_owned(), count);
        assert_eq!(found("ann").await, in_memory(1));
        assert_eq!(found("bob").await, ("database".to_owned(), 2));

        // What is written later counts at once.
        say("A bell for the cat.").await;
        assert_eq!(found("ann").await, in_memory(2));
        let deleted = desk.delete(&format!("/v1/memories/{first}")).await;
        assert!(deleted.status.is_success(), "{}", deleted.text);
        assert_eq!(found("ann").await, in_memory(1));
        desk.app.finish().await;
    }
}
