//! Memories that cannot both be true now: they speak about the same and name other values ("the
//! deadline is 3 May", "the deadline moved to 9 June"; "I live in Ghent", "I moved to Leipzig"). This
//! compares words; no model is asked, so both memories stay, and only what was said later comes
//! first. Pure.

use std::collections::HashSet;

use memoir_index::terms;
use memoir_text::months::{MONTHS, WEEKDAYS};
use memoir_text::single_facts::{self, SingleFact};
use memoir_text::text::sentences;
use memoir_text::words;
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::memory::Memory;

/// Characters and sentences of a memory that are compared.
const MAX_CHARS: usize = 2_000;
const MAX_SENTENCES: usize = 20;
/// The share of the words of the longer sentence that the shorter one must have.
const OF_LONGER: f64 = 0.6;

/// What stands before a month or a weekday that is a value: "may" is also a verb.
const BEFORE_DATES: [&str; 9] = [
    "in", "on", "by", "until", "till", "since", "from", "of", "to",
];
/// Words that say what is, not what happened once: something can happen twice with other values.
/// The single letter is what is left of "it's".
const STATES: [&str; 27] = [
    "am",
    "is",
    "are",
    "s",
    "will",
    "has",
    "born",
    "go",
    "goes",
    "set",
    "use",
    "uses",
    "runs",
    "costs",
    "needs",
    "weighs",
    "measures",
    "takes",
    "starts",
    "ends",
    "opens",
    "closes",
    "leaves",
    "arrives",
    "moved",
    "changed",
    "postponed",
];
/// Words that say that something changed, and nothing about its subject.
const CHANGES: [&str; 14] = [
    "moved",
    "changed",
    "postponed",
    "shifted",
    "updated",
    "now",
    "new",
    "instead",
    "actually",
    "already",
    "still",
    "again",
    "correction",
    "today",
];

/// Two memories that cannot both be true now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = MemoryConflictResponse)]
pub struct Conflict {
    /// The memory that was said later.
    pub newer_id: String,
    pub older_id: String,
    /// Who recognised it. `rule`: they speak about the same and name other values.
    pub by: &'static str,
}

/// A sentence that says what is.
#[derive(Debug, Clone)]
pub enum Claim {
    /// Of which only one can be true of the user.
    Single(SingleFact),
    Values {
        subject: HashSet<String>,
        /// Numbers, months and weekdays.
        values: HashSet<String>,
    },
}

/// The conflicts among memories.
pub fn find(memories: &[&Memory]) -> Vec<Conflict> {
    let claims: Vec<Vec<Claim>> = memories.iter().map(|memory| claims_of(memory)).collect();
    let known: Vec<(&Memory, &[Claim])> = memories
        .iter()
        .zip(&claims)
        .map(|(memory, claims)| (*memory, claims.as_slice()))
        .collect();
    let mut found = Vec::new();
    for (place, one) in known.iter().enumerate() {
        let later = known[place + 1..].iter();
        found.extend(later.filter_map(|other| between(*one, *other)));
    }

    found
}

/// The conflicts of a memory that is not stored yet with others.
pub fn find_with(new: &Memory, others: &[Memory]) -> Vec<Conflict> {
    let claims = claims_of(new);
    // Of the same moment, what is stored last is newer.
    let one = &Memory {
        seq: i64::MAX,
        ..new.clone()
    };
    let others = others.iter();
    let found = others.filter_map(|other| between((one, &claims), (other, &claims_of(other))));
    found.collect()
}

/// The words in which other memories may say something about the same single facts.
pub fn wordings(memory: &Memory) -> String {
    let mut words = String::new();
    for claim in claims_of(memory) {
        if let Claim::Single(fact) = claim {
            for wording in fact.wordings() {
                words.push_str(wording);
                words.push(' ');
            }
        }
    }

    words
}

/// The conflict between two memories, if there is one.
fn between(
    (one, claims): (&Memory, &[Claim]),
    (other, of_other): (&Memory, &[Claim]),
) -> Option<Conflict> {
    let are_opposed = claims
        .iter()
        .any(|claim| of_other.iter().any(|other| claim.opposes(other)));
    if one.user_id != other.user_id || !are_opposed {
        return None;
    }

    let is_newer = (one.created_at, one.seq) > (other.created_at, other.seq);
    let (newer, older) = if is_newer { (one, other) } else { (other, one) };
    Some(Conflict {
        newer_id: newer.id.to_string(),
        older_id: older.id.to_string(),
        by: "rule",
    })
}

/// The sentences that say what is; questions do not.
fn claims_of(memory: &Memory) -> Vec<Claim> {
    let text: String = memory.content.chars().take(MAX_CHARS).collect();
    let is_of_user = memory.kind.is_statement() || memory.role == "user";
    let lines = text.lines().flat_map(sentences).map(str::trim);
    let mut claims = Vec::new();
    for sentence in lines.take(MAX_SENTENCES) {
        if sentence.ends_with(['?', '？']) {
            continue;
        }

        let single = single_facts::of(sentence).filter(|_| is_of_user);
        claims.extend(single.map(Claim::Single));
        claims.extend(Claim::of_sentence(sentence, memory.kind.is_statement()));
    }

    claims
}

impl Claim {
    /// What a sentence says is, with its values. A statement needs no verb: "Deadline 3 May".
    pub fn of_sentence(sentence: &str, is_statement: bool) -> Option<Self> {
        let mut all: Vec<String> = Vec::new();
        words::each(sentence, |word| all.push(word.to_owned()));
        let state = all.iter().position(|word| STATES.contains(&word.as_str()));
        match state {
            Some(place) => Self::of(&all, place),
            None if is_statement && !is_past(&all) => Self::of(&all, 0),
            None => None,
        }
    }

    /// Of a sentence whose values stand behind a place: before it, a number belongs to the subject,
    /// as in "ticket 4711 is closed".
    fn of(words: &[String], state: usize) -> Option<Self> {
        let mut values = HashSet::new();
        let mut rest: Vec<&str> = Vec::new();
        for (place, word) in words.iter().enumerate() {
            if place >= state && is_value(words, place) {
                values.insert(cardinal(word).to_owned());
            } else if !CHANGES.contains(&word.as_str()) {
                rest.push(word);
            }
        }

        let subject = terms::of_query(&rest.join(" ")).into_iter();
        let subject: HashSet<String> = subject.map(|one| one.term).collect();
        (!values.is_empty() && !subject.is_empty()).then_some(Self::Values { subject, values })
    }

    /// Whether it speaks about the same, and each of the two names a value that the other does not.
    pub fn opposes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Single(one), Self::Single(other)) => one.opposes(other),
            (
                Self::Values { subject, values },
                Self::Values {
                    subject: of_other,
                    values: others,
                },
            ) => {
                is_same_subject(subject, of_other)
                    && !values.is_subset(others)
                    && !others.is_subset(values)
            }
            _ => false,
        }
    }
}

/// Whether the words of the shorter subject are in the longer one, which has few others.
fn is_same_subject(one: &HashSet<String>, other: &HashSet<String>) -> bool {
    let shared = one.intersection(other).count();
    #[expect(clippy::cast_precision_loss, reason = "the words of a sentence")]
    let of_longer = shared as f64 / one.len().max(other.len()) as f64;
    shared == one.len().min(other.len()) && of_longer >= OF_LONGER
}

/// Whether a sentence begins with what happened once.
fn is_past(words: &[String]) -> bool {
    const PAST: [&str; 8] = ["ran", "ate", "went", "bought", "met", "saw", "had", "did"];
    let first = words.first().map_or("", String::as_str);
    first.ends_with("ed") || PAST.contains(&first)
}

/// "3" for "3rd"; other words as they are.
fn cardinal(word: &str) -> &str {
    let endings = ["st", "nd", "rd", "th"];
    let number = endings.iter().find_map(|ending| word.strip_suffix(ending));
    number
        .filter(|rest| rest.parse::<u64>().is_ok())
        .unwrap_or(word)
}

/// Whether a word is a number, or a month or a weekday in a date.
fn is_value(words: &[String], place: usize) -> bool {
    let has_digit = |word: &String| word.chars().any(|c| c.is_ascii_digit());
    let word = &words[place];
    if has_digit(word) {
        return true;
    }

    let day = word.strip_suffix('s').unwrap_or(word);
    let is_named = MONTHS.contains(&word.as_str()) || WEEKDAYS.contains(&day);
    let before = place.checked_sub(1).map(|before| &words[before]);
    let is_dated = before.is_some_and(|one| BEFORE_DATES.contains(&one.as_str()) || has_digit(one))
        || words.get(place + 1).is_some_and(has_digit);
    is_named && is_dated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::model::memory::MemoryKind;

    fn memory(kind: MemoryKind, content: &str, day: i64) -> Memory {
        let at = Timestamp::from_micros(day * 86_400_000_000);
        Memory::new(kind, "ann".to_owned(), content.to_owned(), at)
    }

    fn conflict(one: &str, other: &str) -> bool {
        let both = [one, other].map(|text| memory(MemoryKind::Message, text, 1));
        !find(&[&both[0], &both[1]]).is_empty()
    }

    #[test]
    fn the_same_with_another_value_is_a_conflict() {
        for (one, other) in [
            ("The deadline is 3 May.", "The deadline is 9 June."),
            (
                "The deadline is 3 May 2026.",
                "Hello! The deadline moved to 9 June 2026.",
            ),
            ("The pump runs at 6 bar.", "The pump runs at 9 bar now."),
            ("The meeting is on Monday.", "The meeting is on Friday."),
            (
                "I go swimming on Tuesdays.",
                "I go swimming on Thursdays now.",
            ),
            (
                "I live in Ghent.",
                "Great news: all is done. I moved to Leipzig!",
            ),
            (
                "My favourite colour is blue.",
                "My favourite colour is green now.",
            ),
            ("My name is Ann.", "My name is Anna."),
            ("My birthday is 3 May.", "My birthday is May 4."),
            ("My rent is 850 euros.", "My rent is 920 euros now."),
            ("I was born on 3 May 1980.", "I was born on 3 May 1981."),
        ] {
            assert!(conflict(one, other), "{one} {other}");
        }

        for (one, other) in [
            ("The deadline is 3 May.", "The deadline is 3 May 2026."),
            (
                "The deadline is 3 May.",
                "The deadline of the report is 9 June.",
            ),
            ("I ran 5 km this morning.", "I ran 7 km this morning."),
            ("The deadline is 3 May.", "Is the deadline 9 June?"),
            ("The pump runs at 6 bar.", "The valve opens at 9 bar."),
            ("Ticket 4711 is closed.", "Ticket 4712 is closed."),
            ("Room 3 is free on Monday.", "Room 4 is free on Friday."),
            ("It may be cold in March.", "It may be warm."),
            ("The weather is fine.", "The weather is bad."),
            ("I live in Ghent.", "I live in Ghent, near the canal."),
            ("I live in Ghent.", "I work for Leipzig Transport."),
            ("I live in Bonn these days.", "I live in Bonn currently."),
            ("I live in Ghent.", "I moved to Python 3."),
            ("I live in Ghent.", "Moved to Tuesday."),
            ("I was born in May.", "I was born in Ghent."),
            ("My birthday is 3 May.", "My birthday is May 3."),
            ("My birthday is 3 May.", "My birthday is the 3rd of May."),
            ("My car is a Volvo.", "My car is broken."),
            ("My boss is Ann.", "My boss is angry."),
            ("My doctor is Ann Lee.", "My doctor is on vacation."),
        ] {
            assert!(!conflict(one, other), "{one} {other}");
        }
    }

    #[test]
    fn what_was_said_later_is_newer_whichever_comes_first() {
        let early = memory(MemoryKind::Fact, "Deadline 3 May", 1);
        let late = memory(MemoryKind::Fact, "Deadline 9 June", 2);
        for pair in [[&early, &late], [&late, &early]] {
            let found = find(&pair);
            assert_eq!(found.len(), 1);
            let ids = (found[0].newer_id.as_str(), found[0].older_id.as_str());
            assert_eq!(ids, (late.id.as_str(), early.id.as_str()));
        }

        let runs = ["Ran 5 km", "Ran 7 km"].map(|text| memory(MemoryKind::Fact, text, 1));
        assert_eq!(find(&[&runs[0], &runs[1]]), []);
    }
}
