//! What sibling categories have in common, and texts compared with it: what distinguishes a text
//! from all siblings, and how common it is among them. Guarantees that the frame depends only on
//! the first few samples of each category. `categories::samples` always includes the first ones, so
//! that readings stay valid while other texts are filed.

use std::sync::Arc;

use super::sketch::Sketch;
use super::table::{self, Vector};
use super::wording::Wording;

/// Number of samples per category that the frame is computed from; not more than are always
/// included.
pub const FIRST: usize = 4;
/// Number of samples at which the common mean begins to be subtracted in full.
const CAUTION: f32 = 2.0;
/// Maximum number of texts used to measure how common a text is.
const WITNESSES: usize = 96;
/// The assumed mean similarity of a text to others, and the number of texts that this assumption
/// counts for.
const COMMON: f32 = 0.24;
const DOUBT: f32 = 4.0;
/// The word-by-word similarity of unrelated texts.
const IDLE: f32 = 0.3;

/// What siblings have in common.
#[derive(Debug)]
pub struct Frame {
    mean: Vector,
    witnesses: Vec<Vector>,
}

/// A text compared with its siblings.
#[derive(Debug)]
pub struct Reading {
    pub sketch: Arc<Sketch>,
    /// What distinguishes it, of length 1.
    pub apart: Vector,
    /// 1 for a text with the usual similarity to the others, more for one that is slightly similar
    /// to everything.
    common: f32,
}

impl Frame {
    /// Computes the frame from the first samples of all categories, in order.
    pub fn of(first: &[Arc<Sketch>]) -> Self {
        let (mut mean, mut count) = (table::ZERO, CAUTION);
        for text in first {
            table::add(&mut mean, &text.vector, 1.0);
            count += 1.0;
        }

        for value in &mut mean {
            *value /= count;
        }

        let step = first.len().div_ceil(WITNESSES).max(1);
        let witnesses = first
            .iter()
            .step_by(step)
            .map(|text| apart(&text.vector, &mean))
            .collect();

        Self { mean, witnesses }
    }

    pub fn read(&self, sketch: &Arc<Sketch>) -> Reading {
        let apart = apart(&sketch.vector, &self.mean);
        let (mut sum, mut count) = (DOUBT * COMMON.powi(4), DOUBT);
        for witness in &self.witnesses {
            let like = table::dot(witness, &apart);
            // The text itself does not count.
            if like < 0.999 {
                sum += like.max(0.0).powi(4);
                count += 1.0;
            }
        }

        Reading {
            sketch: Arc::clone(sketch),
            apart,
            common: (sum / count).sqrt().sqrt() / COMMON,
        }
    }
}

impl Reading {
    /// Squared, so that one very similar text counts more than several slightly similar ones. The
    /// similarity of a text that is slightly similar to everything counts less, and that of a text
    /// with few similar ones counts more.
    ///
    /// `wording` is that of this text.
    pub fn likeness(&self, wording: &mut Wording<'_>, other: &Self) -> f32 {
        self.likeness_with(wording.likeness(&other.sketch), other)
    }

    /// The likeness with a known similarity of their words.
    pub fn likeness_with(&self, words: f32, other: &Self) -> f32 {
        let words = (words - IDLE) / (1.0 - IDLE);
        let like = f32::midpoint(table::dot(&self.apart, &other.apart), words);
        like.max(0.0).powi(2) / (self.common * other.common)
    }
}

fn apart(vector: &Vector, mean: &Vector) -> Vector {
    let mut apart = *vector;
    table::add(&mut apart, mean, -1.0);
    table::unit(apart)
}
