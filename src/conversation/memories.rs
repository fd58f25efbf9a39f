//! Facts, preferences and summaries that an application stores, and the changes that a memory
//! allows.

use std::collections::HashSet;

use memoir_index::Kind;

use super::conflicts::{self, Conflict};
use super::correcting::{check_category, check_topics, distinct};
use super::messages::{check_content, check_file, check_tags};
use super::redacting::Part;
use super::{Conversation, ConversationError, check_line, user_of};
use crate::base::clock::Timestamp;
use crate::base::ids::{MemoryId, ThreadId};
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::memory::{Evidence, FileHint, Labels, Memory, MemoryKind, USER_PREFERENCE};
use crate::search::memories::MemoryQuery;
use crate::store::{MemoryFilter, MemoryPage, StoreError, TurnPage, Tx};
use memoir_text::field_error::FieldError;
use serde::Deserialize;
use utoipa::ToSchema;

use super::writing::PreparedMemories;

pub(super) const MAX_TITLE_CHARS: usize = 300;
/// What a new statement is compared with: memories that have its words, and how much of it is
/// searched for.
const MAX_SIMILAR: usize = 20;
const MAX_SEARCHED_CHARS: usize = 1_000;

/// A memory to create: what an application knows about an end user.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateMemoryRequest, example = json!({"user_id": "U-123", "type": "preference", "content": "User prefers SMS notifications for orders"}))]
pub struct NewMemory {
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// A thread of the user that it belongs to.
    pub thread_id: Option<String>,
    /// `fact` (the default), `preference` or `summary`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The title.
    #[schema(max_length = 300)]
    pub title: Option<String>,
    /// The text, stored verbatim.
    #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
    pub content: String,
    /// A category of the vocabulary, or `user_preference`.
    pub category: Option<String>,
    /// Topics of the vocabulary.
    #[serde(default)]
    #[schema(max_items = 3)]
    pub topics: Vec<String>,
    /// Tags to find the memory by.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub tags: Vec<String>,
    /// The importance, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub importance: Option<f64>,
    /// Whether to mark it as important, which raises its importance to at least 0.9; false if
    /// omitted.
    pub important: Option<bool>,
    /// Whether a summary becomes part of the window of its thread; false if omitted.
    pub pinned: Option<bool>,
    /// The time from which it is true; now if omitted.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Timestamp>,
    /// The file that it is about.
    pub file_path: Option<String>,
    /// SHA-256 of the version of the file that it is about.
    #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
    pub file_sha256: Option<String>,
    /// When that version of the file was last modified.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub file_mtime: Option<Timestamp>,
    /// The memory that it replaces, which is kept but no longer used.
    pub supersedes: Option<String>,
    /// Whether parts of the text were redacted.
    #[serde(skip)]
    pub redacted: bool,
}

/// The fields to change; omitted fields stay unchanged.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UpdateMemoryRequest, example = json!({"important": true, "topics": ["shipping"], "tags": ["diet"]}))]
pub struct MemoryChange {
    /// The new title; null removes it.
    #[serde(default, deserialize_with = "crate::base::json_object::given")]
    #[schema(value_type = Option<String>, max_length = 300)]
    pub title: Option<Option<String>>,
    /// Corrects the topics: topics of the vocabulary, in place of the model's. Corrected fields stay
    /// when the memory is classified again; null ends the correction, so that the next
    /// classification replaces them.
    #[serde(default, deserialize_with = "crate::base::json_object::given")]
    #[schema(value_type = Option<Vec<String>>, max_items = 3)]
    pub topics: Option<Option<Vec<String>>>,
    /// Corrects the category: one of the vocabulary, or `user_preference`; null ends the correction.
    #[serde(default, deserialize_with = "crate::base::json_object::given")]
    #[schema(value_type = Option<String>)]
    pub category: Option<Option<String>>,
    /// Corrects the message type: one of the vocabulary; null ends the correction.
    #[serde(default, deserialize_with = "crate::base::json_object::given")]
    #[schema(value_type = Option<String>)]
    pub message_type: Option<Option<String>>,
    /// The importance, from 0 to 1, which replaces the value from the model; null removes the
    /// value.
    #[serde(default, deserialize_with = "crate::base::json_object::given")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1)]
    pub importance: Option<Option<f64>>,
    /// Whether it is marked as important, which raises its importance to at least 0.9.
    pub important: Option<bool>,
    /// Whether it is pinned. A pinned summary is part of the window of its thread.
    pub pinned: Option<bool>,
    /// The new tags, which replace all existing ones.
    #[schema(max_items = 20)]
    pub tags: Option<Vec<String>>,
    /// Set to true to use a replaced memory again.
    pub restore: Option<bool>,
}

/// A memory that was checked, with no transaction open.
pub struct PreparedMemory {
    pub memory: Memory,
    /// What is known and cannot be true together with it.
    pub conflicts: Vec<Conflict>,
    prepared: PreparedMemories,
}

/// What became of the memory that another one replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Replacing {
    /// There is none.
    Nothing,
    Marked,
    /// It was deleted meanwhile.
    Gone(String),
    /// Another memory had replaced it.
    Before {
        id: String,
        by: String,
    },
}

impl Conversation {
    /// Checks a memory, redacts it, and computes its terms and vector.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::NotFound`], the model's, or the store's.
    pub async fn prepare_memory(
        &self,
        call: &CallContext,
        mut new: NewMemory,
    ) -> Result<PreparedMemory, ConversationError> {
        self.redact_memory(call, &mut new).await?;
        let supersedes = new.supersedes.clone();
        let thread = new.thread_id.clone();
        let vocabulary = self.vocabulary(call).await?;
        let mut errors = Vec::new();
        check_topics(&new.topics, &vocabulary, &mut errors);
        let mut memory = checked(new, call.now, &mut errors);
        if let Some(category) = &memory.category {
            check_category(category, &vocabulary, &mut errors);
        }

        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        if !memory.labels.topics.is_empty() {
            memory.vocabulary_version = Some(vocabulary.version);
        }

        if let Some(thread) = thread {
            memory.thread_id = Some(self.thread(call, &thread, Some(&memory.user_id)).await?.id);
        }

        if let Some(id) = supersedes {
            let old = self.memory(call, &id, Some(&memory.user_id)).await?;
            memory.evidence = Some(Evidence {
                supersedes: Some(old.id.to_string()),
                ..Evidence::default()
            });
        }

        let one = std::slice::from_ref(&memory);
        let session = Session::of_caller(call.unpaid());
        let prepared = match self.prepare_fully(&session, one).await {
            // Until then, keyword search finds it.
            Err(ConversationError::Llm(_)) => self.prepare(call, one).await?,
            prepared => prepared?,
        };
        Ok(PreparedMemory {
            conflicts: self.conflicts_of(call, &memory).await?,
            memory,
            prepared,
        })
    }

    /// What is known of a user and cannot be true together with a statement: among the newest
    /// statements, and among what has its words or others for the same.
    async fn conflicts_of(
        &self,
        call: &CallContext,
        memory: &Memory,
    ) -> Result<Vec<Conflict>, ConversationError> {
        if !memory.kind.is_statement() {
            return Ok(Vec::new());
        }

        let mut known = self.known_facts(&call.space, &memory.user_id).await?;
        let session = Session::of_caller(call.unpaid());
        let text = memory.content.chars().take(MAX_SEARCHED_CHARS);
        let text: String = conflicts::wordings(memory).chars().chain(text).collect();
        let query = MemoryQuery {
            kind: Kind::Keyword,
            ..MemoryQuery::of(&memory.user_id, &text, MAX_SIMILAR)
        };
        let similar = self.retrieval.find_memories(&session, query).await?;
        let similar = similar.items.into_iter().map(|item| item.found);
        known.extend(similar);
        let replaced = memory.evidence.as_ref();
        let replaced = replaced.and_then(|evidence| evidence.supersedes.as_deref());
        let mut ids = HashSet::new();
        known.retain(|one| replaced != Some(one.id.as_str()) && ids.insert(one.id.to_string()));
        Ok(conflicts::find_with(memory, &known))
    }

    /// Stores it inside the caller's transaction; the memory that it replaces is marked and kept.
    ///
    /// # Errors
    /// [`ConversationError::Superseded`]: another memory was faster, or the store's.
    pub async fn add_memory(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        ready: &PreparedMemory,
    ) -> Result<(), ConversationError> {
        let memory = &ready.memory;
        match self.mark_replaced(tx, call, memory).await? {
            Replacing::Nothing | Replacing::Marked => {}
            Replacing::Gone(id) => return Err(ConversationError::no_memory(&id)),
            Replacing::Before { id, by } => return Err(ConversationError::Superseded { id, by }),
        }

        let one = std::slice::from_ref(memory);
        Ok(self.write_memories(tx, call, one, &ready.prepared).await?)
    }

    /// Marks the memory that another one replaces. It is locked first, so of several that want to
    /// replace it, one does.
    pub(super) async fn mark_replaced(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        memory: &Memory,
    ) -> Result<Replacing, StoreError> {
        let replaced = memory
            .evidence
            .as_ref()
            .and_then(|evidence| evidence.supersedes.clone());
        let Some(id) = replaced else {
            return Ok(Replacing::Nothing);
        };

        let held = tx
            .hold_memories(&call.space, std::slice::from_ref(&id))
            .await?;
        let Some(mut old) = held.into_iter().next() else {
            return Ok(Replacing::Gone(id));
        };
        if let Some(by) = old.superseded_by {
            return Ok(Replacing::Before { id, by });
        }

        old.superseded_by = Some(memory.id.to_string());
        old.superseded_at = Some(memory.created_at);
        old.updated_at = call.now;
        tx.update_memory(&call.space, &old, false).await?;
        Ok(Replacing::Marked)
    }

    /// A memory; if a user is named, only one of theirs.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], or the store's.
    pub async fn memory(
        &self,
        call: &CallContext,
        id: &str,
        user_id: Option<&str>,
    ) -> Result<Memory, ConversationError> {
        let parsed: MemoryId = id.parse().map_err(|_| ConversationError::no_memory(id))?;
        let found = self.store.find_memory(&call.space, &parsed).await?;
        found
            .filter(|memory| user_id.is_none_or(|user_id| memory.user_id == user_id))
            .ok_or_else(|| ConversationError::no_memory(id))
    }

    /// A page of memories.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_memories(
        &self,
        call: &CallContext,
        filter: &MemoryFilter,
        page: &MemoryPage,
    ) -> Result<Vec<Memory>, ConversationError> {
        Ok(self.store.list_memories(&call.space, filter, page).await?)
    }

    /// A page of a thread's messages, in the order of the conversation.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_messages(
        &self,
        call: &CallContext,
        thread_id: &ThreadId,
        page: &TurnPage,
    ) -> Result<Vec<Memory>, ConversationError> {
        Ok(self
            .store
            .list_messages(&call.space, thread_id, page)
            .await?)
    }

    /// Changes a memory if `unchanged` accepts its current state.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], [`ConversationError::Changed`],
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn update_memory(
        &self,
        call: &CallContext,
        id: &str,
        user_id: Option<&str>,
        change: &MemoryChange,
        unchanged: impl Fn(&Memory) -> bool,
    ) -> Result<Memory, ConversationError> {
        let known = self.memory(call, id, user_id).await?;
        let mut errors = Vec::new();
        if let Some(Some(title)) = &change.title {
            check_line("title", title, MAX_TITLE_CHARS, &mut errors);
        }

        check_importance(change.importance.flatten(), &mut errors);
        let tags = change.tags.as_ref().map(|tags| {
            check_tags(tags, &mut |field, rule| {
                errors.push(FieldError::new(field, rule));
            })
        });
        let vocabulary = self.vocabulary(call).await?;
        errors.extend(change.faults(&known, &vocabulary));
        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        let (mut title, mut tags) = (change.title.clone(), tags);
        let mut parts: Vec<Part<'_>> = title.iter_mut().flatten().map(Part::title).collect();
        parts.extend(tags.iter_mut().flatten().map(|tag| Part::tag("", tag)));
        let redacted = self.redact_parts(call, parts).await?.contains(&true);
        let tags = tags.map(|tags| distinct(&tags));

        self.store
            .retry_as("update_memory", || async {
                let mut tx = self.store.begin().await?;
                let held = tx
                    .hold_memories(&call.space, &[known.id.to_string()])
                    .await?;
                let found = held.into_iter().next();
                let mut memory = found.ok_or_else(|| ConversationError::no_memory(id))?;
                if !unchanged(&memory) {
                    return Err(ConversationError::Changed("memory"));
                }

                apply(&mut memory, change, title.as_ref(), tags.as_ref());
                memory.labels.redacted |= redacted;
                change.correct(&mut memory, &vocabulary);
                memory.updated_at = call.now;
                let relabelled = tags.is_some() || change.topics.is_some();
                tx.update_memory(&call.space, &memory, relabelled).await?;
                tx.commit().await?;
                Ok(memory)
            })
            .await
    }
}

fn apply(
    memory: &mut Memory,
    change: &MemoryChange,
    title: Option<&Option<String>>,
    tags: Option<&Vec<String>>,
) {
    if let Some(title) = title {
        memory.title.clone_from(title);
    }

    memory.important = change.important.unwrap_or(memory.important);
    memory.pinned = change.pinned.unwrap_or(memory.pinned);
    if let Some(tags) = tags {
        memory.labels.tags.clone_from(tags);
    }

    if change.restore == Some(true) {
        memory.superseded_by = None;
        memory.superseded_at = None;
    }
}

fn check_importance(importance: Option<f64>, errors: &mut Vec<FieldError>) {
    if importance.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
        errors.push(FieldError::new("importance", "must be from 0 to 1"));
    }
}

fn checked(new: NewMemory, now: Timestamp, errors: &mut Vec<FieldError>) -> Memory {
    let user_id = user_of(new.user_id, errors);
    let kind = new
        .kind
        .as_deref()
        .map_or(Some(MemoryKind::Fact), |kind| kind.parse().ok());
    let kind = kind.filter(|kind| *kind != MemoryKind::Message);
    if kind.is_none() {
        let rule = "must be fact, preference or summary; messages belong to a thread (POST /v1/threads/{id}/messages)";
        errors.push(FieldError::new("type", rule));
    }

    if let Some(title) = &new.title {
        check_line("title", title, MAX_TITLE_CHARS, errors);
    }

    check_importance(new.importance, errors);
    let mut refuse = |field: &str, rule: String| errors.push(FieldError::new(field, rule));
    check_content(&new.content, &mut refuse);
    let file = FileHint {
        path: new.file_path,
        sha256: new.file_sha256,
        mtime: new.file_mtime,
    };
    check_file(&file, &mut refuse);
    let tags = check_tags(&new.tags, &mut refuse);
    let kind = kind.unwrap_or(MemoryKind::Fact);
    let category = match kind {
        MemoryKind::Preference => Some(USER_PREFERENCE.to_owned()),
        _ => new.category,
    };

    Memory {
        title: new.title,
        source: "client".to_owned(),
        file,
        labels: Labels {
            topics: distinct(&new.topics),
            tags,
            redacted: new.redacted,
            ..Labels::default()
        },
        category,
        own_importance: new.importance,
        important: new.important == Some(true),
        pinned: new.pinned == Some(true),
        created_at: new.created_at.unwrap_or(now),
        ..Memory::new(kind, user_id, new.content, now)
    }
}
