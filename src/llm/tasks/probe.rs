//! The smallest question there is: can this model be asked, and does it keep a schema?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::llm::{Fault, Task};

#[derive(Debug, Clone)]
pub struct Probe;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeOutput {
    /// The word that was asked for.
    pub word: String,
}

impl Task for Probe {
    const STAGE: &'static str = "probe";
    const DESCRIPTION: &'static str = "One word.";
    const SYSTEM: &'static str = "You are being tested. Answer as you are told.";
    type Output = ProbeOutput;

    fn frame(&self) -> String {
        "Answer with the word: ready".to_owned()
    }

    /// Any word will do: it is the schema that counts.
    fn check(&self, _: &ProbeOutput) -> Vec<Fault> {
        Vec::new()
    }
}
