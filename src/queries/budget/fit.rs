//! What a query does with chunks that exceed its budget: drop some, or shorten all of them.

use std::collections::HashMap;
use std::sync::Arc;

use memoir_text::text::char_count;

use super::draft::Draft;
use super::fill::fill;
use super::prune::{self, prune};
use super::summarize::{NoPlan, Part, Plan, Rules, plan, tighter};
use super::{Size, count_prompt, keywords};
use crate::config::query::PromptLimiting;
use crate::queries::result::{DroppedChunk, Summarization, SummarizedChunk, SummaryPart};
use crate::queries::steps::{Progress, QueryContext, QueryItem};
use crate::queries::traversal::{Path, Reason};
use crate::queries::{QueryError, memories};

/// Fits a prompt to its budget, as the query says.
pub async fn fit(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    draft: &mut Draft,
) -> Result<(), QueryError> {
    match query.settings.prompt_limiting_strategy {
        PromptLimiting::Summarize => summarize(query, progress, draft).await,
        PromptLimiting::Prune if query.is_auto() => keep_best(progress, draft),
        PromptLimiting::Prune => drop_paths(query, progress, draft),
    }
}

/// Keeps the chunks that fit, best first.
fn keep_best(progress: &mut Progress, draft: &mut Draft) -> Result<(), QueryError> {
    let kept = fill(&draft.tokens, draft.budget);
    let Some(last) = kept.iter().rposition(|kept| *kept) else {
        let mut first = vec![false; kept.len()];
        first[0] = true;
        return Err(QueryError::BudgetExceeded {
            budget: draft.budget,
            needed: draft.tokens.tokens(&first),
        });
    };

    draft.keep("fill", &kept);
    // What is not as good as the last one is on the next page; what is better was too large.
    report_dropped(progress, draft.items[..last].iter());
    Ok(())
}

/// Drops whole paths.
fn drop_paths(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    draft: &mut Draft,
) -> Result<(), QueryError> {
    let (settings, budget) = (query.settings, draft.budget);
    let paths = &progress.receipt.paths;
    let relevance: Vec<f64> = paths.iter().map(Path::relevance).collect();
    let mut order = prune::order(&relevance, settings.use_rankings);
    // Paths without chunks have nothing to drop.
    order.retain(|place| progress.result.paths[*place].chunk_count > 0);

    let scores = |_| {
        let texts = draft.items.iter().map(|item| &*item.found.text);
        keywords::scores(&settings.query, texts)
    };
    let mut pruned = prune(&draft.tokens, budget, &order, settings.overflow, scores);
    if let Ok(pruned) = &mut pruned
        && settings.refill
    {
        prune::refill(&draft.tokens, budget, pruned);
    }

    let dropped = match &pruned {
        Ok(pruned) => &pruned.dropped,
        Err(refused) => &refused.dropped,
    };
    for place in dropped {
        progress.result.drop_path(&paths[*place], Reason::Pruned);
    }

    let last = order.last().copied().unwrap_or(0);
    let is_last = |item: &QueryItem| item.scores.path == last;
    let pruned = pruned.map_err(|_| {
        let only: Vec<bool> = draft.items.iter().map(is_last).collect();
        QueryError::BudgetExceeded {
            budget,
            needed: draft.tokens.tokens(&only),
        }
    })?;

    let tokens = draft.tokens.tokens(&pruned.kept);
    if !pruned.dropped.is_empty() && tokens < budget / 2 {
        let help = if settings.refill {
            "raise max_token_budget, or use the strategy auto, which ranks single chunks"
        } else {
            "set refill to true, or use the strategy auto, which ranks single chunks"
        };
        let unused = budget - tokens;
        let message = format!(
            "{unused} tokens of the budget are unused, because paths were dropped as a whole; {help}"
        );
        progress.result.warn("budget_unused", message);
    }

    draft.keep("prune", &pruned.kept);
    if pruned.trimmed {
        report_dropped(progress, draft.items.iter().filter(|item| is_last(item)));
    }

    Ok(())
}

/// Reports those of the chunks that were dropped.
fn report_dropped<'i>(progress: &mut Progress, items: impl Iterator<Item = &'i QueryItem>) {
    let paths = &progress.receipt.paths;
    let dropped = items
        .filter(|item| !item.is_kept())
        .map(|item| DroppedChunk {
            chunk_id: item.found.id,
            category_path: paths[item.scores.path].names.clone(),
            reason: item.decision.reason.to_string(),
        });
    progress.result.dropped_chunks = dropped.collect();
}

/// Shortens all chunks, if they do not fit as they are.
async fn summarize(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    draft: &mut Draft,
) -> Result<(), QueryError> {
    if query.settings.use_rankings {
        progress.result.warn(
            "use_rankings_ignored",
            "SUMMARIZE shortens every chunk and ignores rankings",
        );
    }

    let rules = rules(query, draft.budget);
    let ids: Vec<i64> = draft.items.iter().map(|item| item.found.id).collect();
    let planned = plan(query.counter, &draft.tokens, &ids, rules);
    let planned = planned.map_err(|no_plan| QueryError::BudgetTooSmall {
        budget: rules.budget,
        reason: match no_plan {
            NoPlan::NoRoom => "the query, helpers and frames use all of it".to_owned(),
            NoPlan::TooLarge { chunk_id, tokens } => {
                format!("chunk {chunk_id} and its instruction have {tokens} tokens")
            }
        },
    })?;

    let Some(mut plan) = planned else {
        return Ok(());
    };

    // Reported before the first call.
    progress.result.summarization = Some(report(&plan, draft, rules));
    let mut summaries = request(query, &plan, draft, rules).await?;
    tighten(query, progress, (&mut plan, rules), draft, &mut summaries).await?;

    let chunks = summarized(&plan, draft, &summaries);
    let combined = chunks.iter().map(|chunk| chunk.summary_chars).sum();
    if let Some(summarization) = &mut progress.result.summarization {
        summarization.chunks = chunks;
        summarization.combined_char_count = combined;
    }

    let allowed = plan.allowed_chars(rules);
    if combined > allowed {
        return Err(QueryError::CharacterBudget { combined, allowed });
    }

    draft.summaries = Some(summaries.into_iter().map(Into::into).collect());
    Ok(())
}

fn rules(query: &QueryContext<'_>, budget: i64) -> Rules {
    let settings = &query.inner.settings;
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Rules {
        budget,
        headroom: whole(settings.summarization_instruction_headroom_tokens),
        tolerance_percent: whole(settings.summary_char_overage_tolerance_percent),
        retries: settings.summary_max_retries,
    }
}

/// The summary of each chunk, in the order of the chunks.
async fn request(
    query: &QueryContext<'_>,
    plan: &Plan,
    draft: &Draft,
    rules: Rules,
) -> Result<Vec<String>, QueryError> {
    let mut summaries: HashMap<i64, String> = HashMap::new();
    for part in &plan.parts {
        let task = plan.task(part, &draft.items, rules);
        let answered = query.inner.llm.ask(query.session, task).await?;
        let answers = answered.value.summaries.into_iter();
        summaries.extend(answers.map(|answer| (answer.chunk_id, answer.summary)));
    }

    let items = draft.items.iter();
    Ok(items
        .map(|item| summaries.remove(&item.found.id).unwrap_or_default())
        .collect())
}

/// If the summaries have somewhat more tokens than fit, asks once more for shorter ones of the
/// densest chunks: the others are paid for.
async fn tighten(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    (plan, rules): (&mut Plan, Rules),
    draft: &Draft,
    summaries: &mut [String],
) -> Result<(), QueryError> {
    let texts: Vec<Arc<str>> = summaries.iter().map(|text| text.as_str().into()).collect();
    let mut task = draft.task(query, Some(&texts));
    memories::add_evidence(progress, &mut task.chunks);
    let mode = progress.receipt.mode_tokens;
    let excess = count_prompt(query.counter, mode, &task).await - query.budget();
    if excess <= 0 {
        return Ok(());
    }

    let size = |summary: &String| Size::of(query.counter, summary);
    let sizes: Vec<Size> = summaries.iter().map(size).collect();
    let Some(targets) = tighter(&sizes, excess) else {
        return Ok(());
    };

    let mut places: HashMap<i64, usize> = HashMap::new();
    for (place, target) in targets {
        plan.targets[place] = target;
        places.insert(draft.items[place].found.id, place);
    }

    for part in &plan.parts {
        let mut task = plan.task(part, &draft.items, rules);
        task.chunks
            .retain(|chunk| places.contains_key(&chunk.chunk_id));
        if task.chunks.is_empty() {
            continue;
        }

        let answered = query.inner.llm.ask(query.session, task).await?;
        for answer in answered.value.summaries {
            if let Some(place) = places.get(&answer.chunk_id) {
                summaries[*place] = answer.summary;
            }
        }
    }

    Ok(())
}

fn report(plan: &Plan, draft: &Draft, rules: Rules) -> Summarization {
    let ids = |part: &Part| {
        let items = draft.items[part.from..part.to].iter();
        items.map(|item| item.found.id).collect()
    };
    let part = |part: &Part| SummaryPart {
        chunk_ids: ids(part),
        input_token_count: part.input_tokens,
    };

    Summarization {
        ratio: plan.ratio(),
        part_token_cap: plan.part_cap,
        parts: plan.parts.iter().map(part).collect(),
        chunks: Vec::new(),
        combined_char_count: 0,
        allowed_char_count: plan.allowed_chars(rules),
    }
}

fn summarized(plan: &Plan, draft: &Draft, summaries: &[String]) -> Vec<SummarizedChunk> {
    let chars = |text: &str| i64::try_from(char_count(text)).unwrap_or(i64::MAX);
    let sizes = draft.items.iter().zip(&draft.tokens.items);
    let chunks = sizes.zip(&plan.targets).zip(summaries);
    chunks
        .map(|(((item, size), target), summary)| SummarizedChunk {
            chunk_id: item.found.id,
            original_chars: size.text.chars,
            target_chars: *target,
            summary_chars: chars(summary),
            summary: summary.clone(),
        })
        .collect()
}
