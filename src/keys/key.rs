//! One API key, from the configuration or the table.

use memoir_text::hash::{hex, parse_sha256_hex, sha256_hex};

use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::config::auth::{ApiKey, KeyLimits, Role};
use crate::model::llm_call::KeyBudget;
use crate::store::{ALL_SPACES, ApiKeyRow};

/// Where a key was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Config,
    Api,
}

/// Whether a key is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Active,
    Expired(Timestamp),
    Revoked(Timestamp),
}

/// A key without its secret.
#[derive(Debug, Clone)]
pub struct Key {
    pub id: String,
    pub name: String,
    pub origin: Origin,
    /// Its first characters; empty for a key of the configuration.
    pub prefix: Option<String>,
    /// The only space that it opens; `None`: all.
    pub space: Option<Space>,
    pub role: Role,
    pub limits: KeyLimits,
    pub expires_at: Option<Timestamp>,
    pub created_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub(super) digest: [u8; 32],
}

impl Key {
    /// A key of the configuration. Its id is derived from its name, so that it is the same after a
    /// restart.
    pub(super) fn of_config(key: &ApiKey) -> Self {
        Self {
            id: format!("config-{}", &sha256_hex(key.name.as_bytes())[..16]),
            name: key.name.clone(),
            origin: Origin::Config,
            prefix: None,
            space: key.space.clone(),
            role: key.role,
            limits: key.limits.clone(),
            expires_at: key.expires_at,
            created_at: None,
            revoked_at: None,
            last_used_at: None,
            digest: key.digest,
        }
    }

    /// A key of the table; `None` if its row cannot be read, which makes it invalid.
    pub(super) fn of_row(row: &ApiKeyRow) -> Option<Self> {
        let space = if row.space == ALL_SPACES {
            None
        } else {
            Some(row.space.parse().ok()?)
        };
        Some(Self {
            id: row.id.clone(),
            name: row.name.clone(),
            origin: Origin::Api,
            prefix: Some(row.prefix.clone()),
            space,
            role: row.role.parse().ok()?,
            limits: serde_json::from_str(&row.limits_json).ok()?,
            expires_at: row.expires_at,
            created_at: Some(row.created_at),
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
            digest: parse_sha256_hex(&row.key_sha256)?,
        })
    }

    /// Its row; `None` for a key of the configuration.
    pub(super) fn row(&self) -> Option<ApiKeyRow> {
        Some(ApiKeyRow {
            space: self
                .space
                .as_ref()
                .map_or(ALL_SPACES, Space::as_str)
                .to_owned(),
            id: self.id.clone(),
            name: self.name.clone(),
            key_sha256: hex(&self.digest),
            prefix: self.prefix.clone()?,
            role: self.role.into_str().to_owned(),
            limits_json: serde_json::to_string(&self.limits).unwrap_or_default(),
            expires_at: self.expires_at,
            created_at: self.created_at?,
            revoked_at: self.revoked_at,
            last_used_at: self.last_used_at,
        })
    }

    pub fn state(&self, now: Timestamp) -> State {
        match (self.revoked_at, self.expires_at) {
            (Some(at), _) => State::Revoked(at),
            (None, Some(at)) if at <= now => State::Expired(at),
            _ => State::Active,
        }
    }

    /// Its position in a list: those of the configuration first, then the oldest.
    pub fn place(&self) -> String {
        let origin = if self.origin == Origin::Config {
            '0'
        } else {
            '1'
        };
        format!("{origin}{}", self.id)
    }

    /// Who pays for model calls with this key.
    pub fn budget(&self) -> KeyBudget {
        let day = self.limits.day;
        KeyBudget {
            key_id: self.id.clone(),
            calls: day.calls,
            tokens: day.tokens,
            usd: day.usd,
        }
    }
}
