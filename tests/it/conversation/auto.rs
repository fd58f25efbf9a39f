//! Contexts by `rank: auto`, the default: what the search finds, what lasts about the user, dates,
//! and the word that nothing was found.

use serde_json::{Value, json};

use super::Desk;
use crate::support::database::TestDatabase;

const EMBEDDED: &[(&str, &str)] = &[("LLM__MODEL", "local:embedded")];

async fn remember(desk: &Desk, kind: &str, content: &str) -> String {
    let body = json!({"user_id": "ann", "type": kind, "content": content});
    let reply = desk.app.post("/v1/memories", &body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()["id"].as_str().unwrap().to_owned()
}

async fn say_all(desk: &Desk, thread: &str, texts: impl Iterator<Item = String>) -> Vec<String> {
    let messages: Vec<Value> = texts.map(|text| json!({"content": text})).collect();
    let body = json!({"messages": messages, "enrich": false});
    let stored = desk.say(thread, &body).await;
    let ids = stored["items"].as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

fn memories(context: &Value) -> &Vec<Value> {
    context["memories"].as_array().unwrap()
}

fn text(context: &Value) -> &str {
    context["context"].as_str().unwrap()
}

/// The ids of the memories that are not in the text, with the reasons.
fn left_out(context: &Value) -> Vec<(&str, &str)> {
    let all = context["left_out"].as_array().unwrap().iter();
    all.map(|one| {
        let field = |name: &str| one[name].as_str().unwrap();
        (field("memory_id"), field("reason"))
    })
    .collect()
}

#[tokio::test]
async fn what_lasts_is_there_from_the_first_second_beside_a_long_chat() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let thread = desk.thread("ann", None).await;
        let bakeries = (0..40).map(|n| format!("The bakery in street {n} sells bread and cake"));
        say_all(&desk, &thread, bakeries).await;
        remember(&desk, "fact", "I have celiac disease").await;
        remember(&desk, "preference", "Write short answers").await;

        for more in [
            json!({}),
            json!({"thread_id": thread}),
            json!({"expand": 1}),
        ] {
            let mut ask =
                json!({"query": "Which bread can I buy at the bakery?", "user_id": "ann"});
            for (name, value) in more.as_object().unwrap() {
                ask[name] = value.clone();
            }

            let context = desk.context(&ask).await;
            assert_eq!(context["found"], true);
            assert_eq!(memories(&context).len(), 20);
            let day = desk
                .memory(memories(&context)[0]["id"].as_str().unwrap())
                .await;
            let day = &day["created_at"].as_str().unwrap()[..10];
            for line in [
                format!("- [user, {day}] I have celiac disease"),
                format!("- [preference, {day}] Write short answers"),
            ] {
                assert!(text(&context).contains(&line), "{line}: {}", text(&context));
            }

            // The text uses its budget, whether a thread is named or not.
            assert!(text(&context).matches("The bakery in street").count() >= 16);
            assert!(memories(&context).iter().all(|one| one["included"] == true));
        }

        let small = json!({"query": "Which bread can I buy?", "user_id": "ann", "max_tokens": 100});
        let small = desk.context(&small).await;
        assert!(text(&small).contains("celiac"), "{}", text(&small));
        assert!(text(&small).len() <= 400 && small["truncated"] == true);
        assert!(
            left_out(&small)
                .iter()
                .all(|(_, reason)| *reason == "over_budget")
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_context_says_when_nothing_was_ever_said() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let none = json!({"query": "Which car do I drive?", "user_id": "ann"});
        let context = desk.context(&none).await;
        assert_eq!((text(&context), &context["found"]), ("", &json!(false)));

        let thread = desk.thread("ann", None).await;
        let said = ["The tomatoes need water", "Basil likes the sun"];
        let ids = say_all(&desk, &thread, said.iter().map(ToString::to_string)).await;
        remember(&desk, "preference", "Write short answers").await;
        let context = desk.context(&none).await;
        assert_eq!(context["found"], false, "{context}");
        assert!(
            text(&context).starts_with(
                "Nothing that is stored about this user clearly concerns the question."
            )
        );
        assert!(text(&context).contains("Write short answers"));
        assert!(!text(&context).contains("tomatoes"));
        let left = left_out(&context);
        assert!(
            ids.iter()
                .all(|id| left.contains(&(id.as_str(), "unrelated"))),
            "{left:?}"
        );

        let some = json!({"query": "Do the tomatoes need water?", "user_id": "ann"});
        assert_eq!(desk.context(&some).await["found"], true);
        for rank in ["search", "staged"] {
            let mut ask = some.clone();
            ask["rank"] = json!(rank);
            assert_eq!(desk.context(&ask).await["found"], Value::Null);
        }

        desk.app.finish().await;
    }
}

#[tokio::test]
async fn statements_times_and_the_question_itself_decide_what_was_found() {
    let desk = Desk::on(TestDatabase::sqlite(), EMBEDDED).await;
    let thread = desk.thread("ann", None).await;
    let said = ["The tomatoes need water", "Basil likes the sun"];
    say_all(&desk, &thread, said.iter().map(ToString::to_string)).await;
    remember(&desk, "fact", "Ann doesn't own a car").await;
    let ask = async |query: &str| {
        desk.context(&json!({"query": query, "user_id": "ann"}))
            .await
    };

    // In other words than the statement.
    assert_eq!(ask("Do I have a vehicle?").await["found"], true);
    let guitar = "Which guitar do I play?";
    assert_eq!(ask(guitar).await["found"], false);

    // An application often stores the question before it asks.
    say_all(&desk, &thread, std::iter::once(guitar.to_owned())).await;
    let context = ask(guitar).await;
    assert_eq!(context["found"], false);
    assert!(!text(&context).contains("guitar"), "{}", text(&context));

    let today = ask("What did I tell you today?").await;
    assert_eq!(today["found"], true, "{today}");
    assert!(text(&today).contains("tomatoes"));

    // What keeps its place whatever the question is does not count as used.
    let uses = async || {
        let list = desk.app.get("/v1/memories?user_id=ann").await.json();
        list["items"][0]["access_count"].as_i64().unwrap()
    };
    let before = uses().await;
    assert!(text(&ask("How much water do the tomatoes need?").await).contains("own a car"));
    assert_eq!(uses().await, before);
    desk.app.finish().await;
}

#[tokio::test]
async fn a_delivered_message_does_not_become_a_preference() {
    let desk = Desk::on(TestDatabase::sqlite(), EMBEDDED).await;
    let thread = desk.thread("ann", None).await;
    let greeting = "Great. Are you still running?".to_owned();
    say_all(&desk, &thread, std::iter::once(greeting)).await;
    let ask = json!({"query": "Are you running?", "user_id": "ann"});
    for _ in 0..15 {
        desk.context(&ask).await;
    }

    // Older than the first day, from when on uses would lift it.
    let other = desk.thread("ann", None).await;
    desk.app.clock.advance_seconds(2 * 86_400);
    let ask = json!({"query": "Which shoes?", "user_id": "ann", "thread_id": other});
    let context = desk.context(&ask).await;
    assert!(
        !text(&context).contains("## User Context & Preferences"),
        "{}",
        text(&context)
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn a_fact_and_its_message_count_once() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let thread = desk.thread("ann", Some("Moving")).await;
        let said = "We talked long, and then I moved to Bonn in May";
        let message = say_all(&desk, &thread, std::iter::once(said.to_owned()))
            .await
            .remove(0);
        let fact = remember(&desk, "fact", "Ann moved to Bonn").await;
        let evidence = format!(
            "UPDATE memories SET evidence_json = '{{\"message_ids\": [\"{message}\"]}}' WHERE id = '{fact}'"
        );
        desk.app.database.execute(&evidence).await;

        let context = desk
            .context(&json!({"query": "Where did I move?", "user_id": "ann"}))
            .await;
        let ids: Vec<&Value> = memories(&context).iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [&json!(message)]);
        assert_eq!(left_out(&context), [(fact.as_str(), "duplicate")]);
        assert_eq!(context["left_out"][0]["duplicate_of"], message);
        assert_eq!(
            text(&context).matches("Bonn").count(),
            1,
            "{}",
            text(&context)
        );

        // A preference stays in the text through its message, whatever the question is.
        let said = "You know me: I prefer short answers";
        let message = say_all(&desk, &thread, std::iter::once(said.to_owned()))
            .await
            .remove(0);
        let preference = remember(&desk, "preference", "Prefers short answers").await;
        let evidence = format!(
            "UPDATE memories SET evidence_json = '{{\"message_ids\": [\"{message}\"]}}' WHERE id = '{preference}'"
        );
        desk.app.database.execute(&evidence).await;
        let other = json!({"query": "Which car do I drive?", "user_id": "ann"});
        let context = desk.context(&other).await;
        assert_eq!(context["found"], false, "{context}");
        assert_eq!(
            text(&context).matches("short answers").count(),
            1,
            "{}",
            text(&context)
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn of_two_memories_that_contradict_each_other_the_later_comes_first() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let thread = desk.thread("ann", None).await;
        // The newer one is stored first.
        let mut ids = Vec::new();
        for (content, day) in [
            ("The deadline moved to 9 June", "2026-01-20"),
            (
                "The deadline of our project is 3 May, the deadline",
                "2025-12-01",
            ),
            ("The deadline is 3 May", "2026-01-02"),
        ] {
            let said = json!({"content": content, "enrich": false, "created_at": format!("{day}T08:00:00Z")});
            let stored = desk.say(&thread, &said).await;
            ids.push(stored["id"].as_str().unwrap().to_owned());
        }

        let ask = json!({"query": "When is the deadline?", "user_id": "ann"});
        let context = desk.context(&ask).await;
        let wanted = json!([{"newer_id": ids[0], "older_id": ids[2], "by": "rule"}]);
        assert_eq!(context["conflicts"], wanted, "{}", text(&context));
        let place = |words: &str| text(&context).find(words).unwrap();
        assert!(place("moved to 9 June") < place("The deadline is 3 May"));
        assert!(
            text(&context)
                .contains("- [user, 2026-01-02, earlier] (from: Untitled) The deadline is 3 May")
        );
        assert_eq!(text(&context).matches("earlier").count(), 1);
        let scores = memories(&context)
            .iter()
            .map(|one| one["score"].as_f64().unwrap());
        assert!(
            scores
                .collect::<Vec<_>>()
                .is_sorted_by(|one, other| one >= other)
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_new_statement_lists_what_it_contradicts_and_replaces_nothing() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let home = remember(&desk, "fact", "Lives in Ghent").await;
        remember(&desk, "fact", "Works for Umbra").await;
        let thread = desk.thread("ann", None).await;
        let rent = say_all(
            &desk,
            &thread,
            ["The rent is 850 euros".to_owned()].into_iter(),
        );
        let rent = rent.await.remove(0);

        let store = async |content: &str, more: Value| {
            let mut body = json!({"user_id": "ann", "content": content});
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let reply = desk.app.post("/v1/memories", &body).await;
            assert_eq!(reply.status, 201, "{}", reply.text);
            (reply.json(), reply.header("etag").to_owned())
        };
        let (moved, etag) = store("I moved to Leipzig", json!({})).await;
        let conflict = json!({"newer_id": moved["id"], "older_id": home, "by": "rule"});
        assert_eq!(moved["conflicts"], json!([conflict]));
        let (raised, _) = store("The rent is 920 euros now", json!({})).await;
        assert_eq!(raised["conflicts"][0]["older_id"], rent);
        // What it replaces by request is no conflict, nor what somebody else has said.
        let (again, _) = store("Lives in Antwerp", json!({"supersedes": moved["id"]})).await;
        assert_eq!(again["conflicts"][0]["older_id"], home);
        assert_eq!(again["conflicts"].as_array().unwrap().len(), 1);
        let (other, _) = store("Lives in Rome", json!({"user_id": "bob"})).await;
        assert_eq!(other["conflicts"], json!([]));

        let path = format!("/v1/memories/{home}?user_id=ann");
        assert_eq!(
            desk.app.get(&path).await.json()["superseded_by"],
            Value::Null
        );
        let path = format!("/v1/memories/{}", raised["id"].as_str().unwrap());
        assert!(!etag.is_empty() && desk.app.get(&path).await.json()["conflicts"].is_null());
        let ask = json!({"query": "Where do I live?", "user_id": "ann"});
        let context = desk.context(&ask).await;
        let place = |words: &str| text(&context).find(words).unwrap_or(usize::MAX);
        assert!(place("Antwerp") < place("Ghent"), "{}", text(&context));
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_new_statement_contradicts_an_old_one_in_other_words() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let home = remember(&desk, "fact", "I live in Ghent").await;
        for number in 0..51 {
            remember(&desk, "fact", &format!("Likes tea number {number}")).await;
        }

        let body = json!({"user_id": "ann", "content": "I moved to Leipzig"});
        let moved = desk.app.post("/v1/memories", &body).await.json();
        let conflict = json!({"newer_id": moved["id"], "older_id": home, "by": "rule"});
        assert_eq!(moved["conflicts"], json!([conflict]));
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn other_words_for_the_same_are_found() {
    let desk = Desk::on(TestDatabase::sqlite(), EMBEDDED).await;
    let thread = desk.thread("ann", None).await;
    let said = (0..60).map(|n| match n {
        31 => "Dad is coeliac, so he gets his own flour".to_owned(),
        _ => format!("We have to keep in mind that shop {n} is shut when it rains"),
    });
    let ids = say_all(&desk, &thread, said).await;
    let ask = json!({"query": "What does my father eat?", "filters": {"user_id": "ann"}, "scope": "memories", "k": 3});
    let found = desk.app.post("/v1/search", &ask).await.json();
    assert_eq!(found["items"][0]["memory_id"], ids[31], "{found}");
    let parts = &found["items"][0]["score_parts"];
    assert!(parts["similar_words"].as_f64().unwrap() > 0.3, "{parts}");
    assert!(parts["similar_words_standing"].as_f64().unwrap() > 0.0);
    desk.app.finish().await;
}

#[tokio::test]
async fn long_texts_are_not_read_to_compare_their_words() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, EMBEDDED).await;
        let thread = desk.thread("ann", None).await;
        let long = format!("We bake {}", "é".repeat(4_000));
        let said = [
            "Dad bakes our bread".to_owned(),
            "I bake, too".to_owned(),
            long,
        ];
        let ids = say_all(&desk, &thread, said.into_iter()).await;

        let ask = |kind: &str| json!({"query": "What does my father bake?", "filters": {"user_id": "ann"}, "scope": "memories", "type": kind});
        for (kind, compared) in [("hybrid", &ids[..2]), ("keyword", &ids[..0])] {
            let found = desk.app.post("/v1/search", &ask(kind)).await.json();
            let items = found["items"].as_array().unwrap();
            assert_eq!(items.len(), 3, "{found}");
            for item in items {
                let is_compared = compared.iter().any(|id| item["memory_id"] == **id);
                let share = &item["score_parts"]["similar_words"];
                assert_eq!(share.is_number(), is_compared, "{kind} {item}");
            }
        }

        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_question_about_the_current_thread_stays_in_it() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(super::answering(
            |_| super::classified(&["shipping"], 0.5),
            json!({
                "topics": [], "category": null, "time_scope": "all", "entities": [],
                "search_current_thread_only": true,
            }),
        ));
        let (here, there) = (
            desk.thread("ann", None).await,
            desk.thread("ann", None).await,
        );
        say_all(
            &desk,
            &here,
            (0..3).map(|n| format!("the parcel {n} is late")),
        )
        .await;
        say_all(
            &desk,
            &there,
            (0..30).map(|n| format!("the other parcel {n} is late")),
        )
        .await;
        for rank in ["auto", "search"] {
            let ask = json!({
                "query": "Which parcel is late?", "user_id": "ann", "thread_id": here, "rank": rank, "expand": 1
            });
            let context = desk.context(&ask).await;
            assert_eq!(memories(&context).len(), 3, "{rank}");
            let own = |one: &Value| one["thread_id"] == here.as_str();
            assert!(memories(&context).iter().all(own), "{rank}");
        }

        desk.app.finish().await;
    }
}

#[tokio::test]
async fn neighbours_never_make_more_than_twenty() {
    let desk = Desk::on(TestDatabase::sqlite(), EMBEDDED).await;
    let thread = desk.thread("ann", None).await;
    let texts = (0..60).map(|n| match n % 10 {
        0 => format!("The zeppelin {n} flies over the lake"),
        _ => format!("Something else, number {n}"),
    });
    say_all(&desk, &thread, texts).await;
    for rank in ["auto", "search"] {
        let ask = |expand: u8| {
            json!({
                "query": "zeppelin over the lake", "user_id": "ann", "rank": rank, "expand": expand
            })
        };
        let (plain, wide) = (desk.context(&ask(0)).await, desk.context(&ask(1)).await);
        assert_eq!(
            (memories(&plain).len(), memories(&wide).len()),
            (20, 20),
            "{rank}"
        );
    }

    // What has nothing to do with the question makes room for what was said next to the answers.
    let ask = json!({"query": "zeppelin over the lake", "user_id": "ann", "expand": 1});
    let context = desk.context(&ask).await;
    for near in ["number 11", "number 21", "number 19", "number 29"] {
        assert!(text(&context).contains(near), "{near}: {}", text(&context));
    }

    desk.app.finish().await;
}
