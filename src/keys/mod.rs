//! API keys, from the configuration and created over the API: the rules for creating them, and
//! their limits.
//!
//! `directory` holds all keys in memory, so that a request costs no statement; `rate` counts
//! requests per minute over all processes. `llm` counts what a key spends on models.

mod directory;
mod key;
mod rate;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memoir_text::field_error::FieldError;
use memoir_text::hash;
use memoir_text::text::{char_count, has_control};
use tokio_util::task::TaskTracker;

use crate::base::clock::{Clock, Timestamp};
use crate::base::ids::{Space, new_uuid, random_bytes};
use crate::config::Auth;
use crate::config::auth::{KeyLimits, Role};
use crate::store::{ALL_SPACES, ApiKeyChange, ApiKeyRow, Store, StoreError};

pub use directory::FRESH;
pub use key::{Key, Origin, State};

use directory::Directory;
use rate::Rates;

/// The prefix of every created key, by which people and scanners recognise one.
const MARK: &str = "memoir_";
/// Characters of a key that are stored and shown.
const PREFIX_CHARS: usize = 12;
/// Maximum characters of a key's name.
const MAX_NAME_CHARS: usize = 100;
/// The use of a key is stored at most once in this many seconds.
const USE_SECONDS: i64 = 300;
/// Seconds that request counts are kept.
const KEEP_WINDOWS_SECONDS: i64 = 60 * 60;
/// Days that spending is kept.
const KEEP_DAYS: i64 = 90;

/// Entry point of keys; cheap to clone.
#[derive(Clone)]
pub struct Keys {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
    directory: Directory,
    rates: Rates,
    /// When the use of each key was last stored.
    used: Mutex<HashMap<String, Timestamp>>,
    writes: TaskTracker,
}

/// A key to create.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub name: String,
    /// The only space that it opens; `None`: all.
    pub space: Option<Space>,
    pub role: Role,
    pub expires_at: Option<Timestamp>,
    pub limits: KeyLimits,
}

/// Changes to a key; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default)]
pub struct KeyChange {
    pub name: Option<String>,
    pub expires_at: Option<Option<Timestamp>>,
    pub limits: Option<KeyLimits>,
}

/// A key is invalid, or a request about keys failed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// 401: no key has this hash.
    #[error("the API key is unknown")]
    Unknown,
    /// 401
    #[error("the API key expired at {0}")]
    Expired(Timestamp),
    /// 401
    #[error("the API key was revoked at {0}")]
    Revoked(Timestamp),
    /// 429
    #[error("the API key has used up its {limit} requests for this minute")]
    TooMany { limit: u64, resets_in: u64 },
    /// 404: no such key that the caller may see.
    #[error("there is no API key {0}")]
    NotFound(String),
    /// 403: the new key would have more rights than the caller's own.
    #[error("{0}")]
    Beyond(&'static str),
    /// 409: only the configuration can change it.
    #[error("the API key {0:?} is defined in the configuration")]
    OfConfiguration(String),
    /// 409: its creator would lose access.
    #[error("the first API key must have the role admin for all spaces, without expiry and limits")]
    First,
    /// 422
    #[error("the API key is invalid")]
    Invalid(Vec<FieldError>),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Keys {
    /// Reads all keys.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(
        store: Store,
        clock: Arc<dyn Clock>,
        auth: &Auth,
    ) -> Result<Self, StoreError> {
        let directory = Directory::load(store.clone(), auth).await?;
        let rates = Rates::new(store.clone());
        let (used, writes) = (Mutex::default(), TaskTracker::new());
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                clock,
                directory,
                rates,
                used,
                writes,
            }),
        })
    }

    /// Whether requests need a key: as soon as one exists, in the configuration or created over the
    /// API.
    pub async fn are_required(&self) -> bool {
        self.inner.directory.has_keys().await
    }

    /// The key of a request, if it is valid now.
    ///
    /// # Errors
    /// [`KeysError::Unknown`], [`KeysError::Expired`], [`KeysError::Revoked`],
    /// [`KeysError::TooMany`], or the store's.
    pub async fn admit(&self, secret: &str) -> Result<Arc<Key>, KeysError> {
        let inner = &*self.inner;
        let digest = hash::sha256(secret.as_bytes());
        let key = inner
            .directory
            .find(&digest)
            .await?
            .ok_or(KeysError::Unknown)?;

        let now = inner.clock.now();
        match key.state(now) {
            State::Active => {}
            State::Expired(at) => return Err(KeysError::Expired(at)),
            State::Revoked(at) => return Err(KeysError::Revoked(at)),
        }

        self.note_use(&key, now);
        inner.rates.count(&key, now).await?;
        Ok(key)
    }

    /// Keys that a caller may manage, in a fixed order; only those of one space, if it is named.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(
        &self,
        caller: Option<&Key>,
        of: Option<&Space>,
    ) -> Result<Vec<Arc<Key>>, KeysError> {
        let mut keys = self.inner.directory.list().await?;
        keys.retain(|key| {
            may_manage(caller, key) && of.is_none_or(|space| key.space.as_ref() == Some(space))
        });
        keys.sort_by_key(|key| key.place());
        Ok(keys)
    }

    /// # Errors
    /// [`KeysError::NotFound`], or the store's.
    pub async fn find(&self, caller: Option<&Key>, id: &str) -> Result<Arc<Key>, KeysError> {
        let found = self
            .list(caller, None)
            .await?
            .into_iter()
            .find(|key| key.id == id);
        found.ok_or_else(|| KeysError::NotFound(id.chars().take(64).collect()))
    }

    /// Creates a key; returns it with its secret, which is not stored anywhere.
    ///
    /// # Errors
    /// [`KeysError::Invalid`], [`KeysError::Beyond`], [`KeysError::First`], or the store's.
    pub async fn make(
        &self,
        caller: Option<&Key>,
        mut new: NewKey,
    ) -> Result<(Arc<Key>, String), KeysError> {
        check(&new.name, &new.limits)?;
        let now = self.inner.clock.now();
        new.expires_at = within(caller, new.expires_at)?;
        if new.expires_at.is_some_and(|at| at <= now) {
            return Err(invalid("expires_at", "must be in the future"));
        }

        if caller.is_some_and(|caller| caller.space.is_some() && caller.space != new.space) {
            return Err(KeysError::Beyond(
                "an admin of one space can create keys only for that space",
            ));
        }

        // Without a key the caller may do everything; once the first key exists, nothing without
        // one.
        let of_all = new.role == Role::Admin && new.space.is_none();
        let free = new.expires_at.is_none() && new.limits == KeyLimits::default();
        if caller.is_none() && !(of_all && free) {
            return Err(KeysError::First);
        }

        let secret = format!("{MARK}{}", URL_SAFE_NO_PAD.encode(random_bytes()));
        let row = ApiKeyRow {
            space: new
                .space
                .as_ref()
                .map_or(ALL_SPACES, Space::as_str)
                .to_owned(),
            id: new_uuid(),
            name: new.name,
            key_sha256: hash::sha256_hex(secret.as_bytes()),
            prefix: secret.chars().take(PREFIX_CHARS).collect(),
            role: new.role.into_str().to_owned(),
            limits_json: to_json(&new.limits),
            expires_at: new.expires_at,
            created_at: now,
            revoked_at: None,
            last_used_at: None,
        };

        self.inner.store.add_api_key(&row).await?;
        Ok((self.find(caller, &row.id).await?, secret))
    }

    /// # Errors
    /// [`KeysError::NotFound`], [`KeysError::OfConfiguration`], [`KeysError::Invalid`],
    /// [`KeysError::Beyond`], or the store's.
    pub async fn update(
        &self,
        caller: Option<&Key>,
        id: &str,
        change: KeyChange,
    ) -> Result<Arc<Key>, KeysError> {
        let key = self.find(caller, id).await?;
        let row = key
            .row()
            .ok_or_else(|| KeysError::OfConfiguration(key.name.clone()))?;
        let expires_at = within(caller, change.expires_at.flatten())?;
        check(
            change.name.as_deref().unwrap_or(&row.name),
            change.limits.as_ref().unwrap_or(&key.limits),
        )?;

        let written = ApiKeyChange {
            name: change.name,
            limits_json: change.limits.as_ref().map(to_json),
            expires_at: change.expires_at.map(|_| expires_at),
            revoked_at: None,
        };

        self.write(caller, &row, &written).await
    }

    /// Revokes a key: immediately in this process, within [`FRESH`] in others. Requests in progress
    /// finish.
    ///
    /// # Errors
    /// [`KeysError::NotFound`], [`KeysError::OfConfiguration`], or the store's.
    pub async fn revoke(&self, caller: Option<&Key>, id: &str) -> Result<(), KeysError> {
        let key = self.find(caller, id).await?;
        let row = key
            .row()
            .ok_or_else(|| KeysError::OfConfiguration(key.name.clone()))?;
        if row.revoked_at.is_none() {
            let revoked = ApiKeyChange {
                revoked_at: Some(self.inner.clock.now()),
                ..ApiKeyChange::default()
            };
            self.write(caller, &row, &revoked).await?;
        }

        Ok(())
    }

    /// Reads all keys again, for example after their space was deleted.
    ///
    /// # Errors
    /// The store's.
    pub async fn refresh(&self) -> Result<(), KeysError> {
        Ok(self.inner.directory.list().await.map(|_| ())?)
    }

    /// Deletes old counts.
    ///
    /// # Errors
    /// The store's.
    pub async fn prune(&self, now: Timestamp) -> Result<(), KeysError> {
        let (windows, days) = (
            now.minus_seconds(KEEP_WINDOWS_SECONDS),
            now.minus_seconds(KEEP_DAYS * 24 * 60 * 60),
        );
        Ok(self.inner.store.remove_key_counts(windows, days).await?)
    }

    async fn write(
        &self,
        caller: Option<&Key>,
        row: &ApiKeyRow,
        change: &ApiKeyChange,
    ) -> Result<Arc<Key>, KeysError> {
        if !self
            .inner
            .store
            .update_api_key(&row.space, &row.id, change)
            .await?
        {
            return Err(KeysError::NotFound(row.id.clone()));
        }
        self.find(caller, &row.id).await
    }

    /// Stores from time to time that a key is used, without delaying its request.
    fn note_use(&self, key: &Key, now: Timestamp) {
        let Some(row) = key.row() else { return };
        {
            let mut used = self
                .inner
                .used
                .lock()
                .unwrap_or_else(PoisonError::into_inner);

            let last = used.get(&key.id).copied().or(key.last_used_at);
            if last.is_some_and(|last| last > now.minus_seconds(USE_SECONDS)) {
                return;
            }

            used.insert(key.id.clone(), now);
        }

        let store = self.inner.store.clone();
        self.inner.writes.spawn(async move {
            if let Err(error) = store.update_key_use(&row.space, &row.id, now).await {
                tracing::debug!(%error, "cannot record the use of an API key");
            }
        });
    }
}

/// An admin of one space manages the keys of that space; an admin of all spaces manages all keys.
fn may_manage(caller: Option<&Key>, key: &Key) -> bool {
    caller.is_none_or(|caller| caller.space.is_none() || caller.space == key.space)
}

/// The expiry of a key that this caller creates or changes: no later than the caller's own. A
/// caller with limits can neither create nor change keys, because it could exceed its limits.
fn within(caller: Option<&Key>, wanted: Option<Timestamp>) -> Result<Option<Timestamp>, KeysError> {
    let Some(caller) = caller else {
        return Ok(wanted);
    };
    if caller.limits != KeyLimits::default() {
        return Err(KeysError::Beyond(
            "a key with limits cannot create or change keys, because those could exceed its \
             limits",
        ));
    }

    match (caller.expires_at, wanted) {
        (Some(own), Some(wanted)) if wanted > own => Err(KeysError::Beyond(
            "a key cannot create or change a key that expires later than itself",
        )),
        (own, wanted) => Ok(wanted.or(own)),
    }
}

fn check(name: &str, limits: &KeyLimits) -> Result<(), KeysError> {
    if name.trim().is_empty() || char_count(name) > MAX_NAME_CHARS || has_control(name) {
        return Err(invalid(
            "name",
            "must have 1 to 100 characters and no control characters",
        ));
    }
    match limits.fault() {
        Some((field, rule)) => Err(invalid(&format!("limits.{field}"), rule)),
        None => Ok(()),
    }
}

fn invalid(field: &str, rule: &str) -> KeysError {
    KeysError::Invalid(vec![FieldError::new(field, rule)])
}

fn to_json(limits: &KeyLimits) -> String {
    serde_json::to_string(limits).unwrap_or_default()
}
