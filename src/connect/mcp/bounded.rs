//! Results of a bounded size: what a client hands to its model never has more tokens than
//! `mcp.max_result_tokens`, however much was found.

use memoir_text::tokens::TokenCounter;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// How often a result is made smaller before it is reduced to its minimum.
const TRIES: usize = 6;
/// Characters that a token has at the most on average; a first guess is cut to this.
const CHARS_PER_TOKEN: usize = 5;

/// What a tool has to say: as text for people and models, and as data.
#[derive(Debug, Clone, Default)]
pub struct Output {
    pub text: String,
    pub data: Value,
}

impl Output {
    fn result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        if !self.data.is_null() {
            result.structured_content = Some(self.data);
        }

        result
    }
}

/// The largest result within the limit. `make` gets the number of characters that texts may have
/// together; with 0 it returns what is always small enough.
pub fn fitted(max_tokens: usize, make: impl Fn(usize) -> Output) -> CallToolResult {
    let mut chars = max_tokens.saturating_mul(CHARS_PER_TOKEN);
    for _ in 0..TRIES {
        let result = make(chars).result();
        let tokens = tokens_of(&result, max_tokens);
        if tokens <= max_tokens {
            return result;
        }

        // A little less than the share that fits, because the frame of a result does not shrink.
        let fair = chars.saturating_mul(max_tokens) / tokens.max(1);
        chars = fair.saturating_mul(9) / 10;
    }

    make(0).result()
}

/// The beginning of a text that has at most so many tokens as it is sent.
pub fn fitting(text: &str, max_tokens: usize, said: &str) -> String {
    let result = fitted(max_tokens, |chars| Output {
        text: cut(text, chars, said),
        data: Value::Null,
    });
    let text = result.content.first().and_then(ContentBlock::as_text);
    text.map(|text| text.text.clone()).unwrap_or_default()
}

/// Tokens of the result as it is sent; not counted if there cannot be too many.
fn tokens_of(result: &CallToolResult, max_tokens: usize) -> usize {
    let sent = serde_json::to_string(result).unwrap_or_default();
    if sent.len() <= max_tokens {
        return 0;
    }

    TokenCounter::for_model(None).count(&sent)
}

/// The beginning of a text, at most so many characters; what is cut off is said.
pub fn cut(text: &str, chars: usize, said: &str) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}{said}", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_has_at_most_so_many_tokens_in_any_script() {
        for piece in ["word ", "语言", "🙂", "\"\\\n", "Zażółć "] {
            let long = piece.repeat(40_000);
            let make = |chars: usize| Output {
                text: cut(&long, chars, " […]"),
                data: json!({"text": cut(&long, chars, " […]")}),
            };
            let result = fitted(700, make);
            let sent = serde_json::to_string(&result).expect("serialises");
            let tokens = TokenCounter::for_model(None).count(&sent);
            assert!(tokens <= 700, "{piece:?}: {tokens}");
            assert!(tokens > 300, "{piece:?}: {tokens}");
        }
    }
}
