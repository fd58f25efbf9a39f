//! The hierarchy: lists, paths, chunks, and validated creation.

pub mod care;
mod level_room;
pub mod options;
pub mod samples;
mod taxonomy;
pub mod tree;
pub mod tree_cache;

use std::collections::{BTreeSet, HashMap};

use memoir_text::field_error::FieldError;
use memoir_text::text::{category_name, name_fault, name_key};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::config::taxonomy::LimitScope;
use crate::model::call::CallContext;
use crate::model::category::{
    Category, CategoryChange, CategoryPath, NamedBy, NewCategory, Rename,
};
use crate::model::chunk::Chunk;
use crate::store::{
    CategoryFilter, CategoryPage, ChunkPlace, ChunkScope, Store, StoreError, Tx, as_store_error,
};

use care::SplitTurns;
pub use taxonomy::Taxonomy;

/// Maximum full parents that are listed.
const MAX_FULL: usize = 100;

/// Entry point of categories; cheap to clone.
#[derive(Clone)]
pub struct Categories {
    store: Store,
    taxonomy: Taxonomy,
    split_turns: SplitTurns,
}

/// A category to create manually.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateCategoryRequest, example = json!({"name": "Lighthouses", "parent_id": 2}))]
pub struct CategoryInput {
    /// The name; unique under its parent, ignoring case.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// The parent category; omit it on level 1.
    pub parent_id: Option<i64>,
    /// The level; derived from the parent if omitted.
    #[schema(minimum = 1, maximum = 100)]
    pub level: Option<i64>,
}

/// A request about categories failed.
#[derive(Debug, thiserror::Error)]
pub enum CategoryError {
    /// 422: fields violate a rule.
    #[error("the category is invalid")]
    Invalid(Vec<FieldError>),
    /// 404.
    #[error("there is no category {0} in this space")]
    NotFound(i64),
    /// 422: a leaf cannot have children.
    #[error("the hierarchy has {depth} levels; the last level cannot have children")]
    TooDeep { depth: i64 },
    /// 409: the name exists.
    #[error("a category with this name already exists under the same parent")]
    Exists { existing: i64 },
    /// 422: the level is full, or the parent.
    #[error("{} already has {limit} categories, which is its limit", match scope {
        LimitScope::Level => format!("level {level}"),
        LimitScope::Parent => "the parent".to_owned(),
    })]
    Full {
        scope: LimitScope,
        level: i64,
        limit: i64,
    },
    /// 422: only leaves have chunks.
    #[error("category {id} is on level {level}; chunks are filed only on level {depth}")]
    NotALeaf { id: i64, level: i64, depth: i64 },
    /// 409: it is not empty.
    #[error("category {0} or its descendants contain chunks, possibly of earlier versions")]
    NotEmpty(i64),
    /// 404.
    #[error("there is no chunk {0} in this space")]
    NoChunk(i64),
    /// 404.
    #[error("there is no change {0} of the hierarchy in this space")]
    NoChange(i64),
    /// 409: a change is undone once.
    #[error("change {0} was undone before")]
    UndoneBefore(i64),
    /// 409: something contradicts the former state.
    #[error("{0}")]
    Conflicts(String),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

as_store_error!(CategoryError);

impl Categories {
    #[must_use]
    pub fn new(store: Store, taxonomy: Taxonomy) -> Self {
        Self {
            store,
            taxonomy,
            split_turns: SplitTurns::default(),
        }
    }

    pub fn taxonomy(&self) -> &Taxonomy {
        &self.taxonomy
    }

    /// A page of categories, level by level.
    pub async fn list(
        &self,
        call: &CallContext,
        filter: &CategoryFilter,
        page: &CategoryPage,
    ) -> Result<Vec<Category>, CategoryError> {
        let mut found = self
            .store
            .list_categories(&call.space, filter, page)
            .await?;
        self.count_as_of(call, found.iter_mut(), filter.as_of)
            .await?;
        Ok(found)
    }

    /// Replaces chunk counts by those at a given time.
    async fn count_as_of(
        &self,
        call: &CallContext,
        categories: impl Iterator<Item = &mut Category>,
        as_of: Option<Timestamp>,
    ) -> Result<(), CategoryError> {
        let Some(moment) = as_of else { return Ok(()) };
        let categories: Vec<&mut Category> = categories.collect();
        let ids: Vec<i64> = categories.iter().map(|category| category.id).collect();
        let counts = self
            .store
            .count_chunks_of_then(&call.space, &ids, moment)
            .await?;
        for category in categories {
            category.chunk_count = counts.get(&category.id).copied().unwrap_or(0);
        }

        Ok(())
    }

    /// The number of categories per level, now or at a time.
    pub async fn counts(
        &self,
        call: &CallContext,
        as_of: Option<Timestamp>,
    ) -> Result<Vec<(i64, i64)>, CategoryError> {
        let counts = self.store.count_categories(&call.space, as_of).await?;
        Ok((1..=self.taxonomy.depth())
            .map(|level| (level, counts.get(&level).copied().unwrap_or(0)))
            .collect())
    }

    /// The parents that have as many children as their limit allows, with the number of those; 0
    /// stands for the root. Empty if limits count per level.
    pub async fn full_parents(&self, call: &CallContext) -> Result<Vec<(i64, i64)>, CategoryError> {
        if self.taxonomy.scope() == LimitScope::Level {
            return Ok(Vec::new());
        }

        // The limit is the same on every level.
        let limit = self.taxonomy.limit(1);
        Ok(self
            .store
            .list_full_parents(&call.space, limit, MAX_FULL)
            .await?)
    }

    /// A category, now or at a time.
    ///
    /// # Errors
    /// [`CategoryError::NotFound`], or the store's.
    pub async fn find(
        &self,
        call: &CallContext,
        id: i64,
        as_of: Option<Timestamp>,
    ) -> Result<Category, CategoryError> {
        let found = self.store.find_category(&call.space, id, as_of).await?;
        let mut category = found.ok_or(CategoryError::NotFound(id))?;
        self.count_as_of(call, std::iter::once(&mut category), as_of)
            .await?;

        Ok(category)
    }

    /// The paths to categories, now or at a time.
    pub async fn paths(
        &self,
        call: &CallContext,
        ids: &[i64],
        as_of: Option<Timestamp>,
    ) -> Result<HashMap<i64, CategoryPath>, CategoryError> {
        let store = &self.store;
        Ok(store.find_category_paths(&call.space, ids, as_of).await?)
    }

    /// Adds the paths of their categories to chunks, now or at a time.
    ///
    /// # Errors
    /// The store's.
    pub async fn add_paths(
        &self,
        call: &CallContext,
        chunks: &mut [Chunk],
        as_of: Option<Timestamp>,
    ) -> Result<(), CategoryError> {
        let leaves: BTreeSet<i64> = chunks
            .iter()
            .filter_map(|chunk| chunk.category_id)
            .collect();
        let leaves: Vec<i64> = leaves.into_iter().collect();
        let paths = self.paths(call, &leaves, as_of).await?;
        for chunk in chunks {
            if let Some(path) = chunk.category_id.and_then(|id| paths.get(&id)) {
                chunk.category_path = path.iter().map(|(_, name)| name.clone()).collect();
            }
        }

        Ok(())
    }

    /// Chunks of a leaf, in the order of ingestion.
    ///
    /// # Errors
    /// [`CategoryError::NotFound`], [`CategoryError::NotALeaf`], or the store's.
    pub async fn chunks(
        &self,
        call: &CallContext,
        id: i64,
        scope: ChunkScope,
        after: Option<ChunkPlace>,
        limit: usize,
    ) -> Result<Vec<Chunk>, CategoryError> {
        let category = self.store.find_category(&call.space, id, scope.as_of);
        let category = category.await?.ok_or(CategoryError::NotFound(id))?;
        let depth = self.taxonomy.depth();
        if category.level != depth {
            return Err(CategoryError::NotALeaf {
                id,
                level: category.level,
                depth,
            });
        }

        let mut chunks = self
            .store
            .list_category_chunks(&call.space, id, scope, after, limit)
            .await?;
        for chunk in &mut chunks {
            // It may have moved since then.
            chunk.category_id = Some(id);
        }
        Ok(chunks)
    }

    /// A chunk, with its path.
    pub async fn find_chunk(
        &self,
        call: &CallContext,
        id: i64,
    ) -> Result<Option<Chunk>, CategoryError> {
        Ok(self.store.find_chunk(&call.space, id).await?)
    }

    /// Creates a category inside the caller's transaction.
    ///
    /// # Errors
    /// A violated rule, or the store's.
    pub async fn create(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        input: CategoryInput,
    ) -> Result<Category, CategoryError> {
        let name = category_name(&input.name);
        if let Some(fault) = name_fault(&name) {
            return Err(CategoryError::Invalid(vec![FieldError::new("name", fault)]));
        }

        // No other transaction creates or fills a category until this is written.
        tx.lock_chunks(&call.space).await?;
        let level = self.level_of(tx, call, &input).await?;
        let parent_key = input.parent_id.unwrap_or(0);
        let key = name_key(&name);
        let siblings = tx.list_children(&call.space, &[parent_key]).await?;

        if let Some(taken) = siblings
            .iter()
            .find(|sibling| name_key(&sibling.name) == key)
        {
            return Err(CategoryError::Exists { existing: taken.id });
        }
        self.check_room(tx, call, level, siblings.len()).await?;
        let new = NewCategory {
            parent_id: input.parent_id,
            level,
            name,
            name_key: key.clone(),
            named_by: NamedBy::User,
        };

        tx.add_categories(&call.space, &[new], call.now).await?;
        let made = tx.list_children(&call.space, &[parent_key]).await?;
        let made = made
            .into_iter()
            .find(|category| name_key(&category.name) == key);
        Ok(made.ok_or_else(|| StoreError::Broken {
            cause: "a new category is missing".to_owned(),
        })?)
    }

    /// Gives a category the name that a user wants, inside the caller's transaction.
    ///
    /// # Errors
    /// [`CategoryError::Invalid`], [`CategoryError::NotFound`], [`CategoryError::Exists`], or the
    /// store's.
    pub async fn rename(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        (id, name): (i64, &str),
    ) -> Result<Category, CategoryError> {
        let name = category_name(name);
        if let Some(fault) = name_fault(&name) {
            return Err(CategoryError::Invalid(vec![FieldError::new("name", fault)]));
        }

        // No other transaction creates or renames a category until this is written.
        tx.lock_chunks(&call.space).await?;
        let category = tx.find_category(&call.space, id).await?;
        let category = category.ok_or(CategoryError::NotFound(id))?;
        let parent_id = category.parent_id.unwrap_or(0);
        let rename = Rename {
            id,
            parent_id,
            from: &category.name,
            to: &name,
            by: NamedBy::User,
            reason: None,
        };

        if tx
            .rename_category(&call.space, &rename, call.now)
            .await?
            .is_none()
        {
            let named = BTreeSet::from([(parent_id, name_key(&name))]);
            let taken = tx.list_categories_named(&call.space, &named).await?;
            let existing = taken.into_values().next().unwrap_or(id);
            return Err(CategoryError::Exists { existing });
        }

        Ok(Category { name, ..category })
    }

    /// Changes of the hierarchy, or of one category, newest first.
    pub async fn changes(
        &self,
        call: &CallContext,
        category_id: Option<i64>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<CategoryChange>, CategoryError> {
        let store = &self.store;
        Ok(store
            .list_category_changes(&call.space, category_id, before, limit)
            .await?)
    }

    async fn level_of(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        input: &CategoryInput,
    ) -> Result<i64, CategoryError> {
        let invalid = |field: &str, message: String| {
            Err(CategoryError::Invalid(vec![FieldError::new(
                field, message,
            )]))
        };

        let depth = self.taxonomy.depth();
        if input.level.is_some_and(|level| level < 1) {
            return invalid("level", format!("must be from 1 to {depth}"));
        }

        if input.level.is_some_and(|level| level > depth) {
            return Err(CategoryError::TooDeep { depth });
        }

        match (input.parent_id, input.level) {
            (None, None | Some(1)) => Ok(1),
            (None, Some(level)) => invalid(
                "parent_id",
                format!("level {level} needs a parent on level {}", level - 1),
            ),
            (Some(_), Some(1)) => invalid(
                "parent_id",
                "a category on level 1 has no parent".to_owned(),
            ),
            (Some(id), level) => {
                let Some(parent) = tx.find_category(&call.space, id).await? else {
                    return invalid(
                        "parent_id",
                        format!("there is no category {id} in this space"),
                    );
                };

                if parent.level >= depth {
                    return Err(CategoryError::TooDeep { depth });
                }

                match level {
                    Some(level) if level != parent.level + 1 => invalid(
                        "parent_id",
                        format!(
                            "is on level {}, but must be on level {}",
                            parent.level,
                            level - 1
                        ),
                    ),
                    _ => Ok(parent.level + 1),
                }
            }
        }
    }

    /// Whether the level has space, and every deeper one has space for the leaf that the category
    /// needs.
    async fn check_room(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        level: i64,
        siblings: usize,
    ) -> Result<(), CategoryError> {
        let scope = self.taxonomy.scope();
        let full = |level, limit| {
            Err(CategoryError::Full {
                scope,
                level,
                limit,
            })
        };
        if scope == LimitScope::Parent {
            let limit = self.taxonomy.limit(level);
            return if i64::try_from(siblings).unwrap_or(i64::MAX) < limit {
                Ok(())
            } else {
                full(level, limit)
            };
        }

        let counts = tx.count_categories(&call.space).await?;
        for level in level..=self.taxonomy.depth() {
            let limit = self.taxonomy.limit(level);
            if counts.get(&level).copied().unwrap_or(0) >= limit {
                return full(level, limit);
            }
        }

        Ok(())
    }
}
