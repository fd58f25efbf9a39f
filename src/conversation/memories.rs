//! Facts, preferences and summaries that an application stores, and the changes that a memory
//! allows.

use memoir_text::field_error::FieldError;
use memoir_text::hash::sha256_hex;

use super::correcting::{Correction, check_category, check_topics, distinct};
use super::messages::{check_content, check_file, check_tags};
use super::redacting::Part;
use super::{Conversation, ConversationError, check_line, user_of};
use crate::base::clock::Timestamp;
use crate::base::ids::{MemoryId, Space, ThreadId};
use crate::llm::Session;
use crate::model::memory::{
    EnrichmentState, Evidence, FileHint, Labels, Memory, MemoryKind, USER_PREFERENCE,
};
use crate::store::{MemoryFilter, MemoryPage, StoreError, TurnPage, Tx};

use super::writing::PreparedMemories;

pub(super) const MAX_TITLE_CHARS: usize = 300;

/// What an application knows about a user.
#[derive(Debug, Clone, Default)]
pub struct NewMemory {
    pub user_id: Option<String>,
    pub thread_id: Option<String>,
    pub kind: Option<String>,
    pub title: Option<String>,
    pub content: String,
    pub category: Option<String>,
    pub topics: Vec<String>,
    pub tags: Vec<String>,
    pub importance: Option<f64>,
    pub important: bool,
    pub pinned: bool,
    pub created_at: Option<Timestamp>,
    pub file: FileHint,
    /// The memory that this one replaces.
    pub supersedes: Option<String>,
    /// Whether parts of the text were redacted.
    pub redacted: bool,
}

/// Changes to a memory; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default)]
pub struct MemoryChange {
    pub title: Option<Option<String>>,
    pub correction: Correction,
    pub important: Option<bool>,
    pub pinned: Option<bool>,
    pub tags: Option<Vec<String>>,
    /// Whether to use it again although another memory has replaced it.
    pub restore: bool,
}

/// A memory that was checked, with no transaction open.
pub struct PreparedMemory {
    pub memory: Memory,
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
        space: &Space,
        mut new: NewMemory,
        now: Timestamp,
    ) -> Result<PreparedMemory, ConversationError> {
        self.redact_memory(space, &mut new).await?;
        let supersedes = new.supersedes.clone();
        let thread = new.thread_id.clone();
        let vocabulary = self.vocabulary(space).await?;
        let mut errors = Vec::new();
        check_topics(&new.topics, &vocabulary, &mut errors);
        let mut memory = checked(new, now, &mut errors);
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
            memory.thread_id = Some(self.thread(space, &thread, Some(&memory.user_id)).await?.id);
        }

        if let Some(id) = supersedes {
            let old = self.memory(space, &id, Some(&memory.user_id)).await?;
            memory.evidence = Some(Evidence {
                supersedes: Some(old.id.to_string()),
                ..Evidence::default()
            });
        }

        let one = std::slice::from_ref(&memory);
        let session = Session::of_caller(space.clone());
        let prepared = match self.prepare_fully(&session, space, one).await {
            // Until then, keyword search finds it.
            Err(ConversationError::Llm(_)) => self.prepare(space, one).await?,
            prepared => prepared?,
        };
        Ok(PreparedMemory { memory, prepared })
    }

    /// Stores it inside the caller's transaction; the memory that it replaces is marked and kept.
    ///
    /// # Errors
    /// [`ConversationError::Superseded`]: another memory was faster, or the store's.
    pub async fn add_memory(
        &self,
        tx: &mut Tx,
        space: &Space,
        ready: &PreparedMemory,
        now: Timestamp,
    ) -> Result<(), ConversationError> {
        let memory = &ready.memory;
        match self.mark_replaced(tx, space, memory, now).await? {
            Replacing::Nothing | Replacing::Marked => {}
            Replacing::Gone(id) => return Err(ConversationError::no_memory(&id)),
            Replacing::Before { id, by } => return Err(ConversationError::Superseded { id, by }),
        }

        let one = std::slice::from_ref(memory);
        Ok(self
            .write_memories(tx, space, one, &ready.prepared, now)
            .await?)
    }

    /// Marks the memory that another one replaces. It is locked first, so of several that want to
    /// replace it, one does.
    pub(super) async fn mark_replaced(
        &self,
        tx: &mut Tx,
        space: &Space,
        memory: &Memory,
        now: Timestamp,
    ) -> Result<Replacing, StoreError> {
        let replaced = memory
            .evidence
            .as_ref()
            .and_then(|evidence| evidence.supersedes.clone());
        let Some(id) = replaced else {
            return Ok(Replacing::Nothing);
        };

        let held = tx.hold_memories(space, std::slice::from_ref(&id)).await?;
        let Some(mut old) = held.into_iter().next() else {
            return Ok(Replacing::Gone(id));
        };
        if let Some(by) = old.superseded_by {
            return Ok(Replacing::Before { id, by });
        }

        old.superseded_by = Some(memory.id.to_string());
        old.superseded_at = Some(memory.created_at);
        old.updated_at = now;
        tx.update_memory(space, &old, false).await?;
        Ok(Replacing::Marked)
    }

    /// A memory; if a user is named, only one of theirs.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], or the store's.
    pub async fn memory(
        &self,
        space: &Space,
        id: &str,
        user_id: Option<&str>,
    ) -> Result<Memory, ConversationError> {
        let parsed: MemoryId = id.parse().map_err(|_| ConversationError::no_memory(id))?;
        let found = self.store.find_memory(space, &parsed).await?;
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
        space: &Space,
        filter: &MemoryFilter,
        page: &MemoryPage,
    ) -> Result<Vec<Memory>, ConversationError> {
        Ok(self.store.list_memories(space, filter, page).await?)
    }

    /// A page of a thread's messages, in the order of the conversation.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_messages(
        &self,
        space: &Space,
        thread_id: &ThreadId,
        page: &TurnPage,
    ) -> Result<Vec<Memory>, ConversationError> {
        Ok(self.store.list_messages(space, thread_id, page).await?)
    }

    /// Changes a memory if `unchanged` accepts its current state.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], [`ConversationError::Changed`],
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn update_memory(
        &self,
        space: &Space,
        id: &str,
        user_id: Option<&str>,
        change: &MemoryChange,
        unchanged: impl Fn(&Memory) -> bool,
        now: Timestamp,
    ) -> Result<Memory, ConversationError> {
        let known = self.memory(space, id, user_id).await?;
        let mut errors = Vec::new();
        if let Some(Some(title)) = &change.title {
            check_line("title", title, MAX_TITLE_CHARS, &mut errors);
        }

        check_importance(change.correction.importance.flatten(), &mut errors);
        let tags = change.tags.as_ref().map(|tags| {
            check_tags(tags, &mut |field, rule| {
                errors.push(FieldError::new(field, rule));
            })
        });
        let vocabulary = self.vocabulary(space).await?;
        errors.extend(change.correction.faults(&known, &vocabulary));
        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        let (mut title, mut tags) = (change.title.clone(), tags);
        let mut parts: Vec<Part<'_>> = title.iter_mut().flatten().map(Part::title).collect();
        parts.extend(tags.iter_mut().flatten().map(|tag| Part::tag("", tag)));
        let redacted = self.redact_parts(space, parts).await?.contains(&true);
        let tags = tags.map(|tags| distinct(&tags));

        self.store
            .retry_as("update_memory", || async {
                let mut tx = self.store.begin().await?;
                let held = tx.hold_memories(space, &[known.id.to_string()]).await?;
                let found = held.into_iter().next();
                let mut memory = found.ok_or_else(|| ConversationError::no_memory(id))?;
                if !unchanged(&memory) {
                    return Err(ConversationError::Changed("memory"));
                }

                apply(&mut memory, change, title.as_ref(), tags.as_ref());
                memory.labels.redacted |= redacted;
                change.correction.apply(&mut memory, &vocabulary);
                memory.updated_at = now;
                let relabelled = tags.is_some() || change.correction.topics.is_some();
                tx.update_memory(space, &memory, relabelled).await?;
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

    if change.restore {
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
    check_file(&new.file, &mut refuse);
    let tags = check_tags(&new.tags, &mut refuse);
    let kind = kind.unwrap_or(MemoryKind::Fact);
    let category = match kind {
        MemoryKind::Preference => Some(USER_PREFERENCE.to_owned()),
        _ => new.category,
    };

    Memory {
        seq: 0,
        id: MemoryId::new(),
        user_id,
        thread_id: None,
        kind,
        role: "user".to_owned(),
        title: new.title,
        content_hash: sha256_hex(new.content.as_bytes()),
        content: new.content,
        source: "client".to_owned(),
        file: new.file,
        turn_index: 0,
        labels: Labels {
            topics: distinct(&new.topics),
            tags,
            redacted: new.redacted,
            ..Labels::default()
        },
        category,
        message_type: None,
        own_importance: new.importance,
        important: new.important,
        pinned: new.pinned,
        confidence: None,
        suggested_topic: None,
        suggested_category: None,
        access_count: 0,
        vocabulary_version: None,
        enrichment_model: None,
        enrichment_state: EnrichmentState::Off,
        enrichment_job: None,
        superseded_by: None,
        superseded_at: None,
        evidence: None,
        created_at: new.created_at.unwrap_or(now),
        stored_at: now,
        updated_at: now,
        last_access_at: None,
    }
}
