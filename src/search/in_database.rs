//! Searches a space that does not fit into memory in the database: keywords through the engine's
//! full-text index, meaning by reading every vector once. The ranking is the same, only slower,
//! with four differences: term frequencies count all versions; those of memories count all users;
//! for very common words only the first chunks are compared; and a chunk that shares neither a word
//! nor meaning with the query is not found by what is said about its source.

use std::collections::{HashMap, HashSet};

use memoir_index::fields::{FieldScores, MAX_NAMED, field_part};
use memoir_index::fusion::{Fused, SAMPLE};
use memoir_index::keywords::{Collection, KeywordQuery};
use memoir_index::rank::{FIRST, finish, fuse_all};
use memoir_index::terms::{QueryTerm, for_each_token, token};
use memoir_index::vectors::{Matrix, unit};
use memoir_index::{
    EntryRow, Filter, Hit, Kind, Owner, OwnerKind, PreparedQuery, SearchSize, VectorRow, key_of,
};

use crate::base::ids::Space;
use crate::model::scope::QueryScope;
use crate::store::{PlacedVector, Store, StoreError, VectorPart};

/// The rarest terms that together match at most this many chunks select the candidates.
const CANDIDATES: u64 = 5_000;
/// Maximum chunks analysed for one query, if even the rarest term is common.
const MAX_ANALYSED: usize = 50_000;
/// A term in more chunks than this counts as common.
const COMMON: i64 = 100_000;
/// Chunks or vectors read at once.
const PAGE: usize = 4_000;
/// Ids per statement.
const AT_ONCE: usize = 500;

/// A search of one space in the database.
pub struct DatabaseSearch<'s> {
    pub store: &'s Store,
    pub space: &'s Space,
    pub kind: OwnerKind,
    /// Which sources are visible; none for other kinds, where the filter decides.
    pub scope: Option<&'s QueryScope>,
    pub size: SearchSize,
    /// The model of the vectors.
    pub model: Option<&'s str>,
}

/// An entry with its score.
#[derive(Debug, Clone, Copy)]
struct Scored {
    entry_id: i64,
    owner_id: i64,
    /// The number of its group.
    group: u64,
    score: f64,
}

impl DatabaseSearch<'_> {
    /// The best chunks for a query. The statements limit the visible sources; the filter limits the
    /// chunks.
    pub async fn search(
        &self,
        question: &PreparedQuery,
        filter: &Filter,
    ) -> Result<Vec<Hit>, StoreError> {
        let wanted = question.depth(usize::MAX);
        let hits = match question.kind {
            Kind::Keyword => {
                let query = self.query(&question.terms).await?;
                let found = self.holders(question, &query, filter, wanted).await?;
                let hit = |found: Scored| {
                    let share = query.share(found.score);
                    let fields = question.fields.of(found.group);
                    Hit {
                        keyword: Some(share),
                        fields: Some(query.share(fields)),
                        ..self.plain(found, share)
                    }
                };

                found.into_iter().map(hit).collect()
            }
            Kind::Semantic => {
                let near = self.nearest(question, filter, question.k.max(1)).await?;
                near.into_iter()
                    .map(|near| Hit {
                        semantic: Some(near.score),
                        ..self.plain(near, near.score)
                    })
                    .collect()
            }
            Kind::Hybrid => self.by_both(question, filter).await?,
        };

        Ok(finish(hits, question))
    }

    /// The query with its terms weighted by the whole space.
    async fn query(&self, terms: &[QueryTerm]) -> Result<KeywordQuery, StoreError> {
        let tokens: Vec<String> = terms.iter().map(|asked| token(&asked.term)).collect();

        let counts = self
            .store
            .count_tokens(self.space, self.kind, &tokens, COMMON)
            .await?;
        let counts: Vec<u64> = counts.into_iter().map(unsigned).collect();
        let collection = Collection::of(unsigned(self.size.entries), unsigned(self.size.terms));
        Ok(KeywordQuery::new(terms, &counts, collection))
    }

    /// What entries about sources add to the chunks of each source.
    pub async fn field_scores(&self, terms: &[QueryTerm]) -> Result<FieldScores, StoreError> {
        let query = self.query(terms).await?;
        let few = |term: &usize| {
            let sources = query.terms()[*term].chunks;
            (1..=MAX_NAMED as u64).contains(&sources)
        };
        let tokens: HashMap<String, usize> = (0..terms.len())
            .filter(few)
            .map(|term| (token(&terms[term].term), term))
            .collect();
        let wanted: Vec<String> = tokens.keys().cloned().collect();

        let mut fields = FieldScores::default();
        let mut after = 0;
        while !wanted.is_empty() {
            let page = self
                .store
                .list_holders(self.space, self.kind, self.scope, &wanted, after, PAGE)
                .await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for entry in &page {
                let mut score = 0.0;
                for_each_token(&entry.tokens, |token, count| {
                    let term = tokens.get(token);
                    score += term.map_or(0.0, |term| field_part(&query, *term, count));
                });
                fields.add(key_of(&entry.group_id), score);
            }

            if page.len() < PAGE {
                break;
            }
        }

        Ok(fields)
    }

    /// Chunks with the query's rarest terms, scored by all of them; with any of its terms, if
    /// others could rank higher.
    async fn holders(
        &self,
        question: &PreparedQuery,
        query: &KeywordQuery,
        filter: &Filter,
        wanted: usize,
    ) -> Result<Vec<Scored>, StoreError> {
        let order = query.by_rarity();
        let rare = query.rarest(CANDIDATES).len();
        let found = self
            .score(question, query, &order[..rare], filter, wanted)
            .await?;

        // The highest possible score of a chunk without these terms.
        let others: f64 = order[rare..].iter().map(|term| query.weight(*term)).sum();
        let others = others + question.fields.most();
        if rare == order.len()
            || (found.len() >= wanted && found.last().is_some_and(|last| last.score >= others))
        {
            return Ok(found);
        }
        self.score(question, query, &order, filter, wanted).await
    }

    /// The best chunks that contain any of some terms.
    async fn score(
        &self,
        question: &PreparedQuery,
        query: &KeywordQuery,
        terms: &[usize],
        filter: &Filter,
        wanted: usize,
    ) -> Result<Vec<Scored>, StoreError> {
        let tokens: Vec<String> = terms
            .iter()
            .map(|number| token(&query.terms()[*number].term))
            .collect();

        let mut best = Vec::new();
        let (mut after, mut read) = (0, 0);
        while !tokens.is_empty() && read < MAX_ANALYSED {
            let page = self
                .store
                .list_holders(self.space, self.kind, self.scope, &tokens, after, PAGE)
                .await?;

            let Some(last) = page.last() else { break };
            after = last.id;
            read += page.len();

            for some in page.chunks(AT_ONCE) {
                let seen = |e: &&EntryRow| {
                    self.lets(filter, e.owner_id, &e.group_id, e.version_id, e.created_at)
                };
                for entry in some.iter().filter(seen) {
                    let group = key_of(&entry.group_id);
                    best.push(Scored {
                        entry_id: entry.id,
                        owner_id: entry.owner_id,
                        group,
                        score: score(query, entry) + question.fields.of(group),
                    });
                }
                // Too many at once would delay other requests.
                tokio::task::yield_now().await;
            }

            keep_best(&mut best, wanted, question.by_group);
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
    ) -> Result<Vec<Scored>, StoreError> {
        let (Some(model), Some(asked)) = (self.model, &question.vector) else {
            return Ok(Vec::new());
        };
        let asked: Vec<f32> = unit(asked).collect();
        if asked.iter().all(|value| *value == 0.0) {
            return Ok(Vec::new());
        }

        // The database's copy ignores visibility: if little is visible, the pages below are faster.
        let narrow = self
            .scope
            .map_or(filter.groups.is_some(), QueryScope::is_narrow);
        if self.store.compares_vectors() && !narrow && filter.owners.is_none() {
            match self
                .compared(model, &asked, (filter, question.by_group), wanted)
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
                .list_placed_vectors(
                    self.space,
                    self.kind,
                    self.scope,
                    model,
                    VectorPart::After(after, PAGE),
                )
                .await?;

            let Some(last) = page.last() else { break };
            after = last.vector.entry_id;
            for some in page.chunks(AT_ONCE) {
                let seen = |p: &&PlacedVector| {
                    self.lets(filter, p.owner_id, &p.group_id, p.version_id, p.created_at)
                };
                for placed in some.iter().filter(seen) {
                    best.extend(scored(&asked, placed));
                }

                tokio::task::yield_now().await;
            }

            keep_best(&mut best, wanted, question.by_group);
            if page.len() < PAGE {
                break;
            }
        }

        Ok(best)
    }

    /// The entries nearest in meaning, found by the database. It ignores earlier versions and excluded
    /// sources; `None` if too few results are left without them. Scored here, so that the order is the same
    /// everywhere.
    async fn compared(
        &self,
        model: &str,
        asked: &[f32],
        (filter, by_group): (&Filter, bool),
        wanted: usize,
    ) -> Result<Option<Vec<Scored>>, StoreError> {
        // A scan for fewer results costs the same.
        let ids = self
            .store
            .list_nearest(self.space, self.kind, model, asked, PAGE)
            .await?;

        let mut best = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            let placed = self.store.list_placed_vectors(
                self.space,
                self.kind,
                self.scope,
                model,
                VectorPart::Of(some),
            );

            let seen = |p: &PlacedVector| {
                self.lets(filter, p.owner_id, &p.group_id, p.version_id, p.created_at)
            };
            for placed in placed.await?.iter().filter(|placed| seen(placed)) {
                best.extend(scored(asked, placed));
            }

            keep_best(&mut best, wanted, by_group);
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
    ) -> Result<Vec<Hit>, StoreError> {
        let query = self.query(&question.terms).await?;
        let held = self.holders(question, &query, filter, SAMPLE).await?;
        let near = self.nearest(question, filter, SAMPLE).await?;
        let all: HashMap<i64, Scored> = held
            .iter()
            .chain(&near)
            .map(|found| (found.entry_id, *found))
            .collect();

        let mut scores: HashMap<i64, f64> = held
            .iter()
            .map(|found| (found.entry_id, found.score))
            .collect();

        let ids: Vec<i64> = all.keys().copied().collect();
        let unscored: Vec<i64> = ids
            .iter()
            .filter(|id| !scores.contains_key(id))
            .copied()
            .collect();

        for some in unscored.chunks(AT_ONCE) {
            for entry in self.store.list_entries_of(self.space, some).await? {
                let fields = question.fields.of(key_of(&entry.group_id));
                scores.insert(entry.id, score(&query, &entry) + fields);
            }
        }

        let mut matrix = Matrix::new(question.vector.as_ref().map_or(0, Vec::len));
        let mut rows: HashMap<i64, usize> = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let Some(model) = self.model else { break };
            let found = self
                .store
                .list_vectors_of(self.space, self.kind, model, some)
                .await?;
            for row in found {
                if matrix.push_bytes(&row.vector) {
                    rows.insert(row.entry_id, matrix.len() - 1);
                }
            }
        }

        let keyword = |id: i64| scores.get(&id).copied().unwrap_or(0.0);
        let fused = fuse_all(
            &ids,
            keyword,
            |id| matrix.row(*rows.get(&id)?),
            |id, asked| matrix.cosine(asked, *rows.get(&id)?),
            question.vector.as_deref(),
        );

        let first: Vec<i64> = fused.iter().take(FIRST).map(|(one, _)| one.id).collect();
        let mut covered: HashMap<i64, f64> = HashMap::new();
        for entry in self.store.list_entries_of(self.space, &first).await? {
            let among = query.terms_among(&entry.tokens);
            let fields = question.fields.of(key_of(&entry.group_id));
            covered.insert(entry.id, query.covered(|term| among[term], fields));
        }

        let hit = |(fused, semantic): (Fused<i64>, Option<f64>)| {
            let found = *all.get(&fused.id)?;
            Some(Hit {
                covered: covered.get(&fused.id).copied(),
                keyword: Some(query.share(keyword(fused.id))),
                fields: Some(query.share(question.fields.of(found.group))),
                semantic,
                standing: Some((&fused).into()),
                ..self.plain(found, fused.score)
            })
        };

        Ok(fused.into_iter().filter_map(hit).collect())
    }

    /// Whether the filter accepts an entry. With a scope, the statements have already selected
    /// sources and versions, but the filter may name fewer of them.
    fn lets(
        &self,
        filter: &Filter,
        owner_id: i64,
        group_id: &str,
        version_id: i64,
        created_at: i64,
    ) -> bool {
        if self.scope.is_some() {
            filter.names(owner_id) && filter.lets_version(group_id, version_id)
        } else {
            filter.lets(owner_id, group_id, version_id, created_at)
        }
    }

    fn plain(&self, found: Scored, score: f64) -> Hit {
        Hit {
            owner: Owner {
                kind: self.kind,
                id: found.owner_id,
            },
            entry_id: found.entry_id,
            group: found.group,
            score,
            keyword: None,
            fields: None,
            covered: None,
            semantic: None,
            standing: None,
        }
    }
}

/// The best entries so far; if only one per group is wanted, the best of each group.
fn keep_best(best: &mut Vec<Scored>, count: usize, by_group: bool) {
    best.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then(a.entry_id.cmp(&b.entry_id))
    });

    if by_group {
        let mut seen = HashSet::new();
        best.retain(|found| seen.insert(found.group));
    }

    best.truncate(count);
}

/// The keyword score of an entry by its own words.
fn score(query: &KeywordQuery, entry: &EntryRow) -> f64 {
    let length = u32::try_from(entry.length).unwrap_or(u32::MAX);
    query.score(&entry.tokens, length)
}

/// A vector's entry with its cosine; none for a vector of another length.
fn scored(asked: &[f32], placed: &PlacedVector) -> Option<Scored> {
    let score = cosine(asked, &placed.vector)?;
    Some(Scored {
        entry_id: placed.vector.entry_id,
        owner_id: placed.owner_id,
        group: key_of(&placed.group_id),
        score,
    })
}

fn cosine(asked: &[f32], row: &VectorRow) -> Option<f64> {
    // As an index in memory computes it.
    let mut one = Matrix::new(asked.len());
    one.push_bytes(&row.vector)
        .then(|| one.cosine(asked, 0).map(f64::from))?
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
