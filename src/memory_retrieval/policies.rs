//! The versions of the retrieval policy. Every change is a new version; none is ever changed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashlink::LruCache;
use memoir_policy::{Policy, Settings, SettingsFault};
use memoir_text::field_error::FieldError;
use serde_json::Value;

use super::permits::Permits;
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::call::CallContext;
use crate::store::{PolicyRow, Store, StoreError};

/// The policy that is used, read and changed if a request names no other.
pub const RETRIEVAL: &str = "retrieval";
/// Its versions before any change, which no row holds: as it was first published, and the defaults.
const PUBLISHED: i64 = 0;
const DEFAULT: i64 = 1;
/// The version of any other policy before its first change.
const BEFORE_FIRST: i64 = 0;
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
    #[error("the settings have changed since you read them, or there is no policy of this name")]
    Changed,
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
        call: &CallContext,
        wanted: &PolicyName,
    ) -> Result<StoredPolicy, PolicyError> {
        let row = match wanted.version {
            Some(PUBLISHED) => None,
            version => {
                self.store
                    .find_policy(&call.space, &wanted.name, version)
                    .await?
            }
        };
        if let Some(row) = row {
            return self.ready(call, row).await;
        }
        let version = wanted.version.unwrap_or(DEFAULT);
        if wanted.name == RETRIEVAL && (PUBLISHED..=DEFAULT).contains(&version) {
            return Ok(built_in(version)?);
        }

        Err(PolicyError::NotFound(wanted.clone()))
    }

    /// The current version of the retrieval policy.
    ///
    /// # Errors
    /// The store's.
    pub async fn current(&self, call: &CallContext) -> Result<StoredPolicy, PolicyError> {
        let wanted = PolicyName {
            name: RETRIEVAL.to_owned(),
            version: None,
        };
        self.find(call, &wanted).await
    }

    /// The current settings of a policy that exists, without their patterns: what is stored may have
    /// become invalid, and must still be replaceable.
    async fn uncompiled(
        &self,
        space: &Space,
        name: &str,
    ) -> Result<Option<PolicyVersion>, PolicyError> {
        let row = self.store.find_policy(space, name, None).await?;
        Ok(match row {
            Some(row) => Some(version(row)?),
            None if name == RETRIEVAL => Some(built_in(DEFAULT)?.into()),
            None => None,
        })
    }

    /// Stores changed settings as the next version of a policy. `edit` makes them of the
    /// current ones, or of the defaults for a policy that does not exist yet; it is called again if
    /// somebody else was faster. The condition on the current ones is checked last: invalid settings
    /// are invalid, whatever the condition says.
    ///
    /// # Errors
    /// The settings are invalid, or what `edit` returns; the condition does not hold; or the store's.
    pub async fn change(
        &self,
        call: &CallContext,
        name: &str,
        condition: impl Fn(Option<&PolicyVersion>) -> bool,
        edit: impl Fn(&PolicyVersion) -> Result<Settings, PolicyError>,
    ) -> Result<StoredPolicy, PolicyError> {
        loop {
            let existing = self.uncompiled(&call.space, name).await?;
            let current = match &existing {
                Some(existing) => existing.clone(),
                None => PolicyVersion {
                    name: name.to_owned(),
                    version: BEFORE_FIRST,
                    ..built_in(DEFAULT)?.into()
                },
            };
            let settings = edit(&current)?;
            let body = serde_json::to_string(&settings).map_err(|error| StoreError::Broken {
                cause: error.to_string(),
            })?;
            let (policy, version) = (self.compile(settings).await?, current.version + 1);
            if !condition(existing.as_ref()) {
                return Err(PolicyError::Changed);
            }

            let added = self
                .store
                .add_policy_version(&call.space, (name, version), RETRIEVAL, &body, call.now)
                .await?;
            if added {
                return Ok(StoredPolicy {
                    name: name.to_owned(),
                    version,
                    policy,
                    created_at: Some(call.now),
                });
            }
        }
    }

    /// The current version of every policy.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, call: &CallContext) -> Result<Vec<PolicyVersion>, PolicyError> {
        let rows = self.store.list_policies(&call.space).await?;
        let mut policies = Vec::with_capacity(rows.len() + 1);
        if rows.iter().all(|row| row.name != RETRIEVAL) {
            policies.push(built_in(DEFAULT)?.into());
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
        call: &CallContext,
        name: &PolicyName,
        below: Option<i64>,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, PolicyError> {
        let below = below.unwrap_or(i64::MAX);
        let rows = self
            .store
            .list_policy_versions(&call.space, &name.name, below, limit)
            .await?;
        let is_retrieval = name.name == RETRIEVAL;
        if rows.is_empty() && !is_retrieval {
            return Err(PolicyError::NotFound(name.clone()));
        }

        let mut versions = Vec::with_capacity(rows.len() + 1);
        for row in rows {
            versions.push(version(row)?);
        }
        for built_in_version in [DEFAULT, PUBLISHED] {
            // A row may have the number of the defaults: there was a time without them.
            let oldest = versions
                .last()
                .map_or(below, |one: &PolicyVersion| one.version);
            if is_retrieval && versions.len() < limit && built_in_version < oldest {
                versions.push(built_in(built_in_version)?.into());
            }
        }
        Ok(versions)
    }

    async fn ready(&self, call: &CallContext, row: PolicyRow) -> Result<StoredPolicy, PolicyError> {
        let PolicyVersion {
            name,
            version,
            settings,
            created_at,
        } = version(row)?;
        let key = (call.space.clone(), name.clone(), version);
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
    let query = if name == RETRIEVAL {
        String::new()
    } else {
        format!("?policy={name}")
    };
    let of_policy = |fault: FieldError| {
        FieldError::new(
            format!("{name}@{version}.{}", fault.field),
            format!(
                "{} (store other settings with PUT /v1/admin/memory-settings{query})",
                fault.message
            ),
        )
    };
    PolicyError::Invalid(faults.into_iter().map(of_policy).collect())
}

fn version(row: PolicyRow) -> Result<PolicyVersion, StoreError> {
    let broken = |error: serde_json::Error| StoreError::Broken {
        cause: format!("policy {}@{}: {error}", row.name, row.version),
    };
    let mut body: Value = serde_json::from_str(&row.body_json).map_err(broken)?;
    // Stored before there was a choice.
    if let Some(retrieval) = body.get_mut("retrieval").and_then(Value::as_object_mut) {
        retrieval
            .entry("clipping")
            .or_insert_with(|| "first".into());
    }

    let settings = serde_json::from_value(body).map_err(broken)?;
    Ok(PolicyVersion {
        name: row.name,
        version: row.version,
        settings,
        created_at: Some(row.created_at),
    })
}

/// A version that every space has before its first change.
pub(super) fn built_in(version: i64) -> Result<StoredPolicy, SettingsFault> {
    type Compiled = LazyLock<Result<Arc<Policy>, SettingsFault>>;
    // Compiled once: to compile the patterns takes longer than to store a message.
    static OF_DEFAULTS: Compiled = LazyLock::new(|| Policy::new(Settings::default()).map(Arc::new));
    static AS_PUBLISHED: Compiled =
        LazyLock::new(|| Policy::new(Settings::published()).map(Arc::new));

    let policy = if version == PUBLISHED {
        &AS_PUBLISHED
    } else {
        &OF_DEFAULTS
    };
    Ok(StoredPolicy {
        name: RETRIEVAL.to_owned(),
        version,
        policy: (**policy).clone()?,
        created_at: None,
    })
}

/// The policy to use if the store does not answer.
pub(super) fn defaults() -> Result<StoredPolicy, SettingsFault> {
    built_in(DEFAULT)
}
