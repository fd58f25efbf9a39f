//! Group commit for SQLite: concurrent commits share one wait for the disk.
//!
//! With `synchronous = FULL`, SQLite waits for the disk inside each commit and holds its one writer
//! meanwhile. Here the writer uses `synchronous = NORMAL`, and after its commit waits for a flush
//! of the write-ahead log that *began after* the commit. One flush runs at a time and serves all
//! commits before its start.
//!
//! Why this loses nothing that was acknowledged:
//! - A commit appends frames to the log and ends with a commit mark. Checksums chain the frames, so
//!   after a power cut SQLite keeps everything up to the last complete commit, and a flush
//!   completes everything before it.
//! - With NORMAL, SQLite itself still flushes a new log's header (and its folder) before any frame,
//!   the log before it copies frames into the database file, and that file before it restarts the
//!   log (`sqlite3WalFrames`, `walCheckpoint`). A commit that has left the log by the time of its
//!   flush is therefore already on disk.
//! - After a failed flush, the system may treat the pages as written: the next flush would succeed
//!   and prove nothing. So a failure persists until SQLite has copied the log into the database
//!   file and emptied it (`Backend::make_durable`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::base::metrics as names;

/// Runs flushes, one at a time, while a commit waits for one.
pub struct Flusher {
    inner: Arc<Inner>,
}

struct Inner {
    turns: Mutex<Turns>,
    /// The flush itself; the lock is held while it runs.
    flush: Mutex<Box<dyn FnMut() -> io::Result<()> + Send>>,
    ended: watch::Sender<u64>,
}

/// Flushes by number, counted from 1.
#[derive(Default)]
struct Turns {
    begun: u64,
    wanted: u64,
    running: bool,
    failure: Option<String>,
}

impl Flusher {
    pub fn new(flush: impl FnMut() -> io::Result<()> + Send + 'static) -> Self {
        let (turns, flush) = (Mutex::default(), Mutex::new(Box::new(flush) as Box<_>));
        Self {
            inner: Arc::new(Inner {
                turns,
                flush,
                ended: watch::Sender::new(0),
            }),
        }
    }

    /// Waits for a flush that begins after this call.
    ///
    /// # Errors
    /// It failed, or an earlier one did and [`Flusher::recovered`] was not called since.
    pub async fn flushed(&self) -> Result<(), String> {
        let mut ended = self.inner.ended.subscribe();
        let (turn, must_start) = self.inner.take_turn()?;

        if must_start {
            let inner = Arc::clone(&self.inner);
            #[expect(
                clippy::disallowed_methods,
                reason = "it also serves other commits, and ends when none waits"
            )]
            tokio::task::spawn_blocking(move || inner.run());
        }

        // The sender lives as long as this.
        let _ = ended.wait_for(|number| *number >= turn).await;

        self.inner.turns().failure.clone().map_or(Ok(()), Err)
    }

    pub fn has_failed(&self) -> bool {
        self.inner.turns().failure.is_some()
    }

    /// Declares everything committed so far durable by other means. No commit may happen meanwhile.
    pub fn recovered(&self) {
        self.inner.turns().failure = None;
    }
}

impl Inner {
    fn turns(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next flush, and whether the caller must start it.
    fn take_turn(&self) -> Result<(u64, bool), String> {
        let mut turns = self.turns();
        if let Some(failure) = &turns.failure {
            return Err(failure.clone());
        }

        turns.wanted = turns.begun + 1;
        let must_start = !turns.running;
        turns.running = true;
        Ok((turns.wanted, must_start))
    }

    fn run(&self) {
        while let Some(number) = self.next_wanted() {
            let flushed = {
                let mut flush = self.flush.lock().unwrap_or_else(PoisonError::into_inner);
                flush()
            };

            metrics::counter!(names::STORE_FLUSHES_TOTAL).increment(1);

            if let Err(error) = flushed {
                tracing::warn!(%error, "cannot flush SQLite's write-ahead log to disk");
                self.turns().failure.get_or_insert(error.to_string());
            }

            self.ended.send_replace(number);
        }
    }

    /// Begins the next flush, if a commit waits for one.
    fn next_wanted(&self) -> Option<u64> {
        let mut turns = self.turns();
        if turns.wanted <= turns.begun {
            turns.running = false;
            return None;
        }

        turns.begun += 1;
        Some(turns.begun)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::future::join_all;
    use futures_util::poll;

    use super::*;

    /// A flusher whose flushes report their start and end as the test says.
    fn controlled() -> (Flusher, mpsc::Receiver<()>, mpsc::Sender<io::Result<()>>) {
        let (begins, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let flush = move || {
            begins.send(()).unwrap();
            ends.recv().unwrap()
        };

        (Flusher::new(flush), begun, end)
    }

    #[tokio::test]
    async fn waits_for_a_flush_that_began_after_the_commit() {
        let (flusher, begun, end) = controlled();
        let mut first = Box::pin(flusher.flushed());
        assert!(poll!(&mut first).is_pending());
        begun.recv().unwrap();

        // Committed while the first flush runs, which may have missed it.
        let mut second = Box::pin(flusher.flushed());
        assert!(poll!(&mut second).is_pending());
        end.send(Ok(())).unwrap();
        first.await.unwrap();
        begun.recv().unwrap();
        assert!(
            poll!(&mut second).is_pending(),
            "served by a flush that had begun before"
        );

        end.send(Ok(())).unwrap();
        second.await.unwrap();
    }

    #[tokio::test]
    async fn fifty_writers_during_a_flush_share_the_next() {
        let (flusher, begun, end) = controlled();
        let mut first = Box::pin(flusher.flushed());
        assert!(poll!(&mut first).is_pending());
        begun.recv().unwrap();

        let mut fifty = Box::pin(join_all((0..50).map(|_| flusher.flushed())));
        assert!(poll!(&mut fifty).is_pending());

        // Two may end; a third would wait here forever.
        end.send(Ok(())).unwrap();
        end.send(Ok(())).unwrap();
        first.await.unwrap();
        assert!(fifty.await.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn a_failure_persists_until_a_flush_succeeds() {
        let (flusher, _begun, end) = controlled();
        end.send(Err(io::Error::other("broken"))).unwrap();
        assert_eq!(flusher.flushed().await, Err("broken".to_owned()));

        // Without flushing: the disk would report success.
        assert_eq!(flusher.flushed().await, Err("broken".to_owned()));

        flusher.recovered();
        end.send(Ok(())).unwrap();
        assert_eq!(flusher.flushed().await, Ok(()));
    }
}
