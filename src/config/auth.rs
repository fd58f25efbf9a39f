//! `[auth]`: which API key opens which space, and with which role.
//!
//! memoir hashes each key as it is read, keeps only the hash, and compares hashes.

use std::fmt;

use memoir_text::hash;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use utoipa::ToSchema;

use super::{Violation, Violations};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

pub const EXAMPLE: &str =
    r#"keys = [{ name = "app", key = "a long random text", space = "default", role = "user" }]"#;

/// The API keys.
#[derive(Debug, Clone, Default)]
pub struct Auth {
    pub keys: Vec<ApiKey>,
}

/// An API key and what it opens.
#[derive(Clone)]
pub struct ApiKey {
    /// Shown in logs instead of the key itself.
    pub name: String,
    pub digest: [u8; 32],
    /// The only space it opens; `None` opens all spaces.
    pub space: Option<Space>,
    pub role: Role,
    pub expires_at: Option<Timestamp>,
    pub limits: KeyLimits,
}

impl ApiKey {
    /// A key that opens all spaces.
    #[must_use]
    pub fn of_admin(name: &str, key: &str) -> Self {
        Self {
            name: name.to_owned(),
            digest: hash::sha256(key.as_bytes()),
            space: None,
            role: Role::Admin,
            expires_at: None,
            limits: KeyLimits::default(),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// What a caller may do. `read`: read, search and query; `user`: also ingest, change and delete;
/// `admin`: also manage keys, spaces, memory settings and the vocabulary.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    EnumString,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = KeyRole)]
#[strum(serialize_all = "snake_case", const_into_str)]
// In order: each role includes the roles before it.
pub enum Role {
    Read,
    User,
    Admin,
}

/// Usage limits of a key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyLimits {
    /// 0 means no limit.
    pub requests_per_minute: u64,
    /// Models that the key may use, as `provider:model`; a trailing `*` matches any ending. An
    /// empty list allows all models.
    pub models: Vec<String>,
    pub day: DayCaps,
}

/// What a key may spend per day (UTC); 0 means no cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DayCaps {
    pub calls: u64,
    pub tokens: u64,
    pub usd: f64,
}

impl KeyLimits {
    /// Whether the key may use a model, given as `provider:model`.
    pub fn allow_model(&self, model: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model == pattern,
        };
        self.models.is_empty() || self.models.iter().any(fits)
    }

    /// The invalid field, and the rule that it breaks.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        const MAX_CAP: u64 = 1_000_000_000_000;

        let plain = |model: &String| {
            (1..=200).contains(&model.len()) && model.bytes().all(|b| b.is_ascii_graphic())
        };
        if self.requests_per_minute > 1_000_000 {
            return Some(("requests_per_minute", "must be from 0 to 1000000"));
        }

        if self.models.len() > 100 || !self.models.iter().all(plain) {
            return Some((
                "models",
                "must have at most 100 names such as \"openai:*\" or \"local:embedded\"",
            ));
        }

        if self.day.calls > MAX_CAP || self.day.tokens > MAX_CAP {
            return Some((
                "day",
                "must have values for calls and tokens from 0 to 1000000000000",
            ));
        }

        (!(self.day.usd.is_finite() && self.day.usd >= 0.0))
            .then_some(("day", "must have a value for usd of 0 or more"))
    }
}

/// The section as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAuth {
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    name: Option<String>,
    key: Option<String>,
    key_file: Option<String>,
    key_sha256: Option<String>,
    space: Option<String>,
    role: Option<String>,
    expires: Option<String>,
    #[serde(default)]
    requests_per_minute: u64,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    day: DayCaps,
}

impl RawAuth {
    /// Hashes the keys and checks their rules.
    pub fn resolve(self, violations: &mut Violations) -> Auth {
        let mut keys: Vec<ApiKey> = Vec::with_capacity(self.keys.len());
        for (index, raw) in self.keys.into_iter().enumerate() {
            let path = format!("auth.keys[{index}]");
            match raw.resolve(&path, index) {
                Ok(key) if keys.iter().any(|other| other.digest == key.digest) => {
                    let twice = Violation::new(&path, super::mask::MASK)
                        .allowed("a key that is listed only once");
                    violations.add(twice.example(EXAMPLE));
                }
                // The name identifies a key of the configuration across restarts.
                Ok(key) if keys.iter().any(|other| other.name == key.name) => {
                    let name = Violation::new(&format!("{path}.name"), key.name);
                    violations.add(
                        name.allowed("a name that no other key uses")
                            .example(EXAMPLE),
                    );
                }
                Ok(key) => keys.push(key),
                Err(wrong) => wrong
                    .into_iter()
                    .for_each(|violation| violations.add(violation.example(EXAMPLE))),
            }
        }

        Auth { keys }
    }
}

impl RawKey {
    fn resolve(self, path: &str, index: usize) -> Result<ApiKey, Vec<Violation>> {
        let wrong = |field: &str, given: &str, allowed: &str| {
            Violation::new(&format!("{path}.{field}"), given).allowed(allowed)
        };
        let space = match self.space.as_deref() {
            Some("*") => Ok(None),
            Some(name) => match name.parse() {
                Ok(space) => Ok(Some(space)),
                Err(()) => Err(wrong(
                    "space",
                    name,
                    &format!("\"*\" for all spaces, or {}", Space::RULE),
                )),
            },
            None => Ok(Some(Space::default())),
        };

        let role = match self.role.as_deref() {
            None => Ok(Role::User),
            Some(name) => name
                .parse()
                .map_err(|_| wrong("role", name, "\"read\", \"user\" or \"admin\"")),
        };

        let expires_at = match self.expires.as_deref() {
            None => Ok(None),
            Some(text) => Timestamp::parse_rfc3339(text).map(Some).ok_or_else(|| {
                wrong(
                    "expires",
                    text,
                    "a timestamp with an offset, such as \"2026-12-31T00:00:00Z\"",
                )
            }),
        };

        let limits = KeyLimits {
            requests_per_minute: self.requests_per_minute,
            models: self.models,
            day: self.day,
        };

        let limits = match limits.fault() {
            None => Ok(limits),
            Some((field, allowed)) => Err(wrong(field, super::mask::MASK, allowed)),
        };

        let unusable = || {
            wrong(
                "key",
                super::mask::MASK,
                "visible ASCII characters without spaces; for key_sha256, 64 hex digits",
            )
        };

        let digest = match (self.key, self.key_file, self.key_sha256) {
            (Some(key), None, None) => digest_of(&key).ok_or_else(unusable),
            (None, Some(file), None) => match std::fs::read_to_string(&file) {
                Ok(content) => digest_of(content.trim()).ok_or_else(unusable),
                Err(error) => Err(wrong(
                    "key_file",
                    &file,
                    &format!("a readable file that contains the key: {error}"),
                )),
            },
            (None, None, Some(hex)) => hash::parse_sha256_hex(&hex).ok_or_else(unusable),
            _ => Err(wrong(
                "key",
                super::mask::MASK,
                "exactly one of key, key_file and key_sha256",
            )),
        };

        let name = self.name.unwrap_or_else(|| format!("key-{}", index + 1));
        match (space, role, digest, expires_at, limits) {
            (Ok(space), Ok(role), Ok(digest), Ok(expires_at), Ok(limits)) => Ok(ApiKey {
                name,
                digest,
                space,
                role,
                expires_at,
                limits,
            }),
            (space, role, digest, expires_at, limits) => {
                let faults = [
                    space.err(),
                    role.err(),
                    digest.err(),
                    expires_at.err(),
                    limits.err(),
                ];
                Err(faults.into_iter().flatten().collect())
            }
        }
    }
}

fn digest_of(key: &str) -> Option<[u8; 32]> {
    let usable = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then(|| hash::sha256(key.as_bytes()))
}
