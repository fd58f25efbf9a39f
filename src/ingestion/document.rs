//! A document as the job handles it: cut into passages, measured.

use std::sync::Arc;

use super::chunker::{Passage, cut_at, pieces};
use super::overlapping::{DELIMITERS, cut_overlapping};
use super::request::Order;
use crate::base::clock::Timestamp;
use crate::base::hash::sha256_hex;
use crate::base::tokens::TokenCounter;
use crate::jobs::{Failure, JobError};
use crate::model::chunk::NewChunk;
use crate::model::source_version::VersionFacts;

/// A document, cut.
pub struct Document {
    pub passages: Vec<Passage>,
    /// By which tokens were counted.
    tokenizer: &'static str,
    /// Passages that are searched, where they are others than those that are filed.
    pub overlapping: Vec<Passage>,
    pub facts: VersionFacts,
    /// What the document can be found by.
    pub words: Vec<String>,
}

impl Document {
    /// Cuts the text on a thread of its own: a long one takes seconds. Tokens are counted as the
    /// model counts them.
    pub async fn cut(
        order: &Arc<Order>,
        model: String,
        depth: i64,
        job_id: String,
    ) -> Result<Self, JobError> {
        let order = Arc::clone(order);
        #[expect(
            clippy::disallowed_methods,
            reason = "pure computation that ends by itself"
        )]
        let document = tokio::task::spawn_blocking(move || {
            let counter = TokenCounter::for_model(Some(&model));
            let (text, rules) = (order.text.as_str(), order.rules());

            // Counting tokens is what takes the time, so the pieces serve both.
            let parts = pieces(text, &rules.delimiters, counter);
            let passages = cut_at(text, &parts, &rules, counter);
            let usual = rules.delimiters == DELIMITERS;

            let overlapping = match order.is_embedded() {
                true if usual => cut_overlapping(text, &parts, order.retrieval, counter),
                true => {
                    let parts = pieces(text, &DELIMITERS.map(str::to_owned), counter);
                    cut_overlapping(text, &parts, order.retrieval, counter)
                }
                false => Vec::new(),
            };

            let facts = VersionFacts {
                sha256: sha256_hex(order.text.as_bytes()),
                settings_key: order.settings_key(depth, counter.name()),
                size_bytes: count(order.text.len()),
                mtime: order.mtime.map(Timestamp::from_micros),
                char_count: count(passages.last().map_or(0, |last| last.end_char)),
                token_count: passages
                    .iter()
                    .map(|passage| count(passage.token_count))
                    .sum(),
                provider: order.facts.provider.clone(),
                topic: order.facts.topic.clone(),
                note: order.facts.note.clone(),
                metadata: order.metadata(),
                job_id: Some(job_id),
            };

            Self {
                passages,
                tokenizer: counter.name(),
                overlapping,
                facts,
                words: order.words(),
            }
        });

        document
            .await
            .map_err(|_| JobError::retry(Failure::panicked()))
    }

    /// What to say of a passage that is shorter than it should be (M-7.1).
    pub fn short_passage(&self, min_tokens: usize) -> Option<String> {
        let short = self
            .passages
            .iter()
            .enumerate()
            .find(|(_, passage)| passage.token_count < min_tokens);
        short.map(|(place, passage)| {
            format!(
                "passage {} has {} tokens, fewer than chunk_min_tokens ({min_tokens}); it is filed as it is",
                place + 1,
                passage.token_count
            )
        })
    }

    /// The passages to be filed as they are stored, less their category.
    pub fn chunks<'t>(&self, text: &'t str) -> Vec<NewChunk<'t>> {
        rows(&self.passages, text, self.tokenizer)
    }

    /// The passages to be searched as they are stored.
    pub fn overlapping_chunks<'t>(&self, text: &'t str) -> Vec<NewChunk<'t>> {
        rows(&self.overlapping, text, self.tokenizer)
    }

    /// The texts that searches find.
    pub fn searched_texts(&self, order: &Order) -> Vec<Arc<str>> {
        let searched = if order.is_embedded() {
            &self.overlapping
        } else {
            &self.passages
        };
        searched
            .iter()
            .map(|passage| order.text[passage.range.clone()].into())
            .collect()
    }
}

fn rows<'t>(passages: &[Passage], text: &'t str, tokenizer: &'t str) -> Vec<NewChunk<'t>> {
    let mut chunks = Vec::with_capacity(passages.len());
    for (ordinal, passage) in (1..).zip(passages) {
        chunks.push(NewChunk {
            ordinal,
            text: &text[passage.range.clone()],
            token_count: count(passage.token_count),
            start_char: count(passage.start_char),
            end_char: count(passage.end_char),
            tokenizer,
            category_id: 0,
        });
    }

    chunks
}

/// As the database counts.
pub fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
