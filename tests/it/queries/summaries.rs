//! SUMMARIZE: the ratio, the parts, the exact prompt, retries and the two final checks.

use memoir::scripted_model::{Reply, Seen};
use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};

use super::{each, texts};
use crate::support::library::Desk;

const HEADROOM: (&str, &str) = ("QUERY__SUMMARIZATION_INSTRUCTION_HEADROOM_TOKENS", "100");
const INSTRUCTION: &str = "For each chunk above, produce a summary of at most its `target_chars` characters. Preserve key facts, entities, dates, numbers, and definitions. Omit repetition and boilerplate. Return only the JSON schema below.";

fn tokens(text: &str) -> i64 {
    i64::try_from(TokenCounter::for_model(Some("gpt-4o")).count(text)).unwrap()
}

fn words(word: &str, count: usize) -> String {
    format!("{word} ").repeat(count)
}

/// Six chunks of a hundred words in one leaf.
async fn six(desk: &Desk) -> Vec<String> {
    let texts: Vec<String> = ["cedar", "daisy", "elm", "fern", "grass", "heather"]
        .map(|word| words(word, 100))
        .into();
    let leaf: &[&str] = &["A", "B", "C"];
    let filed: Vec<_> = texts.iter().map(|text| (leaf, text.as_str())).collect();
    desk.library.add("/1.txt", &filed).await;

    texts
}

fn body(budget: i64) -> Value {
    json!({"query": "Which tree?", "prompt_limiting_strategy": "SUMMARIZE", "max_token_budget": budget})
}

/// The chunks of a request: id, original and target characters.
fn asked(seen: &Seen) -> Vec<(i64, i64, i64)> {
    let number = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse::<i64>()
            .unwrap()
    };

    let line = |line: &str| {
        let (id, rest) = line
            .strip_prefix("Chunk ")?
            .split_once(" (original_chars=")?;
        let (original, target) = rest.split_once(", target_chars=")?;
        Some((number(id), number(original), number(target)))
    };

    seen.user.lines().filter_map(line).collect()
}

/// A model whose summaries have the length that this function computes from the target.
fn summarizing(desk: &Desk, length: impl Fn(&Seen, i64, i64) -> i64 + Send + Sync + 'static) {
    desk.model.set_rule(move |seen| {
        if seen.stage != "summarize" {
            return Reply::sensible(seen);
        }

        let summary = |(id, _, target): (i64, i64, i64)| {
            json!({"chunk_id": id, "summary": "x".repeat(usize::try_from(length(seen, id, target)).unwrap())})
        };
        Reply::json(json!({"summaries": asked(seen).into_iter().map(summary).collect::<Vec<_>>()}))
    });
}

#[tokio::test]
async fn all_chunks_are_shortened_by_one_ratio_in_parts_that_fit() {
    let desk = Desk::with(&[HEADROOM]).await;
    let originals = six(&desk).await;
    let budget = 560;
    let result = desk.ask_well(body(budget)).await;
    let estimate = &result["estimate"];
    let (fixed, total) = (
        estimate["fixed_prompt_token_count"].as_i64().unwrap(),
        estimate["chunks_total_token_count"].as_i64().unwrap(),
    );

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let ratio = (budget - fixed) as f64 / total as f64;
    let summarization = &result["summarization"];
    assert!((summarization["ratio"].as_f64().unwrap() - ratio).abs() < 1e-12);
    assert_eq!(summarization["part_token_cap"], budget - 100);
    let calls = desk.seen("summarize");

    assert!(calls.len() > 1, "{}", calls.len());
    assert_eq!(
        calls.len(),
        summarization["parts"].as_array().unwrap().len()
    );

    let listed: Vec<_> = calls.iter().flat_map(asked).collect();
    let ids = each(&result["chunks"], "chunk_id");
    assert_eq!(
        listed.iter().map(|(id, ..)| json!(id)).collect::<Vec<_>>(),
        ids,
        "in order, each once"
    );

    for ((_, original, target), text) in listed.iter().zip(&originals) {
        assert_eq!(*original, i64::try_from(text.chars().count()).unwrap());
        assert_eq!(*target, (*original * (budget - fixed) / total).max(1));
    }

    for call in &calls {
        assert!(!asked(call).is_empty());
        assert!(
            tokens(&call.system) + tokens(&call.user) <= budget - 100,
            "{}",
            call.user
        );

        assert!(call.user.ends_with(INSTRUCTION));
        let schema = call.schema.as_ref().unwrap();
        assert!(
            schema
                .pointer("/properties/summaries/items/properties/chunk_id")
                .is_some()
        );
    }

    let (id, original, target) = listed[0];
    let head = format!(
        "Chunk {id} (original_chars={original}, target_chars={target}):\n\"\"\"\n{}\n\"\"\"\n",
        originals[0]
    );

    assert!(calls[0].user.starts_with(&head));
    // All chunks are used, none is dropped, and the prompt contains the summaries.
    assert_eq!(result["used_chunks"].as_array().unwrap().len(), 6);
    assert_eq!(
        (&result["dropped_paths"], &result["dropped_chunks"]),
        (&json!([]), &json!([]))
    );

    assert_eq!(texts(&result), originals);
    let sent = desk.seen("answer").pop().unwrap();
    assert!(tokens(&sent.system) + tokens(&sent.user) <= budget);
    assert!(!sent.user.contains(&originals[0]));
    assert_eq!(each(&result["warnings"], "code"), ["use_rankings_ignored"]);

    desk.close().await;
}

#[tokio::test]
async fn chunks_that_fit_are_not_summarized() {
    let desk = Desk::with(&[HEADROOM]).await;
    six(&desk).await;
    let first = desk.ask_well(body(8000)).await;
    assert_eq!(
        (&first["summarization"], desk.seen("summarize").len()),
        (&Value::Null, 0)
    );

    let estimate = &first["estimate"];
    let all = estimate["fixed_prompt_token_count"].as_i64().unwrap()
        + estimate["chunks_total_token_count"].as_i64().unwrap();
    let exact = desk.ask_well(body(all)).await;
    assert_eq!(
        (&exact["summarization"], desk.seen("summarize").len()),
        (&Value::Null, 0)
    );

    let less = desk.ask_well(body(all - 1)).await;
    assert!(less["summarization"].is_object());
    desk.close().await;
}

#[tokio::test]
async fn rejects_a_budget_without_room_for_chunks() {
    let desk = Desk::with(&[HEADROOM]).await;
    six(&desk).await;
    let long = json!({
        "query": words("why", 300), "prompt_limiting_strategy": "SUMMARIZE", "max_token_budget": 200
    });
    desk.ask(long).await.assert_problem(422, "budget_too_small");
    assert!(desk.seen("summarize").is_empty());

    // One chunk that is too large for any call.
    let leaf: &[&str] = &["A", "B", "C"];
    desk.library
        .add("/2.txt", &[(leaf, &words("oak", 1000))])
        .await;
    let reply = desk.ask(body(700)).await;
    reply.assert_problem(422, "budget_too_small");
    assert!(
        reply.json()["detail"].as_str().unwrap().contains("chunk"),
        "{}",
        reply.text
    );

    desk.close().await;
}

#[tokio::test]
async fn a_chunk_above_the_cap_is_summarized_alone() {
    let desk = Desk::with(&[HEADROOM]).await;
    let leaf: &[&str] = &["A", "B", "C"];
    let (small, large) = (words("cedar", 60), words("oak", 500));
    desk.library
        .add("/1.txt", &[(leaf, &small), (leaf, &large), (leaf, &small)])
        .await;
    let budget = 780;
    let result = desk.ask_well(body(budget)).await;
    let parts = result["summarization"]["parts"].as_array().unwrap();

    assert_eq!(
        parts
            .iter()
            .map(|part| part["chunk_ids"].as_array().unwrap().len())
            .collect::<Vec<_>>(),
        [1, 1, 1]
    );

    assert!(parts[1]["input_token_count"].as_i64().unwrap() > budget - 100);
    desk.close().await;
}

#[tokio::test]
async fn only_summaries_that_are_too_long_are_requested_again() {
    let desk = Desk::with(&[HEADROOM]).await;
    six(&desk).await;
    let ids: Vec<i64> = each(&desk.ask_well(body(8000)).await["chunks"], "chunk_id")
        .iter()
        .map(|id| id.as_i64().unwrap())
        .collect();

    let bad = ids[1];
    desk.model.clear();
    summarizing(&desk, move |seen, id, target| {
        let again = seen.user.contains("must have at most");
        if id == bad && !again {
            target + 1
        } else {
            target
        }
    });

    let result = desk.ask_well(body(500)).await;
    let calls = desk.seen("summarize");
    let again: Vec<_> = calls
        .iter()
        .filter(|call| call.user.contains("must have at most"))
        .collect();

    assert_eq!(again.len(), 1);
    assert_eq!(
        asked(again[0])
            .iter()
            .map(|(id, ..)| *id)
            .collect::<Vec<_>>(),
        [bad]
    );

    let repeated = each(&result["responses"], "attempt")
        .iter()
        .filter(|attempt| **attempt == 2)
        .count();

    assert_eq!(repeated, 1);
    assert_eq!(
        result["summarization"]["chunks"].as_array().unwrap().len(),
        6
    );

    desk.close().await;
}

#[tokio::test]
async fn all_summaries_together_may_exceed_their_length_by_the_tolerance() {
    for (percent, retries, fine) in [
        (105, "1", true),
        (106, "1", false),
        (105, "0", true),
        (107, "0", false),
    ] {
        let desk = Desk::with(&[HEADROOM, ("QUERY__SUMMARY_MAX_RETRIES", retries)]).await;
        six(&desk).await;
        // Rounded down, so that 105 is not above 105.
        summarizing(&desk, move |_, _, target| {
            if percent == 105 {
                target * 105 / 100
            } else {
                (target * percent).div_euclid(100) + 1
            }
        });
        let reply = desk.ask(body(700)).await;
        let calls = desk.seen("summarize").len();
        let told = reply.json();
        let told = if fine {
            &told["summarization"]
        } else {
            &told["context"]["summarization"]
        };
        let parts = told["parts"].as_array().unwrap().len();
        assert!(parts > 1, "{told}");
        if fine {
            let result = Desk::answered(&reply);
            let summarization = &result["summarization"];
            assert!(
                summarization["combined_char_count"].as_i64()
                    <= summarization["allowed_char_count"].as_i64()
            );
        } else {
            reply.assert_problem(422, "character_budget_not_met");
            assert!(desk.seen("answer").is_empty());
        }
        assert_eq!(
            calls,
            parts * (1 + retries.parse::<usize>().unwrap()),
            "{percent} {retries}"
        );
        desk.close().await;
    }
}

#[tokio::test]
async fn summaries_with_too_many_tokens_are_not_sent() {
    let desk = Desk::with(&[HEADROOM]).await;
    six(&desk).await;
    desk.model.set_rule(|seen| {
        if seen.stage != "summarize" {
            return Reply::sensible(seen);
        }

        // As many characters as allowed, but several tokens per character.
        let summary = |(id, _, target): (i64, i64, i64)| {
            json!({"chunk_id": id, "summary": "𒀱".repeat(usize::try_from(target).unwrap())})
        };
        Reply::json(json!({"summaries": asked(seen).into_iter().map(summary).collect::<Vec<_>>()}))
    });

    let reply = desk.ask(body(700)).await;
    reply.assert_problem(422, "final_prompt_over_budget");
    assert!(desk.seen("answer").is_empty());
    assert!(
        reply.json()["context"]["estimate"]["final_prompt_token_count"]
            .as_i64()
            .unwrap()
            > 700
    );

    desk.close().await;
}

#[tokio::test]
async fn summaries_with_a_few_tokens_too_many_are_shortened_once_more() {
    let desk = Desk::with(&[HEADROOM]).await;
    six(&desk).await;
    // As long as allowed, but with more tokens per character than the chunks.
    desk.model.set_rule(|seen| {
        if seen.stage != "summarize" {
            return Reply::sensible(seen);
        }

        let summary = |(id, _, target): (i64, i64, i64)| {
            let text: String = "an ox is by "
                .chars()
                .cycle()
                .take(usize::try_from(target).unwrap())
                .collect();
            json!({"chunk_id": id, "summary": text})
        };
        Reply::json(json!({"summaries": asked(seen).into_iter().map(summary).collect::<Vec<_>>()}))
    });

    let reply = desk.ask(body(700)).await;
    let result = Desk::answered(&reply);
    let parts = result["summarization"]["parts"].as_array().unwrap().len();
    assert!(
        desk.seen("summarize").len() > parts,
        "some were requested again: {result}"
    );
    assert!(
        result["estimate"]["final_prompt_token_count"]
            .as_i64()
            .unwrap()
            <= 700
    );

    desk.close().await;
}

#[tokio::test]
async fn missing_and_unknown_numbers_are_requested_again() {
    let desk = Desk::with(&[HEADROOM]).await;
    six(&desk).await;
    desk.model.set_rule(|seen| {
        let first = seen.stage == "summarize" && !seen.user.contains("is missing");
        let mut reply = Reply::sensible(seen);
        if let (true, memoir::scripted_model::Answer::Json(answer)) = (first, &mut reply.answer) {
            answer["summaries"][0]["chunk_id"] = json!(999_999);
        }

        reply
    });

    let result = desk.ask_well(body(700)).await;
    assert_eq!(
        result["summarization"]["chunks"].as_array().unwrap().len(),
        6
    );

    desk.close().await;
}
