//! The tasks: one file each, with its prompt, its answer and its checks.

pub mod analyze;
pub mod answer;
mod category_names;
pub mod classify;
pub mod condense;
pub mod enrich;
pub mod extract;
pub mod free_names;
pub mod helper;
pub mod helper_many;
pub mod judge;
pub mod probe;
pub mod rollup;
pub mod select;
pub mod send;
pub mod shape;
pub mod shortlist;
pub mod summarize;

use analyze::Analyze;
use answer::Answer;
use classify::Classify;
use condense::Condense;
use enrich::{EnrichMany, EnrichOne};
use extract::Extract;
use helper::Helper;
use helper_many::HelperMany;
use judge::{Nli, Rerank};
use memoir_text::framing::quoted;
use memoir_text::text::one_line;
use probe::Probe;
use rollup::Rollup;
use select::Select;
use send::SendPrompt;
use shape::{Audit, Shape};
use summarize::Summarize;

/// Every stage that can have its own model (`llm.models`).
pub const STAGES: &[&str] = &[
    "helper",
    "classify",
    "select",
    "summarize",
    "answer",
    "enrich",
    "analyze",
    "rollup",
    "send",
    "shape",
    "rerank",
    "nli",
    "condense",
    "audit",
    "extract",
];

/// A task as a value, for a provider that computes its answer instead of reading its prompt.
#[derive(Debug, Clone)]
pub enum AnyTask {
    Helper(Helper),
    HelperMany(HelperMany),
    Classify(Classify),
    Select(Select),
    Summarize(Summarize),
    Answer(Answer),
    EnrichOne(EnrichOne),
    EnrichMany(EnrichMany),
    Analyze(Analyze),
    Rollup(Rollup),
    SendPrompt(SendPrompt),
    Shape(Shape),
    Rerank(Rerank),
    Nli(Nli),
    Condense(Condense),
    Audit(Box<Audit>),
    Extract(Extract),
    Probe(Probe),
}

macro_rules! from_task {
    ($($task:ident),*) => {
        $(impl From<$task> for AnyTask {
            fn from(task: $task) -> Self {
                Self::$task(task)
            }
        })*
    };
}

from_task!(
    Helper, HelperMany, Classify, Select, Summarize, Answer, EnrichOne, EnrichMany, Analyze,
    Rollup, Extract, Shape, Rerank, Nli, Condense, SendPrompt, Probe
);

impl From<Audit> for AnyTask {
    fn from(task: Audit) -> Self {
        Self::Audit(Box::new(task))
    }
}

/// What stands between a heading and its chunk, and after the chunk.
pub const OPENING: &str = ":\n\"\"\"\n";
pub const CLOSING: &str = "\n\"\"\"\n";

/// The first line of a prompt: the helper of the source, or none.
pub fn helper_line(helper: Option<&str>) -> String {
    format!(
        "contextual_helper: {}\n",
        helper
            .map(one_line)
            .filter(|text| !text.is_empty())
            .as_deref()
            .unwrap_or("none")
    )
}

/// A chunk in its delimited block, under a heading.
fn framed(heading: &str, text: &str) -> String {
    format!("{heading}{OPENING}{}{CLOSING}", quoted(text))
}
