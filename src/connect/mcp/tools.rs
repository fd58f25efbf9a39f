//! The tools: five by default, `forget` if it is allowed, and every other call of the API if wanted.

pub mod every_call;

mod ask;
mod forget;
mod ingest;
mod read;
mod recall;
mod remember;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::bounded::cut;
use super::call::{Call, ToolError};
use every_call::EveryCall;

/// Characters of an explanation that a failed call returns.
const MAX_EXPLANATION: usize = 2000;

/// The tools that a server offers.
pub struct Tools {
    listed: Vec<Tool>,
    allow_forget: bool,
    every_call: Option<EveryCall>,
}

impl Tools {
    pub fn new(allow_forget: bool, every_call: Option<EveryCall>) -> Self {
        let mut listed = vec![
            tool::<remember::Arguments, remember::Remembered>(
                "remember",
                "Remember",
                remember::DESCRIPTION,
                WRITES,
            ),
            tool::<recall::Arguments, recall::Recalled>(
                "recall",
                "Recall",
                recall::DESCRIPTION,
                READS,
            ),
            tool::<ask::Arguments, ask::Answered>("ask", "Ask", ask::DESCRIPTION, READS),
            tool::<read::Arguments, read::Read>("read", "Read", read::DESCRIPTION, READS),
            tool::<ingest::Arguments, ingest::Ingested>(
                "ingest",
                "Ingest",
                ingest::DESCRIPTION,
                WRITES_ONCE,
            ),
        ];
        if allow_forget {
            let forget = tool::<forget::Arguments, forget::Forgotten>;
            listed.push(forget("forget", "Forget", forget::DESCRIPTION, DELETES));
        }
        Self {
            listed,
            allow_forget,
            every_call,
        }
    }

    /// All tools that a caller may use; for a single user, only calls that are limited to a user.
    pub fn list(&self, for_a_user: bool) -> Vec<Tool> {
        let mut listed = self.listed.clone();
        let every_call = self.every_call.iter();
        listed.extend(
            every_call
                .flat_map(|every| every.tools(for_a_user))
                .cloned(),
        );
        listed
    }

    /// Calls a tool. What goes wrong is told to the model, which can often correct it; only an unknown tool is an
    /// error of the protocol.
    pub async fn call(
        &self,
        call: &Call<'_>,
        name: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResult, ErrorData> {
        let done = match name {
            "remember" => run(arguments, |given| remember::run(call, given)).await,
            "recall" => run(arguments, |given| recall::run(call, given)).await,
            "ask" => run(arguments, |given| ask::run(call, given)).await,
            "read" => run(arguments, |given| read::run(call, given)).await,
            "ingest" => run(arguments, |given| ingest::run(call, given)).await,
            "forget" if self.allow_forget => run(arguments, |given| forget::run(call, given)).await,
            other => match self
                .every_call
                .as_ref()
                .and_then(|every| every.find(other, call.user.is_some()))
            {
                Some(found) => found.run(call, arguments).await,
                None => {
                    return Err(ErrorData::invalid_params(
                        format!("unknown tool: {}", cut(other, 100, "…")),
                        None,
                    ));
                }
            },
        };

        Ok(done.unwrap_or_else(|error| explained(&error)))
    }
}

fn explained(error: &ToolError) -> CallToolResult {
    let said = cut(&error.to_string(), MAX_EXPLANATION, " […]");
    CallToolResult::error(vec![ContentBlock::text(said)])
}

/// What a tool does to what is stored: whether it only reads, may delete, and may be repeated.
type Effect = (bool, bool, bool);
const READS: Effect = (true, false, true);
const WRITES: Effect = (false, false, false);
const WRITES_ONCE: Effect = (false, false, true);
const DELETES: Effect = (false, true, true);

fn annotations(title: &str, (reads, deletes, repeatable): Effect) -> ToolAnnotations {
    ToolAnnotations::with_title(title)
        .read_only(reads)
        .destructive(deletes)
        .idempotent(repeatable)
        .open_world(false)
}

fn tool<A, R>(name: &'static str, title: &str, description: &'static str, effect: Effect) -> Tool
where
    A: JsonSchema + 'static,
    R: JsonSchema + 'static,
{
    Tool::new(name, description, JsonObject::new())
        .with_title(title)
        .with_input_schema::<A>()
        .with_output_schema::<R>()
        .with_annotations(annotations(title, effect))
}

async fn run<A, F>(
    arguments: JsonObject,
    tool: impl FnOnce(A) -> F,
) -> Result<CallToolResult, ToolError>
where
    A: DeserializeOwned,
    F: Future<Output = Result<CallToolResult, ToolError>>,
{
    let given = serde_path_to_error::deserialize(Value::Object(arguments));
    let given = given
        .map_err(|error| ToolError::Argument(format!("the arguments are invalid: {error}")))?;
    tool(given).await
}

/// JSON of a part of the API's document.
fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}
