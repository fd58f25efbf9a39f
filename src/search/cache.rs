//! The in-memory indexes: loaded by the first search of a space, updated when its write counter
//! changes, evicted when others need the memory. Each user whose memories are searched has an index
//! of their own, so that nobody waits for the memories of others to be loaded.

mod loading;
mod memory_limit;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use memoir_index::{Index, Merged, OwnerKind, SearchSize, VectorModel};
use memory_limit::WholeSize;

use crate::base::ids::Space;
use crate::store::{Store, StoreError};

/// An index that was not updated for longer is loaded again, because the rows that tell of changes
/// are deleted after two days.
const MAX_IDLE: Duration = Duration::from_hours(24);

/// A space, and what is searched in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct IndexKey {
    space: Space,
    kind: OwnerKind,
    /// Only the entries of this group.
    group: Option<String>,
}

/// How often entries were written: those of memories by group, those of sources in the whole space.
type Writes = BTreeMap<String, i64>;

/// Keeps indexes by space and kind; cheap to clone.
#[derive(Clone)]
pub struct IndexCache {
    store: Store,
    most_bytes: u64,
    spaces: Arc<Mutex<HashMap<IndexKey, Arc<SpaceIndex>>>>,
    /// About how much memory all indexes use.
    held: Arc<AtomicU64>,
    sizes: Arc<Mutex<HashMap<(Space, OwnerKind), WholeSize>>>,
    clock: Arc<AtomicU64>,
}

/// One index, and what is known of it.
#[derive(Default)]
pub struct SpaceIndex {
    /// One task at a time reads what is new; all others wait for it.
    known: tokio::sync::Mutex<LoadState>,
    /// A snapshot: searches work with it while a newer one takes its place.
    index: RwLock<Arc<Index>>,
    /// Whether a task merges its segments.
    merging: AtomicBool,
    used: AtomicU64,
    /// Its size, to be read without a lock.
    bytes: AtomicU64,
}

#[derive(Default)]
struct LoadState {
    /// The counts of writes when it was read; none before it ever was.
    writes: Option<Writes>,
    /// Whether vectors were loaded too.
    vectors: bool,
    /// Whether the vectors and the rest together exceed the memory.
    vectors_too_big: bool,
    /// The size of the space, if even the terms exceed the memory.
    too_big: Option<SearchSize>,
    /// When it was last updated.
    read_at: Option<Instant>,
}

impl LoadState {
    /// Where to search, if the index is up to date.
    fn location(
        &self,
        entry: &Arc<SpaceIndex>,
        writes: &Writes,
        vectors: bool,
    ) -> Option<Location> {
        if self.writes.is_none() || !self.changed(writes).is_empty() {
            return None;
        }
        match self.too_big {
            Some(size) => Some(Location::Database(size)),
            None if vectors && self.vectors_too_big => {
                Some(Location::Database(entry.index().live_size()))
            }
            None if vectors && !self.vectors => None,
            None => Some(Location::Memory(Arc::clone(entry))),
        }
    }

    fn is_old(&self) -> bool {
        self.read_at
            .is_some_and(|read_at| read_at.elapsed() > MAX_IDLE)
    }

    /// The counts that are higher now.
    fn changed(&self, writes: &Writes) -> Vec<String> {
        let read = |group: &String| self.writes.as_ref().and_then(|read| read.get(group));
        writes
            .iter()
            .filter(|(group, count)| read(group).is_none_or(|read| read < *count))
            .map(|(group, _)| group.clone())
            .collect()
    }
}

/// Where a space can be searched.
pub enum Location {
    Memory(Arc<SpaceIndex>),
    /// It does not fit; with its size.
    Database(SearchSize),
}

impl SpaceIndex {
    fn of(kind: OwnerKind) -> Self {
        Self {
            index: RwLock::new(Arc::new(Index::of(kind, None))),
            ..Self::default()
        }
    }

    /// The current snapshot.
    pub fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, index: Index) {
        let bytes = u64::try_from(index.bytes()).unwrap_or(u64::MAX);
        self.bytes.store(bytes, Ordering::Relaxed);
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(index);
    }
}

/// Merges segments of similar size one by one, while searches and updates go on.
fn merge_in_background(entry: &Arc<SpaceIndex>) {
    if entry.index().mergeable().is_none() || entry.merging.swap(true, Ordering::Relaxed) {
        return;
    }

    let entry = Arc::clone(entry);
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    tokio::spawn(async move {
        while let Some(parts) = entry.index().mergeable() {
            let Ok(merged) = blocking(move || Merged::of(parts)).await else {
                break;
            };

            // Updates wait for this moment only.
            let _known = entry.known.lock().await;
            let mut index = Index::clone(&entry.index());
            if index.merge(&merged) {
                entry.replace(index);
            }
        }

        entry.merging.store(false, Ordering::Relaxed);
    });
}

impl IndexCache {
    pub fn new(store: Store, memory_mb: u64) -> Self {
        let most_bytes = memory_mb.saturating_mul(1024 * 1024);
        Self {
            store,
            most_bytes,
            spaces: Arc::default(),
            held: Arc::default(),
            sizes: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// The index of a kind with everything that was written before, or of one of its groups with
    /// everything that was written to it; with its vectors if they are wanted.
    pub async fn of(
        &self,
        space: &Space,
        kind: OwnerKind,
        group: Option<&str>,
        vectors: bool,
    ) -> Result<Location, StoreError> {
        let key = IndexKey {
            space: space.clone(),
            kind,
            group: group.map(ToOwned::to_owned),
        };

        // Read first, so that later writes count as another change.
        let Some(group) = group else {
            let writes = self.store.list_entry_writes(space).await?;
            return self.open(key, writes, vectors).await;
        };

        let mut writes = self.store.list_memory_writes(space, group).await?;
        if !writes.contains_key(group) {
            // Nothing was ever written there.
            writes.clear();
        }
        match self.open(key, writes, vectors).await? {
            // The database weights words by the whole space.
            Location::Database(_) => Ok(Location::Database(self.whole_size(space, kind).await?)),
            found @ Location::Memory(_) => Ok(found),
        }
    }

    /// The index of the chunks of a space, and the one of what is said about their sources.
    pub async fn of_chunks(
        &self,
        space: &Space,
        vectors: bool,
    ) -> Result<(Location, Location), StoreError> {
        // Both count the same writes.
        let writes = self.store.list_entry_writes(space).await?;
        let key = |kind| IndexKey {
            space: space.clone(),
            kind,
            group: None,
        };
        tokio::try_join!(
            self.open(key(OwnerKind::Chunk), writes.clone(), vectors),
            self.open(key(OwnerKind::Source), writes.clone(), false),
        )
    }

    async fn open(
        &self,
        key: IndexKey,
        writes: Writes,
        vectors: bool,
    ) -> Result<Location, StoreError> {
        let kind = key.kind;
        if writes.values().all(|count| *count == 0) {
            // Nothing was ever written there, so nothing is cached.
            return Ok(Location::Memory(Arc::new(SpaceIndex::of(kind))));
        }

        let entry = {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(SpaceIndex::of(kind));
            Arc::clone(spaces.entry(key.clone()).or_insert_with(new))
        };

        entry.used.store(
            self.clock.fetch_add(1, Ordering::Relaxed) + 1,
            Ordering::Relaxed,
        );

        let location = entry.known.lock().await.location(&entry, &writes, vectors);
        if let Some(location) = location {
            return Ok(location);
        }

        let cache = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "must outlive a disconnected caller, or half of it would be read twice"
        )]
        let read =
            tokio::spawn(async move { cache.bring_up(&key, &entry, &writes, vectors).await });
        read.await.unwrap_or_else(|_| Err(stopped()))
    }

    async fn bring_up(
        &self,
        key: &IndexKey,
        entry: &Arc<SpaceIndex>,
        writes: &Writes,
        vectors: bool,
    ) -> Result<Location, StoreError> {
        let mut known = entry.known.lock().await;
        loop {
            // Another task may have done it while this one waited.
            if let Some(location) = known.location(entry, writes, vectors) {
                return Ok(location);
            }

            let before = entry.bytes.load(Ordering::Relaxed);
            self.refresh(key, entry, &mut known, writes, vectors)
                .await?;
            self.make_room(key, before);
        }
    }

    async fn refresh(
        &self,
        key: &IndexKey,
        entry: &Arc<SpaceIndex>,
        known: &mut LoadState,
        writes: &Writes,
        vectors: bool,
    ) -> Result<(), StoreError> {
        let index = entry.index();
        let usable = known.too_big.is_none() && !known.is_old();
        let since = known.writes.clone().filter(|_| usable);
        let size = match since {
            Some(_) => index.whole_size(),
            None => self.size_of(key).await?,
        };

        if !self.fits(key, size, false).await? {
            entry.replace(Index::of(key.kind, None));
            *known = LoadState {
                writes: Some(writes.clone()),
                too_big: Some(size),
                ..LoadState::default()
            };

            return Ok(());
        }

        let wanted = vectors || known.vectors;
        let vectors = wanted && self.fits(key, size, true).await?;
        let model = if vectors {
            self.vector_model(key, index.model()).await?
        } else {
            None
        };

        let updated = match since {
            Some(since) if index.model() == model.as_ref() => {
                let changed = known.changed(writes);
                self.update(key, Index::clone(&index), &since, &changed)
                    .await?
            }
            _ => None,
        };

        // Loaded separately, so that running searches continue with the previous index.
        let updated = match updated {
            Some(updated) => updated,
            None => self.load(key, model).await?,
        };

        entry.replace(updated);
        *known = LoadState {
            writes: Some(writes.clone()),
            vectors,
            vectors_too_big: wanted && !vectors,
            too_big: None,
            read_at: Some(Instant::now()),
        };

        merge_in_background(entry);
        Ok(())
    }

    /// The number and length of the entries of an index.
    async fn size_of(&self, key: &IndexKey) -> Result<SearchSize, StoreError> {
        let IndexKey { space, kind, group } = key;
        let group = group.as_deref();
        self.store.find_search_size(space, *kind, group).await
    }

    /// The model of a space's vectors; `None` if there are none.
    async fn vector_model(
        &self,
        IndexKey { space, kind, .. }: &IndexKey,
        known: Option<&VectorModel>,
    ) -> Result<Option<VectorModel>, StoreError> {
        let Some(name) = self.store.find_embedding_model(space).await? else {
            return Ok(None);
        };
        if let Some(known) = known.filter(|known| *known.name == *name) {
            return Ok(Some(known.clone()));
        }

        let dim = self.store.find_vector_dim(space, *kind, &name).await?;
        Ok(dim.map(|dim| VectorModel {
            name: name.into(),
            dims: usize::try_from(dim).unwrap_or(0),
        }))
    }

    /// Bytes of all indexes.
    pub fn index_bytes(&self) -> u64 {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |entry: &Arc<SpaceIndex>| entry.bytes.load(Ordering::Relaxed);
        spaces.values().map(bytes).sum()
    }

    /// Bytes of the vectors held for a space.
    pub fn vector_bytes(&self, space: &Space) -> usize {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let held = spaces.iter().filter(|(key, _)| key.space == *space);
        held.map(|(_, entry)| entry.index().vector_bytes()).sum()
    }
}

/// Computes without blocking other requests.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| stopped())
}

/// A panic message may quote the text.
fn stopped() -> StoreError {
    StoreError::Broken {
        cause: "a search failed because of an internal error".to_owned(),
    }
}
