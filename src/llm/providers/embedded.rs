//! The embedded model as a provider: it computes in this process, on a thread of its own, so that
//! nothing else waits for it. It reads the task itself, not the prompt.

use futures_util::future::BoxFuture;
use memoir_embedded_model::{
    AnswerChunk, ClassifyInput, EmbeddedModel, Entity, HelperInput, Vocabulary,
};
use memoir_text::framing::next_line;
use serde::Serialize;

use super::super::provider::{Capabilities, Finish, Provider, Reply, Request, Usage, Vectors};
use super::super::provider_error::ProviderError;
use super::super::tasks::AnyTask;
use super::super::tasks::analyze::{Analyze, SearchParams};
use super::super::tasks::answer::{Answer, AnswerOutput, chunks};
use super::super::tasks::classify::{ClassifiedChunk, Classify, ClassifyOutput};
use super::super::tasks::enrich::{
    ClassifiedMessage, ClassifiedMessages, EnrichMany, NamedEntity, NumberedMessage,
};
use super::super::tasks::extract::{Extract, ExtractedFact, ExtractedFacts};
use super::super::tasks::helper::{Helper, HelperOutput};
use super::super::tasks::helper_many::{HelperMany, HelperManyOutput, NumberedHelper};
use super::super::tasks::probe::ProbeOutput;
use super::super::tasks::rollup::{RolledUp, Rollup};
use super::super::tasks::select::{Select, SelectOutput, Selection};
use super::super::tasks::send::SendPrompt;
use super::super::tasks::shortlist;
use super::super::tasks::summarize::{Summarize, SummarizeOutput, Summary};
use super::{embedded_headers, embedded_prompts};
use crate::model::vocabulary::Terms;

/// Without samples it knows little more than the name of a category, and a second look costs only
/// time.
pub const CAPABILITIES: Capabilities = Capabilities {
    in_process: true,
    samples: true,
    second_look: true,
};

/// A single text below this length is embedded on the current thread, because starting another
/// would take longer.
const SHORT_TEXT: usize = 4096;

pub struct Embedded;

impl Provider for Embedded {
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let task = (request.task)();
            let prompt = request.user.to_owned();

            let (text, usage) = compute(move || {
                let text = answer_to(&task);
                let usage = Usage {
                    prompt: count(&prompt),
                    completion: count(&text),
                    cached: 0,
                };

                (text, usage)
            })
            .await?;

            Ok(Reply {
                text,
                ignored_tool: false,
                finish: Finish::Complete,
                usage: Some(usage),
                counted: false,
                model: None,
                id: None,
            })
        })
    }

    fn embed<'a>(
        &'a self,
        _model: &'a str,
        texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vectors, ProviderError>> {
        Box::pin(async move {
            let found = match texts {
                [text] if text.len() < SHORT_TEXT => vec![EmbeddedModel::embed(text)],
                _ => {
                    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
                    compute(move || {
                        texts
                            .iter()
                            .map(|text| EmbeddedModel::embed(text))
                            .collect()
                    })
                    .await?
                }
            };

            Ok(Vectors {
                found,
                usage: None,
                model: None,
            })
        })
    }
}

async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProviderError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let computed = tokio::task::spawn_blocking(work).await;

    // The panic message may quote the text.
    computed.map_err(|_| {
        ProviderError::Broken("the embedded model failed because of an internal error".to_owned())
    })
}

fn answer_to(task: &AnyTask) -> String {
    match task {
        AnyTask::Helper(task) => written(helper(task)),
        AnyTask::HelperMany(task) => written(helper_many(task)),
        AnyTask::Classify(task) => written(classify(task)),
        AnyTask::Select(task) => written(select(task)),
        AnyTask::Summarize(task) => written(summarize(task)),
        AnyTask::Answer(task) => written(answer(task)),
        AnyTask::EnrichOne(task) => written(enrich(&task.message, &task.terms)),
        AnyTask::EnrichMany(task) => written(enrich_many(task)),
        AnyTask::Analyze(task) => written(analyze(task)),
        AnyTask::Rollup(task) => written(roll_up(task)),
        AnyTask::SendPrompt(task) => reply_to(task),
        AnyTask::Shape(task) => written(embedded_headers::shape(task)),
        AnyTask::Rerank(task) => written(embedded_prompts::rerank(task)),
        AnyTask::Nli(task) => written(embedded_prompts::nli(task)),
        AnyTask::Condense(task) => written(embedded_prompts::condense(task)),
        AnyTask::Audit(task) => written(embedded_prompts::audit(task)),
        AnyTask::Extract(task) => written(extract(task)),
        AnyTask::Probe(_) => written(ProbeOutput {
            word: "ready".to_owned(),
        }),
    }
}

fn written(output: impl Serialize) -> String {
    serde_json::to_value(output).unwrap_or_default().to_string()
}

fn helper_many(task: &HelperMany) -> HelperManyOutput {
    let each = task.documents.iter();
    let each = each.map(|(id, document)| NumberedHelper::new(*id, helper(document)));
    HelperManyOutput {
        documents: each.collect(),
    }
}

fn helper(task: &Helper) -> HelperOutput {
    let chunks: Vec<&str> = task.chunks.iter().map(|(_, text)| &**text).collect();
    let known = EmbeddedModel::helper(&HelperInput {
        filename: &task.filename,
        title: task.title.as_deref(),
        metadata: &task.metadata,
        chunks: &chunks,
    });

    HelperOutput {
        author: known.author,
        date: known.date,
        topic: known.topic,
        summary: known.summary,
    }
}

/// As the fallback of a language model: a shortlist has no samples, by which this model compares, so
/// it leaves the choice to the levels.
fn level_by_level(task: &Classify) -> ClassifyOutput {
    let none = |(id, _): &(i64, _)| ClassifiedChunk::new(*id, shortlist::NONE.to_owned());
    ClassifyOutput {
        chunks: task.chunks.iter().map(none).collect(),
    }
}

fn classify(task: &Classify) -> ClassifyOutput {
    if task.is_shortlist() && !task.free_names {
        return level_by_level(task);
    }

    let contents = task.hint.contents();
    let parent: Vec<&str> = task.parent.iter().map(String::as_str).collect();
    let categories: Vec<&str> = task.categories.iter().map(String::as_str).collect();
    let counts: Vec<usize> = contents.iter().map(|contents| contents.count).collect();
    let samples: Vec<Vec<&str>> = contents
        .iter()
        .map(|contents| contents.samples.iter().map(|text| &**text).collect())
        .collect();

    let chunks: Vec<(i64, &str)> = task
        .chunks
        .iter()
        .map(|(id, text)| (*id, &**text))
        .collect();

    let homes: Vec<Option<usize>> = chunks
        .iter()
        .map(|(id, _)| task.hint.filed_in(*id))
        .collect();

    let outlined: Vec<Option<&str>> = chunks
        .iter()
        .map(|(id, _)| task.hint.outlined_name(*id))
        .collect();
    let filed = EmbeddedModel::classify(&ClassifyInput {
        contextual_helper: task.contextual_helper.as_deref(),
        level: task.level.max(1),
        depth: task.depth,
        parent: &parent,
        categories: &categories,
        samples: &samples,
        counts: &counts,
        may_create: task.may_create,
        chunks: &chunks,
        homes: &homes,
        wishes: &outlined,
        is_short_text: task.hint.is_short_text(),
    });

    ClassifyOutput {
        chunks: filed
            .into_iter()
            .map(|(id, category)| ClassifiedChunk::new(id, category))
            .collect(),
    }
}

fn select(task: &Select) -> SelectOutput {
    let options: Vec<&str> = task.options.iter().map(String::as_str).collect();
    let known = (task.hint.found_in(), task.hint.contents());
    let chosen = EmbeddedModel::select(&task.query, &options, known, task.at_most);

    let selection = |(category, rank)| Selection {
        category,
        ranked_relevance: i64::from(rank),
    };

    SelectOutput {
        selections: chosen.into_iter().map(selection).collect(),
    }
}

fn summarize(task: &Summarize) -> SummarizeOutput {
    let chunks: Vec<_> = task
        .chunks
        .iter()
        .map(|chunk| (chunk.chunk_id, &*chunk.text, chunk.target_chars))
        .collect();

    let short = EmbeddedModel::summarize(&chunks);
    let summary = |(chunk_id, summary)| Summary { chunk_id, summary };

    SummarizeOutput {
        summaries: short.into_iter().map(summary).collect(),
    }
}

fn answer(task: &Answer) -> AnswerOutput {
    AnswerOutput {
        answer: EmbeddedModel::answer(&task.query, &chunks(&task.chunks)),
    }
}

/// The number of a text that is no chunk; it is not cited.
const NO_CHUNK: i64 = 0;

/// Answers the task of a prompt, its last paragraph or what stands behind `Task:`, with sentences
/// above it. Lines of a composed prompt that cite a chunk keep its number.
fn reply_to(task: &SendPrompt) -> String {
    let prompt = task.prompt.trim_end();
    let (above, query) = prompt
        .rsplit_once("\nTask:")
        .or_else(|| prompt.rsplit_once("\n\n"))
        .unwrap_or(("", prompt));
    let query = query.trim().trim_start_matches("Task:").trim();
    let (known, history) = match above.rsplit_once(TASK_HEADER) {
        Some((known, how)) => (
            known,
            how.trim_start().split("\n\n").next().unwrap_or_default(),
        ),
        None => (above, ""),
    };
    let history = history.strip_prefix(HISTORY_HEADER).unwrap_or_default();

    let entries = entries(known.lines().chain([""]).chain(history.lines()));
    let (cited, rest): (Vec<&str>, Vec<&str>) = entries
        .iter()
        .map(String::as_str)
        .partition(|entry| cited_line(entry).is_some());
    let rest = rest.into_iter().filter(|line| !is_label(line.trim()));
    let rest = rest.collect::<Vec<_>>().join("\n");
    let mut chunks: Vec<AnswerChunk<'_>> = cited
        .into_iter()
        .filter_map(cited_line)
        .map(|(chunk_id, text)| AnswerChunk {
            chunk_id,
            path: "",
            about: "",
            text,
        })
        .collect();
    let paragraphs = rest.split("\n\n").map(str::trim);
    chunks.extend(
        paragraphs
            .filter(|text| !text.is_empty())
            .map(|text| AnswerChunk {
                chunk_id: NO_CHUNK,
                path: "",
                about: "",
                text,
            }),
    );

    EmbeddedModel::answer(query, &chunks).replace(&format!(" [{NO_CHUNK}]"), "")
}

/// The lines, each with those that continue it.
fn entries<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in lines {
        match (next_line(line), entries.last_mut()) {
            (Some(text), Some(entry)) => {
                entry.push('\n');
                entry.push_str(text);
            }
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// The number and the text of an entry such as `- F1: The ferry leaves at nine. [chunk 11]`.
fn cited_line(line: &str) -> Option<(i64, &str)> {
    let (text, number) = line.trim().rsplit_once(" [chunk ")?;
    let number = number.strip_suffix(']')?.split(',').next()?;
    let text = text.trim_start_matches("- ");
    let is_name = |name: &str| {
        let digits = name.strip_prefix('F').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let text = text
        .split_once(": ")
        .filter(|(name, _)| is_name(name))
        .map_or(text, |(_, text)| text);
    Some((number.trim().parse().ok()?, text))
}

/// The title of the block of a composed prompt that says how to work, and of what was said.
const TASK_HEADER: &str = "[Task/Mode]";
const HISTORY_HEADER: &str = "RECENT HISTORY";

/// Whether a line of a composed prompt names a block, a list or a file.
fn is_label(line: &str) -> bool {
    (line.starts_with('[') && line.ends_with(']'))
        || line.starts_with("[chunk ")
        || (line.starts_with("File: ") && line.contains("sha256"))
        || line.starts_with("End of file: ")
        || (line.len() >= 3 && line.bytes().all(|byte| byte == b'`'))
        || matches!(
            line,
            "Facts:" | "Constraints:" | "Open Issues:" | "Sources:"
        )
}

fn enrich(text: &str, terms: &Terms) -> ClassifiedMessage {
    let found = EmbeddedModel::enrich(text, &lists(terms));
    ClassifiedMessage {
        topics: found.topics,
        category: found.category,
        message_type: found.message_type,
        entities: Some(found.entities.into_iter().map(named).collect()),
        importance: found.importance,
        confidence: found.confidence.to_owned(),
        suggested_topic: None,
        suggested_category: None,
    }
}

fn lists(terms: &Terms) -> Vocabulary<'_> {
    Vocabulary {
        topics: &terms.topics,
        categories: &terms.categories,
        message_types: &terms.message_types,
        entity_types: &terms.entity_types,
    }
}

fn enrich_many(task: &EnrichMany) -> ClassifiedMessages {
    let each = task.messages.iter().map(|(id, _, text)| NumberedMessage {
        id: *id,
        found: enrich(text, &task.terms),
    });
    ClassifiedMessages {
        messages: each.collect(),
    }
}

fn named(entity: Entity) -> NamedEntity {
    NamedEntity {
        kind: entity.kind,
        value: entity.value,
    }
}

fn analyze(task: &Analyze) -> SearchParams {
    let found = EmbeddedModel::analyze(&task.query, &lists(&task.terms));
    SearchParams {
        topics: found.topics,
        category: None,
        time_scope: found.time_scope.to_owned(),
        entities: Some(found.entities.into_iter().map(named).collect()),
        search_current_thread_only: false,
    }
}

/// The sentences that represent the messages, under the most frequent subject.
fn roll_up(task: &Rollup) -> RolledUp {
    let text: Vec<&str> = task.messages.iter().map(|(_, text)| &**text).collect();
    let text = text.join("\n");
    let summary = |most: usize| {
        let found = EmbeddedModel::summarize(&[(1, text.as_str(), most)]);
        found
            .into_iter()
            .next()
            .map(|(_, text)| text)
            .unwrap_or_default()
    };

    RolledUp {
        title: summary(80).trim_end_matches(['.', '…']).to_owned(),
        summary: summary(task.max_chars),
    }
}

/// Simple statements of the user about themselves, word for word.
fn extract(task: &Extract) -> ExtractedFacts {
    let known: Vec<&str> = task.known.iter().map(|fact| &*fact.text).collect();
    let found = EmbeddedModel::statements(&task.message, &known);
    let facts = found.into_iter().map(|one| ExtractedFact {
        kind: if one.is_preference {
            "preference"
        } else {
            "fact"
        }
        .to_owned(),
        content: one.text.to_owned(),
        quote: one.text.to_owned(),
        // Only a language model or a person decides what is no longer true.
        replaces: None,
    });
    ExtractedFacts {
        facts: facts.collect(),
    }
}

fn count(text: &str) -> i64 {
    i64::try_from(EmbeddedModel::tokens(text)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_cites_the_chunks_of_the_prompt_and_not_its_instructions() {
        let says = |prompt: &str| {
            reply_to(&SendPrompt {
                system: "".into(),
                prompt: prompt.into(),
            })
        };

        let composed = "[S_ctx]\nFacts:\n- F1: The ferry to Sør leaves at nine. [chunk 26, chunk 3]\n\
            Sources:\n[chunk 26] /ferry.md (version 1)\n\n[Task/Mode]\nRECENT HISTORY\n\
            user: My cabin has the number twelve.\n\nRole: an expert\n\
            Intent: When does the ferry to Sør leave?\n\nTask:\n";
        let ask = |task: &str| says(&format!("{composed}{task}"));
        assert_eq!(
            ask("When does the ferry to Sør leave?"),
            "The ferry to Sør leaves at nine [26]."
        );
        assert!(ask("Which number has my cabin?").contains("number twelve."));

        let plain =
            "The ledger stores its data in PostgreSQL.\n\nWhere does the ledger store its data?";
        assert_eq!(says(plain), "The ledger stores its data in PostgreSQL.");
        assert_eq!(says(""), "Not found in what is stored.");
    }
}
