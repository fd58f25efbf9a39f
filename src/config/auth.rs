//! `[auth]`: which API key opens which space, with which role (D-2).
//!
//! Only digests are kept: a key is hashed as it is read, and compared by its hash.

use std::fmt;

use serde::Deserialize;

use super::{Violation, Violations};
use crate::base::hash;
use crate::base::ids::Space;

pub const EXAMPLE: &str = r#"keys = [{ name = "app", key = "a long random text", space = "default", role = "user" }]"#;

/// The API keys.
#[derive(Debug, Clone, Default)]
pub struct Auth {
    pub keys: Vec<ApiKey>,
}

/// One API key and what it opens.
#[derive(Clone)]
pub struct ApiKey {
    /// Shown in logs; never the key itself.
    pub name: String,
    pub digest: [u8; 32],
    /// The only space it opens; `None` opens every one.
    pub space: Option<Space>,
    pub role: Role,
}

impl ApiKey {
    /// A key that opens everything.
    #[must_use]
    pub fn of_admin(name: &str, key: &str) -> Self {
        Self { name: name.to_owned(), digest: hash::sha256(key.as_bytes()), space: None, role: Role::Admin }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Admin,
}

/// The section as it is written.
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
}

impl RawAuth {
    /// Hashes the keys and checks their rules.
    pub fn resolve(self, violations: &mut Violations) -> Auth {
        let mut keys: Vec<ApiKey> = Vec::with_capacity(self.keys.len());
        for (index, raw) in self.keys.into_iter().enumerate() {
            let path = format!("auth.keys[{index}]");
            match raw.resolve(&path, index) {
                Ok(key) if keys.iter().any(|other| other.digest == key.digest) => {
                    let twice = Violation::new(&path, super::mask::MASK).allowed("a key that is not listed twice");
                    violations.add(twice.example(EXAMPLE));
                }
                Ok(key) => keys.push(key),
                Err(wrong) => wrong.into_iter().for_each(|violation| violations.add(violation.example(EXAMPLE))),
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
                Err(()) => Err(wrong("space", name, &format!("\"*\" for all spaces, or {}", Space::RULE))),
            },
            None => Ok(Some(Space::default())),
        };
        let role = match self.role.as_deref() {
            None | Some("user") => Ok(Role::User),
            Some("admin") => Ok(Role::Admin),
            Some(other) => Err(wrong("role", other, "\"user\" or \"admin\"")),
        };
        let unusable = || {
            wrong("key", super::mask::MASK, "visible ASCII characters without spaces; for key_sha256, 64 hex digits")
        };
        let digest = match (self.key, self.key_file, self.key_sha256) {
            (Some(key), None, None) => digest_of(&key).ok_or_else(unusable),
            (None, Some(file), None) => match std::fs::read_to_string(&file) {
                Ok(content) => digest_of(content.trim()).ok_or_else(unusable),
                Err(error) => Err(wrong("key_file", &file, &format!("a readable file that holds the key: {error}"))),
            },
            (None, None, Some(hex)) => hash::parse_sha256_hex(&hex).ok_or_else(unusable),
            _ => Err(wrong("key", super::mask::MASK, "exactly one of key, key_file and key_sha256")),
        };
        let name = self.name.unwrap_or_else(|| format!("key-{}", index + 1));
        match (space, role, digest) {
            (Ok(space), Ok(role), Ok(digest)) => Ok(ApiKey { name, digest, space, role }),
            (space, role, digest) => Err([space.err(), role.err(), digest.err()].into_iter().flatten().collect()),
        }
    }
}

fn digest_of(key: &str) -> Option<[u8; 32]> {
    let usable = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then(|| hash::sha256(key.as_bytes()))
}
