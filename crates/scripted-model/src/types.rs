//! What the server records about a request of any protocol, and its counts. Tests read these;
//! nothing here decides a response.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The wire format a request arrived in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    OpenAi,
    Anthropic,
    Gemini,
    /// `OpenAI`'s embeddings; a separate protocol, because it has no messages.
    Embeddings,
}

/// How the caller requested structured output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The provider enforces a schema on the message text.
    Native,
    /// The answer is the arguments of a tool call.
    Tool,
    /// The schema is only in the prompt.
    Prompted,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// In progress.
    Pending,
    /// The whole response, with this status, was handed to the connection.
    Answered(u16),
    /// The client disconnected before the response was complete.
    Abandoned,
    /// A fault, or the end of the server, broke the connection.
    Broken,
}

/// One request to a model endpoint, reduced to what all protocols share.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Starts at 1 and is never reused, not even after a clear.
    pub number: u64,
    pub protocol: Protocol,
    pub model: String,
    /// The name of the schema or tool, or the stage recognised from the prompt; "" if neither.
    pub stage: String,
    pub mode: OutputMode,
    pub system: String,
    pub user: String,
    pub schema: Option<Value>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    /// Whether the answer is sent as a stream of events.
    pub streamed: bool,
    pub headers: Vec<(String, String)>,
    pub body: Value,
    #[serde(skip)]
    pub arrived: Instant,
    /// Milliseconds from the server's start to the arrival.
    pub at_ms: u64,
    pub outcome: Outcome,
}

impl Seen {
    /// The first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The tool that the answer calls: the forced one, otherwise the first.
    pub(super) fn tool_name(&self) -> &str {
        let forced = ["/tool_choice/function/name", "/tool_choice/name"];
        let first = [
            "/tools/0/function/name",
            "/tools/0/name",
            "/tools/0/functionDeclarations/0/name",
        ];

        forced
            .iter()
            .chain(&first)
            .find_map(|path| self.body.pointer(path)?.as_str())
            .unwrap_or_default()
    }
}

/// Tokens of one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All tokens sent, including cached ones (Anthropic's `input_tokens` is rendered without
    /// them).
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub cached_tokens: u64,
}

/// Counts since the start or the last clear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Requests to model endpoints that could be read.
    pub requests: u64,
    pub answered: u64,
    pub abandoned: u64,
    pub broken: u64,
    /// Requests in progress; a clear does not change this.
    pub in_flight: u64,
    /// Maximum number of concurrent requests.
    pub max_in_flight: u64,
    /// Requests whose body was not a JSON object; they get 400 and are not recorded.
    pub unreadable: u64,
    /// Requests with a fault, queued or permanent.
    pub faults_met: u64,
    /// Steps still in the queue.
    pub faults_queued: u64,
    pub by_stage: BTreeMap<String, u64>,
    /// Complete answers by status code.
    pub by_status: BTreeMap<u16, u64>,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}
