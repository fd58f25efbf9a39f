//! Sibling categories as the samples of what lies in them.
//! Promises a likeness that does not favour a category for its mere size, that
//! leaves out what all siblings have in common, and that depends on nothing
//! but the samples, their order and how much lies in each category.

use std::sync::{Arc, Mutex, PoisonError};

use super::company::Company;
use super::hash;
use super::sketch::{Sketch, opening, sketch};
use super::table::{self, Vector};

/// Share of the three nearest samples beside the category as a whole.
const NEAREST: f32 = 0.3;
/// How many nearest samples count.
const TOP: usize = 3;
/// Likeness expected of two texts of one category, and how many pairs of
/// samples that expectation counts for.
const COHESION: f32 = 0.12;
const PAIRS: f32 = 40.0;
/// How far a loose category is forgiven its looseness: 0 not at all, 0.5 wholly.
const FORGIVEN: f32 = 0.5;
/// What a category loses for every e-fold of its fair share that it holds: where most texts end up, different matters
/// have piled up, and its mean resembles everything a little.
const CROWDED: f32 = 0.03;
/// Cohesion below which no category is thought to be; keeps the division tame.
const LEAST: f32 = 0.003;
/// Share of all texts, in percent, that the main category of a store of one subject holds.
const MAIN: usize = 60;
/// Sets of siblings kept as they were read.
const KEPT: usize = 4;
/// Samples the common mean must outweigh before it is taken away in full.
const CAUTION: f32 = 2.0;

/// One category: its samples, and how like they are to each other.
#[derive(Debug, Clone, Default)]
struct Shelf {
    count: f32,
    /// Sum of the likenesses of all pairs of different samples.
    pairs: f32,
    each: Vec<Arc<Reader>>,
}

/// All siblings.
#[derive(Debug, Clone)]
pub struct Shelves {
    mean: Vector,
    all: Vec<Arc<Shelf>>,
    company: Arc<Vec<Company>>,
}

/// A text seen against the siblings: what sets it apart from their mean.
#[derive(Debug, Clone)]
pub struct Reader {
    vector: Vector,
}

impl Shelves {
    /// `samples` of each category; a category without any is known by its name.
    /// From memory when the same siblings were read lately.
    pub fn of(names: &[&str], samples: &[Vec<&str>]) -> Self {
        static READ: Mutex<Vec<(u64, Shelves)>> = Mutex::new(Vec::new());
        let key = fingerprint(names, samples);
        let mut memory = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = memory.iter().position(|(known, _)| *known == key) {
            memory[..=at].rotate_right(1);
        } else {
            memory.truncate(KEPT - 1);
            memory.insert(0, (key, Self::new(names, samples)));
        }
        memory[0].1.clone()
    }

    fn new(names: &[&str], samples: &[Vec<&str>]) -> Self {
        let texts: Vec<Vec<Arc<Sketch>>> = names
            .iter()
            .enumerate()
            .map(|(at, name)| match samples.get(at) {
                Some(texts) if !texts.is_empty() => texts.iter().map(|t| sketch(t)).collect(),
                _ => vec![sketch(name)],
            })
            .collect();
        let mut all = Self { mean: common(&texts), all: Vec::new(), company: Arc::default() };
        for texts in &texts {
            let each: Vec<Arc<Reader>> = texts.iter().map(|text| Arc::new(all.read(text))).collect();
            let mut shelf = Shelf::default();
            for text in each {
                shelf.lay(text);
            }
            all.all.push(Arc::new(shelf));
        }
        all.company = Arc::new(texts.iter().map(|t| Company::of(t)).collect());
        all
    }

    /// A text against the siblings.
    pub fn read(&self, text: &Sketch) -> Reader {
        let mut vector = text.vector;
        table::add(&mut vector, &self.mean, -1.0);
        Reader { vector: table::unit(vector) }
    }

    /// Likeness of a text to every category, in their order. `counts` says how much lies in each; where it is silent
    /// the samples stand for it.
    pub fn likeness(&self, text: &Reader, counts: &[usize]) -> Vec<f32> {
        let held: Vec<f32> = (0..self.all.len()).map(|at| self.held(at, counts)).collect();
        let fair = held.iter().sum::<f32>() / held.iter().fold(0.0, |n: f32, _| n + 1.0).max(1.0);
        let crowding = |held: f32| CROWDED * (held / fair.max(1.0)).max(1.0).ln();
        self.all.iter().zip(held).map(|(shelf, held)| shelf.likeness(text) - crowding(held)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a logarithm of it is taken")]
    fn held(&self, at: usize, counts: &[usize]) -> f32 {
        let sampled = self.all.get(at).map_or(0.0, |shelf| shelf.count);
        counts.get(at).map_or(sampled, |count| (*count as f32).max(sampled))
    }

    /// The category a text looks typical of, whatever its subject, in a store
    /// where one category holds nearly everything.
    pub fn typical(&self, counts: &[usize], text: &Sketch) -> Option<usize> {
        let count = |at: usize| counts.get(at).copied().unwrap_or_else(|| self.all.get(at).map_or(0, |s| s.each.len()));
        let total: usize = (0..self.company.len()).map(count).sum();
        let main = (0..self.company.len()).find(|at| 100 * count(*at) >= MAIN * total)?;
        let company = self.company.get(main)?;
        (table::dot(&company.centre, &text.vector) >= company.least).then_some(main)
    }

    /// Lays a text on a shelf; on a new one when there is none of that number.
    pub fn lay(&mut self, at: usize, text: &Reader) {
        if at >= self.all.len() {
            self.all.push(Arc::new(Shelf::default()));
        }
        let last = self.all.len() - 1;
        Arc::make_mut(&mut self.all[at.min(last)]).lay(Arc::new(text.clone()));
    }
}

impl Shelf {
    fn lay(&mut self, text: Arc<Reader>) {
        self.pairs += 2.0 * self.each.iter().map(|one| one.likeness(&text)).sum::<f32>();
        self.count += 1.0;
        self.each.push(text);
    }

    fn likeness(&self, text: &Reader) -> f32 {
        let (mut sum, mut near) = (0.0, [f32::MIN; TOP]);
        for one in &self.each {
            let mut like = one.likeness(text);
            sum += like;
            for slot in &mut near {
                if like > *slot {
                    std::mem::swap(&mut like, slot);
                }
            }
        }
        let mean = sum / self.count.max(1.0);
        let number = self.count * (self.count - 1.0);
        let cohesion = ((self.pairs + PAIRS * COHESION) / (number + PAIRS)).max(LEAST);
        let whole = mean / cohesion.powf(FORGIVEN);
        let known = near.iter().filter(|n| **n > f32::MIN);
        let (near, number) = known.fold((0.0, 0.0f32), |(sum, number), n| (sum + n, number + 1.0));
        let near = near / number.max(1.0);
        (1.0 - NEAREST) * whole + NEAREST * near
    }
}

impl Reader {
    /// Squared, so that one close relative says more than several distant ones: of texts about neighbouring matters
    /// most are a little alike.
    fn likeness(&self, text: &Reader) -> f32 {
        table::dot(&self.vector, &text.vector).max(0.0).powi(2)
    }
}

fn fingerprint(names: &[&str], samples: &[Vec<&str>]) -> u64 {
    let mut key = 0;
    for (at, name) in names.iter().enumerate() {
        key = match samples.get(at) {
            Some(texts) if !texts.is_empty() => texts.iter().fold(hash::mix(key, "+"), |k, t| hash::mix(k, opening(t))),
            _ => hash::mix(hash::mix(key, "-"), name),
        };
    }
    key
}

/// What all samples have in common, less when there are few.
fn common(texts: &[Vec<Arc<Sketch>>]) -> Vector {
    let mut sum = table::ZERO;
    let mut count = CAUTION;
    for text in texts.iter().flatten() {
        table::add(&mut sum, &text.vector, 1.0);
        count += 1.0;
    }
    let mut mean = table::ZERO;
    table::add(&mut mean, &sum, 1.0 / count);
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_outweigh_names() {
        let cards = vec!["When will my new card arrive?", "My card has still not come in the post"];
        let rates = vec!["Which exchange rate do you use?", "Is the exchange rate fair?"];
        let shelves = Shelves::new(&["Alpha", "Beta"], &[cards, rates]);
        for (text, wanted) in [("Has my card been posted?", 0), ("What is the rate for euros?", 1)] {
            let likeness = shelves.likeness(&shelves.read(&sketch(text)), &[]);
            assert!(likeness[wanted] > likeness[1 - wanted], "{text}: {likeness:?}");
        }
    }

    #[test]
    fn nothing_known_is_harmless() {
        let mut shelves = Shelves::new(&[], &[]);
        let read = shelves.read(&sketch(""));
        shelves.lay(3, &read);
        assert!(shelves.likeness(&read, &[]).iter().all(|l| l.is_finite()));
    }
}
