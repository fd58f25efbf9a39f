//! The cases of an evaluation: a question, what is expected, and whether a result is right.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

/// One question and what is expected.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub question: String,
    /// The file that holds the evidence: its name, or the end of its path.
    #[serde(default)]
    source: Option<String>,
    /// Several files, each with a part of the evidence.
    #[serde(default)]
    sources: Vec<String>,
    /// Words of the chunk that is the evidence.
    #[serde(default)]
    quote: Option<String>,
    /// What the answer has to contain: one of these.
    #[serde(default)]
    answer: Option<OneOrMore>,
    /// False for a question that the store does not answer.
    #[serde(default = "yes")]
    pub found: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Reads JSON Lines.
pub fn read(path: &Path) -> anyhow::Result<Vec<Case>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    let mut cases = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }

        let case: Case = serde_json::from_str(line).with_context(|| {
            format!(
                "line {number} of {}: write one JSON object per line, with the field question and \
                 optionally source, sources, quote, answer and found",
                path.display()
            )
        })?;
        cases.push(case);
    }

    if cases.is_empty() {
        bail!("{} contains no questions", path.display());
    }

    Ok(cases)
}

impl Case {
    /// The share of the expected evidence that these chunks contain; `None` if none is expected.
    pub fn recall(&self, chunks: &[Value]) -> Option<f64> {
        let mut sources: Vec<Option<&str>> = self
            .sources
            .iter()
            .map(|source| Some(source.as_str()))
            .collect();
        sources.extend(self.source.as_deref().map(Some));
        if sources.is_empty() && self.quote.is_some() {
            sources.push(None);
        }

        if sources.is_empty() {
            return None;
        }

        let held = sources
            .iter()
            .filter(|source| chunks.iter().any(|chunk| self.is_evidence(chunk, **source)))
            .count();
        #[expect(clippy::cast_precision_loss, reason = "few files")]
        let share = held as f64 / sources.len() as f64;
        Some(share)
    }

    fn is_evidence(&self, chunk: &Value, source: Option<&str>) -> bool {
        let text = |name: &str| chunk[name].as_str().unwrap_or_default();
        let named = source.is_none_or(|source| {
            let path = text("path");
            let ends = path
                .strip_suffix(source)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
            ends || text("filename") == source
        });

        let quoted = self
            .quote
            .as_ref()
            .is_none_or(|quote| contains(text("text_content"), quote));
        named && quoted
    }

    /// Whether an answer is right; `None` if no answer is expected.
    pub fn is_answered(&self, answer: Option<&str>) -> Option<bool> {
        let wanted = match self.answer.as_ref()? {
            OneOrMore::One(wanted) => std::slice::from_ref(wanted),
            OneOrMore::More(wanted) => wanted.as_slice(),
        };

        let answer = answer.unwrap_or_default();
        Some(wanted.iter().any(|wanted| contains(answer, wanted)))
    }
}

/// Whether a text contains another, ignoring white space and case.
fn contains(text: &str, part: &str) -> bool {
    plain(text).contains(&plain(part))
}

fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case(value: Value) -> Case {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn evidence_is_a_source_a_quote_or_both() {
        let chunk = |path: &str, text: &str| json!({"path": path, "filename": "plan.md", "text_content": text});
        let chunks = [
            chunk("/a/plan.md", "We ship\non 2 May."),
            chunk("/b/other.md", "We wait."),
        ];
        for (wanted, share) in [
            (json!({"question": "?", "source": "plan.md"}), Some(1.0)),
            (
                json!({"question": "?", "source": "a/plan.md", "quote": "ship on 2 may"}),
                Some(1.0),
            ),
            (
                json!({"question": "?", "source": "/b/other.md", "quote": "2 May"}),
                Some(0.0),
            ),
            (json!({"question": "?", "source": "lan.txt"}), Some(0.0)),
            (json!({"question": "?", "quote": "we wait"}), Some(1.0)),
            (
                json!({"question": "?", "sources": ["b/other.md", "c.md"]}),
                Some(0.5),
            ),
            (json!({"question": "?"}), None),
        ] {
            assert_eq!(case(wanted.clone()).recall(&chunks), share, "{wanted}");
        }
    }

    #[test]
    fn an_answer_contains_one_of_the_expected_texts() {
        let one = case(json!({"question": "?", "answer": "2 may"}));
        let more = case(json!({"question": "?", "answer": ["June", "2 May"]}));
        for case in [one, more] {
            assert_eq!(case.is_answered(Some("On 2\nMay [1].")), Some(true));
            assert_eq!(case.is_answered(Some("In April.")), Some(false));
            assert_eq!(case.is_answered(None), Some(false));
        }
        assert_eq!(case(json!({"question": "?"})).is_answered(Some("x")), None);
    }
}
