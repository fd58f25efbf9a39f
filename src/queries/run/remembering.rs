//! Memories as evidence of a query: found by a search, best first as many as fit, and numbered after
//! the chunks.

use super::QueryRun;
use crate::llm::Session;
use crate::llm::tasks::answer::{Answer, Evidence, number, place};
use crate::llm::tasks::{CLOSING, OPENING};
use crate::model::memory::Memory;
use crate::queries::QueryError;
use crate::queries::auto::decide::NOTHING;
use crate::queries::budget::{ModeTokens, count_prompt};
use crate::queries::candidates::LeafReader;
use crate::queries::input::Mode;
use crate::queries::result::{PromptEstimate, QueryMemory};
use crate::retrieval::Retrieval;
use crate::search::Hit;
use crate::search::memories::MemoryQuery;
use crate::search::rank::{self, Kind};

/// Memories that are compared with the budget.
const RESULTS: usize = 50;
/// With sources, memories take at most this part of the budget.
const PART: i64 = 3;

impl QueryRun<'_> {
    /// From memories, or from sources and memories.
    pub(super) async fn run_with_memories(&mut self) -> Result<(), QueryError> {
        let found = self.find_memories().await?;
        if self.ask.searched.sources() {
            match self.run_sources().await {
                Err(QueryError::NoChunks) if found => {}
                other => other?,
            }
        } else {
            self.result.found = found;
        }

        // A prompt about sources contains the memories, whatever the answer was.
        let was_sent = |estimate: &PromptEstimate| estimate.final_prompt_token_count.is_some();
        let is_asked = self.result.estimate.as_ref().is_some_and(was_sent);
        if self.ask.mode == Mode::Retrieve || is_asked || !found {
            return Ok(());
        }

        self.result.found = true;
        let task = Answer {
            query: self.ask.query.as_str().into(),
            contextual_helpers: Vec::new(),
            chunks: self.memory_evidence(&[]),
            note_room: None,
        };
        self.send(task).await
    }

    /// Finds memories and keeps those that fit; returns whether they have to do with the query.
    async fn find_memories(&mut self) -> Result<bool, QueryError> {
        let mode = self.known.mode.unwrap_or_else(|| {
            ModeTokens::of(&self.inner.llm, self.ask.model.as_deref(), self.counter)
        });
        self.record.mode = mode;
        let empty = Answer {
            query: self.ask.query.as_str().into(),
            contextual_helpers: Vec::new(),
            chunks: Vec::new(),
            note_room: None,
        };
        let fixed = count_prompt(self.counter, mode, &empty).await;
        let room = if self.ask.searched.sources() {
            self.whole_budget() / PART
        } else {
            self.whole_budget() - fixed
        };

        let (memories, found) = self.search_memories().await?;
        let mut used = 0;
        for (memory, relevance) in memories {
            let shown = shown(&memory, relevance);
            // The number is not known yet: a long one for certain.
            let head = format!("{}{}", number(i64::from(i32::MAX)), place(&label(&shown)));
            let framed = format!("{head}{OPENING}{}{CLOSING}", shown.text_content);
            let tokens = i64::try_from(self.counter.count(&framed)).unwrap_or(i64::MAX);
            if used + tokens <= room {
                used += tokens;
                self.result.memories.push(shown);
            }
        }

        if self.ask.searched.sources() {
            self.reserved = used;
        }

        Ok(found && !self.result.memories.is_empty())
    }

    /// The memories of the user that match the query, best first; in a replay, the recorded ones.
    async fn search_memories(&self) -> Result<(Vec<(Memory, f64)>, bool), QueryError> {
        let (LeafReader::Stored { store, space, .. } | LeafReader::Recorded { store, space, .. }) =
            &self.leaf_reader;
        if let Some(known) = &self.known.memories {
            let ids: Vec<String> = known.iter().map(|(id, _)| id.clone()).collect();
            let mut found = store.list_memories_of(space, &ids).await?;
            let relevance = |memory: &Memory| {
                let own = known.iter().find(|(id, _)| id == memory.id.as_str());
                own.map_or(0.0, |(_, relevance)| *relevance)
            };
            found.sort_by_key(|memory| ids.iter().position(|id| id == memory.id.as_str()));
            let found: Vec<(Memory, f64)> = found
                .into_iter()
                .map(|memory| {
                    let relevance = relevance(&memory);
                    (memory, relevance)
                })
                .collect();
            let any = !found.is_empty();
            return Ok((found, any));
        }

        let Some(user_id) = self.ask.user_id.as_deref() else {
            return Ok((Vec::new(), false));
        };
        let scope = self.ask.scope();
        let query = MemoryQuery {
            user_id,
            text: &self.ask.query,
            kind: Kind::Hybrid,
            k: RESULTS.min(usize::try_from(self.ask.limit).unwrap_or(RESULTS)),
            min_score: None,
            tags: &scope.tags,
            as_of: scope.as_of,
            since: None,
            exclude: None,
        };
        // Not the query's own session: a replay searches no more, so it must not expect this call.
        let session = Session::of_caller(space.clone());
        // Without the embedding model, words are enough.
        let retrieval = Retrieval::new(store.clone(), self.inner.search.clone());
        let found = retrieval.find_memories_or_words(&session, query);
        let (found, _) = found.await?;
        let hits: Vec<Hit> = found.items.iter().map(|one| one.scores.hit).collect();
        let related = rank::evidence(&hits) >= NOTHING;
        let items = found.items.into_iter();
        let items = items.map(|one| (one.found, one.scores.score));
        Ok((items.collect(), related))
    }

    /// The memories as evidence, with numbers that no chunk has.
    pub(super) fn memory_evidence(&mut self, chunks: &[Evidence]) -> Vec<Evidence> {
        let most = chunks.iter().map(|chunk| chunk.chunk_id).max().unwrap_or(0);
        let mut first = 1;
        while most > 0 && first <= most {
            first *= 10;
        }

        let from = if most == 0 { 1 } else { first + 1 };
        let mut evidence = Vec::new();
        for (number, memory) in (from..).zip(&mut self.result.memories) {
            memory.number = Some(number);
            evidence.push(Evidence {
                chunk_id: number,
                path: label(memory).into(),
                text: memory.text_content.as_str().into(),
            });
        }

        evidence
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
