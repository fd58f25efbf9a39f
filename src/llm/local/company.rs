//! Whether a text looks like those that lie in a category, whatever its subject.
//! Promises to hold nothing typical of a category of which too little is known.

use std::sync::Arc;

use super::sketch::Sketch;
use super::table::{self, Vector};

/// Samples a category must have before a text can be typical of it.
const KNOWN: usize = 12;
/// How many spreads from the middle is still typical.
const SPREADS: f32 = 3.0;

/// How near the texts of a category are to its middle.
#[derive(Debug, Clone)]
pub struct Company {
    pub centre: Vector,
    /// A text nearer than this is typical; out of reach where too little is known.
    pub least: f32,
}

impl Company {
    pub fn of(texts: &[Arc<Sketch>]) -> Self {
        let mut sum = table::ZERO;
        for text in texts {
            table::add(&mut sum, &text.vector, 1.0);
        }
        let near: Vec<f32> = texts.iter().map(|text| apart(&sum, &text.vector)).collect();
        let count = near.iter().fold(0.0, |n: f32, _| n + 1.0);
        let mean = near.iter().sum::<f32>() / count.max(1.0);
        let spread = (near.iter().map(|n| (n - mean).powi(2)).sum::<f32>() / count.max(1.0)).sqrt();
        let least = if texts.len() < KNOWN { f32::INFINITY } else { mean - SPREADS * spread };
        Self { centre: table::unit(sum), least }
    }
}

/// Likeness of a text to the middle of the others.
fn apart(sum: &Vector, text: &Vector) -> f32 {
    let mut others = *sum;
    table::add(&mut others, text, -1.0);
    table::dot(&table::unit(others), text)
}
