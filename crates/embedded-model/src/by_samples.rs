//! Files short chunks by similarity to samples of sibling categories. Guarantees that a filed chunk
//! stays in its category unless another is clearly better.

use super::chunk_to_file::ChunkToFile;
use super::frame::Reading;
use super::meaning::Choice;
use super::names;
use super::short_text::needed_to_join;
use super::siblings::SampledSiblings;
use super::sketch::sketch;
use super::topics::inventory;

/// Similarity to the samples of a category at which a chunk is filed there.
const AT_HOME: f32 = 0.5;
/// How much more similar another category must be for a chunk to move there.
const WORTH_MOVING: f32 = 0.02;

impl ChunkToFile<'_> {
    /// Files a new chunk and adds it to the samples of its category.
    pub fn file_by_samples(&self, choices: &[Choice], siblings: &mut SampledSiblings) -> String {
        let read = siblings.read(&sketch(self.text));
        let likeness = siblings.likeness(&read, self.input.counts, None);
        let name = match nearest(&likeness[..likeness.len().min(choices.len())]) {
            Some(at)
                if likeness[at] >= needed_to_join(AT_HOME, choices.len())
                    || !self.input.may_create =>
            {
                choices[at].name.clone()
            }
            // Above the leaves, a text that is unlike all samples may still be on a known subject.
            Some(_) if self.input.level < self.input.depth => {
                self.file(choices, self.kindred(siblings, &read, choices.len()))
            }
            Some(at) => self
                .fresh_name(choices)
                .unwrap_or_else(|| choices[at].name.clone()),
            None => self.file(choices, None),
        };

        let at = choices
            .iter()
            .position(|c| names::same(&c.name, &name))
            .unwrap_or(choices.len());

        siblings.lay(at, &read);
        name
    }

    /// The sibling whose samples a new chunk is similar to.
    pub(super) fn at_home(
        &self,
        siblings: &SampledSiblings,
        read: &Reading,
        number: usize,
    ) -> Option<usize> {
        let likeness = siblings.likeness(read, self.input.counts, None);
        nearest(&likeness[..likeness.len().min(number)])
            .filter(|at| likeness[*at] >= needed_to_join(AT_HOME, number) || !self.input.may_create)
    }

    /// The best category for a chunk that is already filed, as if it had arrived last.
    pub fn refile_by_samples(&self, home: usize, siblings: &mut SampledSiblings) -> usize {
        let sketch = sketch(self.text);
        siblings.take(home, &sketch);
        let read = siblings.read(&sketch);
        let likeness = siblings.likeness(&read, self.input.counts, Some(home));
        let known = &likeness[..likeness.len().min(self.input.categories.len())];
        let better = nearest(known).filter(|at| known[*at] > known[home] + WORTH_MOVING);
        let at = better.unwrap_or(home);

        siblings.lay(at, &read);
        at
    }

    /// A name that no sibling and no ancestor has.
    pub(super) fn fresh_name(&self, choices: &[Choice]) -> Option<String> {
        let wanted = self.wanted().map(|(place, _)| inventory().name(place));
        let wishes = wanted.into_iter().chain(self.own_phrases());
        let mut names = wishes.filter_map(|w| names::tidy(&w));
        names.find(|n| {
            !self.input.parent.iter().any(|p| names::same(p, n))
                && !choices.iter().any(|c| names::same(&c.name, n))
        })
    }
}

fn nearest(likeness: &[f32]) -> Option<usize> {
    (0..likeness.len()).max_by(|a, b| likeness[*a].total_cmp(&likeness[*b]))
}

#[cfg(test)]
mod tests {
    use super::super::{ClassifyInput, EmbeddedModel};

    const CARDS: [&str; 4] = [
        "When will my new card arrive?",
        "My card has not come in the post",
        "How long does the delivery of a card take?",
        "Is my card on its way?",
    ];
    const RATES: [&str; 4] = [
        "Which exchange rate do you use?",
        "The exchange rate is wrong",
        "How is the exchange rate set?",
        "I got a bad exchange rate",
    ];

    /// The new category of each of these chunks, filed in the first of two categories, next to
    /// chunks about cards.
    fn again(stray: &[&str]) -> Vec<String> {
        let cards: Vec<&str> = CARDS.into_iter().chain(stray.iter().copied()).collect();
        let counts = [cards.len(), RATES.len()];
        let filed = EmbeddedModel::classify(&ClassifyInput {
            contextual_helper: None,
            level: 2,
            depth: 2,
            parent: &["Money"],
            categories: &["Alpha", "Beta"],
            samples: &[cards, RATES.to_vec()],
            counts: &counts,
            may_create: false,
            chunks: &(1..).zip(stray.iter().copied()).collect::<Vec<_>>(),
            homes: &vec![Some(0); stray.len()],
            wishes: &[],
            is_short_text: true,
        });

        filed.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn a_misfiled_chunk_moves_and_others_stay() {
        let stray = [
            "Why was my exchange rate so low?",
            "Where is the card that I ordered?",
            "Which exchange rate is this?",
        ];
        assert_eq!(again(&stray), ["Beta", "Alpha", "Beta"]);
    }

    #[test]
    fn a_chunk_that_cannot_be_compared_stays() {
        let long = "The exchange rate moved again. ".repeat(40);
        assert_eq!(again(&["", "🙂", &long]), ["Alpha"; 3]);
    }
}
