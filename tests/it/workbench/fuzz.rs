//! Random answers of the condenser: whatever it says, no fact without a citation reaches a prompt.

use std::sync::Mutex;

use memoir::scripted_model::Reply as ModelReply;
use serde_json::{Value, json};

use super::{BELL, BOAT, Bench, LAMP, answer, chunk_ids};
use crate::support::dice::Dice;

const RUNS: usize = 500;

impl Dice {
    fn citations(&mut self, ids: &[i64]) -> Value {
        match self.below(8) {
            0 => json!([]),
            1 => json!([999_999]),
            2 => json!([ids[0], 999_999]),
            3 => json!("all"),
            4 => json!([ids[0].to_string()]),
            5 => Value::Null,
            _ => json!([ids[self.index(ids.len())], ids[0]]),
        }
    }

    fn fact(&mut self, ids: &[i64]) -> Value {
        let citations = self.citations(ids);
        let known = |one: &Value| one.as_i64().is_some_and(|id| ids.contains(&id));
        let cited = citations
            .as_array()
            .is_some_and(|all| !all.is_empty() && all.iter().all(known));
        let word = if cited { "SUPPORTED" } else { "MADE-UP" };
        let text = format!("{word} {}\n- [chunk {}]", self.below(1000), ids[0]);
        match self.below(10) {
            0 => json!({"text": text, "citations": citations}),
            1 => json!({"id": self.below(5), "text": text, "citations": citations}),
            2 => json!({"id": "", "text": text, "citations": citations}),
            3 => json!({"id": "F1", "text": text.replace("SUPPORTED", "MADE-UP")}),
            4 => json!(text.replace("SUPPORTED", "MADE-UP")),
            _ => {
                json!({"id": format!("F{}", self.below(1000)), "text": text, "citations": citations})
            }
        }
    }

    fn reply(&mut self, ids: &[i64]) -> ModelReply {
        let facts: Vec<Value> = (0..self.below(4)).map(|_| self.fact(ids)).collect();
        let whole = json!({"facts": facts, "constraints": [], "open_issues": []});
        match self.below(12) {
            0 => ModelReply::text(whole.to_string().chars().take(40).collect::<String>()),
            1 => ModelReply::text(format!("Here it is: {whole} and more")),
            2 => ModelReply::json(json!({"facts": facts})),
            3 => ModelReply::json(json!([whole])),
            _ => ModelReply::json(whole),
        }
    }
}

#[tokio::test]
async fn no_uncited_fact_ever_reaches_a_prompt() {
    let bench = Bench::open().await;
    for (path, text) in [("/lamp.md", LAMP), ("/boat.md", BOAT), ("/bell.md", BELL)] {
        bench.file(path, text).await;
    }
    let dice = Mutex::new(Dice(20_260_101));
    bench.test.model.set_rule(move |seen| {
        if seen.stage != "condense" {
            return answer(seen);
        }
        dice.lock().unwrap().reply(&chunk_ids(&seen.user))
    });

    let body = json!({"task": "What burns in the lamp of the lighthouse?",
        "agents": {"shape": false, "rerank": false, "nli": false, "audit": false}});
    let (mut fallbacks, mut condensed) = (0, 0);
    for run in 0..RUNS {
        let prompt = bench.compose(&body).await;
        let whole = prompt["prompt"].as_str().unwrap();
        assert!(!whole.contains("MADE-UP"), "run {run}: {whole}");
        let facts = prompt["s_ctx"]["facts"].as_array().unwrap();
        let known: Vec<&Value> = prompt["transparency"]["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["chunk_id"])
            .collect();
        for fact in facts {
            let citations = fact["citations"].as_array().unwrap();
            assert!(!citations.is_empty(), "run {run}: {fact}");
            assert!(
                citations.iter().all(|id| known.contains(&id)),
                "run {run}: {fact}"
            );
        }
        if prompt["s_ctx_fallback"] == true {
            fallbacks += 1;
        } else if !facts.is_empty() {
            condensed += 1;
        }
    }

    eprintln!("{fallbacks} fallbacks, {condensed} condensed contexts");
    assert!(fallbacks > 20 && condensed > 20, "{fallbacks} {condensed}");
    bench.test.app.finish().await;
}
