//! The settings of the retrieval policy, their defaults and their ranges.

use std::ops::RangeInclusive;

use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::built_in::BuiltIn;
use super::patterns::{self, CompiledPatterns};

/// The most custom patterns, and the most characters of each.
pub const MAX_PATTERNS: usize = 50;
pub const LONGEST_PATTERN: usize = 500;
/// The most characters of a replacement.
const LONGEST_REPLACEMENT: usize = 50;

/// The ranges for a request, which extend to an administrator's value outside them.
const REQUEST_TOP_K: RangeInclusive<usize> = 6..=10;
const REQUEST_CLIP: RangeInclusive<usize> = 1..=2;
const REQUEST_TOKENS: RangeInclusive<usize> = 1..=1500;

/// What an administrator may set.
const ADMIN_TOP_K: RangeInclusive<usize> = 1..=20;
const ADMIN_CLIP: RangeInclusive<usize> = 1..=5;
const ADMIN_TOKENS: RangeInclusive<usize> = 100..=3000;

/// The settings of a policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = MemorySettings)]
pub struct Settings {
    #[serde(default)]
    pub retrieval: Retrieval,
    #[serde(default)]
    pub interleaving: Interleaving,
    #[serde(default)]
    pub redaction: Redaction,
}

/// What is searched, and how much of the result is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = MemoryRetrievalSettings)]
pub struct Retrieval {
    /// Maximum number of memories in a payload.
    #[schema(minimum = 1, maximum = 20)]
    pub top_k: usize,
    /// Maximum number of sentences per memory.
    #[schema(minimum = 1, maximum = 5)]
    pub clip_sentences: usize,
    pub clipping: Clipping,
    /// Maximum tokens of all memories together, at four characters per token.
    #[schema(minimum = 100, maximum = 3000)]
    pub max_tokens: usize,
    pub search_type: SearchType,
    /// Memories with a lower score are left out.
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: f64,
    /// Whether matches of the patterns are replaced.
    pub enable_redaction: bool,
    /// Regular expressions whose matches are replaced too: at most 50, each of at most 500
    /// characters. Each may have a size of at most 250, and all together of 2,000: `[0-9]{4}` has a
    /// size of 4, and a word of half its letters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub custom_redaction_patterns: Vec<String>,
}

impl Default for Retrieval {
    fn default() -> Self {
        Self {
            top_k: 8,
            clip_sentences: 2,
            clipping: Clipping::Best,
            max_tokens: 1500,
            search_type: SearchType::Hybrid,
            min_score: 0.3,
            enable_redaction: false,
            custom_redaction_patterns: Vec::new(),
        }
    }
}

/// Which sentences of a memory are kept: those that match the query best (`best`, the default), or
/// the first ones (`first`). Without a match, the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MemoryClipping)]
pub enum Clipping {
    #[default]
    Best,
    First,
}

/// How memories are searched: by meaning (`semantic`), by keyword (`keyword`), or both (`hybrid`,
/// the default).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MemorySearchType)]
pub enum SearchType {
    #[default]
    Hybrid,
    Semantic,
    Keyword,
}

/// The order of the kept memories.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = MemoryInterleaving)]
pub struct Interleaving {
    pub strategy: Strategy,
    /// For `score_first` and `recency_first`: the share of the `topK` positions that the first
    /// criterion fills; 0.5 if omitted.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// The order of score and recency. `score_first` (the default): the best scores, then the most
/// recent; `alternate`: best score, most recent, next best score, and so on; `recency_first`: the
/// most recent, then the best scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MemoryInterleavingStrategy)]
pub enum Strategy {
    /// Best score, most recent, next best score, next most recent, …
    Alternate,
    #[default]
    ScoreFirst,
    RecencyFirst,
}

/// What is redacted in addition to the three standard patterns (US social security numbers, numbers
/// of 16 digits, e-mail addresses), and the text that replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = MemoryRedaction)]
pub struct Redaction {
    /// The text that replaces a match.
    pub replacement: String,
    /// Names of built-in patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub built_in: Vec<BuiltIn>,
    /// `read`: returned text is redacted, and stored text stays unchanged. `write`: new messages
    /// and memories are also redacted before they are stored (`redacted: true`).
    #[serde(skip_serializing_if = "RedactAt::is_read")]
    pub at: RedactAt,
}

/// When text is redacted: only when it is returned (`read`, the default), or also before it is
/// stored (`write`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MemoryRedactionTime)]
pub enum RedactAt {
    #[default]
    Read,
    Write,
}

impl RedactAt {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_read(&self) -> bool {
        *self == Self::Read
    }
}

impl Default for Redaction {
    fn default() -> Self {
        Self {
            replacement: "[REDACTED]".to_owned(),
            built_in: Vec::new(),
            at: RedactAt::Read,
        }
    }
}

/// The fields that a single request may set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub top_k: Option<usize>,
    pub clip_sentences: Option<usize>,
    pub max_tokens: Option<usize>,
    pub search_type: Option<SearchType>,
    pub min_score: Option<f64>,
}

/// Settings that break a rule: every field with what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFault(pub Vec<FieldError>);

impl Settings {
    /// The policy as it was first published: score and recency alternate, and each memory is cut to
    /// its first sentences.
    #[must_use]
    pub fn published() -> Self {
        let mut settings = Self::default();
        settings.retrieval.clipping = Clipping::First;
        settings.interleaving.strategy = Strategy::Alternate;
        settings
    }

    /// Checks what an administrator sets, and compiles the patterns.
    pub fn check(&self) -> Result<CompiledPatterns, SettingsFault> {
        let mut faults = Faults::default();
        let retrieval = &self.retrieval;
        faults.within("retrieval.topK", retrieval.top_k, &ADMIN_TOP_K);
        faults.within(
            "retrieval.clipSentences",
            retrieval.clip_sentences,
            &ADMIN_CLIP,
        );
        faults.within("retrieval.maxTokens", retrieval.max_tokens, &ADMIN_TOKENS);
        faults.share("retrieval.minScore", retrieval.min_score);
        if let Some(ratio) = self.interleaving.ratio {
            faults.share("interleaving.ratio", ratio);
        }

        let replacement = char_count(&self.redaction.replacement);
        if replacement > LONGEST_REPLACEMENT {
            let message =
                format!("has {replacement} characters; at most {LONGEST_REPLACEMENT} are allowed");
            faults
                .0
                .push(FieldError::new("redaction.replacement", message));
        }

        let compiled = patterns::compile(
            &retrieval.custom_redaction_patterns,
            &self.redaction.built_in,
        );
        match compiled {
            Ok(compiled) if faults.0.is_empty() => Ok(compiled),
            Ok(_) => Err(SettingsFault(faults.0)),
            Err(of_patterns) => {
                faults.0.extend(of_patterns);
                Err(SettingsFault(faults.0))
            }
        }
    }

    /// These settings with the values of one request. The ranges for a request are narrower than
    /// those for an administrator; they extend to an administrator's value outside them.
    pub fn with(&self, overrides: &Overrides) -> Result<Self, SettingsFault> {
        let mut faults = Faults::default();
        let mut settings = self.clone();
        let retrieval = &mut settings.retrieval;

        if let Some(top_k) = overrides.top_k {
            faults.within("topK", top_k, &widened(&REQUEST_TOP_K, retrieval.top_k));
            retrieval.top_k = top_k;
        }
        if let Some(sentences) = overrides.clip_sentences {
            let range = widened(&REQUEST_CLIP, retrieval.clip_sentences);
            faults.within("clipSentences", sentences, &range);
            retrieval.clip_sentences = sentences;
        }
        if let Some(tokens) = overrides.max_tokens {
            let range = widened(&REQUEST_TOKENS, retrieval.max_tokens);
            faults.within("maxTokens", tokens, &range);
            retrieval.max_tokens = tokens;
        }
        if let Some(min_score) = overrides.min_score {
            faults.share("minScore", min_score);
            retrieval.min_score = min_score;
        }
        if let Some(search_type) = overrides.search_type {
            retrieval.search_type = search_type;
        }

        if faults.0.is_empty() {
            Ok(settings)
        } else {
            Err(SettingsFault(faults.0))
        }
    }
}

fn widened(range: &RangeInclusive<usize>, value: usize) -> RangeInclusive<usize> {
    *range.start().min(&value)..=*range.end().max(&value)
}

#[derive(Default)]
struct Faults(Vec<FieldError>);

impl Faults {
    fn within(&mut self, field: &str, value: usize, range: &RangeInclusive<usize>) {
        if !range.contains(&value) {
            let message = format!("must be between {} and {}", range.start(), range.end());
            self.0.push(FieldError::new(field, message));
        }
    }

    fn share(&mut self, field: &str, value: f64) {
        if !(0.0..=1.0).contains(&value) {
            self.0
                .push(FieldError::new(field, "must be between 0 and 1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faulty_fields<T>(result: Result<T, SettingsFault>) -> Vec<String> {
        let Err(SettingsFault(faults)) = result else {
            return Vec::new();
        };
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn a_request_obeys_the_range_of_requests() {
        let settings = Settings::default();
        for (overrides, faulty) in [
            (
                Overrides {
                    top_k: Some(5),
                    ..Overrides::default()
                },
                vec!["topK"],
            ),
            (
                Overrides {
                    top_k: Some(6),
                    ..Overrides::default()
                },
                vec![],
            ),
            (
                Overrides {
                    top_k: Some(10),
                    ..Overrides::default()
                },
                vec![],
            ),
            (
                Overrides {
                    top_k: Some(11),
                    ..Overrides::default()
                },
                vec!["topK"],
            ),
            (
                Overrides {
                    clip_sentences: Some(0),
                    ..Overrides::default()
                },
                vec!["clipSentences"],
            ),
            (
                Overrides {
                    clip_sentences: Some(3),
                    ..Overrides::default()
                },
                vec!["clipSentences"],
            ),
            (
                Overrides {
                    max_tokens: Some(1501),
                    ..Overrides::default()
                },
                vec!["maxTokens"],
            ),
            (
                Overrides {
                    min_score: Some(1.1),
                    ..Overrides::default()
                },
                vec!["minScore"],
            ),
            (
                Overrides {
                    min_score: Some(f64::NAN),
                    ..Overrides::default()
                },
                vec!["minScore"],
            ),
        ] {
            assert_eq!(
                faulty_fields(settings.with(&overrides)),
                faulty,
                "{overrides:?}"
            );
        }
    }

    #[test]
    fn the_administrators_value_widens_the_range_of_requests() {
        let mut settings = Settings::default();
        settings.retrieval.top_k = 15;
        let ask = |top_k| Overrides {
            top_k: Some(top_k),
            ..Overrides::default()
        };

        assert!(settings.with(&ask(15)).is_ok());
        assert_eq!(faulty_fields(settings.with(&ask(16))), ["topK"]);

        settings.retrieval.top_k = 2;
        assert!(settings.with(&ask(2)).is_ok());
        assert_eq!(faulty_fields(settings.with(&ask(1))), ["topK"]);
    }

    #[test]
    fn an_administrator_obeys_the_wider_range() {
        for (top_k, clip, tokens, faulty) in [
            (1, 1, 100, vec![]),
            (20, 5, 3000, vec![]),
            (
                0,
                0,
                99,
                vec![
                    "retrieval.topK",
                    "retrieval.clipSentences",
                    "retrieval.maxTokens",
                ],
            ),
            (
                21,
                6,
                3001,
                vec![
                    "retrieval.topK",
                    "retrieval.clipSentences",
                    "retrieval.maxTokens",
                ],
            ),
        ] {
            let mut settings = Settings::default();
            settings.retrieval.top_k = top_k;
            settings.retrieval.clip_sentences = clip;
            settings.retrieval.max_tokens = tokens;
            assert_eq!(faulty_fields(settings.check()), faulty);
        }
    }

    #[test]
    fn a_pattern_that_does_not_compile_is_named() {
        let mut settings = Settings::default();
        settings.retrieval.custom_redaction_patterns = vec!["ok".into(), "(".into()];
        assert_eq!(
            faulty_fields(settings.check()),
            ["retrieval.customRedactionPatterns[1]"]
        );
    }

    #[test]
    fn settings_are_stored_and_read_back_unchanged() {
        let mut settings = Settings::default();
        settings.retrieval.custom_redaction_patterns = vec![r"\bID-\d+".into()];
        settings.redaction.built_in = vec![BuiltIn::Iban, BuiltIn::PrivateKey];
        settings.interleaving.ratio = Some(0.25);

        let stored = serde_json::to_string(&settings).expect("serializes");
        assert_eq!(
            serde_json::from_str::<Settings>(&stored).expect("parses"),
            settings
        );
    }
}
