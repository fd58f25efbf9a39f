//! A task for a model: a type with a prompt, an output, and checks that a schema cannot express.
//!
//! A new task needs a file in `tasks`, a variant of `AnyTask`, and an answer in the provider that
//! computes answers. A task whose answer is a list of items (chunks, summaries) defines how items
//! are identified; then only invalid items are requested again, and a truncated answer is split.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tasks::AnyTask;

/// A task for a model.
pub trait Task: Clone + Into<AnyTask> + Send + Sync + 'static {
    /// The name of its stage in records, metrics and settings.
    const STAGE: &'static str;
    /// The description of the answer in the provider's schema.
    const DESCRIPTION: &'static str;
    /// The instruction, which is the same for every call, so that providers can cache it.
    const SYSTEM: &'static str;
    /// Where the answer lists its items, if it is a list.
    const ITEMS: Option<Items> = None;
    /// The tool that the model has to call, for a task whose tool has a name of its own. Such a task
    /// uses tools wherever the model supports them.
    const TOOL: Option<&'static str> = None;

    /// Whether the answer is free text, without a schema; then [`Task::read_text`] reads it.
    const FREE_TEXT: bool = false;
    /// Whether the caller asks about fewer items if the model takes too long. Then the same request
    /// is not sent again.
    const DIVISIBLE: bool = false;
    /// Whether an answer may have more fields than the schema; the task reports them.
    const LENIENT: bool = false;

    type Output: Serialize + DeserializeOwned + JsonSchema + Send + Sync;

    /// The user message, stable parts first.
    fn frame(&self) -> String;

    /// Checks that a schema cannot express.
    fn check(&self, output: &Self::Output) -> Vec<Fault>;

    /// The answer as a free text.
    fn read_text(&self, _text: &str) -> Option<Self::Output> {
        None
    }

    /// The instruction of this call, for a task with calls of several kinds. Each kind has its own,
    /// which is the same for every call.
    fn instruction(&self) -> &'static str {
        Self::SYSTEM
    }

    /// The instruction, for a task that does not have the same for every call.
    fn own_system(&self) -> Option<String> {
        None
    }

    /// Tokens that a note about a wrong answer may have, if the prompt has a budget.
    fn note_room(&self) -> Option<usize> {
        None
    }

    /// The level of the hierarchy, if there is one.
    fn level(&self) -> Option<i64> {
        None
    }

    /// The exact schema to send and to check by, for a task that does not use the derived one.
    fn own_schema(&self) -> Option<Value> {
        None
    }

    /// Narrows the schema to a closed choice.
    fn narrow(&self, _schema: &mut Value) {}

    /// Limits lists and texts in the schema, for small models that write endlessly. Not for all
    /// models, because the schema should be the same for every call, and some providers reject
    /// limits.
    fn bound(&self, _schema: &mut Value) {}

    /// Fills in what an answer may leave out, before it is checked by the schema.
    fn complete(&self, _answer: &mut Value) {}

    /// Normalises an answer before it is checked.
    fn settle(&self, output: Self::Output) -> Self::Output {
        output
    }

    /// The ids of the requested items.
    fn ids(&self) -> Vec<i64> {
        Vec::new()
    }

    /// This task for these items only.
    #[must_use]
    fn only(&self, _ids: &[i64]) -> Self {
        self.clone()
    }

    /// Merges the answers to the parts.
    fn merge(mut parts: Vec<Self::Output>) -> Option<Self::Output> {
        parts.pop()
    }

    /// Whether the task is not worth a call to the fallback model.
    fn is_for_one_model(&self) -> bool {
        false
    }

    /// How often invalid items are requested again, if it differs from the setting.
    fn item_retries(&self) -> Option<u64> {
        None
    }

    /// Turns an answer that is still invalid after every retry into a valid one, if possible.
    fn last_resort(&self, _output: Self::Output) -> Option<Self::Output> {
        None
    }
}

/// Where an answer lists its items.
#[derive(Debug, Clone, Copy)]
pub struct Items {
    /// The field with the list.
    pub list: &'static str,
    /// The field that identifies an item.
    pub id: &'static str,
    /// The word for an item in messages to the model.
    pub noun: &'static str,
}

/// An error in an answer, worded so that the model can correct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The invalid item; `None` for the whole answer.
    pub item: Option<i64>,
    pub message: String,
}

impl Fault {
    pub fn whole(message: impl Into<String>) -> Self {
        Self {
            item: None,
            message: message.into(),
        }
    }

    pub fn item(id: i64, message: impl Into<String>) -> Self {
        Self {
            item: Some(id),
            message: message.into(),
        }
    }
}
