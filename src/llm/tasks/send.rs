//! The stage `send`: a prompt that a user has composed, answered in free text.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::llm::{Fault, Task};

/// A prompt as its author wrote it; nothing is added to it.
#[derive(Debug, Clone)]
pub struct SendPrompt {
    /// Empty if the prompt has no instruction of its own.
    pub system: Arc<str>,
    pub prompt: Arc<str>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentReply {
    /// The reply.
    pub text: String,
}

impl Task for SendPrompt {
    const STAGE: &'static str = "send";
    const DESCRIPTION: &'static str = "The reply.";
    const SYSTEM: &'static str = "";
    const FREE_TEXT: bool = true;
    type Output = SentReply;

    fn frame(&self) -> String {
        self.prompt.to_string()
    }

    fn own_system(&self) -> Option<String> {
        Some(self.system.to_string())
    }

    fn from_text(&self, text: &str) -> Option<SentReply> {
        let text = text.to_owned();
        Some(SentReply { text })
    }

    fn check(&self, output: &SentReply) -> Vec<Fault> {
        if output.text.trim().is_empty() {
            vec![Fault::whole("the reply is empty")]
        } else {
            Vec::new()
        }
    }
}
