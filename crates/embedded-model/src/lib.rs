//! The embedded model: deterministic, based on static word vectors and text statistics. It runs in
//! the process, without network and without state. Guarantees that no text causes a panic, and
//! equal answers for equal input.
//!
//! The service sees `EmbeddedModel`, and plain data that go in and out: inputs are borrowed texts and
//! numbers, `CategoryContents` is what a category contains.

mod answer;
mod answer_entry;
mod answer_section;
mod answer_sentences;
mod answer_subject;
mod aspects;
mod by_samples;
mod category_distance;
mod category_samples;
mod chunk_to_file;
mod classify;
mod clean;
mod collection;
mod contents;
mod cues;
mod dates;
mod denials;
mod distinctive_nouns;
mod enrich;
mod entities;
mod entity_names;
mod entity_values;
mod excerpts;
mod facts;
mod fits;
mod fitting;
mod frame;
mod hash;
mod headers;
mod helper;
mod meaning;
mod measures;
mod name_words;
mod names;
mod outline;
mod phrase_words;
mod phrases;
#[cfg(test)]
mod preset_tests;
mod profile;
mod project;
mod question;
mod quotation;
mod rank;
mod recurring_words;
mod rename;
mod sample_pairs;
mod sections;
mod select;
mod short_text;
mod siblings;
mod sketch;
mod summarize;
mod support;
mod table;
mod task_parts;
mod term_words;
mod title;
mod tokens;
mod topics;
mod word_match;
mod wording;
mod words;

pub use answer::NOTHING as NOT_FOUND;
pub use contents::{CategoryContents, SampleText};
pub use enrich::{Analyzed, Classified};
pub use entities::Entity;
pub use facts::Statement;
pub use outline::{OutlineInput, SourceOutline};
pub use support::Support;

use std::collections::HashSet;

/// The embedded model. It has no state; its data are static.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedModel;

/// What is known about a source when its helper is generated.
#[derive(Debug, Clone, Copy)]
pub struct HelperInput<'a> {
    pub filename: &'a str,
    pub title: Option<&'a str>,
    pub metadata: &'a [(String, String)],
    pub chunks: &'a [&'a str],
}

/// Facts about a source that help to file its chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HelperOutput {
    pub author: Option<String>,
    /// ISO 8601, with the precision of the source.
    pub date: Option<String>,
    pub topic: Option<String>,
    pub summary: String,
}

/// Chunks to file on one level of the hierarchy.
#[derive(Debug, Clone, Copy)]
pub struct ClassifyInput<'a> {
    pub contextual_helper: Option<&'a str>,
    pub level: u32,
    pub depth: u32,
    /// Names from level 1 down to the parent; empty at level 1.
    pub parent: &'a [&'a str],
    /// Existing children of that parent.
    pub categories: &'a [&'a str],
    /// Sample texts of each of those categories, at most 16 each; empty if only the names are
    /// known.
    pub samples: &'a [Vec<&'a str>],
    /// The number of texts in each of those categories; empty if unknown, then the number of
    /// samples is used.
    pub counts: &'a [usize],
    pub may_create: bool,
    pub chunks: &'a [(i64, &'a str)],
    /// For each chunk the index in `categories` where it is filed already, if it is; empty if all
    /// chunks are new.
    pub homes: &'a [Option<usize>],
    /// For each chunk the name that the outline of its source gives it on this level; empty if
    /// there is no outline.
    pub wishes: &'a [Option<&'a str>],
    /// Whether the chunks are a short text, which shares its leaf with others on its subject. A wish
    /// on the last level is then its title.
    pub is_short_text: bool,
}

/// A category that has grown, and some of its texts.
#[derive(Debug, Clone, Copy)]
pub struct RenameInput<'a> {
    pub name: &'a str,
    /// Names from level 1 down to the parent.
    pub parents: &'a [&'a str],
    /// Names of the other children of that parent.
    pub siblings: &'a [&'a str],
    /// The source and the beginning of each text.
    pub texts: &'a [(&'a str, &'a str)],
}

/// A better name, and why it is better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    pub name: String,
    pub reason: String,
}

/// The closed lists that a message is classified with.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary<'a> {
    pub topics: &'a [String],
    pub categories: &'a [String],
    pub message_types: &'a [String],
    pub entity_types: &'a [String],
}

/// A chunk for an answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerChunk<'a> {
    pub chunk_id: i64,
    /// The names of its categories.
    pub path: &'a str,
    /// The path of its source, and the headings above it.
    pub about: &'a str,
    pub text: &'a str,
}

/// A chunk that may help with a task.
#[derive(Debug, Clone, Copy)]
pub struct SupportChunk<'a> {
    pub chunk_id: i64,
    /// The path of its source, and the headings above it, separated by ` › `.
    pub about: &'a str,
    pub text: &'a str,
}

/// What an excerpt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExcerptKind {
    /// A sentence, an item of a list or a row of a table, on one line.
    Statement,
    /// Code with its lines.
    Code,
}

/// What a chunk says that helps with a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Excerpt {
    pub chunk_id: i64,
    pub kind: ExcerptKind,
    pub text: String,
    /// How well it fits the task, from 0 to 1.
    pub relevance: f32,
}

impl EmbeddedModel {
    /// Mean of the token rows, length 1; zeros for a text without known tokens.
    #[must_use]
    pub fn embed(text: &str) -> Vec<f32> {
        let mut sum = table::ZERO;
        for id in tokens::ids(text) {
            if id != tokens::UNKNOWN {
                table::add_row(&mut sum, id, 1.0);
            }
        }

        table::unit(sum).to_vec()
    }

    /// Whether at least half of a text are words, or long parts of words, that it knows; the rest are
    /// letters and short fragments, which mean nothing.
    #[must_use]
    pub fn knows_the_words(text: &str) -> bool {
        let ids = tokens::ids(text);
        let is_fragment = |id: &u16| tokens::entry(*id).starts_with("##");
        let (mut known, mut all) = (0, 0);
        for (at, id) in ids.iter().enumerate() {
            let piece = tokens::entry(*id).trim_start_matches("##");
            let letters = piece.chars().filter(|c| c.is_alphanumeric()).count();
            let is_whole = !is_fragment(id) && !ids.get(at + 1).is_some_and(is_fragment);
            let is_word = is_whole && (letters == 3 || !piece.is_ascii());
            all += letters;
            if *id != tokens::UNKNOWN && (letters > 3 || is_word) {
                known += letters;
            }
        }

        known * 2 >= all
    }

    /// `WordPiece` tokens in a text.
    #[must_use]
    pub fn tokens(text: &str) -> usize {
        tokens::ids(text).len()
    }

    /// Author, date, topic and summary of a source.
    #[must_use]
    pub fn helper(input: &HelperInput<'_>) -> HelperOutput {
        helper::helper(input)
    }

    /// Up to `at_most` options as (label, relevance), best first. What is known of each option, if
    /// anything: how well the best chunks in it match the query, or some of its chunks.
    #[must_use]
    pub fn select(
        query: &str,
        options: &[&str],
        known: (&[f32], &[CategoryContents]),
        at_most: usize,
    ) -> Vec<(String, u32)> {
        select::select(query, options, known, at_most)
    }

    /// The share of a query that each text has, from 0 to 1, also in other words.
    #[must_use]
    pub fn word_matches<'t>(query: &str, texts: impl Iterator<Item = &'t str>) -> Vec<f32> {
        word_match::shares(query, texts)
    }

    /// The simple statements of a message about its writer; `known` are those that are known.
    #[must_use]
    pub fn statements<'t>(message: &'t str, known: &[&str]) -> Vec<Statement<'t>> {
        facts::find(message, known)
    }

    /// Classifies a message with a vocabulary.
    #[must_use]
    pub fn enrich(text: &str, terms: &Vocabulary<'_>) -> Classified {
        enrich::classify(text, terms)
    }

    /// Whether a topic of a vocabulary fits a message, and not only the one for everything else.
    #[must_use]
    pub fn fits(text: &str, terms: &Vocabulary<'_>) -> bool {
        enrich::fits(text, terms)
    }

    /// For each message a term that it has in common with others and that the vocabulary lacks, if
    /// there is one.
    #[must_use]
    pub fn propose_terms(messages: &[&str], known: &[String]) -> Vec<Option<String>> {
        recurring_words::propose(messages, known)
    }

    /// What a question is about, in the words of a vocabulary.
    #[must_use]
    pub fn analyze(query: &str, terms: &Vocabulary<'_>) -> Analyzed {
        enrich::analyze(query, terms)
    }

    /// A summary of each (id, text, maximum characters).
    #[must_use]
    pub fn summarize(chunks: &[(i64, &str, usize)]) -> Vec<(i64, String)> {
        summarize::summarize(chunks)
    }

    /// The sentences that answer a query, each with the number of its chunk.
    #[must_use]
    pub fn answer(query: &str, chunks: &[AnswerChunk<'_>]) -> String {
        answer::answer(query, chunks)
    }

    /// How well the quoted sentences of an answer of this model answer the query.
    #[must_use]
    pub fn support(query: &str, answer: &str, chunks: &[AnswerChunk<'_>]) -> Support {
        support::support(query, answer, chunks)
    }

    /// What chunks say that helps with a task, chunk by chunk in the order given.
    #[must_use]
    pub fn excerpts(task: &str, chunks: &[SupportChunk<'_>]) -> Vec<Excerpt> {
        excerpts::find(task, chunks)
    }

    /// How well the best of each chunk helps with a task, from 0 to 1.
    #[must_use]
    pub fn relevances(task: &str, chunks: &[SupportChunk<'_>]) -> Vec<f32> {
        excerpts::relevances(task, chunks)
    }

    /// Where the chunks of a source belong, by its title and headings.
    #[must_use]
    pub fn outline(input: &OutlineInput<'_>) -> SourceOutline {
        outline::outline(input)
    }

    /// A name for a category whose own name no longer fits most of its texts.
    #[must_use]
    pub fn rename(input: &RenameInput<'_>) -> Option<NewName> {
        rename::better_name(input)
    }

    /// Names for a category of these texts, best first; the last is one that any category can have.
    #[must_use]
    pub fn names_for(texts: &[&str]) -> Vec<String> {
        rename::names_for(texts)
    }

    /// The stems of the words of a text that tell something.
    #[must_use]
    pub fn stems(text: &str) -> HashSet<String> {
        rank::stems(text)
    }

    /// One category name for each chunk.
    #[must_use]
    pub fn classify(input: &ClassifyInput<'_>) -> Vec<(i64, String)> {
        classify::classify(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_letters_are_no_words() {
        for words in ["lighthouse", "flowers", "the lamp", "a 24-inch screen"] {
            assert!(EmbeddedModel::knows_the_words(words), "{words}");
        }

        for letters in ["zzzqqqxxx", "qwrtpsdf blorp", "asdfghjkl", "the zzzqqqxxx"] {
            assert!(!EmbeddedModel::knows_the_words(letters), "{letters}");
        }
    }

    #[test]
    fn agrees_with_the_reference_figures() {
        let text = include_str!("../word-vectors/check.json");
        let cases: serde_json::Value = serde_json::from_str(text).unwrap();
        for case in cases.as_array().unwrap() {
            for side in ["a", "b"] {
                let ids = tokens::ids(case[side].as_str().unwrap());
                let wanted = case[format!("{side}_ids")].as_array().unwrap();
                let wanted: Vec<u16> = wanted
                    .iter()
                    .map(|id| u16::try_from(id.as_u64().unwrap()).unwrap())
                    .collect();

                assert_eq!(ids, wanted);
            }

            let a = EmbeddedModel::embed(case["a"].as_str().unwrap());
            let b = EmbeddedModel::embed(case["b"].as_str().unwrap());
            let cosine: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert!((f64::from(cosine) - case["cosine"].as_f64().unwrap()).abs() < 0.001);
        }
    }
}
