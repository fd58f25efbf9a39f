//! Asks the model for the answer, and resolves the numbers that it cites.

use std::sync::Arc;

use super::auto::decide;
use super::budget::count_prompt;
use super::budget::draft::Draft;
use super::citations::{Citation, resolve};
use super::steps::{Progress, QueryContext};
use super::{QueryError, QueryEvent, memories, rendering};
use crate::llm::MemberListener;
use crate::llm::tasks::answer::{Answer, AnswerOutput, Evidence, Support};

/// Answers from the chunks that are kept, and from the memories.
pub async fn answer(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    draft: &Draft,
) -> Result<(), QueryError> {
    let mut task = draft.task(query, draft.summaries.as_deref());
    memories::add_evidence(progress, &mut task.chunks);
    send(query, progress, task).await
}

/// Answers from memories alone.
pub async fn answer_from_memories(
    query: &QueryContext<'_>,
    progress: &mut Progress,
) -> Result<(), QueryError> {
    let mut task = empty_task(query);
    memories::add_evidence(progress, &mut task.chunks);
    send(query, progress, task).await
}

/// A prompt without evidence.
pub fn empty_task(query: &QueryContext<'_>) -> Answer {
    Answer {
        query: query.text(),
        contextual_helpers: Vec::new(),
        chunks: Vec::new(),
        note_room: None,
    }
}

/// Asks the model, if the prompt fits.
async fn send(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    mut task: Answer,
) -> Result<(), QueryError> {
    let (mode, budget) = (progress.receipt.mode_tokens, query.budget());
    let tokens = count_prompt(query.counter, mode, &task).await;
    if let Some(estimate) = &mut progress.result.estimate {
        estimate.final_prompt_token_count = Some(tokens);
    }

    if tokens > budget {
        return Err(QueryError::FinalPromptOverBudget { tokens, budget });
    }

    task.note_room = usize::try_from(budget - tokens).ok();
    let llm = &query.inner.llm;
    let evidence = task.chunks.clone();
    let answered = if query.events.are_watched() {
        let listener = MemberListener::new("answer", |written| {
            query.events.send(|| QueryEvent::Answer(written));
        });
        llm.ask_streaming(query.session, task, Some(&listener))
            .await?
    } else {
        llm.ask(query.session, task).await?
    };

    if answered.value.is_not_found() {
        rendering::show_as_nearest(&mut progress.result);
    } else {
        cite(query, progress, &answered.value.answer);
        // A language model says itself that chunks do not hold the answer.
        if answered.quotes() {
            let support = rate(query.text(), answered.value.clone(), evidence).await;
            let confidence = &mut progress.result.confidence;
            *confidence = confidence
                .take()
                .map(|known| decide::supported(&known, support).into_str().to_owned());
        }

        progress.result.answer = Some(answered.value.answer);
    }

    Ok(())
}

/// Rates an answer on a blocking thread, because that reads all evidence again.
async fn rate(query: Arc<str>, answer: AnswerOutput, evidence: Vec<Evidence>) -> Support {
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let rated = tokio::task::spawn_blocking(move || answer.support(&query, &evidence)).await;

    rated.unwrap_or(Support::Weak)
}

/// Resolves the numbers in an answer.
fn cite(query: &QueryContext<'_>, progress: &mut Progress, answer: &str) {
    let result = &mut progress.result;
    let (chunks, memories) = (&result.chunks, &result.memories);
    let (citations, unknown) = resolve(answer, &query.settings.query, chunks, memories);
    for memory in &mut result.memories {
        let is_it = |one: &Citation| one.memory_id.as_ref() == Some(&memory.memory_id);
        memory.cited = citations.iter().any(is_it);
    }

    result.citations = citations;
    if !unknown.is_empty() {
        let message = format!(
            "the answer cites {} number(s) of chunks or memories that its prompt does not \
             contain; they are left out of the citations",
            unknown.len()
        );
        result.warn("unknown_citations", message);
    }
}
