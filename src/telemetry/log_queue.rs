//! The log between those who log and the one thread that writes.
//!
//! Writing may fail (the disk is full, the reader of a pipe is gone) and may wait (the reader does
//! not read). Neither reaches those who log: a line is handed over, and lines that cannot be written
//! or do not fit are counted. The count is reported in the log as soon as writing works again.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::metrics as names;

/// How often the count of lost lines is offered to a log that did not take the last lines.
const RETRY: Duration = Duration::from_secs(1);

thread_local! {
    /// What the writing thread logs itself, while it composes a report.
    static OWN: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

pub struct LogQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// The maximum bytes that wait.
    most: usize,
}

struct State {
    /// Complete lines.
    waiting: Vec<u8>,
    writing: bool,
    /// Lines lost and not reported yet.
    lost: u64,
}

impl LogQueue {
    pub const fn new(most: usize) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                writing: false,
                lost: 0,
            }),
            changed: Condvar::new(),
            most,
        }
    }

    /// Hands over an entry, which ends with a line break; it is lost if too much waits already.
    fn push(&self, entry: &[u8]) {
        let mut state = self.lock();
        let fits = state.waiting.len().saturating_add(entry.len()) <= self.most;
        if fits {
            state.waiting.extend_from_slice(entry);
        } else {
            state.lost += lines(entry);
        }

        drop(state);
        self.changed.notify_all();
        if !fits {
            count_lost(lines(entry));
        }
    }

    /// Writes what is handed over, forever; `report` formats the count of lost lines.
    pub fn write_to(&self, mut out: impl Write, report: impl Fn(u64) -> Vec<u8>) -> ! {
        let mut torn = false;
        loop {
            let (batch, lost) = self.next();
            let outcome = write_batch(&mut out, &batch, lost, &mut torn, &report);
            count_lost(outcome.lost);
            let unreported = if outcome.reported { 0 } else { lost };
            self.lock().lost += unreported + outcome.lost;
        }
    }

    /// Waits until everything is written, or lost, or the time is over.
    pub fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while state.writing || !state.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }

            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next lines and the number of lost ones; without lines only if that number was not
    /// reported for a while.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut state = self.lock();
        state.writing = false;
        self.changed.notify_all();
        let asked = Instant::now();
        while state.waiting.is_empty() && (state.lost == 0 || asked.elapsed() < RETRY) {
            let waited = self.changed.wait_timeout(state, RETRY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }

        state.writing = true;
        let lost = std::mem::take(&mut state.lost);
        (std::mem::take(&mut state.waiting), lost)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Whether the lines lost before are reported.
    reported: bool,
    /// Lines of the batch that are lost.
    lost: u64,
}

/// Writes the count of lines lost before, and a batch of lines. `torn` is whether the log ends
/// within a line.
fn write_batch(
    out: &mut impl Write,
    batch: &[u8],
    lost: u64,
    torn: &mut bool,
    report: impl Fn(u64) -> Vec<u8>,
) -> Outcome {
    let mut text = Vec::new();
    if *torn {
        text.push(b'\n');
    }

    if lost > 0 {
        text.extend(report(lost));
    }

    let own = text.len();
    text.extend_from_slice(batch);
    let written = write_most(out, &text);
    if written > 0 {
        *torn = text[written - 1] != b'\n';
    }

    Outcome {
        reported: written >= own,
        lost: lines(&text[written.max(own)..]),
    }
}

/// Writes until an error; returns the number of bytes written.
fn write_most(out: &mut impl Write, text: &[u8]) -> usize {
    let mut written = 0;
    while written < text.len() {
        match out.write(&text[written..]) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }

    written
}

fn lines(text: &[u8]) -> u64 {
    text.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

fn count_lost(lines: u64) {
    if lines > 0 {
        metrics::counter!(names::LOG_LINES_LOST_TOTAL).increment(lines);
    }
}

/// What this thread logs meanwhile; none of it goes into a queue.
pub fn captured(logging: impl FnOnce()) -> Vec<u8> {
    OWN.set(Some(Vec::new()));
    logging();
    OWN.take().unwrap_or_default()
}

/// Takes one entry; writing to it never fails.
pub struct Entry(pub &'static LogQueue);

impl Write for Entry {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let own = OWN.with_borrow_mut(|own| {
            own.as_mut()
                .map(|own| own.extend_from_slice(entry))
                .is_some()
        });

        if !own {
            self.0.push(entry);
        }

        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes this many bytes, then fails.
    struct Disk {
        content: Vec<u8>,
        free: usize,
    }

    impl Write for Disk {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let some = text.len().min(self.free);
            if some == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }

            self.free -= some;
            self.content.extend_from_slice(&text[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn report(lost: u64) -> Vec<u8> {
        format!("lost {lost}\n").into_bytes()
    }

    #[test]
    fn lost_lines_are_counted_once_and_reported_first() {
        let mut disk = Disk {
            content: Vec::new(),
            free: 5,
        };
        let mut torn = false;
        // The second line is written in part.
        let outcome = |reported, lost| Outcome { reported, lost };
        let first = write_batch(&mut disk, b"one\ntwo\nthree\n", 0, &mut torn, report);
        assert_eq!((first, torn), (outcome(true, 2), true));
        let second = write_batch(&mut disk, b"four\n", 2, &mut torn, report);
        assert_eq!((second, torn), (outcome(false, 1), true));

        // The report itself is written in part.
        disk.free = 4;
        let third = write_batch(&mut disk, b"", 3, &mut torn, report);
        assert_eq!((third, torn), (outcome(false, 0), true));

        disk.free = 100;
        let fourth = write_batch(&mut disk, b"five\n", 3, &mut torn, report);
        assert_eq!((fourth, torn), (outcome(true, 0), false));
        assert_eq!(disk.content, b"one\nt\nlos\nlost 3\nfive\n");
    }

    #[test]
    fn a_queue_that_nobody_empties_loses_the_newest_lines() {
        let queue = LogQueue::new(10);
        for line in ["one\n", "two\n", "three\n", "4\n", "five\nsix\n"] {
            queue.push(line.as_bytes());
        }

        queue.flush(Duration::from_millis(1));
        assert_eq!(queue.next(), (b"one\ntwo\n4\n".to_vec(), 3));
        queue.push(b"seven\n");
        assert_eq!(queue.next(), (b"seven\n".to_vec(), 0));
    }
}
