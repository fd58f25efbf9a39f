//! What can go wrong in the database, as its callers need to tell it apart.

use sqlx::mysql::MySqlDatabaseError;

/// An operation of the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// 503: the connection was refused, lost, or none came free in time (M-1.5, M-7.5).
    #[error("the database at {place} cannot be reached: {cause}")]
    Unavailable { place: String, cause: String },

    /// 503: the connection broke while a commit was under way, so nobody knows whether it was done. Not tried again by
    /// itself: that could do it twice.
    #[error("the connection to {place} broke during a commit: {cause}")]
    Uncertain { place: String, cause: String },

    /// Tried again: another transaction was in the way.
    #[error("another transaction was in the way: {cause}")]
    Contended { cause: String },

    /// 503: the disk or the database's own limit is full.
    #[error("the database at {place} has no room left: {cause}")]
    Full { place: String, cause: String },

    /// 409: the row would be there twice. Names the rule that was hit.
    #[error("{constraint} is taken")]
    Conflict { constraint: &'static str },

    /// Exit code 2: the file cannot be opened, or the server refused us.
    #[error("cannot open the database {place}: {cause}")]
    CannotOpen { place: String, cause: String },

    /// Exit code 2: the schema is not one that this binary can work with.
    #[error("{0}")]
    Schema(String),

    /// 500: a statement that should always work did not.
    #[error("a statement failed: {cause}")]
    Broken { cause: String },
}

impl StoreError {
    pub(super) fn cannot_open(place: &str, cause: &str) -> Self {
        Self::CannotOpen { place: place.to_owned(), cause: cause.to_owned() }
    }

    pub(super) fn on_connect(error: &sqlx::Error, place: &str) -> Self {
        match Self::from_driver(error, place) {
            Self::Broken { cause } => Self::cannot_open(place, &cause),
            // A file is not "away": its folder is missing, or not ours to write.
            Self::Unavailable { cause, .. } if place.starts_with("sqlite") => Self::cannot_open(place, &cause),
            other => other,
        }
    }

    pub(super) fn from_driver(error: &sqlx::Error, place: &str) -> Self {
        let cause = error.to_string();
        let place = place.to_owned();
        match error {
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                Self::Unavailable { place, cause }
            }
            // A connection that breaks in the middle of an answer shows as a protocol error.
            sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => Self::Unavailable { place, cause },
            sqlx::Error::Database(database) => {
                if let Some(mysql) = database.try_downcast_ref::<MySqlDatabaseError>() {
                    return Self::from_mysql(mysql.number(), place, cause);
                }
                match database.code().as_deref() {
                    // PostgreSQL: serialization failure, deadlock, a statement that took too long. SQLite: busy, locked, and their variants.
                    Some("40001" | "40P01" | "57014" | "5" | "6" | "261" | "262" | "517") => Self::Contended { cause },
                    // PostgreSQL: connection exceptions, starting up or shutting down, too many connections, time-outs.
                    // SQLite: the file cannot be opened, or the disk fails under it.
                    Some(code) if code.starts_with("08") => Self::Unavailable { place, cause },
                    Some("57P01" | "57P02" | "57P03" | "53300" | "25P03" | "14" | "10" | "522" | "266" | "778") => {
                        Self::Unavailable { place, cause }
                    }
                    // Disk full: PostgreSQL, SQLite.
                    Some("53100" | "13") => Self::Full { place, cause },
                    _ => Self::Broken { cause },
                }
            }
            _ => Self::Broken { cause },
        }
    }

    fn from_mysql(number: u16, place: String, cause: String) -> Self {
        match number {
            1205 | 1213 => Self::Contended { cause },
            1040 | 1053 | 1077 | 1158..=1161 | 1927 | 1969 | 3024 => Self::Unavailable { place, cause },
            1021 | 1114 => Self::Full { place, cause },
            _ => Self::Broken { cause },
        }
    }

    /// Whether the same operation may be run again: it was not done, and may work a moment later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Contended { .. })
    }

    /// Whether the trouble may pass; but whether the operation was done may be unknown.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.is_retryable() || matches!(self, Self::Uncertain { .. })
    }
}

/// For reading rows: a column that is missing or of another type. Statements go through `Backend::explain`.
impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::from_driver(&error, "(unknown place)")
    }
}

/// Whether the driver says that a unique key was taken.
pub(super) fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}
