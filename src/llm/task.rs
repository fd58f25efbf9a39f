//! What can be asked of a model: a task is a type with a frame, an output, and checks that no
//! schema can hold.
//!
//! Adding one touches its file in `tasks`, `AnyTask`, and the provider that computes answers. A task whose answer lists items (chunks, summaries)
//! says how its items are told apart; then only those that came back wrong are asked again, and an
//! answer that was cut off is split.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tasks::AnyTask;

/// Something to ask of a model.
pub trait Task: Clone + Into<AnyTask> + Send + Sync + 'static {
    /// Its name in records, metrics and settings.
    const STAGE: &'static str;
    /// What the answer is, for the provider's schema.
    const DESCRIPTION: &'static str;
    /// The instruction: the same for every call, so that providers can keep it in their caches.
    const SYSTEM: &'static str;
    /// Where the answer lists its items, if it does.
    const ITEMS: Option<Items> = None;

    type Output: Serialize + DeserializeOwned + JsonSchema + Send + Sync;

    /// The user message, stable parts first.
    fn frame(&self) -> String;

    /// Checks that no schema can hold.
    fn check(&self, output: &Self::Output) -> Vec<Fault>;

    /// The level of the hierarchy it is about.
    fn level(&self) -> Option<i64> {
        None
    }

    /// Narrows the schema to a closed choice.
    fn narrow(&self, _schema: &mut Value) {}

    /// Limits lists and texts in the schema, for small models that go on without an end. Not for
    /// all, as the schema is to be the same for every call, and some providers refuse limits.
    fn bound(&self, _schema: &mut Value) {}

    /// Brings an answer into the one spelling that the service uses, before it is checked.
    fn settle(&self, output: Self::Output) -> Self::Output {
        output
    }

    /// The ids of the items asked for.
    fn ids(&self) -> Vec<i64> {
        Vec::new()
    }

    /// The same question about these items alone.
    #[must_use]
    fn only(&self, _ids: &[i64]) -> Self {
        self.clone()
    }

    /// One answer out of those to its parts.
    fn merge(mut parts: Vec<Self::Output>) -> Option<Self::Output> {
        parts.pop()
    }

    /// Whether nobody else is asked when the model cannot answer: it is not worth that.
    fn is_for_one_model(&self) -> bool {
        false
    }

    /// How often wrong items are asked again; the setting's word unless the task knows better.
    fn item_retries(&self) -> Option<u64> {
        None
    }

    /// What to make of an answer that still breaks a rule after every retry, if anything.
    fn last_resort(&self, _output: Self::Output) -> Option<Self::Output> {
        None
    }
}

/// Where an answer lists its items.
#[derive(Debug, Clone, Copy)]
pub struct Items {
    /// The field with the list.
    pub list: &'static str,
    /// The field of an item that tells which it is.
    pub id: &'static str,
    /// What an item is called in messages to the model.
    pub noun: &'static str,
}

/// What is wrong with an answer, said so that the model can mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The item that is wrong; `None` if it is the whole answer.
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
