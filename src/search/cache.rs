//! The in-memory indexes: loaded by the first search of a space, updated when its write counter
//! changes, evicted when others need the memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::index::{Index, MOST_ROWS};
use crate::base::ids::Space;
use crate::model::search::{OwnerKind, SearchGroup, SearchSize};
use crate::store::{Store, StoreError};

/// Chunks and vectors read at once.
const PAGE: usize = 4_000;
/// How many of these are added while searches wait.
const HELD: usize = 250;
/// Maximum bytes of memory per term of a chunk and per chunk; known before any is read.
const TERM_BYTES: u64 = 8;
const ENTRY_BYTES: u64 = 256;

/// A space and a kind of owner.
type Place = (Space, OwnerKind);
/// Counts of writes to entries, by group; for chunks, one count under an empty name.
type Writes = BTreeMap<String, i64>;

/// Keeps indexes by space and kind; cheap to clone.
#[derive(Clone)]
pub struct IndexCache {
    store: Store,
    most_bytes: u64,
    spaces: Arc<Mutex<HashMap<Place, Arc<SpaceIndex>>>>,
    clock: Arc<AtomicU64>,
}

/// One index and its state.
#[derive(Default)]
pub struct SpaceIndex {
    /// One task at a time loads new entries; the others wait for it.
    known: tokio::sync::Mutex<Known>,
    index: RwLock<Index>,
    used: AtomicU64,
    /// Its size, readable without a lock.
    bytes: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// The counts of writes when it was loaded; none before the first load.
    writes: Option<Writes>,
    /// Whether vectors were loaded too.
    vectors: bool,
    /// Whether the vectors and the rest together exceed the memory.
    vectors_too_big: bool,
    /// The size of the space, if even the terms exceed the memory.
    too_big: Option<SearchSize>,
}

impl Known {
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

    /// The groups that have changed since.
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
            index: RwLock::new(Index::of(kind)),
            ..Self::default()
        }
    }

    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn measure(&self) {
        self.bytes.store(
            u64::try_from(self.index().bytes()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }
}

impl IndexCache {
    pub fn new(store: Store, memory_mb: u64) -> Self {
        let most_bytes = memory_mb.saturating_mul(1024 * 1024);
        Self {
            store,
            most_bytes,
            spaces: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// The up-to-date index of a space and kind, with its vectors if requested.
    pub async fn of(
        &self,
        space: &Space,
        kind: OwnerKind,
        vectors: bool,
    ) -> Result<Location, StoreError> {
        // Read first, so that later writes count as another change.
        let writes = self.store.list_entry_writes(space, kind).await?;
        if writes.values().all(|count| *count == 0) {
            // Nothing was ever written there, so nothing is cached.
            return Ok(Location::Memory(Arc::new(SpaceIndex::of(kind))));
        }

        let place = (space.clone(), kind);
        let entry = {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(SpaceIndex::of(kind));
            Arc::clone(spaces.entry(place.clone()).or_insert_with(new))
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
            tokio::spawn(async move { cache.bring_up(&place, &entry, &writes, vectors).await });
        read.await.unwrap_or_else(|_| Err(stopped()))
    }

    async fn bring_up(
        &self,
        place: &Place,
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

            self.refresh(place, entry, &mut known, writes, vectors)
                .await?;
            self.make_room(place);
        }
    }

    async fn refresh(
        &self,
        place: &Place,
        entry: &Arc<SpaceIndex>,
        known: &mut Known,
        writes: &Writes,
        vectors: bool,
    ) -> Result<(), StoreError> {
        let (space, kind) = place;
        let mut anew = known.writes.is_none() || known.too_big.is_some() || entry.index().is_worn();
        let changed = known.changed(writes);
        let mut new = None;
        if !anew && *kind != OwnerKind::Chunk {
            let ids = self
                .store
                .list_group_entries(space, *kind, &changed)
                .await?;
            new = entry.change(|index| index.compare(&changed, &ids));
            anew = new.is_none();
        }

        let size = if anew {
            self.store.find_search_size(space, *kind).await?
        } else {
            entry.index().whole_size()
        };

        if !self.fits(place, size, false).await? {
            entry.change(|index| *index = Index::of(*kind));
            entry.measure();
            *known = Known {
                writes: Some(writes.clone()),
                too_big: Some(size),
                ..Known::default()
            };

            return Ok(());
        }

        let wanted = vectors || known.vectors;
        let vectors = wanted && self.fits(place, size, true).await?;
        if known.vectors && !vectors {
            entry.change(Index::drop_vectors);
        }

        if anew {
            // Built separately, so that running searches continue with the previous index.
            let fresh = Arc::new(SpaceIndex::of(*kind));
            self.load_entries(place, &fresh, writes).await?;
            if vectors {
                self.load_vectors(place, &fresh, &[]).await?;
            }

            let mut index = fresh.change(std::mem::take);
            index = blocking(move || {
                index.settle();
                index
            })
            .await?;

            entry.change(|former| *former = index);
        } else {
            if let Some(new) = new {
                self.add_entries(place, entry, &new, writes).await?;
            } else if !changed.is_empty() {
                self.load_entries(place, entry, writes).await?;
            }

            if vectors {
                self.load_vectors(place, entry, &changed).await?;
            }
        }

        entry.measure();
        *known = Known {
            writes: Some(writes.clone()),
            vectors,
            vectors_too_big: wanted && !vectors,
            too_big: None,
        };

        Ok(())
    }

    /// Whether a space's index fits into the memory for all of them.
    async fn fits(
        &self,
        (space, kind): &Place,
        size: SearchSize,
        vectors: bool,
    ) -> Result<bool, StoreError> {
        let [entries, terms] =
            [size.entries, size.terms].map(|number| u64::try_from(number).unwrap_or(0));
        let mut bytes = entries * ENTRY_BYTES + terms * TERM_BYTES;
        if vectors && let Some(model) = self.store.find_embedding_model(space).await? {
            let dim = self.store.find_vector_dim(space, *kind, &model).await?;
            bytes += entries * u64::try_from(dim.unwrap_or(0)).unwrap_or(0) * 4;
        }

        Ok(bytes <= self.most_bytes
            && usize::try_from(entries).is_ok_and(|entries| entries < MOST_ROWS))
    }

    /// Loads entries after the last one, and the current state of every group.
    async fn load_entries(
        &self,
        place: &Place,
        entry: &Arc<SpaceIndex>,
        writes: &Writes,
    ) -> Result<(), StoreError> {
        let (space, kind) = place;
        let after = entry.index().last();
        let mut rows = self.store.list_entries(space, *kind, after, PAGE).await?;
        while let Some(last) = rows.last().map(|row| row.id) {
            let full = rows.len() == PAGE;
            let next = async {
                if full {
                    self.store.list_entries(space, *kind, last, PAGE).await
                } else {
                    Ok(Vec::new())
                }
            };

            let entry = Arc::clone(entry);
            let add = move || {
                rows.chunks(HELD)
                    .for_each(|some| entry.change(|index| index.add(some)));
            };

            // The database reads the next page while this one is processed.
            let (next, added) = tokio::join!(next, blocking(add));
            added?;
            rows = next?;
        }

        self.load_groups(place, entry, writes).await
    }

    /// Adds entries after the last one, and the current state of every group.
    async fn add_entries(
        &self,
        place: &Place,
        entry: &Arc<SpaceIndex>,
        ids: &[i64],
        writes: &Writes,
    ) -> Result<(), StoreError> {
        for some in ids.chunks(HELD) {
            let rows = self.store.list_entries_of(&place.0, some).await?;
            let entry = Arc::clone(entry);
            blocking(move || entry.change(|index| index.add(&rows))).await?;
        }

        self.load_groups(place, entry, writes).await
    }

    async fn load_groups(
        &self,
        (space, kind): &Place,
        entry: &Arc<SpaceIndex>,
        writes: &Writes,
    ) -> Result<(), StoreError> {
        let groups = match kind {
            OwnerKind::Chunk => self.store.list_search_groups(space).await?,
            OwnerKind::Memory => writes.keys().map(|id| unversioned(id)).collect(),
        };

        let entry = Arc::clone(entry);
        blocking(move || entry.change(|index| index.set_groups(&groups))).await
    }

    /// New vectors; all of them if the space has switched to another model.
    async fn load_vectors(
        &self,
        (space, kind): &Place,
        entry: &Arc<SpaceIndex>,
        changed: &[String],
    ) -> Result<(), StoreError> {
        let Some(model) = self.store.find_embedding_model(space).await? else {
            return Ok(());
        };
        let after = if entry.index().model() == Some(model.as_str()) {
            entry.index().last_vector()
        } else {
            None
        };

        if after.is_some() && *kind != OwnerKind::Chunk {
            return self.add_vectors(space, *kind, entry, &model, changed).await;
        }

        if after.is_none() {
            let Some(dim) = self.store.find_vector_dim(space, *kind, &model).await? else {
                return Ok(());
            };
            let dims = usize::try_from(dim).unwrap_or(0);
            entry.change(|index| index.begin_vectors(&model, dims));
        }

        let mut rows = self
            .store
            .list_vectors(space, *kind, &model, after.unwrap_or(0), PAGE)
            .await?;

        while let Some(last) = rows.last().map(|row| row.entry_id) {
            let full = rows.len() == PAGE;
            let next = async {
                if full {
                    let list = self.store.list_vectors(space, *kind, &model, last, PAGE);
                    list.await
                } else {
                    Ok(Vec::new())
                }
            };

            let entry = Arc::clone(entry);
            let add = move || {
                rows.chunks(HELD)
                    .for_each(|some| entry.change(|index| index.add_vectors(some)));
            };

            let (next, added) = tokio::join!(next, blocking(add));
            added?;
            rows = next?;
        }

        entry.change(Index::finish_vectors);
        Ok(())
    }

    /// Adds vectors of entries without one, in the groups that have changed.
    async fn add_vectors(
        &self,
        space: &Space,
        kind: OwnerKind,
        entry: &Arc<SpaceIndex>,
        model: &str,
        changed: &[String],
    ) -> Result<(), StoreError> {
        let bare = entry.index().without_vectors(changed);
        for some in bare.chunks(HELD) {
            let rows = self.store.list_vectors_of(space, kind, model, some).await?;
            let entry = Arc::clone(entry);
            blocking(move || entry.change(|index| index.add_vectors(&rows))).await?;
        }

        Ok(())
    }

    /// Evicts the least recently searched indexes until all fit; never the one just requested.
    fn make_room(&self, place: &Place) {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |entry: &Arc<SpaceIndex>| entry.bytes.load(Ordering::Relaxed);
        let mut all: u64 = spaces.values().map(size).fold(0, u64::saturating_add);

        while all > self.most_bytes {
            let others = spaces
                .iter()
                .filter(|(other, entry)| *other != place && size(entry) > 0);
            let oldest = others.min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
            let Some((oldest, entry)) =
                oldest.map(|(oldest, entry)| (oldest.clone(), Arc::clone(entry)))
            else {
                return;
            };

            // A running search still holds it.
            spaces.remove(&oldest);
            all = all.saturating_sub(size(&entry));
        }
    }

    /// Bytes of the vectors held for a space.
    pub fn vector_bytes(&self, space: &Space) -> usize {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let held = spaces.iter().filter(|((held, _), _)| held == space);
        held.map(|(_, entry)| entry.index().vector_bytes()).sum()
    }
}

/// A group whose entries have no versions.
fn unversioned(id: &str) -> SearchGroup {
    SearchGroup {
        id: id.to_owned(),
        version_id: Some(0),
        eligible: true,
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
