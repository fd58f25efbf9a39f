//! The faults: defined here, and applied in `plan`. A step is a fault with the requests that it
//! applies to; both can be sent as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::types::{OutputMode, Seen};

/// One way in which a response can fail or differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// This status; an empty body is replaced by an error in the protocol's own format.
    Status {
        status: u16,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        body: String,
    },
    /// Applies only to requests in native mode.
    RefuseNative {
        #[serde(default = "bad_request")]
        status: u16,
        #[serde(default)]
        body: String,
    },
    /// Applies only to requests in tool mode.
    RefuseTool {
        #[serde(default = "bad_request")]
        status: u16,
        #[serde(default)]
        body: String,
    },
    /// Applies only to requests whose body has this parameter.
    RejectParameter { name: String },
    /// The connection is closed before any byte of a response.
    Close,
    /// Headers and half of the body, then a reset.
    ResetMidBody,
    /// Nothing is sent; the connection stays open.
    Stall,
    /// Headers and half of the body, then nothing more.
    StallMidBody,
    /// The right answer, this much later than the script's latency.
    Delay { ms: u64 },
    /// The model's text; in tool mode the arguments.
    RawText { text: String },
    /// The model's answer is this value instead of the right one.
    RawAnswer { json: Value },
    /// The right answer in a code fence, with other text around it.
    Fenced {
        #[serde(default)]
        before: String,
        #[serde(default)]
        after: String,
    },
    /// The right answer cut after this many characters, with the finish reason for it.
    Truncated { keep_chars: usize },
    /// The model declines. `blocked_prompt` selects Gemini's other format, without a candidate.
    Refusal {
        text: String,
        #[serde(default)]
        blocked_prompt: bool,
    },
    /// The right answer as plain text although a tool call was requested.
    NoToolCall,
    /// A message without text.
    Empty,
    /// Status 200 with an HTML page, as a proxy would send.
    Html,
    /// A message of this many bytes; `chunked` omits the size from the headers.
    Huge {
        bytes: usize,
        #[serde(default)]
        chunked: bool,
    },
    /// The right answer without the block of token counts.
    NoUsage,
    /// The right answer with the value at this JSON pointer replaced (or added to its object).
    Edit { pointer: String, value: Value },
    /// The right answer without the value at this JSON pointer.
    Remove { pointer: String },
}

const fn bad_request() -> u16 {
    400
}

impl Fault {
    /// Faults about a mode or a parameter ignore requests that do not use it.
    fn concerns(&self, seen: &Seen) -> bool {
        match self {
            Self::RefuseNative { .. } => seen.mode == OutputMode::Native,
            Self::RefuseTool { .. } => seen.mode == OutputMode::Tool,
            Self::RejectParameter { name } => has_parameter(&seen.body, name),
            _ => true,
        }
    }
}

/// Whether the request sets this parameter, at the top level or in Gemini's generation settings.
pub(super) fn has_parameter(body: &Value, name: &str) -> bool {
    let settings = body.get("generationConfig");
    body.get(name).is_some() || settings.is_some_and(|settings| settings.get(name).is_some())
}

/// A fault and the requests that it applies to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Step {
    #[serde(flatten)]
    pub fault: Fault,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_stage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_model: Option<String>,
    /// Applies until the faults are cleared, instead of to one request.
    pub always: bool,
}

impl Step {
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            only_stage: None,
            only_model: None,
            always: false,
        }
    }

    #[must_use]
    pub fn only_stage(mut self, stage: &str) -> Self {
        self.only_stage = Some(stage.to_owned());
        self
    }

    #[must_use]
    pub fn only_model(mut self, model: &str) -> Self {
        self.only_model = Some(model.to_owned());
        self
    }

    pub(super) fn matches(&self, seen: &Seen) -> bool {
        self.only_stage
            .as_ref()
            .is_none_or(|stage| *stage == seen.stage)
            && self
                .only_model
                .as_ref()
                .is_none_or(|model| *model == seen.model)
            && self.fault.concerns(seen)
    }
}

impl From<Fault> for Step {
    fn from(fault: Fault) -> Self {
        Self::new(fault)
    }
}

// Implemented manually, because a flattened field would silently accept misspelt names.
impl TryFrom<Map<String, Value>> for Step {
    type Error = serde_json::Error;

    fn try_from(mut map: Map<String, Value>) -> Result<Self, Self::Error> {
        let mut take = |name: &str| map.remove(name).unwrap_or_default();
        let only_stage = serde_json::from_value(take("only_stage"))?;
        let only_model = serde_json::from_value(take("only_model"))?;
        let always: Option<bool> = serde_json::from_value(take("always"))?;
        let fault = serde_json::from_value(Value::Object(map))?;

        Ok(Self {
            fault,
            only_stage,
            only_model,
            always: always.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_can_be_written_and_read_as_json() {
        let step = Step::new(Fault::Delay { ms: 5 }).only_stage("select");
        let json = serde_json::to_value(&step).unwrap();
        assert_eq!(
            json,
            json!({"kind": "delay", "ms": 5, "only_stage": "select", "always": false})
        );

        assert_eq!(serde_json::from_value::<Step>(json).unwrap(), step);
    }

    #[test]
    fn a_misspelt_field_is_an_error() {
        let step = json!({"kind": "delay", "ms": 5, "only_stge": "select"});
        assert!(serde_json::from_value::<Step>(step).is_err());
    }
}
