//! The prompt builder: five blocks in the order of their authority. A block without content is
//! omitted; the order never changes.

use std::fmt::Write as _;

use memoir_text::framing::{body, entry, name};
use serde::Serialize;
use utoipa::ToSchema;

use super::candidate::Candidate;
use super::condenser::CondensedContext;
use super::files::InjectedFile;
use super::shaper::Headers;
use crate::model::memory::Memory;

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
    /// The candidates, for the names of what is cited.
    pub candidates: &'a [Candidate],
    pub history: &'a [Memory],
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
        block("s_ctx", "[S_ctx]", context(parts.context, parts.candidates)),
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

fn context(context: &CondensedContext, candidates: &[Candidate]) -> String {
    let mut text = String::new();
    if !context.facts.is_empty() {
        text.push_str("Facts:\n");
        for fact in &context.facts {
            let _ = writeln!(
                text,
                "- {}: {} {}",
                name(&fact.id),
                entry(&fact.text),
                cited(&fact.citations)
            );
        }
    }
    if !context.constraints.is_empty() {
        text.push_str("Constraints:\n");
        for one in &context.constraints {
            let line = format!("- {} {}", entry(&one.text), cited(&one.citations));
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    if !context.open_issues.is_empty() {
        text.push_str("Open Issues:\n");
        for one in &context.open_issues {
            let _ = writeln!(text, "- {}", entry(&one.text));
        }
    }

    let mut used: Vec<&Candidate> = candidates.iter().collect();
    let ids = context.cited();
    used.retain(|one| ids.contains(&one.found.id));
    used.sort_by_key(|one| one.found.id);
    if !used.is_empty() {
        text.push_str("Sources:\n");
    }
    for one in used {
        let heading = one.found.heading.as_deref();
        let heading = heading.map_or_else(String::new, |heading| format!(", {}", name(heading)));
        let (path, version) = (name(&one.found.path), one.found.source_version);
        let _ = writeln!(
            text,
            "[chunk {}] {path} (version {version}{heading})",
            one.found.id
        );
    }
    text.trim_end().to_owned()
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
        for message in parts.history {
            let _ = writeln!(text, "{}: {}", message.role, entry(&message.content));
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
