//! What kind of answer a question asks for, and whether a sentence is of that kind.

use std::collections::HashSet;

use memoir_text::months::{MONTHS, WEEKDAYS};

/// The kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Person,
    Time,
    Place,
    Number,
    YesOrNo,
    List,
    Any,
}

const NUMBERS: [&str; 14] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve",
    "hundred", "thousand", "dozen",
];
/// Words for a time, besides the days of the week.
const TIMES: [&str; 7] = [
    "morning",
    "evening",
    "noon",
    "midnight",
    "yesterday",
    "tomorrow",
    "o'clock",
];
const PLACES: [&str; 10] = [
    "in", "at", "near", "on", "to", "from", "behind", "under", "inside", "opposite",
];
const DETERMINERS: [&str; 10] = [
    "the", "a", "an", "this", "that", "his", "her", "its", "their", "our",
];
const AUXILIARIES: [&str; 17] = [
    "is", "are", "was", "were", "do", "does", "did", "can", "could", "has", "have", "had", "will",
    "would", "should", "may", "must",
];

impl Kind {
    /// The kind of a question, by its first words.
    pub fn of(question: &str) -> Self {
        let lower = question.trim().to_lowercase();
        let words: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .filter(|word| !word.is_empty())
            .collect();
        let starts = |these: &[&str]| these.iter().any(|this| lower.starts_with(this));
        match words.first().copied().unwrap_or_default() {
            "list" | "enumerate" => Self::List,
            _ if starts(&[
                "what are the ",
                "which are the ",
                "name all",
                "name the ",
                "give me all",
            ]) =>
            {
                Self::List
            }
            "who" | "whose" | "whom" => Self::Person,
            "when" => Self::Time,
            _ if starts(&[
                "what time",
                "what date",
                "which day",
                "which year",
                "what year",
            ]) =>
            {
                Self::Time
            }
            "where" => Self::Place,
            _ if starts(&[
                "how many",
                "how much",
                "how old",
                "how long",
                "how far",
                "how often",
            ]) =>
            {
                Self::Number
            }
            first if AUXILIARIES.contains(&first) => Self::YesOrNo,
            _ => Self::Any,
        }
    }

    /// Whether a sentence contains an answer of this kind. `asked` are the words of the question: a
    /// name that is in the question does not answer it.
    pub fn is_in(self, sentence: &str, asked: &HashSet<String>) -> bool {
        let words = || split(sentence);
        let listed =
            |list: &[&str]| words().any(|word| list.contains(&word.to_lowercase().as_str()));
        let digits = sentence.chars().any(|c| c.is_ascii_digit());
        let fresh = |word: &str| {
            let lower = plain(word);
            let numbered = lower.contains(|c: char| c.is_ascii_digit());
            !numbered && !asked.contains(&lower) && !is_time(&lower)
        };
        let name = || {
            words().skip(1).any(|word| {
                word.chars().count() > 1 && word.starts_with(char::is_uppercase) && fresh(word)
            })
        };
        match self {
            Self::Person => name() || words().next().is_some_and(|w| is_name(w) && fresh(w)),
            Self::Time => {
                digits || listed(&MONTHS) || listed(&WEEKDAYS) || listed(&TIMES) || listed(&NUMBERS)
            }
            Self::Place => names_a_place(sentence),
            Self::Number => digits || listed(&NUMBERS),
            Self::YesOrNo | Self::List | Self::Any => true,
        }
    }
}

/// The words of a question, in lower case.
pub fn words_of(question: &str) -> HashSet<String> {
    split(question).map(plain).collect()
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
}

/// A word in lower case, without the ending of a genitive.
fn plain(word: &str) -> String {
    let lower = word.to_lowercase();
    lower.strip_suffix("'s").unwrap_or(&lower).to_owned()
}

/// Whether a preposition of place is followed by a name, or by a noun with its article, and not by
/// a time.
fn names_a_place(sentence: &str) -> bool {
    let words: Vec<&str> = split(sentence).collect();
    (0..words.len()).any(|at| {
        if !PLACES.contains(&words[at].to_lowercase().as_str()) {
            return false;
        }

        let follows = |at: usize| words.get(at).copied().unwrap_or_default();
        let with_article = DETERMINERS.contains(&follows(at + 1).to_lowercase().as_str());
        let noun = follows(at + 1 + usize::from(with_article));
        let lower = plain(noun);
        let singular = lower.strip_suffix('s').unwrap_or(&lower);
        let is_time = is_time(&lower) || is_time(singular);
        let capital = noun.starts_with(char::is_uppercase);
        let letters = noun.starts_with(char::is_alphabetic);
        letters && !is_time && (capital || with_article)
    })
}

/// Whether a word in lower case names a time: a month, a weekday or a part of the day.
fn is_time(word: &str) -> bool {
    MONTHS.contains(&word) || WEEKDAYS.contains(&word) || TIMES.contains(&word)
}

/// A capital at the start of a sentence is a name if the word is not grammar.
fn is_name(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && !super::words::is_stop(&word.to_lowercase())
}

/// Whether a sentence says no.
pub fn denies(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    lower.contains("n't ")
        || lower.split(|c: char| !c.is_alphanumeric()).any(|word| {
            matches!(
                word,
                "not" | "no" | "never" | "neither" | "without" | "cannot"
            )
        })
}

/// Whether a sentence needs the one before it: it begins with a word for something named there.
pub fn refers_back(sentence: &str) -> bool {
    let first = sentence
        .split(|c: char| !c.is_alphabetic())
        .next()
        .unwrap_or_default()
        .to_lowercase();
    matches!(
        first.as_str(),
        "he" | "she" | "it" | "they" | "his" | "her" | "its" | "their" | "this" | "these" | "those"
    )
}

/// Whether a question asks for code or data itself.
pub fn wants_code(question: &str) -> bool {
    let lower = question.to_lowercase();
    [
        "code", "json", "yaml", "command", "example", "snippet", "config", "curl", "script",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_a_question_asks_for() {
        for (question, kind, answer, other) in [
            (
                "Who lost his leg?",
                Kind::Person,
                "Captain Ahab lost it.",
                "it was lost at sea.",
            ),
            (
                "When does it open?",
                Kind::Time,
                "It opens at nine.",
                "It opens daily.",
            ),
            ("Where is it?", Kind::Place, "It is in Hull.", "It exists."),
            (
                "Where is the meeting?",
                Kind::Place,
                "We meet at the mill.",
                "The meeting is on Sundays, at least in May.",
            ),
            (
                "Who leads the Danish choir?",
                Kind::Person,
                "Led by Astrid Holm.",
                "The Danish choir sings on Monday.",
            ),
            (
                "How many are there?",
                Kind::Number,
                "There are 14.",
                "There are some.",
            ),
        ] {
            assert_eq!(Kind::of(question), kind);
            let asked = words_of(question);
            assert!(
                kind.is_in(answer, &asked) && !kind.is_in(other, &asked),
                "{question}"
            );
        }

        assert_eq!(Kind::of("Is it open?"), Kind::YesOrNo);
        assert_eq!(Kind::of("List the colours."), Kind::List);
        assert_eq!(Kind::of("Why?"), Kind::Any);
    }
}
