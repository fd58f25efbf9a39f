//! What a task asks for, clause by clause, and the names in it.

use memoir_text::sentences;

use super::question;
use super::rank::Terms;

/// Most parts of a task; of a longer one, the first and the last are read.
const MAX_PARTS: usize = 12;
const LAST_PARTS: usize = 4;
/// Words without which a clause is no part of its own.
const MIN_WORDS: usize = 2;
/// Bytes of a task that are compared as a whole, and the names that are looked for.
const MAX_WHOLE: usize = 4000;
const MAX_NAMES: usize = 20;
/// Words that begin a clause of its own.
const ASKING: [&str; 9] = [
    "what", "which", "how", "where", "when", "who", "why", "whether", "say",
];
/// Words that say what to do, and not with what.
const VERBS: [&str; 30] = [
    "write",
    "add",
    "plan",
    "explain",
    "review",
    "analyse",
    "analyze",
    "describe",
    "summarise",
    "summarize",
    "draft",
    "compose",
    "implement",
    "create",
    "make",
    "give",
    "list",
    "show",
    "find",
    "tell",
    "fix",
    "refactor",
    "please",
    "prepare",
    "outline",
    "compare",
    "discuss",
    "propose",
    "suggest",
    "follow",
];
/// Words of a task that works on code.
const CODE: [&str; 8] = [
    "implement",
    "refactor",
    "debug",
    "function",
    "program",
    "compile",
    "patch",
    "bug",
];

/// Words of a clause that asks for rules on how to work, and of the headings above them.
pub const RULES: [&str; 4] = ["style", "convention", "guideline", "rules"];

/// A task.
pub struct Task {
    pub parts: Vec<TaskPart>,
    pub whole: Terms,
    pub wants_code: bool,
    /// Whether it speaks of tests.
    pub tests: bool,
    lower: String,
    /// Names such as `idempotency_key`, `/v1/search` and `main.rs`, in lower case.
    names: Vec<String>,
}

/// A clause of a task.
pub struct TaskPart {
    pub terms: Terms,
    /// Whether it asks for rules on how to work.
    pub wants_rules: bool,
}

impl Task {
    pub fn of(task: &str) -> Self {
        let lower = task.to_lowercase();
        let whole = sentences::cut(task, MAX_WHOLE);
        Self {
            parts: parts(task),
            whole: Terms::of(&whole),
            wants_code: question::wants_code(task) || CODE.iter().any(|sign| lower.contains(sign)),
            tests: lower.contains("test"),
            names: names(&lower),
            lower,
        }
    }

    /// Whether it names the file that a path ends with, with or without its last ending, or calls it
    /// "the changelog".
    pub fn names_file(&self, about: &str) -> bool {
        let path = about
            .split(" › ")
            .next()
            .unwrap_or(about)
            .trim()
            .to_lowercase();
        let file = path.rsplit('/').next().unwrap_or(&path);
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let is_file = |name: &str| name.contains('.') && name.len() > 3;
        let named = [file, stem]
            .iter()
            .any(|name| is_file(name) && self.lower.contains(name));
        named || (stem.len() > 3 && self.lower.contains(&format!("the {stem}")))
    }

    /// Whether a text has one of its names.
    pub fn has_name_of(&self, text: &str) -> bool {
        let lower = if self.names.is_empty() {
            String::new()
        } else {
            text.to_lowercase()
        };
        self.names.iter().any(|name| lower.contains(name))
    }
}

fn parts(task: &str) -> Vec<TaskPart> {
    let mut parts: Vec<TaskPart> = Vec::new();
    for clause in sentences::split(task).into_iter().flat_map(clauses) {
        let terms = Terms::of(without_verb(&clause));
        if terms.stems.len() >= MIN_WORDS || parts.is_empty() {
            let lower = clause.to_lowercase();
            parts.push(TaskPart {
                terms,
                wants_rules: RULES.iter().any(|word| lower.contains(word)),
            });
        }
    }
    if parts.len() > MAX_PARTS {
        parts.drain(MAX_PARTS - LAST_PARTS..parts.len() - LAST_PARTS);
    }

    parts
}

/// Words with a mark within that no ordinary word has.
fn names(lower: &str) -> Vec<String> {
    let words = lower
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/'));
    let is_name = |word: &&str| {
        let inner = word.trim_matches('/');
        inner.len() > 4 && inner.contains(['_', '/']) && inner.contains(char::is_alphabetic)
            || inner.contains("::")
    };
    words
        .filter(is_name)
        .take(MAX_NAMES)
        .map(str::to_owned)
        .collect()
}

/// Cuts a sentence before each word that asks.
fn clauses(sentence: &str) -> Vec<String> {
    let mut found: Vec<String> = vec![String::new()];
    let mut after_mark = true;
    for word in sentence.split_whitespace() {
        let plain = word
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        if after_mark && ASKING.contains(&plain.as_str()) {
            found.push(String::new());
        }
        after_mark = word.ends_with([',', ';', ':']) || (after_mark && plain == "and");
        if let Some(last) = found.last_mut() {
            last.push(' ');
            last.push_str(word);
        }
    }

    found.retain(|clause| !clause.trim().is_empty());
    found
}

fn without_verb(clause: &str) -> &str {
    let clause = clause.trim();
    match clause.split_once(' ') {
        Some((first, rest)) if VERBS.contains(&first.to_lowercase().as_str()) => rest,
        _ => clause,
    }
}
