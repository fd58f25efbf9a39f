//! How the embedded model ranks, judges and condenses the chunks of a prompt: by what they say that
//! helps with the task, with texts of the chunks themselves.

use memoir_embedded_model::{EmbeddedModel, Excerpt, ExcerptKind, SupportChunk};
use memoir_text::framing::fenced;
use memoir_text::words;

use super::super::tasks::condense::{Condense, Condensed, Constraint, Fact, OpenIssue};
use super::super::tasks::judge::{
    JudgedChunk, Nli, NliLabel, NliOutput, NliVerdict, Ranked, Rerank, RerankOutput,
};
use super::super::tasks::shape::{Audit, FactId, Shaped};

/// Relevance from which on a chunk helps with the task.
const HELPS: f64 = 0.28;
/// Constraints, and open issues, of all chunks together.
const MAX_OTHERS: usize = 8;
/// Characters of code that one fact quotes.
const MAX_CODE_CHARS: usize = 3500;

/// It has no opinion on what the facts change.
pub fn audit(task: &Audit) -> Shaped {
    Shaped {
        justification_fact_ids: Vec::new(),
        ..task.shaped.clone()
    }
}

/// Chunks that say something that helps come first, the others follow by meaning.
pub fn rerank(task: &Rerank) -> RerankOutput {
    let query = EmbeddedModel::embed(&task.query);
    let each = relevances(&task.query, &task.chunks);
    let ranking = task
        .chunks
        .iter()
        .zip(each)
        .map(|(chunk, relevance)| Ranked {
            id: chunk.id,
            score: if relevance > 0.0 {
                0.5 + relevance / 2.0
            } else {
                likeness(&query, &chunk.text) / 2.0
            },
        });
    RerankOutput {
        ranking: ranking.collect(),
    }
}

/// A chunk supports the task if it says something that helps with it.
pub fn nli(task: &Nli) -> NliOutput {
    let each = relevances(&task.query, &task.chunks);
    let verdicts = task.chunks.iter().zip(each).map(|(chunk, relevance)| {
        let (label, score) = if relevance >= HELPS {
            (NliLabel::Entailment, 0.5 + relevance / 2.0)
        } else {
            (NliLabel::Neutral, 1.0 - relevance)
        };
        NliVerdict {
            id: chunk.id,
            label,
            score,
        }
    });
    NliOutput {
        verdicts: verdicts.collect(),
    }
}

/// What helps with the query, verbatim; rules become constraints, questions open issues.
pub fn condense(task: &Condense) -> Condensed {
    let mut condensed = Condensed::default();
    for Excerpt {
        chunk_id,
        kind,
        text,
        relevance: _,
    } in support(&task.query, &task.chunks)
    {
        let citations = vec![chunk_id];
        let is_code = kind == ExcerptKind::Code;
        if !is_code && text.ends_with('?') {
            condensed.open_issues.push(OpenIssue { text });
        } else if !is_code && is_rule(&text) {
            condensed.constraints.push(Constraint { text, citations });
        } else {
            condensed.facts.push(Fact {
                id: FactId(format!("F{}", condensed.facts.len() + 1)),
                text: if is_code { fenced(&code(&text)) } else { text },
                citations,
            });
        }
    }

    condensed.constraints.truncate(MAX_OTHERS);
    condensed.open_issues.truncate(MAX_OTHERS);
    condensed
}

fn support(query: &str, chunks: &[JudgedChunk]) -> Vec<Excerpt> {
    EmbeddedModel::excerpts(query, &supporting(chunks))
}

/// How well the best of each chunk helps with a query.
fn relevances(query: &str, chunks: &[JudgedChunk]) -> Vec<f64> {
    let each = EmbeddedModel::relevances(query, &supporting(chunks));
    each.into_iter().map(f64::from).collect()
}

fn supporting(chunks: &[JudgedChunk]) -> Vec<SupportChunk<'_>> {
    let each = chunks.iter().map(|chunk| SupportChunk {
        chunk_id: chunk.id,
        about: &chunk.about,
        text: &chunk.text,
    });
    each.collect()
}

fn likeness(query: &[f32], text: &str) -> f64 {
    let vector = EmbeddedModel::embed(text);
    let cosine: f32 = query.iter().zip(&vector).map(|(a, b)| a * b).sum();
    f64::from(cosine).clamp(0.0, 1.0)
}

/// The first lines of code, as far as one fact may quote it.
fn code(text: &str) -> String {
    let mut size = 0;
    let fits = |line: &&str| {
        size += line.chars().count() + 1;
        size <= MAX_CODE_CHARS
    };
    let lines = text.lines().take_while(fits).collect::<Vec<_>>().join("\n");
    if lines.trim().is_empty() {
        // The first line alone is longer.
        return text.trim_start().chars().take(MAX_CODE_CHARS).collect();
    }

    lines
}

fn is_rule(text: &str) -> bool {
    const SIGNS: [&str; 6] = [
        "must",
        "shall",
        "never",
        "required",
        "forbidden",
        "mandatory",
    ];
    let mut is_rule = false;
    words::each(text, |word| is_rule |= SIGNS.contains(&word));
    is_rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_quoted_up_to_a_whole_line_and_never_empty() {
        assert_eq!(code("let a = 1;\nlet b = 2;"), "let a = 1;\nlet b = 2;");
        let long = "é".repeat(MAX_CODE_CHARS + 1);
        assert_eq!(code(&format!("let a = 1;\n{long}")), "let a = 1;");

        let cut = "é".repeat(MAX_CODE_CHARS);
        assert_eq!(code(&long), cut);
        assert_eq!(code(&format!("\n{long}\nend")), cut);
    }
}
