//! Files brief passages by likeness to what lies in the categories beside each other.
//! Promises that a passage which lies somewhere already stays there unless another place is clearly better.

use super::classify::Passage;
use super::meaning::Choice;
use super::names;
use super::shelves::Shelves;
use super::sketch::sketch;
use super::topics::inventory;

/// Likeness to the samples of a category at which a passage joins it.
const AT_HOME: f32 = 0.5;
/// How much more like another category a passage must be to leave its own.
const WORTH_MOVING: f32 = 0.02;

impl Passage<'_> {
    /// Files a new passage, and lays it beside what it was filed with.
    pub fn shelve(&self, choices: &[Choice], shelves: &mut Shelves) -> String {
        let read = shelves.read(&sketch(self.text));
        let likeness = shelves.likeness(&read, self.input.counts);
        let name = match nearest(&likeness[..likeness.len().min(choices.len())]) {
            Some(at) if likeness[at] >= AT_HOME || !self.input.may_create => choices[at].name.clone(),
            Some(at) => self.fresh_name(choices).unwrap_or_else(|| choices[at].name.clone()),
            None => self.file(choices),
        };
        let at = choices.iter().position(|c| names::same(&c.name, &name)).unwrap_or(choices.len());
        shelves.lay(at, &read);
        name
    }

    /// Where a passage belongs that lies in a category already, as if it had come last.
    pub fn shelve_again(&self, home: usize, shelves: &mut Shelves) -> usize {
        let sketch = sketch(self.text);
        shelves.take(home, &sketch);
        let read = shelves.read(&sketch);
        let likeness = shelves.likeness(&read, self.input.counts);
        let known = &likeness[..likeness.len().min(self.input.categories.len())];
        let better = nearest(known).filter(|at| known[*at] > known[home] + WORTH_MOVING);
        let at = better.unwrap_or(home);
        shelves.lay(at, &read);
        at
    }

    /// A name no sibling and no ancestor has.
    fn fresh_name(&self, choices: &[Choice]) -> Option<String> {
        let wanted = self.wanted().map(|(place, _)| inventory().name(place));
        let wishes = wanted.into_iter().chain(self.own_phrases());
        let mut names = wishes.filter_map(|w| names::tidy(&w));
        names.find(|n| {
            !self.input.parent.iter().any(|p| names::same(p, n)) && !choices.iter().any(|c| names::same(&c.name, n))
        })
    }
}

fn nearest(likeness: &[f32]) -> Option<usize> {
    (0..likeness.len()).max_by(|a, b| likeness[*a].total_cmp(&likeness[*b]))
}
