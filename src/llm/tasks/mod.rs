//! The catalogue: one file per question that memoir asks, with its frame, its answer, its checks,
//! and what the embedded model makes of it.

pub mod answer;
pub mod classify;
pub mod helper;
pub mod probe;
pub mod select;
pub mod summarize;

use crate::base::text::{one_line, quoted};

/// Every stage that can have a model of its own (`llm.models`).
pub const STAGES: &[&str] = &["helper", "classify", "select", "summarize", "answer"];

/// The first line of a frame: one paragraph about the source, or none.
fn helper_line(helper: Option<&str>) -> String {
    format!(
        "contextual_helper: {}\n",
        helper
            .map(one_line)
            .filter(|text| !text.is_empty())
            .as_deref()
            .unwrap_or("none")
    )
}

/// A chunk in its frame, under a heading.
fn framed(heading: &str, text: &str) -> String {
    format!("{heading}:\n\"\"\"\n{}\n\"\"\"\n", quoted(text))
}
