//! Files short texts, which share their categories: a new one is created only if no sibling is about
//! the same subject. Guarantees that the more siblings there are, the more readily a text joins one of
//! them, so that a parent stays well below its limit.

use super::aspects::{self, Fitting};
use super::chunk_to_file::ChunkToFile;
use super::cues;
use super::frame::Reading;
use super::meaning::Choice;
use super::names;
use super::siblings::SampledSiblings;
use super::sketch::sketch;

/// Number of siblings from which on a parent counts as wide: titles name no more leaves, and texts join
/// more readily.
const WIDE: usize = 24;
/// Maximum words of a title that names a leaf; a longer one is the headline of one text.
const MAX_TITLE_WORDS: usize = 4;
/// Similarity to the mean of a category at which a text is about its subject.
const SAME_SUBJECT: f32 = 0.35;
/// By how much a hundred siblings beyond a number of them lower what is needed to join one, and the
/// least that is ever needed.
const CROWDING: f32 = 0.25;
const MIN_LIKENESS: f32 = 0.1;
/// That number for similarity to single texts.
const CROWDED: usize = 96;
/// Texts of a category up to which similarity to its mean suffices to join it; of a larger one, a text
/// must be similar to single texts. Wide parents have larger categories.
const ROOMY: usize = 24;

/// The similarity to the samples of a category that is needed to join it, next to this many siblings.
pub fn needed_to_join(usual: f32, siblings: usize) -> f32 {
    lowered(usual, siblings, CROWDED)
}

fn lowered(usual: f32, siblings: usize, from: usize) -> f32 {
    let beyond = u16::try_from(siblings.saturating_sub(from)).unwrap_or(u16::MAX);
    (usual - CROWDING * f32::from(beyond) / 100.0).max(MIN_LIKENESS)
}

impl ChunkToFile<'_> {
    /// Files a chunk in a leaf on the same aspect of the subject, or on the same subject, or else in a new
    /// one. Its title names a new leaf only if nothing that others may share does, below a subject that
    /// the inventory does not have, and while there are few.
    pub fn file_short_text(
        &self,
        title: Option<String>,
        choices: &[Choice],
        siblings: Option<&mut SampledSiblings>,
    ) -> String {
        let known = |name: &str| choices.iter().position(|c| names::same(&c.name, name));
        let names_a_leaf = |title: &String| {
            let short = title.split_whitespace().count() <= MAX_TITLE_WORDS;
            known(title).is_some() || short && choices.len() < WIDE
        };
        let aspect = self.aspect(title.as_deref());
        let title = title.filter(names_a_leaf);
        let likely = || Some(aspect.filter(|a| a.is_likely())?.name.to_owned());
        let Some(siblings) = siblings else {
            let named = likely().or(title);
            return named.unwrap_or_else(|| self.file(choices, None));
        };

        let read = siblings.read(&sketch(self.text));
        let name = match title {
            Some(title) if known(&title).is_some() => title,
            title => likely()
                .or_else(|| self.joined(choices, siblings, &read))
                .or_else(|| self.nearest_aspect(aspect))
                .or(title)
                .unwrap_or_else(|| self.subject_name(choices)),
        };

        siblings.lay(known(&name).unwrap_or(choices.len()), &read);
        name
    }

    /// The aspect of the subject above that the chunk is about, if it may name a leaf.
    fn aspect(&self, title: Option<&str>) -> Option<Fitting> {
        if !self.profile.is_readable() || !self.input.may_create {
            return None;
        }

        let title = cues::words_of(title.unwrap_or_default());
        aspects::of(
            self.input.parent,
            (&self.words, &title),
            &self.profile.vector,
        )
    }

    /// The aspect that is nearest, for a chunk that names no matter: its title, or a word that it happens
    /// to contain, is no name that other texts share.
    fn nearest_aspect(&self, aspect: Option<Fitting>) -> Option<String> {
        let is_leaf = self.input.level == self.input.depth;
        let aspect = aspect.filter(|_| is_leaf && self.matters.is_empty())?;
        Some(aspect.name.to_owned())
    }

    /// The leaf that a chunk joins.
    fn joined(
        &self,
        choices: &[Choice],
        siblings: &SampledSiblings,
        read: &Reading,
    ) -> Option<String> {
        let by_samples = || self.at_home(siblings, read, choices.len());
        let by_subject = || self.kindred(siblings, read, choices.len());
        let brief = self.can_be_compared().then(by_samples).flatten();
        let at = brief.or_else(by_subject);
        at.map(|at| choices[at].name.clone())
    }

    /// The name of a leaf for a chunk that joins none.
    fn subject_name(&self, choices: &[Choice]) -> String {
        let fresh = self.can_be_compared() && self.input.may_create;
        fresh
            .then(|| self.fresh_name(choices))
            .flatten()
            .unwrap_or_else(|| self.file(choices, None))
    }

    /// Files a longer chunk by the names of the categories, and adds it to the samples of its own.
    pub fn file_by_subject(&self, choices: &[Choice], siblings: &mut SampledSiblings) -> String {
        let read = siblings.read(&sketch(self.text));
        let name = self.file(choices, self.kindred(siblings, &read, choices.len()));
        let at = choices.iter().position(|c| names::same(&c.name, &name));

        siblings.lay(at.unwrap_or(choices.len()), &read);
        name
    }

    /// A sibling on the subject of the chunk, which has room for it.
    pub fn kindred(
        &self,
        siblings: &SampledSiblings,
        read: &Reading,
        number: usize,
    ) -> Option<usize> {
        let same = siblings.sameness(read);
        let nearest = |fits: &dyn Fn(usize) -> bool| {
            (0..same.len().min(number))
                .filter(|at| fits(*at))
                .max_by(|a, b| same[*a].total_cmp(&same[*b]))
        };
        if !self.input.may_create {
            return nearest(&|_| true);
        }

        let is_leaf = self.input.level == self.input.depth;
        if is_leaf && !self.shares_by_subject(number) {
            return None;
        }

        let needed = self.needed_subject(number)?;
        let roomy = ROOMY * (number / WIDE).max(1);
        let held = |at: usize| self.input.counts.get(at).copied().unwrap_or(0);
        nearest(&|at| same[at] >= needed && (!is_leaf || held(at) < roomy))
    }

    /// The similarity to the mean of a category at which the chunk is about its subject. The vectors
    /// say little about a text in another language, but where there are many categories it must not
    /// have one of its own.
    fn needed_subject(&self, number: usize) -> Option<f32> {
        if self.profile.is_readable() {
            return Some(lowered(SAME_SUBJECT, number, WIDE));
        }

        (number >= WIDE).then_some(f32::MIN)
    }

    /// Whether the subject alone says which leaf a chunk belongs to. Leaves right below a domain are
    /// the subjects themselves, unless there are many; and of two enquiries about cards, one is about
    /// a fee and the other about a delivery.
    fn shares_by_subject(&self, number: usize) -> bool {
        if self.input.level < 3 {
            return number >= WIDE && !(self.is_short() && self.profile.enquiry);
        }

        self.matters.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClassifyInput, EmbeddedModel};
    use super::*;

    const BOILER: [&str; 3] = [
        "The boiler went out in the night and the heating engineer came in the morning.",
        "He bled the radiators and set the pressure of the boiler to 1.5 bar.",
        "The thermostat of the heating reads two degrees too high.",
    ];
    const RADIATORS: &str =
        "The radiators stay cold although the boiler runs. The heating engineer comes on Tuesday.";
    const CHESS: &str =
        "Lost both games of chess. The king stayed in the middle and the rook was trapped.";

    /// The leaf of a text with a title, next to a leaf about the boiler and `others` without texts, below
    /// a category that the inventory does not know.
    fn leaf(title: &str, text: &str, others: usize) -> String {
        leaf_below("Our cottage", title, text, others)
    }

    fn leaf_below(parent: &str, title: &str, text: &str, others: usize) -> String {
        let names: Vec<String> = (0..others).map(|n| format!("Other {n}")).collect();
        let mut categories = vec!["Boiler service"];
        categories.extend(names.iter().map(String::as_str));
        let mut samples = vec![BOILER.to_vec()];
        samples.resize(categories.len(), Vec::new());

        let filed = EmbeddedModel::classify(&ClassifyInput {
            contextual_helper: None,
            level: 3,
            depth: 3,
            parent: &["Home", parent],
            categories: &categories,
            samples: &samples,
            counts: &[],
            may_create: true,
            chunks: &[(1, text)],
            homes: &[],
            wishes: &[Some(title)],
            is_short_text: true,
        });
        filed[0].1.clone()
    }

    #[test]
    fn a_short_text_joins_a_leaf_on_its_subject_whatever_its_title() {
        assert_eq!(leaf("Cold radiators", RADIATORS, 0), "Boiler service");
        assert_eq!(leaf("Chess evening", CHESS, 0), "Chess evening");
    }

    #[test]
    fn an_aspect_of_the_subject_names_a_leaf_before_a_title_does() {
        let leaf = leaf_below("Heating", "Cold radiators", RADIATORS, 0);
        assert_eq!(leaf, "Radiators");
    }

    #[test]
    fn a_title_names_a_leaf_only_if_it_is_short_and_siblings_are_few() {
        assert_eq!(leaf("Chess evening", CHESS, WIDE - 2), "Chess evening");
        assert_ne!(leaf("Chess evening", CHESS, WIDE - 1), "Chess evening");
        let headline = "Why I lost both games at the club";
        assert_ne!(leaf(headline, CHESS, 0), headline);
        assert_eq!(leaf("other 3", CHESS, WIDE), "Other 3", "an existing name");
    }

    #[test]
    fn a_text_joins_the_more_readily_the_more_siblings_there_are() {
        let needed = [0, CROWDED, 2 * CROWDED, 200, 100_000].map(|n| needed_to_join(0.5, n));
        assert!(needed.is_sorted_by(|few, many| few >= many), "{needed:?}");
        assert!(
            needed[0] > needed[3] && needed[4] >= MIN_LIKENESS,
            "{needed:?}"
        );
    }
}
