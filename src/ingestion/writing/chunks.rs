//! Writes chunks: those that are filed with their categories and counts, and what searches find.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use memoir_text::text::name_key;

use super::balance::Growth;
use super::{Draft, Writer, Written};
use crate::base::ids::SourceId;
use crate::categories::tree::{ROOT, Tree};
use crate::config::taxonomy::LimitScope;
use crate::ingestion::write_error::{During, WriteError};
use crate::jobs::JobError;
use crate::model::call::CallContext;
use crate::model::category::LeafGrowth;
use crate::model::chunk::{NewChunk, TAXONOMY};
use crate::store::{StoreError, Tx};

/// Where paths lead.
struct FoundLeaves {
    /// The leaf of each path; `None` if a category is missing.
    ids: Vec<Option<i64>>,
    /// The number of a path, the place in it, and the present path of the category that had this name
    /// there.
    renamed: Vec<(usize, usize, Vec<String>)>,
}

impl Writer<'_> {
    /// Writes the filed chunks of a range and their categories; returns the counts by category.
    pub(super) async fn write_chunks(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        range: Range<usize>,
        (written, growth): (&mut Written, &mut Growth),
        call: &CallContext,
    ) -> Result<BTreeMap<i64, i64>, WriteError> {
        let space = &call.space;
        let (paths, pinned) = self.respect_pins(tx, draft, range.clone(), written).await?;
        let (leaves, made) = self.resolve(tx, &paths, growth, call).await?;
        let mut chunks = Vec::with_capacity(range.len());

        for (ordinal, leaf) in range.zip(leaves) {
            let chunk = &draft.chunks[ordinal];
            chunks.push(NewChunk {
                category_id: leaf,
                subject: draft.subjects.get(ordinal).and_then(Option::as_deref),
                ..*chunk
            });
        }

        let source_id = SourceId::from_stored(written.source_id.clone());
        let added = tx
            .add_chunks(space, &source_id, written.version_id, &chunks, call.now)
            .await;
        added.during("add chunks", "chunks")?;
        tx.pin_chunks(space, written.version_id, &pinned)
            .await
            .during("pin chunks", "chunk_placements")?;
        written.chunks += i64::try_from(chunks.len()).unwrap_or(i64::MAX);
        written.categories += made;
        let mut counts = BTreeMap::new();

        for chunk in &chunks {
            *counts.entry(chunk.category_id).or_insert(0) += 1;
        }

        Ok(counts)
    }

    /// What makes the chunks of a range found by searches. Chunks for searches alone come with
    /// the last part.
    pub(super) async fn write_searched(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        range: &Range<usize>,
        last: bool,
        written: &mut Written,
        call: &CallContext,
    ) -> Result<(), WriteError> {
        let Some(searched) = &draft.searched else {
            return Ok(());
        };
        let filed = searched.profile == TAXONOMY;
        if !filed && !last {
            return Ok(());
        }

        let space = &call.space;
        let source_id = SourceId::from_stored(written.source_id.clone());
        if !searched.chunks.is_empty() {
            let added = tx
                .add_retrieval_chunks(
                    space,
                    &source_id,
                    written.version_id,
                    &searched.chunks,
                    call.now,
                )
                .await;
            added.during("add chunks to search", "chunks")?;
        }

        let chunks = (&source_id, written.version_id, searched.profile);
        let indexed = if filed {
            searched
                .prepared
                .write_part(tx, call, chunks, range.clone())
                .await
        } else {
            searched.prepared.write(tx, call, chunks).await
        };

        if !indexed.during("index chunks", "search_entries")? {
            // The space has switched to another embedding model: the next run uses that one.
            return Err(WriteError::Job(JobError::Interrupted));
        }

        let count = match (filed, &searched.model) {
            (true, Some(_)) => range.len(),
            _ => searched.chunks.len(),
        };
        written.searched += i64::try_from(count).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Adds the chunks of a version to the counts of their categories, or subtracts them.
    pub(super) async fn count(
        &self,
        tx: &mut Tx,
        version_id: Option<i64>,
        sign: i64,
    ) -> Result<Vec<LeafGrowth>, WriteError> {
        let Some(version_id) = version_id else {
            return Ok(Vec::new());
        };
        let space = self.context.space();
        let counts = tx
            .count_version_chunks(space, version_id)
            .await
            .during("count chunks", "chunks")?;

        self.add_counts(
            tx,
            &counts
                .into_iter()
                .map(|(id, count)| (id, sign * count))
                .collect(),
        )
        .await
    }

    pub(super) async fn add_counts(
        &self,
        tx: &mut Tx,
        counts: &BTreeMap<i64, i64>,
    ) -> Result<Vec<LeafGrowth>, WriteError> {
        tx.add_chunk_counts(self.context.space(), counts)
            .await
            .during("count chunks", "categories")
    }

    /// The ids of the leaves of these paths, as far as they exist. Most texts need no new category,
    /// and then not all of the hierarchy is read while other writers wait. Where a category was
    /// renamed, moved or merged, the former name leads to it too.
    async fn find_leaves(
        &self,
        tx: &mut Tx,
        paths: &[Vec<String>],
    ) -> Result<FoundLeaves, WriteError> {
        let depth = usize::try_from(self.taxonomy.depth()).unwrap_or(0);
        let mut leaves = FoundLeaves {
            ids: vec![Some(0); paths.len()],
            renamed: Vec::new(),
        };

        for place in 0..depth {
            let named = |(id, path): (&Option<i64>, &Vec<String>)| {
                let name = path.get(place).map_or("", String::as_str);
                id.map(|id| (id, name_key(name)))
            };
            let keys: Vec<Option<(i64, String)>> =
                leaves.ids.iter().zip(paths).map(named).collect();
            let distinct: BTreeSet<(i64, String)> = keys.iter().flatten().cloned().collect();
            let found = tx.list_categories_named(self.context.space(), &distinct);
            let found = found.await.during("read the hierarchy", "categories")?;
            let missing: BTreeSet<(i64, String)> = distinct
                .into_iter()
                .filter(|key| !found.contains_key(key))
                .collect();
            let former = tx.list_aliases(self.context.space(), &missing);
            let former = former
                .await
                .during("read former names", "category_aliases")?;
            let present: Vec<i64> = former.values().copied().collect();
            let present = tx.list_paths(self.context.space(), &present);
            let present = present.await.during("read the hierarchy", "categories")?;

            for (number, key) in keys.iter().enumerate() {
                let id = key.as_ref().and_then(|key| found.get(key)).copied();
                let alias = key.as_ref().and_then(|key| former.get(key)).copied();
                leaves.ids[number] = id.or(alias);
                if let Some(path) = alias.and_then(|id| present.get(&id)) {
                    leaves.renamed.push((number, place, path.clone()));
                }
            }
        }

        Ok(leaves)
    }

    /// The ids of the leaves of these paths, created where missing; and how many were created.
    async fn resolve(
        &self,
        tx: &mut Tx,
        paths: &[Vec<String>],
        growth: &mut Growth,
        call: &CallContext,
    ) -> Result<(Vec<i64>, i64), WriteError> {
        let space = &call.space;
        let found = self.find_leaves(tx, paths).await?;
        if let Some(leaves) = found.ids.iter().copied().collect() {
            return Ok((leaves, 0));
        }

        let mut paths = paths.to_vec();
        for (number, place, path) in found.renamed {
            paths[number].splice(..=place, path);
        }

        let mut tree = Tree::to_write(self.taxonomy.clone());
        if self.taxonomy.scope() == LimitScope::Level {
            let all = tx
                .list_categories(space)
                .await
                .during("read the hierarchy", "categories")?;
            tree.load(&all);
        }

        let mut nodes = vec![ROOT; paths.len()];
        let mut made = 0;
        for level in 1..=self.taxonomy.depth() {
            if self.taxonomy.scope() == LimitScope::Parent {
                let parents: BTreeSet<i64> =
                    nodes.iter().filter_map(|node| tree.stored(*node)).collect();
                let parents: Vec<i64> = parents.into_iter().collect();
                tree.load(
                    &tx.list_children(space, &parents)
                        .await
                        .during("read the hierarchy", "categories")?,
                );
            }

            let place = usize::try_from(level - 1).unwrap_or(0);
            for (node, path) in nodes.iter_mut().zip(&paths) {
                *node = tree
                    .choose(*node, path.get(place).map_or("", String::as_str))
                    .ok_or(WriteError::NoRoom)?;
            }

            let new = tree.new_on(level, self.named_by);
            if new.is_empty() {
                continue;
            }

            made += i64::try_from(new.len()).unwrap_or(i64::MAX);
            tx.add_categories(space, &new, call.now)
                .await
                .during("add categories", "categories")?;
            let parents: BTreeSet<i64> = new
                .iter()
                .map(|category| category.parent_id.unwrap_or(0))
                .collect();

            let parents: Vec<i64> = parents.into_iter().collect();
            let children = tx
                .list_children(space, &parents)
                .await
                .during("read the hierarchy", "categories")?;
            growth.note_children(&children, self.taxonomy);
            tree.load(&children);
        }

        let ids: Option<Vec<i64>> = nodes.into_iter().map(|node| tree.stored(node)).collect();
        ids.map(|ids| (ids, made)).ok_or_else(|| WriteError::Store {
            operation: "add categories",
            table: "categories",
            error: StoreError::Broken {
                cause: "a new category is missing".to_owned(),
            },
        })
    }
}
