//! Searches a space that does not fit into memory in the database: keywords through the engine's
//! full-text index, meaning by reading every vector once. The ranking is the same, only slower,
//! with two differences: term frequencies count all versions, and for very common words only the
//! first chunks are compared.

use std::collections::{HashMap, HashSet};

use super::fusion::{Fused, SAMPLE};
use super::index::Filter;
use super::keywords::{Collection, KeywordQuery};
use super::rank::{Hit, Kind, PreparedQuery, finish, fuse_all};
use super::terms::token;
use super::vectors::{dot, from_bytes, unit};
use crate::base::ids::Space;
use crate::model::query::QueryScope;
use crate::model::search::{SearchSize, VectorRow};
use crate::store::{Store, StoreError};

/// The rarest terms that together match at most this many chunks select the candidates.
const CANDIDATES: u64 = 5_000;
/// Maximum chunks analysed for one query, if even the rarest term is common.
const MOST: usize = 50_000;
/// A term in more chunks than this counts as common.
const COMMON: i64 = 100_000;
/// Chunks or vectors read at once.
const PAGE: usize = 4_000;
/// Ids per statement.
const AT_ONCE: usize = 500;

/// A search of one space in the database.
pub struct Beyond<'s> {
    pub store: &'s Store,
    pub space: &'s Space,
    pub scope: &'s QueryScope,
    pub size: SearchSize,
    /// The model of the vectors.
    pub model: Option<&'s str>,
}

/// A chunk with its score.
#[derive(Debug, Clone, Copy)]
struct Scored {
    chunk_id: i64,
    /// The number of its source.
    source: u64,
    score: f64,
}

/// Numbers every source.
#[derive(Default)]
struct Numbers(HashMap<String, u64>);

impl Numbers {
    fn of(&mut self, source_id: &str) -> u64 {
        if let Some(known) = self.0.get(source_id) {
            return *known;
        }

        let next = self.0.len() as u64;
        self.0.insert(source_id.to_owned(), next);
        next
    }
}

impl Beyond<'_> {
    /// The best chunks for a query. The statements limit the visible sources; the filter limits the
    /// chunks.
    pub async fn search(
        &self,
        question: &PreparedQuery,
        filter: &Filter,
    ) -> Result<Vec<Hit>, StoreError> {
        let mut numbers = Numbers::default();
        let wanted = question.depth(usize::MAX);
        let hits = match question.kind {
            Kind::Keyword => {
                let query = self.query(question).await?;
                let found = self
                    .holders(question, &query, filter, wanted, &mut numbers)
                    .await?;
                let hit = |found: Scored| {
                    let share = query.share(found.score);
                    Hit {
                        keyword: Some(share),
                        ..plain(found, share)
                    }
                };

                found.into_iter().map(hit).collect()
            }
            Kind::Semantic => {
                let near = self
                    .nearest(question, filter, question.k.max(1), &mut numbers)
                    .await?;
                near.into_iter()
                    .map(|near| Hit {
                        semantic: Some(near.score),
                        ..plain(near, near.score)
                    })
                    .collect()
            }
            Kind::Hybrid => self.by_both(question, filter, &mut numbers).await?,
        };

        Ok(finish(hits, question))
    }

    /// The query with its terms weighted by the whole space.
    async fn query(&self, question: &PreparedQuery) -> Result<KeywordQuery, StoreError> {
        let tokens: Vec<String> = question
            .terms
            .iter()
            .map(|asked| token(&asked.term))
            .collect();

        let counts = self.store.count_tokens(self.space, &tokens, COMMON).await?;
        let counts: Vec<u64> = counts.into_iter().map(unsigned).collect();
        let collection = Collection::of(unsigned(self.size.chunks), unsigned(self.size.terms));
        Ok(KeywordQuery::new(&question.terms, &counts, collection))
    }

    /// Chunks with the query's rarest terms, scored by all of them; with any of its terms, if
    /// others could rank higher.
    async fn holders(
        &self,
        question: &PreparedQuery,
        query: &KeywordQuery,
        filter: &Filter,
        wanted: usize,
        numbers: &mut Numbers,
    ) -> Result<Vec<Scored>, StoreError> {
        let order = query.by_rarity();
        let rare = query.rarest(CANDIDATES).len();
        let found = self
            .score(question, query, &order[..rare], filter, wanted, numbers)
            .await?;

        // The highest possible score of a chunk without these terms.
        let others: f64 = order[rare..].iter().map(|term| query.weight(*term)).sum();
        if rare == order.len()
            || (found.len() >= wanted && found.last().is_some_and(|last| last.score >= others))
        {
            return Ok(found);
        }
        self.score(question, query, &order, filter, wanted, numbers)
            .await
    }

    /// The best chunks that contain any of some terms.
    async fn score(
        &self,
        question: &PreparedQuery,
        query: &KeywordQuery,
        terms: &[usize],
        filter: &Filter,
        wanted: usize,
        numbers: &mut Numbers,
    ) -> Result<Vec<Scored>, StoreError> {
        let tokens: Vec<String> = terms
            .iter()
            .map(|number| token(&query.terms()[*number].term))
            .collect();

        let mut best = Vec::new();
        let (mut after, mut read) = (0, 0);
        while !tokens.is_empty() && read < MOST {
            let page = self
                .store
                .list_holders(self.space, self.scope, &tokens, after, PAGE)
                .await?;

            let Some(last) = page.last() else { break };
            after = last.chunk_id;
            read += page.len();

            for some in page.chunks(AT_ONCE) {
                for chunk in some.iter().filter(|chunk| filter.lets(chunk.chunk_id)) {
                    let score = query.score(
                        &chunk.tokens,
                        u32::try_from(chunk.length).unwrap_or(u32::MAX),
                    );
                    best.push(Scored {
                        chunk_id: chunk.chunk_id,
                        source: numbers.of(&chunk.source_id),
                        score,
                    });
                }
                // Too many at once would delay other requests.
                tokio::task::yield_now().await;
            }

            keep_best(&mut best, wanted, question.by_source);
            if page.len() < PAGE {
                break;
            }
        }

        Ok(best)
    }

    /// The nearest chunks, by comparing every vector; in the database, if it can.
    async fn nearest(
        &self,
        question: &PreparedQuery,
        filter: &Filter,
        wanted: usize,
        numbers: &mut Numbers,
    ) -> Result<Vec<Scored>, StoreError> {
        let (Some(model), Some(asked)) = (self.model, &question.vector) else {
            return Ok(Vec::new());
        };
        let asked: Vec<f32> = unit(asked).collect();
        if asked.iter().all(|value| *value == 0.0) {
            return Ok(Vec::new());
        }

        // The database's copy ignores visibility: if little is visible, the pages below are faster.
        if self.store.compares_vectors() && !self.scope.is_narrow() && filter.chunks.is_none() {
            match self
                .compared(model, &asked, question.by_source, wanted, numbers)
                .await
            {
                Ok(Some(best)) => return Ok(best),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "the pgvector query failed; reading vectors one by one");
                }
            }
        }

        let mut best = Vec::new();
        let mut after = 0;
        loop {
            let page = self
                .store
                .list_placed_vectors(self.space, self.scope, model, None, after, PAGE)
                .await?;

            let Some((_, last)) = page.last() else { break };
            after = last.chunk_id;
            for some in page.chunks(AT_ONCE) {
                for (source_id, vector) in some
                    .iter()
                    .filter(|(_, vector)| filter.lets(vector.chunk_id))
                {
                    if let Some(score) = cosine(&asked, vector) {
                        best.push(Scored {
                            chunk_id: vector.chunk_id,
                            source: numbers.of(source_id),
                            score,
                        });
                    }
                }

                tokio::task::yield_now().await;
            }

            keep_best(&mut best, wanted, question.by_source);
            if page.len() < PAGE {
                break;
            }
        }

        Ok(best)
    }

    /// The same, found by the database. It ignores earlier versions and excluded sources; `None` if
    /// too few results are left without them. Scored here, so that the order is the same
    /// everywhere.
    async fn compared(
        &self,
        model: &str,
        asked: &[f32],
        by_source: bool,
        wanted: usize,
        numbers: &mut Numbers,
    ) -> Result<Option<Vec<Scored>>, StoreError> {
        // A scan for fewer results costs the same.
        let ids = self
            .store
            .list_nearest(self.space, model, asked, PAGE)
            .await?;

        let mut best = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            let placed = self.store.list_placed_vectors(
                self.space,
                self.scope,
                model,
                Some(some),
                0,
                AT_ONCE,
            );

            for (source_id, vector) in placed.await? {
                if let Some(score) = cosine(asked, &vector) {
                    best.push(Scored {
                        chunk_id: vector.chunk_id,
                        source: numbers.of(&source_id),
                        score,
                    });
                }
            }

            keep_best(&mut best, wanted, by_source);
            // They are sorted, so the rest is no nearer.
            if best.len() >= wanted {
                return Ok(Some(best));
            }
        }

        Ok((ids.len() < PAGE).then_some(best))
    }

    async fn by_both(
        &self,
        question: &PreparedQuery,
        filter: &Filter,
        numbers: &mut Numbers,
    ) -> Result<Vec<Hit>, StoreError> {
        let query = self.query(question).await?;
        let held = self
            .holders(question, &query, filter, SAMPLE, numbers)
            .await?;
        let near = self.nearest(question, filter, SAMPLE, numbers).await?;
        let sources: HashMap<i64, u64> = held
            .iter()
            .chain(&near)
            .map(|found| (found.chunk_id, found.source))
            .collect();

        let mut scores: HashMap<i64, f64> = held
            .iter()
            .map(|found| (found.chunk_id, found.score))
            .collect();

        let ids: Vec<i64> = sources.keys().copied().collect();
        let unscored: Vec<i64> = ids
            .iter()
            .filter(|id| !scores.contains_key(id))
            .copied()
            .collect();

        for some in unscored.chunks(AT_ONCE) {
            for chunk in self.store.list_terms_of(self.space, some).await? {
                let length = u32::try_from(chunk.length).unwrap_or(u32::MAX);
                scores.insert(chunk.chunk_id, query.score(&chunk.tokens, length));
            }
        }

        let mut vectors: HashMap<i64, Vec<f32>> = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let Some(model) = self.model else { break };
            let found = self.store.list_vectors_of(self.space, model, some).await?;
            vectors.extend(
                found
                    .into_iter()
                    .map(|row| (row.chunk_id, unit(&from_bytes(&row.vector)).collect())),
            );
        }

        let keyword = |id: i64| scores.get(&id).copied().unwrap_or(0.0);
        let fused = fuse_all(
            &ids,
            keyword,
            |id| vectors.get(&id).cloned(),
            question.vector.as_deref(),
        );

        let hit = |(fused, semantic): (Fused<i64>, Option<f64>)| Hit {
            chunk_id: fused.id,
            source: sources.get(&fused.id).copied().unwrap_or(u64::MAX),
            score: fused.score,
            keyword: Some(query.share(keyword(fused.id))),
            semantic,
            standing: Some((&fused).into()),
        };

        Ok(fused.into_iter().map(hit).collect())
    }
}

/// The best so far; one per source, where only one counts.
fn keep_best(best: &mut Vec<Scored>, count: usize, by_source: bool) {
    best.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then(a.chunk_id.cmp(&b.chunk_id))
    });

    if by_source {
        let mut seen = HashSet::new();
        best.retain(|found| seen.insert(found.source));
    }

    best.truncate(count);
}

fn plain(found: Scored, score: f64) -> Hit {
    Hit {
        chunk_id: found.chunk_id,
        source: found.source,
        score,
        keyword: None,
        semantic: None,
        standing: None,
    }
}

fn cosine(asked: &[f32], row: &VectorRow) -> Option<f64> {
    let vector: Vec<f32> = unit(&from_bytes(&row.vector)).collect();
    (vector.len() == asked.len()).then(|| f64::from(dot(asked, &vector)))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
