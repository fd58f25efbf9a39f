//! A prompt as the messages of a provider: the stable parts first and marked for the provider's
//! prompt cache.

use memoir_text::tokens::TokenCounter;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::builder::{self, Block};

/// The form of a composed prompt. `text` (the default): only the text; `openai`: `messages` for
/// chat completions; `anthropic`: `system` and `messages`, with `cache_control` at the end of the
/// unchanging part; `gemini`: `system` for `system_instruction`, and `messages` for `contents`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The text of the prompt alone.
    #[default]
    Text,
    /// `messages` of chat completions. The cache works by prefix and needs no marks.
    Openai,
    /// `system` and `messages`, with `cache_control` at the end of what is stable.
    Anthropic,
    /// `system` as `system_instruction`, `messages` as `contents`. The cache works by prefix.
    Gemini,
}

/// A compiled prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    pub system: Option<Value>,
    pub messages: Option<Value>,
    /// Tokens before the last block, which two runs over unchanged inputs share.
    pub cache_prefix_tokens: usize,
}

/// Compiles the blocks.
#[must_use]
pub fn compile(blocks: &[Block], target: Target, counter: TokenCounter) -> Compiled {
    let is_rule = |block: &&Block| matches!(block.name.as_str(), "hard_rules" | "project_memory");
    let (rules, rest): (Vec<&Block>, Vec<&Block>) = blocks.iter().partition(is_rule);
    let rules: Vec<String> = rules.into_iter().map(Block::rendered).collect();
    let rules = (!rules.is_empty()).then(|| rules.join("\n\n"));
    let rest: Vec<(bool, String)> = rest
        .into_iter()
        .map(|block| (block.name != builder::TASK, block.rendered()))
        .collect();

    let stable: Vec<Block> = blocks
        .iter()
        .filter(|block| block.name != builder::TASK)
        .cloned()
        .collect();
    let (system, messages) = match target {
        Target::Text => (None, None),
        Target::Openai => (None, Some(openai(rules, &rest))),
        Target::Anthropic => anthropic(rules, &rest),
        Target::Gemini => gemini(rules, &rest),
    };
    Compiled {
        system,
        messages,
        cache_prefix_tokens: counter.count(&builder::text(&stable)),
    }
}

fn openai(rules: Option<String>, rest: &[(bool, String)]) -> Value {
    let parts: Vec<Value> = rest
        .iter()
        .map(|(_, text)| json!({"type": "text", "text": text}))
        .collect();
    let system = rules.map(|text| json!({"role": "system", "content": text}));
    let user = json!({"role": "user", "content": parts});
    system.into_iter().chain([user]).collect()
}

fn anthropic(rules: Option<String>, rest: &[(bool, String)]) -> (Option<Value>, Option<Value>) {
    let mark = json!({"type": "ephemeral"});
    let system = rules.map(|text| json!([{"type": "text", "text": text, "cache_control": mark}]));
    let last_stable = rest.iter().rposition(|(stable, _)| *stable);
    let parts: Vec<Value> = rest
        .iter()
        .enumerate()
        .map(|(place, (_, text))| {
            let mut part = json!({"type": "text", "text": text});
            if Some(place) == last_stable {
                part["cache_control"] = mark.clone();
            }
            part
        })
        .collect();
    (system, Some(json!([{"role": "user", "content": parts}])))
}

fn gemini(rules: Option<String>, rest: &[(bool, String)]) -> (Option<Value>, Option<Value>) {
    let system = rules.map(|text| json!({"parts": [{"text": text}]}));
    let parts: Vec<Value> = rest.iter().map(|(_, text)| json!({"text": text})).collect();
    (system, Some(json!([{"role": "user", "parts": parts}])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, text: &str) -> Block {
        Block {
            name: name.to_owned(),
            header: format!("[{name}]"),
            text: text.to_owned(),
        }
    }

    #[test]
    fn each_provider_gets_its_own_form() {
        let counter = TokenCounter::for_model(None);
        let blocks = [
            block("hard_rules", "Be brief."),
            block("s_ctx", "Facts"),
            block("task", "Go."),
        ];
        let openai = compile(&blocks, Target::Openai, counter);
        assert_eq!(
            openai.messages.unwrap(),
            json!([
                {"role": "system", "content": "[hard_rules]\nBe brief."},
                {"role": "user", "content": [
                    {"type": "text", "text": "[s_ctx]\nFacts"},
                    {"type": "text", "text": "[task]\nGo."}]}
            ])
        );

        let anthropic = compile(&blocks, Target::Anthropic, counter);
        assert_eq!(
            anthropic.system.unwrap()[0]["cache_control"]["type"],
            "ephemeral"
        );
        let parts = &anthropic.messages.unwrap()[0]["content"];
        assert_eq!(parts[0]["cache_control"]["type"], "ephemeral");
        assert!(parts[1].get("cache_control").is_none());

        let gemini = compile(&blocks, Target::Gemini, counter);
        assert_eq!(
            gemini.messages.unwrap()[0]["parts"][1]["text"],
            "[task]\nGo."
        );
        let text = compile(&blocks, Target::Text, counter);
        assert_eq!((text.system, text.messages), (None, None));
        assert_eq!(
            text.cache_prefix_tokens,
            counter.count("[hard_rules]\nBe brief.\n\n[s_ctx]\nFacts")
        );
    }
}
