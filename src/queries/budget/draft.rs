//! The prompt of an answer before it is sent: its chunks, the helpers of their sources, and the
//! tokens of each part.

use std::collections::HashMap;
use std::sync::Arc;

use super::PromptTokens;
use crate::base::ids::SourceId;
use crate::llm::tasks::answer::{Answer, Evidence};
use crate::queries::QueryError;
use crate::queries::result::PromptEstimate;
use crate::queries::steps::{Progress, QueryContext, QueryItem};

pub struct Draft {
    pub items: Vec<QueryItem>,
    /// The path of each item as the prompt shows it, by the index of the path.
    labels: Vec<Arc<str>>,
    /// By source, in order of first use.
    helpers: Vec<Option<Arc<str>>>,
    pub tokens: PromptTokens,
    /// The tokens that the prompt may have, without its memories.
    pub budget: i64,
    /// Instead of the texts of the items, if these were too long.
    pub summaries: Option<Vec<Arc<str>>>,
}

impl Draft {
    /// A prompt with all of the items. Counts its tokens.
    pub async fn of(
        query: &QueryContext<'_>,
        progress: &mut Progress,
        mut items: Vec<QueryItem>,
        budget: i64,
    ) -> Result<Self, QueryError> {
        let mut sources: Vec<SourceId> = Vec::new();
        let mut numbers: HashMap<SourceId, usize> = HashMap::new();
        for item in &mut items {
            let id = &item.found.source_id;
            item.scores.source = *numbers.entry(id.clone()).or_insert_with(|| {
                sources.push(id.clone());
                sources.len() - 1
            });
        }

        let receipt = &mut progress.receipt;
        let known = query.finder.helpers(&sources).await?;
        receipt.helpers = known
            .iter()
            .map(|helper| (helper.source_id.to_string(), helper.version))
            .collect();
        let of = |id: &SourceId| known.iter().find(|helper| helper.source_id == *id);
        let helpers: Vec<Option<Arc<str>>> = sources
            .iter()
            .map(|id| of(id).map(|helper| helper.text.as_str().into()))
            .collect();

        let mode = query.finder.mode_tokens(query);
        receipt.mode_tokens = mode;
        let labels: Vec<Arc<str>> = receipt
            .paths
            .iter()
            .map(|path| path.label().into())
            .collect();
        let parts = Arc::new((items, labels, helpers));
        let counted = (query.text(), Arc::clone(&parts));
        let tokens = PromptTokens::count(query.counter, mode, counted).await;
        let (items, labels, helpers) = Arc::unwrap_or_clone(parts);
        let draft = Self {
            items,
            labels,
            helpers,
            tokens,
            budget,
            summaries: None,
        };

        let all = draft.flags();
        let (fixed, content) = (draft.tokens.fixed(&all), draft.tokens.content(&all));
        progress.result.estimate = Some(PromptEstimate {
            fixed_prompt_token_count: fixed.tokens,
            chunks_total_token_count: content.tokens,
            fixed_prompt_char_count: fixed.chars,
            chunks_total_char_count: content.chars,
            query_token_count: draft.tokens.query.tokens,
            schema_token_count: mode.answer,
            max_token_budget: query.budget(),
            final_prompt_token_count: None,
            tokenizer: query.counter.name().to_owned(),
            exact: query.counter.is_exact(),
        });

        Ok(draft)
    }

    pub fn kept(&self) -> impl Iterator<Item = &QueryItem> {
        self.items.iter().filter(|item| item.is_kept())
    }

    /// By item, whether it is kept.
    pub fn flags(&self) -> Vec<bool> {
        self.items.iter().map(QueryItem::is_kept).collect()
    }

    /// Drops the items that a step did not keep.
    pub fn keep(&mut self, step: &'static str, kept: &[bool]) {
        for (item, _) in self.items.iter_mut().zip(kept).filter(|(_, kept)| !**kept) {
            item.drop(step, "over_budget");
        }
    }

    /// What the model is asked: the kept chunks or their summaries, and the helpers of their sources.
    pub fn task(&self, query: &QueryContext<'_>, summaries: Option<&[Arc<str>]>) -> Answer {
        let mut is_used = vec![false; self.helpers.len()];
        let mut chunks = Vec::new();
        for (place, item) in self
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.is_kept())
        {
            is_used[item.scores.source] = true;
            let text = summaries.map_or(&item.found.text, |summaries| &summaries[place]);
            chunks.push(Evidence {
                chunk_id: item.found.id,
                path: Arc::clone(&self.labels[item.scores.path]),
                about: item.found.about().into(),
                text: Arc::clone(text),
            });
        }

        let helpers = self.helpers.iter().zip(is_used);
        let helpers = helpers.filter(|(_, is_used)| *is_used);
        Answer {
            query: query.text(),
            contextual_helpers: helpers.filter_map(|(helper, _)| helper.clone()).collect(),
            chunks,
            note_room: None,
        }
    }
}
