//! Care of the hierarchy: chunks are moved, categories are merged, moved, split and removed, and what was
//! changed is undone; by people, or by the job that keeps the balance (`balance`).
//!
//! Each operation is one transaction under the lock of the space, which ingestions hold while they write.
//! It stores one change with what undoes it (`change`). A `dry_run` is the operation itself, rolled back.
//! Merged and removed categories are closed: nothing is below them, and former names lead to what took
//! their place, so that a text that was classified meanwhile is still filed there.

pub mod balance;
mod change;
mod free_names;
mod grouping;
mod leaf_plan;
mod merge;
mod move_category;
mod move_chunk;
mod parent_plan;
mod remove;
mod review;
mod review_balance;
mod review_call;
mod similar;
mod split;
mod split_planning;
mod undo;

pub use review::ReviewItem;
pub use review_call::ReviewCall;

use memoir_text::field_error::FieldError;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Categories, CategoryError, Taxonomy};
use crate::model::call::CallContext;
use crate::model::category::{CategoryChange, CategoryState, ChangeActor};
use crate::store::Tx;
pub use split::SplitPart;
pub(super) use split_planning::SplitTurns;

/// What to do with the hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CareOrder<'o> {
    /// Files a chunk in another leaf.
    MoveChunk { id: i64, leaf: i64 },
    /// Another category of the same level takes the place of this one.
    Merge { id: i64, into: i64 },
    /// Puts a category below another parent.
    Move { id: i64, parent_id: i64 },
    /// Closes a category; `into` gets what is below it.
    Remove { id: i64, into: Option<i64> },
    /// Gives some chunks of a leaf leaves of their own, or some children of a category other parents.
    Split { id: i64, parts: &'o [SplitPart] },
    /// Undoes a change.
    Undo { change: i64 },
}

/// What a change of the hierarchy did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CareResponse, example = json!({
    "dry_run": true, "change": null, "chunks_moved": 12,
    "categories": [{"id": 5, "name": "Boilers", "effect": "merged", "into_id": 9}]
}))]
pub struct CareOutcome {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The change, as the list of changes shows it; null with `dry_run`.
    pub change: Option<CategoryChange>,
    /// Number of chunks that move to another leaf, including those of earlier versions.
    pub chunks_moved: i64,
    /// The categories that change.
    pub categories: Vec<CategoryEffect>,
}

/// What happens to a category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CategoryEffectResponse)]
pub struct CategoryEffect {
    /// Null for what a `dry_run` would create.
    pub id: Option<i64>,
    pub name: String,
    /// `moved`: it gets another parent; `merged`: another category takes its place; `removed`; `created`;
    /// or `reopened` and `renamed` when a change is undone.
    pub effect: String,
    /// The new parent, or the category that takes its place; null for what a `dry_run` would create.
    pub into_id: Option<i64>,
}

/// What an operation works with.
struct Care<'c> {
    tx: &'c mut Tx,
    call: &'c CallContext,
    taxonomy: &'c Taxonomy,
    actor: ChangeActor<'c>,
}

impl Categories {
    /// Changes the hierarchy, or with `dry_run` reports what would change.
    ///
    /// # Errors
    /// A violated rule, or the store's; then nothing has changed.
    pub async fn care(
        &self,
        call: &CallContext,
        order: CareOrder<'_>,
        dry_run: bool,
    ) -> Result<CareOutcome, CategoryError> {
        self.store
            .retry_as("care", || async {
                let tx = self.store.begin().await?;
                let (tx, outcome) = self.care_by_user(tx, call, order, dry_run).await?;
                if let Some(tx) = tx {
                    tx.commit().await?;
                }
                Ok(outcome)
            })
            .await
    }

    /// Changes the hierarchy for a user inside the caller's transaction, which it returns to be committed;
    /// or rolls it back, with `dry_run` and if there is nothing to change.
    ///
    /// # Errors
    /// A violated rule, or the store's.
    pub async fn care_by_user(
        &self,
        mut tx: Tx,
        call: &CallContext,
        order: CareOrder<'_>,
        dry_run: bool,
    ) -> Result<(Option<Tx>, CareOutcome), CategoryError> {
        let outcome = self.care_in(&mut tx, call, order, ChangeActor::USER);
        let outcome = outcome.await?;
        if dry_run || outcome.change.is_none() {
            return Ok((None, outcome.unmade(dry_run)));
        }

        Ok((Some(tx), outcome))
    }

    /// Changes the hierarchy inside the caller's transaction.
    ///
    /// # Errors
    /// A violated rule, or the store's; then the transaction must be dropped. So must one without a
    /// change.
    pub async fn care_in(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        order: CareOrder<'_>,
        actor: ChangeActor<'_>,
    ) -> Result<CareOutcome, CategoryError> {
        tx.lock_chunks(&call.space).await?;
        let mut care = Care {
            tx,
            call,
            taxonomy: &self.taxonomy,
            actor,
        };
        let care = &mut care;
        let outcome = match order {
            CareOrder::MoveChunk { id, leaf } => move_chunk::move_chunk(care, id, leaf).await,
            CareOrder::Merge { id, into } => merge::merge(care, id, into).await,
            CareOrder::Move { id, parent_id } => {
                move_category::move_category(care, id, parent_id).await
            }
            CareOrder::Remove { id, into } => remove::remove(care, id, into).await,
            CareOrder::Split { id, parts } => split::split(care, id, parts).await,
            CareOrder::Undo { change } => undo::undo(care, change).await,
        }?;

        if outcome.change.is_some() {
            // Caches read the hierarchy again.
            care.tx.count_category_removal(&call.space).await?;
        }
        Ok(outcome)
    }
}

impl CareOutcome {
    /// What would have changed; what would have been created has no number.
    fn unmade(mut self, dry_run: bool) -> Self {
        let created = self.categories.iter().filter(|one| one.is_created());
        let created: Vec<i64> = created.filter_map(|one| one.id).collect();
        let is_unmade = |id: &mut i64| created.contains(id);
        for effect in &mut self.categories {
            effect.id.take_if(is_unmade);
            effect.into_id.take_if(is_unmade);
        }

        Self {
            dry_run,
            change: None,
            ..self
        }
    }
}

impl CategoryEffect {
    const CREATED: &'static str = "created";

    fn is_created(&self) -> bool {
        self.effect == Self::CREATED
    }
}

impl Care<'_> {
    /// An open category.
    async fn find(&mut self, id: i64) -> Result<CategoryState, CategoryError> {
        let found = self.tx.find_state(&self.call.space, id).await?;
        let found = found.filter(|state| !state.is_closed);
        found.ok_or(CategoryError::NotFound(id))
    }

    /// An open category that a field of the request names.
    async fn find_named(&mut self, field: &str, id: i64) -> Result<CategoryState, CategoryError> {
        self.find(id).await.map_err(|error| match error {
            CategoryError::NotFound(_) => {
                CategoryError::Invalid(vec![FieldError::new(field, error.to_string())])
            }
            other => other,
        })
    }
}
