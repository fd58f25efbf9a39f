//! Keyword scores in an index: of one row, and the best of all.
//!
//! The best are found without scoring every row that contains a common term. Terms are taken rarest
//! first; once the rows found so far are better than anything that the remaining terms could add up
//! to, rows that contain only those are no longer looked at. What is said about sources comes last,
//! like one more term. The result is exact.

use std::collections::HashSet;

use rustc_hash::FxHashMap;

use super::super::fields::{FieldScores, MAX_NAMED, field_part};
use super::super::keywords::{Collection, KeywordQuery, part};
use super::super::terms::{QueryTerm, token};
use super::rows::{Postings, count_of, row_of};
use super::{Filter, Index, Place, Segment};

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
    /// By segment, what each group adds by what is said about it.
    fields: Vec<FxHashMap<u32, f64>>,
    /// The steps in which scores are added up.
    order: Vec<Step>,
    /// What the steps from a place in that order on can add at most.
    rest: Vec<f64>,
}

/// What is added to the scores of rows at once.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A term of the query, by its number.
    Term(usize),
    /// What is said about sources.
    Fields,
}

impl Index {
    /// What entries about sources, of which this index consists, add to the chunks of each source.
    pub fn field_scores(&self, terms: &[QueryTerm], filter: &Filter) -> FieldScores {
        let scores = Scores::new(self, terms, &FieldScores::default());
        let visible = self.visible(filter);
        let mut fields = FieldScores::default();
        for (segment, rows) in self.segments.iter().enumerate() {
            // By row, and the rows with a score.
            let mut by_row = vec![0.0; rows.len()];
            let mut named: Vec<usize> = Vec::new();
            for term in
                (0..terms.len()).filter(|term| length_of(&scores.postings, *term) <= MAX_NAMED)
            {
                for posting in scores.postings[segment][term] {
                    let row = row_of(*posting);
                    if by_row[row] == 0.0 {
                        named.push(row);
                    }

                    by_row[row] += field_part(&scores.query, term, count_of(*posting));
                }
            }

            for row in named {
                let place = Place::new(segment, row);
                if visible(place) {
                    fields.add(self.group(place), by_row[row]);
                }
            }
        }

        fields
    }
}

impl<'i> Scores<'i> {
    pub fn new(index: &'i Index, terms: &[QueryTerm], fields: &FieldScores) -> Self {
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
            let current = |(segment, lists): (&Segment, &Vec<&[u32]>)| {
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

        let total = |term: &usize| length_of(&postings, *term);
        let mut found: Vec<usize> = (0..terms.len()).filter(|term| total(term) > 0).collect();
        found.sort_by_key(total);
        let mut order: Vec<Step> = found.into_iter().map(Step::Term).collect();
        order.extend((!fields.is_empty()).then_some(Step::Fields));
        let mut rest = vec![0.0; order.len() + 1];
        for place in (0..order.len()).rev() {
            let most = match order[place] {
                Step::Term(term) => query.weight(term),
                Step::Fields => fields.most(),
            };
            rest[place] = rest[place + 1] + most;
        }

        Self {
            index,
            query,
            postings,
            fields: index
                .segments
                .iter()
                .map(|segment| fields_in(segment, fields))
                .collect(),
            order,
            rest,
        }
    }

    /// The score of one row.
    pub fn of(&self, place: Place) -> f64 {
        let (segment, row) = (place.segment(), place.row());
        let damping = self.damping(segment, row);
        let lists = self.postings[segment].iter().enumerate();
        let words: f64 = lists
            .map(|(term, list)| {
                let count = find(list, row).map_or(0, count_of);
                part(self.query.weight(term), count, damping)
            })
            .sum();

        words + self.of_fields(place)
    }

    /// The share of the query's terms that a row contains, rare ones counting more.
    pub fn covered(&self, place: Place) -> f64 {
        let lists = &self.postings[place.segment()];
        let has = |term: usize| find(lists[term], place.row()).is_some();
        self.query.covered(has, self.of_fields(place))
    }

    /// What is added to the score of a row by what is said about its source.
    pub fn of_fields(&self, place: Place) -> f64 {
        let rows = &self.index.segments[place.segment()].rows;
        let fields = &self.fields[place.segment()];
        let known = fields.get(&rows.groups[place.row()]);
        known.copied().unwrap_or(0.0)
    }

    /// The `k` best rows among those that `wanted` accepts, best first; ties go to the lower entry.
    pub fn best(&self, k: usize, wanted: impl Fn(Place) -> bool) -> Vec<(Place, f64)> {
        let mut best = Best::new(k);
        let longest = self.index.segments.iter().map(Segment::len).max();
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
        for (place, step) in self.order.iter().enumerate() {
            if open.is_none() && self.is_long(*step, segment, touched.len()) {
                let bar = best.bar(&touched, scores);
                if self.rest[place] < bar {
                    open = Some(touched.clone());
                }
            }

            match &mut open {
                None => self.for_each_row(*step, segment, |row, score| {
                    if scores[row] == 0.0 {
                        touched.push(u32::try_from(row).unwrap_or(u32::MAX));
                        if !wanted(Place::new(segment, row)) {
                            scores[row] = f64::NEG_INFINITY;
                        }
                    }

                    scores[row] += score;
                }),
                Some(open) => {
                    let bar = best.bar(open, scores);
                    let hope = bar - self.rest[place];
                    open.retain(|row| scores[*row as usize] >= hope);
                    self.add_to(open, *step, segment, scores);
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

    /// Whether a step has to do with at least so many rows of a segment, as far as it is known.
    fn is_long(&self, step: Step, segment: usize, rows: usize) -> bool {
        match step {
            Step::Term(term) => {
                let length = self.postings[segment][term].len();
                length > 0 && length >= rows
            }
            Step::Fields => !self.fields[segment].is_empty(),
        }
    }

    /// Calls `add` with every row to which a step adds something, and what it adds.
    #[inline]
    fn for_each_row(&self, step: Step, segment: usize, mut add: impl FnMut(usize, f64)) {
        match step {
            Step::Term(term) => {
                let weight = self.query.weight(term);
                for posting in self.postings[segment][term] {
                    let row = row_of(*posting);
                    add(
                        row,
                        part(weight, count_of(*posting), self.damping(segment, row)),
                    );
                }
            }
            Step::Fields => {
                let rows = &self.index.segments[segment].rows;
                for (group, score) in &self.fields[segment] {
                    rows.rows_in(*group).for_each(|row| add(row, *score));
                }
            }
        }
    }

    /// Adds one step to some rows.
    fn add_to(&self, rows: &[u32], step: Step, segment: usize, scores: &mut [f64]) {
        let Step::Term(term) = step else {
            for row in rows {
                scores[*row as usize] += self.of_fields(Place::new(segment, *row as usize));
            }
            return;
        };

        let list = self.postings[segment][term];
        if rows.len() * LOOK_UP < list.len() {
            let weight = self.query.weight(term);
            for row in rows.iter().map(|row| *row as usize) {
                if let Some(posting) = find(list, row) {
                    let damping = self.damping(segment, row);
                    scores[row] += part(weight, count_of(posting), damping);
                }
            }
            return;
        }

        let wanted: HashSet<u32> = rows.iter().copied().collect();
        self.for_each_row(step, segment, |row, score| {
            if u32::try_from(row).is_ok_and(|row| wanted.contains(&row)) {
                scores[row] += score;
            }
        });
    }

    #[inline]
    fn damping(&self, segment: usize, row: usize) -> f64 {
        self.query
            .damping(self.index.segments[segment].rows.lengths[row])
    }
}

/// How many rows contain a term.
fn length_of(postings: &[Vec<&[u32]>], term: usize) -> usize {
    postings.iter().map(|lists| lists[term].len()).sum()
}

/// What each group of a segment adds.
fn fields_in(segment: &Segment, fields: &FieldScores) -> FxHashMap<u32, f64> {
    let rows = &segment.rows;
    if rows.group_count() < fields.len() {
        let groups = 0..u32::try_from(rows.group_count()).unwrap_or(u32::MAX);
        let found = groups.map(|group| (group, fields.of(rows.group_key(group))));
        return found.filter(|(_, score)| *score > 0.0).collect();
    }

    fields
        .iter()
        .filter_map(|(key, score)| Some((rows.group_with_key(key)?, score)))
        .collect()
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
