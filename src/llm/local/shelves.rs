//! Sibling categories as the samples of what lies in them.
//! Promises a likeness that leaves out what all siblings have in common, and that depends on nothing but the samples,
//! their order and how much lies in each category.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::frame::{FIRST, Frame, Reading};
use super::hash;
use super::shelf::Shelf;
use super::sketch::{Sketch, opening, sketch};
use super::wording::Wording;

/// What a category loses for every e-fold of its fair share that it holds: where most texts end up, different matters
/// have piled up, and its mean resembles everything a little.
const CROWDED: f32 = 0.03;
/// Sets of siblings kept as they were read.
const KEPT: usize = 4;

/// All siblings.
#[derive(Debug, Clone)]
pub struct Shelves {
    frame: Arc<Frame>,
    all: Vec<Arc<Shelf>>,
}

/// What was read lately of one set of siblings. Filing a text changes one shelf and seldom the frame, so that nearly
/// all can be taken over.
struct Read {
    key: u64,
    frame: Arc<Frame>,
    shelves: HashMap<u64, Arc<Shelf>>,
}

impl Shelves {
    /// `samples` of each category; a category without any is known by its name.
    pub fn of(names: &[&str], samples: &[Vec<&str>]) -> Self {
        static LATELY: Mutex<Vec<Read>> = Mutex::new(Vec::new());
        let texts: Vec<Vec<&str>> = names
            .iter()
            .enumerate()
            .map(|(at, name)| samples.get(at).filter(|texts| !texts.is_empty()).cloned().unwrap_or_else(|| vec![name]))
            .collect();
        let key = texts.iter().fold(0, |key, texts| fingerprint(key, texts.iter().take(FIRST)));
        let known = {
            let mut lately = LATELY.lock().unwrap_or_else(PoisonError::into_inner);
            lately.iter().position(|read| read.key == key).map(|at| lately.remove(at))
        };
        let known = known.unwrap_or_else(|| Read { key, frame: frame(&texts), shelves: HashMap::new() });
        let (read, shelves) = known.renew(&texts);
        let mut lately = LATELY.lock().unwrap_or_else(PoisonError::into_inner);
        lately.retain(|other| other.key != key);
        lately.truncate(KEPT - 1);
        lately.insert(0, read);
        shelves
    }

    /// A text against the siblings.
    pub fn read(&self, text: &Arc<Sketch>) -> Arc<Reading> {
        Arc::new(self.frame.read(text))
    }

    /// Likeness of a text to every category, in their order. `counts` says how much lies in each; where it is silent
    /// the samples stand for it.
    pub fn likeness(&self, text: &Reading, counts: &[usize]) -> Vec<f32> {
        let held: Vec<f32> = (0..self.all.len()).map(|at| self.held(at, counts)).collect();
        let fair = held.iter().sum::<f32>() / held.iter().fold(0.0, |n: f32, _| n + 1.0).max(1.0);
        let crowding = |held: f32| CROWDED * (held / fair.max(1.0)).max(1.0).ln();
        let mut wording = Wording::new(&text.sketch);
        self.all.iter().zip(held).map(|(shelf, held)| shelf.likeness(text, &mut wording) - crowding(held)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a logarithm of it is taken")]
    fn held(&self, at: usize, counts: &[usize]) -> f32 {
        let sampled = self.all.get(at).map_or(0, |shelf| shelf.len());
        counts.get(at).map_or(sampled, |count| sampled.max(*count)) as f32
    }

    /// Lays a text on a shelf; on a new one when there is none of that number.
    pub fn lay(&mut self, at: usize, text: &Arc<Reading>) {
        if at >= self.all.len() {
            self.all.push(Arc::new(Shelf::default()));
        }
        let last = self.all.len() - 1;
        Arc::make_mut(&mut self.all[at.min(last)]).lay(Arc::clone(text));
    }
}

impl Read {
    /// Reads what is new, and forgets what is no longer there.
    fn renew(self, texts: &[Vec<&str>]) -> (Self, Shelves) {
        let mut shelves = HashMap::with_capacity(texts.len());
        let mut all = Vec::with_capacity(texts.len());
        for texts in texts {
            let key = fingerprint(0, texts.iter());
            let known = shelves.get(&key).or_else(|| self.shelves.get(&key)).cloned();
            let read = || Arc::new(Shelf::of(texts.iter().map(|text| self.frame.read(&sketch(text)))));
            let category = known.unwrap_or_else(read);
            shelves.insert(key, Arc::clone(&category));
            all.push(category);
        }
        let frame = Arc::clone(&self.frame);
        (Self { shelves, ..self }, Shelves { frame, all })
    }
}

fn frame(texts: &[Vec<&str>]) -> Arc<Frame> {
    let first = |texts: &Vec<&str>| texts.iter().take(FIRST).map(|text| sketch(text)).collect();
    Arc::new(Frame::of(&texts.iter().map(first).collect::<Vec<_>>()))
}

fn fingerprint<'t>(start: u64, texts: impl Iterator<Item = &'t &'t str>) -> u64 {
    texts.fold(hash::mix(start, "+"), |key, text| hash::mix(key, opening(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(names: &[&str], samples: &[Vec<&str>], text: &str) -> Vec<f32> {
        let shelves = Shelves::of(names, samples);
        shelves.likeness(&shelves.read(&sketch(text)), &[])
    }

    #[test]
    fn samples_outweigh_names() {
        let cards = vec!["When will my new card arrive?", "My card has still not come in the post"];
        let rates = vec!["Which exchange rate do you use?", "Is the exchange rate fair?"];
        for (text, wanted) in [("Has my card been posted?", 0), ("What is the rate for euros?", 1)] {
            let likeness = likeness(&["Alpha", "Beta"], &[cards.clone(), rates.clone()], text);
            assert!(likeness[wanted] > likeness[1 - wanted], "{text}: {likeness:?}");
        }
    }

    #[test]
    fn what_was_read_before_changes_nothing() {
        let texts: Vec<String> = (0..40).map(|n| format!("Question {n} about cards, rates and top-ups")).collect();
        let samples = |all: usize| {
            let mut samples = vec![Vec::new(); 3];
            for (n, text) in texts[..all].iter().enumerate() {
                samples[n % 3].push(text.as_str());
            }
            samples
        };
        let names = ["One", "Two", "Three"];
        let ask = |all: usize| likeness(&names, &samples(all), "Why is my card declined?");
        let grown: Vec<Vec<f32>> = (12..40).map(ask).collect();
        let shrunk: Vec<Vec<f32>> = (12..40).rev().map(ask).collect();
        assert!(grown.iter().zip(shrunk.iter().rev()).all(|(a, b)| a == b));
    }

    #[test]
    fn nothing_known_is_harmless() {
        let mut shelves = Shelves::of(&[], &[]);
        let read = shelves.read(&sketch(""));
        shelves.lay(3, &read);
        assert!(shelves.likeness(&read, &[]).iter().all(|l| l.is_finite()));
    }
}
