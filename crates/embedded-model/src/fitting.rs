//! How well a sentence is of the kind that a question asks for: a number, a date, a name, a place.

use std::collections::HashSet;

use memoir_text::months::{MONTHS, WEEKDAYS};

use super::measures::Measure;
use super::question::{Kind, plain, split, words_of};
use super::rank;

/// How well a sentence is of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It has no such thing.
    None,
    /// It has something that may be one.
    Some,
    Full,
}

/// Numbers in words; "one" is more often a pronoun.
const NUMBERS: [&str; 27] = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "hundred",
    "thousand",
    "dozen",
    "half",
];
/// Words for a time, besides the days of the week.
const TIMES: [&str; 16] = [
    "morning",
    "afternoon",
    "evening",
    "noon",
    "midnight",
    "yesterday",
    "tomorrow",
    "today",
    "o'clock",
    "spring",
    "summer",
    "autumn",
    "winter",
    "am",
    "pm",
    "tonight",
];
const SPANS: [&str; 14] = [
    "second", "seconds", "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks",
    "month", "months", "year", "years",
];
/// Words that begin a clause of time.
const CLAUSES: [&str; 10] = [
    "when",
    "after",
    "before",
    "until",
    "once",
    "while",
    "as",
    "end",
    "beginning",
    "then",
];
const REASONS: [&str; 12] = [
    "because",
    "since",
    "due",
    "so",
    "cause",
    "caused",
    "causes",
    "reason",
    "therefore",
    "order",
    "for",
    "as",
];
const PLACES: [&str; 10] = [
    "in", "at", "near", "on", "to", "from", "behind", "under", "inside", "opposite",
];
const DETERMINERS: [&str; 10] = [
    "the", "a", "an", "this", "that", "his", "her", "its", "their", "our",
];
/// How many words may stand between a number and its unit.
const BESIDE: usize = 2;

/// The words of a question, in lower case: a name or a number among them does not answer it.
pub struct AskedWords {
    all: HashSet<String>,
    stems: HashSet<String>,
}

impl AskedWords {
    pub fn of(question: &str) -> Self {
        let all = words_of(question);
        let stems = all.iter().map(|word| rank::stem(word)).collect();
        Self { all, stems }
    }
}

/// How well a sentence contains an answer of this kind.
pub fn fit(kind: Kind, sentence: &str, asked: &AskedWords) -> Fit {
    match kind {
        Kind::Person => whole(names_a_person(sentence, &asked.all)),
        Kind::Place => whole(names_a_place(sentence, &asked.all)),
        Kind::Time => time(sentence, &asked.all),
        Kind::Number => number(sentence, asked),
        Kind::Measure(measure) => measured(measure, sentence, &asked.all),
        Kind::Reason => {
            let has = split(sentence).any(|word| REASONS.contains(&&*word.to_lowercase()));
            if has { Fit::Full } else { Fit::Some }
        }
        Kind::YesOrNo | Kind::List | Kind::Any => Fit::Full,
    }
}

fn whole(is: bool) -> Fit {
    if is { Fit::Full } else { Fit::None }
}

/// The words of a sentence with their marks, in lower case, without links and numbers of issues, and
/// without the number of a list's item.
fn tokens(sentence: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for (at, token) in sentence.split_whitespace().enumerate() {
        let is_item = at == 0
            && token.ends_with(['.', ')'])
            && token[..token.len() - 1]
                .bytes()
                .all(|byte| byte.is_ascii_digit());
        if is_item || token.contains("://") || token.contains('#') {
            continue;
        }

        let marks = |c: char| !(c.is_alphanumeric() || "$€£%°²".contains(c));
        let token = token.trim_matches(marks).to_lowercase();
        if !token.is_empty() {
            tokens.push(token);
        }
    }

    tokens
}

fn has_digit(token: &str) -> bool {
    token.contains(|c: char| c.is_ascii_digit())
}

fn is_number(token: &str) -> bool {
    has_digit(token)
        || NUMBERS.contains(&token)
        || token.split('-').any(|part| NUMBERS.contains(&part))
}

/// The places of the numbers that the question does not name.
fn numbers(tokens: &[String], asked: &HashSet<String>) -> Vec<usize> {
    let fresh = |token: &str| {
        let bare = token.trim_matches(|c: char| !c.is_alphanumeric());
        is_number(token) && !asked.contains(bare)
    };
    (0..tokens.len()).filter(|at| fresh(&tokens[*at])).collect()
}

/// Whether a word that passes stands beside one of the numbers, or in it.
fn stands_beside(tokens: &[String], numbers: &[usize], passes: impl Fn(&str) -> bool) -> bool {
    numbers.iter().any(|at| {
        let around = at.saturating_sub(BESIDE)..tokens.len().min(at + BESIDE + 1);
        around.into_iter().any(|at| passes(&tokens[at]))
    })
}

fn number(sentence: &str, asked: &AskedWords) -> Fit {
    let tokens = tokens(sentence);
    let numbers = numbers(&tokens, &asked.all);
    let counted = |token: &str| !is_number(token) && asked.stems.contains(&rank::stem(token));
    let digits = || numbers.iter().any(|at| has_digit(&tokens[*at]));
    if digits() || stands_beside(&tokens, &numbers, counted) {
        Fit::Full
    } else if numbers.is_empty() {
        Fit::None
    } else {
        Fit::Some
    }
}

fn measured(measure: &Measure, sentence: &str, asked: &HashSet<String>) -> Fit {
    let tokens = tokens(sentence);
    if measure.asked.contains(&"often") && tokens.iter().any(|token| measure.has_cue(token)) {
        return Fit::Full;
    }

    let numbers = numbers(&tokens, asked);
    if stands_beside(&tokens, &numbers, |token| measure.has_cue(token)) {
        Fit::Full
    } else if numbers.iter().any(|at| has_digit(&tokens[*at])) {
        Fit::Some
    } else {
        Fit::None
    }
}

fn time(sentence: &str, asked: &HashSet<String>) -> Fit {
    let tokens = tokens(sentence);
    // "May" and "March" are verbs too.
    let months = split(sentence).any(|word| {
        word.starts_with(char::is_uppercase) && MONTHS.contains(&&*word.to_lowercase())
    });
    let listed = |list: &[&str]| {
        let fresh = |token: &&String| list.contains(&token.as_str()) && !asked.contains(*token);
        tokens.iter().any(|token| fresh(&token))
    };
    let days = || {
        let day = |token: &String| WEEKDAYS.contains(&token.trim_end_matches('s'));
        tokens.iter().any(day)
    };
    let numbers = numbers(&tokens, asked);
    let is_date = |at: &usize| {
        let token = tokens[*at].as_str();
        let year = token.len() == 4 && token.parse().is_ok_and(|year| (1000..2100).contains(&year));
        let clock = token.contains(':') && token.starts_with(|c: char| c.is_ascii_digit());
        let ordinal = ["1st", "2nd", "3rd", "th"]
            .iter()
            .any(|end| token.ends_with(end));
        let iso = token.len() >= 10 && token.bytes().filter(|byte| *byte == b'-').count() == 2;
        let at_hour = || {
            let before = at.checked_sub(1).map(|at| tokens[at].as_str());
            before
                .is_some_and(|word| ["at", "by", "around", "until", "till", "from"].contains(&word))
        };
        year || clock || iso || (ordinal && has_digit(token)) || at_hour()
    };
    let is_span = |token: &str| SPANS.contains(&token);
    if months
        || days()
        || listed(&TIMES)
        || numbers.iter().any(is_date)
        || stands_beside(&tokens, &numbers, is_span)
    {
        Fit::Full
    } else if listed(&CLAUSES) || numbers.iter().any(|at| has_digit(&tokens[*at])) {
        Fit::Some
    } else {
        Fit::None
    }
}

fn names_a_person(sentence: &str, asked: &HashSet<String>) -> bool {
    let fresh = |word: &str| {
        let lower = plain(word);
        let numbered = has_digit(&lower);
        !numbered && !asked.contains(&lower) && !is_time(&lower)
    };
    let later = split(sentence).skip(1).any(|word| {
        // Two letters are rather a unit.
        word.chars().count() > 2 && word.starts_with(char::is_uppercase) && fresh(word)
    });
    later
        || split(sentence)
            .next()
            .is_some_and(|w| is_name(w) && fresh(w))
}

/// Whether a preposition of place is followed by a name or by a noun with its article, which is no
/// time and not in the question.
fn names_a_place(sentence: &str, asked: &HashSet<String>) -> bool {
    let words: Vec<&str> = sentence
        .split(|c: char| !(c.is_alphanumeric() || "'`".contains(c)))
        .filter(|word| !word.is_empty())
        .collect();
    (0..words.len()).any(|at| {
        if !PLACES.contains(&words[at].to_lowercase().as_str()) {
            return false;
        }

        let follows = |at: usize| words.get(at).copied().unwrap_or_default();
        let with_article = DETERMINERS.contains(&follows(at + 1).to_lowercase().as_str());
        let noun = follows(at + 1 + usize::from(with_article));
        let is_code = noun.starts_with('`');
        let noun = noun.trim_matches('`');
        let lower = plain(noun);
        let singular = lower.strip_suffix('s').unwrap_or(&lower);
        let is_time = is_time(&lower) || is_time(singular);
        let is_name = is_code || noun.starts_with(char::is_uppercase);
        let letters = noun.starts_with(char::is_alphabetic);
        letters && !is_time && !asked.contains(&lower) && (is_name || with_article)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_what_the_question_asks_for() {
        for (question, answer, other) in [
            (
                "Who lost his leg?",
                "Captain Ahab lost it.",
                "it was lost at sea.",
            ),
            ("When does it open?", "It opens at nine.", "It opens daily."),
            (
                "When was it released?",
                "1.11.0 (2024-09-29)",
                "It may be released.",
            ),
            ("Where is it?", "It is in Hull.", "It exists."),
            (
                "Where is `Host` now?",
                "Moved to `extra`.",
                "It is in `Host`.",
            ),
            (
                "Where is the meeting?",
                "We meet at the mill.",
                "The meeting is on Sundays, at least in May.",
            ),
            (
                "Who leads the Danish choir?",
                "Led by Astrid Holm.",
                "The Danish choir sings on Monday.",
            ),
            ("How many are there?", "There are 14.", "There are some."),
            (
                "How tall is it?",
                "It was three inches high.",
                "A large rose-tree.",
            ),
            (
                "How large is our garden?",
                "It has 300 square metres.",
                "Three gardeners.",
            ),
            (
                "Which version of the 0.8 line?",
                "Use version 0.8.2.",
                "The 0.8 line, see https://example.org/570 and #570.",
            ),
        ] {
            let (kind, asked) = (Kind::of(question), AskedWords::of(question));
            assert_eq!(fit(kind, answer, &asked), Fit::Full, "{answer}");
            assert_eq!(fit(kind, other, &asked), Fit::None, "{other}");
        }
    }
}
