//! `[database]`: the engine, the address, and the retry policy.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use strum::IntoStaticStr;

use super::mask::mask_url;
use super::{Violation, Violations};

const EXAMPLE: &str = r#"url = "postgres://memoir:PASSWORD@localhost:5432/memoir""#;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    pub url: DatabaseUrl,
    pub max_connections: u64,
    pub acquire_timeout: u64,
    pub sqlite_synchronous: SqliteSynchronous,
    pub retry: Retry,
}

/// How a failed operation is retried.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    pub tries: u64,
    pub backoff_ms: u64,
    pub backoff_cap_ms: u64,
}

impl Retry {
    /// The wait after the given attempt, which starts at 1.
    #[must_use]
    pub fn pause(&self, tried: u32) -> Duration {
        let doubled = self
            .backoff_ms
            .saturating_mul(1 << tried.saturating_sub(1).min(20));
        Duration::from_millis(doubled.min(self.backoff_cap_ms))
    }
}

/// When SQLite waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqliteSynchronous {
    Normal,
    Full,
}

/// The supported database engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Engine {
    Sqlite,
    Postgres,
    Mysql,
}

/// A connection string; its `Display` omits the password.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The whole string including the password; for the driver only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The file of a SQLite database; none for a database in memory or on a server.
    #[must_use]
    pub fn sqlite_file(&self) -> Option<&Path> {
        let path = self.0.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("//").unwrap_or(path).split('?').next()?;
        (!path.is_empty() && path != ":memory:").then(|| Path::new(path))
    }

    /// The engine given by the scheme.
    #[must_use]
    pub fn engine(&self) -> Option<Engine> {
        match self.0.split_once(':')?.0 {
            "sqlite" => Some(Engine::Sqlite),
            "postgres" | "postgresql" => Some(Engine::Postgres),
            "mysql" | "mariadb" => Some(Engine::Mysql),
            _ => None,
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask_url(&self.0))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Database {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range(
            "database.max_connections",
            self.max_connections,
            2..=1000,
            10,
        );

        violations.check_range("database.acquire_timeout", self.acquire_timeout, 1..=60, 5);
        violations.check_range("database.retry.tries", self.retry.tries, 1..=20, 5);
        violations.check_range(
            "database.retry.backoff_ms",
            self.retry.backoff_ms,
            1..=60_000,
            100,
        );

        violations.check_range(
            "database.retry.backoff_cap_ms",
            self.retry.backoff_cap_ms,
            1..=60_000,
            5000,
        );

        let usable = match self.url.engine() {
            None => false,
            Some(Engine::Sqlite) => self.url.expose().len() > "sqlite:".len(),
            Some(_) => url::Url::parse(self.url.expose()).is_ok(),
        };

        if !usable {
            violations.add(
                Violation::new("database.url", self.url.to_string())
                    .allowed("sqlite://FILE, postgres://… (or postgresql://…) or mysql://… (or mariadb://…)")
                    .example(EXAMPLE),
            );
        }
    }
}
