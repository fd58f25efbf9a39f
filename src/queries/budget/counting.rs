//! Counts the parts of the prompts that answer a query or shorten its chunks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use memoir_text::framing::quoted;
use memoir_text::tokens::TokenCounter;
use tokio::sync::Semaphore;

use super::{ChunkTokens, ModeTokens, PromptTokens, Size};
use crate::llm::tasks::answer::{Answer, number, place, query_line};
use crate::llm::tasks::summarize::{Summarize, SummarizeChunk};
use crate::llm::tasks::{CLOSING, OPENING, helper_line};
use crate::llm::{Llm, Task};
use crate::queries::steps::QueryItem;

/// Above this many bytes, counting moves off the threads that serve requests.
const MUCH_TEXT: usize = 50_000;

/// A target longer than most, because the length may be part of the schema that is counted.
const LONG_TARGET: usize = 10_000;

/// The marks that chat templates put around the two messages of a request, which providers count.
const MESSAGE_TOKENS: i64 = 16;

/// The chunks of a prompt, the labels of their paths, and the helpers of their sources.
type Parts = (Vec<QueryItem>, Vec<Arc<str>>, Vec<Option<Arc<str>>>);

impl ModeTokens {
    /// What any mode may add that the models may come to use: a prompt that fits still fits after a
    /// model has rejected a mode.
    pub fn of(llm: &Llm, model: Option<&str>, counter: TokenCounter) -> Self {
        let answer = Answer {
            query: "".into(),
            contextual_helpers: Vec::new(),
            chunks: Vec::new(),
            note_room: None,
        };

        let chunk = SummarizeChunk {
            chunk_id: 1,
            text: "".into(),
            target_chars: LONG_TARGET,
        };

        let summarize = Summarize {
            chunks: vec![chunk],
            retries: 0,
            note_room: None,
        };

        let most = |additions: Vec<String>| {
            let tokens = additions.iter().map(|text| Size::of(counter, text).tokens);
            tokens.max().map_or(0, |most| most + MESSAGE_TOKENS)
        };

        Self {
            answer: most(llm.additions(model, &answer)),
            summarize: most(llm.additions(model, &summarize)),
        }
    }
}

impl PromptTokens {
    /// Counts every part of a prompt once: its query, and the rest.
    pub async fn count(
        counter: TokenCounter,
        mode: ModeTokens,
        (query, parts): (Arc<str>, Arc<Parts>),
    ) -> Self {
        let uncounted = parts.0.iter().filter(|item| known(counter, item).is_none());
        let bytes = query.len() + uncounted.map(|item| item.found.text.len()).sum::<usize>();
        let count = move || Self::count_now(counter, mode, &query, &parts);
        counted(bytes, count).await
    }

    fn count_now(counter: TokenCounter, mode: ModeTokens, query: &str, parts: &Parts) -> Self {
        let (items, labels, helpers) = parts;
        let line = |helper: Option<&str>| Size::of(counter, &helper_line(helper));
        let query = Size::of(counter, &query_line(query));
        let mut instruction = Size::of(counter, Answer::SYSTEM);
        instruction.tokens += mode.answer;
        let end = Size::of(counter, CLOSING);

        // Chunks of one path share most of their headings.
        let mut headings: HashMap<usize, Size> = HashMap::new();
        let mut heading = |item: &QueryItem| {
            let path = item.scores.path;
            let label = || Size::of(counter, &format!("{}{OPENING}", place(&labels[path])));
            let label = *headings.entry(path).or_insert_with(label);
            Size::of(counter, &number(item.found.id)).plus(label)
        };
        let part = |item: &QueryItem| {
            let text = known(counter, item).unwrap_or_else(|| Size::of(counter, &item.found.text));
            ChunkTokens {
                path: item.scores.path,
                source: item.scores.source,
                frame: heading(item).plus(end),
                text,
                sent: match quoted(&item.found.text) {
                    Cow::Owned(escaped) => Size::of(counter, &escaped).tokens,
                    Cow::Borrowed(_) => text.tokens,
                },
            }
        };

        Self {
            base: instruction.plus(query),
            query,
            mode,
            no_helper: line(None),
            helpers: helpers
                .iter()
                .map(|helper| helper.as_deref().map(|helper| line(Some(helper))))
                .collect(),
            items: items.iter().map(part).collect(),
        }
    }
}

/// The size of a chunk, if the ingestion counted it with the same tokenizer.
fn known(counter: TokenCounter, item: &QueryItem) -> Option<Size> {
    let chunk = &item.found;
    (chunk.tokenizer == counter.name()).then_some(Size {
        tokens: chunk.token_count,
        chars: chunk.end_char - chunk.start_char,
    })
}

/// The complete prompt, counted as a whole: the sum of its parts is only close.
pub async fn count_prompt(counter: TokenCounter, mode: ModeTokens, task: &Answer) -> i64 {
    let (task, bytes) = (
        task.clone(),
        task.chunks
            .iter()
            .map(|chunk| chunk.text.len())
            .sum::<usize>(),
    );
    let whole = move || {
        Size::of(counter, Answer::SYSTEM).tokens
            + mode.answer
            + Size::of(counter, &task.frame()).tokens
    };
    counted(bytes, whole).await
}

/// Counts long texts on blocking threads, with no more at once than there are processors, because
/// each counting thread has its own tables.
async fn counted<T: Send + 'static>(
    bytes: usize,
    count: impl Fn() -> T + Clone + Send + 'static,
) -> T {
    static SLOTS: OnceLock<Semaphore> = OnceLock::new();
    if bytes < MUCH_TEXT {
        return count();
    }
    let processors = || std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let _slot = SLOTS
        .get_or_init(|| Semaphore::new(processors()))
        .acquire()
        .await;
    #[expect(clippy::disallowed_methods, reason = "pure, and over in milliseconds")]
    let elsewhere = tokio::task::spawn_blocking(count.clone()).await;
    elsewhere.unwrap_or_else(|_| count())
}
