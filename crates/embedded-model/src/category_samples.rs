//! One category, represented by samples of its chunks. Guarantees a similarity that does not favour
//! large categories and that unrelated samples hardly change.

use std::sync::Arc;

use super::frame::Reading;
use super::sample_pairs;
use super::sketch::Sketch;
use super::table::{self, Vector};
use super::wording::Wording;

/// Weight of the nearest samples compared with the category as a whole.
const NEAREST: f32 = 0.3;
/// Number of nearest samples that count.
const TOP: usize = 3;
/// Expected similarity of two texts of one category, and the number of pairs that this expectation
/// counts for.
const COHESION: f32 = 0.12;
const PAIRS: f32 = 40.0;
/// Minimum cohesion of a category, so that the division does not explode.
const MIN_COHESION: f32 = 0.003;

#[derive(Debug, Clone)]
pub struct SampledCategory {
    each: Vec<Arc<Reading>>,
    /// Similarity of every pair of samples: for each sample, the earlier ones in order.
    pairs: Vec<f32>,
    /// The weight of each sample; all weights sum to 1.
    says: Vec<f32>,
    /// How similar the samples are to each other.
    cohesion: f32,
    /// The mean of the samples, of length 1.
    middle: Vector,
    /// The mean with what all siblings have in common.
    whole: Vector,
}

impl Default for SampledCategory {
    fn default() -> Self {
        Self {
            each: Vec::new(),
            pairs: Vec::new(),
            says: Vec::new(),
            cohesion: MIN_COHESION,
            middle: table::ZERO,
            whole: table::ZERO,
        }
    }
}

impl SampledCategory {
    pub fn of(texts: impl IntoIterator<Item = Reading>) -> Self {
        let mut category = Self::default();
        for text in texts {
            category.put(Arc::new(text));
        }

        category.weigh();
        category
    }

    pub fn lay(&mut self, text: Arc<Reading>) {
        self.put(text);
        self.weigh();
    }

    /// The position of a text among the samples.
    pub fn find(&self, text: &Sketch) -> Option<usize> {
        self.each.iter().position(|one| one.sketch.is(text))
    }

    pub fn take(&mut self, place: usize) {
        let mut left = Vec::with_capacity(self.pairs.len());
        self.for_each_pair(|a, b, like| {
            if a != place && b != place {
                left.push(like);
            }
        });

        self.pairs = left;
        self.each.remove(place);
        self.weigh();
    }

    pub fn len(&self) -> usize {
        self.each.len()
    }

    fn put(&mut self, text: Arc<Reading>) {
        let others = self.each.iter().map(|one| &*one.sketch);
        let words = sample_pairs::word_likeness(&text.sketch, others);
        let pairs = self.each.iter().zip(words);
        self.pairs
            .extend(pairs.map(|(one, words)| text.likeness_with(words, one)));
        self.each.push(text);
    }

    /// A sample that is unlike the others gets little weight.
    fn weigh(&mut self) {
        let mut sums = vec![COHESION; self.each.len()];
        self.for_each_pair(|a, b, like| {
            sums[a] += like;
            sums[b] += like;
        });

        // Normalised, so that the number of samples does not matter.
        self.says = sums.iter().map(|sum| sum.powi(2)).collect();
        let all: f32 = self.says.iter().sum();
        self.says
            .iter_mut()
            .for_each(|says| *says /= all.max(f32::MIN_POSITIVE));

        let (mut middle, mut whole) = (table::ZERO, table::ZERO);
        for (one, says) in self.each.iter().zip(&self.says) {
            table::add(&mut middle, &one.apart, *says);
            table::add(&mut whole, &one.sketch.vector, *says);
        }

        self.middle = table::unit(middle);
        self.whole = table::unit(whole);

        let alone: f32 = self.says.iter().map(|says| says.powi(2)).sum();
        let mut alike = 0.0;
        self.for_each_pair(|a, b, like| alike += 2.0 * self.says[a] * self.says[b] * like);

        // The effective number of samples.
        let number = 1.0 / alone.max(f32::MIN_POSITIVE);
        let pairs = (number * (number - 1.0)).max(0.0);
        let mean = if pairs > 0.0 {
            alike / (1.0 - alone).max(f32::EPSILON)
        } else {
            0.0
        };

        self.cohesion = ((mean * pairs + PAIRS * COHESION) / (pairs + PAIRS)).max(MIN_COHESION);
    }

    fn for_each_pair(&self, mut each: impl FnMut(usize, usize, f32)) {
        let places = (1..self.each.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        for ((a, b), like) in places.zip(&self.pairs) {
            each(a, b, *like);
        }
    }

    /// How near a text is to the mean of the samples, with what all siblings have in common.
    pub fn sameness(&self, text: &Sketch) -> f32 {
        table::dot(&self.whole, &text.vector)
    }

    /// How near a text is to the mean of the samples.
    pub fn nearness(&self, text: &Reading) -> f32 {
        table::dot(&self.middle, &text.apart)
    }

    /// Similarity of a text to the samples, relative to how similar the samples are to each other.
    pub fn likeness(&self, text: &Reading, wording: &mut Wording<'_>) -> f32 {
        let (mut mean, mut near) = (0.0, [f32::MIN; TOP]);
        for (one, says) in self.each.iter().zip(&self.says) {
            let mut like = text.likeness(wording, one);
            mean += says * like;
            for slot in &mut near {
                if like > *slot {
                    std::mem::swap(&mut like, slot);
                }
            }
        }

        let known = near.iter().filter(|n| **n > f32::MIN);
        let (near, number) = known.fold((0.0, 0.0f32), |(sum, number), n| (sum + n, number + 1.0));
        (1.0 - NEAREST) * mean / self.cohesion.max(MIN_COHESION).sqrt()
            + NEAREST * near / number.max(1.0)
    }
}
