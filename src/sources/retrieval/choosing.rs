//! Filters the candidates and chooses one of them: pure, in a fixed order of filters, strategy and
//! score.

use std::cmp::Ordering;
use std::collections::HashMap;

use memoir_text::text::name_key;

use super::scoring::Scale;
use crate::base::clock::Timestamp;
use crate::model::version_search::{Choice, VersionCandidate};

/// The filters.
#[derive(Debug, Clone)]
pub struct Sieve {
    pub filename: Option<String>,
    pub tags: Vec<String>,
    pub as_of: Option<Timestamp>,
    pub choice: Choice,
    pub query: String,
    /// A filter that nothing passes is an error, and is not dropped.
    pub strict: bool,
}

/// Which filters were dropped because nothing would have remained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relaxed {
    /// `None` if no name was given.
    pub filename: Option<bool>,
    pub tags: bool,
    pub as_of: bool,
}

/// The chosen candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub place: usize,
    pub relaxed: Relaxed,
    /// The word score of the chosen one, if it decided; of all of them, if requested.
    pub score: Option<f64>,
    pub scores: Option<Vec<f64>>,
}

impl Sieve {
    /// # Errors
    /// The filter that nothing passes, in strict mode; `None` if there are no candidates at all.
    pub fn decide(
        &self,
        candidates: &[VersionCandidate],
        explain: bool,
    ) -> Result<Decided, Option<&'static str>> {
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        if left.is_empty() {
            return Err(None);
        }

        let mut relaxed = Relaxed::default();
        if let Some(name) = &self.filename {
            let folded = name_key(name);
            // The exact name, or else the name in another case.
            let applied = self.keep(&mut left, |place| {
                candidates[place].source.filename == *name
            }) || self.keep(&mut left, |place| {
                name_key(&candidates[place].source.filename) == folded
            });

            relaxed.filename = Some(!applied);
            self.must(applied, "meta.filename")?;
        }

        let carries_all = |place: usize| {
            self.tags
                .iter()
                .all(|tag| candidates[place].source.tags.contains(tag))
        };

        relaxed.tags = !self.keep(&mut left, carries_all);
        self.must(!relaxed.tags, "the required tags")?;
        if let Some(moment) = self.as_of {
            relaxed.as_of = !self.keep(&mut left, |place| {
                candidates[place].version.ingested_at <= moment
            });
            self.must(!relaxed.as_of, "as_of")?;
        }

        let (best, equal) = self.equals(candidates, &left);
        if equal.len() == 1 && self.choice != Choice::Score && !explain {
            return Ok(Decided {
                place: best,
                relaxed,
                score: None,
                scores: None,
            });
        }

        // Weights come from the versions between which the words decide; the others are shown on
        // the same scale.
        let (scale, scores) =
            Scale::over(&self.query, equal.iter().map(|place| &candidates[*place]));
        let ids = |place: usize| candidates[equal[place]].version.id;
        let first = (0..equal.len()).min_by(|one, other| {
            scores[*other]
                .total_cmp(&scores[*one])
                .then_with(|| ids(*one).cmp(&ids(*other)))
        });

        let first = first.unwrap_or(0);
        let known: HashMap<usize, f64> =
            equal.iter().copied().zip(scores.iter().copied()).collect();
        let score = |(place, other)| {
            known
                .get(&place)
                .copied()
                .unwrap_or_else(|| scale.score(other))
        };

        let all = explain.then(|| candidates.iter().enumerate().map(score).collect());
        Ok(Decided {
            place: equal[first],
            relaxed,
            score: Some(scores[first]),
            scores: all,
        })
    }

    /// Keeps what passes, if anything does; returns whether anything did.
    #[expect(clippy::unused_self, reason = "reads as what the sieve does")]
    fn keep(&self, left: &mut Vec<usize>, passes: impl Fn(usize) -> bool) -> bool {
        let passing: Vec<usize> = left
            .iter()
            .copied()
            .filter(|place| passes(*place))
            .collect();

        let some = !passing.is_empty();
        if some {
            *left = passing;
        }

        some
    }

    fn must(&self, passed: bool, filter: &'static str) -> Result<(), Option<&'static str>> {
        if self.strict && !passed {
            Err(Some(filter))
        } else {
            Ok(())
        }
    }

    /// The best by strategy, and all that tie.
    fn equals(&self, candidates: &[VersionCandidate], left: &[usize]) -> (usize, Vec<usize>) {
        let order = |one: usize, other: usize| {
            let (a, b) = (&candidates[one].version, &candidates[other].version);
            match self.choice {
                Choice::Latest => {
                    (b.ingested_at, b.facts.char_count).cmp(&(a.ingested_at, a.facts.char_count))
                }
                Choice::Earliest => a.ingested_at.cmp(&b.ingested_at),
                Choice::Longest => b.facts.char_count.cmp(&a.facts.char_count),
                Choice::Score => Ordering::Equal,
            }
        };

        let best = left
            .iter()
            .copied()
            .min_by(|one, other| order(*one, *other))
            .unwrap_or(0);

        (
            best,
            left.iter()
                .copied()
                .filter(|place| order(*place, best).is_eq())
                .collect(),
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use strum::VariantArray as _;

    use super::*;
    use crate::base::ids::SourceId;
    use crate::model::source::{Source, SourceKind};
    use crate::model::source_version::{SourceVersion, VersionFacts};

    pub fn candidate(
        id: i64,
        filename: &str,
        tags: &[&str],
        at: i64,
        content: &str,
    ) -> VersionCandidate {
        let now = Timestamp::from_micros(at);
        let source_id = SourceId::new();
        let mut all = vec!["file_ingest".to_owned()];
        all.extend(tags.iter().map(ToString::to_string));

        VersionCandidate {
            source: Source {
                id: source_id.clone(),
                user_id: "default".to_owned(),
                filename: filename.to_owned(),
                path: format!("/{filename}"),
                kind: SourceKind::FileIngest,
                file_type: "md".to_owned(),
                eligible: true,
                tags: all,
                latest_version: 1,
                created_at: now,
                updated_at: now,
            },
            version: SourceVersion {
                id,
                source_id,
                version: 1,
                facts: VersionFacts {
                    sha256: String::new(),
                    settings_key: String::new(),
                    size_bytes: 0,
                    mtime: None,
                    char_count: i64::try_from(content.chars().count()).unwrap_or(0),
                    token_count: 0,
                    provider: None,
                    topic: None,
                    note: None,
                    metadata: json!({}),
                    job_id: None,
                },
                content_version_id: None,
                ingested_at: now,
            },
            content: Some(content.to_owned()),
        }
    }

    fn sieve(choice: Choice) -> Sieve {
        Sieve {
            filename: None,
            tags: Vec::new(),
            as_of: None,
            choice,
            query: "cape".to_owned(),
            strict: false,
        }
    }

    #[test]
    fn each_strategy_has_its_winner_and_its_ties() {
        let all = [
            candidate(1, "a", &[], 1, "the cape in the morning"),
            candidate(2, "b", &[], 3, "short"),
            candidate(3, "c", &[], 3, "a cape!"),
            candidate(4, "d", &[], 3, "no word"),
            candidate(5, "e", &[], 2, "the rest of the evening"),
        ];

        for (choice, wanted) in [
            // The longer of the latest; of equal length, the better match.
            (Choice::Latest, 3),
            (Choice::Earliest, 1),
            (Choice::Longest, 1),
            (Choice::Score, 1),
        ] {
            let decided = sieve(choice).decide(&all, false).unwrap();
            assert_eq!(all[decided.place].version.id, wanted, "{choice:?}");
        }

        // Equal in everything: the lowest id, whatever the order.
        let twins = [
            candidate(9, "x", &[], 1, "same"),
            candidate(8, "x", &[], 1, "same"),
        ];

        for choice in Choice::VARIANTS {
            assert_eq!(
                sieve(*choice).decide(&twins, false).unwrap().place,
                1,
                "{choice:?}"
            );
        }
    }

    #[test]
    fn an_explanation_shows_the_scores_that_decided() {
        let mut all = vec![
            candidate(1, "a", &["x"], 1, "a red dress"),
            candidate(2, "b", &["x"], 1, "a kite at sea"),
        ];

        all.extend((3..20).map(|id| candidate(id, "other", &[], 1, "red, red, red")));
        let sieve = Sieve {
            tags: vec!["x".to_owned()],
            query: "red kite".to_owned(),
            ..sieve(Choice::Score)
        };

        let (brief, told) = (
            sieve.decide(&all, false).unwrap(),
            sieve.decide(&all, true).unwrap(),
        );

        assert_eq!((brief.place, brief.score), (told.place, told.score));
        let scores = told.scores.unwrap();
        assert_eq!(
            (scores.len(), Some(scores[told.place])),
            (all.len(), told.score)
        );

        assert!(
            (0..2).all(|place| scores[place] <= scores[told.place]),
            "{scores:?}"
        );
    }

    #[test]
    fn a_filter_that_matches_nothing_is_ignored_or_an_error() {
        let all = [
            candidate(1, "Plan.md", &["a"], 5, "x"),
            candidate(2, "other.md", &["a", "b"], 9, "y"),
        ];

        let mut sieve = Sieve {
            tags: vec!["a".to_owned(), "b".to_owned()],
            ..sieve(Choice::Latest)
        };

        assert_eq!(sieve.decide(&all, false).unwrap().place, 1);
        sieve.filename = Some("plan.MD".to_owned());
        let decided = sieve.decide(&all, false).unwrap();
        assert_eq!(
            (decided.place, decided.relaxed),
            (
                0,
                Relaxed {
                    filename: Some(false),
                    tags: true,
                    as_of: false
                }
            )
        );

        sieve.as_of = Some(Timestamp::from_micros(5));
        assert!(
            !sieve.decide(&all, false).unwrap().relaxed.as_of,
            "the moment itself counts"
        );

        sieve.as_of = Some(Timestamp::from_micros(4));
        assert!(sieve.decide(&all, false).unwrap().relaxed.as_of);
        sieve.strict = true;
        assert_eq!(sieve.decide(&all, false), Err(Some("the required tags")));
        sieve.tags = vec!["a".to_owned()];
        assert_eq!(sieve.decide(&all, false), Err(Some("as_of")));
        sieve.filename = Some("nobody.md".to_owned());
        assert_eq!(sieve.decide(&all, false), Err(Some("meta.filename")));

        assert_eq!(sieve.decide(&[], false), Err(None));
    }
}
