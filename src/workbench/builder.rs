//! The prompt builder: five blocks in the order of their authority. A block without content is
//! omitted; the order never changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use memoir_text::framing::{body, entry, fenced, name, unfenced};
use serde::Serialize;
use utoipa::ToSchema;

use super::condenser::{CitedPlace, CondensedContext};
use super::files::InjectedFile;
use super::shaper::Headers;

/// One block of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Block {
    /// `hard_rules`, `project_memory`, `files`, `s_ctx` or `task`.
    pub name: String,
    /// The title line of the block in the prompt.
    pub header: String,
    /// The text below that line.
    pub text: String,
}

impl Block {
    /// The block as it appears in the prompt.
    #[must_use]
    pub fn rendered(&self) -> String {
        format!("{}\n{}", self.header, self.text)
    }
}

/// What a prompt is built from.
pub struct Parts<'a> {
    pub hard_rules: &'a str,
    pub project_memory: &'a str,
    pub files: &'a [InjectedFile],
    pub context: &'a CondensedContext,
    /// The lines of the conversation.
    pub history: &'a [String],
    pub headers: &'a Headers,
    pub mode: Option<&'a str>,
    pub task: &'a str,
}

/// The name of the last block, which differs from run to run.
pub const TASK: &str = "task";

/// Builds the blocks.
#[must_use]
pub fn build(parts: &Parts<'_>) -> Vec<Block> {
    let block = |name: &str, header: &str, text: String| Block {
        name: name.to_owned(),
        header: header.to_owned(),
        text,
    };
    let (rules, memory) = (body(parts.hard_rules), body(parts.project_memory));
    let blocks = [
        block("hard_rules", "[Hard Rules]", rules.into_owned()),
        block("project_memory", "[Project Memory]", memory.into_owned()),
        block("files", "[❖ FILES]", files(parts.files)),
        block("s_ctx", "[S_ctx]", context(parts.context)),
        block(TASK, "[Task/Mode]", task(parts)),
    ];

    let filled = blocks.into_iter().filter(|one| !one.text.trim().is_empty());
    filled.collect()
}

/// The whole prompt.
#[must_use]
pub fn text(blocks: &[Block]) -> String {
    let each: Vec<String> = blocks.iter().map(Block::rendered).collect();
    each.join("\n\n")
}

fn files(files: &[InjectedFile]) -> String {
    let each: Vec<String> = files.iter().map(InjectedFile::framed).collect();
    each.join("\n\n")
}

fn context(context: &CondensedContext) -> String {
    let mut text = String::new();
    if !context.facts.is_empty() {
        text.push_str("Facts:\n");
        for fact in &context.facts {
            let (id, cited) = (name(&fact.id), cited(&fact.citations));
            let _ = match unfenced(&fact.text) {
                Some(code) => writeln!(
                    text,
                    "- {id}: {cited}{}\n{}",
                    mark(fact.conflict.as_deref()),
                    fenced(&body(code))
                ),
                None => writeln!(
                    text,
                    "- {id}: {} {cited}{}",
                    entry(&fact.text),
                    mark(fact.conflict.as_deref())
                ),
            };
        }
    }
    if !context.constraints.is_empty() {
        text.push_str("Constraints:\n");
        for one in &context.constraints {
            let line = format!("- {} {}", entry(&one.text), cited(&one.citations));
            let _ = writeln!(text, "{}{}", line.trim_end(), mark(one.conflict.as_deref()));
        }
    }
    if !context.open_issues.is_empty() {
        text.push_str("Open Issues:\n");
        for one in &context.open_issues {
            let _ = writeln!(text, "- {}", entry(&one.text));
        }
    }

    let mut chunks: BTreeMap<i64, (&CitedPlace, Vec<&str>)> = BTreeMap::new();
    for place in context.places() {
        let (_, headings) = chunks.entry(place.chunk_id).or_insert((place, Vec::new()));
        let heading = place.heading.as_deref();
        headings.extend(heading.filter(|one| !headings.contains(one)));
    }
    if !chunks.is_empty() {
        text.push_str("Sources:\n");
    }
    for (id, (place, headings)) in chunks {
        let headings: Vec<_> = headings.into_iter().map(name).collect();
        let joint = if headings.is_empty() { "" } else { ", " };
        let (path, version, headings) = (name(&place.path), place.version, headings.join("; "));
        let _ = writeln!(
            text,
            "[chunk {id}] {path} (version {version}{joint}{headings})"
        );
    }
    text.trim_end().to_owned()
}

/// What contradicts a statement, behind it.
fn mark(conflict: Option<&str>) -> String {
    conflict.map_or_else(String::new, |by| format!(" ({})", name(by)))
}

fn cited(citations: &[i64]) -> String {
    let each: Vec<String> = citations.iter().map(|id| format!("chunk {id}")).collect();
    if each.is_empty() {
        String::new()
    } else {
        format!("[{}]", each.join(", "))
    }
}

fn task(parts: &Parts<'_>) -> String {
    let mut text = String::new();
    if !parts.history.is_empty() {
        text.push_str("RECENT HISTORY\n");
        for line in parts.history {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }

    let Headers {
        intent,
        domain,
        deliverable,
        artifacts,
        role,
        audience,
        tone,
        depth,
        output_format,
    } = parts.headers;
    let artifacts = artifacts.join(", ");
    let mut has_headers = false;
    for (label, value) in [
        ("Role", role.as_str()),
        ("Intent", intent),
        ("Domain", domain),
        ("Deliverable", deliverable),
        ("Artifacts", &artifacts),
        ("Audience", audience),
        ("Tone", tone),
        ("Depth", depth),
        ("Output format", output_format),
        ("Mode", parts.mode.unwrap_or_default()),
    ] {
        if !value.trim().is_empty() {
            has_headers = true;
            let _ = writeln!(text, "{label}: {}", entry(value));
        }
    }

    if has_headers {
        text.push('\n');
    }
    text.push_str("Task:\n");
    text.push_str(&body(parts.task));
    text
}
