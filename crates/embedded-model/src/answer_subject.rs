//! Which version or id each sentence of a chunk is about, compared with those that a question names.
//! What stands under the heading of a version is about that version, whatever else it mentions.

use std::collections::HashSet;

use memoir_text::identifiers::{Identifiers, Naming};

use super::AnswerChunk;
use super::rank;

/// How much a sentence counts that is about another version or id, that only mentions the one in
/// question, and that names none although another sentence does.
const OTHER: f32 = 0.5;
const MENTIONED: f32 = 0.85;
const UNKNOWN: f32 = 0.75;
/// The level of a heading that is not marked.
const UNMARKED: usize = 7;

/// What a sentence is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Subject {
    /// Another version or id than the question names.
    Other,
    #[default]
    Unknown,
    /// Another one, but it mentions the one that the question names.
    Mentioned,
    Same,
}

impl Subject {
    /// Whether the sentence names what the question names, or stands below its name.
    pub fn is_named(self) -> bool {
        matches!(self, Self::Mentioned | Self::Same)
    }

    /// How much a sentence counts; `any_named` tells whether any sentence is about what is asked.
    pub fn weight(self, any_named: bool) -> f32 {
        match self {
            Self::Other => OTHER,
            Self::Unknown if any_named => UNKNOWN,
            Self::Mentioned => MENTIONED,
            Self::Unknown | Self::Same => 1.0,
        }
    }
}

/// Reads the sentences of a chunk in order.
pub struct SubjectReader<'r> {
    asked: &'r Identifiers,
    text: &'r str,
    /// What the headings above the chunk name, and then the last heading with a version or an id.
    entry: Subject,
    /// The level of that heading, and its words if it names what is asked.
    level: usize,
    heading: HashSet<String>,
    /// What the sentence before names in the same paragraph, and where that sentence ends.
    before: Subject,
    end: usize,
}

impl<'r> SubjectReader<'r> {
    pub fn new(asked: &'r Identifiers, chunk: &AnswerChunk<'r>) -> Self {
        let mut reader = Self {
            asked,
            text: chunk.text,
            entry: Subject::Unknown,
            level: UNMARKED,
            heading: HashSet::new(),
            before: Subject::Unknown,
            end: 0,
        };
        if !asked.is_empty() {
            reader.entry = reader.named_by(chunk.about);
        }
        reader
    }

    /// The words of the heading that names what is asked.
    pub fn heading(&self) -> &HashSet<String> {
        &self.heading
    }

    /// What the next sentence or heading of the chunk is about.
    pub fn read(&mut self, piece: &str, is_heading: bool) -> Subject {
        if self.asked.is_empty() {
            return Subject::Unknown;
        }

        if is_heading {
            self.open(piece);
            return self.entry;
        }

        let named = self.named_by(piece);
        let before = std::mem::take(&mut self.before);
        let start = self.start_of(piece);
        let goes_on = self
            .text
            .get(self.end..start)
            .is_some_and(|gap| gap.matches('\n').count() < 2);
        self.end = start + piece.len();
        let subject = match (self.entry, named) {
            (Subject::Other, Subject::Same) => Subject::Mentioned,
            (Subject::Unknown, Subject::Unknown) if goes_on => before,
            (Subject::Unknown, named) => named,
            (entry, _) => entry,
        };
        if subject == Subject::Same {
            self.before = subject;
        }
        subject
    }

    fn open(&mut self, piece: &str) {
        let level = match piece.len() - piece.trim_start_matches('#').len() {
            0 => UNMARKED,
            level => level,
        };
        let named = self.named_by(piece);
        if named != Subject::Unknown || level <= self.level {
            self.entry = named;
            self.level = level;
            self.heading = match named {
                Subject::Same => rank::stems(piece),
                _ => HashSet::new(),
            };
        }

        self.before = Subject::Unknown;
        self.end = self.start_of(piece) + piece.len();
    }

    fn named_by(&self, piece: &str) -> Subject {
        if self.asked.naming(piece) >= Naming::Exactly {
            Subject::Same
        } else if self.asked.differ_from(piece) {
            Subject::Other
        } else {
            Subject::Unknown
        }
    }

    /// Where a part of the text begins.
    fn start_of(&self, piece: &str) -> usize {
        let (piece, text) = (piece.as_ptr().addr(), self.text.as_ptr().addr());
        piece.saturating_sub(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::answer;
    use super::super::answer_sentences::{Asked, Found};
    use super::super::support::{Support, support};
    use super::*;

    fn subjects(question: &str, about: &str, text: &str) -> Vec<(String, Subject)> {
        let chunk = AnswerChunk {
            chunk_id: 1,
            path: "",
            about,
            text,
        };
        let told = |one: Found<'_>| (one.text.to_owned(), one.subject);
        let found = Asked::of(question).sentences(&[chunk]).into_iter();
        found.map(told).collect()
    }

    fn only(question: &str, about: &str, text: &str) -> Vec<Subject> {
        let found = subjects(question, about, text).into_iter();
        found.map(|(_, subject)| subject).collect()
    }

    #[test]
    fn an_entry_is_about_the_version_of_its_heading() {
        use Subject::{Mentioned, Other, Same};
        let log = "# Changelog\n\n## 1.54.2\n\n- Revert the fix of 1.54.1\n- Faster\n\n\
            ## 1.54.1\n\n### Fixed\n\n- A leak since 1.54.0\n\n## 1.54.0\n\n- Add timers\n";
        let asked = "What changed in tokio 1.54.1?";
        assert_eq!(only(asked, "", log), [Mentioned, Other, Same, Other]);
        let rest = "- A leak since 1.54.0\n\n## 1.54.0\n\n- Add timers\n";
        assert_eq!(only(asked, "tokio 1.54.1 › Fixed", rest), [Same, Other]);
    }

    #[test]
    fn a_paragraph_goes_on_about_the_order_that_it_names() {
        use Subject::{Other, Same, Unknown};
        let text = "Order #5678 has two lamps. Delivery is on Friday.\n\nWe close at six.\n\n\
            Order #5679 has a sofa. Delivery is on Monday.";
        let asked = "When is order #5678 delivered?";
        assert_eq!(only(asked, "", text), [Same, Same, Unknown, Other, Unknown]);
    }

    #[test]
    fn the_answer_is_about_the_version_or_the_order_in_question() {
        let log = "# Changelog of tokio\n\n## 1.54.2 (June 3rd, 2026)\n\n- Revert the timer fix of \
            1.54.1\n\n## 1.54.1 (May 5th, 2026)\n\n### Fixed\n\n- Timers fire once after a sleep\n\
            - A leak in the scheduler that 1.54.0 has\n\n## 1.54.0 (April 1st, 2026)\n\n\
            - Tasks have names\n- Timers are sorted in one list\n";
        let orders = "Order #5677 has a sofa. It is delivered on Monday.\n\nOrder #5678 has two \
            lamps. It is delivered on Friday.\n\nOrder #5679 has 5678 screws. It is delivered on \
            Sunday.\n";
        let chunk = |chunk_id, about, text| AnswerChunk {
            chunk_id,
            path: "",
            about,
            text,
        };
        let chunks = [chunk(1, "tokio/CHANGELOG", log), chunk(2, "orders", orders)];
        let full = Support::Full;
        for (question, has, lacks, least) in [
            ("What changed in tokio 1.54.1?", "A leak", "names", full),
            ("When was tokio 1.54.1 released?", "May 5th", "April", full),
            (
                "What was done to timers in tokio 1.54.0?",
                "sorted",
                "fire once",
                Support::Some,
            ),
            ("When is order #5678 delivered?", "Friday", "Sunday", full),
            ("Which order has the sofa?", "5677", "5678", Support::Some),
        ] {
            let said = answer(question, &chunks);
            assert!(said.contains(has) && !said.contains(lacks), "{said}");
            assert!(support(question, &said, &chunks) >= least, "{said}");
        }

        for question in [
            "What changed in tokio 1.54.7?",
            "When was tokio 1.54.7 released?",
        ] {
            let said = answer(question, &chunks);
            let rated = support(question, &said, &chunks);
            assert!(rated < full, "{said}");
        }
    }

    #[test]
    fn questions_without_identifiers_compare_nothing() {
        let found = only("What is new?", "", "## 1.54.1\n\n- Add timers");
        assert_eq!(found, [Subject::Unknown]);
    }
}
