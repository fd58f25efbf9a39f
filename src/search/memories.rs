//! Searches the memories of a user: by words, by meaning and by words of the same meaning, with a
//! share of what was said before and after, because "Yes, last Tuesday" means nothing alone, of who
//! speaks, and of the time that a question names.

mod neighbours;

use std::collections::{BTreeSet, HashMap, HashSet};

use memoir_embedded_model::EmbeddedModel;
use memoir_index::rank::{self, falling};
use memoir_index::{Filter, Hit, Kind, OwnerKind};

use super::time_words::TimeWords;
use super::{EntryQuery, FoundEntries, Search, SearchError};
use crate::base::clock::Timestamp;
use crate::base::ids::{ThreadId, memory_group};
use crate::llm::Session;
use crate::model::memory::{MemoryKind, MemoryOutline, searched_text};

/// Memories that are compared.
const CANDIDATES: usize = 300;
/// The share of the messages next to a message, and of those beside them.
pub const NEIGHBOUR: f64 = 1.0 / 3.0;
const BESIDE: f64 = 0.15;
/// The shares of what an index compares (words, and meaning as a whole), and of words of the same
/// meaning. Together they spread standings about as far as the first alone would.
const COMPARED: f64 = 0.8;
const SIMILAR_WORDS: f64 = 0.4;
/// What a message gains if the question names who speaks, and if it names its time; in standard
/// deviations, like the scores that are added up.
const SPEAKER: f64 = 1.0;
const TIME: f64 = 0.8;

/// How close a meaning must be to be clearly that of the text.
const CLEAR_COSINE: f64 = 0.3;

/// Evidence below which the memories found have nothing to do with a query. Of 180 questions about
/// somebody else's chats, a third reached it; of as many about the right ones, 19 of 20.
const CONCERNS: f64 = 0.32;
/// The share of a query, also in other words, that one memory needs to concern it.
const ENOUGH_WORDS: f64 = 0.5;

/// A search among the memories of one user.
#[derive(Debug, Clone, Copy)]
pub struct MemoryQuery<'q> {
    pub user_id: &'q str,
    pub text: &'q str,
    pub kind: Kind,
    /// Maximum number of results.
    pub k: usize,
    pub min_score: Option<f64>,
    /// Memories that have all of these tags.
    pub tags: &'q [String],
    /// What was known at this time.
    pub as_of: Option<Timestamp>,
    /// Nothing older.
    pub since: Option<Timestamp>,
    /// A memory that is not part of the result.
    pub exclude: Option<&'q str>,
    /// Only memories of this thread.
    pub thread: Option<&'q str>,
    /// How many of those that last are returned besides the results.
    pub lasting: usize,
}

impl<'q> MemoryQuery<'q> {
    /// A hybrid search among all current memories of a user.
    pub fn of(user_id: &'q str, text: &'q str, k: usize) -> Self {
        Self {
            user_id,
            text,
            kind: Kind::Hybrid,
            k,
            min_score: None,
            tags: &[],
            as_of: None,
            since: None,
            exclude: None,
            thread: None,
            lasting: 0,
        }
    }
}

/// The scores of a memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryScores {
    /// Its own scores.
    pub hit: Hit,
    /// What orders memories: how far it is above the average one in words and meaning, with the
    /// shares below; in standard deviations.
    pub standing: f64,
    /// Words that mean the same as those of the query; `None` if only one part is compared, or if
    /// the text is long.
    pub similar_words: Option<SimilarWords>,
    /// The share of what was said before and after it.
    pub neighbours: f64,
    /// The share of who speaks, and of its time.
    pub speaker: f64,
    pub time: f64,
    /// How well it fits, from 0 to 1.
    pub score: f64,
}

/// How much of a query a memory has, also in other words: "dad" for "father".
#[derive(Debug, Clone, Copy, Default)]
pub struct SimilarWords {
    /// The share of the query, from 0 to 1; words that are rare among the candidates count more.
    pub share: f64,
    /// How far it is above the average one, in standard deviations.
    pub standing: f64,
}

impl MemoryScores {
    /// Whether a text has to do with the memory itself: by a word, by a meaning at least this close,
    /// by who speaks, or by its time.
    pub fn is_related(&self, least_cosine: f64) -> bool {
        rank::is_related(&self.hit, least_cosine) || self.speaker > 0.0 || self.time > 0.0
    }

    /// Whether the memory has a word of the text, or clearly its meaning. Enough for a statement,
    /// which is short and says one thing.
    pub fn clearly_matches(&self) -> bool {
        rank::is_related(&self.hit, CLEAR_COSINE)
    }
}

/// Whether one of the best memories has to do with the query.
pub fn concerns<'s>(best: impl Iterator<Item = &'s MemoryScores>) -> bool {
    let best: Vec<&MemoryScores> = best.take(rank::FIRST).collect();
    let hits: Vec<Hit> = best.iter().map(|scores| scores.hit).collect();
    let has_words = |scores: &&MemoryScores| {
        let share = scores.similar_words.map_or(0.0, |one| one.share);
        share >= ENOUGH_WORDS
    };
    rank::evidence(&hits) >= CONCERNS || rank::has_all(&hits) || best.iter().any(has_words)
}

/// The numbers of memories, with their scores.
#[derive(Debug, Clone)]
pub struct RankedMemories {
    /// Best first.
    pub ranked: Vec<(i64, MemoryScores)>,
    /// The best of those that last and are not among them.
    pub lasting: Vec<(i64, MemoryScores)>,
    /// The numbers of the messages before and after each message found.
    pub around: HashMap<i64, Vec<i64>>,
    pub model: Option<String>,
    pub in_memory: bool,
    pub provider_ms: f64,
}

impl Search {
    /// The entries of a user's memories that match a text best, best first.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn find_entries_of(
        &self,
        session: &Session,
        user_id: &str,
        text: &str,
        kind: Kind,
        k: usize,
    ) -> Result<FoundEntries, SearchError> {
        let group = memory_group(user_id);
        let query = EntryQuery {
            owner_kind: OwnerKind::Memory,
            text,
            kind,
            k,
            min_score: None,
            by_group: false,
            scope: None,
            group: Some(&group),
        };
        let filter = Filter {
            groups: Some(HashMap::from([(group.clone(), 0)])),
            ..Filter::default()
        };
        self.find(session, query, filter).await
    }

    /// Ranks the memories of a user by how well they match a text, without reading them.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn rank_memories(
        &self,
        session: &Session,
        query: MemoryQuery<'_>,
    ) -> Result<RankedMemories, SearchError> {
        let (user, k) = (query.user_id, CANDIDATES.max(query.k));
        let found = self.find_entries_of(session, user, query.text, query.kind, k);
        let found = found.await?;
        let hits: HashMap<i64, Hit> = found.hits.iter().map(|hit| (hit.owner.id, *hit)).collect();
        let seqs: Vec<i64> = found.hits.iter().map(|hit| hit.owner.id).collect();
        let (store, space) = (&self.inner.store, session.space());
        let mut memories = store.list_memory_outlines(space, &seqs).await?;
        memories.retain(|memory| query.allows(memory));

        // If only one part is compared, texts are not.
        let is_hybrid = hits.values().all(|hit| hit.standing.is_some());
        let compared = memories.iter().filter(|_| is_hybrid);
        let compared: Vec<i64> = compared.map(|memory| memory.seq).collect();
        let beginnings = async {
            let found = store.list_memory_beginnings(space, &compared).await;
            found.map_err(SearchError::from)
        };
        let (around, beginnings) = tokio::try_join!(self.neighbours(space, &memories), beginnings)?;
        let lasting: HashSet<i64> = memories
            .iter()
            .filter(|memory| memory.lasting)
            .map(|memory| memory.seq)
            .collect();
        let mut ranked = rank(memories, &hits, (&around, &beginnings), query.text);
        ranked.retain(|(_, scores)| query.min_score.is_none_or(|least| scores.score >= least));
        let rest = ranked.split_off(query.k.min(ranked.len()));
        let lasting = rest.into_iter().filter(|(seq, _)| lasting.contains(seq));

        Ok(RankedMemories {
            lasting: lasting.take(query.lasting).collect(),
            ranked,
            around,
            model: found.model,
            in_memory: found.in_memory,
            provider_ms: found.provider_ms,
        })
    }
}

impl MemoryQuery<'_> {
    /// Whether a memory may be part of the result. The user is checked again, because the group of
    /// an entry is only a hash.
    fn allows(&self, memory: &MemoryOutline) -> bool {
        let counts = match self.as_of {
            Some(moment) => {
                memory.created_at <= moment && memory.superseded_at.is_none_or(|end| end > moment)
            }
            None => !memory.superseded,
        };
        let tagged = |tag: &String| memory.tags.contains(tag);

        counts
            && memory.user_id == self.user_id
            && self.exclude != Some(memory.id.as_str())
            && (self.thread.is_none()
                || self.thread == memory.thread_id.as_ref().map(ThreadId::as_str))
            && self.since.is_none_or(|since| memory.created_at >= since)
            && self.tags.iter().all(tagged)
    }
}

/// The numbers of memories in their order, each with its shares.
fn rank(
    memories: Vec<MemoryOutline>,
    hits: &HashMap<i64, Hit>,
    (around, beginnings): (&HashMap<i64, Vec<i64>>, &HashMap<i64, String>),
    text: &str,
) -> Vec<(i64, MemoryScores)> {
    let mut own = standings(hits);
    let similar = similar_words(&memories, beginnings, text);
    for (seq, one) in &similar {
        let compared = own.entry(*seq).or_default();
        *compared = COMPARED * *compared + SIMILAR_WORDS * one.standing;
    }

    let speaker = named_speaker(&memories, text);
    let time = TimeWords::of(text);
    let mut items: Vec<(i64, MemoryScores)> = memories
        .into_iter()
        .filter_map(|memory| {
            let hit = *hits.get(&memory.seq)?;
            let own_standing = own.get(&memory.seq).copied()?;
            let neighbours = if memory.kind == MemoryKind::Message {
                near(memory.seq, &own, around)
            } else {
                // A fact needs nothing beside it to be understood.
                NEIGHBOUR * own_standing.max(0.0)
            };
            let speaks = speaker.is_some() && memory.speaker == speaker;
            let speaker = if speaks { SPEAKER } else { 0.0 };
            let time = time.map_or(0.0, |words| TIME * words.fit(memory.created_at));
            let scores = MemoryScores {
                standing: own_standing + neighbours + speaker + time,
                similar_words: similar.get(&memory.seq).copied(),
                neighbours,
                speaker,
                time,
                score: hit.score,
                hit,
            };
            Some((memory.seq, scores))
        })
        .collect();

    items.sort_by(|(a, one), (b, other)| {
        let by_standing = other.standing.total_cmp(&one.standing);
        by_standing.then_with(|| a.cmp(b))
    });
    let fits: Vec<f64> = items
        .iter()
        .map(|(_, scores)| scores.hit.score.clamp(0.0, 1.0))
        .collect();
    for ((_, scores), score) in items.iter_mut().zip(falling(&fits)) {
        scores.score = score;
    }

    items
}

/// What the memories whose beginning is known have of a query in words of the same meaning.
fn similar_words(
    memories: &[MemoryOutline],
    beginnings: &HashMap<i64, String>,
    text: &str,
) -> HashMap<i64, SimilarWords> {
    let known = memories
        .iter()
        .filter_map(|memory| Some((memory, beginnings.get(&memory.seq)?)));
    let (seqs, texts): (Vec<i64>, Vec<String>) = known
        .map(|(memory, text)| {
            let text = searched_text(memory.speaker.as_deref(), text);
            (memory.seq, text)
        })
        .unzip();
    let shares = EmbeddedModel::word_matches(text, texts.iter().map(String::as_str));
    let shares: Vec<f64> = shares.into_iter().map(f64::from).collect();
    let parts = shares.iter().zip(standard(&shares));
    let parts = parts.map(|(&share, standing)| SimilarWords { share, standing });
    seqs.into_iter().zip(parts).collect()
}

/// Standard scores; zeros if all values are equal.
fn standard(values: &[f64]) -> Vec<f64> {
    let count = f64::from(u32::try_from(values.len().max(1)).unwrap_or(u32::MAX));
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|value| (value - mean).powi(2));
    let deviation = (spread.sum::<f64>() / count).sqrt();
    let standard = |value: &f64| {
        if deviation < 1e-12 {
            0.0
        } else {
            (value - mean) / deviation
        }
    };
    values.iter().map(standard).collect()
}

/// How far each hit is above the average one: in both parts of a hybrid search, or in its score.
fn standings(hits: &HashMap<i64, Hit>) -> HashMap<i64, f64> {
    let scores: Vec<f64> = hits.values().map(|hit| hit.score).collect();
    let by_score = standard(&scores);
    let standing = |hit: &Hit, by_score: f64| match hit.standing {
        Some(standing) => f64::midpoint(standing.keyword, standing.semantic),
        None => by_score,
    };
    hits.iter()
        .zip(by_score)
        .map(|((seq, hit), by_score)| (*seq, standing(hit, by_score)))
        .collect()
}

/// The share of the messages around one; what is worse than average does not count against it.
fn near(seq: i64, own: &HashMap<i64, f64>, around: &HashMap<i64, Vec<i64>>) -> f64 {
    let value = |seq: &i64| own.get(seq).copied().unwrap_or(0.0).max(0.0);
    let next = around.get(&seq).map_or(&[][..], Vec::as_slice);
    let beside = next
        .iter()
        .filter_map(|one| around.get(one))
        .flatten()
        .filter(|other| **other != seq);
    NEIGHBOUR * next.iter().map(value).sum::<f64>() + BESIDE * beside.map(value).sum::<f64>()
}

/// The only speaker whose name, or a part of it, a question names.
fn named_speaker(memories: &[MemoryOutline], text: &str) -> Option<String> {
    let words = |text: &str| -> HashSet<String> {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    };
    let asked = words(text);
    let speakers: BTreeSet<&String> = memories
        .iter()
        .filter_map(|memory| memory.speaker.as_ref())
        .collect();
    let mut named = speakers
        .into_iter()
        .filter(|speaker| !words(speaker).is_disjoint(&asked));
    match (named.next(), named.next()) {
        (Some(only), None) => Some(only.clone()),
        _ => None,
    }
}
