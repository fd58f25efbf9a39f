//! The text of an ingestion, cut into chunks and measured.

use std::ops::Range;
use std::sync::Arc;

use memoir_embedded_model::{EmbeddedModel, OutlineInput, SourceOutline};
use memoir_text::hash::sha256_hex;
use memoir_text::headings::{Heading, Trail, headings, joined};
use memoir_text::tokens::TokenCounter;

use super::chunker::{TextChunk, cut_at};
use super::fragments::fragments;
use super::overlapping::{DELIMITERS, cut_overlapping};
use super::request::Order;
use crate::base::clock::Timestamp;
use crate::categories::Taxonomy;
use crate::config::taxonomy::LimitScope;
use crate::jobs::{Failure, JobError};
use crate::model::chunk::NewChunk;
use crate::model::source_version::VersionFacts;

/// The share of a limit that the sections of one source may use: a quarter if it counts all leaves;
/// three quarters if it counts those of one parent, because later versions may have other sections.
const SHARE_OF_LEVEL: (i64, i64) = (1, 4);
const SHARE_OF_PARENT: (i64, i64) = (3, 4);
/// How many sections it may use anyway.
const MIN_SECTIONS: usize = 4;

/// A text with fewer tokens says itself what it is, so a helper adds nothing.
const MIN_HELPED: i64 = 300;

/// A cut text.
pub struct CutText {
    pub chunks: Vec<TextChunk>,
    /// Where the embedded model files the chunks, by the title and headings of the text.
    pub outline: SourceOutline,
    /// The headings above each chunk.
    trails: Vec<Option<String>>,
    overlapping_trails: Vec<Option<String>>,
    /// The tokenizer that counted the tokens.
    tokenizer: &'static str,
    /// Search chunks, if they differ from the filed ones.
    pub overlapping: Vec<TextChunk>,
    /// Whether searches find the filed chunks: both cuts are the same, and the text is filed.
    pub is_shared: bool,
    pub facts: VersionFacts,
    /// What is said about the source, see [`Order::words`].
    pub words: String,
}

impl CutText {
    /// Cuts the text on a blocking thread, because a long one takes seconds. Tokens are counted
    /// with the model's tokenizer.
    pub async fn cut(
        order: &Arc<Order>,
        model: String,
        taxonomy: &Taxonomy,
        job_id: String,
        outlined: bool,
    ) -> Result<Self, JobError> {
        let order = Arc::clone(order);
        let depth = taxonomy.depth();
        let (part, whole) = match taxonomy.scope() {
            LimitScope::Level => SHARE_OF_LEVEL,
            LimitScope::Parent => SHARE_OF_PARENT,
        };
        let sections = taxonomy.limit(depth).saturating_mul(part) / whole;
        #[expect(
            clippy::disallowed_methods,
            reason = "pure computation that ends by itself"
        )]
        let document = tokio::task::spawn_blocking(move || {
            let counter = TokenCounter::for_model(Some(&model));
            let (text, rules) = (order.text.as_str(), order.rules());

            // Counting tokens takes most of the time, so both cuts use the same fragments.
            let parts = fragments(text, &rules.delimiters, counter);
            let chunks = cut_at(text, &parts, &rules, counter);
            let usual = rules.delimiters == DELIMITERS;

            let mut overlapping = match order.wants_vectors() {
                true if usual => cut_overlapping(text, &parts, order.retrieval, counter),
                true => {
                    let parts = fragments(text, &DELIMITERS.map(str::to_owned), counter);
                    cut_overlapping(text, &parts, order.retrieval, counter)
                }
                false => Vec::new(),
            };

            // As for most short texts: stored once instead of twice.
            let is_shared =
                order.is_filed() && order.wants_vectors() && same(&chunks, &overlapping);
            if is_shared {
                overlapping.clear();
            }

            let facts = VersionFacts {
                sha256: sha256_hex(order.text.as_bytes()),
                settings_key: order.settings_key(depth, counter.name()),
                size_bytes: count(order.text.len()),
                mtime: order.mtime.map(Timestamp::from_micros),
                char_count: count(chunks.last().map_or(0, |last| last.end_char)),
                token_count: chunks.iter().map(|chunk| count(chunk.token_count)).sum(),
                provider: order.facts.provider.clone(),
                topic: order.facts.topic.clone(),
                note: order.facts.note.clone(),
                metadata: order.metadata(),
                job_id: Some(job_id),
            };

            let headings = headings(text);
            Self {
                trails: trails(&headings, text, &chunks),
                overlapping_trails: trails(&headings, text, &overlapping),
                outline: if outlined && order.is_filed() {
                    outline(&order, &headings, &chunks, (depth, sections))
                } else {
                    SourceOutline::default()
                },
                chunks,
                tokenizer: counter.name(),
                overlapping,
                is_shared,
                facts,
                words: order.words(),
            }
        });

        document
            .await
            .map_err(|_| JobError::retry(Failure::panicked()))
    }

    /// Whether the text needs no helper.
    pub fn is_brief(&self) -> bool {
        self.facts.token_count < MIN_HELPED
    }

    /// The warning for a chunk that is shorter than the minimum.
    pub fn short_chunk(&self, min_tokens: usize) -> Option<String> {
        let short = self
            .chunks
            .iter()
            .enumerate()
            .find(|(_, chunk)| chunk.token_count < min_tokens);
        short.map(|(place, chunk)| {
            format!(
                "chunk {} has {} tokens, fewer than chunk_min_tokens ({min_tokens}); it is \
                 filed anyway",
                place + 1,
                chunk.token_count
            )
        })
    }

    /// The filed chunks as they are stored, without their category.
    pub fn chunks<'t>(&'t self, text: &'t str) -> Vec<NewChunk<'t>> {
        rows(&self.chunks, text, self.tokenizer, &self.trails)
    }

    /// The search chunks as they are stored, unless they are the filed ones.
    pub fn overlapping_chunks<'t>(&'t self, text: &'t str) -> Vec<NewChunk<'t>> {
        let trails = &self.overlapping_trails;
        rows(&self.overlapping, text, self.tokenizer, trails)
    }

    /// Whether searches find chunks of their own, not the filed ones.
    fn finds_overlapping(&self, order: &Order) -> bool {
        order.wants_vectors() && !self.is_shared
    }

    /// The headings above the texts that searches find.
    pub fn searched_headings(&self, order: &Order) -> Vec<Option<String>> {
        if self.finds_overlapping(order) {
            self.overlapping_trails.clone()
        } else {
            self.trails.clone()
        }
    }

    /// The texts that searches find.
    pub fn searched_texts(&self, order: &Order) -> Vec<Arc<str>> {
        let searched = if self.finds_overlapping(order) {
            &self.overlapping
        } else {
            &self.chunks
        };
        searched
            .iter()
            .map(|chunk| order.text[chunk.range.clone()].into())
            .collect()
    }
}

fn same(some: &[TextChunk], others: &[TextChunk]) -> bool {
    let ranges = some.iter().map(|chunk| &chunk.range);
    ranges.eq(others.iter().map(|chunk| &chunk.range))
}

fn outline(
    order: &Order,
    headings: &[Heading],
    chunks: &[TextChunk],
    (depth, sections): (i64, i64),
) -> SourceOutline {
    let ranges: Vec<Range<usize>> = chunks.iter().map(|chunk| chunk.range.clone()).collect();
    EmbeddedModel::outline(&OutlineInput {
        filename: order.filename.as_deref(),
        path: order.path.as_deref(),
        title: order.facts.title.as_deref(),
        text: &order.text,
        headings,
        chunks: &ranges,
        depth: u32::try_from(depth).unwrap_or(u32::MAX),
        most_sections: usize::try_from(sections)
            .unwrap_or(usize::MAX)
            .max(MIN_SECTIONS),
    })
}

/// The headings above each chunk. Blank lines at the beginning of a chunk belong to what follows.
fn trails(headings: &[Heading], text: &str, chunks: &[TextChunk]) -> Vec<Option<String>> {
    let mut trail = Trail::new(headings);
    let mut above = |chunk: &TextChunk| {
        let text = &text[chunk.range.clone()];
        let lead = text.chars().take_while(|c| c.is_whitespace()).count();
        joined(trail.at(chunk.start_char + lead))
    };

    chunks.iter().map(&mut above).collect()
}

fn rows<'t>(
    chunks: &[TextChunk],
    text: &'t str,
    tokenizer: &'t str,
    trails: &'t [Option<String>],
) -> Vec<NewChunk<'t>> {
    let mut rows = Vec::with_capacity(chunks.len());
    for ((ordinal, chunk), trail) in (1..).zip(chunks).zip(trails) {
        rows.push(NewChunk {
            ordinal,
            text: &text[chunk.range.clone()],
            token_count: count(chunk.token_count),
            start_char: count(chunk.start_char),
            end_char: count(chunk.end_char),
            tokenizer,
            subject: None,
            heading: trail.as_deref(),
            category_id: 0,
        });
    }

    rows
}

/// As the database's integer type.
pub fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
