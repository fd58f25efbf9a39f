//! The budget: the tokens of a prompt, counted part by part, and what to do if they are too many.
//!
//! The arithmetic is pure; either `prune` or `summarize` acts on it, never both.

pub mod keywords;
pub mod prune;
pub mod summarize;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::base::text::{char_count, one_line, quoted};
use crate::base::tokens::TokenCounter;
use crate::llm::tasks::answer::Answer;
use crate::llm::tasks::summarize::{Summarize, SummarizeChunk};
use crate::llm::{Llm, Task};

/// Above this many bytes, counting moves off the threads that serve requests.
const MUCH_TEXT: usize = 50_000;

/// A target longer than most, because the length may be part of the schema that is counted.
const LONG_TARGET: usize = 10_000;

/// Tokens and characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub tokens: i64,
    pub chars: i64,
}

impl Size {
    pub fn of(counter: TokenCounter, text: &str) -> Self {
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            tokens: whole(counter.count(text)),
            chars: whole(char_count(text)),
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            chars: self.chars + other.chars,
        }
    }
}

/// A chunk that may become part of a prompt.
#[derive(Debug, Clone)]
pub struct BudgetChunk {
    pub chunk_id: i64,
    /// The index of its path.
    pub path: usize,
    /// The index of its source, in order of first use.
    pub source: usize,
    pub label: Arc<str>,
    pub text: Arc<str>,
    /// Its token count, if known.
    pub counted: Option<Size>,
}

/// Tokens that the output mode adds to an instruction, if the schema is part of the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeTokens {
    pub answer: i64,
    pub summarize: i64,
}

impl ModeTokens {
    /// What the current mode adds.
    pub fn of(llm: &Llm, wished: Option<&str>, counter: TokenCounter) -> Self {
        let answer = Answer {
            query: "".into(),
            contextual_helpers: Vec::new(),
            chunks: Vec::new(),
        };

        let chunk = SummarizeChunk {
            chunk_id: 1,
            text: "".into(),
            target_chars: LONG_TARGET,
        };

        let summarize = Summarize {
            chunks: vec![chunk],
            retries: 0,
        };

        let added = |sent: &str, plain: &str| {
            // Nothing in most modes, and then nothing needs counting.
            if sent == plain {
                0
            } else {
                Size::of(counter, sent).tokens - Size::of(counter, plain).tokens
            }
        };

        Self {
            answer: added(&llm.instruction(wished, &answer), Answer::SYSTEM),
            summarize: added(&llm.instruction(wished, &summarize), Summarize::SYSTEM),
        }
    }
}

/// The tokens of each part of the prompt.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// Instruction and query.
    pub base: Size,
    pub query: Size,
    /// What the output mode adds to the instruction; sent, but not part of the reported estimate.
    pub mode: ModeTokens,
    /// The line used if no source has a helper.
    no_helper: Size,
    /// By source: its helper, if any.
    helpers: Vec<Option<Size>>,
    pub items: Vec<Item>,
}

/// The tokens of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    pub path: usize,
    pub source: usize,
    /// The delimiters around it.
    pub frame: Size,
    pub text: Size,
    /// Tokens of the text as sent, with its own `"""` escaped.
    pub sent: i64,
}

impl Sheet {
    /// Counts every part once.
    pub async fn count(
        counter: TokenCounter,
        mode: ModeTokens,
        query: Arc<str>,
        helpers: Vec<Option<Arc<str>>>,
        chunks: Vec<BudgetChunk>,
    ) -> Self {
        let unknown = chunks.iter().filter(|chunk| chunk.counted.is_none());
        let bytes: usize = query.len() + unknown.map(|chunk| chunk.text.len()).sum::<usize>();
        counted(bytes, move || {
            Self::count_now(counter, mode, &query, &helpers, &chunks)
        })
        .await
    }

    fn count_now(
        counter: TokenCounter,
        mode: ModeTokens,
        query: &str,
        helpers: &[Option<Arc<str>>],
        chunks: &[BudgetChunk],
    ) -> Self {
        let line = |helper: &str| {
            Size::of(
                counter,
                &format!("contextual_helper: {}\n", one_line(helper)),
            )
        };
        let query = Size::of(counter, &format!("query: {}\n", one_line(query)));
        let end = Size::of(counter, "\n\"\"\"\n");
        // Chunks of one path share most of their headings.
        let mut labels: HashMap<usize, Size> = HashMap::new();
        let mut heading = |chunk: &BudgetChunk| {
            let label = || Size::of(counter, &format!("{}]:\n\"\"\"\n", chunk.label));
            let label = *labels.entry(chunk.path).or_insert_with(label);
            Size::of(counter, &format!("Chunk {} [", chunk.chunk_id)).plus(label)
        };
        let item = |chunk: &BudgetChunk| {
            let text = chunk
                .counted
                .unwrap_or_else(|| Size::of(counter, &chunk.text));
            let changed = chunk.text.contains("\"\"\"");
            Item {
                path: chunk.path,
                source: chunk.source,
                frame: heading(chunk).plus(end),
                text,
                sent: if changed {
                    Size::of(counter, &quoted(&chunk.text)).tokens
                } else {
                    text.tokens
                },
            }
        };
        Self {
            base: Size::of(counter, Answer::SYSTEM).plus(query),
            query,
            mode,
            no_helper: line("none"),
            helpers: helpers
                .iter()
                .map(|helper| helper.as_deref().map(line))
                .collect(),
            items: chunks.iter().map(item).collect(),
        }
    }

    /// Everything except the chunks themselves, for the kept chunks.
    pub fn fixed(&self, kept: &[bool]) -> Size {
        let mut used = vec![false; self.helpers.len()];
        let mut size = self.base;
        for (item, _) in self.items.iter().zip(kept).filter(|(_, kept)| **kept) {
            size = size.plus(item.frame);
            used[item.source] = true;
        }
        let lines: Vec<Size> = self
            .helpers
            .iter()
            .zip(&used)
            .filter(|(_, used)| **used)
            .filter_map(|(line, _)| *line)
            .collect();
        if lines.is_empty() {
            size.plus(self.no_helper)
        } else {
            lines.into_iter().fold(size, Size::plus)
        }
    }

    /// The kept chunks.
    pub fn content(&self, kept: &[bool]) -> Size {
        let kept = self.items.iter().zip(kept).filter(|(_, kept)| **kept);
        kept.fold(Size::default(), |sum, (item, _)| sum.plus(item.text))
    }

    /// Tokens of the kept chunks, as sent.
    pub fn sent(&self, kept: &[bool]) -> i64 {
        self.items
            .iter()
            .zip(kept)
            .filter(|(_, kept)| **kept)
            .map(|(item, _)| item.sent)
            .sum()
    }

    /// Tokens of a prompt with the kept chunks, as sent.
    pub fn tokens(&self, kept: &[bool]) -> i64 {
        self.fixed(kept).tokens + self.mode.answer + self.sent(kept)
    }
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
    static PLACES: OnceLock<Semaphore> = OnceLock::new();
    if bytes < MUCH_TEXT {
        return count();
    }
    let processors = || std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let _place = PLACES
        .get_or_init(|| Semaphore::new(processors()))
        .acquire()
        .await;
    #[expect(clippy::disallowed_methods, reason = "pure, and over in milliseconds")]
    let elsewhere = tokio::task::spawn_blocking(count.clone()).await;
    elsewhere.unwrap_or_else(|_| count())
}
