//! Cuts a message into clauses and says which of them their speaker rejects: "I don't want a refund",
//! "nothing to do with billing", "it's not the refund", "the refund isn't the problem". What has not
//! happened is not rejected ("My parcel has not been shipped", "No refund yet"): the message is about
//! it.

use std::ops::Range;

use memoir_text::sentences;

/// Words that deny what follows in their clause.
const DENIALS: [&str; 8] = [
    "not", "no", "never", "without", "neither", "nor", "cannot", "none",
];

/// What a speaker wants or is there for; denied, the speaker rejects it. Everything else that is
/// denied is an event or a state, and the message is about it.
const WISHES: [&str; 26] = [
    "want",
    "wanted",
    "wanting",
    "wish",
    "need",
    "needed",
    "require",
    "ask",
    "asking",
    "asked",
    "request",
    "requesting",
    "looking",
    "seeking",
    "interested",
    "here",
    "calling",
    "writing",
    "talking",
    "intend",
    "planning",
    "trying",
    "mean",
    "worried",
    "concerned",
    "complaining",
];
/// Words that name the purpose of a message, directly after a denial.
const PURPOSES: [&str; 6] = [
    "about",
    "for",
    "regarding",
    "concerning",
    "related",
    "connected",
];
/// A wish comes so many words after its denial: "not really here".
const WISH_REACH: usize = 2;
/// Speakers who name themselves.
const SPEAKERS: [&str; 2] = ["i", "we"];
/// Phrases that deny what follows, wherever they stand.
const DENYING_PHRASES: [&[&str]; 4] = [
    &["nothing", "to", "do", "with"],
    &["instead", "of"],
    &["rather", "than"],
    &["unrelated", "to"],
];
/// What a denial says of a message as a whole: "it's not the refund", "the question is not the price".
const SUBJECTS: [&str; 11] = [
    "it", "this", "that", "these", "those", "they", "question", "problem", "issue", "point",
    "matter",
];
const FORMS_OF_BE: [&str; 6] = ["is", "was", "are", "were", "be", "been"];
/// Words between a denial and what it denies.
const ADVERBS: [&str; 8] = [
    "really",
    "actually",
    "just",
    "even",
    "only",
    "simply",
    "necessarily",
    "exactly",
];
const ARTICLES: [&str; 7] = ["the", "a", "an", "my", "our", "your", "any"];
/// After these, a named thing is described by what happened with it: "not the price I was quoted".
const PRONOUNS: [&str; 9] = [
    "i", "you", "we", "he", "she", "they", "that", "which", "who",
];
/// What matters to a speaker: "the refund isn't the problem".
const POINTS: [&str; 9] = [
    "problem",
    "issue",
    "point",
    "question",
    "reason",
    "topic",
    "matter",
    "concern",
    "complaint",
];
/// What a speaker does not have: "no question about billing".
const CONCERNS: [&str; 10] = [
    "question",
    "questions",
    "interest",
    "complaint",
    "complaints",
    "problem",
    "problems",
    "issue",
    "issues",
    "trouble",
];
const ABOUT: [&str; 4] = ["about", "with", "in", "regarding"];
/// Words of an event that has not happened: "No refund yet".
const EVENTS: [&str; 6] = ["yet", "still", "received", "arrived", "came", "far"];
/// A denial ends before these.
const BREAKS: [&str; 6] = ["but", "because", "although", "though", "however", "since"];
/// A denial also ends before "and" if one of these follows.
const NEW_SUBJECTS: [&str; 10] = [
    "i", "we", "it", "they", "he", "she", "you", "please", "can", "could",
];
/// How many words before a denial tell of whom it speaks, and how many after it belong to it.
const BEFORE: usize = 12;
const AFTER: usize = 40;
/// Maximum words of what "it's not the …" denies.
const MAX_DENIED: usize = 7;

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clause<'t> {
    pub text: &'t str,
    /// Whether the speaker rejects what it names.
    pub denied: bool,
}

/// The clauses of a message. `is_topic` knows the words that name a topic: "it's not billing" denies
/// one, "it's not working" does not.
pub fn clauses<'t>(text: &'t str, is_topic: impl Fn(&str) -> bool) -> Vec<Clause<'t>> {
    let parts = sentences::split(text)
        .into_iter()
        .flat_map(|sentence| sentence.split([',', ';', ':', '—', '–']))
        .flat_map(|part| part.split(" but "))
        .filter(|part| !part.trim().is_empty());

    let mut found = Vec::new();
    for part in parts {
        let words = words_of(part);
        let forms: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
        let mut push = |text: &'t str, denied: bool| {
            if text.contains(char::is_alphanumeric) {
                found.push(Clause { text, denied });
            }
        };

        // Bytes and words that are done.
        let (mut done, mut first) = (0, 0);
        while let Some(denied) = denied_words(&forms[first..], &is_topic) {
            let from = words[first + denied.start].bytes.start;
            let to = words[first + denied.end - 1].bytes.end;
            push(&part[done..from], false);
            push(&part[from..to], true);
            (done, first) = (to, first + denied.end);
        }

        push(&part[done..], false);
    }

    found
}

struct Word {
    form: String,
    bytes: Range<usize>,
}

fn words_of(part: &str) -> Vec<Word> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '\'' || c == '’';
    let mut words = Vec::new();
    let mut at = 0;
    for piece in part.split_inclusive(|c: char| !is_of_word(c)) {
        let bare = piece.trim_end_matches(|c: char| !is_of_word(c));
        if !bare.is_empty() {
            words.push(Word {
                form: bare.to_lowercase().replace('’', "'"),
                bytes: at..at + bare.len(),
            });
        }

        at += piece.len();
    }

    words
}

/// The words of a clause that its speaker rejects.
fn denied_words(forms: &[&str], is_topic: &impl Fn(&str) -> bool) -> Option<Range<usize>> {
    for at in 0..forms.len() {
        let rest = &forms[at..forms.len().min(at + AFTER)];
        let is_phrase = DENYING_PHRASES.iter().any(|one| rest.starts_with(one));
        if !is_phrase && !is_denial(rest[0]) {
            continue;
        }

        let before = &forms[at.saturating_sub(BEFORE)..at];
        let end = at + end_of_denial(rest);
        if is_phrase {
            return Some(at..end);
        }

        let after = &forms[at + 1..end];
        if denies_following(before, rest[0], after) {
            return Some(at..end);
        }

        if let Some(count) = denies_thing(before, rest[0], after, is_topic) {
            return Some(at..at + 1 + count);
        }

        if denies_subject(before, after) {
            return Some(at - before.len()..end);
        }
    }

    None
}

/// The place of the word before which a denial at the first one ends.
fn end_of_denial(rest: &[&str]) -> usize {
    let ends = |at: usize| {
        let next = rest.get(at + 1);
        BREAKS.contains(&rest[at])
            || rest[at] == "and" && next.is_some_and(|next| NEW_SUBJECTS.contains(next))
    };
    (1..rest.len()).find(|at| ends(*at)).unwrap_or(rest.len())
}

/// Whether all that follows is rejected: the clause begins with its denial ("No refund"), denies a
/// purpose ("This is not about the refund"), a wish of the speaker, or a question of theirs.
fn denies_following(before: &[&str], denial: &str, after: &[&str]) -> bool {
    let first = after.first().copied().unwrap_or_default();
    if before.is_empty() {
        let asks = denial.ends_with("n't") && (PRONOUNS.contains(&first) || denial != "don't");
        return !asks && !after.iter().any(|word| EVENTS.contains(word));
    }

    let speaks = before.iter().any(|word| {
        let subject = word.split('\'').next().unwrap_or_default();
        SPEAKERS.contains(&subject)
    });
    let mut near = after.iter().take(WISH_REACH);
    let concern = denial == "no"
        && CONCERNS.contains(&first)
        && after.iter().any(|word| ABOUT.contains(word));

    PURPOSES.contains(&first)
        || after.starts_with(&["to", "do", "with"])
        || concern
        || speaks && near.any(|word| WISHES.contains(word))
}

/// How many words after the denial belong to the thing of "it's not the refund", if the clause says
/// that.
fn denies_thing(
    before: &[&str],
    denial: &str,
    after: &[&str],
    is_topic: &impl Fn(&str) -> bool,
) -> Option<usize> {
    let before = without_last(before, &ADVERBS);
    let has_be = FORMS_OF_BE.iter().any(|form| denial.starts_with(form));
    let last = before.last().copied().unwrap_or_default();
    let contracted = last.strip_suffix("'s").filter(|_| denial == "not");
    let subject = match contracted {
        Some(subject) => subject,
        None if has_be => last,
        None if FORMS_OF_BE.contains(&last) => before.iter().rev().nth(1).copied()?,
        // "It can't be the battery."
        None if after.first() == Some(&"be") => last,
        None => return None,
    };
    if !SUBJECTS.contains(&subject) {
        return None;
    }

    let skipped = after
        .iter()
        .take_while(|word| ADVERBS.contains(word) || **word == "be")
        .count();
    let thing = &after[skipped..];
    if !thing.first().is_some_and(|word| ARTICLES.contains(word)) {
        let named = thing.len() == 1 && is_topic(thing[0]);
        return named.then_some(after.len());
    }

    match thing.iter().position(|word| PRONOUNS.contains(word)) {
        // "It's not the refund that worries me."
        Some(at) if subject == "it" && ["that", "which", "who"].contains(&thing[at]) => {
            Some(skipped + at)
        }
        Some(_) => None,
        None => (thing.len() <= MAX_DENIED).then_some(after.len()),
    }
}

/// Whether what was said before is not what matters: "the refund isn't the problem".
fn denies_subject(before: &[&str], after: &[&str]) -> bool {
    let before = without_last(before, &ADVERBS);
    let before = without_last(before, &FORMS_OF_BE);
    let names = before.last().is_some_and(|word| !SUBJECTS.contains(word));
    let after: Vec<&str> = after
        .iter()
        .copied()
        .filter(|word| !ADVERBS.contains(word) && !ARTICLES.contains(word))
        .collect();
    names && matches!(after.as_slice(), [point] | [point, "here"] if POINTS.contains(point))
}

fn without_last<'w, 'f>(words: &'w [&'f str], unwanted: &[&str]) -> &'w [&'f str] {
    match words {
        [rest @ .., last] if unwanted.contains(last) => rest,
        _ => words,
    }
}

fn is_denial(word: &str) -> bool {
    DENIALS.contains(&word) || word.ends_with("n't")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(text: &str) -> Vec<&str> {
        let is_topic = |word: &str| ["billing", "refund", "shipping"].contains(&word);
        let all = clauses(text, is_topic).into_iter();
        let denied = all.filter(|clause| clause.denied);
        denied.map(|clause| clause.text).collect()
    }

    #[test]
    fn a_speaker_rejects_what_they_do_not_want() {
        for clause in [
            "I don't want a refund",
            "I'm not here about the refund",
            "we are not really looking for a refund",
            "I never asked for a refund",
            "this is not about billing",
            "No refund please",
            "not a return",
            "don’t cancel my order",
            "It has nothing to do with billing",
            "My question is unrelated to billing",
            "it's not the refund",
            "It’s really not a billing problem",
            "that isn't my refund",
            "this was not a question of billing",
            "It can't be the refund",
            "it's not billing",
            "The refund isn't the problem",
            "Billing is not really my question",
            "The price is no issue here",
            "We have no questions about the billing",
            "I am not worried about the refund",
            "It isn't related to my refund",
        ] {
            assert_eq!(denied(clause).len(), 1, "{clause}");
        }
    }

    #[test]
    fn what_has_not_happened_is_not_rejected() {
        for clause in [
            "My parcel has not been shipped yet",
            "I cannot log in to my account",
            "I have not received my refund",
            "The payment didn't go through",
            "I have no access to my account",
            "I need to know why it was never delivered",
            "it won't let me request a return",
            "the lamp doesn't work after the update",
            "I want a refund",
            "Don't you ship to Belgium?",
            "Isn't the refund due by now?",
            "Can't I pay by card?",
            "No refund yet",
            "No parcel arrived",
            "That's not the price I was quoted",
            "it's not working",
            "It is not possible to pay",
            "The refund is not in my account",
            "The invoice is not correct",
            "I'm not sure why my payment failed",
            "Nothing arrived",
            "it's not shipping to my address",
        ] {
            assert_eq!(denied(clause), [] as [&str; 0], "{clause}");
        }
    }

    #[test]
    fn a_sentence_may_deny_twice() {
        let text = "it's not the refund and I don't want a return";
        assert_eq!(denied(text), ["not the refund", "don't want a return"]);
    }

    #[test]
    fn only_the_denied_part_of_a_sentence_is_rejected() {
        for (text, part) in [
            (
                "I have a question about shipping, nothing to do with billing.",
                "nothing to do with billing",
            ),
            (
                "I want an exchange instead of a refund",
                "instead of a refund",
            ),
            ("It's not the refund that worries me", "not the refund"),
            (
                "this is not about billing and I want to track my parcel",
                "not about billing",
            ),
            (
                "It is not the refund because the parcel never came",
                "not the refund",
            ),
        ] {
            assert_eq!(denied(text), [part], "{text}");
        }
    }
}
