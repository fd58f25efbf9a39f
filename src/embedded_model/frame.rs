//! What sibling categories have in common, and texts seen against it: what sets a text apart from
//! all siblings, and how common it is among them. Promises to depend on the first few samples of
//! each category alone. Whoever gives samples gives the first ones always (`categories::samples`),
//! so that what was read against a frame stays true while others are filed.

use std::sync::Arc;

use super::sketch::Sketch;
use super::table::{self, Vector};
use super::wording::Wording;

/// Samples of each category that the frame is made of; no more than are always given.
pub const FIRST: usize = 4;
/// Samples the common mean must outweigh before it is taken away in full.
const CAUTION: f32 = 2.0;
/// Texts at most by which it is told how common a text is.
const WITNESSES: usize = 96;
/// How like a text is to others on the whole, as far as nothing else is known, and how many
/// witnesses that counts for.
const COMMON: f32 = 0.24;
const DOUBT: f32 = 4.0;
/// Word by word, texts that have nothing to do with each other are alike by so much.
const IDLE: f32 = 0.3;

/// What siblings have in common.
#[derive(Debug)]
pub struct Frame {
    mean: Vector,
    witnesses: Vec<Vector>,
}

/// A text seen against its siblings.
#[derive(Debug)]
pub struct Reading {
    pub sketch: Arc<Sketch>,
    /// What sets it apart, of length 1.
    pub apart: Vector,
    /// 1 for a text that is as like to the others as most are, more for one that everything
    /// resembles a little.
    common: f32,
}

impl Frame {
    /// Of the first samples of all categories, in their order.
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
            // It is no witness of itself.
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
    /// Squared, so that one close relative says more than several distant ones: of texts about
    /// neighbouring matters most are a little alike. What resembles everything a little is like
    /// nothing in particular: its likeness counts for less, and that of a text with few relatives
    /// for more.
    ///
    /// `wording` is that of this text.
    pub fn likeness(&self, wording: &mut Wording<'_>, other: &Self) -> f32 {
        let words = (wording.likeness(&other.sketch) - IDLE) / (1.0 - IDLE);
        let like = f32::midpoint(table::dot(&self.apart, &other.apart), words);
        like.max(0.0).powi(2) / (self.common * other.common)
    }
}

fn apart(vector: &Vector, mean: &Vector) -> Vector {
    let mut apart = *vector;
    table::add(&mut apart, mean, -1.0);
    table::unit(apart)
}
