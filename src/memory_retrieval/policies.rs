//! The versions of the retrieval policy. Every change is a new version; none is ever changed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashlink::LruCache;
use memoir_text::field_error::FieldError;

use super::permits::Permits;
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::policy::{Policy, Settings, SettingsFault};
use crate::store::{PolicyRow, Store, StoreError};

/// The policy that `/v1/admin/memory-settings` changes.
pub const RETRIEVAL: &str = "retrieval";
/// Its version before any change: the built-in defaults, which no row holds.
const BUILT_IN: i64 = 0;
/// Compiled policies that are kept.
const MAX_COMPILED: usize = 256;

/// A policy by name, with or without a version: `retrieval`, `retrieval@3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyName {
    pub name: String,
    pub version: Option<i64>,
}

impl FromStr for PolicyName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.parse().map_err(|_| ())?)),
            None => (text, None),
        };
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(());
        }

        Ok(Self {
            name: name.to_owned(),
            version,
        })
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One version of a policy, ready to run.
#[derive(Debug, Clone)]
pub struct StoredPolicy {
    pub name: String,
    pub version: i64,
    pub policy: Arc<Policy>,
    /// `None` for the built-in defaults.
    pub created_at: Option<Timestamp>,
}

impl StoredPolicy {
    /// Name and version: `retrieval@3`.
    pub fn label(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// One version of a policy as it is listed: its patterns are not compiled.
#[derive(Debug, Clone)]
pub struct PolicyVersion {
    pub name: String,
    pub version: i64,
    pub settings: Settings,
    /// `None` for the built-in defaults.
    pub created_at: Option<Timestamp>,
}

impl From<StoredPolicy> for PolicyVersion {
    fn from(stored: StoredPolicy) -> Self {
        Self {
            name: stored.name,
            version: stored.version,
            settings: stored.policy.settings().clone(),
            created_at: stored.created_at,
        }
    }
}

/// Why a policy cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("there is no policy {0} in this space")]
    NotFound(PolicyName),
    #[error("the settings are invalid")]
    Invalid(Vec<FieldError>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SettingsFault> for PolicyError {
    fn from(SettingsFault(faults): SettingsFault) -> Self {
        Self::Invalid(faults)
    }
}

/// Entry point of policies; cheap to clone.
#[derive(Clone)]
pub struct MemoryPolicies {
    store: Store,
    /// By space, name and version, which never changes: only the row's number is read each time,
    /// so that a change made by another process counts at once.
    compiled: Arc<Mutex<Compiled>>,
    pub(super) permits: Permits,
}

type Compiled = LruCache<(Space, String, i64), Arc<Policy>>;

impl MemoryPolicies {
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            compiled: Arc::new(Mutex::new(LruCache::new(MAX_COMPILED))),
            permits: Permits::new(),
        }
    }

    /// The version named, or the current one.
    ///
    /// # Errors
    /// There is no such policy or version; or the store's.
    pub async fn find(
        &self,
        space: &Space,
        wanted: &PolicyName,
    ) -> Result<StoredPolicy, PolicyError> {
        let row = match wanted.version {
            Some(BUILT_IN) => None,
            version => self.store.find_policy(space, &wanted.name, version).await?,
        };
        if let Some(row) = row {
            return self.ready(space, row).await;
        }
        if wanted.name == RETRIEVAL && wanted.version.unwrap_or(BUILT_IN) == BUILT_IN {
            return Ok(built_in()?);
        }

        Err(PolicyError::NotFound(wanted.clone()))
    }

    /// The current version of the retrieval policy.
    ///
    /// # Errors
    /// The store's.
    pub async fn current(&self, space: &Space) -> Result<StoredPolicy, PolicyError> {
        let wanted = PolicyName {
            name: RETRIEVAL.to_owned(),
            version: None,
        };
        self.find(space, &wanted).await
    }

    /// Stores new settings as the next version of the retrieval policy.
    ///
    /// # Errors
    /// The settings are invalid; or the store's.
    pub async fn change(
        &self,
        space: &Space,
        settings: Settings,
        now: Timestamp,
    ) -> Result<StoredPolicy, PolicyError> {
        let body = serde_json::to_string(&settings).map_err(|error| StoreError::Broken {
            cause: error.to_string(),
        })?;
        let policy = self.compile(settings).await?;
        let version = self
            .store
            .add_policy_version(space, RETRIEVAL, RETRIEVAL, &body, now)
            .await?;

        Ok(StoredPolicy {
            name: RETRIEVAL.to_owned(),
            version,
            policy,
            created_at: Some(now),
        })
    }

    /// The current version of every policy.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, space: &Space) -> Result<Vec<PolicyVersion>, PolicyError> {
        let rows = self.store.list_policies(space).await?;
        let mut policies = Vec::with_capacity(rows.len() + 1);
        if rows.iter().all(|row| row.name != RETRIEVAL) {
            policies.push(built_in()?.into());
        }
        for row in rows {
            policies.push(version(row)?);
        }
        Ok(policies)
    }

    /// Versions of a policy below the given one, newest first.
    ///
    /// # Errors
    /// There is no such policy; or the store's.
    pub async fn versions(
        &self,
        space: &Space,
        name: &PolicyName,
        below: Option<i64>,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, PolicyError> {
        let below = below.unwrap_or(i64::MAX);
        let rows = self
            .store
            .list_policy_versions(space, &name.name, below, limit)
            .await?;
        let is_retrieval = name.name == RETRIEVAL;
        if rows.is_empty() && !is_retrieval {
            return Err(PolicyError::NotFound(name.clone()));
        }

        let complete = rows.len() < limit;
        let mut versions = Vec::with_capacity(rows.len() + 1);
        for row in rows {
            versions.push(version(row)?);
        }
        if is_retrieval && complete && below > BUILT_IN {
            versions.push(built_in()?.into());
        }
        Ok(versions)
    }

    async fn ready(&self, space: &Space, row: PolicyRow) -> Result<StoredPolicy, PolicyError> {
        let PolicyVersion {
            name,
            version,
            settings,
            created_at,
        } = version(row)?;
        let key = (space.clone(), name.clone(), version);
        let known = self.compiled().get(&key).cloned();
        let policy = if let Some(policy) = known {
            policy
        } else {
            let policy = self.compile(settings).await;
            let policy = policy.map_err(|error| stored_before(&name, version, error))?;
            self.compiled().insert(key, Arc::clone(&policy));
            policy
        };

        Ok(StoredPolicy {
            name,
            version,
            policy,
            created_at,
        })
    }

    /// Compiles the patterns of settings.
    async fn compile(&self, settings: Settings) -> Result<Arc<Policy>, PolicyError> {
        let compile = move || Policy::new(settings);
        let policy = self.permits.run_stored(compile).await?;
        Ok(Arc::new(policy?))
    }

    fn compiled(&self) -> std::sync::MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings that were valid when they were stored, and are no longer.
fn stored_before(name: &str, version: i64, error: PolicyError) -> PolicyError {
    let PolicyError::Invalid(faults) = error else {
        return error;
    };
    let of_policy = |fault: FieldError| {
        FieldError::new(
            format!("{name}@{version}.{}", fault.field),
            format!(
                "{} (store other settings with PUT /v1/admin/memory-settings)",
                fault.message
            ),
        )
    };
    PolicyError::Invalid(faults.into_iter().map(of_policy).collect())
}

fn version(row: PolicyRow) -> Result<PolicyVersion, StoreError> {
    let settings = serde_json::from_str(&row.body_json).map_err(|error| StoreError::Broken {
        cause: format!("policy {}@{}: {error}", row.name, row.version),
    })?;
    Ok(PolicyVersion {
        name: row.name,
        version: row.version,
        settings,
        created_at: Some(row.created_at),
    })
}

/// The defaults, which every space has before its first change.
pub(super) fn built_in() -> Result<StoredPolicy, SettingsFault> {
    // Compiled once: to compile the patterns takes longer than to store a message.
    static POLICY: LazyLock<Result<Arc<Policy>, SettingsFault>> =
        LazyLock::new(|| Policy::new(Settings::default()).map(Arc::new));

    Ok(StoredPolicy {
        name: RETRIEVAL.to_owned(),
        version: BUILT_IN,
        policy: POLICY.clone()?,
        created_at: None,
    })
}
