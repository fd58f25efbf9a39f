//! SQLite's write-ahead log as a file that is flushed to the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The log beside a database file.
pub struct WalFile {
    path: PathBuf,
    /// Kept open between flushes: the system tells each open file once that writing to the disk has
    /// failed, and one that is opened later may not hear of it. SQLite takes no locks on this file,
    /// so closing it takes none away.
    open: Option<File>,
}

impl WalFile {
    /// The log of the database whose file has this path, with symbolic links resolved.
    pub fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self {
            path: path.into(),
            open: None,
        }
    }

    /// Waits until everything that was written to the log is on the disk.
    ///
    /// # Errors
    /// The disk failed; or the log is not there, although this process has just written to it.
    pub fn flush(&mut self) -> io::Result<()> {
        let there = std::fs::metadata(&self.path)?;
        let known = self.open.as_ref().map(File::metadata).transpose()?;

        // SQLite removes the log when the last connection closes, and makes another.
        if known.is_none_or(|known| (known.dev(), known.ino()) != (there.dev(), there.ino())) {
            self.open = Some(File::open(&self.path)?);
            // A file that its folder does not name is lost with all that is in it.
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

/// Lets tests see and disturb flushes.
#[cfg(test)]
pub mod seam {
    use std::collections::HashMap;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{LazyLock, Mutex};
    use std::time::Duration;

    /// What is known of one log.
    #[derive(Debug, Default, Clone)]
    pub struct Flushes {
        pub count: usize,
        /// So many bytes of the log were there when the last flush that worked began.
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
