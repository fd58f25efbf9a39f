//! Fills a context with what is known best: `rank: auto`. The search decides the order; what the
//! question and a memory have in common settles only near ties. What lasts about the user keeps a
//! fifth of the places, whatever the question is.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::conflicts::{self, Conflict};
use super::context::{LeftOut, Selected, Timings};
use super::context_search::{add_in_place, asked_text, source_of};
use super::intent::Intent;
use super::scoring::{ContextItem, ContextScores, Lasting, MAX_SCORE, ScoreParts};
use super::stages::{ContextScope, MAX_MEMORIES, RetrievalSource, relevance};
use super::text_by_section::beginning;
use super::{Conversation, ConversationError};
use crate::base::clock::milliseconds_since;
use crate::llm::Session;
use crate::model::memory::{DEFAULT_IMPORTANCE, Entity, Memory, MemoryKind};
use crate::retrieval::{FoundMemories, Item, MemoryItem};
use crate::search::memories::{MemoryQuery, concerns};

/// Places that what lasts takes at most, if the question finds enough else.
const RESERVED: usize = MAX_MEMORIES / 5;
/// Memories looked at, because some of them repeat others.
const LOOKED_AT: usize = 2 * MAX_MEMORIES;

/// What a memory gains by what it has in common with the question, in standard deviations of the
/// search: together less than what makes one memory clearly better than another.
const TOPIC: f64 = 0.03;
const ENTITY: f64 = 0.05;
const CURRENT_THREAD: f64 = 0.03;
const PREFERENCE: f64 = 0.02;
const IMPORTANCE: f64 = 0.04;

impl Conversation {
    /// Selects what is known best about a question.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn select_for_auto(
        &self,
        session: &Session,
        scope: ContextScope<'_>,
        intent: &Intent,
        expand: usize,
    ) -> Result<Selected, ConversationError> {
        let (begun, query) = (Instant::now(), scope.query);
        let text = asked_text(query, &self.lexicon(session.call()).await?);
        let asked = MemoryQuery {
            since: intent.said_since(query, scope.call.now),
            exclude: scope.exclude,
            thread: intent.only_thread(scope.thread_id),
            lasting: RESERVED,
            ..MemoryQuery::of(scope.user_id, &text, LOOKED_AT)
        };
        let found = self.retrieval.find_memories_or_words(session, asked);
        let (mut found, failed) = found.await?;
        if let Some(error) = failed {
            tracing::warn!(%error, "a context is found by keyword only");
        }

        let now = scope.call.now;
        found.items.retain(|one| !one.found.repeats(query, now));
        let least_cosine = self.search.least_cosine(found.model.as_deref(), query);
        let is_statement =
            |one: &MemoryItem| one.found.is_lasting() && one.scores.clearly_matches();
        let concerned = concerns(found.items.iter().map(|one| &one.scores))
            || found.items.first().is_some_and(is_statement)
            || (!found.items.is_empty() && intent.asks_for_a_time(query, now));
        let scorer = Scorer {
            scope,
            intent,
            best: best(&found.items, scope, intent),
            least_cosine,
        };

        let FoundMemories {
            items,
            lasting,
            around,
            provider_ms,
            ..
        } = found;
        let mut items: Vec<ContextItem> = items.into_iter().map(|one| scorer.score(one)).collect();
        let repeated = merge_repeated(&mut items);
        let mut rest = items.split_off(MAX_MEMORIES.min(items.len()));

        let lasting = lasting.into_iter().map(|one| scorer.score(one));
        rest.retain(|one| one.scores.lasting != Lasting::No);
        rest.extend(lasting);
        self.reserve(session, scope, &mut items, (rest, &repeated))
            .await?;
        if expand > 0 {
            let related = items.iter().filter(|one| one.scores.related);
            let related = related.map(|one| (one.found.seq, one.scores.score));
            let near = self.neighbours(session, scope, &around, related).await?;
            let near = near
                .into_iter()
                .map(|one| one.scored(|memory, score| scorer.scores(memory, (score, 0.0), true)));
            add_in_place(&mut items, near, |one| {
                !one.scores.related && one.scores.lasting == Lasting::No
            });
            sort(&mut items);
        }

        let conflicts = put_later_first(&mut items);
        Ok(Selected {
            memories: items,
            left_out: repeated,
            conflicts,
            found: Some(concerned),
            timings: Timings {
                search_ms: milliseconds_since(begun),
                provider_ms,
                ..Timings::default()
            },
        })
    }

    /// Gives what lasts its share of the places: what the search has found of it first, then the
    /// most important. What is there already, by itself or as its message, only keeps its place.
    async fn reserve(
        &self,
        session: &Session,
        scope: ContextScope<'_>,
        items: &mut Vec<ContextItem>,
        (found, repeated): (Vec<ContextItem>, &[LeftOut]),
    ) -> Result<(), ConversationError> {
        let mut reserved = Reserved::among(items, repeated);
        for one in found {
            reserved.offer(items, one);
        }

        if reserved.is_wanted() {
            // As many as may be known already, and those that are missing.
            let limit = RESERVED + reserved.known.len();
            let space = session.space();
            let listed = self.store.list_lasting(space, scope.user_id, limit);
            for memory in listed.await? {
                if scope.exclude != Some(memory.id.as_str()) {
                    reserved.offer(items, unscored(memory));
                }
            }
        }

        let room = MAX_MEMORIES.saturating_sub(reserved.items.len());
        while items.len() > room {
            let last = items
                .iter()
                .rposition(|one| one.scores.lasting == Lasting::No);
            items.remove(last.unwrap_or(items.len() - 1));
        }

        items.append(&mut reserved.items);
        Ok(())
    }
}

/// Lasting memories that are not among the best, as far as they have a place.
struct Reserved {
    items: Vec<ContextItem>,
    /// How many lasting memories are among the best.
    present: usize,
    known: HashSet<String>,
    beginnings: HashSet<String>,
}

impl Reserved {
    fn among(items: &[ContextItem], repeated: &[LeftOut]) -> Self {
        let lasts = |one: &&ContextItem| one.scores.lasting != Lasting::No;
        let own = items.iter().map(|one| one.found.id.to_string());
        let others = repeated.iter().map(|one| one.memory_id.clone());
        Self {
            items: Vec::new(),
            present: items.iter().filter(lasts).count(),
            known: own.chain(others).collect(),
            beginnings: items.iter().map(|one| beginning(&one.found)).collect(),
        }
    }

    fn is_wanted(&self) -> bool {
        self.present + self.items.len() < RESERVED
    }

    /// Takes something that lasts, unless it is there already.
    fn offer(&mut self, items: &mut [ContextItem], mut one: ContextItem) {
        let is_new = self.known.insert(one.found.id.to_string());
        if !self.is_wanted() || !is_new {
            return;
        }

        let said = items
            .iter_mut()
            .find(|item| is_said_by(&one.found, &item.found));
        if let Some(message) = said {
            if message.scores.lasting == Lasting::No {
                self.present += 1;
            }

            message.scores.lasting = message.scores.lasting.max(one.scores.lasting);
        } else if self.beginnings.insert(beginning(&one.found)) {
            one.scores.source = RetrievalSource::Expansion;
            self.items.push(one);
        }
    }
}

/// Turns what the search says of memories into scores.
struct Scorer<'s> {
    scope: ContextScope<'s>,
    intent: &'s Intent,
    /// The standing of the best memory, with its bonus.
    best: f64,
    least_cosine: f64,
}

impl Scorer<'_> {
    fn score(&self, item: MemoryItem) -> ContextItem {
        item.scored(|memory, found| {
            let gained = bonus(memory, self.scope, self.intent);
            let search = share(self.best - found.standing);
            let whole = share(self.best - found.standing - gained);
            let related = found.is_related(self.least_cosine);
            self.scores(memory, (search, whole - search), related)
        })
    }

    fn scores(&self, memory: &Memory, (search, bonus): (f64, f64), related: bool) -> ContextScores {
        ContextScores {
            source: source_of(memory, self.scope),
            relevance: Some(relevance(memory, self.intent, 12.0, None)),
            parts: ScoreParts::of_auto(search, bonus),
            score: search + bonus,
            thread_title: None,
            related,
            earlier: false,
            lasting: Lasting::of(memory),
        }
    }
}

/// The score of a memory that stands so far below the best one.
fn share(below: f64) -> f64 {
    MAX_SCORE / (1.0 + below.max(0.0))
}

fn best(found: &[MemoryItem], scope: ContextScope<'_>, intent: &Intent) -> f64 {
    let standings = found
        .iter()
        .map(|item| item.scores.standing + bonus(&item.found, scope, intent));
    standings.max_by(f64::total_cmp).unwrap_or(0.0)
}

/// What a memory and the question have in common besides words and meaning.
fn bonus(memory: &Memory, scope: ContextScope<'_>, intent: &Intent) -> f64 {
    let labels = &memory.labels;
    let topic = labels
        .topics
        .iter()
        .any(|topic| intent.topics.contains(topic));
    let entity = labels
        .entities
        .iter()
        .any(|own| intent.entities.iter().any(|asked| is_same(own, asked)));
    let is_current = scope.thread_id.is_some() && memory.thread_id.as_ref() == scope.thread_id;
    // Its own: how often a memory was delivered does not make it important.
    let own = memory.own_importance.unwrap_or(DEFAULT_IMPORTANCE);
    let importance = if memory.important { 1.0 } else { own };

    let gained = [
        (topic, TOPIC),
        (entity, ENTITY),
        (is_current, CURRENT_THREAD),
        (memory.is_preference(), PREFERENCE),
        (true, IMPORTANCE * importance.clamp(0.0, 1.0)),
    ];
    gained
        .iter()
        .filter(|(has, _)| *has)
        .map(|(_, gain)| gain)
        .sum()
}

/// Whether two values name the same: `5678` and `#5678`, `Ann` and `ann`.
fn is_same(one: &Entity, other: &Entity) -> bool {
    let plain = |entity: &Entity| -> String {
        let letters = entity.value.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let (one, other) = (plain(one), plain(other));
    !one.is_empty() && one == other
}

/// Orders items, and takes out what says the same as something better: a statement whose message
/// was found too, and memories that begin alike. Of a statement and its message the message stays,
/// which has the words of the user, at the better place of both.
fn merge_repeated(items: &mut Vec<ContextItem>) -> Vec<LeftOut> {
    let mut repeated = Vec::new();
    for place in 0..items.len() {
        let Some(message) = message_of(items, place) else {
            continue;
        };

        let (id, own) = (items[place].found.id.clone(), items[place].scores.clone());
        let shown = &mut items[message];
        shown.scores.related |= own.related;
        shown.scores.lasting = shown.scores.lasting.max(own.lasting);
        if own.score > shown.scores.score {
            (shown.scores.score, shown.scores.parts) = (own.score, own.parts);
        }

        repeated.push(LeftOut::repeating(&id, shown.found.id.as_str()));
    }

    let told: HashSet<&str> = repeated.iter().map(|one| one.memory_id.as_str()).collect();
    items.retain(|one| !told.contains(one.found.id.as_str()));
    sort(items);
    let mut beginnings: HashMap<String, String> = HashMap::new();
    items.retain(|one| {
        let id = one.found.id.as_str();
        let first = beginnings.entry(beginning(&one.found));
        let first = first.or_insert_with(|| id.to_owned());
        let is_first = first == id;
        if !is_first {
            repeated.push(LeftOut::repeating(&one.found.id, first));
        }

        is_first
    });

    repeated
}

/// Where the message is that a statement rests on.
fn message_of(items: &[ContextItem], place: usize) -> Option<usize> {
    let statement = &items[place].found;
    items
        .iter()
        .position(|one| is_said_by(statement, &one.found))
}

/// Whether a statement rests on a message.
fn is_said_by(statement: &Memory, message: &Memory) -> bool {
    let evidence = statement.evidence.as_ref();
    statement.kind.is_statement()
        && message.kind == MemoryKind::Message
        && evidence.is_some_and(|one| one.message_ids.iter().any(|id| id == message.id.as_str()))
}

/// Best first. Stable: of equals, the one that the search ranked first.
fn sort(items: &mut [ContextItem]) {
    items.sort_by(|one, other| other.scores.score.total_cmp(&one.scores.score));
}

/// Finds memories that contradict each other, marks what was said earlier, and puts what was said
/// later before it.
fn put_later_first(items: &mut [ContextItem]) -> Vec<Conflict> {
    let memories: Vec<&Memory> = items.iter().map(|one| &one.found).collect();
    let found = conflicts::find(&memories);
    for conflict in &found {
        let place = |id: &str| items.iter().position(|one| one.found.id.as_str() == id);
        let places = place(&conflict.newer_id).zip(place(&conflict.older_id));
        let Some((newer, older)) = places else {
            continue;
        };

        items[older].scores.earlier = true;
        if older < newer {
            // With the score of its new place, so that scores never rise down the list.
            let (score, parts) = (items[older].scores.score, items[older].scores.parts);
            (items[newer].scores.score, items[newer].scores.parts) = (score, parts);
            items[older..=newer].rotate_right(1);
        }
    }

    found
}

/// Something that lasts and that the search did not find.
fn unscored(memory: Memory) -> ContextItem {
    let scores = ContextScores::unscored(&memory);
    Item::new(memory, scores)
}
