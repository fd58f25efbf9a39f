//! No function over a whole text takes quadratic time: ten times the text takes about ten times as
//! long, whatever the text is.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[path = "../../benches/texts/mod.rs"]
mod texts;

use texts::FUNCTIONS;

const SMALL: usize = 100_000;
const LARGE: usize = 1_000_000;
/// Allowed between them; a quadratic function needs 100.
const FACTOR: u32 = 15;
/// A shorter time for the large text is fine in any case: timers and other processes disturb it.
const FLOOR: Duration = Duration::from_millis(100);
/// How often a time is taken before it counts as too long, because the machine may be busy.
const TRIES: usize = 24;

fn timed(function: fn(&str) -> usize, text: &str) -> Duration {
    let (clock, processor) = (Instant::now(), processor_time());
    black_box(function(black_box(text)));
    match (processor, processor_time()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => clock.elapsed(),
    }
}

/// The processor time of this thread: other processes do not disturb it. Only on Linux.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// Both times at their best, as soon as they are in proportion; an error if they never are.
fn compare(function: fn(&str) -> usize, make: fn(usize) -> String) -> Result<(), String> {
    let (small, large) = (make(SMALL), make(LARGE));
    let (mut short, mut long) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        short = short.min(timed(function, &small));
        long = long.min(timed(function, &large));
        if long <= FLOOR || long <= short * FACTOR {
            return Ok(());
        }
    }

    Err(format!("100 kB took {short:?}, and 1 MB {long:?}"))
}

/// Checks every so many functions from one on: in parts, several cores share them.
fn check(first: usize, step: usize) {
    let mut slow = Vec::new();
    for function in FUNCTIONS.iter().skip(first).step_by(step) {
        for (shape, make) in function.shapes.iter().copied().flatten() {
            if let Err(fault) = compare(function.run, *make) {
                slow.push(format!("{}, {shape}: {fault}", function.name));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn ten_times_the_text_takes_ten_times_as_long_1() {
    check(0, 3);
}

#[test]
fn ten_times_the_text_takes_ten_times_as_long_2() {
    check(1, 3);
}

#[test]
fn ten_times_the_text_takes_ten_times_as_long_3() {
    check(2, 3);
}
