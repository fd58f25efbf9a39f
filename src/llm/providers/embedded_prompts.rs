//! How the embedded model answers the stages of a prompt: by shared words and word vectors, and
//! with sentences of the chunks themselves.

use std::collections::HashSet;

use memoir_embedded_model::EmbeddedModel;
use memoir_text::text::{char_count, one_line, sentences};
use memoir_text::words;

use super::super::tasks::condense::{Condense, Condensed, Constraint, Fact, OpenIssue};
use super::super::tasks::judge::{
    JudgedChunk, Nli, NliLabel, NliOutput, NliVerdict, Ranked, Rerank, RerankOutput,
};
use super::super::tasks::shape::{Anchors, Audit, FactId, Shape, Shaped};

/// A chunk below this likeness to the task is of no use.
const USEFUL: f64 = 0.2;
/// Facts of one chunk, and of all together.
const FACTS_PER_CHUNK: usize = 2;
const MAX_FACTS: usize = 24;
const MAX_OTHERS: usize = 8;
/// A longer sentence is a table or a list.
const LONGEST_SENTENCE: usize = 600;

/// Words that begin a task, and what they ask for.
const DELIVERABLES: [(&str, &[&str]); 5] = [
    (
        "code",
        &[
            "implement",
            "code",
            "program",
            "refactor",
            "debug",
            "fix",
            "function",
        ],
    ),
    (
        "plan",
        &["plan", "schedule", "roadmap", "organise", "organize"],
    ),
    (
        "specification",
        &["specify", "specification", "spec", "design", "requirements"],
    ),
    (
        "summary",
        &["summarise", "summarize", "summary", "condense", "abstract"],
    ),
    (
        "text",
        &["write", "draft", "compose", "letter", "email", "translate"],
    ),
];

pub fn shape(task: &Shape) -> Shaped {
    let Anchors { task, files, .. } = &*task.anchors;
    let said: HashSet<String> = all_words(task).into_iter().collect();
    let deliverable = DELIVERABLES
        .iter()
        .find(|(_, signs)| signs.iter().any(|sign| said.contains(*sign)))
        .map_or("answer", |(name, _)| name);

    let first = sentences(task).next().unwrap_or_default();
    let intent: String = one_line(first).chars().take(160).collect();
    let named = task.split_whitespace().map(|word| {
        word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '.'))
            .trim_end_matches('.')
    });
    let mut artifacts: Vec<String> = named
        .filter(|word| is_file_name(word))
        .map(str::to_owned)
        .chain(files.iter().cloned())
        .take(20)
        .collect();
    let mut seen = HashSet::new();
    artifacts.retain(|one| seen.insert(one.clone()));

    Shaped {
        intent,
        domain: "as the task says".to_owned(),
        deliverable: deliverable.to_owned(),
        artifacts,
        role: "an expert who answers from the given facts only".to_owned(),
        audience: "the person who asks".to_owned(),
        tone: "plain and precise".to_owned(),
        depth: "as deep as the task needs".to_owned(),
        output_format: if deliverable == "code" {
            "code with a short explanation"
        } else {
            "Markdown"
        }
        .to_owned(),
        ..Shaped::default()
    }
}

/// It has no opinion on what the facts change.
pub fn audit(task: &Audit) -> Shaped {
    Shaped {
        justification_fact_ids: Vec::new(),
        ..task.shaped.clone()
    }
}

pub fn rerank(task: &Rerank) -> RerankOutput {
    let measure = Likeness::to(&task.query);
    let each = task.chunks.iter().map(|chunk| Ranked {
        id: chunk.id,
        score: measure.of(&chunk.text),
    });
    RerankOutput {
        ranking: each.collect(),
    }
}

pub fn nli(task: &Nli) -> NliOutput {
    let measure = Likeness::to(&task.query);
    let each = task.chunks.iter().map(|chunk| {
        let like = measure.of(&chunk.text);
        let (label, score) = if like >= USEFUL {
            (NliLabel::Entailment, 0.5 + like / 2.0)
        } else {
            (NliLabel::Neutral, 1.0 - like)
        };
        NliVerdict {
            id: chunk.id,
            label,
            score,
        }
    });
    NliOutput {
        verdicts: each.collect(),
    }
}

/// The sentences nearest to the query, verbatim; rules become constraints, questions open issues.
pub fn condense(task: &Condense) -> Condensed {
    let measure = Likeness::to(&task.query);
    let mut condensed = Condensed::default();
    let mut seen = HashSet::new();
    for chunk in &task.chunks {
        for text in chosen(&measure, chunk) {
            if !seen.insert(text.to_lowercase()) {
                continue;
            }

            let citations = vec![chunk.id];
            if text.ends_with('?') {
                condensed.open_issues.push(OpenIssue { text });
            } else if is_rule(&text) {
                condensed.constraints.push(Constraint { text, citations });
            } else if condensed.facts.len() < MAX_FACTS {
                let id = FactId(format!("F{}", condensed.facts.len() + 1));
                condensed.facts.push(Fact {
                    id,
                    text,
                    citations,
                });
            }
        }
    }

    condensed.constraints.truncate(MAX_OTHERS);
    condensed.open_issues.truncate(MAX_OTHERS);
    condensed
}

/// Paragraphs, whose sentences may go over several lines; lists, tables and headings line by line.
fn passages(text: &str) -> Vec<&str> {
    let is_item = |line: &str| {
        line.trim_start()
            .starts_with(['-', '*', '#', '|', '•', '>'])
    };
    let each = text.split("\n\n").map(|paragraph| {
        if paragraph.lines().any(is_item) {
            paragraph.lines().collect()
        } else {
            vec![paragraph]
        }
    });

    each.flatten().collect()
}

/// The best sentences of a chunk, in their order.
fn chosen(measure: &Likeness, chunk: &JudgedChunk) -> Vec<String> {
    let all = passages(&chunk.text).into_iter().flat_map(sentences);
    let all = all.map(one_line);
    let fitting = all.filter(|text| {
        (15..=LONGEST_SENTENCE).contains(&char_count(text)) && !text.starts_with('#')
    });
    let mut rated: Vec<(usize, f64, String)> = fitting
        .enumerate()
        .map(|(place, text)| (place, measure.of(&text), text))
        .collect();

    rated.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    rated.truncate(FACTS_PER_CHUNK);
    rated.sort_by_key(|(place, ..)| *place);
    let mut texts: Vec<String> = rated.into_iter().map(|(.., text)| text).collect();
    if texts.is_empty() {
        let text: String = one_line(&chunk.text)
            .chars()
            .take(LONGEST_SENTENCE)
            .collect();
        texts.extend((!text.is_empty()).then_some(text));
    }
    texts
}

fn is_rule(text: &str) -> bool {
    let said = all_words(text);
    said.iter().any(|word| {
        matches!(
            word.as_str(),
            "must" | "shall" | "never" | "required" | "forbidden" | "mandatory"
        )
    })
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

fn all_words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    words::each(text, |word| found.push(word.to_owned()));
    found
}

/// How near texts are to a query, from 0 to 1: shared words and meaning.
struct Likeness {
    words: HashSet<String>,
    vector: Vec<f32>,
}

impl Likeness {
    fn to(query: &str) -> Self {
        let words = all_words(query).into_iter();
        Self {
            words: words.filter(|word| char_count(word) > 3).collect(),
            vector: EmbeddedModel::embed(query),
        }
    }

    fn of(&self, text: &str) -> f64 {
        let vector = EmbeddedModel::embed(text);
        let cosine: f32 = self.vector.iter().zip(&vector).map(|(a, b)| a * b).sum();
        let cosine = f64::from(cosine).clamp(0.0, 1.0);
        if self.words.is_empty() {
            return cosine;
        }

        let has: HashSet<String> = all_words(text).into_iter().collect();
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        let shared = self.words.intersection(&has).count() as f64 / self.words.len() as f64;
        f64::midpoint(cosine, shared)
    }
}
