//! Statements of which only one can be true of a person at a time: where somebody lives, what they
//! are called, their favourite colour. Two that name different things cannot both hold. Numbers and
//! dates are not compared here.

use std::collections::BTreeSet;

use crate::months::{MONTHS, WEEKDAYS};

/// What a statement is about, and what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SingleFact {
    /// Equal for all wordings: `lives in` for "I live in" and "Moved to".
    pub about: String,
    /// The words of the name, in lower case.
    pub value: BTreeSet<String>,
}

/// How such a statement goes on after its subject, and what it is about. A name follows, which
/// begins with a capital letter: "I moved to the back row" says nothing of a home.
const PREDICATES: [(&str, &str); 13] = [
    ("live in", "lives in"),
    ("lives in", "lives in"),
    ("am living in", "lives in"),
    ("moved to", "lives in"),
    ("have moved to", "lives in"),
    ("work for", "works for"),
    ("works for", "works for"),
    ("work at", "works for"),
    ("works at", "works for"),
    ("am called", "name"),
    ("was born in", "born in"),
    ("am married to", "married to"),
    ("is married to", "married to"),
];
/// The same, with a noun after an article: "I work as a nurse".
const WITH_NOUN: [(&str, &str); 2] = [("work as", "works as"), ("works as", "works as")];
/// What a person has one of, and what has a name: "my … is". "My car is broken" names nothing.
const ATTRIBUTES: [&str; 17] = [
    "address",
    "bank",
    "blood type",
    "boss",
    "car",
    "dentist",
    "doctor",
    "e-mail",
    "email",
    "employer",
    "insurance",
    "job",
    "job title",
    "landlord",
    "manager",
    "name",
    "password",
];
/// Attributes and favourites that are nouns: "my favourite colour is green". Others have names: "my
/// favourite mug is blue" does not say which one it is.
const NOUNS: [&str; 19] = [
    "animal",
    "colour",
    "cuisine",
    "dessert",
    "dish",
    "drink",
    "flavour",
    "flower",
    "food",
    "fruit",
    "hobby",
    "job title",
    "language",
    "meal",
    "music",
    "season",
    "sport",
    "subject",
    "vegetable",
];
/// How what is no noun begins: "my favourite food is not sushi".
const BEFORE_OTHERS: [&str; 6] = ["always", "no", "not", "quite", "really", "very"];
const SUBJECTS: [&str; 4] = ["i ", "the user ", "user ", ""];
const POSSESSIVES: [&str; 4] = ["my ", "the user's ", "user's ", ""];
const ARTICLES: [&str; 5] = ["a", "an", "the", "my", "our"];
/// What follows a name or a noun without being a part of it.
const AFTER_VALUE: [&str; 34] = [
    "after",
    "again",
    "and",
    "anymore",
    "as",
    "at",
    "because",
    "before",
    "but",
    "currently",
    "during",
    "for",
    "from",
    "in",
    "lately",
    "near",
    "next",
    "now",
    "nowadays",
    "on",
    "or",
    "right",
    "since",
    "so",
    "still",
    "these",
    "this",
    "today",
    "too",
    "until",
    "when",
    "where",
    "while",
    "with",
];
/// Words with a capital letter that say what somebody or something is like, not which one it is. So
/// do months and weekdays: "I was born in May".
const DESCRIPTIONS: [&str; 40] = [
    "african",
    "american",
    "arab",
    "asian",
    "australian",
    "austrian",
    "belgian",
    "brazilian",
    "british",
    "canadian",
    "chinese",
    "czech",
    "danish",
    "dutch",
    "english",
    "european",
    "finnish",
    "french",
    "german",
    "greek",
    "hungarian",
    "indian",
    "irish",
    "italian",
    "japanese",
    "korean",
    "mexican",
    "norwegian",
    "ok",
    "polish",
    "portuguese",
    "romanian",
    "russian",
    "scottish",
    "spanish",
    "swedish",
    "swiss",
    "turkish",
    "ukrainian",
    "welsh",
];

/// What a sentence says of which only one can be true.
pub fn of(sentence: &str) -> Option<SingleFact> {
    let text = sentence.trim().replace('’', "'");
    let text = text.trim_end_matches(['.', '!', ' ']);
    // Lower case may have another length, and then nothing could be said about the letters.
    let lower = Some(text.to_lowercase()).filter(|lower| lower.len() == text.len())?;
    let written_out = [("i'm ", "i am "), ("i've ", "i have ")]
        .iter()
        .find_map(|(short, long)| Some(format!("{long}{}", lower.strip_prefix(short)?)));
    let lower = written_out.unwrap_or(lower);
    by_predicate(text, &lower).or_else(|| by_attribute(text, &lower))
}

impl SingleFact {
    /// Whether both cannot be true: each names something that the other does not. "Ann" may be "Ann
    /// Smith".
    #[must_use]
    pub fn opposes(&self, other: &Self) -> bool {
        self.about == other.about
            && !self.value.is_subset(&other.value)
            && !other.value.is_subset(&self.value)
    }

    /// The words in which a statement may say something about the same.
    pub fn wordings(&self) -> impl Iterator<Item = &str> {
        let all = PREDICATES.iter().chain(&WITH_NOUN);
        all.filter(|(_, about)| *about == self.about)
            .map(|(wording, _)| *wording)
            .chain([self.about.as_str()])
    }
}

fn by_predicate(text: &str, lower: &str) -> Option<SingleFact> {
    let rests = SUBJECTS.iter().filter_map(|one| lower.strip_prefix(one));
    for rest in rests {
        let after = |predicate: &str| rest.strip_prefix(predicate)?.strip_prefix(' ');
        for (predicate, about) in PREDICATES {
            if let Some(given) = after(predicate) {
                let phrase = phrase(text, given)?;
                let (name, _) = name(&phrase)?;
                // "I moved to Python 3".
                let has_number = name.iter().any(|word| has_digit(word));
                return (!has_number).then(|| fact(about, name));
            }
        }

        for (predicate, about) in WITH_NOUN {
            if let Some(given) = after(predicate) {
                let phrase = phrase(text, given)?;
                let noun = without_article(&phrase).filter(|noun| !noun.is_empty())?;
                return Some(fact(about, noun));
            }
        }
    }

    None
}

fn by_attribute(text: &str, lower: &str) -> Option<SingleFact> {
    POSSESSIVES.iter().find_map(|possessive| {
        let (what, given) = lower.strip_prefix(possessive)?.split_once(" is ")?;
        // Without "my", it may be somebody else's.
        if possessive.is_empty() && what != "name" {
            return None;
        }

        let what = what
            .replace("favorite", "favourite")
            .replace("color", "colour")
            .replace("flavor", "flavour");
        let favourite = what.strip_prefix("favourite ");
        let is_single = ATTRIBUTES.contains(&what.as_str())
            || favourite.is_some_and(|rest| rest.split(' ').count() <= 2);
        if !is_single {
            return None;
        }

        let phrase = phrase(text, given)?;
        let bare = without_article(&phrase);
        let words = bare.unwrap_or(&phrase);
        if NOUNS.contains(&favourite.unwrap_or(&what)) {
            let is_noun = words
                .first()
                .is_some_and(|first| !BEFORE_OTHERS.contains(first));
            return is_noun.then(|| fact(&what, words));
        }

        let (name, rest) = name(words)?;
        // "A Volvo" is a name, "a Volvo driver" is not.
        (bare.is_none() || rest.is_empty()).then(|| fact(&what, name))
    })
}

/// The words of a text from the given end of it on, in lower case, up to where its clause ends; `None`
/// if the text writes what is no name with capitals.
fn phrase<'t>(text: &'t str, given: &str) -> Option<Vec<&'t str>> {
    // The end of the text is the same in both, whatever was written out before it.
    let (before, written) = text.split_at_checked(text.len().checked_sub(given.len())?)?;
    let last = before.split_whitespace().next_back()?;
    if !last.starts_with(char::is_lowercase) {
        return None;
    }

    let clause = written.split([',', ';', ':', '(']).next()?;
    let words = clause
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '“', '”', '\'', '.', '!', '?', '*', '_']));
    let words = words.take_while(|word| !word.is_empty() && !AFTER_VALUE.contains(word));
    Some(words.collect())
}

/// What follows an article.
fn without_article<'p, 't>(phrase: &'p [&'t str]) -> Option<&'p [&'t str]> {
    let (first, rest) = phrase.split_first()?;
    ARTICLES.contains(first).then_some(rest)
}

/// The name at the beginning of a phrase, and what follows it.
fn name<'p, 't>(phrase: &'p [&'t str]) -> Option<(&'p [&'t str], &'p [&'t str])> {
    let is_part = |word: &&&str| is_named(word) || has_digit(word);
    let length = phrase.iter().take_while(is_part).count();
    let (name, rest) = phrase.split_at(length);
    let is_name = name.iter().any(|word| is_named(word) && !describes(word));
    is_name.then_some((name, rest))
}

fn is_named(word: &str) -> bool {
    word.starts_with(char::is_uppercase) || word.contains('@')
}

fn has_digit(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

fn describes(word: &str) -> bool {
    let lower = word.to_lowercase();
    let day = lower.strip_suffix('s').unwrap_or(&lower);
    DESCRIPTIONS.contains(&lower.as_str())
        || MONTHS.contains(&lower.as_str())
        || WEEKDAYS.contains(&day)
}

fn fact(about: &str, words: &[&str]) -> SingleFact {
    SingleFact {
        about: about.to_owned(),
        value: words.iter().map(|word| word.to_lowercase()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a sentence is about, and the words of the name in the order of letters.
    fn both(sentence: &str) -> Option<(String, String)> {
        let fact = of(sentence)?;
        let words: Vec<String> = fact.value.into_iter().collect();
        Some((fact.about, words.join(" ")))
    }

    fn opposed(one: &str, other: &str) -> bool {
        of(one).is_some_and(|one| of(other).is_some_and(|other| one.opposes(&other)))
    }

    #[test]
    fn wordings_of_one_subject_are_about_the_same() {
        for sentence in [
            "I live in Bonn.",
            "Lives in Bonn",
            "The user lives in Bonn, near the river",
            "I've moved to Bonn in May!",
            "I’m living in Bonn now",
            "I live in Bonn these days",
            "I live in Bonn currently",
            "I live in \"Bonn\" again",
        ] {
            let found = both(sentence);
            assert_eq!(
                found,
                Some(("lives in".into(), "bonn".into())),
                "{sentence}"
            );
        }

        for (sentence, about, value) in [
            (
                "My favorite color is dark green.",
                "favourite colour",
                "dark green",
            ),
            ("My favourite band is Queen now", "favourite band", "queen"),
            ("My car is a Volvo", "car", "volvo"),
            ("My boss is Ann Smith these days", "boss", "ann smith"),
            ("My email is ann@example.com", "email", "ann@example.com"),
            ("My address is 5 Main Street", "address", "5 main street"),
            (
                "My job title is senior engineer",
                "job title",
                "engineer senior",
            ),
            ("I work as a nurse currently", "works as", "nurse"),
        ] {
            let wanted = Some((about.to_owned(), value.to_owned()));
            assert_eq!(both(sentence), wanted, "{sentence}");
        }

        let found = of("I moved to Leipzig").unwrap();
        let wordings: Vec<&str> = found.wordings().collect();
        assert!(wordings.contains(&"live in"), "{wordings:?}");
    }

    #[test]
    fn what_a_person_can_have_several_of_is_no_single_fact() {
        for sentence in [
            "I moved to the back row.",
            "I live in a small flat.",
            "I used to live in Bonn.",
            "My sister is a nurse.",
            "Her name is Ann.",
            "The weather is nice.",
            "My name is not Ann.",
            "I live in",
            "İ",
        ] {
            assert_eq!(both(sentence), None, "{sentence}");
        }
    }

    #[test]
    fn what_names_nothing_is_no_single_fact() {
        for sentence in [
            "My car is broken.",
            "My car is a wreck",
            "MY CAR IS BROKEN",
            "My car is OK",
            "My boss is angry",
            "My boss is Dutch",
            "My boss is a Dutch woman",
            "My boss is 50",
            "My job is stressful",
            "My bank is closed on Sunday",
            "My doctor is on vacation",
            "My favourite mug is blue",
            "My favourite food is very expensive",
            "I moved to Python 3",
            "Moved to Tuesday.",
            "I moved to Tuesdays",
            "I was born in May",
            "I work as hard as ever",
        ] {
            assert_eq!(both(sentence), None, "{sentence}");
        }
    }

    #[test]
    fn two_names_are_opposed_if_each_has_a_word_of_its_own() {
        for (one, other) in [
            ("I live in Ghent", "I moved to Leipzig"),
            ("My name is Ann", "My name is Anna"),
            ("My boss is Ann Smith", "My boss is Ben Smith"),
            ("My car is a Volvo", "My car is a Fiat"),
            ("I work as a nurse", "I work as a teacher now"),
        ] {
            assert!(opposed(one, other), "{one} {other}");
        }

        for (one, other) in [
            ("My name is Ann", "My name is Ann Smith"),
            ("My name is Smith", "My name is Ann Smith"),
            (
                "My favourite colour is green",
                "My favourite colour is dark green",
            ),
            (
                "My address is Main Street 5",
                "My address is 5 Main Street, Ghent",
            ),
            ("I live in Bonn", "I work for Acme"),
        ] {
            assert!(!opposed(one, other), "{one} {other}");
        }
    }
}
