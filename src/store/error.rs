//! Database errors, as far as callers must distinguish them.

use sqlx::error::ErrorKind;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::sqlite::SqliteError;

/// An operation of the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// 503: the connection was refused, lost, or not available in time.
    #[error("the database at {place} is unreachable: {cause}")]
    Unavailable { place: String, cause: String },

    /// 503: the connection broke or the disk failed during a commit, so it is unknown whether the
    /// commit happened, or lasts. Not retried automatically, because that could do it twice.
    #[error("the outcome of a commit to {place} is unknown: {cause}")]
    Uncertain { place: String, cause: String },

    /// Retried: another transaction conflicted.
    #[error("conflict with another transaction: {cause}")]
    Contended { cause: String },

    /// 503: the disk or the database's own limit is full.
    #[error("the disk of the database at {place} is full: {cause}")]
    Full { place: String, cause: String },

    /// 409: the row exists already. Names the violated constraint.
    #[error("{constraint} is already in use")]
    Conflict { constraint: &'static str },

    /// Exit code 2: the file cannot be opened, or the server rejected us.
    #[error("cannot open the database {place}: {cause}")]
    CannotOpen { place: String, cause: String },

    /// Exit code 2: the file is not a database.
    #[error("the file {file} is not a SQLite database")]
    NotADatabase { file: String },

    /// Exit code 2: this binary cannot work with the schema.
    #[error("{0}")]
    Schema(String),

    /// 500: a statement that should always work failed.
    #[error("a database statement failed: {cause}")]
    Broken { cause: String },
}

impl StoreError {
    /// The error in words of our own, for callers, who must not see what the database says.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } | Self::CannotOpen { .. } => "the database is unreachable",
            Self::Uncertain { .. } => {
                "the connection to the database failed during the commit, so it is unknown \
                 whether it took effect"
            }
            Self::Contended { .. } => "it kept conflicting with other work in the database",
            Self::Full { .. } => "the disk of the database is full",
            Self::Conflict { .. } => "it exists already",
            Self::NotADatabase { .. } | Self::Schema(_) | Self::Broken { .. } => {
                "a database statement failed; the log has its cause"
            }
        }
    }

    pub(super) fn cannot_open(place: &str, cause: &str) -> Self {
        Self::CannotOpen {
            place: place.to_owned(),
            cause: cause.to_owned(),
        }
    }

    pub(super) fn on_connect(error: &sqlx::Error, place: &str) -> Self {
        match Self::from_driver(error, place) {
            Self::Broken { cause } => Self::cannot_open(place, &cause),
            // A file is not "unreachable": its folder is missing or not writable.
            Self::Unavailable { cause, .. } if place.starts_with("sqlite") => {
                Self::cannot_open(place, &cause)
            }
            other => other,
        }
    }

    pub(super) fn from_driver(error: &sqlx::Error, shown: &str) -> Self {
        let cause = error.to_string();
        let place = shown.to_owned();
        match error {
            // A connection that breaks in the middle of a response appears as a protocol error.
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_) => Self::Unavailable { place, cause },
            sqlx::Error::Database(database) => {
                let of_kind = if let Some(mysql) = database.try_downcast_ref::<MySqlDatabaseError>()
                {
                    Self::from_mysql(mysql.number(), place, cause)
                } else if database.try_downcast_ref::<SqliteError>().is_some() {
                    let code = database
                        .code()
                        .and_then(|code| code.parse().ok())
                        .unwrap_or(0);
                    Self::from_sqlite(code, place, cause)
                } else {
                    Self::from_postgres(database.code().as_deref().unwrap_or(""), place, cause)
                };

                // A violated constraint may quote user data.
                if matches!(database.kind(), ErrorKind::Other) {
                    of_kind.or_full(database.message(), shown)
                } else {
                    of_kind
                }
            }
            _ => Self::Broken { cause },
        }
    }

    fn from_postgres(code: &str, place: String, cause: String) -> Self {
        match code {
            // Serialization failure, deadlock, statement timeout.
            "40001" | "40P01" | "57014" => Self::Contended { cause },
            // Starting up or shutting down, too many connections, timeouts, a read-only standby.
            "57P01" | "57P02" | "57P03" | "53300" | "25P03" | "25006" => {
                Self::Unavailable { place, cause }
            }
            "53100" => Self::Full { place, cause },
            code if code.starts_with("08") => Self::Unavailable { place, cause },
            _ => Self::Broken { cause },
        }
    }

    /// By SQLite's extended result code, whose lowest byte is the primary one.
    fn from_sqlite(code: i32, place: String, cause: String) -> Self {
        /// The shared-memory file next to the database could not grow.
        const IOERR_SHMSIZE: i32 = 10 + 19 * 256;
        match (code, code & 0xff) {
            (IOERR_SHMSIZE, _) | (_, 13) => Self::Full { place, cause },
            // Busy, locked.
            (_, 5 | 6) => Self::Contended { cause },
            // I/O error; the file cannot be opened.
            (_, 10 | 14) => Self::Unavailable { place, cause },
            (_, 26) => {
                let file = place.trim_start_matches("sqlite:").trim_start_matches("//");
                Self::NotADatabase {
                    file: file.split('?').next().unwrap_or(file).to_owned(),
                }
            }
            _ => Self::Broken { cause },
        }
    }

    fn from_mysql(number: u16, place: String, cause: String) -> Self {
        match number {
            // A row changed since the transaction read it (MariaDB), lock timeout, deadlock.
            1020 | 1205 | 1213 => Self::Contended { cause },
            1040 | 1053 | 1077 | 1158..=1161 | 1290 | 1836 | 1927 | 1969 | 3024 => {
                Self::Unavailable { place, cause }
            }
            // Error writing a file; disk full (two codes); table full.
            3 | 20 | 1021 | 1114 => Self::Full { place, cause },
            _ => Self::Broken { cause },
        }
    }

    /// Servers report a full disk with many codes, some of which are generic.
    fn or_full(self, message: &str, place: &str) -> Self {
        const SIGNS: [&str; 5] = [
            "No space left on device",
            "Disk quota exceeded",
            "could not write init file",
            "Got error 28 ",
            "Errcode: 28",
        ];
        match self {
            Self::Broken { cause } | Self::Unavailable { cause, .. }
                if SIGNS.iter().any(|sign| message.contains(sign)) =>
            {
                Self::Full {
                    place: place.to_owned(),
                    cause,
                }
            }
            other => other,
        }
    }

    /// This error during a commit: if the connection broke, the outcome is unknown.
    pub(super) fn during_commit(self) -> Self {
        match self {
            Self::Unavailable { place, cause } => Self::Uncertain { place, cause },
            other => other,
        }
    }

    /// Whether the operation may be retried: it was not done, and may work a moment later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Contended { .. })
    }

    /// Whether the error may be temporary; whether the operation was done may be unknown.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.is_retryable() || matches!(self, Self::Uncertain { .. })
    }
}

/// For reading rows: a missing column or one of another type. Statements use `Backend::explain`.
impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::from_driver(&error, "(unknown place)")
    }
}

/// Whether the driver reports a unique key violation.
pub(super) fn is_taken(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_a_full_disk_on_every_engine() {
        let place = || "here".to_owned();
        let cause = || "cause".to_owned();
        for number in [3, 20, 1021, 1114] {
            assert!(
                matches!(
                    StoreError::from_mysql(number, place(), cause()),
                    StoreError::Full { .. }
                ),
                "{number}"
            );
        }

        for code in [13, 4874] {
            assert!(
                matches!(
                    StoreError::from_sqlite(code, place(), cause()),
                    StoreError::Full { .. }
                ),
                "{code}"
            );
        }

        assert!(matches!(
            StoreError::from_postgres("53100", place(), cause()),
            StoreError::Full { .. }
        ));

        for message in [
            "could not write init file",
            "could not write to file \"base/pgsql_tmp/pgsql_tmp1.0\": No space left on device",
            "Got error 28 \"No space left on device\" from storage engine InnoDB",
            "Error writing file './binlog.000001' (Errcode: 28)",
        ] {
            let broken = StoreError::from_postgres("XX000", place(), cause());
            assert!(
                matches!(broken.or_full(message, "here"), StoreError::Full { .. }),
                "{message}"
            );
        }

        let other = StoreError::from_postgres("XX000", place(), cause())
            .or_full("cache lookup failed", "here");
        assert!(matches!(other, StoreError::Broken { .. }));
    }

    #[test]
    fn distinguishes_disk_errors_from_locks() {
        let sqlite = |code| {
            StoreError::from_sqlite(
                code,
                "sqlite:///x/notes.txt?mode=rwc".to_owned(),
                String::new(),
            )
        };

        // Busy, busy with an old snapshot, locked by a shared cache.
        for code in [5, 517, 262] {
            assert!(
                matches!(sqlite(code), StoreError::Contended { .. }),
                "{code}"
            );
        }

        // Read, write and flush errors; a file that cannot be opened.
        for code in [10, 266, 778, 1034, 14] {
            assert!(
                matches!(sqlite(code), StoreError::Unavailable { .. }),
                "{code}"
            );
        }

        assert_eq!(
            sqlite(26).to_string(),
            "the file /x/notes.txt is not a SQLite database"
        );
    }
}
