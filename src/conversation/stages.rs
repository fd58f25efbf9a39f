//! The three stages: the current thread, the user's other threads, and preferences and other
//! important long-term memories; at most twenty memories in total.

use std::collections::HashSet;
use std::time::Instant;

use serde::Serialize;
use strum::IntoStaticStr;
use utoipa::ToSchema;

use super::intent::Intent;
use super::scoring::FoundBy;
use super::{Conversation, ConversationError};
use crate::base::clock::milliseconds_since;
use crate::base::ids::{MemoryId, ThreadId};
use crate::model::call::CallContext;
use crate::model::memory::{Memory, Tier};
use crate::retrieval::Item;
use crate::store::StageQuery;

/// Maximum memories in a context.
pub const MAX_MEMORIES: usize = 20;
/// Memories of the last stage that are always included.
const ALWAYS: usize = 3;

/// Which stage found a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RetrievalSource {
    CurrentThread,
    CrossThread,
    Expansion,
}

/// The parts of `relevance_score`: points for each match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = RelevancePartsResponse)]
pub struct RelevanceParts {
    pub topic: f64,
    pub category: f64,
    pub entity: f64,
    pub tier: f64,
    pub importance: f64,
}

impl RelevanceParts {
    pub fn total(&self) -> f64 {
        self.topic + self.category + self.entity + self.tier + self.importance
    }
}

/// What the stages found.
#[derive(Debug, Clone, Default)]
pub struct StageResult {
    pub found: Vec<Item<Memory, FoundBy>>,
    /// The ids of memories that made room for the last stage.
    pub replaced: Vec<MemoryId>,
    /// Milliseconds of each stage.
    pub stage_ms: [f64; 3],
}

/// What a context is for, and whose memories are searched.
#[derive(Debug, Clone, Copy)]
pub struct ContextScope<'s> {
    pub query: &'s str,
    pub call: &'s CallContext,
    pub user_id: &'s str,
    pub thread_id: Option<&'s ThreadId>,
    pub exclude: Option<&'s str>,
}

impl Conversation {
    /// Runs the stages.
    ///
    /// # Errors
    /// The store's.
    pub async fn run_stages(
        &self,
        scope: ContextScope<'_>,
        intent: &Intent,
    ) -> Result<StageResult, ConversationError> {
        let entity_values: Vec<String> = intent
            .entities
            .iter()
            .map(|entity| entity.value.clone())
            .collect();
        let query = |limit: usize| StageQuery {
            user_id: scope.user_id,
            thread_id: scope.thread_id,
            topics: &intent.topics,
            category: intent.category.as_deref(),
            entity_values: &entity_values,
            since: intent.since(scope.call.now),
            exclude: scope.exclude,
            limit,
        };

        let mut result = StageResult::default();
        let only = intent.search_current_thread_only && scope.thread_id.is_some();
        let first = if only { MAX_MEMORIES } else { MAX_MEMORIES / 2 };
        let begun = Instant::now();
        let current = self
            .store
            .list_current_thread(&scope.call.space, &query(first), scope.call.now)
            .await?;
        result.stage_ms[0] = milliseconds_since(begun);
        let mut rest = MAX_MEMORIES - current.len();
        let current = current.into_iter().map(|memory| {
            let tier = Some(memory.tier(scope.call.now));
            let relevance = Some(relevance(&memory, intent, 8.0, tier));
            staged(memory, RetrievalSource::CurrentThread, relevance)
        });
        let current: Vec<Item<Memory, FoundBy>> = current.collect();

        let begun = Instant::now();
        let mut others = Vec::new();
        if !only {
            let found = self
                .store
                .list_other_threads(&scope.call.space, &query(rest))
                .await?;
            rest -= found.len();
            others.extend(found.into_iter().map(|memory| {
                let relevance = Some(relevance(&memory, intent, 12.0, None));
                staged(memory, RetrievalSource::CrossThread, relevance)
            }));
            result.stage_ms[1] = milliseconds_since(begun);
        }

        let begun = Instant::now();
        let seen: HashSet<&str> = current
            .iter()
            .chain(&others)
            .map(|one| one.found.id.as_str())
            .collect();
        let limit = rest.max(ALWAYS);
        let expansion = self
            .store
            .list_expansion(
                &scope.call.space,
                &query(limit + seen.len()),
                scope.call.now,
            )
            .await?;
        let expansion = expansion
            .into_iter()
            .filter(|memory| !seen.contains(memory.id.as_str()));
        let expansion = expansion
            .take(limit)
            .map(|memory| staged(memory, RetrievalSource::Expansion, None))
            .collect();

        result.stage_ms[2] = milliseconds_since(begun);
        (result.found, result.replaced) = make_room(current, others, expansion);
        // Of equal scores the oldest comes first.
        result.found.sort_by(|a, b| {
            let (a, b) = (&a.found, &b.found);
            let by_time = a.created_at.cmp(&b.created_at);
            by_time.then_with(|| a.id.cmp(&b.id))
        });
        Ok(result)
    }
}

fn staged(
    memory: Memory,
    source: RetrievalSource,
    relevance: Option<RelevanceParts>,
) -> Item<Memory, FoundBy> {
    let by = FoundBy {
        source,
        relevance,
        search: None,
    };
    Item::new(memory, by)
}

/// Makes room for the last stage: drops the lowest of the second stage, then of the first.
fn make_room(
    mut current: Vec<Item<Memory, FoundBy>>,
    mut others: Vec<Item<Memory, FoundBy>>,
    expansion: Vec<Item<Memory, FoundBy>>,
) -> (Vec<Item<Memory, FoundBy>>, Vec<MemoryId>) {
    let mut replaced = Vec::new();
    while current.len() + others.len() + expansion.len() > MAX_MEMORIES {
        match others.pop().or_else(|| current.pop()) {
            Some(lowest) => replaced.push(lowest.found.id),
            None => break,
        }
    }

    current.append(&mut others);
    current.extend(expansion);
    (current, replaced)
}

/// The score of a stage for one memory.
pub fn relevance(
    memory: &Memory,
    intent: &Intent,
    entity_points: f64,
    tier: Option<Tier>,
) -> RelevanceParts {
    let points = |matches: bool, points: f64| if matches { points } else { 0.0 };
    let topic = memory
        .labels
        .topics
        .iter()
        .any(|topic| intent.topics.contains(topic));
    let entity = memory.labels.entities.iter().any(|one| {
        intent
            .entities
            .iter()
            .any(|wanted| wanted.value == one.value)
    });
    let category = intent.category.is_some() && memory.category == intent.category;

    RelevanceParts {
        topic: points(topic, 10.0),
        category: points(category, 5.0),
        entity: points(entity, entity_points),
        tier: tier.map_or(0.0, |tier| match tier {
            Tier::Short => 5.0,
            Tier::Mid => 3.0,
            Tier::Long => 1.0,
        }),
        importance: memory.importance().map_or(5.0, |value| value * 10.0),
    }
}
