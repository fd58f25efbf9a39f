//! One retrieval: whether to search at all, the search, the policy, and what to return if
//! something fails. A failure is part of the result, because the caller must go on without
//! memories.

use std::sync::Arc;
use std::time::Instant;

use memoir_index::{Hit, Kind, rank};
use memoir_policy::settings::{Overrides, SearchType};
use memoir_policy::{Candidate, MemoryType, Outcome, Policy, Speaker};
use memoir_text::text::{char_count, has_control_but_breaks};
use memoir_text::tokens::TokenCounter;
use strum::IntoStaticStr;

use super::cache::{Key, ResultCache};
use super::metrics::{Counted, RetrievalMetrics};
use super::policies::{MemoryPolicies, PolicyError, PolicyName, RETRIEVAL, StoredPolicy};
use crate::base::clock::{Timestamp, milliseconds_since};
use crate::base::ids::{ThreadId, memory_group};
use crate::config;
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::memory::{Memory, MemoryKind};
use crate::retrieval::{MemoryItem, Retrieval};
use crate::search::memories::{MemoryQuery, concerns};
use crate::search::{Search, SearchError};
use crate::store::{Store, StoreError};

/// The longest query in characters.
const MAX_QUERY_CHARS: usize = 4_000;
/// Results that are fetched for each one that is wanted, because some are dropped.
const FETCHED_PER_RESULT: usize = 2;
const MINUTE: i64 = 60_000_000;
/// The share of the score that a memory loses which is no better than the average one.
const BEHIND: f64 = 0.5;
/// What stands next to a good memory has at least this share of the standing of the best.
const NEAR: f64 = 0.15;

/// A request.
#[derive(Debug, Clone)]
pub struct RetrievalInput {
    pub user_id: String,
    pub session_id: Option<String>,
    pub use_memory: bool,
    pub query: String,
    pub exclude_message_id: Option<String>,
    pub policy: Option<PolicyName>,
    pub overrides: Overrides,
}

/// Why nothing was searched, though nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Skipped {
    UseMemoryFalse,
    SessionMissing,
    SessionUnknown,
}

/// What went wrong. The names are those of the published policy, which clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrievalFailure {
    Unavailable,
    CollectionNotFound,
    RateLimited,
    InvalidQuery,
}

impl RetrievalFailure {
    pub fn code(self) -> &'static str {
        match self {
            Self::Unavailable => "ZEP_UNAVAILABLE",
            Self::CollectionNotFound => "COLLECTION_NOT_FOUND",
            Self::RateLimited => "RATE_LIMITED",
            Self::InvalidQuery => "INVALID_QUERY",
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::Unavailable => "Memory service temporarily unavailable",
            Self::CollectionNotFound => "User memory collection does not exist",
            Self::RateLimited => "Memory retrieval rate limit exceeded",
            Self::InvalidQuery => "Query text invalid or too long",
        }
    }

    pub fn fallback(self) -> &'static str {
        match self {
            Self::Unavailable | Self::InvalidQuery => "skip",
            Self::CollectionNotFound => "empty",
            Self::RateLimited => "cache",
        }
    }
}

/// What a search and the policy found.
#[derive(Debug)]
pub struct Selection {
    pub outcome: Outcome,
    pub search_ms: f64,
    pub chain_ms: f64,
}

/// A retrieval.
#[derive(Debug, Clone)]
pub struct Retrieved {
    pub found: Option<Arc<Selection>>,
    pub policy: Arc<Policy>,
    /// Name and version: `retrieval@3`.
    pub policy_name: String,
    pub skipped: Option<Skipped>,
    pub failure: Option<RetrievalFailure>,
    pub cached: bool,
    /// Seconds until the next call is allowed.
    pub retry_after: Option<u64>,
    pub total_ms: f64,
}

/// Why a search has no result.
#[derive(Debug, thiserror::Error)]
enum SearchFault {
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Entry point of memory retrieval; cheap to clone.
#[derive(Clone)]
pub struct MemoryRetrieval {
    store: Store,
    search: Search,
    retrieval: Retrieval,
    policies: MemoryPolicies,
    settings: config::Memory,
    cache: Arc<ResultCache>,
    counted: Counted,
}

/// The decisions before a search.
enum Precheck {
    Skip(Skipped),
    Fail(RetrievalFailure),
    /// The write counter of the user's memories, and the number of erasures in the space.
    Search(i64, i64),
}

impl MemoryRetrieval {
    #[must_use]
    pub fn new(
        store: Store,
        search: Search,
        policies: MemoryPolicies,
        settings: config::Memory,
    ) -> Self {
        Self {
            retrieval: Retrieval::new(store.clone(), search.clone()),
            store,
            search,
            policies,
            settings,
            cache: Arc::new(ResultCache::new()),
            counted: Counted::new(),
        }
    }

    /// The figures of a space.
    pub fn metrics(&self, call: &CallContext) -> RetrievalMetrics {
        self.counted.of(&call.space)
    }

    /// Retrieves the memories for a query.
    ///
    /// # Errors
    /// The policy does not exist, or a value lies outside its range. Everything else is part of
    /// the result.
    pub async fn retrieve(
        &self,
        session: &Session,
        input: &RetrievalInput,
    ) -> Result<Retrieved, PolicyError> {
        let (begun, call) = (Instant::now(), session.call());
        let (stored, reachable) = self.policy(call, input).await?;
        let settings = stored.policy.settings().with(&input.overrides);
        let policy = Arc::new(
            stored
                .policy
                .with_settings(settings.map_err(PolicyError::from)?),
        );
        let mut retrieved = Retrieved {
            found: None,
            policy_name: stored.label(),
            policy,
            skipped: None,
            failure: None,
            cached: false,
            retry_after: None,
            total_ms: 0.0,
        };

        let precheck = if reachable {
            self.precheck(call, input).await
        } else {
            Ok(Precheck::Fail(RetrievalFailure::Unavailable))
        };
        match precheck.unwrap_or_else(|error| unavailable(&error)) {
            Precheck::Skip(reason) => retrieved.skipped = Some(reason),
            Precheck::Fail(failure) => retrieved.failure = Some(failure),
            Precheck::Search(writes, erasures) => {
                let state = (writes, erasures);
                self.look_up(session, input, state, &mut retrieved).await;
            }
        }

        if let Some(found) = &retrieved.found {
            let entries = found.outcome.entries.iter();
            let ids: Vec<String> = entries.map(|entry| entry.id().to_owned()).collect();
            self.retrieval.count_uses(call, &ids).await;
        }

        retrieved.total_ms = milliseconds_since(begun);
        self.count(call, &retrieved);
        Ok(retrieved)
    }

    /// The policy of a request, and whether the database could be asked for it. Without the
    /// database there is nothing to select from, so the defaults do no harm.
    async fn policy(
        &self,
        call: &CallContext,
        input: &RetrievalInput,
    ) -> Result<(StoredPolicy, bool), PolicyError> {
        let wanted = input.policy.clone().unwrap_or_else(|| PolicyName {
            name: RETRIEVAL.to_owned(),
            version: None,
        });
        match self.policies.find(call, &wanted).await {
            Ok(found) => Ok((found, true)),
            Err(PolicyError::Store(error)) => {
                tracing::warn!(%error, "cannot read the policy of a memory retrieval");
                Ok((super::policies::defaults()?, false))
            }
            Err(error) => Err(error),
        }
    }

    /// The conditions under which memories are searched.
    async fn precheck(
        &self,
        call: &CallContext,
        input: &RetrievalInput,
    ) -> Result<Precheck, StoreError> {
        if !input.use_memory {
            return Ok(Precheck::Skip(Skipped::UseMemoryFalse));
        }
        let query = &input.query;
        if query.trim().is_empty()
            || char_count(query) > MAX_QUERY_CHARS
            || has_control_but_breaks(query)
        {
            return Ok(Precheck::Fail(RetrievalFailure::InvalidQuery));
        }
        let Some(session_id) = input
            .session_id
            .as_deref()
            .filter(|id| !id.trim().is_empty())
        else {
            return Ok(Precheck::Skip(Skipped::SessionMissing));
        };

        // Before anything is read, so that what is deleted from now on is noticed.
        let erasures = self.store.count_erasures(&call.space).await?;
        let group = memory_group(&input.user_id);
        let Some(writes) = self.store.find_memory_writes(&call.space, &group).await? else {
            return Ok(Precheck::Fail(RetrievalFailure::CollectionNotFound));
        };
        let thread = match session_id.parse::<ThreadId>() {
            Ok(id) => self.store.find_thread(&call.space, &id).await?,
            Err(_) => None,
        };
        if thread.is_none_or(|thread| thread.user_id != input.user_id) {
            return Ok(Precheck::Skip(Skipped::SessionUnknown));
        }

        Ok(Precheck::Search(writes, erasures))
    }

    /// From the cache or from a search, as the rate limit allows.
    async fn look_up(
        &self,
        session: &Session,
        input: &RetrievalInput,
        (writes, erasures): (i64, i64),
        retrieved: &mut Retrieved,
    ) {
        let call = session.call();
        let key = Key {
            space: call.space.clone(),
            user_id: input.user_id.clone(),
            query: input.query.clone(),
            settings: format!(
                "{} {:?} {:?}",
                retrieved.policy_name, input.overrides, input.exclude_message_id
            ),
        };

        match self.is_allowed(call, &input.user_id).await {
            Ok(true) => {}
            Ok(false) => {
                retrieved.failure = Some(RetrievalFailure::RateLimited);
                retrieved.found = self.cache.find(&key, (None, erasures), call.now);
                retrieved.cached = retrieved.found.is_some();
                retrieved.retry_after = (!retrieved.cached).then(|| seconds_left(call.now));
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot count a memory retrieval");
                retrieved.failure = Some(RetrievalFailure::Unavailable);
                return;
            }
        }

        if let Some(found) = self.cache.find(&key, (Some(writes), erasures), call.now) {
            retrieved.found = Some(found);
            retrieved.cached = true;
            return;
        }

        match self.search(session, input, &retrieved.policy).await {
            Ok(found) => {
                let found = Arc::new(found);
                let state = (writes, erasures);
                self.cache.store(key, Arc::clone(&found), state, call.now);
                retrieved.found = Some(found);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot search memories");
                retrieved.failure = Some(RetrievalFailure::Unavailable);
            }
        }
    }

    async fn is_allowed(&self, call: &CallContext, user_id: &str) -> Result<bool, StoreError> {
        let Ok(limit @ 1..) = i64::try_from(self.settings.rate_limit) else {
            return Ok(true);
        };
        // The name has room for a hash only.
        let mut name = memory_group(&format!("{}/{user_id}", call.space));
        name.insert_str(0, "memory/");
        let window =
            Timestamp::from_micros(call.now.as_micros() - call.now.as_micros().rem_euclid(MINUTE));
        Ok(self.store.take_requests(&name, window, 1, limit).await? == 1)
    }

    async fn search(
        &self,
        session: &Session,
        input: &RetrievalInput,
        policy: &Arc<Policy>,
    ) -> Result<Selection, SearchFault> {
        let begun = Instant::now();
        let retrieval = &policy.settings().retrieval;
        let kind = match retrieval.search_type {
            SearchType::Hybrid => Kind::Hybrid,
            SearchType::Semantic => Kind::Semantic,
            SearchType::Keyword => Kind::Keyword,
        };
        let query = MemoryQuery {
            kind,
            exclude: input.exclude_message_id.as_deref(),
            ..MemoryQuery::of(
                &input.user_id,
                &input.query,
                retrieval.top_k * FETCHED_PER_RESULT,
            )
        };
        let found = self.retrieval.find_memories(session, query).await?;
        let least_cosine = self
            .search
            .least_cosine(found.model.as_deref(), &input.query);
        let mut found = found.items;
        let now = session.call().now;
        found.retain(|one| !one.found.repeats(&input.query, now));
        let search_ms = milliseconds_since(begun);

        let begun = Instant::now();
        let scores = calibrated(&found, least_cosine);
        let candidates = scores
            .into_iter()
            .zip(found)
            .map(|(score, item)| candidate(score, item.found))
            .collect();
        let (policy, query) = (Arc::clone(policy), input.query.clone());
        let outcome = self.policies.run(policy, candidates, query).await?;
        Ok(Selection {
            outcome,
            search_ms,
            chain_ms: milliseconds_since(begun),
        })
    }

    fn count(&self, call: &CallContext, retrieved: &Retrieved) {
        let looked =
            retrieved.found.is_some() || retrieved.failure == Some(RetrievalFailure::RateLimited);
        self.counted.count(&call.space, |metrics| {
            metrics.calls += 1;
            metrics.latency_ms += retrieved.total_ms;
            metrics.lookups += u64::from(looked);
            metrics.cache_hits += u64::from(retrieved.cached);
            let Some(found) = &retrieved.found else {
                return;
            };
            let entries = &found.outcome.entries;
            let tokens = TokenCounter::for_model(None);
            metrics.results += entries.len() as u64;
            metrics.tokens += entries
                .iter()
                .map(|entry| tokens.count(entry.content()) as u64)
                .sum::<u64>();
            if !retrieved.cached {
                metrics.examined += found.outcome.deduplicated_from() as u64;
                metrics.duplicates += found.outcome.duplicates() as u64;
            }
        });
    }
}

fn unavailable(error: &StoreError) -> Precheck {
    tracing::warn!(%error, "cannot prepare a memory retrieval");
    Precheck::Fail(RetrievalFailure::Unavailable)
}

/// Scores on which a minimum can act, whatever the query is: how well the best of the memories fit
/// it, and for each how far it stands behind the best. A memory whose own words say little, such as
/// an answer to a question, has most of the score of what it stands next to.
fn calibrated(found: &[MemoryItem], least_cosine: f64) -> Vec<f64> {
    let hits: Vec<Hit> = found.iter().map(|one| one.scores.hit).collect();
    let evidence = rank::evidence(&hits);
    let evidence = if concerns(found.iter().map(|one| &one.scores)) {
        evidence.max(rank::NOTHING)
    } else {
        evidence.min(rank::NOTHING - f64::EPSILON)
    };

    let best = found.first().map_or(0.0, |one| one.scores.standing);
    let score = |one: &MemoryItem| {
        let scores = &one.scores;
        if !scores.is_related(least_cosine) && scores.neighbours < NEAR * best {
            return scores.score;
        }

        let least = if scores.clearly_matches() && one.found.is_lasting() {
            rank::NOTHING
        } else {
            0.0
        };

        let standing = scores.standing.max(0.0);
        let share = if best > 0.0 { standing / best } else { 1.0 };
        (evidence * (1.0 - BEHIND * (1.0 - share))).clamp(least, 1.0)
    };
    found.iter().map(score).collect()
}

fn candidate(score: f64, memory: Memory) -> Candidate {
    let id = memory.id.to_string();
    Candidate {
        message_id: (memory.kind == MemoryKind::Message).then(|| id.clone()),
        id,
        content: memory.content,
        score,
        timestamp_micros: memory.created_at.as_micros(),
        session_id: memory
            .thread_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        memory_type: match memory.kind {
            MemoryKind::Message => MemoryType::Message,
            MemoryKind::Fact | MemoryKind::Preference => MemoryType::Fact,
            MemoryKind::Summary => MemoryType::Summary,
        },
        speaker: match memory.role.as_str() {
            "user" => Some(Speaker::User),
            "assistant" => Some(Speaker::Assistant),
            _ => None,
        },
    }
}

fn seconds_left(now: Timestamp) -> u64 {
    let left = MINUTE - now.as_micros().rem_euclid(MINUTE);
    u64::try_from(left / 1_000_000).unwrap_or_default().max(1)
}
