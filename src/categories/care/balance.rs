//! The balance of the hierarchy: what has grown too large, and what to do about it. Applied by the job
//! `balance`, one correction in one transaction; what a person has undone is not done again.

use std::collections::{BTreeMap, HashSet};

use super::similar::{Pair, domains, pairs};
use super::split::SplitPart;
use super::{CareOrder, CareOutcome};
use crate::categories::{Categories, CategoryError};
use crate::config::taxonomy::LimitScope;
use crate::model::call::CallContext;
use crate::model::category::{Category, ChangeActor, ChangeKind, NamedBy};
use crate::store::{CategoryFilter, CategoryPage, StoreError, Tx};

/// Where the hierarchy is out of balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Imbalance {
    /// Level 1 has too many categories.
    Level1,
    /// A parent has too many children.
    Parent(i64),
    /// A leaf has too many chunks.
    Leaf(i64),
}

/// What a split would divide, and the room for its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitSize {
    /// Chunks of a leaf, or children of another category.
    pub members: i64,
    /// Categories that the limits still allow beside it.
    pub room: i64,
    pub has_empty_leaf: bool,
}

/// What to do about an imbalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    kind: CorrectionKind,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CorrectionKind {
    Split {
        id: i64,
        parts: Vec<SplitPart>,
    },
    /// The first pair that the limits allow.
    Merge {
        pairs: Vec<Pair>,
    },
}

impl Correction {
    /// The operations of which the first possible one is made.
    pub fn orders(&self) -> Vec<CareOrder<'_>> {
        match &self.kind {
            CorrectionKind::Split { id, parts } => vec![CareOrder::Split { id: *id, parts }],
            CorrectionKind::Merge { pairs } => {
                let merge = |pair: &Pair| CareOrder::Merge {
                    id: pair.from,
                    into: pair.into,
                };
                pairs.iter().map(merge).collect()
            }
        }
    }
}

impl Categories {
    /// Where the hierarchy is out of balance, from level 1 down, but for what a person has undone.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_imbalances(
        &self,
        tx: &mut Tx,
        call: &CallContext,
    ) -> Result<Vec<Imbalance>, CategoryError> {
        let (space, taxonomy) = (&call.space, &self.taxonomy);
        let least = taxonomy.max_children_of(0);
        let crowded = tx.list_crowded_parents(space, least).await?;
        let ids: Vec<i64> = crowded.iter().map(|(id, _)| *id).collect();
        let states = tx.list_states(space, &ids).await?;

        let mut found = Vec::new();
        for (id, children) in crowded {
            let is_crowded = children > taxonomy.max_children_of(id);
            let level = states.get(&id).map_or(0, |state| state.level);
            match level {
                _ if !is_crowded => {}
                // Leaves on level 1 grow: merged, they would be split again, and merged again.
                0 if taxonomy.depth() == 1 => {}
                0 => found.push(Imbalance::Level1),
                // It would become two categories of level 1, which never splits.
                1 => {}
                _ => found.push(Imbalance::Parent(id)),
            }
        }

        let leaves = tx.list_leaves_above(space, taxonomy.depth(), taxonomy.max_leaf());
        found.extend(leaves.await?.into_iter().map(Imbalance::Leaf));
        self.leave_out_undone(tx, call, &mut found).await?;
        found.sort_unstable();
        Ok(found)
    }

    async fn leave_out_undone(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        found: &mut Vec<Imbalance>,
    ) -> Result<(), CategoryError> {
        let ids: Vec<i64> = found.iter().filter_map(|one| one.category()).collect();
        let undone = tx.list_undone(&call.space, ChangeKind::Split, &ids).await?;
        let undone: HashSet<i64> = undone.into_iter().map(|(id, _)| id).collect();
        found.retain(|one| one.category().is_none_or(|id| !undone.contains(&id)));
        Ok(())
    }

    /// What to do about an imbalance; nothing if nothing can be done.
    ///
    /// # Errors
    /// [`CategoryError::NotFound`] if the category is gone, or the store's.
    pub async fn plan_correction(
        &self,
        call: &CallContext,
        imbalance: Imbalance,
    ) -> Result<Option<Correction>, CategoryError> {
        let kind = match imbalance {
            Imbalance::Level1 => CorrectionKind::Merge {
                pairs: self.plan_merge(call).await?,
            },
            Imbalance::Parent(id) | Imbalance::Leaf(id) => CorrectionKind::Split {
                id,
                parts: self.plan_split(call, id).await?,
            },
        };

        let taxonomy = &self.taxonomy;
        let reason = match imbalance {
            Imbalance::Level1 => {
                let most = taxonomy.max_children_of(0);
                format!(
                    "level 1 had more than {most} categories, and these two are the most similar"
                )
            }
            Imbalance::Parent(id) => {
                let most = taxonomy.max_children_of(id);
                format!("it had more than {most} children")
            }
            Imbalance::Leaf(_) => format!("it had more than {} chunks", taxonomy.max_leaf()),
        };
        let correction = Correction { kind, reason };
        Ok(Some(correction).filter(|correction| !correction.is_empty()))
    }

    /// Pairs of level 1, the best first.
    pub(super) async fn plan_merge(&self, call: &CallContext) -> Result<Vec<Pair>, CategoryError> {
        let mut categories = Vec::new();
        for level in [1, 2] {
            let filter = CategoryFilter {
                level: Some(level),
                ..CategoryFilter::default()
            };
            let page = CategoryPage::default();
            categories.extend(
                self.store
                    .list_categories(&call.space, &filter, &page)
                    .await?,
            );
        }

        let (roots, below): (Vec<&Category>, Vec<&Category>) =
            categories.iter().partition(|one| one.level == 1);
        let ids: Vec<i64> = roots.iter().map(|root| root.id).collect();
        let mut children: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for child in below {
            let parent = child.parent_id.unwrap_or(0);
            children.entry(parent).or_default().push(child.name.clone());
        }
        let (states, undone) = {
            let mut tx = self.store.begin().await?;
            let states = tx.list_states(&call.space, &ids).await?;
            let undone = tx.list_undone(&call.space, ChangeKind::Merge, &ids);
            (states, undone.await?)
        };

        let named_by = |id: i64| {
            states
                .get(&id)
                .map_or(NamedBy::User, |state| state.named_by)
        };
        let children = |id: i64| children.remove(&id).unwrap_or_default();
        let domains = domains(&roots, children, named_by);
        let refused = undone.into_iter().map(|(id, into)| (id, into.unwrap_or(0)));
        let refused: HashSet<(i64, i64)> = refused.collect();
        let few = self.taxonomy.max_children_of(1);
        let most = self.taxonomy.limit(2).max(few);
        #[expect(
            clippy::disallowed_methods,
            reason = "computes for a second at most, and changes nothing"
        )]
        let compared = tokio::task::spawn_blocking(move || pairs(&domains, &refused, (few, most)));
        let pairs = compared.await.map_err(|error| StoreError::Broken {
            cause: format!("cannot compare categories: {error}"),
        })?;
        Ok(pairs)
    }

    /// Makes a correction inside the caller's transaction.
    ///
    /// # Errors
    /// As [`Categories::care_in`].
    pub async fn correct_in(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        (correction, order): (&Correction, CareOrder<'_>),
    ) -> Result<CareOutcome, CategoryError> {
        let actor = ChangeActor {
            by: NamedBy::Embedded,
            reason: Some(&correction.reason),
        };
        self.care_in(tx, call, order, actor).await
    }
}

impl Categories {
    /// How large is what a split would divide; nothing if it is gone, or not to be split.
    ///
    /// # Errors
    /// The store's.
    pub async fn measure_split(
        &self,
        call: &CallContext,
        imbalance: Imbalance,
    ) -> Result<Option<SplitSize>, CategoryError> {
        let Some(id) = imbalance.category() else {
            return Ok(None);
        };
        let space = &call.space;
        let mut tx = self.store.begin().await?;
        let found = tx.find_state(space, id).await?;
        let Some(category) = found.filter(|state| !state.is_closed) else {
            return Ok(None);
        };

        let siblings = tx.list_children(space, &[category.parent_id]).await?;
        let counted = match self.taxonomy.scope() {
            LimitScope::Parent => i64::try_from(siblings.len()).unwrap_or(i64::MAX),
            LimitScope::Level => {
                let counts = tx.count_categories(space).await?;
                counts.get(&category.level).copied().unwrap_or(0)
            }
        };
        let is_leaf = category.level == self.taxonomy.depth();
        let members = if is_leaf {
            category.chunk_count
        } else {
            let children = tx.list_children(space, &[id]).await?;
            i64::try_from(children.len()).unwrap_or(i64::MAX)
        };

        Ok(Some(SplitSize {
            members,
            room: self.taxonomy.limit(category.level).saturating_sub(counted),
            has_empty_leaf: is_leaf && siblings.iter().any(|one| one.chunk_count == 0),
        }))
    }
}

impl SplitSize {
    /// Whether a limit forbids every part. A leaf that an earlier version left empty needs no room.
    pub fn is_forbidden(&self) -> bool {
        self.room <= 0 && !self.has_empty_leaf
    }
}

impl Imbalance {
    fn category(self) -> Option<i64> {
        match self {
            Self::Level1 => None,
            Self::Parent(id) | Self::Leaf(id) => Some(id),
        }
    }
}

impl Correction {
    fn is_empty(&self) -> bool {
        match &self.kind {
            CorrectionKind::Split { parts, .. } => parts.is_empty(),
            CorrectionKind::Merge { pairs } => pairs.is_empty(),
        }
    }
}
