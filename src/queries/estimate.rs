//! Upper bounds of a query for each strategy, from the current hierarchy.
//!
//! These are bounds, not guesses: each level counts at its widest, each answer at its maximum
//! length. Repeated calls are reported separately, because they are the exception; the caps of a
//! query count them when they happen.

use std::sync::Arc;

use memoir_text::field_error::FieldError;
use memoir_text::text::one_line;
use memoir_text::tokens::TokenCounter;
use serde::Serialize;
use strum::VariantArray as _;
use utoipa::ToSchema;

use super::auto::decide::{OFFERED_LEAVES, PICKS, Reach};
use super::auto::picking::PICK_LEVEL;
use super::input::{Mode, QuerySettings};
use super::strategy::Strategy;
use super::{Inner, Queries, QueryError, sources};
use crate::config::query::{PromptLimiting, StrategyName};
use crate::llm::tasks::select::Select;
use crate::llm::{Hint, Task};
use crate::model::call::CallContext;
use crate::model::category::Category;
use crate::store::{CategoryFilter, CategoryPage};

/// Upper bounds for a query.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueryEstimateResponse)]
pub struct Estimates {
    /// The model that would generate the answer.
    #[schema(example = "local:embedded")]
    pub model: String,
    /// The encoding used to count tokens.
    pub tokenizer: &'static str,
    /// Whether this is the model's own encoding.
    pub exact: bool,
    pub strategies: Vec<Bound>,
}

/// Upper bounds for a query with one strategy.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StrategyEstimateResponse)]
pub struct Bound {
    #[schema(value_type = String, example = "one_shot")]
    pub strategy: StrategyName,
    pub n: u64,
    pub n2: u64,
    /// Upper bounds for each level.
    pub levels: Vec<LevelBound>,
    pub select_calls: i64,
    pub summarize_calls: i64,
    pub answer_calls: i64,
    /// Total number of calls if every first attempt succeeds.
    pub calls: i64,
    /// Total number of calls if every call uses all retries that the settings allow.
    pub calls_with_retries: i64,
    /// Maximum tokens sent by `calls`.
    pub tokens_prompt: i64,
    /// Maximum tokens received by `calls`, assuming the longest allowed output each time.
    pub tokens_completion: i64,
    /// Cost in US dollars, based on the configured prices; null if a price is unknown.
    pub cost_usd: Option<f64>,
}

/// Upper bounds for one level.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LevelEstimateResponse)]
pub struct LevelBound {
    pub level: i64,
    pub options: i64,
    pub max_selectable: i64,
    /// Maximum tokens sent; 0 if there is nothing to choose, so that no call is needed.
    pub tokens_prompt: i64,
}

/// The fixed part of every request for a level.
struct LevelFrame {
    /// Without the options.
    tokens: i64,
    /// Whether a schema repeats the options.
    twice: bool,
}

/// The children of one parent.
struct Family {
    level: i64,
    children: i64,
    /// Tokens of their lines, by name and by whole path.
    name_tokens: i64,
    path_tokens: i64,
    longest_path_tokens: i64,
}

impl Queries {
    /// The upper bounds of a query for each strategy.
    ///
    /// # Errors
    /// The store's, or a model is unknown.
    pub async fn estimate(
        &self,
        call: &CallContext,
        settings: &QuerySettings,
    ) -> Result<Estimates, QueryError> {
        let inner = &*self.inner;
        let counter = inner.counter(settings);
        let tree = self.tree(call, settings).await?;
        let families = families(&tree, counter);
        let frame = self.level_frame(call, settings, counter).await?;
        let bounds = StrategyName::VARIANTS.iter().map(|name| {
            let settings = if *name == settings.strategy {
                settings.clone()
            } else {
                settings.with_strategy(*name)
            };
            inner.bound(&settings, Reach::Walk, &families, &tree, &frame)
        });

        Ok(Estimates {
            model: inner.llm.target_name("answer", settings.model.as_deref())?,
            tokenizer: counter.name(),
            exact: counter.is_exact(),
            strategies: bounds.collect::<Result<_, _>>()?,
        })
    }

    /// Rejects a query whose upper bound exceeds its own limits, before any call. `auto` leaves out
    /// tiers until it fits; the last one that it may use is returned.
    pub(super) async fn check_bound(
        &self,
        call: &CallContext,
        settings: &QuerySettings,
    ) -> Result<Reach, QueryError> {
        if settings.max_calls.is_none() && settings.max_cost_usd.is_none() {
            return Ok(Reach::Walk);
        }

        let counter = self.inner.counter(settings);
        let tree = self.tree(call, settings).await?;
        let frame = self.level_frame(call, settings, counter).await?;
        let families = families(&tree, counter);
        let shorter: &[Reach] = match settings.strategy {
            StrategyName::Auto => &[Reach::Walk, Reach::Pick],
            _ => &[],
        };

        for reach in shorter {
            let bound = self
                .inner
                .bound(settings, *reach, &families, &tree, &frame)?;
            if within(settings, &bound).is_ok() {
                return Ok(*reach);
            }
        }

        let bound = self
            .inner
            .bound(settings, Reach::Search, &families, &tree, &frame)?;
        within(settings, &bound).map(|()| Reach::Search)
    }

    /// Instruction, query and helpers.
    async fn level_frame(
        &self,
        call: &CallContext,
        settings: &QuerySettings,
        counter: TokenCounter,
    ) -> Result<LevelFrame, QueryError> {
        let helper = sources::described(&self.inner.store, &call.space, &settings.scope()).await?;
        let task = Select {
            contextual_helper: helper.clone(),
            query: settings.query.as_str().into(),
            level: 1,
            depth: 1,
            options: Arc::default(),
            hint: Hint::default(),
            at_most: 1,
        };

        let additions = self.inner.llm.additions(settings.model.as_deref(), &task);
        let schema = additions.iter().map(|text| whole(counter.count(text)));
        let texts = [
            Select::SYSTEM,
            &one_line(&settings.query),
            helper.as_deref().unwrap_or("none"),
        ];

        let tokens = texts
            .iter()
            .map(|text| whole(counter.count(text)))
            .sum::<i64>()
            + schema.max().unwrap_or(0)
            + 64;

        Ok(LevelFrame {
            tokens,
            twice: !additions.is_empty(),
        })
    }

    async fn tree(
        &self,
        call: &CallContext,
        settings: &QuerySettings,
    ) -> Result<Arc<[Category]>, QueryError> {
        if let Some(part) = self
            .inner
            .visible
            .of(&call.space, &settings.scope())
            .await?
        {
            return Ok(part);
        }

        let (all, whole) = (CategoryFilter::default(), CategoryPage::default());
        Ok(self
            .inner
            .store
            .list_categories(&call.space, &all, &whole)
            .await?
            .into())
    }
}

impl Inner {
    fn bound(
        &self,
        settings: &QuerySettings,
        reach: Reach,
        families: &[Family],
        tree: &[Category],
        frame: &LevelFrame,
    ) -> Result<Bound, QueryError> {
        let auto = settings.strategy == StrategyName::Auto;
        let levels = if auto {
            self.auto_levels(settings, reach, families, frame)
        } else {
            self.levels(settings, (1, 1), families, frame)
        };
        let select_calls = whole(levels.iter().filter(|level| level.options > 1).count());
        let leaves = levels
            .last()
            .filter(|level| level.level == self.depth)
            .map_or(0, |level| level.max_selectable);

        // The search may find chunks in any leaf.
        let leaves = if auto { i64::MAX } else { leaves };
        let chunks = self.chunks(settings, leaves, tree);
        let output = i64::try_from(self.llm.max_output_tokens()).unwrap_or(i64::MAX);
        let budget = i64::try_from(settings.max_token_budget).unwrap_or(i64::MAX);
        let limited = settings.mode == Mode::Answer || settings.budget_named || auto;
        let summarizing =
            limited && settings.prompt_limiting_strategy == PromptLimiting::Summarize && leaves > 0;

        // Each call takes at least one chunk, and at most the whole budget.
        let summarize_calls = if summarizing { chunks } else { 0 };
        let answer_calls = i64::from(settings.mode == Mode::Answer && (chunks > 0 || auto));
        let stages = [
            (
                "select",
                select_calls,
                levels.iter().map(|level| level.tokens_prompt).sum(),
            ),
            (
                "summarize",
                summarize_calls,
                summarize_calls.saturating_mul(budget),
            ),
            ("answer", answer_calls, answer_calls.saturating_mul(budget)),
        ];

        let mut cost_usd = Some(0.0);
        for (stage, calls, prompt) in stages {
            let cost = self.llm.cost_of(
                stage,
                settings.model.as_deref(),
                prompt,
                calls.saturating_mul(output),
            )?;
            cost_usd = cost_usd
                .zip(if calls == 0 { Some(0.0) } else { cost })
                .map(|(sum, cost)| sum + cost);
        }

        let calls = select_calls + summarize_calls + answer_calls;
        let retries = i64::try_from(self.llm.validation_retries()).unwrap_or(i64::MAX);
        let Strategy { name, n, n2, .. } = settings.strategy();
        Ok(Bound {
            strategy: name,
            n,
            n2,
            select_calls,
            summarize_calls,
            answer_calls,
            calls,
            calls_with_retries: calls.saturating_mul(retries.saturating_add(1)),
            tokens_prompt: stages
                .iter()
                .map(|(_, _, tokens)| tokens)
                .fold(0, |sum, tokens| sum.saturating_add(*tokens)),
            tokens_completion: calls.saturating_mul(output),
            cost_usd,
            levels,
        })
    }

    /// Each level at its widest: the largest groups of children that the level above can lead to.
    fn levels(
        &self,
        settings: &QuerySettings,
        (first, mut parents): (i64, usize),
        families: &[Family],
        frame: &LevelFrame,
    ) -> Vec<LevelBound> {
        let mut levels = Vec::new();
        for level in first..=self.depth {
            let here: Vec<&Family> = families
                .iter()
                .filter(|family| family.level == level)
                .collect();

            let top = |size: &dyn Fn(&Family) -> i64| {
                let mut sizes: Vec<i64> = here.iter().map(|family| size(family)).collect();
                sizes.sort_unstable_by(|one, other| other.cmp(one));
                sizes.into_iter().take(parents).sum::<i64>()
            };

            let options = top(&|family| family.children);
            if options == 0 {
                break;
            }

            let several = parents > 1 && here.len() > 1;
            let lines = if several {
                top(&|family| family.path_tokens)
            } else {
                top(&|family| family.name_tokens)
            };

            let max_selectable = whole(settings.strategy().n(level)).min(options);
            let lines = if frame.twice { lines * 2 } else { lines };
            let tokens_prompt = if options > 1 { frame.tokens + lines } else { 0 };
            levels.push(LevelBound {
                level,
                options,
                max_selectable,
                tokens_prompt,
            });

            parents = usize::try_from(max_selectable).unwrap_or(1);
        }

        levels
    }

    /// The pick of `auto` at its widest, and the walk from it.
    fn auto_levels(
        &self,
        settings: &QuerySettings,
        reach: Reach,
        families: &[Family],
        frame: &LevelFrame,
    ) -> Vec<LevelBound> {
        if reach < Reach::Pick {
            return Vec::new();
        }

        let sum = |level: i64, size: &dyn Fn(&Family) -> i64| {
            let here = families.iter().filter(|family| family.level == level);
            here.map(size).sum::<i64>()
        };

        let longest = families
            .iter()
            .filter(|family| family.level == self.depth)
            .map(|family| family.longest_path_tokens)
            .max()
            .unwrap_or(0);
        let leaves = sum(self.depth, &|family| family.children).min(whole(OFFERED_LEAVES));
        let tops = if self.depth > 1 {
            sum(1, &|family| family.children)
        } else {
            0
        };

        let options = leaves + tops;
        let lines = leaves * longest + sum(1, &|family| family.name_tokens);
        let lines = if frame.twice { lines * 2 } else { lines };
        let most = i64::try_from(PICKS).unwrap_or(i64::MAX).min(options);
        let mut levels = vec![LevelBound {
            level: PICK_LEVEL,
            options,
            max_selectable: most,
            tokens_prompt: if options > 1 { frame.tokens + lines } else { 0 },
        }];

        if reach >= Reach::Walk && self.depth > 1 {
            let wide = settings.with_strategy(StrategyName::WideBranch);
            let parents = usize::try_from(most).unwrap_or(1);
            levels.extend(self.levels(&wide, (2, parents), families, frame));
        }

        levels
    }

    /// The maximum number of chunks in this many leaves.
    fn chunks(&self, settings: &QuerySettings, leaves: i64, tree: &[Category]) -> i64 {
        let limit = i64::try_from(settings.limit).unwrap_or(i64::MAX);
        let per_path = if settings.per_path_limit == 0 {
            i64::MAX
        } else {
            i64::try_from(settings.per_path_limit).unwrap_or(i64::MAX)
        };

        let leaf = tree.iter().filter(|category| category.level == self.depth);
        // Counts cover current versions; with other versions there may be more.
        let count = |category: &Category| {
            if settings.scope().all_versions || settings.as_of.is_some() {
                limit
            } else {
                category.chunk_count
            }
        };

        let mut counts: Vec<i64> = leaf.map(|category| count(category).min(per_path)).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let most = counts
            .into_iter()
            .take(usize::try_from(leaves).unwrap_or(0));
        most.fold(0_i64, i64::saturating_add).min(limit)
    }
}

/// Whether the upper bound of a query keeps its own limits.
fn within(settings: &QuerySettings, bound: &Bound) -> Result<(), QueryError> {
    let over = |unit, limit, needed| QueryError::MayCostMore {
        unit,
        limit,
        needed,
    };

    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    if let Some(most) = settings.max_calls
        && u64::try_from(bound.calls).unwrap_or(0) > most
    {
        return Err(over("calls", most as f64, bound.calls as f64));
    }
    if let Some(most) = settings.max_cost_usd {
        let Some(cost) = bound.cost_usd else {
            let message = "cannot be enforced: the price of a model is not configured \
                 (llm.providers.<name>.prices)";
            return Err(QueryError::Invalid(vec![FieldError::new(
                "max_cost_usd",
                message,
            )]));
        };
        if cost > most {
            return Err(over("usd", most, cost));
        }
    }

    Ok(())
}

fn families(tree: &[Category], counter: TokenCounter) -> Vec<Family> {
    use std::collections::BTreeMap;

    let mut path_tokens: BTreeMap<i64, i64> = BTreeMap::new();
    let mut families: BTreeMap<(i64, i64), Family> = BTreeMap::new();

    // Parents come before children.
    for category in tree {
        let parent = category.parent_id.unwrap_or(0);
        // Dash, line break and the separator between names; in a schema, quotation marks and a
        // comma.
        let as_json = serde_json::to_string(&category.name).unwrap_or_default();
        let own = whole(
            counter
                .count(&category.name)
                .max(counter.count(as_json.trim_matches('"'))),
        ) + 3;

        let path = own + path_tokens.get(&parent).copied().unwrap_or(0);
        path_tokens.insert(category.id, path);
        let family = families.entry((category.level, parent)).or_insert(Family {
            level: category.level,
            children: 0,
            name_tokens: 0,
            path_tokens: 0,
            longest_path_tokens: 0,
        });

        family.children += 1;
        family.name_tokens += own;
        family.path_tokens += path;
        family.longest_path_tokens = family.longest_path_tokens.max(path);
    }

    families.into_values().collect()
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
