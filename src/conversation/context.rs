//! A context: the memories that matter for a question, as text that fits a budget, and the reasons.

use std::time::Instant;

use memoir_text::tokens::{TokenCounter, quarter_estimate};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::compose::{self, DUPLICATE, OVER_BUDGET, SECTION_FULL};
use super::intent::{Analyzed, check_query};
use super::scoring::{self, ContextItem};
use super::stages::{StageResult, StageScope};
use super::{Conversation, ConversationError};
use crate::base::clock::{Timestamp, milliseconds_since};
use crate::base::ids::{MemoryId, Space, ThreadId};
use crate::llm::Session;
use crate::retrieval::select::{drop_repeated, kept};

/// Maximum tokens of a context, unless the request sets another.
pub const DEFAULT_TOKENS: usize = 2000;
const TOKEN_LIMITS: std::ops::RangeInclusive<usize> = 10..=200_000;
/// Messages that a search adds on each side of a message found.
const MAX_EXPAND: usize = 1;

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
    /// For a search: how many messages before and after each message found are added.
    pub expand: usize,
}

/// How memories are found. `search`: by keyword and meaning; `staged`: by the terms of the
/// vocabulary, in three stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ContextRank)]
pub enum Rank {
    #[default]
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
    /// The ids of memories that made room for the last stage.
    pub replaced: Vec<MemoryId>,
    pub timings: Timings,
}

impl Context {
    /// The memories that were found and are not in the text: duplicates first, then section by
    /// section.
    pub fn dropped(&self) -> Vec<&ContextItem> {
        let mut dropped: Vec<&ContextItem> =
            self.memories.iter().filter(|one| !one.is_kept()).collect();
        dropped.sort_by_key(|one| {
            let reasons = [DUPLICATE, SECTION_FULL, OVER_BUDGET];
            let place = reasons
                .iter()
                .position(|reason| one.decision.reason == *reason);
            (place, (place != Some(0)).then(|| compose::section(one)))
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
        now: Timestamp,
    ) -> Result<Context, ConversationError> {
        let (begun, space) = (Instant::now(), session.space());
        check_query(&input.query)?;
        input.check_size()?;
        let max_tokens = input.max_tokens.unwrap_or(DEFAULT_TOKENS);
        let thread = match &input.thread_id {
            Some(id) => Some(self.thread(space, id, Some(&input.user_id)).await?),
            None => None,
        };
        let context = input.thread_context.as_deref();
        let analyzed = self.analyze(session, &input.query, context).await?;
        let scope = StageScope {
            user_id: &input.user_id,
            thread_id: thread.as_ref().map(|thread| &thread.id),
            exclude: input.exclude_message_id.as_deref(),
            now,
        };
        let (mut found, mut search_ms) = (StageResult::default(), 0.0);
        if input.rank == Rank::Staged {
            found = self.retrieve(space, scope, &analyzed.intent).await?;
        } else {
            let (begun, query, expand) = (Instant::now(), &input.query, input.expand);
            let searched = self.find_by_search(session, scope, query, &analyzed.intent, expand);
            found.found = searched.await?;
            search_ms = milliseconds_since(begun);
        }

        let scoring = Instant::now();
        let mut memories = scoring::score(found.found, &analyzed.intent, now);
        let score_ms = milliseconds_since(scoring);
        self.add_titles(space, &mut memories).await?;

        let deduplicating = Instant::now();
        drop_repeated(&mut memories, "deduplicate", DUPLICATE, |memory| {
            (compose::beginning(memory), memory.id.to_string())
        });
        let dedup_ms = milliseconds_since(deduplicating);

        let formatting = Instant::now();
        let (text, truncated) = compose::compose(&mut memories, max_tokens);
        let format_ms = milliseconds_since(formatting);

        let shown: Vec<String> = kept(&memories)
            .map(|one| one.found.id.to_string())
            .collect();
        self.count_uses(space, &shown, now).await;
        let timings = Timings {
            analyze_ms: analyzed.total_ms,
            parse_ms: analyzed.parse_ms,
            stage_ms: found.stage_ms,
            search_ms,
            score_ms,
            dedup_ms,
            format_ms,
            provider_ms: analyzed.provider_ms,
            total_ms: milliseconds_since(begun),
        };

        Ok(Context {
            token_count: TokenCounter::for_model(None).count(&text),
            estimated_tokens: quarter_estimate(&text),
            text,
            max_tokens,
            truncated,
            analyzed,
            memories,
            replaced: found.replaced,
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

    /// Counts that memories were part of a context. If this fails, the context is returned anyway.
    pub(super) async fn count_uses(&self, space: &Space, ids: &[String], now: Timestamp) {
        if ids.is_empty() {
            return;
        }

        let counted = self.store.retry("count_uses", || async {
            let mut tx = self.store.begin().await?;
            tx.count_uses(space, ids, now).await?;
            tx.commit_unflushed().await
        });
        if let Err(error) = counted.await {
            tracing::warn!(%error, "cannot count the uses of memories");
        }
    }
}
