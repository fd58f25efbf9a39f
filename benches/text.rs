//! How long functions over whole texts take for texts of 1 MB that are hard for them.
//!
//! `scripts/bench text` runs it. A row is a function: its mean time, and its slowest text.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use memoir_embedded_model::EmbeddedModel;
use memoir_index::terms;
use memoir_text::tokens::TokenCounter;
use memoir_text::words;

mod texts;

use texts::{FUNCTIONS, Function, LINES, PLAIN, SECRETS, SENTENCES};

const SIZE: usize = 1_000_000;
const ROUNDS: usize = 3;

/// Without optimisation these take long, so no test compares their times.
const OTHERS: &[Function] = &[
    Function {
        name: "words",
        run: |text| words::telling(text).len(),
        shapes: &[PLAIN],
    },
    Function {
        name: "terms of a chunk",
        run: |text| terms::of_chunk(text).tokens.len(),
        shapes: &[PLAIN, SECRETS],
    },
    Function {
        name: "tokens",
        run: |text| TokenCounter::for_model(None).count(text),
        shapes: &[PLAIN, SENTENCES, LINES],
    },
    Function {
        name: "meaning",
        run: |text| EmbeddedModel::embed(text).len(),
        shapes: &[PLAIN],
    },
    Function {
        name: "statements",
        run: |text| EmbeddedModel::statements(text, &[]).len(),
        shapes: &[PLAIN, SENTENCES],
    },
    Function {
        name: "summary",
        run: |text| {
            let summary = EmbeddedModel::summarize(&[(1, text, 500)]);
            summary.iter().map(|(_, text)| text.len()).sum()
        },
        shapes: &[PLAIN, SENTENCES, LINES],
    },
];

fn main() {
    println!("{:48} {:>8} {:>8}", "1 MB of text", "mean ms", "most ms");
    for function in FUNCTIONS.iter().chain(OTHERS) {
        let shapes = function.shapes.iter().copied().flatten();
        let mut times: Vec<(Duration, &str)> = shapes
            .map(|(shape, make)| (best(function.run, &make(SIZE)), *shape))
            .collect();
        times.sort_unstable();

        let sum: Duration = times.iter().map(|(time, _)| *time).sum();
        let mean = sum / u32::try_from(times.len()).unwrap();
        let (most, shape) = times.last().unwrap();
        let name = function.name;
        let [mean, most] = [mean, *most].map(|time| time.as_secs_f64() * 1000.0);
        println!("{name:48} {mean:8.1} {most:8.1} {shape}");
    }
}

/// The shortest of several times.
fn best(function: fn(&str) -> usize, text: &str) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        black_box(function(black_box(text)));
        begun.elapsed()
    });
    rounds.min().unwrap()
}
