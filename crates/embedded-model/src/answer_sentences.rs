//! The sentences of chunks that may answer a question, each with what it is about: its own words,
//! and those of the headings above it and of the sentence that it refers back to.

use std::collections::HashSet;

use memoir_text::identifiers::Identifiers;
use memoir_text::sentences;

use super::AnswerChunk;
use super::answer_subject::{Subject, SubjectReader};
use super::fitting::{AskedWords, Fit, fit};
use super::question::{self, Kind};
use super::rank::{self, Rarity, Terms};

/// How much a word counts that is not in the sentence, but above it.
const ABOVE: f32 = 0.6;
/// Characters of a heading that each sentence below it is about.
const MAX_HEADING_CHARS: usize = 400;

/// What a question asks for.
pub struct Asked {
    pub kind: Kind,
    pub terms: Terms,
    words: AskedWords,
    /// The versions and ids that it names.
    pub identifiers: Identifiers,
    /// Whether it asks for code or data.
    code: bool,
}

/// A sentence that may be an answer.
pub struct Found<'a> {
    pub chunk_id: i64,
    pub text: &'a str,
    /// The sentence before it, if this one cannot be understood without it.
    pub before: Option<&'a str>,
    /// The sentence after it, if that one cannot be understood without it.
    pub after: Option<&'a str>,
    /// Its words.
    pub stems: HashSet<String>,
    /// The words of the headings above it and of the sentence before it.
    pub above: HashSet<String>,
    pub fit: Fit,
    /// Which version or id it is about.
    pub subject: Subject,
}

impl Asked {
    pub fn of(query: &str) -> Self {
        let identifiers = Identifiers::of(query);
        let mut terms = Terms::of(query);
        // A version is compared as a whole: others have parts of it.
        terms.stems.retain(|stem| !identifiers.have_part(stem));
        if !identifiers.is_empty() && terms.stems.len() > 1 {
            // Headings have the version and the date without this word.
            terms.stems.remove(&rank::stem("released"));
        }

        Self {
            kind: Kind::of(query),
            terms,
            words: AskedWords::of(query),
            identifiers,
            code: question::wants_code(query),
        }
    }

    pub fn fit(&self, sentence: &str) -> Fit {
        fit(self.kind, sentence, &self.words)
    }

    /// The words of a sentence; a value has those that ask for it: "4.2 kg" is how heavy something is.
    pub fn stems(&self, sentence: &str) -> HashSet<String> {
        let mut stems = rank::stems(sentence);
        if let Kind::Measure(measure) = self.kind
            && self.fit(sentence) == Fit::Full
        {
            stems.extend(measure.asked.iter().map(|word| rank::stem(word)));
        }

        stems
    }

    /// The sentences of chunks; those of code and data only if they are asked for.
    pub fn sentences<'a>(&self, chunks: &[AnswerChunk<'a>]) -> Vec<Found<'a>> {
        let mut found = Vec::new();
        for chunk in chunks {
            self.read(chunk, &mut found);
        }

        found
    }

    fn read<'a>(&self, chunk: &AnswerChunk<'a>, found: &mut Vec<Found<'a>>) {
        let first = found.len();
        let about = rank::stems(chunk.about);
        let mut heading: HashSet<String> = HashSet::new();
        let mut subjects = SubjectReader::new(&self.identifiers, chunk);
        let pieces = sentences::split(chunk.text).into_iter().flat_map(parts);
        for text in pieces.filter(|piece| self.code || !is_code(piece)) {
            let is_heading = is_heading(text);
            let subject = subjects.read(text, is_heading);
            if is_heading {
                heading = self.stems(&sentences::cut(text, MAX_HEADING_CHARS));
            }

            // A headline says nothing about what it names, but it may have its date or its number.
            let dates =
                matches!(self.kind, Kind::Time | Kind::Number) && self.fit(text) == Fit::Full;
            if is_heading && !dates {
                continue;
            }

            let mut above = about.clone();
            above.extend(heading.iter().cloned());
            if subject == Subject::Same {
                above.extend(subjects.heading().iter().cloned());
            }

            let last = found[first..].last();
            let before = last.map(|last| last.text);
            let before = before.filter(|before| !is_heading && !self::is_heading(before));
            let before = before.filter(|_| question::refers_back(text));
            if let Some(last) = last.filter(|_| before.is_some()) {
                above.extend(last.stems.iter().cloned());
            }
            if before.is_some()
                && let Some(last) = found[first..].last_mut()
            {
                last.after = Some(text);
            }

            found.push(Found {
                chunk_id: chunk.chunk_id,
                text,
                before,
                after: None,
                fit: self.fit(text),
                stems: self.stems(text),
                above,
                subject,
            });
        }
    }
}

impl Found<'_> {
    /// How well it, or the sentence after it that refers to it, is of the kind that is asked for.
    pub fn kind_of_answer(&self, asked: &Asked) -> Fit {
        let after = self.after.map_or(Fit::None, |after| asked.fit(after));
        self.fit.max(after)
    }

    /// The share of the question's words, rare ones counting more, in the sentence and, counting
    /// less, above it.
    pub fn shared(&self, rarity: &Rarity, question: &Terms) -> f32 {
        let own = rarity.shared(question, &self.stems);
        own + ABOVE * rarity.added(question, &self.stems, &self.above)
    }
}

/// An underlined heading and what follows it; any other piece as it is.
fn parts(piece: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    let underline = piece.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        let bare = line.trim();
        let is_line = bare.len() >= 3 && bare.chars().all(|c| c == '=' || c == '-');
        (start > 0 && is_line).then_some(at)
    });
    let (heading, rest) = piece.split_at(underline.unwrap_or(0));
    [heading.trim(), rest.trim()]
        .into_iter()
        .filter(|part| !part.is_empty())
}

/// Whether a piece is a heading, marked or underlined.
pub fn is_heading(piece: &str) -> bool {
    let underlined = || {
        let last = piece.lines().last().unwrap_or_default().trim();
        last.len() >= 3 && last.chars().all(|c| c == '=' || c == '-')
    };
    sentences::is_heading(piece) || underlined()
}

/// Whether this is a code fence, JSON or a row of a table rather than a sentence.
fn is_code(piece: &str) -> bool {
    let bare = piece.trim_start();
    let symbols = piece
        .chars()
        .filter(|c| "{}[]();=<>|\\".contains(*c))
        .count();
    bare.starts_with(['{', '[', '|', '}'])
        || piece.contains("```")
        || (symbols * 8 > piece.len() && !is_heading(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str, about: &str, text: &str) -> Vec<(String, Fit)> {
        let chunk = AnswerChunk {
            chunk_id: 1,
            path: "",
            about,
            text,
        };
        let sentences = Asked::of(query).sentences(&[chunk]);
        let told = |one: Found<'_>| (one.text.to_owned(), one.fit);
        sentences.into_iter().map(told).collect()
    }

    #[test]
    fn a_heading_is_a_sentence_only_if_it_has_the_date() {
        let log = "1.11.0 (2024-09-29)\n===================\nThis is a release.";
        let date = found("When was 1.11.0 released?", "", log);
        assert_eq!(date.len(), 2);
        assert_eq!(date[0].1, Fit::Full);
        assert_eq!(found("What is the size of 1.11.0?", "", log).len(), 1);
        assert_eq!(
            found("What is it?", "", "# Garden\n\nIt is large.").len(),
            1
        );
    }

    #[test]
    fn a_sentence_is_about_what_stands_above_it() {
        let asked = Asked::of("How heavy is Minka?");
        let chunk = AnswerChunk {
            chunk_id: 1,
            path: "",
            about: "",
            text: "The vet vaccinated Minka. She weighs 4.2 kg.",
        };
        let sentences = asked.sentences(&[chunk]);
        let rarity = Rarity::of(sentences.iter().map(|one| &one.stems));
        let covered = |at: usize| {
            let Found { stems, above, .. } = &sentences[at];
            rarity.covered(&asked.terms, stems, above)
        };
        assert!(covered(1) > covered(0), "{} {}", covered(1), covered(0));
        assert!((covered(1) - 1.0).abs() < 1e-6);
    }
}
