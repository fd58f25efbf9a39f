//! The rule of `auto`: after the search, whether to stop, to ask a model to pick categories, or to
//! say that nothing was found. Pure; all its constants are here.

use memoir_index::rank::NOTHING;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::llm::tasks::answer::Support;

/// From this evidence on, the search is enough: no model chooses categories.
pub const ENOUGH: f64 = 0.46;
/// From this evidence on, confidence is medium.
pub const MEDIUM: f64 = 0.36;
/// The share of the query's words, rare ones counting more, that one of the best chunks must contain
/// for the evidence to be clear: a chunk about something else shares only common words.
pub const COVERED: f64 = 0.5;

/// Leaves that a pick offers, and how many of its options may be picked.
pub const OFFERED_LEAVES: usize = 12;
pub const PICKS: u64 = 3;
/// How much a picked leaf can raise the relevance of its chunks.
pub const PICK_WEIGHT: f64 = 0.5;
/// Chunks read from each picked leaf.
pub const CHUNKS_PER_PICK: usize = 50;
/// How much every chunk of a search result loses but the one that matches the query best, and how
/// much more if it matches no word.
pub const SIBLING_LOSS: f64 = 0.12;
pub const WORDS_LOSS: f64 = 0.3;
/// How much a chunk loses that matches no word, compared with the one that matches most: a result
/// of the search is longer than a chunk, so its score says little about each of its chunks.
pub const OWN_WORDS_LOSS: f64 = 0.2;
/// The nearest chunks that are shown if nothing was found.
pub const NEAREST: usize = 5;

/// How sure the service is that the chunks answer the query.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Confidence {
    Low,
    Medium,
    High,
}

/// The last tier that a query may use within its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Search,
    Pick,
    #[default]
    Walk,
}

/// What is known after the search.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Chunks that the search found.
    pub chunks: usize,
    /// How well the best chunk fits the query, 0 to 1.
    pub evidence: f64,
    /// Whether a language model selects categories, rather than the embedded model.
    pub language_model: bool,
    pub reach: Reach,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Stop,
    Pick,
    /// Nothing was found.
    Nothing,
}

/// The evidence, which is not clear if no chunk contains the rare words of the query.
pub fn limited(evidence: f64, covered: f64) -> f64 {
    if covered < COVERED {
        evidence.min(ENOUGH.next_down())
    } else {
        evidence
    }
}

/// The evidence, if the query names versions or ids: a chunk that names one has to do with the query,
/// and without such a chunk the evidence is not clear.
pub fn identified(evidence: f64, identified: Option<bool>) -> f64 {
    match identified {
        Some(true) => evidence.max(MEDIUM),
        Some(false) => evidence.min(ENOUGH.next_down()),
        None => evidence,
    }
}

/// What to do after the search, and why.
pub fn after_search(seen: &Seen) -> (Next, &'static str) {
    if seen.chunks == 0 && seen.reach >= Reach::Pick {
        (Next::Pick, "the search found nothing")
    } else if seen.evidence >= ENOUGH {
        (Next::Stop, "the search found clear evidence")
    } else if seen.evidence < NOTHING {
        (
            Next::Nothing,
            "nothing in the space is relevant to the query",
        )
    } else if !seen.language_model {
        (
            Next::Stop,
            "the embedded model selects categories no better than the search finds chunks",
        )
    } else if seen.reach < Reach::Pick {
        (
            Next::Stop,
            "the limits of the query leave no call for a pick",
        )
    } else {
        (Next::Pick, "the evidence of the search is not clear")
    }
}

/// How sure the service is. `agreed`: a model picked the leaf of the best chunk.
pub fn confidence(evidence: f64, agreed: bool) -> Confidence {
    match (evidence, agreed) {
        (evidence, _) if evidence >= ENOUGH => Confidence::High,
        (evidence, true) if evidence >= MEDIUM => Confidence::High,
        (evidence, agreed) if evidence >= MEDIUM || (agreed && evidence >= NOTHING) => {
            Confidence::Medium
        }
        _ => Confidence::Low,
    }
}

/// How sure the service is of an answer that quotes sentences: no surer than the search, and less if
/// a sentence is not of the kind or not about what is asked.
pub fn supported(found: &str, support: Support) -> Confidence {
    let most = match support {
        Support::Full => Confidence::High,
        Support::Some => Confidence::Medium,
        Support::Weak => Confidence::Low,
    };
    found.parse().unwrap_or(Confidence::Low).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(evidence: f64, language_model: bool, reach: Reach) -> Next {
        after_search(&Seen {
            chunks: 1,
            evidence,
            language_model,
            reach,
        })
        .0
    }

    #[test]
    fn asks_a_model_only_in_doubt_and_within_the_limits() {
        assert_eq!(next(ENOUGH, true, Reach::Walk), Next::Stop);
        assert_eq!(next(ENOUGH - 0.01, true, Reach::Walk), Next::Pick);
        assert_eq!(next(ENOUGH - 0.01, false, Reach::Walk), Next::Stop);
        assert_eq!(next(ENOUGH - 0.01, true, Reach::Search), Next::Stop);
        assert_eq!(next(NOTHING, true, Reach::Pick), Next::Pick);
        assert_eq!(next(NOTHING - 0.01, true, Reach::Walk), Next::Nothing);

        let mut seen = Seen {
            chunks: 0,
            evidence: 0.0,
            language_model: false,
            reach: Reach::Walk,
        };
        assert_eq!(after_search(&seen).0, Next::Pick, "what is not indexed");
        seen.reach = Reach::Search;
        assert_eq!(after_search(&seen).0, Next::Nothing);
    }

    #[test]
    fn evidence_without_the_rare_words_is_not_clear() {
        let confident = |covered| confidence(limited(0.9, covered), false);
        assert_eq!(confident(COVERED), Confidence::High);
        assert_eq!(confident(COVERED - 0.01), Confidence::Medium);
        assert_eq!(confidence(limited(0.2, 0.0), false), Confidence::Low);
    }

    #[test]
    fn a_named_version_is_evidence_and_a_missing_one_leaves_doubt() {
        let confident = |evidence, named| confidence(identified(evidence, named), false);
        assert_eq!(confident(0.2, Some(true)), Confidence::Medium);
        assert_eq!(confident(0.9, Some(true)), Confidence::High);
        assert_eq!(confident(0.9, Some(false)), Confidence::Medium);
        assert_eq!(confident(0.9, None), Confidence::High);
        assert_eq!(confident(0.2, None), Confidence::Low);
    }

    #[test]
    fn an_answer_is_no_surer_than_the_search_or_its_sentences() {
        let high = Confidence::High.into_str();
        assert_eq!(supported(high, Support::Full), Confidence::High);
        assert_eq!(supported(high, Support::Some), Confidence::Medium);
        assert_eq!(supported(high, Support::Weak), Confidence::Low);
        assert_eq!(supported("medium", Support::Full), Confidence::Medium);
    }

    #[test]
    fn confidence_rises_with_the_evidence_and_when_a_model_agrees() {
        assert_eq!(confidence(ENOUGH, false), Confidence::High);
        assert_eq!(confidence(MEDIUM, false), Confidence::Medium);
        assert_eq!(confidence(MEDIUM, true), Confidence::High);
        assert_eq!(confidence(NOTHING, false), Confidence::Low);
        assert_eq!(confidence(NOTHING, true), Confidence::Medium);
        assert_eq!(confidence(0.0, true), Confidence::Low);
    }
}
