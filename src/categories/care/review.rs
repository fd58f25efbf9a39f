//! The review inbox: proposals for the hierarchy, each with its evidence, its price and the one request
//! that applies it. Nothing is applied by itself; what memoir does on its own is in `balance`.

use std::collections::{BTreeMap, HashMap};

use memoir_embedded_model::{EmbeddedModel, RenameInput};
use serde::Serialize;
use utoipa::ToSchema;

use super::review_balance::{Decisions, crowded, over_full};
use super::review_call::ReviewCall;
use crate::categories::{Categories, CategoryError, Taxonomy};
use crate::model::call::CallContext;
use crate::model::category::Category;
use crate::store::{CategoryFilter, CategoryPage, StoreError};

/// Maximum proposals of one kind.
const MAX_OF_KIND: usize = 50;
/// Leaves of one chunk that are looked at.
const MAX_SINGLE: usize = 200;
/// Leaves whose texts are compared with their names, the largest ones, and texts of each.
const MAX_NAMED: usize = 30;
const TEXTS: usize = 40;
/// Characters of a text that are compared.
const CHARS: usize = 400;
/// Share of a chunk's words that a sibling's name must have for the chunk to go there.
const MIN_MATCH: f32 = 0.1;

/// A proposal for the hierarchy.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = CategoryReviewItemResponse, example = json!({
    "kind": "near_duplicates", "category_id": 5, "path": ["Home", "Boiler"], "other_id": 9,
    "other_path": ["Home", "Boilers"], "evidence": "both names have the same words; they have 3 and 12 chunks",
    "llm_calls": 0, "cost_usd": 0.0, "apply": {"method": "POST", "path": "/v1/categories/5/merge", "body": {"into": 9}}
}))]
pub struct ReviewItem {
    /// `near_duplicates`: siblings whose names have the same words; `single_chunk`: a leaf of one chunk;
    /// `over_full`: a leaf with too many chunks; `too_many_children`: a category with too many children, or
    /// the two most similar categories of a list that cannot be split; `name_does_not_fit`: a leaf whose name
    /// fits less than half of its chunks.
    pub kind: String,
    pub category_id: i64,
    /// Names from level 1.
    pub path: Vec<String>,
    /// The category that the proposal names besides.
    pub other_id: Option<i64>,
    pub other_path: Option<Vec<String>>,
    /// Why it is proposed.
    pub evidence: String,
    /// Model calls that applying it makes: none, because the embedded model finds and names groups.
    pub llm_calls: i64,
    /// What these calls cost.
    pub cost_usd: f64,
    /// The request that applies it.
    pub apply: ReviewCall,
}

/// What was read about the leaves.
struct Evidence {
    /// All leaves, the largest first.
    leaves: Vec<i64>,
    /// Leaves of one chunk, with the beginning of its text.
    single: Vec<(i64, String)>,
    /// Leaves with the sources and the beginnings of some of their texts.
    named: Vec<(i64, Vec<(String, String)>)>,
    decisions: Decisions,
}

/// The hierarchy, by id and by parent.
pub(super) struct Hierarchy<'a> {
    pub(super) by_id: HashMap<i64, &'a Category>,
    /// 0 stands for the root.
    pub(super) children: BTreeMap<i64, Vec<&'a Category>>,
}

impl Categories {
    /// Proposals for the hierarchy, kind by kind; at most 50 of each.
    ///
    /// # Errors
    /// The store's.
    pub async fn review(&self, call: &CallContext) -> Result<Vec<ReviewItem>, CategoryError> {
        let (all, whole) = (CategoryFilter::default(), CategoryPage::default());
        let categories = self.list(call, &all, &whole).await?;
        let found = self.find_evidence(call, &categories).await?;
        let taxonomy = self.taxonomy.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "computes for a second at most, and changes nothing"
        )]
        let proposed = tokio::task::spawn_blocking(move || propose(&categories, &found, &taxonomy));
        let items = proposed.await.map_err(|error| StoreError::Broken {
            cause: format!("cannot review the hierarchy: {error}"),
        })?;
        Ok(items)
    }

    /// Reads what the leaves hold, of a limited number of leaves.
    async fn find_evidence(
        &self,
        call: &CallContext,
        categories: &[Category],
    ) -> Result<Evidence, CategoryError> {
        let depth = self.taxonomy.depth();
        let mut leaves: Vec<&Category> =
            categories.iter().filter(|one| one.level == depth).collect();
        leaves.sort_by_key(|leaf| (std::cmp::Reverse(leaf.chunk_count), leaf.id));

        let single = leaves.iter().filter(|leaf| leaf.chunk_count == 1);
        let single: Vec<i64> = single.take(MAX_SINGLE).map(|leaf| leaf.id).collect();
        let chars = i32::try_from(CHARS).unwrap_or(i32::MAX);
        let single = self.store.list_beginnings(&call.space, &single, chars);
        let mut found = Evidence {
            leaves: leaves.iter().map(|leaf| leaf.id).collect(),
            single: single.await?,
            named: Vec::new(),
            decisions: self.find_decisions(call, categories).await?,
        };
        let largest: Vec<i64> = found.leaves.iter().take(MAX_NAMED).copied().collect();
        let texts = self
            .store
            .list_leaf_beginnings(&call.space, &largest, (TEXTS, CHARS));
        let mut of_leaf: HashMap<i64, Vec<(String, String)>> = HashMap::new();
        for (leaf, source, text) in texts.await? {
            of_leaf.entry(leaf).or_default().push((source, text));
        }

        let named = largest
            .into_iter()
            .filter_map(|leaf| of_leaf.remove_entry(&leaf));
        found.named = named.collect();
        Ok(found)
    }
}

/// All proposals, kind by kind.
fn propose(categories: &[Category], found: &Evidence, taxonomy: &Taxonomy) -> Vec<ReviewItem> {
    let hierarchy = Hierarchy::of(categories);
    let decisions = &found.decisions;
    let mut items = near_duplicates(&hierarchy);
    items.retain(|item| !decisions.refuses_merge(item.category_id, item.other_id));
    items.truncate(MAX_OF_KIND);

    let single = found.single.iter();
    let single = single.filter_map(|(leaf, text)| hierarchy.single_chunk(*leaf, text));
    items.extend(single.take(MAX_OF_KIND));

    let leaves = found.leaves.iter();
    let leaves = leaves.filter_map(|leaf| hierarchy.by_id.get(leaf));
    let leaves = leaves.filter(|leaf| !decisions.refuses_split(leaf.id));
    let full = leaves.filter_map(|leaf| over_full(&hierarchy, taxonomy, leaf));
    items.extend(full.take(MAX_OF_KIND));
    let crowded = crowded(&hierarchy, taxonomy, decisions).into_iter();
    items.extend(crowded.take(MAX_OF_KIND));

    let named = found.named.iter();
    items.extend(named.filter_map(|(leaf, texts)| hierarchy.unfitting_name(*leaf, texts)));
    items
}

/// Siblings whose names have the same words; the one with fewer chunks goes into the other.
fn near_duplicates(hierarchy: &Hierarchy<'_>) -> Vec<ReviewItem> {
    let mut items = Vec::new();
    for siblings in hierarchy.children.values() {
        let mut alike: BTreeMap<Vec<String>, Vec<&Category>> = BTreeMap::new();
        for sibling in siblings {
            let mut stems: Vec<String> = EmbeddedModel::stems(&sibling.name).into_iter().collect();
            stems.sort_unstable();
            alike.entry(stems).or_default().push(sibling);
        }

        for (_, mut group) in alike.into_iter().filter(|(stems, _)| !stems.is_empty()) {
            group.sort_by_key(|one| (std::cmp::Reverse(one.chunk_count), one.id));
            let Some((kept, others)) = group.split_first() else {
                continue;
            };
            for other in others {
                let evidence = format!(
                    "both names have the same words; they have {} and {} chunks",
                    other.chunk_count, kept.chunk_count
                );
                let (apply, both) = (ReviewCall::merge(other.id, kept.id), (*other, Some(*kept)));
                items.push(hierarchy.item("near_duplicates", both, evidence, apply));
            }
        }
    }

    items
}

impl<'a> Hierarchy<'a> {
    pub(super) fn of(categories: &'a [Category]) -> Self {
        let mut children: BTreeMap<i64, Vec<&Category>> = BTreeMap::new();
        for category in categories {
            let parent = category.parent_id.unwrap_or(0);
            children.entry(parent).or_default().push(category);
        }

        Self {
            by_id: categories.iter().map(|one| (one.id, one)).collect(),
            children,
        }
    }

    /// A leaf of one chunk that goes well with a sibling.
    fn single_chunk(&self, leaf: i64, text: &str) -> Option<ReviewItem> {
        let leaf = *self.by_id.get(&leaf)?;
        let siblings = self.siblings(leaf);
        let subject = format!("{} {text}", leaf.name);
        let names = siblings.iter().map(|sibling| sibling.name.as_str());
        let matches = EmbeddedModel::word_matches(&subject, names);
        let best = siblings.iter().zip(matches);
        let best = best.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.id.cmp(&a.0.id)));

        let (other, _) = best.filter(|(_, share)| *share >= MIN_MATCH)?;
        let evidence = format!("it has one chunk, which goes best with {}", other.name);
        let apply = ReviewCall::remove(leaf.id, other.id);
        Some(self.item("single_chunk", (leaf, Some(other)), evidence, apply))
    }

    /// A leaf whose name fits few of its texts, with a name that fits more.
    fn unfitting_name(&self, leaf: i64, texts: &[(String, String)]) -> Option<ReviewItem> {
        let leaf = *self.by_id.get(&leaf)?;
        let texts: Vec<(&str, &str)> = texts
            .iter()
            .map(|(source, text)| (source.as_str(), text.as_str()))
            .collect();
        let path = self.path(leaf);
        let parents: Vec<&str> = path.iter().map(String::as_str).collect();
        let siblings = self.siblings(leaf);
        let siblings: Vec<&str> = siblings.iter().map(|one| one.name.as_str()).collect();
        let better = EmbeddedModel::rename(&RenameInput {
            name: &leaf.name,
            parents: &parents[..parents.len().saturating_sub(1)],
            siblings: &siblings,
            texts: &texts,
        })?;

        let apply = ReviewCall::rename(leaf.id, &better.name);
        Some(self.item("name_does_not_fit", (leaf, None), better.reason, apply))
    }

    /// The names of the children of a category.
    pub(super) fn names_of_children(&self, id: i64) -> Vec<String> {
        let children = self.children.get(&id).into_iter().flatten();
        children.map(|child| child.name.clone()).collect()
    }

    pub(super) fn siblings(&self, category: &Category) -> Vec<&'a Category> {
        let all = self.children.get(&category.parent_id.unwrap_or(0));
        let others = all.into_iter().flatten();
        others
            .filter(|one| one.id != category.id)
            .copied()
            .collect()
    }

    fn path(&self, category: &Category) -> Vec<String> {
        let mut path = vec![category.name.clone()];
        let mut above = category.parent_id;
        while let Some(parent) = above.and_then(|id| self.by_id.get(&id)) {
            path.push(parent.name.clone());
            above = parent.parent_id;
        }

        path.reverse();
        path
    }

    pub(super) fn item(
        &self,
        kind: &str,
        (category, other): (&Category, Option<&Category>),
        evidence: String,
        apply: ReviewCall,
    ) -> ReviewItem {
        ReviewItem {
            kind: kind.to_owned(),
            category_id: category.id,
            path: self.path(category),
            other_id: other.map(|other| other.id),
            other_path: other.map(|other| self.path(other)),
            evidence,
            llm_calls: 0,
            cost_usd: 0.0,
            apply,
        }
    }
}
