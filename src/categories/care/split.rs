//! Splits a leaf that has become too large into siblings. Chunks about the same go together, and the
//! largest group stays with the name. Chunks that a person has placed stay, and so do those of earlier
//! versions.
//!
//! The groups are found before the transaction; a chunk that has moved or gone meanwhile is left out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use memoir_embedded_model::EmbeddedModel;
use memoir_text::text::{category_name, name_fault, name_key};
use tokio::sync::OwnedMutexGuard;

use super::change::Change;
use super::{Care, CareOutcome, grouping};
use crate::base::ids::Space;
use crate::categories::{Categories, CategoryError};
use crate::config::taxonomy::LimitScope;
use crate::model::call::CallContext;
use crate::model::category::{CategoryState, ChangeKind, NamedBy, NewCategory, NewChange};
use crate::model::chunk::Chunk;
use crate::store::{ChunkScope, StoreError};

/// Chunks of a leaf that is neither too large nor too small.
pub const TARGET: usize = 48;
/// Maximum chunks that are read, characters of each that are compared, and chunks that name a group.
const MAX_CHUNKS: usize = 5_000;
const CHARS: usize = 600;
const NAMING: usize = 40;
/// A smaller group stays.
const MIN_GROUP: usize = 3;

/// Chunks that get a leaf of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart {
    name: String,
    chunks: Vec<i64>,
}

/// Groups are found for one split of a space at a time, because that takes memory and time.
#[derive(Debug, Clone, Default)]
pub struct SplitTurns(Arc<Mutex<HashMap<Space, Turn>>>);

type Turn = Arc<tokio::sync::Mutex<()>>;

impl SplitTurns {
    /// Waits until no other split of a space is being planned.
    async fn take(&self, space: &Space) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(space.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

impl Categories {
    /// Finds what leaves a leaf when it is split: nothing if its chunks are all about the same.
    ///
    /// # Errors
    /// [`CategoryError::NotFound`], [`CategoryError::NotALeaf`], or the store's.
    pub async fn plan_split(
        &self,
        call: &CallContext,
        id: i64,
    ) -> Result<Vec<SplitPart>, CategoryError> {
        let scope = ChunkScope {
            latest: true,
            as_of: None,
        };
        let turn = self.split_turns.take(&call.space).await;
        let chunks = self.chunks(call, id, scope, None, MAX_CHUNKS).await?;
        let siblings = self.sibling_names(call, id).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "computes for a second at most, and changes nothing"
        )]
        let planned = tokio::task::spawn_blocking(move || {
            // Until it ends, also if the request is given up.
            let _turn = turn;
            plan(&chunks, siblings)
        });
        let parts = planned.await.map_err(|error| StoreError::Broken {
            cause: format!("cannot group chunks: {error}"),
        })?;
        Ok(parts)
    }

    async fn sibling_names(
        &self,
        call: &CallContext,
        id: i64,
    ) -> Result<HashSet<String>, CategoryError> {
        let found = self.store.find_category(&call.space, id, None).await?;
        let parent = found.and_then(|category| category.parent_id).unwrap_or(0);
        let siblings = self.store.list_children(&call.space, &[parent]).await?;
        Ok(siblings.iter().map(|one| name_key(&one.name)).collect())
    }
}

/// The groups that leave, with their names.
fn plan(chunks: &[Chunk], mut taken: HashSet<String>) -> Vec<SplitPart> {
    let texts: Vec<String> = chunks.iter().map(beginning).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let groups = texts.len().div_ceil(TARGET).max(2);
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, group) in grouping::group(&texts, groups).into_iter().enumerate() {
        members.entry(group).or_default().push(place);
    }

    let mut members: Vec<Vec<usize>> = members.into_values().collect();
    // Stable: of equal groups, the first stays.
    members.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let leaving = members.into_iter().skip(1);
    let mut parts = Vec::new();
    for group in leaving.filter(|group| group.len() >= MIN_GROUP) {
        let own: Vec<&str> = group.iter().take(NAMING).map(|at| texts[*at]).collect();
        if let Some(name) = free_name(&own, &taken) {
            taken.insert(name_key(&name));
            let chunks = group.iter().map(|at| chunks[*at].id).collect();
            parts.push(SplitPart { name, chunks });
        }
    }

    parts
}

fn beginning(chunk: &Chunk) -> String {
    let heading = chunk.heading.as_deref().unwrap_or_default();
    let text = format!("{heading}\n{}", chunk.text);
    text.chars().take(CHARS).collect()
}

/// A name that these texts have in common and that no sibling has; the last candidate would fit
/// anything.
fn free_name(texts: &[&str], taken: &HashSet<String>) -> Option<String> {
    let mut names = EmbeddedModel::names_for(texts);
    names.pop();
    let names = names.iter().map(|name| category_name(name));
    let mut fitting = names.filter(|name| name_fault(name).is_none());
    fitting.find(|name| !taken.contains(&name_key(name)))
}

/// # Errors
/// [`CategoryError::NotFound`], [`CategoryError::Full`], or the store's.
pub(super) async fn split(
    care: &mut Care<'_>,
    id: i64,
    parts: &[SplitPart],
) -> Result<CareOutcome, CategoryError> {
    let leaf = care.find(id).await?;
    if parts.is_empty() {
        return Ok(CareOutcome::default());
    }

    check_level(care, leaf.level, parts.len()).await?;
    let space = &care.call.space;
    let siblings = care.tx.list_children(space, &[leaf.parent_id]).await?.len();
    let new = NewChange {
        from_id: Some(id),
        ..NewChange::by_user(ChangeKind::Split, id)
    };
    let mut change = Change::begin(care, &new).await?;
    change.check_room(leaf.level, siblings + parts.len())?;
    for part in parts {
        move_part(&mut change, &leaf, part).await?;
    }

    // All of them have moved or gone meanwhile.
    if change.moved_none() {
        return Ok(CareOutcome::default());
    }

    change.end().await
}

async fn move_part(
    change: &mut Change<'_, '_>,
    leaf: &CategoryState,
    part: &SplitPart,
) -> Result<(), CategoryError> {
    let space = &change.care.call.space;
    let tx = &mut *change.care.tx;
    let chunks = tx.list_movable(space, leaf.id, &part.chunks).await?;
    let slot = (leaf.parent_id, part.name.as_str());
    let is_taken = tx.find_namesake(space, slot, leaf.id).await?.is_some();
    if chunks.is_empty() || is_taken {
        return Ok(());
    }

    let new = NewCategory {
        parent_id: Some(leaf.parent_id).filter(|id| *id != 0),
        level: leaf.level,
        name: part.name.clone(),
        name_key: name_key(&part.name),
        named_by: NamedBy::Embedded,
    };
    let made = change.create(&new, leaf.id).await?;
    change.move_some(&chunks, (leaf.id, made)).await
}

/// With limits per level, the level must have room.
async fn check_level(care: &mut Care<'_>, level: i64, new: usize) -> Result<(), CategoryError> {
    let (scope, limit) = (care.taxonomy.scope(), care.taxonomy.limit(level));
    if scope == LimitScope::Parent {
        return Ok(());
    }

    let counts = care.tx.count_categories(&care.call.space).await?;
    let all = counts.get(&level).copied().unwrap_or(0);
    if all + i64::try_from(new).unwrap_or(i64::MAX) > limit {
        return Err(CategoryError::Full {
            scope,
            level,
            limit,
        });
    }

    Ok(())
}
