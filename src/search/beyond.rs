//! A space that does not fit into memory, searched in the database: by words through the engine's own full-text index,
//! by meaning by reading every vector once. The ranking is the same, only slower.

use std::collections::{HashMap, HashSet};

use super::fusion::SAMPLE;
use super::index::Filter;
use super::keywords::{Collection, KeywordQuery};
use super::rank::{Hit, Kind, Question, finish, fuse_all};
use super::terms::token;
use super::vectors::{dot, from_bytes, unit};
use crate::base::ids::Space;
use crate::model::search::{PassageRow, SearchSize, VectorRow};
use crate::store::{Store, StoreError};

/// The rarest terms that together match no more passages than this lead to the candidates.
const CANDIDATES: u64 = 5_000;
/// Passages that are taken apart for one question at the most, where even the rarest term is common.
const MOST: usize = 20_000;
/// Beyond this a term is common, whatever its number.
const COMMON: i64 = 100_000;
/// Vectors that are read at once.
const PAGE: usize = 4_000;
/// Ids in one statement.
const AT_ONCE: usize = 500;

/// A search of one space, in the database.
pub struct Beyond<'s> {
    pub store: &'s Store,
    pub space: &'s Space,
    pub size: SearchSize,
    /// The model of the vectors.
    pub model: Option<&'s str>,
}

/// Which passages may be seen; documents have numbers.
struct Sieve<'f> {
    versions: HashMap<&'f str, (i64, u64)>,
    filter: &'f Filter,
}

impl Sieve<'_> {
    /// The number of a passage's document, if it may be seen.
    fn pass(&self, passage: &PassageRow) -> Option<u64> {
        let (version, number) = self.versions.get(passage.source_id.as_str())?;
        let fine = *version == passage.version_id
            && self.filter.until.is_none_or(|until| passage.created_at <= until)
            && self.filter.chunks.as_ref().is_none_or(|chunks| chunks.contains(&passage.chunk_id));
        fine.then_some(*number)
    }
}

impl Beyond<'_> {
    /// The best passages for a question; the filter names every document that may be seen.
    pub async fn search(&self, question: &Question, filter: &Filter) -> Result<Vec<Hit>, StoreError> {
        let named = filter.sources.iter().flatten();
        let versions = named.zip(0..).map(|((id, version), number)| (id.as_str(), (*version, number))).collect();
        let sieve = Sieve { versions, filter };
        let hits = match question.kind {
            Kind::Keyword => {
                let query = self.query(question).await?;
                let found = self.holders(&query, &sieve).await?;
                let hit = |(passage, source, score): &(PassageRow, u64, f64)| {
                    let share = query.share(*score);
                    let keyword = Some(share);
                    Hit { chunk_id: passage.chunk_id, source: *source, score: share, keyword, semantic: None }
                };
                found.iter().map(hit).collect()
            }
            Kind::Semantic => {
                let near = self.nearest(question, question.depth(usize::MAX), &sieve).await?;
                near.into_iter()
                    .map(|(chunk_id, source, cosine)| Hit {
                        chunk_id,
                        source,
                        score: cosine,
                        keyword: None,
                        semantic: Some(cosine),
                    })
                    .collect()
            }
            Kind::Hybrid => self.by_both(question, &sieve).await?,
        };
        Ok(finish(hits, question))
    }

    /// The question with its terms weighed by the whole space.
    async fn query(&self, question: &Question) -> Result<KeywordQuery, StoreError> {
        let tokens: Vec<String> = question.terms.iter().map(|asked| token(&asked.term)).collect();
        let counts = self.store.count_tokens(self.space, &tokens, COMMON).await?;
        let counts: Vec<u64> = counts.into_iter().map(unsigned).collect();
        let collection = Collection::of(unsigned(self.size.passages), unsigned(self.size.terms));
        Ok(KeywordQuery::new(&question.terms, &counts, collection))
    }

    /// Passages with the question's rarest terms, scored by all of them.
    async fn holders(
        &self,
        query: &KeywordQuery,
        sieve: &Sieve<'_>,
    ) -> Result<Vec<(PassageRow, u64, f64)>, StoreError> {
        let tokens: Vec<String> = query.rarest(CANDIDATES).iter().map(|n| token(&query.terms()[*n].term)).collect();
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.store.list_holders(self.space, &tokens, MOST).await?;
        let score = |passage: PassageRow| {
            let source = sieve.pass(&passage)?;
            let score = query.score(&passage.tokens, u32::try_from(passage.length).unwrap_or(u32::MAX));
            Some((passage, source, score))
        };
        let mut scored = Vec::new();
        for some in found.chunks(500) {
            scored.extend(some.iter().cloned().filter_map(score));
            // Many at once would keep other requests waiting.
            tokio::task::yield_now().await;
        }
        Ok(scored)
    }

    /// The nearest passages with their documents and cosines, every vector compared.
    async fn nearest(
        &self,
        question: &Question,
        count: usize,
        sieve: &Sieve<'_>,
    ) -> Result<Vec<(i64, u64, f64)>, StoreError> {
        let (Some(model), Some(asked)) = (self.model, &question.vector) else { return Ok(Vec::new()) };
        let asked: Vec<f32> = unit(asked).collect();
        if asked.iter().all(|value| *value == 0.0) {
            return Ok(Vec::new());
        }
        let mut best: Vec<(i64, u64, f64)> = Vec::new();
        let mut after = 0;
        loop {
            let rows = self.store.list_placed_vectors(self.space, model, after, PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            after = last.chunk_id;
            let full = rows.len() == PAGE;
            for some in rows.chunks(500) {
                for (passage, vector) in some {
                    if let Some(source) = sieve.pass(passage)
                        && let Some(cosine) = cosine(&asked, vector)
                    {
                        best.push((passage.chunk_id, source, cosine));
                    }
                }
                tokio::task::yield_now().await;
            }
            keep_best(&mut best, count, question.by_source);
            if !full {
                break;
            }
        }
        Ok(best)
    }

    async fn by_both(&self, question: &Question, sieve: &Sieve<'_>) -> Result<Vec<Hit>, StoreError> {
        let query = self.query(question).await?;
        let mut held = self.holders(&query, sieve).await?;
        held.retain(|(_, _, score)| *score > 0.0);
        held.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.chunk_id.cmp(&b.0.chunk_id)));
        held.truncate(SAMPLE);
        let one_each = Question { by_source: false, ..question.clone() };
        let near = self.nearest(&one_each, SAMPLE, sieve).await?;
        let mut sources: HashMap<i64, u64> = near.iter().map(|(id, source, _)| (*id, *source)).collect();
        let mut scores: HashMap<i64, f64> = HashMap::new();
        for (passage, source, score) in &held {
            sources.insert(passage.chunk_id, *source);
            scores.insert(passage.chunk_id, *score);
        }
        let ids: Vec<i64> = sources.keys().copied().collect();
        let unscored: Vec<i64> = ids.iter().filter(|id| !scores.contains_key(id)).copied().collect();
        for some in unscored.chunks(AT_ONCE) {
            for passage in self.store.list_terms_of(self.space, some).await? {
                let length = u32::try_from(passage.length).unwrap_or(u32::MAX);
                scores.insert(passage.chunk_id, query.score(&passage.tokens, length));
            }
        }
        let mut vectors: HashMap<i64, Vec<f32>> = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let Some(model) = self.model else { break };
            let found = self.store.list_vectors_of(self.space, model, some).await?;
            vectors.extend(found.into_iter().map(|row| (row.chunk_id, unit(&from_bytes(&row.vector)).collect())));
        }
        let keyword = |id: i64| scores.get(&id).copied().unwrap_or(0.0);
        let fused = fuse_all(&ids, keyword, |id| vectors.get(&id).cloned(), question.vector.as_deref());
        let hit = |(chunk_id, score, semantic): (i64, f64, Option<f64>)| {
            let source = sources.get(&chunk_id).copied().unwrap_or(u64::MAX);
            Hit { chunk_id, source, score, keyword: Some(query.share(keyword(chunk_id))), semantic }
        };
        Ok(fused.into_iter().map(hit).collect())
    }
}

/// The best so far; where one of each document counts, that one.
fn keep_best(best: &mut Vec<(i64, u64, f64)>, count: usize, by_source: bool) {
    best.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    if by_source {
        let mut seen = HashSet::new();
        best.retain(|(_, source, _)| seen.insert(*source));
    }
    best.truncate(count);
}

fn cosine(asked: &[f32], row: &VectorRow) -> Option<f64> {
    let vector: Vec<f32> = unit(&from_bytes(&row.vector)).collect();
    (vector.len() == asked.len()).then(|| f64::from(dot(asked, &vector)))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
