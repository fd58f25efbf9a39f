//! A space's passages as they are searched: who holds which term, and the vectors, in memory.
//!
//! Rows are numbered in the order of the passages' ids, so that ties fall the same way everywhere. Passages of every
//! version are here; what a question may see is decided by its filter. How common a term is goes by what the documents
//! say now, so that one which was brought in a hundred times does not make its own words look common.

use std::collections::{HashMap, HashSet};

use super::fusion::SAMPLE;
use super::keywords::{Collection, KeywordQuery, part};
use super::rank::{Hit, Kind, Question, finish, fuse_all};
use super::terms::{QueryTerm, for_each_token, token};
use super::vectors::{Matrix, from_bytes};
use crate::model::search::{PassageRow, SearchSize, SearchSource, VectorRow};

/// More rows than this do not fit beside a count in 32 bits.
pub const MOST_ROWS: usize = 1 << 24;
/// A row without a vector.
const NONE: u32 = u32::MAX;
/// Bytes that are counted for a term besides its postings, and for a passage.
const TERM_BYTES: usize = 96;
const ROW_BYTES: usize = 48;

/// The passages of one space.
#[derive(Debug, Default)]
pub struct Index {
    chunk_ids: Vec<i64>,
    sources: Vec<u32>,
    versions: Vec<i64>,
    created: Vec<i64>,
    lengths: Vec<u32>,
    /// Rows of what the eligible documents say now, how many there are, and the sum of their lengths.
    live: Vec<bool>,
    live_count: usize,
    live_length: u64,
    /// The sum of all lengths.
    total_length: u64,
    /// Rows of documents that are no longer there.
    gone_count: usize,
    terms: HashMap<Box<str>, Postings>,
    term_bytes: usize,
    source_numbers: HashMap<Box<str>, u32>,
    states: Vec<State>,
    vectors: Option<Vectors>,
    /// Vectors of another model that are being loaded; searches go by the former until they are all here.
    coming: Option<Vectors>,
}

/// Who holds a term: row and count in one number, in the order of the rows.
type Postings = Vec<u32>;

/// What is known of a document.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// None where it says nothing, is switched off, or is gone.
    version_id: Option<i64>,
    there: bool,
}

#[derive(Debug)]
struct Vectors {
    model: String,
    matrix: Matrix,
    /// The row of each vector, and the vector of each row.
    rows: Vec<u32>,
    places: Vec<u32>,
}

/// Which passages a question may see.
#[derive(Debug, Default)]
pub struct Filter {
    /// The version that counts of each document; without it, what each eligible document says now.
    pub sources: Option<HashMap<String, i64>>,
    /// Nothing that came later.
    pub until: Option<i64>,
    /// Only these passages.
    pub chunks: Option<HashSet<i64>>,
}

impl Filter {
    /// Whether a passage is among those that are named, if any are.
    pub fn lets(&self, chunk_id: i64) -> bool {
        self.chunks.as_ref().is_none_or(|chunks| chunks.contains(&chunk_id))
    }
}

/// A filter made ready: the version that counts, by the document's number.
struct Sieve<'f> {
    versions: Vec<Option<i64>>,
    until: i64,
    filter: &'f Filter,
}

impl Index {
    pub fn len(&self) -> usize {
        self.chunk_ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.chunk_ids.is_empty()
    }

    /// How much there is of what the documents say now.
    pub fn live_size(&self) -> SearchSize {
        size(self.live_count, self.live_length)
    }

    /// How much there is in all.
    pub fn whole_size(&self) -> SearchSize {
        size(self.len(), self.total_length)
    }

    /// The id of the last passage; new ones have higher ids.
    pub fn last(&self) -> i64 {
        self.chunk_ids.last().copied().unwrap_or(0)
    }

    /// The model of the vectors, if they are loaded.
    pub fn model(&self) -> Option<&str> {
        self.vectors.as_ref().map(|vectors| vectors.model.as_str())
    }

    /// Whether so much of it is of documents that are gone that it is better read anew.
    pub fn is_worn(&self) -> bool {
        self.gone_count > 1_000 && self.gone_count * 4 > self.len()
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.term_bytes + self.len() * ROW_BYTES + self.vector_bytes()
    }

    /// How much memory the vectors take.
    pub fn vector_bytes(&self) -> usize {
        let sizes = |vectors: &Vectors| {
            vectors.matrix.bytes() + (vectors.rows.capacity() + vectors.places.capacity()) * size_of::<u32>()
        };
        self.vectors.as_ref().map_or(0, sizes)
    }

    /// Adds passages, in the order of their ids.
    pub fn add(&mut self, passages: &[PassageRow]) {
        for passage in passages {
            let Ok(row) = u32::try_from(self.len()) else { return };
            if passage.chunk_id <= self.last() || self.len() >= MOST_ROWS {
                continue;
            }
            let length = u32::try_from(passage.length).unwrap_or(u32::MAX);
            for_each_token(&passage.tokens, |token, count| {
                let posting = row << 8 | count.min(255);
                if let Some(postings) = self.terms.get_mut(token) {
                    postings.push(posting);
                    self.term_bytes += size_of::<u32>();
                } else {
                    self.terms.insert(token.into(), vec![posting]);
                    self.term_bytes += TERM_BYTES + token.len();
                }
            });
            let source = self.source_number(&passage.source_id);
            self.chunk_ids.push(passage.chunk_id);
            self.sources.push(source);
            self.versions.push(passage.version_id);
            self.created.push(passage.created_at);
            self.lengths.push(length);
            // Until the documents are told of, nobody sees it.
            self.live.push(false);
            self.total_length += u64::from(length);
        }
    }

    /// Gives back the memory that growing has taken in advance.
    pub fn settle(&mut self) {
        self.terms.values_mut().for_each(Vec::shrink_to_fit);
        self.chunk_ids.shrink_to_fit();
        self.versions.shrink_to_fit();
    }

    fn source_number(&mut self, id: &str) -> u32 {
        if let Some(number) = self.source_numbers.get(id) {
            return *number;
        }
        let number = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        self.source_numbers.insert(id.into(), number);
        self.states.push(State::default());
        number
    }

    /// Takes over what every document of the space says now; passages of one that is not among them are gone.
    pub fn set_sources(&mut self, sources: &[SearchSource]) {
        self.states.fill(State::default());
        for source in sources {
            if let Some(number) = self.source_numbers.get(source.id.as_str()) {
                let version_id = source.version_id.filter(|_| source.eligible);
                self.states[*number as usize] = State { version_id, there: true };
            }
        }
        (self.live_count, self.live_length, self.gone_count) = (0, 0, 0);
        for row in 0..self.len() {
            let state = self.states[self.sources[row] as usize];
            self.live[row] = state.version_id == Some(self.versions[row]);
            self.gone_count += usize::from(!state.there);
            if self.live[row] {
                self.live_count += 1;
                self.live_length += u64::from(self.lengths[row]);
            }
        }
    }

    /// The id of the last passage whose vector is here.
    pub fn last_vector(&self) -> Option<i64> {
        let vectors = self.vectors.as_ref()?;
        vectors.rows.last().and_then(|row| self.chunk_ids.get(*row as usize)).copied()
    }

    /// Begins the vectors of a model anew; they count once [`Index::finish_vectors`] says that all are here.
    pub fn begin_vectors(&mut self, model: &str, dims: usize) {
        let (rows, places) = (Vec::new(), Vec::new());
        self.coming = Some(Vectors { model: model.to_owned(), matrix: Matrix::new(dims), rows, places });
    }

    /// Vectors are no longer held.
    pub fn drop_vectors(&mut self) {
        (self.vectors, self.coming) = (None, None);
    }

    /// Searches go by the new vectors from now on.
    pub fn finish_vectors(&mut self) {
        if let Some(coming) = self.coming.take() {
            self.vectors = Some(coming);
        }
    }

    /// Adds vectors, in the order of their passages; one of another length, or of a passage that is not here, is left
    /// out.
    pub fn add_vectors(&mut self, vectors: &[VectorRow]) {
        let Some(known) = self.coming.as_mut().or(self.vectors.as_mut()) else { return };
        known.places.resize(self.chunk_ids.len(), NONE);
        let mut from = known.rows.last().map_or(0, |row| *row as usize);
        for vector in vectors {
            // Both run upwards, so the next is near the last.
            let ahead = &self.chunk_ids[from..];
            let row = match ahead.iter().take(4).position(|id| *id == vector.chunk_id) {
                Some(near) => from + near,
                None => match ahead.binary_search(&vector.chunk_id) {
                    Ok(far) => from + far,
                    Err(_) => continue,
                },
            };
            from = row;
            let fresh = known.places[row] == NONE;
            let Ok(number) = u32::try_from(row) else { continue };
            if fresh && known.matrix.push(&from_bytes(&vector.vector)) {
                known.places[row] = u32::try_from(known.rows.len()).unwrap_or(NONE);
                known.rows.push(number);
            }
        }
    }

    /// The best passages for a question, the best first.
    pub fn search(&self, question: &Question, filter: &Filter) -> Vec<Hit> {
        let sieve = self.sieve(filter);
        let wanted = |row: usize| self.passes(row, &sieve);
        let keyword = (question.kind != Kind::Semantic).then(|| self.score(&question.terms));
        let hits = match (&keyword, question.kind) {
            (Some((query, scores)), Kind::Keyword) => self.by_keyword(question, query, scores, wanted),
            (Some((query, scores)), Kind::Hybrid) => self.by_both(question, query, scores, wanted),
            _ => self.by_meaning(question, wanted),
        };
        finish(hits, question)
    }

    fn sieve<'f>(&self, filter: &'f Filter) -> Sieve<'f> {
        let mut versions: Vec<Option<i64>> = match &filter.sources {
            None => self.states.iter().map(|state| state.version_id).collect(),
            Some(_) => vec![None; self.states.len()],
        };
        for (id, version) in filter.sources.iter().flatten() {
            if let Some(number) = self.source_numbers.get(id.as_str()) {
                versions[*number as usize] = Some(*version);
            }
        }
        Sieve { versions, until: filter.until.unwrap_or(i64::MAX), filter }
    }

    fn passes(&self, row: usize, sieve: &Sieve<'_>) -> bool {
        sieve.versions[self.sources[row] as usize] == Some(self.versions[row])
            && self.created[row] <= sieve.until
            && sieve.filter.lets(self.chunk_ids[row])
    }

    /// The keyword score of every row.
    fn score(&self, terms: &[QueryTerm]) -> (KeywordQuery, Vec<f64>) {
        let none = Vec::new();
        let lists: Vec<&Postings> =
            terms.iter().map(|asked| self.terms.get(token(&asked.term).as_str()).unwrap_or(&none)).collect();
        let live = |posting: &&u32| self.live[(**posting >> 8) as usize];
        let all_live = self.live_count == self.len();
        let count = |list: &&Postings| if all_live { list.len() } else { list.iter().filter(live).count() };
        let with_term: Vec<u64> = lists.iter().map(|list| count(list) as u64).collect();
        let query = KeywordQuery::new(terms, &with_term, self.collection());
        let mut scores = vec![0.0; self.len()];
        for (term, list) in lists.into_iter().enumerate() {
            let weight = query.weight(term);
            for posting in list {
                let row = (posting >> 8) as usize;
                scores[row] += part(weight, posting & 255, query.damping(self.lengths[row]));
            }
        }
        (query, scores)
    }

    fn collection(&self) -> Collection {
        Collection::of(self.live_count as u64, self.live_length)
    }

    fn by_keyword(
        &self,
        question: &Question,
        query: &KeywordQuery,
        scores: &[f64],
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        let found = scores.iter().enumerate().filter(|(row, score)| **score > 0.0 && wanted(*row));
        let mut found: Vec<(usize, f64)> = found.map(|(row, score)| (row, *score)).collect();
        // Of each document only one is kept, so that all may be needed.
        if !question.by_source && found.len() > question.k.max(1) {
            let better = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            found.select_nth_unstable_by(question.k.max(1) - 1, better);
            found.truncate(question.k.max(1));
        }
        let hit = |(row, score): (usize, f64)| {
            let share = query.share(score);
            Hit { keyword: Some(share), ..self.hit(row, share) }
        };
        found.into_iter().map(hit).collect()
    }

    fn by_meaning(&self, question: &Question, wanted: impl Fn(usize) -> bool + Sync) -> Vec<Hit> {
        let mut count = question.depth(self.len());
        loop {
            let near = self.nearest(question, count, &wanted);
            let sources: HashSet<u32> = near.iter().map(|(row, _)| self.sources[*row]).collect();
            // Of each document only one is kept: there may be too few yet, though more would be found.
            if question.by_source && sources.len() < question.k && near.len() == count && count < self.len() {
                count = count.saturating_mul(8);
                continue;
            }
            let hit = |(row, cosine)| Hit { semantic: Some(cosine), ..self.hit(row, cosine) };
            return near.into_iter().map(hit).collect();
        }
    }

    fn by_both(
        &self,
        question: &Question,
        query: &KeywordQuery,
        scores: &[f64],
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Hit> {
        let mut rows = self.near_sample(question, &wanted);
        let mut held: Vec<usize> = (0..self.len()).filter(|row| scores[*row] > 0.0 && wanted(*row)).collect();
        let better = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        if question.by_source {
            held.sort_unstable_by(better);
            self.keep_one_each(&mut held);
        } else if held.len() > SAMPLE {
            held.select_nth_unstable_by(SAMPLE - 1, better);
        }
        held.truncate(SAMPLE);
        rows.extend(held);
        let fused = fuse_all(&rows, |row| scores[row], |row| self.vector(row), question.vector.as_deref());
        let hit = |(row, score, semantic): (usize, f64, Option<f64>)| Hit {
            keyword: Some(query.share(scores[row])),
            semantic,
            ..self.hit(row, score)
        };
        fused.into_iter().map(hit).collect()
    }

    /// The nearest passages that are compared by both; one of each document where only one is wanted, so that a long
    /// document does not leave the others out.
    fn near_sample(&self, question: &Question, wanted: impl Fn(usize) -> bool + Sync) -> Vec<usize> {
        let mut count = SAMPLE;
        loop {
            let near = self.nearest(question, count, &wanted);
            let all = near.len() < count || count >= self.len();
            let mut rows: Vec<usize> = near.into_iter().map(|(row, _)| row).collect();
            if question.by_source {
                self.keep_one_each(&mut rows);
            }
            if all || rows.len() >= SAMPLE || !question.by_source {
                rows.truncate(SAMPLE);
                return rows;
            }
            count = count.saturating_mul(8);
        }
    }

    /// Of each document the first.
    fn keep_one_each(&self, rows: &mut Vec<usize>) {
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(self.sources[*row]));
    }

    fn nearest(&self, question: &Question, count: usize, wanted: impl Fn(usize) -> bool + Sync) -> Vec<(usize, f64)> {
        let (Some(vectors), Some(asked)) = (&self.vectors, &question.vector) else { return Vec::new() };
        let row = |place: usize| vectors.rows[place] as usize;
        let near = vectors.matrix.nearest(asked, count, |place| wanted(row(place)));
        near.into_iter().map(|near| (row(near.row), f64::from(near.cosine))).collect()
    }

    fn vector(&self, row: usize) -> Option<Vec<f32>> {
        let vectors = self.vectors.as_ref()?;
        let place = vectors.places.get(row).filter(|place| **place != NONE)?;
        vectors.matrix.row(*place as usize)
    }

    fn hit(&self, row: usize, score: f64) -> Hit {
        let source = u64::from(self.sources[row]);
        Hit { chunk_id: self.chunk_ids[row], source, score, keyword: None, semantic: None }
    }
}

fn size(passages: usize, terms: u64) -> SearchSize {
    SearchSize {
        passages: i64::try_from(passages).unwrap_or(i64::MAX),
        terms: i64::try_from(terms).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
