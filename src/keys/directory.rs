//! All keys, in memory. A counter in the database tells when the table has changed; it is read at
//! most once per [`FRESH`], by the first request after that time. So an unknown key costs no
//! statement either.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;

use super::Key;
use crate::config::Auth;
use crate::store::{Store, StoreError};

/// How long the cached table counts as current: a key that another process created or revoked is
/// seen within this time.
pub const FRESH: Duration = Duration::from_secs(2);
/// How long a request waits for the counter, and for the whole table if it has changed.
const PATIENCE: Duration = Duration::from_secs(1);
const RELOAD: Duration = Duration::from_secs(10);

/// Keys by digest.
type Table = Arc<HashMap<[u8; 32], Arc<Key>>>;

pub struct Directory {
    store: Store,
    config: Vec<Arc<Key>>,
    known: RwLock<LoadedKeys>,
    /// Set once the table had a row: from then on the service requires keys until it restarts.
    had_keys: AtomicBool,
    /// One check of the database at a time; the others wait for it.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct LoadedKeys {
    table: Table,
    /// Number of rows in the table, including unreadable ones.
    rows: usize,
    /// The counter's value when the table was read.
    changes: i64,
    checked: Instant,
    /// Why the last check failed.
    failure: Option<StoreError>,
}

impl Directory {
    pub async fn load(store: Store, auth: &Auth) -> Result<Self, StoreError> {
        let config = auth
            .keys
            .iter()
            .map(|key| Arc::new(Key::of_config(key)))
            .collect();

        // Before the table, so that the next check finds a change in between.
        let changes = store.find_key_changes().await?;
        let (table, rows) = read(&store).await?;
        let known = RwLock::new(LoadedKeys {
            table,
            rows,
            changes,
            checked: Instant::now(),
            failure: None,
        });

        let (had_keys, turn) = (AtomicBool::new(rows > 0), tokio::sync::Mutex::default());
        Ok(Self {
            store,
            config,
            known,
            had_keys,
            turn,
        })
    }

    /// Whether there is any key, or was one since the start.
    pub async fn has_keys(&self) -> bool {
        if !self.config.is_empty() {
            return true;
        }

        // The last known keys apply while the database is unreachable.
        let _ = self.current().await;
        self.had_keys.load(Ordering::Relaxed)
    }

    pub async fn find(&self, digest: &[u8; 32]) -> Result<Option<Arc<Key>>, StoreError> {
        // Compares with every key, so that the time reveals nothing about a near match.
        let mut found = None;
        for key in &self.config {
            if bool::from(key.digest.ct_eq(digest)) {
                found = Some(Arc::clone(key));
            }
        }

        if found.is_some() {
            return Ok(found);
        }

        Ok(self.current().await?.get(digest).cloned())
    }

    /// Every key, as the database has them now.
    pub async fn list(&self) -> Result<Vec<Arc<Key>>, StoreError> {
        let changes = self.store.find_key_changes().await?;
        let (table, rows) = read(&self.store).await?;
        self.learn(LoadedKeys {
            table: Arc::clone(&table),
            rows,
            changes,
            checked: Instant::now(),
            failure: None,
        });

        Ok(self.config.iter().chain(table.values()).cloned().collect())
    }

    async fn current(&self) -> Result<Table, StoreError> {
        if let Some(known) = self.fresh() {
            return known;
        }

        let _turn = self.turn.lock().await;
        // Another task may have checked in the meantime.
        if let Some(known) = self.fresh() {
            return known;
        }

        let known = self.known();
        let (next, answer) = match self.look(&known).await {
            Ok(next) => (next.clone(), Ok(next.table)),
            Err(error) => (
                LoadedKeys {
                    failure: Some(error.clone()),
                    ..known
                },
                Err(error),
            ),
        };

        self.learn(LoadedKeys {
            checked: Instant::now(),
            ..next
        });

        answer
    }

    async fn look(&self, known: &LoadedKeys) -> Result<LoadedKeys, StoreError> {
        let changes = self.within(PATIENCE, self.store.find_key_changes()).await?;
        let (table, rows) = if changes == known.changes {
            (Arc::clone(&known.table), known.rows)
        } else {
            self.within(RELOAD, read(&self.store)).await?
        };

        Ok(LoadedKeys {
            table,
            rows,
            changes,
            checked: known.checked,
            failure: None,
        })
    }

    async fn within<T>(
        &self,
        patience: Duration,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(patience, answer)
            .await
            .unwrap_or_else(|_| Err(self.store.unanswered(patience)))
    }

    fn fresh(&self) -> Option<Result<Table, StoreError>> {
        let known = self.known();
        (known.checked.elapsed() < FRESH).then(|| known.failure.map_or(Ok(known.table), Err))
    }

    fn known(&self) -> LoadedKeys {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Never goes back: a table that was read before a key was revoked must not restore the key.
    fn learn(&self, next: LoadedKeys) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if next.changes >= known.changes {
            if next.rows > 0 {
                self.had_keys.store(true, Ordering::Relaxed);
            }
            *known = next;
        }
    }
}

/// The readable keys, and the number of rows.
async fn read(store: &Store) -> Result<(Table, usize), StoreError> {
    let rows = store.list_api_keys().await?;
    let keys = rows
        .iter()
        .filter_map(Key::of_row)
        .map(|key| (key.digest, Arc::new(key)));

    let table: HashMap<_, _> = keys.collect();
    if table.len() < rows.len() {
        tracing::error!(
            unreadable = rows.len() - table.len(),
            "some stored API keys cannot be parsed; they are rejected"
        );
    }

    Ok((Arc::new(table), rows.len()))
}
