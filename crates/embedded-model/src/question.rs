//! What kind of answer a question asks for, and how well a sentence is of that kind.

use std::collections::HashSet;

use super::measures::{self, Measure};

/// The kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A person, or any other name.
    Person,
    Time,
    Place,
    Number,
    /// How heavy, how tall, at what price: a number with its unit.
    Measure(&'static Measure),
    Reason,
    YesOrNo,
    List,
    Any,
}

const AUXILIARIES: [&str; 17] = [
    "is", "are", "was", "were", "do", "does", "did", "can", "could", "has", "have", "had", "will",
    "would", "should", "may", "must",
];
/// Words before the word that asks: "for whom", "in which year".
const BEFORE: [&str; 13] = [
    "for", "to", "in", "on", "at", "by", "from", "since", "until", "with", "of", "about", "and",
];
const LISTS: [&str; 5] = [
    "what are the ",
    "which are the ",
    "name all",
    "name the ",
    "give me all",
];
/// What "which" and "what" ask for, by the noun that follows.
const TIMES: [&str; 8] = [
    "time", "date", "day", "weekday", "month", "year", "century", "deadline",
];
const PLACES: [&str; 9] = [
    "town", "city", "country", "village", "street", "island", "place", "harbour", "address",
];
const NUMBERS: [&str; 9] = [
    "version",
    "number",
    "amount",
    "limit",
    "score",
    "total",
    "count",
    "percentage",
    "code",
];
/// Words that may stand between "what" and that noun.
const BETWEEN: [&str; 14] = [
    "is", "was", "are", "were", "the", "a", "an", "my", "our", "your", "his", "her", "their", "its",
];
/// Where the noun that is asked for ends.
const ENDS: [&str; 14] = [
    "of", "for", "in", "on", "at", "from", "with", "by", "to", "is", "was", "does", "did", "do",
];

impl Kind {
    /// The kind of a question, by its first words.
    pub fn of(question: &str) -> Self {
        let lower = question.trim().to_lowercase();
        let words: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .filter(|word| !word.is_empty())
            .collect();
        if LISTS.iter().any(|list| lower.starts_with(list)) {
            return Self::List;
        }

        let skipped = usize::from(words.len() > 1 && BEFORE.contains(&words[0]));
        let mut rest = words[skipped..].iter().copied();
        match rest.next().unwrap_or_default() {
            "list" | "enumerate" => Self::List,
            "who" | "whose" | "whom" => Self::Person,
            "when" => Self::Time,
            "where" => Self::Place,
            "why" => Self::Reason,
            "how" => Self::of_how(rest.next().unwrap_or_default(), &words),
            "what" | "which" => Self::of_noun(&words[skipped + 1..]),
            first if AUXILIARIES.contains(&first) => Self::YesOrNo,
            _ => Self::Any,
        }
    }

    /// How many, how heavy, how much something costs.
    fn of_how(word: &str, words: &[&str]) -> Self {
        let price = || {
            let asks = |word: &&&str| ["cost", "costs", "pay", "paid"].contains(*word);
            words
                .iter()
                .find(asks)
                .and_then(|word| measures::asked_by(word))
        };
        match word {
            "much" => price().map_or(Self::Number, Self::Measure),
            "many" => Self::Number,
            _ => measures::asked_by(word).map_or(Self::Any, Self::Measure),
        }
    }

    /// Which version, what is the price: by the last word of the noun that is asked for.
    fn of_noun(words: &[&str]) -> Self {
        if words.last() == Some(&"cost") {
            return measures::asked_by("cost").map_or(Self::Number, Self::Measure);
        }

        let start = words
            .iter()
            .take_while(|word| BETWEEN.contains(word))
            .count();
        let noun = words[start..]
            .iter()
            .take_while(|word| !ENDS.contains(word));
        let noun: Vec<&str> = noun.copied().collect();
        let has = |list: &[&str]| noun.iter().any(|word| list.contains(word));
        // "What time", but not "what shopping day trip"; "which version" and "which regex version".
        let first = noun.first().copied().unwrap_or_default();
        if TIMES.contains(&first) {
            Self::Time
        } else if PLACES.contains(&first) {
            Self::Place
        } else if noun.last() == Some(&"name") {
            Self::Person
        } else if let Some(measure) = noun.iter().find_map(|word| measures::asked_by(word)) {
            Self::Measure(measure)
        } else if has(&NUMBERS) {
            Self::Number
        } else {
            Self::Any
        }
    }
}

/// The words of a question, in lower case, and its numbers: what is in the question does not answer
/// it.
pub fn words_of(question: &str) -> HashSet<String> {
    let words = split(question).map(plain);
    let numbers = question.split_whitespace().map(|token| {
        token
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase()
    });
    words.chain(numbers).collect()
}

/// The words of a text.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
}

/// A word in lower case, without the ending of a genitive.
pub fn plain(word: &str) -> String {
    let lower = word.to_lowercase();
    lower.strip_suffix("'s").unwrap_or(&lower).to_owned()
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
        for (question, kind) in [
            ("Who lost his leg?", Kind::Person),
            ("For whom is the coffin?", Kind::Person),
            ("When does it open?", Kind::Time),
            ("In which year was it built?", Kind::Time),
            ("What is the name of the cat?", Kind::Person),
            ("What is her cat's first name?", Kind::Person),
            ("Where is it?", Kind::Place),
            ("In which town does he preach?", Kind::Place),
            ("How many are there?", Kind::Number),
            ("Which regex version was yanked?", Kind::Number),
            ("What is the frame number of the bike?", Kind::Number),
            ("What is the deadline for the tax return?", Kind::Time),
            ("Why?", Kind::Reason),
            ("Is it open?", Kind::YesOrNo),
            ("List the colours.", Kind::List),
            ("What are the next steps?", Kind::List),
            ("How do I reset it?", Kind::Any),
            ("What is a helper?", Kind::Any),
        ] {
            assert_eq!(Kind::of(question), kind, "{question}");
        }

        for (question, word) in [
            ("How heavy is the cat?", "heavy"),
            ("How much does the course cost?", "cost"),
            ("What did the module cost?", "cost"),
            ("What is the interest rate?", "rate"),
        ] {
            let measure = measures::asked_by(word).unwrap();
            assert_eq!(Kind::of(question), Kind::Measure(measure), "{question}");
        }
    }
}
