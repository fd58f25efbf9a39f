//! Sibling categories, represented by samples of their chunks. Guarantees a similarity that ignores
//! what all siblings have in common, and that depends only on the samples, their order and the size
//! of each category.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::category_samples::SampledCategory;
use super::frame::{FIRST, Frame, Reading};
use super::hash;
use super::sketch::{Sketch, opening, sketch};
use super::wording::Wording;

/// The penalty of a category for every factor of e above its fair share of texts: a very large
/// category contains different matters, and its mean is slightly similar to everything.
const CROWDED: f32 = 0.03;
/// Number of categories that a text is compared with sample by sample: those with the nearest mean.
const NEAR: usize = 24;
/// The similarity reported for a category that is not compared in detail; lower than any real one.
const FAR: f32 = -1.0;
/// Maximum number of cached samples, about 2 kB each: those of 3,000 leaves. With fewer than a space
/// has, nearly every text would pair all samples of its siblings again.
const KEPT: usize = 49_152;

/// All siblings.
#[derive(Debug, Clone)]
pub struct SampledSiblings {
    frame: Arc<Frame>,
    all: Vec<Arc<SampledCategory>>,
}

/// The cached readings of one set of siblings. Filing a text changes one category and rarely the
/// frame, so nearly all readings can be reused.
#[derive(Clone)]
struct CachedSiblings {
    key: u64,
    frame: Arc<Frame>,
    siblings: HashMap<u64, Arc<SampledCategory>>,
}

impl SampledSiblings {
    /// `samples` of each category; a category without samples is represented by its name.
    pub fn of(names: &[&str], samples: &[Vec<&str>]) -> Self {
        static LATELY: Mutex<Vec<CachedSiblings>> = Mutex::new(Vec::new());

        let texts: Vec<Vec<&str>> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                samples
                    .get(at)
                    .filter(|texts| !texts.is_empty())
                    .cloned()
                    .unwrap_or_else(|| vec![name])
            })
            .collect();

        let key = texts.iter().fold(0, |key, texts| {
            fingerprint(key, &texts[..texts.len().min(FIRST)])
        });
        let lately = || LATELY.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lately()
            .iter()
            .find(|siblings| siblings.key == key)
            .cloned();

        let known = known.unwrap_or_else(|| CachedSiblings {
            key,
            frame: frame(&texts),
            siblings: HashMap::new(),
        });

        let (cached, siblings) = known.renew(&texts);
        let mut lately = lately();
        lately.retain(|other| other.key != key);
        lately.insert(0, cached);
        let mut kept = 0;

        lately.retain(|siblings| {
            kept += siblings.samples();
            kept <= KEPT
        });

        siblings
    }

    /// Compares a text with the frame of the siblings.
    pub fn read(&self, text: &Arc<Sketch>) -> Arc<Reading> {
        Arc::new(self.frame.read(text))
    }

    /// Similarity of a text to every category, in order. `counts` is the number of texts in each,
    /// or the number of samples is used. `home`, the text's own category, is always compared in
    /// detail.
    pub fn likeness(&self, text: &Reading, counts: &[usize], home: Option<usize>) -> Vec<f32> {
        let held: Vec<f32> = (0..self.all.len())
            .map(|at| self.held(at, counts))
            .collect();
        let fair = held.iter().sum::<f32>() / held.iter().fold(0.0, |n: f32, _| n + 1.0).max(1.0);
        let crowding = |held: f32| CROWDED * (held / fair.max(1.0)).max(1.0).ln();
        let mut wording = Wording::new(&text.sketch);
        let mut likeness = vec![FAR; self.all.len()];

        for at in self.near(text, home) {
            likeness[at] = self.all[at].likeness(text, &mut wording) - crowding(held[at]);
        }

        likeness
    }

    /// Similarity of a text to the mean of every category, in order, with what the siblings have in
    /// common.
    pub fn sameness(&self, text: &Reading) -> Vec<f32> {
        self.all
            .iter()
            .map(|category| category.sameness(&text.sketch))
            .collect()
    }

    /// The categories to compare in detail.
    fn near(&self, text: &Reading, home: Option<usize>) -> Vec<usize> {
        let mut near: Vec<usize> = (0..self.all.len()).collect();
        if near.len() > NEAR {
            let nearness: Vec<f32> = self
                .all
                .iter()
                .map(|category| category.nearness(text))
                .collect();
            near.select_nth_unstable_by(NEAR, |a, b| {
                nearness[*b].total_cmp(&nearness[*a]).then(a.cmp(b))
            });
            near.truncate(NEAR);
            near.extend(home.filter(|home| !near.contains(home)));
        }

        near
    }

    #[expect(clippy::cast_precision_loss, reason = "a logarithm of it is taken")]
    fn held(&self, at: usize, counts: &[usize]) -> f32 {
        let sampled = self.all.get(at).map_or(0, |category| category.len());
        counts.get(at).map_or(sampled, |count| sampled.max(*count)) as f32
    }

    /// Removes a text from its category, if it is one of the samples there.
    pub fn take(&mut self, at: usize, text: &Sketch) {
        if let Some(category) = self.all.get_mut(at)
            && let Some(place) = category.find(text)
        {
            Arc::make_mut(category).take(place);
        }
    }

    /// Adds a text to a category. Missing categories before it are created too, because new names
    /// may have been given to texts that are not added.
    pub fn lay(&mut self, at: usize, text: &Arc<Reading>) {
        while self.all.len() <= at {
            self.all.push(Arc::default());
        }
        Arc::make_mut(&mut self.all[at]).lay(Arc::clone(text));
    }
}

impl CachedSiblings {
    fn samples(&self) -> usize {
        self.siblings.values().map(|category| category.len()).sum()
    }

    /// Reads new samples, and drops those that no longer exist.
    fn renew(self, texts: &[Vec<&str>]) -> (Self, SampledSiblings) {
        let mut siblings = HashMap::with_capacity(texts.len());
        let mut all = Vec::with_capacity(texts.len());
        for texts in texts {
            let key = fingerprint(0, texts);
            let known = siblings
                .get(&key)
                .or_else(|| self.siblings.get(&key))
                .cloned();

            let read = || {
                Arc::new(SampledCategory::of(
                    texts.iter().map(|text| self.frame.read(&sketch(text))),
                ))
            };

            let category = known.unwrap_or_else(read);
            siblings.insert(key, Arc::clone(&category));
            all.push(category);
        }

        let frame = Arc::clone(&self.frame);
        (Self { siblings, ..self }, SampledSiblings { frame, all })
    }
}

fn frame(texts: &[Vec<&str>]) -> Arc<Frame> {
    let first: Vec<Arc<Sketch>> = texts
        .iter()
        .flat_map(|texts| texts.iter().take(FIRST))
        .map(|text| sketch(text))
        .collect();
    Arc::new(Frame::of(&first))
}

/// The number of texts is included, so that no text can look like the end of a category.
fn fingerprint(start: u64, texts: &[&str]) -> u64 {
    texts
        .iter()
        .fold(start.wrapping_add(1 + texts.len() as u64), |key, text| {
            hash::mix(key, opening(text))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(names: &[&str], samples: &[Vec<&str>], text: &str) -> Vec<f32> {
        let siblings = SampledSiblings::of(names, samples);
        siblings.likeness(&siblings.read(&sketch(text)), &[], None)
    }

    #[test]
    fn samples_outweigh_names() {
        let cards = vec![
            "When will my new card arrive?",
            "My card has still not come in the post",
        ];

        let rates = vec![
            "Which exchange rate do you use?",
            "Is the exchange rate fair?",
        ];

        for (text, wanted) in [
            ("Has my card been posted?", 0),
            ("What is the rate for euros?", 1),
        ] {
            let likeness = likeness(&["Alpha", "Beta"], &[cards.clone(), rates.clone()], text);
            assert!(
                likeness[wanted] > likeness[1 - wanted],
                "{text}: {likeness:?}"
            );
        }
    }

    #[test]
    fn caching_changes_no_result() {
        let texts: Vec<String> = (0..40)
            .map(|n| format!("Question {n} about cards, rates and top-ups"))
            .collect();
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
    fn the_nearest_category_and_the_current_one_are_compared_in_detail() {
        let texts: Vec<String> = (0..2 * NEAR)
            .map(|n| format!("A question about matter number {n}"))
            .collect();
        let names: Vec<String> = (0..2 * NEAR).map(|n| format!("Matter {n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let siblings = SampledSiblings::of(
            &names,
            &texts
                .iter()
                .map(|text| vec![text.as_str()])
                .collect::<Vec<_>>(),
        );

        let read = siblings.read(&sketch(&texts[7]));
        let far = |likeness: &[f32]| likeness.iter().filter(|l| **l <= FAR).count();
        let likeness = siblings.likeness(&read, &[], None);
        let last = likeness
            .iter()
            .position(|l| *l <= FAR)
            .expect("one that is far");

        assert!(far(&likeness) == NEAR && likeness.iter().all(|l| *l <= likeness[7]));
        let at_home = siblings.likeness(&read, &[], Some(last));
        assert!(far(&at_home) == NEAR - 1 && at_home[last] > FAR);
    }

    #[test]
    fn a_text_that_looks_like_a_separator_is_not_one() {
        let split = fingerprint(fingerprint(0, &["a"]), &["b"]);
        for other in [["a", "+", "b"].as_slice(), &["a", "b"], &["a", "", "b"]] {
            assert_ne!(split, fingerprint(0, other), "{other:?}");
        }
    }

    #[test]
    fn siblings_keep_their_numbers() {
        let mut siblings = SampledSiblings::of(&["One"], &[vec!["The exchange rate is unfair"]]);
        let card = siblings.read(&sketch("Where is my new card?"));
        siblings.lay(2, &card);
        let likeness = siblings.likeness(&card, &[], None);

        assert!(
            likeness.len() == 3 && likeness[2] > likeness[1] && likeness[2] > likeness[0],
            "{likeness:?}"
        );
    }

    #[test]
    fn unknown_words_are_harmless() {
        let mut siblings = SampledSiblings::of(&[], &[]);
        let read = siblings.read(&sketch(""));
        siblings.lay(3, &read);
        assert!(
            siblings
                .likeness(&read, &[], None)
                .iter()
                .all(|l| l.is_finite())
        );
    }
}
