//! Reads the entries of an index: all of them, or what was written since it was read.

use std::collections::HashSet;

use memoir_index::{Index, VectorModel};

use super::{IndexCache, IndexKey, Writes, blocking};
use crate::store::{CHUNK_RESETS, CHUNK_WRITES, StoreError};

/// Entries and vectors read at once.
const PAGE: usize = 4_000;
/// Entries read at once by their ids.
const HELD: usize = 250;

impl IndexCache {
    /// The whole index.
    pub(super) async fn load(
        &self,
        key: &IndexKey,
        model: Option<VectorModel>,
    ) -> Result<Index, StoreError> {
        let IndexKey { space, kind, group } = key;
        let mut index = Index::of(*kind, model);
        if let Some(group) = group {
            return self.load_group(key, group, index).await;
        }

        // Before the entries, so that the entries of each current version are among them.
        let groups = self.store.list_search_groups(space).await?;
        index = self.add_new(key, index).await?.0;
        blocking(move || {
            index.update_groups(&groups);
            index.settle();
            index
        })
        .await
    }

    /// An index with what was written since; `None` if it must be loaded again.
    pub(super) async fn update(
        &self,
        key: &IndexKey,
        mut index: Index,
        since: &Writes,
        changed: &[String],
    ) -> Result<Option<Index>, StoreError> {
        let IndexKey { space, group, .. } = key;
        if changed.iter().any(|name| name == CHUNK_RESETS) {
            return Ok(None);
        }

        if let Some(group) = group {
            return self.update_group(key, group, index).await.map(Some);
        }

        let since = since.get(CHUNK_WRITES).copied().unwrap_or(0);
        let mut ids = self.store.list_search_changes(space, since).await?;

        let (added, with_entries) = self.add_new(key, index).await?;
        index = added;
        ids.extend(with_entries);
        ids.sort_unstable();
        ids.dedup();
        let groups = self.store.list_search_groups_of(space, &ids).await?;
        if !groups.iter().all(|group| index.has_current(group)) {
            // Written after the entries were read.
            index = self.add_new(key, index).await?.0;
        }

        let there: HashSet<&str> = groups.iter().map(|group| group.id.as_str()).collect();
        ids.retain(|id| !there.contains(id.as_str()));
        index.update_groups(&groups);
        index.remove_groups(&ids);
        Ok(Some(index))
    }

    /// All entries of a group.
    async fn load_group(
        &self,
        IndexKey { space, kind, .. }: &IndexKey,
        group: &str,
        mut index: Index,
    ) -> Result<Index, StoreError> {
        let ids = self.store.list_group_entries(space, *kind, group).await?;
        let mut ids: Vec<i64> = ids.into_iter().collect();
        ids.sort_unstable();
        for some in ids.chunks(PAGE) {
            let range = some[0]..=some[some.len() - 1];
            let model = index.model().map(|model| model.name.as_ref());
            let rows = self
                .store
                .list_group_rows(space, *kind, group, model, &range);
            let (entries, vectors) = rows.await?;
            index = blocking(move || {
                index.add(&entries, &vectors);
                index
            })
            .await?;
        }

        blocking(move || {
            index.settle();
            index
        })
        .await
    }

    /// What was written to a group: new entries are added, missing ones removed, and those that got
    /// a vector replaced.
    async fn update_group(
        &self,
        IndexKey { space, kind, .. }: &IndexKey,
        group: &str,
        mut index: Index,
    ) -> Result<Index, StoreError> {
        let ids = self.store.list_group_entries(space, *kind, group).await?;
        let mut new = index.compare(group, &ids);

        if let Some(model) = index.model().cloned() {
            let mut embedded = HashSet::new();
            for some in index.without_vectors(group).chunks(HELD) {
                let vectors = self
                    .store
                    .list_vectors_of(space, *kind, &model.name, some)
                    .await?;
                embedded.extend(vectors.into_iter().map(|vector| vector.entry_id));
            }

            if !embedded.is_empty() {
                index.remove_entries(group, &embedded);
                new.extend(embedded);
                new.sort_unstable();
            }
        }

        for some in new.chunks(HELD) {
            let entries = self.store.list_entries_of(space, some).await?;
            let vectors = match index.model() {
                Some(model) => {
                    let list = self.store.list_vectors_of(space, *kind, &model.name, some);
                    list.await?
                }
                None => Vec::new(),
            };

            index = blocking(move || {
                index.add(&entries, &vectors);
                index
            })
            .await?;
        }

        Ok(index)
    }

    /// Adds the entries behind the last one with their vectors; returns their groups too.
    async fn add_new(
        &self,
        IndexKey { space, kind, .. }: &IndexKey,
        mut index: Index,
    ) -> Result<(Index, Vec<String>), StoreError> {
        let model = index.model().cloned();
        let read = async |after: i64| {
            let entries = self.store.list_entries(space, *kind, after, PAGE).await?;
            let ids = entries.first().zip(entries.last());
            let ids = ids.map(|(first, last)| first.id..=last.id);
            let mut vectors = Vec::new();
            if let Some((model, ids)) = model.as_ref().zip(ids) {
                // As many as there are entries, so none of theirs is missing.
                let (before, most) = (ids.start() - 1, entries.len());
                vectors = self
                    .store
                    .list_vectors(space, *kind, &model.name, before, most)
                    .await?;
                vectors.retain(|vector| ids.contains(&vector.entry_id));
            }

            Ok::<_, StoreError>((entries, vectors))
        };

        let mut groups = Vec::new();
        let mut page = read(index.last()).await?;
        while let Some(last) = page.0.last().map(|entry| entry.id) {
            let full = page.0.len() == PAGE;
            groups.extend(page.0.iter().map(|entry| entry.group_id.clone()));
            groups.dedup();
            let next = async {
                if full {
                    read(last).await
                } else {
                    Ok((Vec::new(), Vec::new()))
                }
            };

            let add = move || {
                index.add(&page.0, &page.1);
                index
            };

            // The database reads the next page while this one is processed.
            let (next, added) = tokio::join!(next, blocking(add));
            index = added?;
            page = next?;
        }

        Ok((index, groups))
    }
}
