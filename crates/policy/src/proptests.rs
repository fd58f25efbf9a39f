//! Property tests: what is true for any candidates and any settings.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use strum::VariantArray as _;

use super::built_in::BuiltIn;
use super::candidate::{Candidate, MemoryType, Speaker};
use super::chain::{Outcome, Policy, run};
use super::settings::{Interleaving, Redaction, Retrieval, Settings, Strategy as Order};
use super::time_limit::TimeLimit;

/// Never reached.
fn limit() -> TimeLimit {
    TimeLimit::of(Duration::from_mins(10))
}

/// Texts in several scripts, with repetitions and with what redaction looks for.
fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("Hello world. ".to_owned()),
        Just("你好世界。".to_owned()),
        Just("👩‍👩‍👧 مرحبا! ".to_owned()),
        Just("ann@example.org ".to_owned()),
        Just("123-45-6789".to_owned()),
        Just("4111111111111111".to_owned()),
        any::<String>(),
        (0usize..1000).prop_map(|times| "abc".repeat(times)),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (content(), 0u8..=10, 0i64..5, 0u8..3, any::<bool>());
    prop::collection::vec(one, 0..40).prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        numbered
            .map(|(index, (content, score, time, kind, user))| Candidate {
                id: format!("m{index}"),
                content,
                score: f64::from(score) / 10.0,
                timestamp_micros: time,
                session_id: "s".into(),
                message_id: None,
                memory_type: [MemoryType::Message, MemoryType::Fact, MemoryType::Summary]
                    [usize::from(kind)],
                speaker: Some(if user {
                    Speaker::User
                } else {
                    Speaker::Assistant
                }),
            })
            .collect()
    })
}

/// Compiled once: compiling takes longer than the chain.
static ALL_PATTERNS: LazyLock<Policy> = LazyLock::new(|| {
    let redaction = Redaction {
        built_in: BuiltIn::VARIANTS.to_vec(),
        ..Redaction::default()
    };
    Policy::new(Settings {
        redaction,
        ..Settings::default()
    })
    .expect("are valid")
});

fn policy() -> impl Strategy<Value = Policy> {
    let orders = [Order::Alternate, Order::ScoreFirst, Order::RecencyFirst];
    let numbers = (
        1usize..=20,
        1usize..=5,
        100usize..=3000,
        0u8..=10,
        any::<bool>(),
    );
    (numbers, 0usize..3, prop::option::of(0.0..=1.0f64)).prop_map(move |(numbers, order, ratio)| {
        let (top_k, clip_sentences, max_tokens, min_score, enable_redaction) = numbers;
        let settings = Settings {
            retrieval: Retrieval {
                top_k,
                clip_sentences,
                max_tokens,
                min_score: f64::from(min_score) / 10.0,
                enable_redaction,
                ..Retrieval::default()
            },
            interleaving: Interleaving {
                strategy: orders[order],
                ratio,
            },
            redaction: ALL_PATTERNS.settings().redaction.clone(),
        };
        ALL_PATTERNS.with_settings(settings)
    })
}

fn ids(outcome: &Outcome) -> Vec<&str> {
    outcome.entries.iter().map(super::Entry::id).collect()
}

proptest! {
    #[test]
    fn the_budget_is_never_exceeded(policy in policy(), candidates in candidates()) {
        let retrieval = policy.settings().retrieval.clone();
        let outcome = run(&policy, candidates, "the weather", limit());

        prop_assert!(outcome.total_tokens <= retrieval.max_tokens);
        prop_assert!(outcome.entries.len() <= retrieval.top_k);
        prop_assert!(outcome.entries.iter().all(|e| e.candidate.score >= retrieval.min_score));
    }

    #[test]
    fn the_order_of_the_candidates_does_not_matter(
        policy in policy(),
        (given, shuffled) in candidates()
            .prop_flat_map(|given| (Just(given.clone()), Just(given).prop_shuffle())),
    ) {
        prop_assert_eq!(run(&policy, given, "the weather", limit()), run(&policy, shuffled, "the weather", limit()));
    }

    #[test]
    fn every_candidate_is_kept_or_dropped_once(policy in policy(), candidates in candidates()) {
        let mut all: Vec<String> = candidates.iter().map(|c| c.id.clone()).collect();
        let outcome = run(&policy, candidates, "the weather", limit());

        let dropped = outcome.steps.iter().flat_map(|step| &step.effects).filter(|e| e.is_drop());
        let mut seen: Vec<String> = dropped.map(|effect| effect.id.clone()).collect();
        seen.extend(ids(&outcome).into_iter().map(str::to_owned));
        seen.sort();
        all.sort();
        prop_assert_eq!(seen, all);
    }

    #[test]
    fn each_step_starts_with_what_the_one_before_left(
        policy in policy(),
        candidates in candidates(),
    ) {
        let outcome = run(&policy, candidates, "the weather", limit());

        let mut left = outcome.total_results;
        for step in &outcome.steps {
            prop_assert_eq!(step.before, left);
            left = step.after;
        }
        prop_assert_eq!(left, outcome.entries.len());
    }

    #[test]
    fn a_payload_has_no_duplicates_to_remove(policy in policy(), candidates in candidates()) {
        let mut settings = policy.settings().clone();
        settings.retrieval.enable_redaction = false;
        settings.retrieval.clip_sentences = 5;
        let policy = policy.with_settings(settings);
        let once = run(&policy, candidates, "the weather", limit());
        prop_assume!(once.steps.iter().flat_map(|s| &s.effects).all(|e| {
            !matches!(e.reason, super::explain::Reason::CutToBudget { .. }
                | super::explain::Reason::Clipped { .. })
        }));

        let again = run(&policy, once.entries.iter().map(|e| e.candidate.clone()).collect(), "the weather", limit());
        prop_assert_eq!(again.duplicates(), 0);
        prop_assert_eq!(ids(&again), ids(&once));
    }

    #[test]
    fn redaction_leaves_no_match_of_the_standard_patterns(text in content()) {
        let patterns = ALL_PATTERNS.patterns();
        let redacted = patterns.redact(&text, "[REDACTED]", limit()).expect("is in time");
        let shown = redacted.map_or_else(|| text.clone(), |redacted| redacted.text);

        for secret in ["123-45-6789", "4111111111111111", "ann@example.org"] {
            // A word that is glued to a secret is not one.
            let glued = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || "_.%+@-".contains(c));
            let stands_alone = |shown: &str| shown.match_indices(secret).any(|(at, _)| {
                !glued(shown[..at].chars().next_back())
                    && !glued(shown[at + secret.len()..].chars().next())
            });
            prop_assert!(!stands_alone(&shown), "{}", shown);
        }
    }
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).expect("fits")
    }

    /// A text of pieces that are hard to cut: several scripts, joined characters, secrets.
    fn text(&mut self) -> String {
        const PIECES: [&str; 16] = [
            "Hello world. ",
            "你好世界。",
            "👩‍👩‍👧‍👦",
            "مرحبا! ",
            "e\u{301}",
            "ann@example.org ",
            "123-45-6789",
            "4111111111111111",
            "...",
            "\u{202e}",
            "Ａ１",
            "a",
            " ",
            "\n\n",
            "ß? ",
            "🇩🇪",
        ];
        let long = if self.below(50) == 0 { 600 } else { 8 };
        let count = self.below(long);
        (0..count)
            .map(|_| PIECES[self.below(PIECES.len())])
            .collect()
    }

    fn candidates(&mut self) -> Vec<Candidate> {
        let count = self.below(41);
        let each = (0..count).map(|index| Candidate {
            id: format!("m{index}"),
            content: self.text(),
            score: f64::from(u8::try_from(self.below(11)).expect("fits")) / 10.0,
            timestamp_micros: i64::try_from(self.below(5)).expect("fits"),
            session_id: "s".into(),
            message_id: None,
            memory_type: MemoryType::Message,
            speaker: Some(Speaker::User),
        });
        each.collect()
    }

    fn policy(&mut self) -> Policy {
        let orders = [Order::Alternate, Order::ScoreFirst, Order::RecencyFirst];
        let mut settings = ALL_PATTERNS.settings().clone();
        settings.retrieval = Retrieval {
            top_k: 1 + self.below(20),
            clip_sentences: 1 + self.below(5),
            max_tokens: 100 + self.below(2901),
            min_score: if self.below(2) == 0 { 0.0 } else { 0.3 },
            enable_redaction: self.below(8) == 0,
            ..Retrieval::default()
        };
        settings.interleaving = Interleaving {
            strategy: orders[self.below(3)],
            ratio: None,
        };
        ALL_PATTERNS.with_settings(settings)
    }
}

/// So many payloads; `scripts/soak` asks for 100,000.
#[test]
#[expect(clippy::disallowed_methods, reason = "a setting of the tests")]
fn random_payloads_stay_whole_and_within_their_budget() {
    let wanted = std::env::var("MEMOIR_TEST_PAYLOADS").ok();
    let wanted = wanted.and_then(|count| count.parse().ok()).unwrap_or(2_000);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..wanted {
        let (policy, candidates) = (numbers.policy(), numbers.candidates());
        let given: Vec<String> = candidates.iter().map(|one| one.content.clone()).collect();
        let outcome = run(&policy, candidates, "the weather", limit());

        let retrieval = &policy.settings().retrieval;
        assert!(outcome.total_tokens <= retrieval.max_tokens);
        assert!(outcome.entries.len() <= retrieval.top_k);
        for entry in outcome.entries.iter().filter(|entry| !entry.was_redacted) {
            // White space aside, a text begins as it was said: no character is lost or broken.
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            let place: usize = entry.id()[1..].parse().expect("a number");
            let (said, shown) = (bare(&given[place]), bare(entry.content()));
            let start = shown.strip_suffix("...").unwrap_or(&shown);
            assert!(said.starts_with(start), "{said:?} {shown:?}");
        }
    }
}
