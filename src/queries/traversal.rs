//! The walk: level by level, one model call over the children of everything selected on the level
//! above.
//!
//! A single option is taken without a call. Dropped paths are reported with the reason.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::contents::Contents;
use super::strategy::Strategy;
use super::{Events, QueryError, QueryEvent};
use crate::base::ids::Space;
use crate::categories::options::Options;
use crate::llm::tasks::select::Select;
use crate::llm::{Llm, Session};
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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    pub ids: Vec<i64>,
    pub names: Vec<String>,
    /// On each level: the rank, and the best rank there.
    pub ranks: Vec<(i64, i64)>,
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
    Known(Arc<Options>),
    /// The whole hierarchy, read level by level.
    Whole { store: Store, space: Space },
    /// The part of it with chunks that the query may see, by parent.
    Part(HashMap<i64, Vec<Category>>),
    /// As recorded.
    Recorded(Vec<Level>),
}

impl Hierarchy {
    /// The part of the hierarchy formed by these categories.
    pub fn part(categories: &[Category]) -> Self {
        let mut by_parent: HashMap<i64, Vec<Category>> = HashMap::new();
        for category in categories {
            by_parent
                .entry(category.parent_id.unwrap_or(0))
                .or_default()
                .push(category.clone());
        }

        Self::Part(by_parent)
    }

    pub async fn children(
        &self,
        level: i64,
        parents: &[i64],
    ) -> Result<Vec<CategoryOption>, QueryError> {
        let child = |category: &Category| CategoryOption {
            id: category.id,
            parent_id: category.parent_id.unwrap_or(0),
            name: category.name.clone(),
        };
        Ok(match self {
            Self::Known(options) => options.children(parents),
            Self::Whole { store, space } => store.list_options(space, parents).await?,
            Self::Part(by_parent) => parents
                .iter()
                .filter_map(|parent| by_parent.get(parent))
                .flatten()
                .map(child)
                .collect(),
            Self::Recorded(levels) => {
                let recorded = levels.iter().filter(|recorded| recorded.level == level);
                let name = |label: &str| label.rsplit(MARK).next().unwrap_or(label).to_owned();
                recorded
                    .flat_map(|recorded| &recorded.options)
                    .map(|offer| CategoryOption {
                        id: offer.id,
                        parent_id: offer.parent_id,
                        name: name(&offer.label),
                    })
                    .collect()
            }
        })
    }
}

/// What a walk needs to know.
pub struct Walker<'a> {
    pub llm: &'a Llm,
    pub session: &'a Session,
    pub map: Hierarchy,
    pub query: Arc<str>,
    pub contextual_helper: Option<Arc<str>>,
    pub strategy: Strategy,
    pub depth: i64,
    /// What categories contain, if the embedded model selects.
    pub contents: Contents,
    pub events: &'a Events,
}

impl Walker<'_> {
    /// Walks down; `walk` holds what was done so far, even after an error.
    pub async fn run(&self, walk: &mut Walk) -> Result<(), QueryError> {
        self.run_from(1, vec![Path::default()], walk).await
    }

    /// The same from categories above a level.
    pub async fn run_from(
        &self,
        first: i64,
        mut frontier: Vec<Path>,
        walk: &mut Walk,
    ) -> Result<(), QueryError> {
        for level in first..=self.depth {
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
        let children = self.map.children(level, &parents).await?;
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

        let most = self.strategy.n(level).min(options.len());
        walk.levels.push(Level {
            level,
            options: offers.collect(),
            max_selectable: i64::try_from(most).unwrap_or(i64::MAX),
            chosen: Vec::new(),
            asked: options.len() > 1,
        });

        let ids: Vec<i64> = options.iter().map(|(_, child)| child.id).collect();
        let chosen = self.choose(level, &labels, &ids, most).await?;
        let best = i64::try_from(most).unwrap_or(i64::MAX);

        if let Some(record) = walk.levels.last_mut() {
            record.chosen = chosen
                .iter()
                .map(|(at, rank)| Choice {
                    id: options[*at].1.id,
                    ranked_relevance: *rank,
                })
                .collect();
            self.events.tell_with(|| QueryEvent::Level(record.clone()));
        }

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
        let labels: Arc<[String]> = offers
            .iter()
            .map(|(_, offer)| offer.label.clone())
            .collect();
        let most = self.strategy.n(level).min(offers.len());
        let best = i64::try_from(most).unwrap_or(i64::MAX);
        walk.levels.push(Level {
            level,
            options: offers.iter().map(|(_, offer)| offer.clone()).collect(),
            max_selectable: best,
            chosen: Vec::new(),
            asked: offers.len() > 1,
        });

        let ids: Vec<i64> = offers.iter().map(|(_, offer)| offer.id).collect();
        let chosen = self.choose(level, &labels, &ids, most).await?;
        if let Some(record) = walk.levels.last_mut() {
            let choice = |(at, rank): &(usize, i64)| Choice {
                id: offers[*at].1.id,
                ranked_relevance: *rank,
            };
            record.chosen = chosen.iter().map(choice).collect();
            self.events.tell_with(|| QueryEvent::Level(record.clone()));
        }

        let ranked = |(at, rank): &(usize, i64)| {
            let path = offers[*at].0.clone();
            Path {
                ranks: vec![(*rank, best); path.ids.len()],
                ..path
            }
        };

        Ok(chosen.iter().map(ranked).collect())
    }

    /// The indexes of the selected options with their ranks, best first, each once.
    async fn choose(
        &self,
        level: i64,
        labels: &Arc<[String]>,
        ids: &[i64],
        most: usize,
    ) -> Result<Vec<(usize, i64)>, QueryError> {
        if labels.len() == 1 {
            return Ok(vec![(0, 1)]);
        }

        let task = Select {
            contextual_helper: self.contextual_helper.clone(),
            query: Arc::clone(&self.query),
            level: u32::try_from(level).unwrap_or(u32::MAX),
            depth: u32::try_from(self.depth).unwrap_or(u32::MAX),
            options: Arc::clone(labels),
            hint: self.contents.hint(ids),
            at_most: most,
        };

        let answered = self.llm.ask(self.session, task).await?;
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
