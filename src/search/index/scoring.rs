//! Keyword scores in an index: of one row, and the best of all.
//!
//! The best are found without scoring every row that contains a common term. Terms are taken rarest
//! first; once the rows found so far are better than anything that the remaining terms could add up
//! to, rows that contain only those are no longer looked at. The result is exact.

use super::super::keywords::{Collection, KeywordQuery, part};
use super::super::terms::{QueryTerm, token};
use super::segment::{Postings, count_of, row_of};
use super::{Index, Place};

/// Scores that were added in another order differ by less than this share.
const ROUNDING: f64 = 1e-9;
/// Rows are looked up one by one in a list that is this many times longer than their number.
const LOOK_UP: usize = 16;

/// The keyword scores of one query.
pub struct Scores<'i> {
    index: &'i Index,
    pub query: KeywordQuery,
    /// By segment, the postings of each term.
    postings: Vec<Vec<&'i [u32]>>,
    /// The terms that occur, rarest first.
    order: Vec<usize>,
    /// What the terms from a place in that order on can add at most.
    rest: Vec<f64>,
}

impl<'i> Scores<'i> {
    pub fn new(index: &'i Index, terms: &[QueryTerm]) -> Self {
        let tokens: Vec<String> = terms.iter().map(|asked| token(&asked.term)).collect();
        let postings: Vec<Vec<&[u32]>> = index
            .segments
            .iter()
            .map(|segment| {
                let find = |token: &String| segment.rows.terms.get(token.as_str());
                let lists = tokens.iter().map(find);
                lists
                    .map(|list| list.map_or(&[][..], Postings::as_slice))
                    .collect()
            })
            .collect();

        // Only current versions make a term common.
        let with_term = |term: usize| -> u64 {
            let current = |(segment, lists): (&super::Segment, &Vec<&[u32]>)| {
                let (list, visibility) = (lists[term], &segment.visibility);
                if visibility.current == segment.len() {
                    list.len()
                } else {
                    let current = |posting: &&u32| visibility.is_current(row_of(**posting));
                    list.iter().filter(current).count()
                }
            };

            let counts = index.segments.iter().zip(&postings).map(current);
            counts.map(|count| count as u64).sum()
        };

        let with_term: Vec<u64> = (0..terms.len()).map(with_term).collect();
        let size = index.current();
        let query = KeywordQuery::new(terms, &with_term, Collection::of(size.0, size.1));

        let total =
            |term: &usize| -> usize { postings.iter().map(|lists| lists[*term].len()).sum() };
        let mut order: Vec<usize> = (0..terms.len()).filter(|term| total(term) > 0).collect();
        order.sort_by_key(total);
        let mut rest = vec![0.0; order.len() + 1];
        for place in (0..order.len()).rev() {
            rest[place] = rest[place + 1] + query.weight(order[place]);
        }

        Self {
            index,
            query,
            postings,
            order,
            rest,
        }
    }

    /// The score of one row.
    pub fn of(&self, place: Place) -> f64 {
        let (segment, row) = (place.segment(), place.row());
        let damping = self.damping(segment, row);
        let lists = self.postings[segment].iter().enumerate();
        lists
            .map(|(term, list)| {
                let count = find(list, row).map_or(0, count_of);
                part(self.query.weight(term), count, damping)
            })
            .sum()
    }

    /// The `k` best rows among those that `wanted` accepts, best first; ties go to the lower entry.
    pub fn best(&self, k: usize, wanted: impl Fn(Place) -> bool) -> Vec<(Place, f64)> {
        let mut best = Best::new(k);
        let longest = self.index.segments.iter().map(super::Segment::len).max();
        let mut scores = vec![0.0; longest.unwrap_or(0)];
        for segment in 0..self.postings.len() {
            self.score_segment(segment, &mut scores, &mut best, &wanted);
        }

        // In the order of the query's terms, as every other search adds them up.
        let places = best.finish().into_iter();
        let mut found: Vec<(Place, f64)> =
            places.map(|(place, _)| (place, self.of(place))).collect();
        found.sort_by(|a, b| {
            let entries = (self.index.entry_id(a.0), self.index.entry_id(b.0));
            b.1.total_cmp(&a.1).then(entries.0.cmp(&entries.1))
        });

        found.truncate(k);
        found
    }

    /// Adds the best rows of a segment; `scores` are zeros before and after.
    fn score_segment(
        &self,
        segment: usize,
        scores: &mut [f64],
        best: &mut Best,
        wanted: impl Fn(Place) -> bool,
    ) {
        // Every row with a score, also those that are not wanted, which have a negative one.
        let mut touched: Vec<u32> = Vec::new();
        let mut open: Option<Vec<u32>> = None;
        for (place, term) in self.order.iter().enumerate() {
            let list = self.postings[segment][*term];
            let weight = self.query.weight(*term);
            if open.is_none() && !list.is_empty() && list.len() >= touched.len() {
                let bar = best.bar(&touched, scores);
                if self.rest[place] < bar {
                    open = Some(touched.clone());
                }
            }

            match &mut open {
                None => {
                    for posting in list {
                        let row = row_of(*posting);
                        if scores[row] == 0.0 {
                            touched.push(u32::try_from(row).unwrap_or(u32::MAX));
                            if !wanted(Place::new(segment, row)) {
                                scores[row] = f64::NEG_INFINITY;
                            }
                        }

                        let damping = self.damping(segment, row);
                        scores[row] += part(weight, count_of(*posting), damping);
                    }
                }
                Some(open) => {
                    let bar = best.bar(open, scores);
                    let hope = bar - self.rest[place];
                    open.retain(|row| scores[*row as usize] >= hope);
                    self.add_to(open, segment, *term, scores);
                }
            }
        }

        for row in open.as_ref().unwrap_or(&touched) {
            let score = scores[*row as usize];
            if score > 0.0 {
                best.add(Place::new(segment, *row as usize), score);
            }
        }

        for row in touched {
            scores[row as usize] = 0.0;
        }
    }

    /// Adds one term to some rows.
    fn add_to(&self, rows: &[u32], segment: usize, term: usize, scores: &mut [f64]) {
        let (list, weight) = (self.postings[segment][term], self.query.weight(term));
        let mut add = |row: usize, posting: u32| {
            scores[row] += part(weight, count_of(posting), self.damping(segment, row));
        };

        if rows.len() * LOOK_UP < list.len() {
            for row in rows {
                if let Some(posting) = find(list, *row as usize) {
                    add(*row as usize, posting);
                }
            }
            return;
        }

        let wanted: std::collections::HashSet<u32> = rows.iter().copied().collect();
        for posting in list {
            let row = row_of(*posting);
            if u32::try_from(row).is_ok_and(|row| wanted.contains(&row)) {
                add(row, *posting);
            }
        }
    }

    #[inline]
    fn damping(&self, segment: usize, row: usize) -> f64 {
        self.query
            .damping(self.index.segments[segment].rows.lengths[row])
    }
}

/// The posting of a row.
fn find(list: &[u32], row: usize) -> Option<u32> {
    let place = list.partition_point(|posting| row_of(*posting) < row);
    list.get(place)
        .copied()
        .filter(|posting| row_of(*posting) == row)
}

/// The best `k` so far, unsorted, with room for as many again.
struct Best {
    k: usize,
    found: Vec<(Place, f64)>,
    /// Only better ones can be among the best `k`.
    bar: f64,
}

impl Best {
    fn new(k: usize) -> Self {
        Self {
            k: k.max(1),
            found: Vec::new(),
            bar: 0.0,
        }
    }

    fn add(&mut self, place: Place, score: f64) {
        if score < self.bar {
            return;
        }

        self.found.push((place, score));
        // Those that are equal but for rounding are all kept, until their exact scores decide.
        if self.found.len() >= 2 * self.k + 64 {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.found.len() <= self.k {
            return;
        }

        let (_, kth, _) = self
            .found
            .select_nth_unstable_by(self.k - 1, |a, b| b.1.total_cmp(&a.1));
        self.bar = self.bar.max(kth.1 * (1.0 - ROUNDING));
        let bar = self.bar;
        self.found.retain(|(_, score)| *score >= bar);
    }

    /// What a row must reach to be among the best `k`, given the scores of more rows, which can
    /// still grow.
    fn bar(&self, rows: &[u32], scores: &[f64]) -> f64 {
        let rows: Vec<f64> = rows.iter().map(|row| scores[*row as usize]).collect();
        let mut visible: Vec<f64> = rows.into_iter().filter(|score| *score > 0.0).collect();
        if visible.len() < self.k {
            return self.bar;
        }

        let (_, kth, _) = visible.select_nth_unstable_by(self.k - 1, |a, b| b.total_cmp(a));
        self.bar.max(*kth * (1.0 - ROUNDING))
    }

    fn finish(mut self) -> Vec<(Place, f64)> {
        self.shrink();
        self.found
    }
}
