//! The stage `probe`: checks whether a model responds and follows a schema.

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

    /// Any word is accepted; only the schema matters.
    fn check(&self, _: &ProbeOutput) -> Vec<Fault> {
        Vec::new()
    }
}
