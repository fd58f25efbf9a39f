//! Memories as evidence of a query: found by a search, best first as many as fit, and numbered after
//! the chunks.

use super::Inner;
use super::QueryError;
use super::answering::empty_task;
use super::budget::count_prompt;
use super::finder::Live;
use super::receipt::Receipt;
use super::result::{QueryMemory, QueryResult};
use super::steps::{Progress, QueryContext};
use crate::base::ids::Space;
use crate::llm::Session;
use crate::llm::tasks::answer::{Evidence, number, place};
use crate::llm::tasks::{CLOSING, OPENING};
use crate::model::call::CallContext;
use crate::model::memory::Memory;
use crate::retrieval::fit::Budget;
use crate::search::memories::{MemoryQuery, concerns};
use crate::store::Store;

/// Memories that are compared with the budget.
const MAX_MEMORIES: usize = 50;
/// With sources, memories take at most one of so many parts of the budget.
const BUDGET_SHARE: i64 = 3;

/// Memories with their relevance, best first.
pub struct ScoredMemories {
    pub items: Vec<(Memory, f64)>,
    /// Whether they have to do with the query.
    pub are_related: bool,
}

/// The memories that are part of the prompt.
pub struct FittedMemories {
    /// Tokens of the budget that they take, if there are sources too.
    pub tokens: i64,
    /// Whether there are any, and they have to do with the query.
    pub are_related: bool,
}

/// Finds memories and keeps those that fit.
pub async fn find(
    query: &QueryContext<'_>,
    progress: &mut Progress,
) -> Result<FittedMemories, QueryError> {
    let mode = query.finder.mode_tokens(query);
    progress.receipt.mode_tokens = mode;
    let room = if query.settings.searched.sources() {
        query.budget() / BUDGET_SHARE
    } else {
        query.budget() - count_prompt(query.counter, mode, &empty_task(query)).await
    };

    let found = query.finder.memories().await?;
    progress.receipt.memories_related = Some(found.are_related);
    let room = usize::try_from(room).unwrap_or(0);
    let mut budget = Budget::with_gaps(room);
    for (memory, relevance) in found.items {
        let shown = shown(&memory, relevance);
        // The number is not known yet: a long one for certain.
        let head = format!("{}{}", number(i64::from(i32::MAX)), place(&label(&shown)));
        let framed = format!("{head}{OPENING}{}{CLOSING}", shown.text_content);
        if budget.take(query.counter.count(&framed)) {
            progress.result.memories.push(shown);
        }
    }

    let used = i64::try_from(room - budget.left()).unwrap_or(i64::MAX);
    let has_sources = query.settings.searched.sources();
    Ok(FittedMemories {
        tokens: if has_sources { used } else { 0 },
        are_related: found.are_related && !progress.result.memories.is_empty(),
    })
}

/// The memories of the user that match the query.
pub async fn search(live: &Live<'_>) -> Result<ScoredMemories, QueryError> {
    let settings = live.settings;
    let Some(user_id) = settings.user_id.as_deref() else {
        return Ok(ScoredMemories {
            items: Vec::new(),
            are_related: false,
        });
    };

    let limit = usize::try_from(settings.limit).unwrap_or(MAX_MEMORIES);
    let query = MemoryQuery {
        tags: &live.scope.tags,
        as_of: live.scope.as_of,
        ..MemoryQuery::of(user_id, &settings.query, MAX_MEMORIES.min(limit))
    };
    // Not the query's own session: a replay searches no more, so it must not expect this call.
    let session = Session::of_caller(live.session.call().unpaid());
    // Without the embedding model, words are enough.
    let retrieval = &live.inner.retrieval;
    let found = retrieval.find_memories_or_words(&session, query);
    let (found, _) = found.await?;
    let are_related = concerns(found.items.iter().map(|one| &one.scores));
    let items = found.items.into_iter();
    Ok(ScoredMemories {
        items: items.map(|one| (one.found, one.scores.score)).collect(),
        are_related,
    })
}

/// Counts the memories that the answer cites; without an answer, those that were read.
pub async fn count_uses(inner: &Inner, call: &CallContext, result: &QueryResult) {
    let used = result.memories.iter();
    let used = used.filter(|one| one.cited || result.answer.is_none());
    let ids: Vec<String> = used.map(|one| one.memory_id.clone()).collect();
    inner.retrieval.count_uses(call, &ids).await;
}

/// The memories that a receipt names.
pub async fn recorded(
    store: &Store,
    space: &Space,
    receipt: &Receipt,
) -> Result<ScoredMemories, QueryError> {
    let known = &receipt.memories;
    let ids: Vec<String> = known.iter().map(|(id, _)| id.clone()).collect();
    let found = store.list_memories_of(space, &ids).await?;
    let with_relevance = |(id, relevance): &(String, f64)| {
        let memory = found.iter().find(|memory| memory.id.as_str() == id)?;
        Some((memory.clone(), *relevance))
    };

    let items: Vec<(Memory, f64)> = known.iter().filter_map(with_relevance).collect();
    Ok(ScoredMemories {
        // Receipts of older versions do not say it.
        are_related: receipt.memories_related.unwrap_or(!items.is_empty()),
        items,
    })
}

/// Adds the memories to the evidence of a prompt, with numbers that no chunk has.
pub fn add_evidence(progress: &mut Progress, evidence: &mut Vec<Evidence>) {
    let most = evidence.iter().map(|one| one.chunk_id).max().unwrap_or(0);
    let mut first = 1;
    while most > 0 && first <= most {
        first *= 10;
    }

    let from = if most == 0 { 1 } else { first + 1 };
    for (number, memory) in (from..).zip(&mut progress.result.memories) {
        memory.number = Some(number);
        evidence.push(Evidence {
            chunk_id: number,
            path: label(memory).into(),
            about: "".into(),
            text: memory.text_content.as_str().into(),
        });
    }
}

/// How the prompt names a memory.
fn label(memory: &QueryMemory) -> String {
    let day = memory.created_at.get(..10).unwrap_or_default();
    format!("memory / {} / {} / {day}", memory.kind, memory.role)
}

fn shown(memory: &Memory, relevance: f64) -> QueryMemory {
    QueryMemory {
        memory_id: memory.id.to_string(),
        user_id: memory.user_id.clone(),
        thread_id: memory.thread_id.as_ref().map(ToString::to_string),
        kind: memory.kind.into_str().to_owned(),
        role: memory.role.clone(),
        text_content: memory.content.clone(),
        relevance,
        created_at: memory.created_at.to_string(),
        number: None,
        cited: false,
    }
}
