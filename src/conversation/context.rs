//! A context: the memories that matter for a question, as text that fits a budget, and the reasons.

use std::time::Instant;

use memoir_text::tokens::{TokenCounter, quarter_estimate};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::conflicts::Conflict;
use super::intent::{Analyzed, check_query};
use super::scoring::{self, ContextItem};
use super::stages::{ContextScope, StageResult};
use super::text_best_first::{self, UNRELATED};
use super::text_by_section::{self, DUPLICATE, OVER_BUDGET, SECTION_FULL, section};
use super::{Conversation, ConversationError};
use crate::base::clock::milliseconds_since;
use crate::base::ids::{MemoryId, Space, ThreadId};
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::retrieval::select::{drop_repeated, kept};

/// Maximum tokens of a context, unless the request sets another.
pub const DEFAULT_TOKENS: usize = 2000;
const TOKEN_LIMITS: std::ops::RangeInclusive<usize> = 10..=200_000;
/// Messages that a search adds on each side of a message found.
const MAX_EXPAND: usize = 1;
/// Why a memory is not in the result: it made room for the last stage.
const REPLACED: &str = "replaced_by_expansion";

/// A request for a context.
#[derive(Debug, Clone, Default)]
pub struct ContextInput {
    pub query: String,
    pub user_id: String,
    pub thread_id: Option<String>,
    pub max_tokens: Option<usize>,
    pub exclude_message_id: Option<String>,
    pub thread_context: Option<String>,
    pub rank: Rank,
    /// Not in stages: how many messages before and after each message found are added.
    pub expand: usize,
    /// Whether no model analyses the question.
    pub skip_analysis: bool,
    /// Whether no model analyses the question, and neither uses nor tokens are counted: somebody
    /// waits for the first word of a reply.
    pub quick: bool,
}

/// How memories are found. `auto`: by keyword and meaning, with what lasts about the user; `search`:
/// by keyword and meaning alone; `staged`: by the terms of the vocabulary, in three stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ContextRank)]
pub enum Rank {
    #[default]
    Auto,
    Search,
    Staged,
}

/// Milliseconds of each part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    pub analyze_ms: f64,
    pub parse_ms: f64,
    pub stage_ms: [f64; 3],
    pub search_ms: f64,
    pub score_ms: f64,
    pub dedup_ms: f64,
    pub format_ms: f64,
    pub provider_ms: f64,
    pub total_ms: f64,
}

/// A context with its reasons.
pub struct Context {
    pub text: String,
    pub max_tokens: usize,
    pub token_count: usize,
    pub estimated_tokens: usize,
    pub truncated: bool,
    pub analyzed: Analyzed,
    /// Best first; those that are kept are in the text.
    pub memories: Vec<ContextItem>,
    /// Memories that were found and are not among these.
    pub left_out: Vec<LeftOut>,
    /// Memories that contradict each other.
    pub conflicts: Vec<Conflict>,
    /// Whether anything that was ever said has to do with the question; null if nobody looked.
    pub found: Option<bool>,
    pub timings: Timings,
}

/// A memory that was found and made room for another.
#[derive(Debug, Clone)]
pub struct LeftOut {
    pub memory_id: String,
    pub reason: &'static str,
    /// The memory that says the same.
    pub repeats: Option<String>,
}

impl LeftOut {
    pub fn repeating(id: &MemoryId, other: &str) -> Self {
        Self {
            memory_id: id.to_string(),
            reason: DUPLICATE,
            repeats: Some(other.to_owned()),
        }
    }

    fn replaced(id: &MemoryId) -> Self {
        Self {
            memory_id: id.to_string(),
            reason: REPLACED,
            repeats: None,
        }
    }
}

/// What a rank selects, before it is written as text.
pub(super) struct Selected {
    /// At most 20.
    pub memories: Vec<ContextItem>,
    pub left_out: Vec<LeftOut>,
    pub conflicts: Vec<Conflict>,
    pub found: Option<bool>,
    pub timings: Timings,
}

impl Context {
    /// The memories that were found and are not in the text: duplicates first, then section by
    /// section.
    pub fn dropped(&self) -> Vec<&ContextItem> {
        let mut dropped: Vec<&ContextItem> =
            self.memories.iter().filter(|one| !one.is_kept()).collect();
        dropped.sort_by_key(|one| {
            let reasons = [DUPLICATE, UNRELATED, SECTION_FULL, OVER_BUDGET];
            let place = reasons
                .iter()
                .position(|reason| one.decision.reason == *reason);
            (place, (place > Some(1)).then(|| section(one)))
        });
        dropped
    }
}

impl ContextInput {
    /// Checks how large the context may become.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`].
    pub fn check_size(&self) -> Result<(), ConversationError> {
        if self
            .max_tokens
            .is_some_and(|tokens| !TOKEN_LIMITS.contains(&tokens))
        {
            let rule = format!(
                "must be from {} to {}",
                TOKEN_LIMITS.start(),
                TOKEN_LIMITS.end()
            );
            return Err(ConversationError::invalid("max_tokens", rule));
        }

        if self.expand > MAX_EXPAND {
            return Err(ConversationError::invalid("expand", "must be 0 or 1"));
        }

        Ok(())
    }
}

impl Conversation {
    /// Assembles a context.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::NotFound`]: the thread is not the user's.
    /// Or the store's.
    pub async fn context(
        &self,
        session: &Session,
        input: &ContextInput,
    ) -> Result<Context, ConversationError> {
        let (begun, space) = (Instant::now(), session.space());
        check_query(&input.query)?;
        input.check_size()?;
        let max_tokens = input.max_tokens.unwrap_or(DEFAULT_TOKENS);
        let thread = match &input.thread_id {
            Some(id) => Some(
                self.thread(session.call(), id, Some(&input.user_id))
                    .await?,
            ),
            None => None,
        };
        let context = input.thread_context.as_deref();
        let analyzed = if input.quick || input.skip_analysis {
            Analyzed::skipped()
        } else {
            self.analyze(session, &input.query, context).await?
        };
        let scope = ContextScope {
            query: &input.query,
            user_id: &input.user_id,
            thread_id: thread.as_ref().map(|thread| &thread.id),
            exclude: input.exclude_message_id.as_deref(),
            call: session.call(),
        };
        let mut selected = match input.rank {
            Rank::Auto => {
                let intent = &analyzed.intent;
                self.select_for_auto(session, scope, intent, input.expand)
                    .await?
            }
            Rank::Search | Rank::Staged => {
                self.select_in_order(session, scope, input, &analyzed)
                    .await?
            }
        };
        let memories = &mut selected.memories;
        self.add_titles(space, memories).await?;

        let formatting = Instant::now();
        let (text, truncated) = match selected.found {
            Some(found) => text_best_first::compose(memories, max_tokens, found),
            None => text_by_section::compose(memories, max_tokens),
        };
        selected.timings.format_ms = milliseconds_since(formatting);

        // What keeps its place whatever the question is does not count as used.
        let shown: Vec<String> = kept(memories)
            .filter(|one| one.scores.related)
            .map(|one| one.found.id.to_string())
            .collect();
        if !input.quick {
            self.count_uses(session.call(), &shown).await;
        }

        let timings = Timings {
            analyze_ms: analyzed.total_ms,
            parse_ms: analyzed.parse_ms,
            provider_ms: analyzed.provider_ms + selected.timings.provider_ms,
            total_ms: milliseconds_since(begun),
            ..selected.timings
        };

        Ok(Context {
            token_count: if input.quick {
                0
            } else {
                TokenCounter::for_model(None).count(&text)
            },
            estimated_tokens: quarter_estimate(&text),
            text,
            max_tokens,
            truncated,
            analyzed,
            memories: selected.memories,
            left_out: selected.left_out,
            conflicts: selected.conflicts,
            found: selected.found,
            timings,
        })
    }

    /// By search alone or in stages, with the scores of the stages.
    async fn select_in_order(
        &self,
        session: &Session,
        scope: ContextScope<'_>,
        input: &ContextInput,
        analyzed: &Analyzed,
    ) -> Result<Selected, ConversationError> {
        let intent = &analyzed.intent;
        let (mut found, mut timings) = (StageResult::default(), Timings::default());
        if input.rank == Rank::Staged {
            found = self.run_stages(scope, intent).await?;
        } else {
            let searching = Instant::now();
            let searched = self.find_by_search(session, scope, intent, input.expand);
            found.found = searched.await?;
            timings.search_ms = milliseconds_since(searching);
        }

        timings.stage_ms = found.stage_ms;
        let scoring = Instant::now();
        let mut memories = scoring::score(found.found, intent, scope.call.now);
        timings.score_ms = milliseconds_since(scoring);

        let deduplicating = Instant::now();
        drop_repeated(&mut memories, "deduplicate", DUPLICATE, |memory| {
            (text_by_section::beginning(memory), memory.id.to_string())
        });
        timings.dedup_ms = milliseconds_since(deduplicating);

        Ok(Selected {
            memories,
            left_out: found.replaced.iter().map(LeftOut::replaced).collect(),
            conflicts: Vec::new(),
            found: None,
            timings,
        })
    }

    async fn add_titles(
        &self,
        space: &Space,
        memories: &mut [ContextItem],
    ) -> Result<(), ConversationError> {
        let threads = memories
            .iter()
            .filter_map(|one| one.found.thread_id.as_ref());
        let mut ids: Vec<&str> = threads.map(ThreadId::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        let titles = self.store.list_thread_titles(space, &ids).await?;
        for one in memories {
            let title = one.found.thread_id.as_ref();
            let title = title.and_then(|id| titles.get(id.as_str()).cloned());
            one.scores.thread_title = title.flatten();
        }

        Ok(())
    }

    /// Counts that memories were handed to a model.
    pub async fn count_uses(&self, call: &CallContext, ids: &[String]) {
        self.retrieval.count_uses(call, ids).await;
    }
}
