//! What the server answers: a script with its rule, and the reply of a rule. A script is plain data
//! that can be sent as JSON, except for rules written as closures.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sensible;
use super::step::Fault;
use super::types::{Seen, Usage};

/// A rule written in Rust.
pub type RuleFn = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// The permanent settings of the server, except for faults.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Delay of each response in milliseconds; 0 means none.
    pub latency_ms: u64,
    /// Milliseconds between the events of a stream.
    pub piece_ms: u64,
    /// Characters of the text in one event.
    pub piece_chars: usize,
    pub rule: Rule,
    pub usage: UsageScript,
    /// This provider has no native mode: it returns 400 with this body ("" for the protocol's own
    /// format).
    pub reject_native: Option<String>,
    /// This provider has no tools: it returns 400 with this body.
    pub reject_tool: Option<String>,
    /// Parameters that this provider rejects with 400.
    pub reject_parameters: Vec<String>,
    /// The length of an embedding if the request does not specify one.
    pub dimensions: usize,
    /// What `GET /v1/models` lists.
    pub models: Vec<String>,
    /// Maximum number of recorded requests; the oldest are dropped first. Long benchmarks set it
    /// low.
    pub record_limit: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            piece_ms: 0,
            piece_chars: 8,
            rule: Rule::default(),
            usage: UsageScript::default(),
            reject_native: None,
            reject_tool: None,
            reject_parameters: Vec::new(),
            dimensions: 64,
            models: vec!["scripted".to_owned()],
            record_limit: 10_000,
        }
    }
}

/// Token counts that replace the default of one token per four characters, rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageScript {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// The part of the prompt that was read from the provider's cache.
    pub cached_tokens: u64,
    /// Omits the token counts from every response.
    pub omit: bool,
}

impl UsageScript {
    pub(super) fn count(&self, sent_chars: usize, said_chars: usize) -> Usage {
        let by_length = |chars: usize| chars.div_ceil(4) as u64;
        let prompt_tokens = self.prompt_tokens.unwrap_or_else(|| by_length(sent_chars));
        Usage {
            prompt_tokens,
            completion_tokens: self
                .completion_tokens
                .unwrap_or_else(|| by_length(said_chars)),
            cached_tokens: self.cached_tokens.min(prompt_tokens),
        }
    }
}

/// How the right answer to a request is computed. Embeddings do not use it, because a vector has no
/// stage.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Solves each stage from the text of its prompt.
    Sensible {
        /// Number of categories for the chunks under one parent.
        #[serde(default = "three")]
        categories_per_parent: u64,
    },
    /// These answers by stage; other stages use the sensible rule.
    ByStage { answers: BTreeMap<String, Value> },
    /// One text for everything.
    Text { text: String },
    #[serde(skip)]
    Closure(RuleFn),
}

const fn three() -> u64 {
    3
}

impl Default for Rule {
    fn default() -> Self {
        Self::Sensible {
            categories_per_parent: three(),
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sensible {
                categories_per_parent,
            } => write!(f, "Sensible({categories_per_parent})"),
            Self::ByStage { answers } => f.debug_tuple("ByStage").field(answers).finish(),
            Self::Text { text } => f.debug_tuple("Text").field(text).finish(),
            Self::Closure(_) => f.write_str("Closure"),
        }
    }
}

impl Rule {
    pub(super) fn reply(&self, seen: &Seen) -> Reply {
        match self {
            Self::Sensible {
                categories_per_parent,
            } => Reply::of(sensible::solve(seen, *categories_per_parent)),
            Self::ByStage { answers } => Reply::json(match answers.get(&seen.stage) {
                Some(answer) => answer.clone(),
                None => return Reply::of(sensible::solve(seen, three())),
            }),
            Self::Text { text } => Reply::text(text.clone()),
            Self::Closure(rule) => rule(seen),
        }
    }
}

/// The output of the model, before it is rendered in a protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Json(Value),
    Text(String),
}

impl Answer {
    /// The answer as the model would write it.
    pub fn into_text(self) -> String {
        match self {
            Self::Json(value) => value.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// What a rule decides for one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub answer: Answer,
    /// Applies if no fault is queued for the request.
    pub fault: Option<Fault>,
    /// Replaces the script's token counts.
    pub usage: Option<Usage>,
}

impl Reply {
    pub fn json(value: Value) -> Self {
        Self {
            answer: Answer::Json(value),
            fault: None,
            usage: None,
        }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self {
            answer: Answer::Text(text.into()),
            fault: None,
            usage: None,
        }
    }

    /// A fault that needs no answer, such as a status.
    pub fn fault(fault: Fault) -> Self {
        Self::json(Value::Null).with_fault(fault)
    }

    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The answer of the sensible rule, for closures that change only some answers.
    pub fn sensible(seen: &Seen) -> Self {
        Self::of(sensible::solve(seen, three()))
    }

    /// A string is an answer in free text, everything else is JSON.
    fn of(value: Value) -> Self {
        match value {
            Value::String(text) => Self::text(text),
            value => Self::json(value),
        }
    }
}
