//! Files chunks under category names, one level at a time. Guarantees one name per chunk, equal
//! answers for equal input, a name that differs from its parent's, and that an existing category is
//! preferred unless a new one fits clearly better.

use super::ClassifyInput;
use super::company;
use super::meaning::{Choice, SYNONYM};
use super::names;
use super::phrases;
use super::profile::{self, Profile};
use super::siblings::SampledSiblings;
use super::sketch::sketch;
use super::table::{self, Vector};
use super::topics::{Place, inventory};

/// A chunk of at most this many words may be filed by the matter it is about.
const SHORT: usize = 40;
/// A chunk of at most this many words is compared with samples of the categories.
const BRIEF: usize = 80;
/// Below this similarity to every topic, the chunk is named by its own words.
const FAMILIAR: f32 = 0.2;

/// The same for a text that is not short, and whose domain is not known yet.
const CLEAR: f32 = 0.26;
/// The same for its subject, if no domain fitted.
const CLEARER: f32 = 0.34;

/// How much worse than a new category an existing one may fit and still be chosen.
pub const PATIENCE: f32 = 0.1;
/// The same for a short text, whose groups are finer.
const SHORT_PATIENCE: f32 = 0.06;
/// The same for a short text and a new domain, because few words are weak evidence.
const DOMAIN_PATIENCE: f32 = 0.04;
/// Distances from the mean of a store of one subject, in spreads: normal up to the first, and not
/// part of the subject above the second.
const USUAL: f32 = 2.0;
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

/// One category for each chunk, in the order of the chunks.
pub fn classify(input: &ClassifyInput<'_>) -> Vec<(i64, String)> {
    let helper = input.contextual_helper.map(profile::vector_of);
    let mut choices: Vec<Choice> = input
        .categories
        .iter()
        .map(|name| Choice::new(name))
        .collect();

    let mut filed = Vec::with_capacity(input.chunks.len());
    let sampled = input.samples.iter().any(|s| !s.is_empty());
    let mut siblings: Option<SampledSiblings> = None;

    for (at, (id, text)) in input.chunks.iter().enumerate() {
        if let Some(name) = wished(input, at, &choices) {
            if !choices.iter().any(|c| names::same(&c.name, &name)) {
                choices.push(Choice::new(&name));
            }

            filed.push((*id, name));
            continue;
        }

        let chunk = ChunkToFile::new(text, input, helper.as_ref());
        let home = input
            .homes
            .get(at)
            .copied()
            .flatten()
            .filter(|home| *home < input.categories.len());

        let comparable = sampled && chunk.can_be_compared();
        let siblings = comparable.then(|| {
            siblings.get_or_insert_with(|| SampledSiblings::of(input.categories, input.samples))
        });
        let name = match (home, siblings) {
            (Some(home), Some(siblings)) => choices[chunk.refile_by_samples(home, siblings)]
                .name
                .clone(),
            // Without samples there is no reason to move the chunk.
            (Some(home), None) => choices[home].name.clone(),
            (None, Some(siblings)) => chunk.file_by_samples(&choices, siblings),
            (None, None) if sampled && chunk.may_be_typical() => chunk.keep_company(&choices),
            (None, None) => chunk.file(&choices),
        };

        if !choices.iter().any(|c| names::same(&c.name, &name)) {
            choices.push(Choice::new(&name));
        }

        filed.push((*id, name));
    }

    filed
}

/// The category that the outline of a source names for a chunk, if it exists or may be created.
fn wished(input: &ClassifyInput<'_>, at: usize, choices: &[Choice]) -> Option<String> {
    let wish = input.wishes.get(at).copied().flatten()?;
    let found = choices
        .iter()
        .find(|choice| names::same(&choice.name, wish));
    if let Some(known) = found {
        return Some(known.name.clone());
    }

    let above = input.parent.iter().any(|parent| names::same(parent, wish));
    (input.may_create && !above).then(|| wish.to_owned())
}

/// A chunk to file, with everything known about it.
pub struct ChunkToFile<'a> {
    pub text: &'a str,
    pub input: &'a ClassifyInput<'a>,
    pub profile: Profile,
    /// Similarity to every topic of the inventory.
    pub likeness: Vec<f32>,
    /// The matters that a short enquiry mentions, with their similarity; none for other texts,
    /// which have a subject instead.
    pub matters: Vec<(usize, f32)>,
}

impl<'a> ChunkToFile<'a> {
    fn new(text: &'a str, input: &'a ClassifyInput<'a>, helper: Option<&Vector>) -> Self {
        let mut profile = Profile::of(text);
        if let Some(helper) = helper {
            table::add(&mut profile.vector, helper, HELPER);
            profile.vector = table::unit(profile.vector);
        }

        let topics = &inventory().topics;
        let likeness = topics
            .iter()
            .map(|t| table::dot(&t.vector, &profile.vector))
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
            matters,
        }
    }

    pub fn is_short(&self) -> bool {
        self.profile.words <= SHORT
    }

    pub fn file(&self, choices: &[Choice]) -> String {
        let wanted = self.wanted();
        let nearest = self.nearest(choices);
        match (wanted, nearest) {
            (_, Some((choice, _))) if !self.input.may_create => choice.name.clone(),
            (Some((place, fit)), nearest) => self.join_or_make(place, fit, nearest, choices),
            (None, nearest) => self.by_own_words(nearest, choices),
        }
    }

    fn may_be_typical(&self) -> bool {
        let broad = grain(self.input.level, self.input.depth) == Grain::Domain;
        broad && self.is_short() && self.profile.is_readable()
    }

    /// Few words are weak evidence of a subject: in a store of one subject, a short text is filed
    /// with the others, unless it is very unlike them, or rather unlike them and clearly about
    /// something else.
    fn keep_company(&self, choices: &[Choice]) -> String {
        let main = company::main(
            self.input.categories.len(),
            self.input.samples,
            self.input.counts,
            &sketch(self.text),
        );

        let main = main.and_then(|(at, spreads)| choices.get(at).zip(Some(spreads)));
        match main {
            Some((choice, spreads))
                if spreads <= USUAL || spreads <= UNUSUAL && !self.is_clearly_elsewhere(choice) =>
            {
                choice.name.clone()
            }
            _ => self.file(choices),
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
    fn can_be_compared(&self) -> bool {
        let brief = self.profile.words <= BRIEF;
        brief
            && self.profile.is_readable()
            && grain(self.input.level, self.input.depth) != Grain::Domain
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
    fn by_own_words(&self, nearest: Option<(&Choice, f32)>, choices: &[Choice]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: ClassifyInput<'static> = ClassifyInput {
        contextual_helper: None,
        level: 1,
        depth: 2,
        parent: &[],
        categories: &[],
        samples: &[],
        counts: &[],
        may_create: true,
        chunks: &[],
        homes: &[],
        wishes: &[],
    };

    fn file(
        level: u32,
        depth: u32,
        parent: &[&str],
        categories: &[&str],
        may_create: bool,
        text: &str,
    ) -> String {
        let input = ClassifyInput {
            level,
            depth,
            parent,
            categories,
            may_create,
            chunks: &[(5, text)],
            ..EMPTY
        };

        let filed = classify(&input);
        assert_eq!((filed.len(), filed[0].0), (1, 5));
        filed[0].1.clone()
    }

    const SHUTTLE: &str =
        "The space shuttle reached its orbit after the launch and released a satellite.";
    const FEE: &str = "Why was I charged a fee for using my card abroad?";

    #[test]
    fn broad_names_are_above_narrow_ones() {
        for (level, depth, parent, text, wanted) in [
            (1, 3, vec![], SHUTTLE, "Science"),
            (2, 3, vec!["Science"], SHUTTLE, "Astronomy and space"),
            (1, 2, vec![], FEE, "Money"),
            (2, 2, vec!["Money"], FEE, "Payment card fees"),
        ] {
            assert_eq!(file(level, depth, &parent, &[], true, text), wanted);
        }
    }

    #[test]
    fn existing_names_are_reused() {
        for (level, categories, may_create, text, wanted) in [
            (
                1,
                vec!["Cooking", "Outer space", "Tennis"],
                true,
                SHUTTLE,
                "Outer space",
            ),
            (1, vec!["science", "Health"], true, SHUTTLE, "science"),
            (1, vec!["Gardening", "Rockets"], false, SHUTTLE, "Rockets"),
            (1, vec!["Gardening"], false, "", "Gardening"),
        ] {
            assert_eq!(file(level, 2, &[], &categories, may_create, text), wanted);
        }
    }

    #[test]
    fn a_store_of_one_subject_accepts_only_texts_on_that_subject() {
        let samples = [
            "When will my new card arrive?",
            "Why was I charged a fee for using my card abroad?",
            "My top-up failed, what should I do?",
            "The exchange rate of my transfer was wrong",
            "I do not recognise a payment on my statement",
            "How do I change the PIN of my card?",
            "My transfer is still pending",
            "Can I get a refund for this purchase?",
            "The cash machine swallowed my card",
            "Which currencies can I hold in my account?",
            "Why was my card payment declined?",
            "I want to verify my identity to open an account",
            "Is there a limit for cash withdrawals?",
            "My salary has not arrived in my account yet",
        ];

        let filed = |text: &str| {
            let (samples, counts) = (&[samples.to_vec()], &[samples.len()]);
            classify(&ClassifyInput {
                categories: &["Money"],
                samples,
                counts,
                chunks: &[(1, text)],
                ..EMPTY
            })
            .remove(0)
            .1
        };

        for text in [
            "How long will the delivery of it take?",
            "I cannot log in to the app any more",
        ] {
            assert_eq!(filed(text), "Money", "{text}");
        }

        for text in [
            "My dog Rex is afraid of thunder",
            "I started playing tennis last year",
            "I play the piano",
        ] {
            assert_ne!(filed(text), "Money", "{text}");
        }
    }

    #[test]
    fn chunks_of_one_call_share_new_names() {
        let chunks = [
            (1, "Кошка спит дома. Кошка ест."),
            (2, "Кошка ест рыбу. Кошка спит."),
        ];

        let input = ClassifyInput {
            level: 2,
            parent: &["Cyrillic texts"],
            chunks: &chunks,
            ..EMPTY
        };

        let filed = classify(&input);
        assert_eq!(filed[0].1, filed[1].1);
    }

    #[test]
    fn any_text_at_any_depth_gets_a_valid_name() {
        let giant = "x".repeat(1_000_000);
        let texts = [
            "",
            " \n",
            "🙂🙂",
            "12 34 56",
            "{\"a\": [1, 2, {\"b\": null}]}",
            "机器学习是人工智能的分支。",
            "Кошка спит",
            "fn main() { println!(\"{}\", x); }",
            giant.as_str(),
            SHUTTLE,
            "\u{0}\u{7}/",
            "a/b/c",
        ];

        for text in texts {
            let mut path: Vec<String> = Vec::new();
            let depth = if text.len() > 10_000 { 5 } else { 100 };
            for level in 1..=depth {
                let parent: Vec<&str> = path.iter().map(String::as_str).collect();
                let name = file(level, depth, &parent, &[], true, text);
                assert!(!name.trim().is_empty() && name.chars().count() <= 60);
                assert!(
                    name.split(' ').count() <= 4
                        && !name.contains('/')
                        && !name.contains(char::is_control)
                );

                assert!(
                    path.last().is_none_or(|p| !names::same(p, &name)),
                    "{name} below itself"
                );

                path.push(name);
            }
        }
    }

    #[test]
    fn equal_requests_get_equal_answers() {
        let ask = || {
            file(
                2,
                3,
                &["Science"],
                &["Space flight", "Physics"],
                true,
                SHUTTLE,
            )
        };
        assert_eq!(ask(), ask());
    }
}
