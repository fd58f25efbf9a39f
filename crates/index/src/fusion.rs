//! Hybrid score: the mean of both parts' standard scores. BM25 and cosine have different units, and
//! each embedding model has another range of cosines; "how many standard deviations above the
//! average candidate" is a unit that both share. The parts have equal weight.
//!
//! Done twice: the best chunk of the first round restates the query in other words, so the query's
//! vector moves towards it before the second.
//!
//! Mean and deviation come from the best `SAMPLE` of each part, whatever `k` is, so that the order
//! does not depend on the page size.

/// How many of the best of each part are compared. From 100 to 1,000, the quality was the same
/// within noise on eight collections.
pub const SAMPLE: usize = 500;
/// The weight of the best chunk relative to the query when the vector moves.
const FEEDBACK: f32 = 0.5;

/// A chunk with both exact scores. Every candidate needs both: the keyword score of one found only
/// by meaning is 0 if no term matches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate<Id> {
    pub id: Id,
    /// The result of `KeywordQuery::score`.
    pub keyword: f64,
    /// Cosine; `None` for a chunk without a vector.
    pub semantic: Option<f64>,
}

/// A chunk with its hybrid score and the two standard scores behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fused<Id> {
    pub id: Id,
    /// Between 0 and 1, rising with the mean of the parts; 0.5 is an average candidate. Comparable
    /// only within one query.
    pub score: f64,
    pub keyword: f64,
    pub semantic: f64,
}

/// Orders the candidates, best first; ties by id. `query` is the query's unit vector (zeros if the
/// model finds no meaning in it), `vector` returns a chunk's, and `dot` its inner product with
/// another.
pub fn hybrid<Id: Copy + Ord>(
    candidates: &[Candidate<Id>],
    query: &[f32],
    vector: impl Fn(Id) -> Option<Vec<f32>>,
    dot: impl Fn(Id, &[f32]) -> Option<f32>,
) -> Vec<Fused<Id>> {
    let first = fuse(candidates);
    let best = first
        .first()
        .and_then(|fused| vector(fused.id))
        .filter(|best| best.len() == query.len());

    let Some(best) = best.filter(|_| query.iter().any(|value| *value != 0.0)) else {
        return first;
    };
    let moved: Vec<f32> = query
        .iter()
        .zip(&best)
        .map(|(asked, found)| asked + FEEDBACK * found)
        .collect();

    // The length of `moved` does not matter: standard scores have no unit.
    let again: Vec<Candidate<Id>> = candidates
        .iter()
        .map(|c| Candidate {
            semantic: dot(c.id, &moved).map(f64::from),
            ..*c
        })
        .collect();

    fuse(&again)
}

/// One round: orders by the mean of the standard scores; ties by id.
pub fn fuse<Id: Copy + Ord>(candidates: &[Candidate<Id>]) -> Vec<Fused<Id>> {
    let candidates = distinct(candidates);
    let sample = sample(&candidates);
    let keyword = Scale::of(sample.iter().map(|c| c.keyword));
    let semantic = Scale::of(sample.iter().filter_map(|c| c.semantic));
    let mut fused: Vec<Fused<Id>> = candidates
        .iter()
        .map(|c| {
            let (keyword, semantic) = (
                keyword.standard(Some(c.keyword)),
                semantic.standard(c.semantic),
            );

            let mean = f64::midpoint(keyword, semantic);
            Fused {
                id: c.id,
                score: 1.0 / (1.0 + (-mean).exp()),
                keyword,
                semantic,
            }
        })
        .collect();

    // By the mean itself: far from the middle, the score in 0..1 runs out of digits.
    fused.sort_by(|a, b| {
        (b.keyword + b.semantic)
            .total_cmp(&(a.keyword + a.semantic))
            .then(a.id.cmp(&b.id))
    });

    fused
}

/// Each id once, ordered by id, so that the order of arrival does not matter.
fn distinct<Id: Copy + Ord>(candidates: &[Candidate<Id>]) -> Vec<Candidate<Id>> {
    let mut kept = candidates.to_vec();
    kept.sort_by_key(|c| c.id);
    kept.dedup_by_key(|c| c.id);
    kept
}

/// The best of each part: by keyword, those with any match; by meaning, all with a vector.
fn sample<Id: Copy + Ord>(candidates: &[Candidate<Id>]) -> Vec<Candidate<Id>> {
    let by_keyword = candidates.iter().filter(|c| c.keyword > 0.0);
    let mut both = best(by_keyword, |c| c.keyword);
    let by_meaning = candidates.iter().filter(|c| c.semantic.is_some());
    both.extend(best(by_meaning, |c| {
        c.semantic.unwrap_or(f64::NEG_INFINITY)
    }));

    both.sort_by_key(|c| c.id);
    both.dedup_by_key(|c| c.id);
    both
}

/// The `SAMPLE` best by one part, in no order; of equals, the lower ids.
fn best<'c, Id: Copy + Ord + 'c>(
    candidates: impl Iterator<Item = &'c Candidate<Id>>,
    part: impl Fn(&Candidate<Id>) -> f64,
) -> Vec<Candidate<Id>> {
    let mut all: Vec<Candidate<Id>> = candidates.copied().collect();
    if all.len() > SAMPLE {
        let better = |a: &Candidate<Id>, b: &Candidate<Id>| {
            part(b).total_cmp(&part(a)).then(a.id.cmp(&b.id))
        };
        all.select_nth_unstable_by(SAMPLE - 1, better);
        all.truncate(SAMPLE);
    }

    all
}

/// Mean, deviation and minimum of one part over the sample.
struct Scale {
    mean: f64,
    deviation: f64,
    least: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let count = u32::try_from(values.len())
            .map_or(f64::MAX, f64::from)
            .max(1.0);
        let mean = values.iter().sum::<f64>() / count;
        let spread = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;

        Self {
            mean,
            deviation: spread.sqrt(),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }

    /// Standard score. A part that is the same for all candidates counts nothing; a chunk that it
    /// knows nothing about counts as its worst.
    fn standard(&self, value: Option<f64>) -> f64 {
        if self.deviation < 1e-12 {
            return 0.0;
        }

        let value = value
            .filter(|value| value.is_finite())
            .unwrap_or(self.least);
        (value - self.mean) / self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::dot;

    fn candidate(id: u32, keyword: f64, semantic: f64) -> Candidate<u32> {
        Candidate {
            id,
            keyword,
            semantic: Some(semantic),
        }
    }

    fn order(candidates: &[Candidate<u32>]) -> Vec<u32> {
        fuse(candidates).iter().map(|fused| fused.id).collect()
    }

    #[test]
    fn both_parts_count_equally() {
        let all = [
            candidate(1, 9.0, 0.1),
            candidate(2, 0.0, 0.9),
            candidate(3, 8.0, 0.8),
            candidate(4, 1.0, 0.2),
        ];

        assert_eq!(order(&all)[0], 3);
        let fused = fuse(&all);
        assert!(fused.iter().all(|f| f.score > 0.0 && f.score < 1.0));
        assert!(fused.windows(2).all(|w| w[0].score >= w[1].score));
    }

    #[test]
    fn the_scale_of_a_score_does_not_matter() {
        let all = [
            candidate(1, 9.0, 0.1),
            candidate(2, 0.0, 0.9),
            candidate(3, 2.0, 0.5),
            candidate(4, 1.0, 0.2),
        ];

        let other: Vec<_> = all
            .iter()
            .map(|c| candidate(c.id, c.keyword * 50.0, c.semantic.unwrap() * 0.1 + 0.8))
            .collect();

        assert_eq!(order(&all), order(&other));
    }

    #[test]
    fn a_constant_part_does_not_change_the_order() {
        let same = [
            candidate(1, 0.0, 0.1),
            candidate(2, 0.0, 0.9),
            candidate(3, 0.0, 0.5),
        ];

        assert_eq!(order(&same), vec![2, 3, 1]);
        let none: Vec<_> = (1..4)
            .map(|id| Candidate {
                id,
                keyword: f64::from(id),
                semantic: None,
            })
            .collect();

        assert_eq!(order(&none), vec![3, 2, 1]);
        assert!(fuse::<u32>(&[]).is_empty());
        assert!((fuse(&[candidate(1, 3.0, 0.3)])[0].score - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_chunk_without_a_vector_is_not_favoured() {
        let mut all = vec![
            candidate(1, 5.0, 0.1),
            candidate(2, 1.0, 0.6),
            candidate(3, 0.0, 0.3),
        ];

        all.push(Candidate {
            id: 4,
            keyword: 5.0,
            semantic: None,
        });

        assert_eq!(order(&all)[..2], [2, 1]);
    }

    #[test]
    fn chunks_similar_to_the_best_one_rise() {
        let vectors: [[f32; 3]; 4] = [
            [0.8, 0.6, 0.0],
            [0.6, 0.0, 0.8],
            [0.6, 0.8, 0.0],
            [0.0, 0.0, 1.0],
        ];

        let query = [1.0, 0.0, 0.0];
        let all: Vec<_> = [9.0, 1.0, 1.0, 0.0]
            .into_iter()
            .zip(&vectors)
            .zip(0u32..)
            .map(|((keyword, vector), id)| candidate(id, keyword, f64::from(dot(&query, vector))))
            .collect();

        let ids = |fused: &[Fused<u32>]| fused.iter().map(|f| f.id).collect::<Vec<_>>();
        assert_eq!(ids(&fuse(&all)), vec![0, 1, 2, 3]);
        let vector = |id: u32| vectors.get(id as usize).map(|v| v.to_vec());
        let with = |id: u32, asked: &[f32]| vectors.get(id as usize).map(|v| dot(asked, v));
        assert_eq!(ids(&hybrid(&all, &query, vector, with)), vec![0, 2, 1, 3]);

        // Nothing to move: no vectors, or a query without meaning for the model.
        assert_eq!(hybrid(&all, &query, |_| None, with), fuse(&all));
        assert_eq!(hybrid(&all, &[0.0; 3], vector, with), fuse(&all));
    }

    #[test]
    fn the_order_of_arrival_does_not_matter() {
        let mut all: Vec<_> = (0..500u32)
            .map(|n| candidate(n, f64::from(n * 7 % 50), f64::from(n * 13 % 97) / 97.0))
            .collect();
        let first = order(&all);
        all.reverse();
        all.extend_from_within(..10);
        assert_eq!(order(&all), first);

        assert_eq!(first.len(), 500);
    }
}
