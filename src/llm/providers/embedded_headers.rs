//! How the embedded model states the headers of a prompt: by the verb of the task and what it is
//! about. A header that would say nothing stays empty.

use std::collections::HashSet;

use memoir_text::words;

use super::super::tasks::shape::{Anchors, Shape, Shaped};

/// Words of a task among which its verb is.
const VERB_WORDS: usize = 15;
/// Maximum number of artifacts.
const MAX_ARTIFACTS: usize = 20;

/// What a kind of task needs.
struct Manner {
    deliverable: &'static str,
    role: &'static str,
    output_format: &'static str,
}

const CODE: Manner = Manner {
    deliverable: "code",
    role: "a software engineer who knows this code base and keeps to its conventions",
    output_format: "code in fenced blocks, each with its file, and a short explanation",
};
const REVIEW: Manner = Manner {
    deliverable: "review",
    role: "a careful reviewer",
    output_format: "findings, the most important first, each with its place",
};
const PLAN: Manner = Manner {
    deliverable: "plan",
    role: "a planner who has done this before",
    output_format: "numbered steps, each with how to check it",
};
const ANALYSIS: Manner = Manner {
    deliverable: "analysis",
    role: "an analyst who separates what is known from what is assumed",
    output_format: "the conclusion first, then the reasons",
};
const SPECIFICATION: Manner = Manner {
    deliverable: "specification",
    role: "a designer who decides and says why",
    output_format: "requirements that can be tested, one by one",
};
const EXPLANATION: Manner = Manner {
    deliverable: "explanation",
    role: "",
    output_format: "the cause first, then what to do",
};
const SUMMARY: Manner = Manner {
    deliverable: "summary",
    role: "",
    output_format: "",
};
const TRANSLATION: Manner = Manner {
    deliverable: "translation",
    role: "a translator",
    output_format: "the translation alone",
};
const WRITING: Manner = Manner {
    deliverable: "text",
    role: "a writer who finds the tone of the occasion",
    output_format: "the text alone, ready to use",
};

/// Verbs and the tasks that they begin.
const VERBS: [(&[&str], &Manner); 8] = [
    (
        &[
            "implement",
            "refactor",
            "fix",
            "debug",
            "code",
            "program",
            "rename",
            "port",
            "optimise",
            "optimize",
            "add",
        ],
        &CODE,
    ),
    (&["review", "audit", "proofread"], &REVIEW),
    (
        &["plan", "schedule", "roadmap", "organise", "organize"],
        &PLAN,
    ),
    (
        &[
            "analyse",
            "analyze",
            "analysis",
            "assess",
            "evaluate",
            "compare",
            "investigate",
        ],
        &ANALYSIS,
    ),
    (
        &["specify", "specification", "spec", "design"],
        &SPECIFICATION,
    ),
    (&["explain", "why"], &EXPLANATION),
    (
        &["summarise", "summarize", "summary", "condense", "abstract"],
        &SUMMARY,
    ),
    (&["translate"], &TRANSLATION),
];
/// Verbs that begin a text or code.
const WRITES: [&str; 5] = ["write", "draft", "compose", "create", "make"];
/// What is code if it is written or added.
const CODE_WORDS: [&str; 20] = [
    "code",
    "function",
    "test",
    "tests",
    "script",
    "class",
    "module",
    "migration",
    "endpoint",
    "route",
    "api",
    "method",
    "patch",
    "filter",
    "bug",
    "field",
    "parser",
    "struct",
    "sql",
    "regex",
];
/// What people write.
const TEXTS: [&str; 16] = [
    "email",
    "letter",
    "note",
    "post",
    "article",
    "message",
    "reply",
    "announcement",
    "report",
    "essay",
    "story",
    "poem",
    "speech",
    "invitation",
    "description",
    "guide",
];

/// The headers of a task.
pub fn shape(task: &Shape) -> Shaped {
    let Anchors { task, files, .. } = &*task.anchors;
    let mut said = Vec::new();
    words::each(task, |word| said.push(word.to_owned()));
    let (manner, text) = manner(&said);
    Shaped {
        deliverable: text.unwrap_or_else(|| manner.map_or("", |one| one.deliverable).to_owned()),
        artifacts: artifacts(task, files),
        role: manner.map_or("", |one| one.role).to_owned(),
        output_format: manner.map_or("", |one| one.output_format).to_owned(),
        ..Shaped::default()
    }
}

/// What kind of task it is, and what text is to be written.
fn manner(said: &[String]) -> (Option<&'static Manner>, Option<String>) {
    let near = &said[..said.len().min(VERB_WORDS)];
    for (at, word) in near.iter().enumerate() {
        let known = VERBS
            .iter()
            .find(|(verbs, _)| verbs.contains(&word.as_str()));
        let object = || &said[at + 1..said.len().min(at + 1 + VERB_WORDS)];
        let first_of = |list: &[&str]| object().iter().position(|one| list.contains(&one.as_str()));
        match known {
            Some(_) if word == "add" => {
                return (first_of(&CODE_WORDS).map(|_| &CODE), None);
            }
            Some((_, manner)) => return (Some(manner), None),
            None if WRITES.contains(&word.as_str()) => {
                let (code, text) = (first_of(&CODE_WORDS), first_of(&TEXTS));
                let is_code = code.is_some_and(|code| text.is_none_or(|text| code < text));
                if is_code {
                    return (Some(&CODE), None);
                }
                let name = text.map(|text| {
                    let is_release = text > 0 && object()[text - 1] == "release";
                    let name = &object()[text];
                    if is_release {
                        format!("release {name}")
                    } else {
                        name.clone()
                    }
                });
                return (Some(&WRITING), name);
            }
            None => {}
        }
    }

    (None, None)
}

/// The files that a task names, then those that are injected.
fn artifacts(task: &str, files: &[String]) -> Vec<String> {
    let named = task.split_whitespace().map(|word| {
        word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '.'))
            .trim_end_matches('.')
    });
    let named = named.filter(|word| is_file_name(word)).map(str::to_owned);
    let mut seen = HashSet::new();
    let mut artifacts: Vec<String> = named.chain(files.iter().cloned()).collect();
    artifacts.retain(|one| seen.insert(one.clone()));
    artifacts.truncate(MAX_ARTIFACTS);
    artifacts
}

fn is_file_name(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=5).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.chars().any(|c| c.is_ascii_lowercase())
            && stem.chars().any(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn headers(task: &str) -> Shaped {
        let anchors = Anchors {
            task: task.into(),
            ..Anchors::default()
        };
        shape(&Shape {
            anchors: Arc::new(anchors),
        })
    }

    #[test]
    fn headers_fit_the_task_or_are_empty() {
        for (task, deliverable, role) in [
            ("Add a filter to the search.", "code", "engineer"),
            ("Please write an integration test.", "code", "engineer"),
            ("Write an email to the boiler service.", "email", "writer"),
            ("Write the release note for 0.2.", "release note", "writer"),
            ("Review conflicts.rs.", "review", "reviewer"),
            ("I need a plan for the move.", "plan", "planner"),
            ("Analyse how jobs are kept.", "analysis", "analyst"),
            ("Explain why it returns 422.", "explanation", ""),
            ("What does the lamp burn?", "", ""),
            ("Add the two numbers 3 and 4.", "", ""),
        ] {
            let shaped = headers(task);
            assert_eq!(shaped.deliverable, deliverable, "{task}");
            assert!(shaped.role.contains(role), "{task}: {}", shaped.role);
            assert_eq!(shaped.role.is_empty(), role.is_empty(), "{task}");
            assert!(
                shaped.depth.is_empty() && shaped.audience.is_empty(),
                "{task}"
            );
        }

        assert_eq!(headers("Review conflicts.rs.").artifacts, ["conflicts.rs"]);
    }
}
