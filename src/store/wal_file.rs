//! SQLite's write-ahead log as a file that memoir flushes to disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The log of a database file.
pub struct WalFile {
    path: PathBuf,
    /// Kept open between flushes: the system reports a write error once to each open file, and a
    /// file opened later may miss it. SQLite takes no locks on this file, so closing it releases
    /// none.
    open: Option<File>,
}

impl WalFile {
    /// The log of the database at this path, with symbolic links resolved.
    pub fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self {
            path: path.into(),
            open: None,
        }
    }

    /// Waits until everything written to the log is on disk.
    ///
    /// # Errors
    /// The disk failed; or the log is missing, although this process has just written to it.
    pub fn flush(&mut self) -> io::Result<()> {
        let there = std::fs::metadata(&self.path)?;
        let known = self.open.as_ref().map(File::metadata).transpose()?;

        // SQLite deletes the log when the last connection closes, and creates another.
        if known.is_none_or(|known| (known.dev(), known.ino()) != (there.dev(), there.ino())) {
            self.open = Some(File::open(&self.path)?);
            // A file without a durable folder entry is lost with its content.
            if let Some(folder) = self.path.parent() {
                File::open(folder)?.sync_all()?;
            }
        }

        #[cfg(test)]
        seam::before(&self.path)?;
        if let Some(file) = &self.open {
            file.sync_data()?;
        }

        #[cfg(test)]
        seam::after(&self.path, there.len());
        Ok(())
    }
}

/// For tests: observes and disturbs flushes.
#[cfg(test)]
pub mod seam {
    use std::collections::HashMap;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{LazyLock, Mutex};
    use std::time::Duration;

    /// What is known about one log.
    #[derive(Debug, Default, Clone)]
    pub struct Flushes {
        pub count: usize,
        /// The length of the log in bytes when the last successful flush began.
        pub length: u64,
        pub delay: Duration,
        pub fails: bool,
    }

    static LOGS: LazyLock<Mutex<HashMap<PathBuf, Flushes>>> = LazyLock::new(Mutex::default);

    pub fn with<T>(log: &Path, look: impl FnOnce(&mut Flushes) -> T) -> T {
        look(LOGS.lock().unwrap().entry(log.to_owned()).or_default())
    }

    pub fn before(log: &Path) -> io::Result<()> {
        let Flushes { delay, fails, .. } = with(log, |flushes| flushes.clone());
        std::thread::sleep(delay);
        if fails {
            Err(io::Error::other("the disk is broken, says the test"))
        } else {
            Ok(())
        }
    }

    pub fn after(log: &Path, length: u64) {
        with(log, |flushes| {
            flushes.count += 1;
            flushes.length = length;
        });
    }
}
