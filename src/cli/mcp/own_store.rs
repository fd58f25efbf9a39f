//! The store of `memoir mcp` where no service runs: in the user's data folder, never in the working directory, and
//! shared by every `memoir mcp` of the user. One of these processes runs the jobs; when it ends, another takes over.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::BoxFuture;

use crate::cli::CommandError;
use crate::config::database::DatabaseUrl;
use crate::config::{Config, Origin};

/// How often a process asks whether the one that runs the jobs has ended.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// The settings of the store, and the wait for the turn to run jobs.
pub fn prepare(
    mut config: Config,
    origin: &Origin,
) -> Result<(Config, BoxFuture<'static, ()>), CommandError> {
    // A relative path would lead into the working directory.
    let is_relative = config
        .database
        .url
        .sqlite_file()
        .is_some_and(Path::is_relative);
    if is_relative {
        let folder = folder(origin, "XDG_DATA_HOME", ".local/share")
            .context("cannot find a folder for data: set XDG_DATA_HOME")?;
        std::fs::create_dir_all(&folder).with_context(|| {
            format!(
                "cannot create {}: set XDG_DATA_HOME to another folder",
                folder.display()
            )
        })?;
        let file = folder.join("memoir.db");
        let file = file
            .to_str()
            .context("the path of the data folder must be UTF-8")?;
        config.database.url = DatabaseUrl::new(format!("sqlite://{file}"));
    }

    // A database server coordinates by itself which process runs which job.
    let Some(file) = config.database.url.sqlite_file() else {
        return Ok((config, Box::pin(std::future::ready(()))));
    };
    let lock = file.with_extension("jobs.lock");
    let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    Ok((config, Box::pin(turn(lock))))
}

/// Ends once this process holds the lock, which it keeps until it ends, however it ends.
async fn turn(lock: File) {
    while matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        tokio::time::sleep(ASKED_AGAIN).await;
    }
    // Closing the file would give the lock away.
    std::mem::forget(lock);
}

/// A folder of memoir among the user's own.
pub fn folder(origin: &Origin, variable: &str, below_home: &str) -> Option<PathBuf> {
    // The specification of these folders ignores relative paths.
    let named = |name: &str| {
        origin
            .environment
            .get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = named(variable).or_else(|| Some(named("HOME")?.join(below_home)));
    Some(folder?.join("memoir"))
}

/// The settings of this user's own memory: `DATABASE_URL` belongs to the project in whose folder an agent was started.
pub fn own_origin(origin: &Origin) -> Origin {
    let mut own = origin.clone();
    for foreign in ["DATABASE_URL", "DATABASE_URL_FILE"] {
        own.environment.remove(foreign);
    }
    own
}
