//! A chunk to file: what is known about it, and the name it gets. Guarantees that an existing category
//! is preferred unless a new one fits clearly better, and a name that differs from its parent's.

use std::collections::BTreeSet;

use super::ClassifyInput;
use super::category_distance;
use super::cues;
use super::meaning::{Choice, SYNONYM};
use super::names;
use super::phrases;
use super::profile::Profile;
use super::sketch::sketch;
use super::table::{self, Vector};
use super::topics::{Place, inventory};

/// A chunk of at most this many words may be filed by the matter it is about.
const SHORT: usize = 40;
/// A chunk of at most this many words is compared with samples of the categories.
const BRIEF: usize = 80;
/// Below this similarity to every topic, the chunk is named by its own words.
const FAMILIAR: f32 = 0.2;

/// The limit for a text that is not short, and whose domain is not known yet.
const CLEAR: f32 = 0.26;
/// The limit for its subject, if no domain fitted.
const CLEARER: f32 = 0.34;

/// How much worse than a new category an existing one may fit and still be chosen.
pub const PATIENCE: f32 = 0.1;
/// [`PATIENCE`] for a short text, whose groups are finer.
const SHORT_PATIENCE: f32 = 0.06;
/// [`PATIENCE`] for a short text and a new domain, because few words are weak evidence.
const DOMAIN_PATIENCE: f32 = 0.04;
/// Distances from the mean of a store of one subject, in spreads: normal up to the first, and not
/// part of the subject above the second.
const NORMAL_SPREADS: f32 = 2.0;
const UNUSUAL: f32 = 3.0;
/// How much better another domain must fit for a text to clearly belong there.
const CLEARLY: f32 = 0.2;
/// Similarity at which a chunk is filed in a category that was named by the words of another chunk.
const KINSHIP: f32 = 0.45;
/// Weight of the source's helper compared with the chunk.
const HELPER: f32 = 0.3;

/// How broad the names of a level are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    Domain,
    Subject,
    Topic,
    Phrase,
}

pub fn grain(level: u32, depth: u32) -> Grain {
    match (depth, level) {
        (0 | 1, 0 | 1) | (2, 2) | (3.., 3) => Grain::Topic,
        (_, 0 | 1) => Grain::Domain,
        (3.., 2) => Grain::Subject,
        _ => Grain::Phrase,
    }
}

/// Whether most of these texts are brief.
fn has_brief_texts(texts: &[&str]) -> bool {
    let is_brief = |text: &&&str| text.split_whitespace().take(BRIEF + 1).count() <= BRIEF;
    texts.iter().filter(is_brief).count() * 2 > texts.len()
}

/// A chunk to file, with everything known about it.
pub struct ChunkToFile<'a> {
    pub text: &'a str,
    pub input: &'a ClassifyInput<'a>,
    pub profile: Profile,
    /// Similarity to every topic of the inventory, by meaning and by words that indicate it.
    pub likeness: Vec<f32>,
    /// Its words that have a meaning, in the form of cues.
    pub words: BTreeSet<String>,
    /// The matters that a short enquiry mentions, with their similarity; none for other texts,
    /// which have a subject instead.
    pub matters: Vec<(usize, f32)>,
}

impl<'a> ChunkToFile<'a> {
    pub(super) fn new(
        text: &'a str,
        input: &'a ClassifyInput<'a>,
        helper: Option<&Vector>,
    ) -> Self {
        let mut profile = Profile::of(text);
        if let Some(helper) = helper {
            table::add(&mut profile.vector, helper, HELPER);
            profile.vector = table::unit(profile.vector);
        }

        let topics = &inventory().topics;
        let words = cues::words_of(text);
        let cued = inventory()
            .subject_cues
            .evidence(&words, &BTreeSet::new(), topics.len());
        let likeness = topics
            .iter()
            .zip(cued)
            .map(|(t, cued)| table::dot(&t.vector, &profile.vector) + cued)
            .collect();

        let matters = if profile.words <= SHORT && profile.enquiry {
            let like = |m: usize| table::dot(&inventory().matters[m].vector, &profile.vector);
            profile.cues.iter().map(|m| (*m, like(*m))).collect()
        } else {
            Vec::new()
        };

        Self {
            text,
            input,
            profile,
            likeness,
            words,
            matters,
        }
    }

    pub fn is_short(&self) -> bool {
        self.profile.words <= SHORT
    }

    /// Files a chunk by the names of the categories. `kindred` is a category on its subject, by what
    /// it contains.
    pub fn file(&self, choices: &[Choice], kindred: Option<usize>) -> String {
        let wanted = self.wanted();
        let nearest = self.nearest(choices);
        match (wanted, nearest) {
            (_, Some((choice, _))) if !self.input.may_create => {
                let kindred = kindred.and_then(|at| choices.get(at));
                kindred.unwrap_or(choice).name.clone()
            }
            (Some((place, fit)), nearest) => self.join_or_make(place, fit, nearest, choices),
            (None, nearest) => self.by_own_words(nearest, choices, kindred),
        }
    }

    pub(super) fn may_be_typical(&self) -> bool {
        let broad = grain(self.input.level, self.input.depth) == Grain::Domain;
        broad && self.is_short() && self.profile.is_readable()
    }

    /// Few words are weak evidence of a subject: in a store of one subject, a short text is filed
    /// with the others, unless it is very unlike them, or rather unlike them and clearly about
    /// something else.
    pub(super) fn keep_company(&self, choices: &[Choice]) -> String {
        let main = category_distance::main(
            self.input.categories.len(),
            self.input.samples,
            self.input.counts,
            &sketch(self.text),
        );

        // The chunks of a book say nothing about where a note belongs.
        let is_of_short_texts = |at: &usize| {
            let samples = self.input.samples.get(*at);
            samples.is_some_and(|texts| has_brief_texts(texts))
        };
        let main = main.filter(|(at, _)| is_of_short_texts(at));
        let main = main.and_then(|(at, spreads)| choices.get(at).zip(Some(spreads)));
        match main {
            Some((choice, spreads))
                if spreads <= NORMAL_SPREADS
                    || spreads <= UNUSUAL && !self.is_clearly_elsewhere(choice) =>
            {
                choice.name.clone()
            }
            _ => self.file(choices, None),
        }
    }

    fn is_clearly_elsewhere(&self, choice: &Choice) -> bool {
        let here = self
            .nearest(std::slice::from_ref(choice))
            .map_or(0.0, |(_, fit)| fit);
        self.wanted().is_some_and(|(_, fit)| fit > here + CLEARLY)
    }

    /// Short texts are distinguished by their neighbours; longer ones have a clear subject, and
    /// comparing them would cost more than it gains.
    pub(super) fn can_be_compared(&self) -> bool {
        let brief = self.profile.words <= BRIEF;
        brief
            && self.profile.is_readable()
            && grain(self.input.level, self.input.depth) != Grain::Domain
    }

    /// Whether there may be a category on the chunk's subject, by what it contains. Domains are few.
    pub(super) fn may_have_kindred(&self) -> bool {
        grain(self.input.level, self.input.depth) != Grain::Domain
    }

    fn join_or_make(
        &self,
        place: Place,
        fit: f32,
        nearest: Option<(&Choice, f32)>,
        choices: &[Choice],
    ) -> String {
        let wished = Choice::new(&inventory().name(place));
        if let Some(same) = choices.iter().find(|c| names::same(&c.name, &wished.name)) {
            return same.name.clone();
        }

        let subject = self.best_subject_of_all();
        if let Some(kin) = choices.iter().find(|c| c.kin.is_some() && c.kin == subject) {
            return kin.name.clone();
        }

        if let Some((choice, nearness)) = nearest {
            let foreign = choice.place.is_none();
            let broad = matches!(place, Place::Domain(_));
            let synonym = foreign && table::dot(&choice.vector, &wished.vector) >= SYNONYM;

            let patience = match (self.is_short(), broad) {
                _ if foreign => PATIENCE,
                (true, true) => DOMAIN_PATIENCE,
                (false, true) => 0.0,
                (true, false) => SHORT_PATIENCE,
                (false, false) => PATIENCE,
            };

            let near = nearness > fit - patience;
            if synonym || near {
                return choice.name.clone();
            }
        }

        names::first_free(
            std::iter::once(wished.name).chain(self.own_phrases()),
            self.input.parent,
        )
    }

    pub fn wanted(&self) -> Option<(Place, f32)> {
        let readable = self.profile.is_readable();
        let all = inventory();
        if self.profile.is_code() {
            let place = match grain(self.input.level, self.input.depth) {
                Grain::Domain => all.find("Computing"),
                Grain::Subject => all.find("Programming"),
                _ => None,
            };
            if let Some(place) = place {
                return Some((place, 1.0));
            }
        }

        let found = match grain(self.input.level, self.input.depth) {
            Grain::Domain if readable => self.best_domain(),
            Grain::Subject if readable => self.best_subject(),
            Grain::Topic if readable => self.best_topic(),
            _ => None,
        };

        // A mood or a chance word is not a subject: a longer text must be clearly about one.
        let parent = self.input.parent.last().and_then(|name| all.find(name));
        let least = match parent {
            Some(_) => FAMILIAR,
            None if self.is_short() => FAMILIAR,
            None if self.input.parent.is_empty() => CLEAR,
            None => CLEARER,
        };
        found.filter(|(_, fit)| *fit >= least)
    }

    /// A name from the chunk's own words, for deep levels and unknown languages.
    fn by_own_words(
        &self,
        nearest: Option<(&Choice, f32)>,
        choices: &[Choice],
        kindred: Option<usize>,
    ) -> String {
        let grain = grain(self.input.level, self.input.depth);
        let wishes: Vec<String> = if grain == Grain::Domain || self.profile.words == 0 {
            vec![names::kind_of_text(self.text, &self.profile)]
        } else {
            self.own_phrases().collect()
        };

        for wanted in wishes.iter().filter_map(|w| names::tidy(w)) {
            if let Some(same) = choices.iter().find(|c| names::same(&c.name, &wanted)) {
                return same.name.clone();
            }
        }

        if let Some(choice) = kindred.and_then(|at| choices.get(at)) {
            return choice.name.clone();
        }

        match nearest {
            Some((choice, fit)) if fit >= KINSHIP && self.profile.is_readable() => {
                choice.name.clone()
            }
            _ => names::first_free(wishes.into_iter(), self.input.parent),
        }
    }

    pub fn own_phrases(&self) -> impl Iterator<Item = String> + use<'_> {
        // Computed only when needed, because most chunks get a known name.
        let deep = self.input.parent.len().min(8);
        let strict = self.profile.words > BRIEF;
        let search =
            move || phrases::key_phrases(self.text, self.profile.about(), deep + 2, strict);
        std::iter::once_with(search).flatten()
    }
}
