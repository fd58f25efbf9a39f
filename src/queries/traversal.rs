//! The walk: level by level, one model call over the children of everything selected on the level
//! above.
//!
//! A single option is taken without a call. Dropped paths are reported with the reason.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::auto::picking::PICK_LEVEL;
use super::hints::Hints;
use super::steps::QueryContext;
use super::strategy::Strategy;
use super::{QueryError, QueryEvent};
use crate::base::ids::Space;
use crate::categories::options::Options;
use crate::llm::tasks::select::Select;
use crate::model::category::{Category, CategoryOption};
use crate::store::Store;

/// Separates the names of a path.
pub const MARK: &str = " / ";

/// One level of a walk, as the receipt stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub level: i64,
    pub options: Vec<Offer>,
    /// How many could be selected.
    pub max_selectable: i64,
    /// Best first.
    pub chosen: Vec<Choice>,
    /// Whether a model was called; a single option is taken without a call.
    pub asked: bool,
}

/// An option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub label: String,
}

/// A selected option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: i64,
    pub ranked_relevance: i64,
}

/// A path: to a leaf, or to where it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    pub ids: Vec<i64>,
    pub names: Vec<String>,
    /// On each level: the rank, and the best rank there.
    pub ranks: Vec<(i64, i64)>,
    /// The chunks read from its leaf.
    pub chunk_ids: Vec<i64>,
}

impl Path {
    pub fn leaf(&self) -> i64 {
        self.ids.last().copied().unwrap_or(0)
    }

    /// `A / B / C`.
    pub fn label(&self) -> String {
        self.names.join(MARK)
    }

    /// The rank of its leaf.
    pub fn ranked_relevance(&self) -> i64 {
        self.ranks.last().map_or(0, |(rank, _)| *rank)
    }

    /// The mean over all levels of rank divided by best rank.
    #[expect(clippy::cast_precision_loss, reason = "ranks are small")]
    pub fn relevance(&self) -> f64 {
        let shares: f64 = self
            .ranks
            .iter()
            .map(|(rank, best)| *rank as f64 / (*best).max(1) as f64)
            .sum();
        shares / self.ranks.len().max(1) as f64
    }

    fn below(&self, child: &CategoryOption, rank: (i64, i64)) -> Self {
        let mut path = self.clone();
        path.ids.push(child.id);
        path.names.push(child.name.clone());
        path.ranks.push(rank);

        path
    }
}

/// Why a path was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reason {
    /// It ends above the leaf level.
    NotLeaf,
    /// None of its children was selected.
    NotSelected,
    /// Its leaf has no chunks that the query may see.
    Empty,
    /// It did not fit the budget.
    Pruned,
    /// Earlier paths used up the limit on chunks.
    Limited,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Walk {
    pub levels: Vec<Level>,
    /// Ordered by descending rank, level by level, then by the leaf's id.
    pub leaves: Vec<Path>,
    pub dropped: Vec<(Path, Reason)>,
}

/// Where the options come from.
pub enum Hierarchy {
    /// The whole hierarchy, from memory.
    Cached(Arc<Options>),
    /// The whole hierarchy, read level by level.
    Stored { store: Store, space: Space },
    /// A part of it, by parent.
    Part(HashMap<i64, Vec<CategoryOption>>),
}

impl Hierarchy {
    fn part(options: impl Iterator<Item = CategoryOption>) -> Self {
        let mut by_parent: HashMap<i64, Vec<CategoryOption>> = HashMap::new();
        for option in options {
            by_parent.entry(option.parent_id).or_default().push(option);
        }

        Self::Part(by_parent)
    }

    /// The part with chunks that a query may see.
    pub fn visible(categories: &[Category]) -> Self {
        Self::part(categories.iter().map(|category| CategoryOption {
            id: category.id,
            parent_id: category.parent_id.unwrap_or(0),
            name: category.name.clone(),
        }))
    }

    /// The options of a recorded walk; those of a pick repeat some of them by their whole path.
    pub fn recorded(levels: &[Level]) -> Self {
        let of_walk = levels.iter().filter(|level| level.level != PICK_LEVEL);
        let name = |label: &str| label.rsplit(MARK).next().unwrap_or(label).to_owned();
        let offers = of_walk.flat_map(|level| &level.options);
        Self::part(offers.map(|offer| CategoryOption {
            id: offer.id,
            parent_id: offer.parent_id,
            name: name(&offer.label),
        }))
    }

    pub async fn children(&self, parents: &[i64]) -> Result<Vec<CategoryOption>, QueryError> {
        Ok(match self {
            Self::Cached(options) => options.children(parents),
            Self::Stored { store, space } => store.list_options(space, parents).await?,
            Self::Part(by_parent) => parents
                .iter()
                .filter_map(|parent| by_parent.get(parent))
                .flatten()
                .cloned()
                .collect(),
        })
    }
}

/// What a model sees when it selects categories.
pub struct CategoryView {
    pub hierarchy: Hierarchy,
    /// The helpers of the sources to which the query is limited.
    pub contextual_helper: Option<Arc<str>>,
    /// What categories contain, unless a large language model selects.
    pub hints: Hints,
}

/// Walks down the hierarchy.
pub struct Walker<'a> {
    pub query: &'a QueryContext<'a>,
    pub view: CategoryView,
    pub strategy: Strategy,
}

impl Walker<'_> {
    /// Walks down; `walk` holds what was done so far, even after an error.
    pub async fn run(&self, walk: &mut Walk) -> Result<(), QueryError> {
        self.run_from(1, vec![Path::default()], walk).await
    }

    /// Walks down from categories above a level.
    pub async fn run_from(
        &self,
        first: i64,
        mut frontier: Vec<Path>,
        walk: &mut Walk,
    ) -> Result<(), QueryError> {
        for level in first..=self.query.inner.depth {
            frontier = self.step(level, frontier, walk).await?;
            if frontier.is_empty() {
                break;
            }
        }

        walk.leaves = frontier;
        walk.leaves.sort_by(|one, other| {
            let ranks = |path: &Path| {
                path.ranks
                    .iter()
                    .map(|(rank, _)| std::cmp::Reverse(*rank))
                    .collect::<Vec<_>>()
            };
            ranks(one)
                .cmp(&ranks(other))
                .then(one.leaf().cmp(&other.leaf()))
        });

        Ok(())
    }

    async fn step(
        &self,
        level: i64,
        frontier: Vec<Path>,
        walk: &mut Walk,
    ) -> Result<Vec<Path>, QueryError> {
        let parents: Vec<i64> = frontier.iter().map(Path::leaf).collect();
        let children = self.view.hierarchy.children(&parents).await?;
        let of = |path: &Path| {
            children
                .iter()
                .filter(|child| child.parent_id == path.leaf())
                .collect::<Vec<_>>()
        };

        let families: Vec<(&Path, Vec<&CategoryOption>)> =
            frontier.iter().map(|path| (path, of(path))).collect();
        for (path, _) in families
            .iter()
            .filter(|(path, family)| family.is_empty() && !path.ids.is_empty())
        {
            walk.dropped.push(((*path).clone(), Reason::NotLeaf));
        }
        let options: Vec<(&Path, &CategoryOption)> = families
            .iter()
            .flat_map(|(path, family)| family.iter().map(|child| (*path, *child)))
            .collect();
        let options = self.view.hints.shown(options, |(_, child)| child.id);

        if options.is_empty() {
            return Ok(Vec::new());
        }

        let several = families
            .iter()
            .filter(|(_, family)| !family.is_empty())
            .count()
            > 1;

        let labels: Arc<[String]> = options
            .iter()
            .map(|(path, child)| label(path, child, several))
            .collect();

        let offers = options
            .iter()
            .zip(labels.iter())
            .map(|((_, child), label)| Offer {
                id: child.id,
                parent_id: child.parent_id,
                label: label.clone(),
            });

        let (chosen, best) = self.choose(level, offers.collect(), &labels, walk).await?;
        let led_on: HashSet<i64> = chosen
            .iter()
            .map(|(at, _)| options[*at].1.parent_id)
            .collect();

        for (path, _) in families
            .iter()
            .filter(|(path, family)| !family.is_empty() && !led_on.contains(&path.leaf()))
        {
            walk.dropped.push(((*path).clone(), Reason::NotSelected));
        }
        Ok(chosen
            .iter()
            .map(|(at, rank)| options[*at].0.below(options[*at].1, (*rank, best)))
            .collect())
    }

    /// Selects among given paths, and records the choice as a level.
    pub async fn choose_among(
        &self,
        level: i64,
        offers: &[(Path, Offer)],
        walk: &mut Walk,
    ) -> Result<Vec<Path>, QueryError> {
        let options: Vec<Offer> = offers.iter().map(|(_, offer)| offer.clone()).collect();
        let labels: Arc<[String]> = options.iter().map(|offer| offer.label.clone()).collect();
        let (chosen, best) = self.choose(level, options, &labels, walk).await?;
        let ranked = |(at, rank): &(usize, i64)| {
            let path = offers[*at].0.clone();
            Path {
                ranks: vec![(*rank, best); path.ids.len()],
                ..path
            }
        };

        Ok(chosen.iter().map(ranked).collect())
    }

    /// Selects among options, and records the level. Returns the indexes of the selected options with
    /// their ranks, best first, and the best rank.
    async fn choose(
        &self,
        level: i64,
        options: Vec<Offer>,
        labels: &Arc<[String]>,
        walk: &mut Walk,
    ) -> Result<(Vec<(usize, i64)>, i64), QueryError> {
        let most = self.strategy.n(level).min(options.len());
        let best = i64::try_from(most).unwrap_or(i64::MAX);
        let ids: Vec<i64> = options.iter().map(|offer| offer.id).collect();
        walk.levels.push(Level {
            level,
            asked: options.len() > 1,
            options,
            max_selectable: best,
            chosen: Vec::new(),
        });

        let chosen = self.ask(level, labels, &ids, most).await?;
        if let Some(record) = walk.levels.last_mut() {
            let choice = |(at, rank): &(usize, i64)| Choice {
                id: ids[*at],
                ranked_relevance: *rank,
            };
            record.chosen = chosen.iter().map(choice).collect();
            self.query.events.send(|| QueryEvent::Level(record.clone()));
        }

        Ok((chosen, best))
    }

    /// The indexes of the selected options with their ranks, best first, each once.
    async fn ask(
        &self,
        level: i64,
        labels: &Arc<[String]>,
        ids: &[i64],
        most: usize,
    ) -> Result<Vec<(usize, i64)>, QueryError> {
        if labels.len() == 1 {
            return Ok(vec![(0, 1)]);
        }

        let query = self.query;
        let task = Select {
            contextual_helper: self.view.contextual_helper.clone(),
            query: query.text(),
            level: u32::try_from(level).unwrap_or(u32::MAX),
            depth: u32::try_from(query.inner.depth).unwrap_or(u32::MAX),
            options: Arc::clone(labels),
            hint: self.view.hints.of(ids),
            at_most: most,
        };

        let answered = query.inner.llm.ask(query.session, task).await?;
        let places: HashMap<&str, usize> = labels
            .iter()
            .enumerate()
            .map(|(at, label)| (label.as_str(), at))
            .collect();

        let mut seen = HashSet::new();
        let chosen = answered.value.selections.iter().filter_map(|selection| {
            let at = *places.get(selection.category.as_str())?;
            seen.insert(at).then_some((at, selection.ranked_relevance))
        });

        Ok(chosen.collect())
    }
}

/// Names are unique only within a parent: with several parents, an option is shown by its whole
/// path.
fn label(path: &Path, child: &CategoryOption, several: bool) -> String {
    if !several || path.names.is_empty() {
        return child.name.clone();
    }
    format!("{}{MARK}{}", path.label(), child.name)
}
