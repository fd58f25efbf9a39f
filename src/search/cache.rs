//! The in-memory indexes: loaded by the first search of a space, updated when its write counter
//! changes, evicted when others need the memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::index::{Index, MOST_ROWS};
use crate::base::ids::Space;
use crate::model::search::SearchSize;
use crate::store::{Store, StoreError};

/// Chunks and vectors read at once.
const PAGE: usize = 4_000;
/// How many of these are added while searches wait.
const HELD: usize = 250;
/// Maximum bytes of memory per term of a chunk and per chunk; known before any is read.
const TERM_BYTES: u64 = 8;
const CHUNK_BYTES: u64 = 256;

/// Indexes by space; cheap to clone.
#[derive(Clone)]
pub struct IndexCache {
    store: Store,
    most_bytes: u64,
    spaces: Arc<Mutex<HashMap<Space, Arc<Entry>>>>,
    clock: Arc<AtomicU64>,
}

/// One space's index.
#[derive(Default)]
pub struct Entry {
    /// One task at a time reads what is new; all others wait for it.
    known: tokio::sync::Mutex<Known>,
    index: RwLock<Index>,
    used: AtomicU64,
    /// Its size, to be read without a lock.
    bytes: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// The space's write counter when it was read; `None` before the first time.
    writes: Option<i64>,
    /// Whether vectors were loaded too.
    vectors: bool,
    /// Whether the vectors and the rest together exceed the memory.
    vectors_too_big: bool,
    /// The size of the space, if even the terms exceed the memory.
    too_big: Option<SearchSize>,
}

impl Known {
    /// Where to search, if the index is up to date.
    fn place(&self, entry: &Arc<Entry>, writes: i64, vectors: bool) -> Option<Place> {
        if self.writes.is_none_or(|read| read < writes) {
            return None;
        }
        match self.too_big {
            Some(size) => Some(Place::Database(size)),
            None if vectors && self.vectors_too_big => {
                Some(Place::Database(entry.index().live_size()))
            }
            None if vectors && !self.vectors => None,
            None => Some(Place::Memory(Arc::clone(entry))),
        }
    }
}

/// Where a space can be searched.
pub enum Place {
    Memory(Arc<Entry>),
    /// It does not fit; with its size.
    Database(SearchSize),
}

impl Entry {
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

    /// The index of a space with everything written before this call, with vectors if wanted.
    pub async fn of(&self, space: &Space, vectors: bool) -> Result<Place, StoreError> {
        // Read first, so that later writes count as another change.
        let writes = self.store.find_chunk_writes(space).await?;
        if writes == 0 {
            // Nothing was ever written there, so nothing is cached.
            return Ok(Place::Memory(Arc::default()));
        }

        let entry = {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(spaces.entry(space.clone()).or_default())
        };

        entry.used.store(
            self.clock.fetch_add(1, Ordering::Relaxed) + 1,
            Ordering::Relaxed,
        );

        if let Some(place) = entry.known.lock().await.place(&entry, writes, vectors) {
            return Ok(place);
        }

        let (cache, space) = (self.clone(), space.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "must outlive a disconnected caller, or half of it would be read twice"
        )]
        let read =
            tokio::spawn(async move { cache.bring_up(&space, &entry, writes, vectors).await });
        read.await.unwrap_or_else(|_| Err(stopped()))
    }

    async fn bring_up(
        &self,
        space: &Space,
        entry: &Arc<Entry>,
        writes: i64,
        vectors: bool,
    ) -> Result<Place, StoreError> {
        let mut known = entry.known.lock().await;
        loop {
            // Another task may have done it while this one waited.
            if let Some(place) = known.place(entry, writes, vectors) {
                return Ok(place);
            }

            self.refresh(space, entry, &mut known, writes, vectors)
                .await?;
            self.make_room(space);
        }
    }

    async fn refresh(
        &self,
        space: &Space,
        entry: &Arc<Entry>,
        known: &mut Known,
        writes: i64,
        vectors: bool,
    ) -> Result<(), StoreError> {
        let anew = known.writes.is_none() || known.too_big.is_some() || entry.index().is_worn();
        let size = if anew {
            self.store.find_search_size(space).await?
        } else {
            entry.index().whole_size()
        };

        if !self.fits(space, size, false).await? {
            entry.change(|index| *index = Index::default());
            entry.measure();
            *known = Known {
                writes: Some(writes),
                too_big: Some(size),
                ..Known::default()
            };

            return Ok(());
        }

        let wanted = vectors || known.vectors;
        let vectors = wanted && self.fits(space, size, true).await?;
        if known.vectors && !vectors {
            entry.change(Index::drop_vectors);
        }

        if anew {
            // Built separately, so that running searches continue with the previous index.
            let fresh = Arc::new(Entry::default());
            self.load_terms(space, &fresh).await?;
            if vectors {
                self.load_vectors(space, &fresh).await?;
            }

            let mut index = fresh.change(std::mem::take);
            index = blocking(move || {
                index.settle();
                index
            })
            .await?;

            entry.change(|former| *former = index);
        } else {
            if known.writes != Some(writes) {
                self.load_terms(space, entry).await?;
            }
            if vectors {
                self.load_vectors(space, entry).await?;
            }
        }

        entry.measure();
        *known = Known {
            writes: Some(writes),
            vectors,
            vectors_too_big: wanted && !vectors,
            too_big: None,
        };

        Ok(())
    }

    /// Whether a space's index fits into the memory for all of them.
    async fn fits(
        &self,
        space: &Space,
        size: SearchSize,
        vectors: bool,
    ) -> Result<bool, StoreError> {
        let [chunks, terms] =
            [size.chunks, size.terms].map(|number| u64::try_from(number).unwrap_or(0));
        let mut bytes = chunks * CHUNK_BYTES + terms * TERM_BYTES;
        if vectors && let Some(model) = self.store.find_embedding_model(space).await? {
            let dim = self
                .store
                .find_vector_dim(space, &model)
                .await?
                .unwrap_or(0);
            bytes += chunks * u64::try_from(dim).unwrap_or(0) * 4;
        }

        Ok(bytes <= self.most_bytes
            && usize::try_from(chunks).is_ok_and(|chunks| chunks < MOST_ROWS))
    }

    /// New chunks, and the current version of every source.
    async fn load_terms(&self, space: &Space, entry: &Arc<Entry>) -> Result<(), StoreError> {
        let after = entry.index().last();
        let mut rows = self.store.list_terms(space, after, PAGE).await?;
        while let Some(last) = rows.last().map(|row| row.chunk_id) {
            let full = rows.len() == PAGE;
            let next = async {
                if full {
                    self.store.list_terms(space, last, PAGE).await
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

        let sources = self.store.list_search_sources(space).await?;
        let entry = Arc::clone(entry);
        blocking(move || entry.change(|index| index.set_sources(&sources))).await
    }

    /// New vectors; all of them if the space has switched to another model.
    async fn load_vectors(&self, space: &Space, entry: &Arc<Entry>) -> Result<(), StoreError> {
        let Some(model) = self.store.find_embedding_model(space).await? else {
            return Ok(());
        };
        let mut after = if entry.index().model() == Some(model.as_str()) {
            entry.index().last_vector()
        } else {
            None
        };

        if after.is_none() {
            let Some(dim) = self.store.find_vector_dim(space, &model).await? else {
                return Ok(());
            };
            let dims = usize::try_from(dim).unwrap_or(0);
            entry.change(|index| index.begin_vectors(&model, dims));
            after = Some(0);
        }

        let mut rows = self
            .store
            .list_vectors(space, &model, after.unwrap_or(0), PAGE)
            .await?;

        while let Some(last) = rows.last().map(|row| row.chunk_id) {
            let full = rows.len() == PAGE;
            let next = async {
                if full {
                    self.store.list_vectors(space, &model, last, PAGE).await
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

    /// Evicts the least recently searched indexes until all fit; never the one just requested.
    fn make_room(&self, space: &Space) {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |entry: &Arc<Entry>| entry.bytes.load(Ordering::Relaxed);
        let mut all: u64 = spaces.values().map(size).fold(0, u64::saturating_add);

        while all > self.most_bytes {
            let others = spaces
                .iter()
                .filter(|(other, entry)| *other != space && size(entry) > 0);
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
        spaces
            .get(space)
            .map_or(0, |entry| entry.index().vector_bytes())
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
