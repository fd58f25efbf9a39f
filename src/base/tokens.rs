//! Token counts: exact, by the model's own byte-pair encoding, and the seeds' quarter rule (K-13).
//!
//! Vocabularies are compiled in and unpacked on first use (some 60 MB), never at start. The counter is
//! linear in the text, whatever it holds; the usual one overflows its stack on a million spaces.

use super::text::char_count;

/// Counts tokens for one model.
#[derive(Debug, Clone, Copy)]
pub struct TokenCounter {
    encoding: Encoding,
    exact: bool,
}

/// The public encodings of models that are still served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    O200kBase,
    Cl100kBase,
}

/// How a model's name begins, the more special beginning first.
const BEGINNINGS: &[(&str, Encoding)] = &[
    ("gpt-4o", Encoding::O200kBase),
    ("gpt-4.", Encoding::O200kBase),
    ("gpt-5", Encoding::O200kBase),
    ("chatgpt-4o", Encoding::O200kBase),
    ("o1", Encoding::O200kBase),
    ("o3", Encoding::O200kBase),
    ("o4", Encoding::O200kBase),
    ("gpt-oss", Encoding::O200kBase),
    ("gpt-4", Encoding::Cl100kBase),
    ("gpt-3.5", Encoding::Cl100kBase),
    ("gpt-35", Encoding::Cl100kBase),
    ("text-embedding-3", Encoding::Cl100kBase),
    ("text-embedding-ada-002", Encoding::Cl100kBase),
];

impl TokenCounter {
    /// The counter of a model, named with or without its provider (`openai:gpt-4o`, `gpt-4o`).
    /// A model whose encoding is not public is counted by `o200k_base`.
    #[must_use]
    pub fn for_model(model: Option<&str>) -> Self {
        let bare = model.map(|name| name.split_once(':').map_or(name, |(_, bare)| bare));
        let known = bare.and_then(|name| BEGINNINGS.iter().find(|(beginning, _)| belongs(name, beginning)));
        match known {
            Some((_, encoding)) => Self { encoding: *encoding, exact: true },
            None => Self { encoding: Encoding::O200kBase, exact: false },
        }
    }

    /// Whether the encoding is the model's own, not a stand-in.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.exact
    }

    /// The encoding's public name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.encoding {
            Encoding::O200kBase => "o200k_base",
            Encoding::Cl100kBase => "cl100k_base",
        }
    }

    /// The number of tokens in `text`; special tokens count as the ordinary text they are.
    ///
    /// Takes about 0.1 ms per 400 tokens: call it from a blocking thread above some 50 kB.
    #[must_use]
    pub fn count(self, text: &str) -> usize {
        let tokenizer = match self.encoding {
            Encoding::O200kBase => bpe_openai::o200k_base(),
            Encoding::Cl100kBase => bpe_openai::cl100k_base(),
        };
        tokenizer.count(text)
    }
}

/// Whether a name is that of the family or of a member: `o1`, `o1-mini`, but not `o1ogy`.
fn belongs(name: &str, family: &str) -> bool {
    let rest = name.strip_prefix(family);
    rest.is_some_and(|rest| family.ends_with('.') || rest.chars().next().is_none_or(|c| !c.is_ascii_alphabetic()))
}

/// A quarter of the characters, rounded up: the rule by which two of the seeds define their budgets.
#[must_use]
pub fn quarter_estimate(text: &str) -> usize {
    char_count(text).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_find_their_encoding() {
        for (model, name, exact) in [
            (Some("gpt-4o"), "o200k_base", true),
            (Some("openai:gpt-4o"), "o200k_base", true),
            (Some("gpt-4"), "cl100k_base", true),
            (Some("qwen2.5:7b"), "o200k_base", false),
            (Some("gpt-4.1-mini"), "o200k_base", true),
            (Some("gpt-4-turbo"), "cl100k_base", true),
            (Some("o3-mini"), "o200k_base", true),
            (Some("o1ogy"), "o200k_base", false),
            (None, "o200k_base", false),
        ] {
            let counter = TokenCounter::for_model(model);
            assert_eq!((counter.name(), counter.is_exact()), (name, exact), "{model:?}");
        }
    }

    /// Expected values from OpenAI's own tiktoken.
    #[test]
    fn counts_equal_the_reference() {
        let text = "tiktoken is great!";
        assert_eq!(TokenCounter::for_model(Some("gpt-4")).count(text), 6);
        assert_eq!(TokenCounter::for_model(Some("gpt-4o")).count(text), 6);
        assert_eq!(TokenCounter::for_model(Some("gpt-4o")).count("<|endoftext|>"), 7);
        assert_eq!(TokenCounter::for_model(None).count(""), 0);
    }

    #[test]
    fn the_quarter_rule_rounds_up() {
        assert_eq!([0, 1, 4, 5].map(|n| quarter_estimate(&"é".repeat(n))), [0, 1, 1, 2]);
    }
}
