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
/// Allowed between half of the large text and the whole of it; a quadratic function needs 4. What a small text needs may
/// fit into the caches of the processor, so that a linear function may need more than the factor above.
const FACTOR_OF_HALF: f64 = 2.7;
/// A shorter time for the large text is fine in any case: timers and other processes disturb it.
const FLOOR: Duration = Duration::from_millis(100);
/// How often a time is taken before it counts as too long, because the machine may be busy.
const TRIES: usize = 8;

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

/// Times at their best, as soon as they are in proportion; an error if they never are.
fn compare(function: fn(&str) -> usize, make: fn(usize) -> String) -> Result<(), String> {
    let (small, half, large) = (make(SMALL), make(LARGE / 2), make(LARGE));
    let mut best = [Duration::MAX; 3];
    for _ in 0..TRIES {
        best[0] = best[0].min(timed(function, &small));
        best[2] = best[2].min(timed(function, &large));
        if best[2] <= FLOOR || best[2] <= best[0] * FACTOR {
            return Ok(());
        }

        best[1] = best[1].min(timed(function, &half));
        if best[2] <= best[1].mul_f64(FACTOR_OF_HALF) {
            return Ok(());
        }
    }

    Err(format!(
        "100 kB took {:?}, 500 kB {:?}, and 1 MB {:?}",
        best[0], best[1], best[2]
    ))
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
