//! Sibling categories as the samples of what lies in them.
//! Promises a likeness that does not favour a category for its mere size, that
//! leaves out what all siblings have in common, and that depends on nothing
//! but the samples and their order.

use std::sync::{Arc, Mutex, PoisonError};

use super::company::Company;
use super::hash;
use super::sketch::{Sketch, opening, sketch};
use super::table::{self, Vector};

/// Share of the shared words beside the vectors.
const WORDS: f32 = 0.3;
/// Share of the three nearest samples beside the category as a whole.
const NEAREST: f32 = 0.3;
/// How many nearest samples count.
const TOP: usize = 3;
/// Likeness expected of two texts of one category, and how many pairs of
/// samples that expectation counts for.
const COHESION: f32 = 0.3;
const PAIRS: f32 = 40.0;
/// How far a loose category is forgiven its looseness: 0 not at all, 0.5 wholly.
const FORGIVEN: f32 = 0.35;
/// Share of all texts, in percent, that the main category of a store of one subject holds.
const MAIN: usize = 60;
/// Sets of siblings kept as they were read.
const KEPT: usize = 4;
/// Samples the common mean must outweigh before it is taken away in full.
const CAUTION: f32 = 20.0;

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
    rarity: Arc<Vec<f32>>,
    all: Vec<Arc<Shelf>>,
    company: Arc<Vec<Company>>,
}

/// A text seen against the siblings: what sets it apart from their mean.
#[derive(Debug, Clone)]
pub struct Reader {
    vector: Vector,
    words: Vec<(u16, f32)>,
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
        let mut all =
            Self { mean: common(&texts), rarity: Arc::new(rarity(&texts)), all: Vec::new(), company: Arc::default() };
        let mut scratch = vec![0.0f32; table::rows()];
        for texts in &texts {
            let each: Vec<Arc<Reader>> = texts.iter().map(|text| Arc::new(all.read(text))).collect();
            let count = each.iter().fold(0.0, |n, _| n + 1.0);
            let pairs = together(&each, &mut scratch) - count;
            let shelf = Shelf { count, pairs, each };
            all.all.push(Arc::new(shelf));
        }
        all.company = Arc::new(texts.iter().map(|t| Company::of(t)).collect());
        all
    }

    /// A text against the siblings.
    pub fn read(&self, text: &Sketch) -> Reader {
        let mut vector = text.vector;
        table::add(&mut vector, &self.mean, -1.0);
        let rarity = |id: &u16| self.rarity.get(usize::from(*id)).copied().unwrap_or(0.0);
        let length = text.words.iter().map(|id| rarity(id).powi(2)).sum::<f32>().sqrt().max(1e-6);
        let words = text.words.iter().map(|id| (*id, rarity(id) / length)).collect();
        Reader { vector: table::unit(vector), words }
    }

    /// Likeness of a text to every category, in their order.
    pub fn likeness(&self, text: &Reader) -> Vec<f32> {
        let mut weights = vec![0.0f32; self.rarity.len()];
        for (id, weight) in &text.words {
            if let Some(slot) = weights.get_mut(usize::from(*id)) {
                *slot = *weight;
            }
        }
        self.all.iter().map(|shelf| shelf.likeness(text, &weights)).collect()
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
        let joined = Arc::make_mut(&mut self.all[at.min(last)]);
        let likeness = |one: &Arc<Reader>| {
            (1.0 - WORDS) * table::dot(&one.vector, &text.vector) + WORDS * overlap(&one.words, &text.words)
        };
        joined.pairs += 2.0 * joined.each.iter().map(likeness).sum::<f32>();
        joined.count += 1.0;
        joined.each.push(Arc::new(text.clone()));
    }
}

impl Shelf {
    fn likeness(&self, text: &Reader, weights: &[f32]) -> f32 {
        let (mut sum, mut near) = (0.0, [f32::MIN; TOP]);
        for one in &self.each {
            let mut like = one.likeness(text, weights);
            sum += like;
            for slot in &mut near {
                if like > *slot {
                    std::mem::swap(&mut like, slot);
                }
            }
        }
        let mean = sum / self.count.max(1.0);
        let number = self.count * (self.count - 1.0);
        let cohesion = ((self.pairs + PAIRS * COHESION) / (number + PAIRS)).max(0.05);
        let whole = mean / cohesion.powf(FORGIVEN);
        let known = near.iter().filter(|n| **n > f32::MIN);
        let (near, number) = known.fold((0.0, 0.0f32), |(sum, number), n| (sum + n, number + 1.0));
        let near = near / number.max(1.0);
        (1.0 - NEAREST) * whole + NEAREST * near
    }
}

impl Reader {
    fn likeness(&self, text: &Reader, weights: &[f32]) -> f32 {
        (1.0 - WORDS) * table::dot(&self.vector, &text.vector) + WORDS * shared(&self.words, weights)
    }
}

fn shared(words: &[(u16, f32)], weights: &[f32]) -> f32 {
    words.iter().map(|(id, weight)| weight * weights.get(usize::from(*id)).unwrap_or(&0.0)).sum()
}

/// Shared words of two texts; both lists rise.
fn overlap(a: &[(u16, f32)], b: &[(u16, f32)]) -> f32 {
    let (mut sum, mut rest) = (0.0, b.iter().peekable());
    for (id, weight) in a {
        while rest.next_if(|(other, _)| other < id).is_some() {}
        if let Some((_, other)) = rest.next_if(|(other, _)| other == id) {
            sum += weight * other;
        }
    }
    sum
}

/// Sum of the likenesses of all pairs of texts, each with itself as well.
fn together(texts: &[Arc<Reader>], scratch: &mut [f32]) -> f32 {
    let mut sum = table::ZERO;
    let mut words: Vec<(u16, f32)> = Vec::new();
    for text in texts {
        table::add(&mut sum, &text.vector, 1.0);
        words.extend(&text.words);
    }
    let words: f32 = merged(&words, scratch).iter().map(|(_, weight)| weight * weight).sum();
    (1.0 - WORDS) * table::dot(&sum, &sum) + WORDS * words
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

/// Weight of every token: the fewer samples use it, the more.
fn rarity(texts: &[Vec<Arc<Sketch>>]) -> Vec<f32> {
    let mut uses = vec![0usize; table::rows()];
    let mut most = 1.0f32;
    for text in texts.iter().flatten() {
        most += 1.0;
        for id in &text.words {
            uses[usize::from(*id)] += 1;
        }
    }
    // Few different numbers of uses occur: each logarithm is taken once.
    let mut weights = vec![(1.0 + most).ln()];
    let mut number = 1.0;
    while number < most {
        weights.push((1.0 + most / (1.0 + number)).ln());
        number += 1.0;
    }
    uses.into_iter().map(|n| weights.get(n).copied().unwrap_or(0.0)).collect()
}

/// Adds up the weights of equal words; `scratch` is all zeros before and after.
fn merged(words: &[(u16, f32)], scratch: &mut [f32]) -> Vec<(u16, f32)> {
    let mut met: Vec<u16> = Vec::new();
    for (id, weight) in words {
        if let Some(slot) = scratch.get_mut(usize::from(*id)) {
            if *slot == 0.0 {
                met.push(*id);
            }
            *slot += weight;
        }
    }
    met.into_iter().map(|id| (id, std::mem::take(&mut scratch[usize::from(id)]))).collect()
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
            let likeness = shelves.likeness(&shelves.read(&sketch(text)));
            assert!(likeness[wanted] > likeness[1 - wanted], "{text}: {likeness:?}");
        }
    }

    #[test]
    fn nothing_known_is_harmless() {
        let mut shelves = Shelves::new(&[], &[]);
        let read = shelves.read(&sketch(""));
        shelves.lay(3, &read);
        assert!(shelves.likeness(&read).iter().all(|l| l.is_finite()));
    }
}
