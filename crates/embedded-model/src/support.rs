//! How well a sentence that an answer quotes answers the question: whether it is of the kind that is
//! asked for, and about what is asked. A service tells by it how sure it may be of the answer.

use std::collections::HashSet;

use super::AnswerChunk;
use super::answer_entry;
use super::answer_section;
use super::answer_sentences::{Asked, Found};
use super::answer_subject::Subject;
use super::fitting::Fit;
use super::question::Kind;
use super::quotation::{quoted_words, spoken_words};
use super::rank::Rarity;

/// Shares of the question's words, rare ones counting more, that must be in a sentence and what
/// stands above it, and in the sentence alone. A number, a date or a name where one is asked for
/// says more than words, so fewer of these are needed.
const FULL: (f32, f32) = (0.8, 0.4);
const FULL_OF_VALUE: (f32, f32) = (0.7, 0.3);
const SOME: f32 = 0.5;

/// How well an answer is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// It is about something else, or has nothing of what is asked for.
    Weak,
    /// Some of what is asked about is only mentioned in other words, or not at all.
    Some,
    Full,
}

/// The support of the best sentence that the answer quotes, or of the section that it lists.
pub fn support(query: &str, answer: &str, chunks: &[AnswerChunk<'_>]) -> Support {
    let asked = Asked::of(query);
    let found = asked.sentences(chunks);
    let rarity = Rarity::of(found.iter().map(|one| &one.stems));
    let answer = format!(" {} ", spoken_words(answer));
    let is_quoted = |text: &str| {
        let words = quoted_words(text);
        !words.is_empty() && answer.contains(&format!(" {words} "))
    };
    let rate = |fit, stems: &HashSet<String>, above: &HashSet<String>| {
        let own = rarity.shared(&asked.terms, stems);
        let covered = rarity.covered(&asked.terms, stems, above);
        of(asked.kind, fit, own, covered)
    };
    let entry = answer_entry::named(query, asked.kind, chunks);
    if entry.iter().any(|(_, item)| is_quoted(item)) {
        return Support::Full;
    }

    // What is said of another version or id does not answer the question.
    let is_other = |one: &&Found<'_>| one.subject == Subject::Other;
    let quoted = found
        .iter()
        .filter(|one| !is_other(one) && is_quoted(one.text));
    let best = quoted
        .map(|one| rate(one.fit, &one.stems, &one.above))
        .max();
    let section = answer_section::named(query, asked.kind, chunks)
        .filter(|section| section.items.iter().any(|item| is_quoted(item)))
        .map(|section| rate(Fit::Full, &section.stems, &section.above));
    best.max(section).unwrap_or(Support::Weak)
}

fn of(kind: Kind, fit: Fit, own: f32, covered: f32) -> Support {
    let is_free = matches!(kind, Kind::Any | Kind::Reason | Kind::YesOrNo | Kind::List);
    let (all, alone) = if is_free { FULL } else { FULL_OF_VALUE };
    if fit == Fit::None || covered < SOME {
        Support::Weak
    } else if fit == Fit::Full && covered >= all && own >= alone {
        Support::Full
    } else {
        Support::Some
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::answer;
    use super::*;

    fn support_of(query: &str, texts: &[(&str, &str)]) -> Support {
        let chunks: Vec<AnswerChunk<'_>> = (1..)
            .zip(texts)
            .map(|(chunk_id, (about, text))| AnswerChunk {
                chunk_id,
                path: "",
                about,
                text,
            })
            .collect();
        support(query, &answer(query, &chunks), &chunks)
    }

    #[test]
    fn only_what_is_asked_for_and_about_what_is_asked_is_full_support() {
        let garden = (
            "garden",
            "# Our garden\n\nA large rose-tree stood near the entrance.",
        );
        let cat = (
            "notes/cat",
            "The vet vaccinated Minka against flu. She weighs 4.2 kg.",
        );
        let course = (
            "course",
            "The Portuguese course starts on 2 September in room B14.",
        );
        let all = [garden, cat, course];

        assert_eq!(support_of("How heavy is Minka?", &all), Support::Full);
        assert_eq!(
            support_of("When does the Portuguese course start?", &all),
            Support::Full
        );
        assert_eq!(support_of("How large is our garden?", &all), Support::Weak);
        assert!(support_of("How much does the Portuguese course cost?", &all) < Support::Full);
        assert!(support_of("Which university did Minka attend?", &all) < Support::Full);
    }

    #[test]
    fn an_answer_that_quotes_nothing_has_no_support() {
        let chunk = AnswerChunk {
            chunk_id: 1,
            path: "",
            about: "",
            text: "The mill was built in 1843.",
        };
        let question = "When was the mill built?";
        assert_eq!(support(question, "In 1843 [1].", &[chunk]), Support::Weak);
        let quoted = "The mill was built in 1843 [1].";
        assert_eq!(support(question, quoted, &[chunk]), Support::Full);
    }

    #[test]
    fn a_long_sentence_is_recognised_in_the_answer_that_shortens_it() {
        let masons = "Jan, Piet and Klaas, ".repeat(30);
        let text = format!("The mill was built in 1843 by {masons}who came from the valley.");
        let support = support_of("When was the mill built?", &[("mill", &text)]);
        assert_eq!(support, Support::Full);
    }

    #[test]
    fn a_listed_section_is_supported_by_its_heading() {
        let list = "- Lena asks for three offers\n- Tom exports the cards\n";
        for heading in ["Next steps:", "## Next steps"] {
            let text = format!("{heading}\n\n{list}");
            let chunks = [("minutes/catalogue", text.as_str())];
            let support = |question| support_of(question, &chunks);
            assert_eq!(support("What are the next steps?"), Support::Full);
            assert!(support("What are the next steps for the catalogue?") > Support::Weak);
        }
    }
}
