//! Messages: checked, recognised if they were stored before, and appended to their thread in one
//! transaction.

use std::collections::HashSet;

use memoir_text::field_error::FieldError;
use memoir_text::text::{char_count, has_control};
use serde::Deserialize;
use utoipa::ToSchema;

use super::writing::PreparedMemories;
use super::{Conversation, ConversationError, NewThread, enrichment, extraction};
use crate::base::clock::Timestamp;
use crate::base::ids::JobId;
use crate::base::tags;
use crate::jobs::JobsError;
use crate::model::call::CallContext;
use crate::model::memory::{EnrichmentState, FileHint, Labels, Memory, MemoryKind};
use crate::model::thread::Thread;
use crate::store::{StoreError, Tx};

/// Messages of one request.
pub const MAX_MESSAGES: usize = 1000;
/// Maximum characters of a message.
pub const MAX_CHARS: usize = 200_000;
const ROLES: [&str; 3] = ["user", "assistant", "system"];
const SOURCES: [&str; 2] = ["chat", "external"];
const MAX_TAGS: usize = 20;
/// Maximum characters of the name of a speaker.
pub(super) const MAX_NAME_CHARS: usize = 100;

/// Declares a type with the fields of a message, and more.
macro_rules! message_fields {
    (
        $(#[$about:meta])*
        $name:ident { content: $content:ty, $($more:tt)* }
    ) => {
        $(#[$about])*
        pub struct $name {
            /// `user` (the default), `assistant` or `system`.
            pub role: Option<String>,
            /// The name of the speaker, if several people share a role. Searches match it too.
            #[schema(max_length = 100)]
            pub name: Option<String>,
            /// What was said, verbatim.
            #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
            pub content: $content,
            /// `chat` (the default), or `external` for a reply from another program, which is stored only
            /// once.
            pub source: Option<String>,
            /// When it was said, for imports; now if omitted.
            #[schema(value_type = Option<String>, format = DateTime)]
            pub created_at: Option<$crate::base::clock::Timestamp>,
            /// Tags to find the message by.
            #[serde(default)]
            #[schema(max_items = 20)]
            pub tags: Vec<String>,
            /// The file that it is about.
            pub file_path: Option<String>,
            /// SHA-256 of the version of the file that it is about.
            #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
            pub file_sha256: Option<String>,
            /// When that version of the file was last modified.
            #[schema(value_type = Option<String>, format = DateTime)]
            pub file_mtime: Option<$crate::base::clock::Timestamp>,
            $($more)*
        }
    };
}

pub(crate) use message_fields;

message_fields! {
    /// A message.
    #[derive(Debug, Clone, Default, Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(as = MessageRequest)]
    NewMessage {
        content: String,
        /// Whether parts of the text were redacted.
        #[serde(skip)]
        pub redacted: bool,
    }
}

/// The thread that messages go to.
#[derive(Debug, Clone, Copy)]
pub enum ThreadRef<'r> {
    /// An existing one.
    Id(&'r str),
    /// One with the name that the client gives it, which is created with its first messages.
    Name(&'r str),
}

/// Messages that were checked and prepared, with no transaction open.
pub struct PreparedMessages {
    thread: Thread,
    /// Whether the thread is created if it does not exist.
    creates: bool,
    messages: Vec<Memory>,
    prepared: PreparedMemories,
    wanted: Wanted,
}

impl PreparedMessages {
    /// The first of them; there is always one.
    pub(super) fn first(&self) -> &Memory {
        &self.messages[0]
    }
}

/// What jobs do with messages in the background.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Classify them.
    pub enrich: bool,
    /// Extract facts from them.
    pub extract: bool,
}

/// A message, and whether it had been stored before.
#[derive(Debug, Clone)]
pub struct Appended {
    pub memory: Memory,
    pub duplicate: bool,
    /// The job that extracts facts from it.
    pub extraction_job: Option<String>,
}

impl Conversation {
    /// Checks messages for a thread, redacts them, and computes their terms and vectors.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::NotFound`], the model's, or the store's.
    pub async fn prepare_messages(
        &self,
        call: &CallContext,
        thread: ThreadRef<'_>,
        user_id: Option<&str>,
        mut new: Vec<NewMessage>,
        wanted: Wanted,
    ) -> Result<PreparedMessages, ConversationError> {
        let (thread, creates) = match thread {
            ThreadRef::Id(id) => (self.thread(call, id, user_id).await?, false),
            ThreadRef::Name(name) => {
                let named = NewThread {
                    external_id: Some(name.to_owned()),
                    user_id: user_id.map(str::to_owned),
                    ..NewThread::default()
                };
                (self.prepare_thread(call, named).await?, true)
            }
        };
        self.redact_messages(call, &mut new).await?;
        let single = new.len() == 1;
        let mut errors = Vec::new();
        if new.is_empty() || new.len() > MAX_MESSAGES {
            let rule = format!("must have 1 to {MAX_MESSAGES} messages");
            errors.push(FieldError::new("messages", rule));
        }

        let mut messages = Vec::with_capacity(new.len());
        for (place, message) in new.into_iter().enumerate() {
            let prefix = if single {
                String::new()
            } else {
                format!("messages[{place}].")
            };
            let state = if wanted.enrich {
                EnrichmentState::Pending
            } else {
                EnrichmentState::Off
            };
            messages.push(checked(
                message,
                &thread.user_id,
                state,
                &prefix,
                call.now,
                &mut errors,
            ));
        }

        if !errors.is_empty() {
            errors.truncate(20);
            return Err(ConversationError::Invalid(errors));
        }

        for message in &mut messages {
            message.thread_id = Some(thread.id.clone());
        }

        let prepared = self.prepare(call, &messages).await?;
        Ok(PreparedMessages {
            thread,
            creates,
            messages,
            prepared,
            wanted,
        })
    }

    /// Appends messages to their thread inside the caller's transaction, and queues their
    /// classification; call [`Conversation::announce`] once that is committed.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`]: the thread is gone. Or the store's.
    pub async fn append(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        ready: &PreparedMessages,
    ) -> Result<Vec<Appended>, ConversationError> {
        let mut thread = self.thread_of(tx, call, ready).await?;
        let known = self.known(tx, call, ready).await?;
        let mut seen: HashSet<String> = HashSet::new();
        let is_new = |message: &Memory, seen: &mut HashSet<String>| {
            let before = known.iter().any(|old| is_repeat(message, old));
            let key = format!(
                "{}|{}|{}",
                message.content_hash,
                message.role,
                message.created_at.as_micros()
            );
            !before && (seen.insert(key) || !is_import(message))
        };

        let fresh: Vec<bool> = ready
            .messages
            .iter()
            .map(|one| is_new(one, &mut seen))
            .collect();
        let job = if ready.wanted.enrich && fresh.contains(&true) {
            self.queue_enrichment(tx, call, &thread.user_id).await?
        } else {
            None
        };
        let extracted: Vec<&Memory> = ready
            .messages
            .iter()
            .zip(&fresh)
            .filter(|(message, fresh)| **fresh && ready.wanted.extract && message.role == "user")
            .map(|(message, _)| message)
            .collect();
        let extraction = if extracted.is_empty() {
            None
        } else {
            let ids: Vec<&str> = extracted.iter().map(|one| one.id.as_str()).collect();
            let new = extraction::new_job(&thread.user_id, &ids, self.jobs.max_attempts());
            let job = self.jobs.enqueue_for(tx, call, &new).await?;
            Some(job.id.to_string())
        };

        let mut appended = Vec::with_capacity(ready.messages.len());
        let mut stored = Vec::new();
        for (message, fresh) in ready.messages.iter().zip(fresh) {
            if !fresh {
                let old = known
                    .iter()
                    .find(|old| is_repeat(message, old))
                    .unwrap_or(message);
                appended.push(Appended {
                    memory: old.clone(),
                    extraction_job: None,
                    duplicate: true,
                });
                continue;
            }

            let mut memory = message.clone();
            if memory.role == "user" || thread.turn_count == 0 {
                thread.turn_count += 1;
            }

            memory.turn_index = thread.turn_count;
            memory.enrichment_job = job.as_ref().map(ToString::to_string);
            thread.message_count += 1;
            thread.last_message_at = thread.last_message_at.max(Some(memory.created_at));
            stored.push(memory.clone());
            let asked = memory.role == "user";
            appended.push(Appended {
                memory,
                extraction_job: extraction.clone().filter(|_| asked),
                duplicate: false,
            });
        }

        if !stored.is_empty() {
            thread.updated_at = call.now;
            tx.update_thread(&call.space, &thread).await?;
            let prepared = ready.prepared.only(&appended);
            self.write_memories(tx, call, &stored, &prepared).await?;
        }

        Ok(appended)
    }

    /// The thread of messages, locked until the transaction ends.
    async fn thread_of(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        ready: &PreparedMessages,
    ) -> Result<Thread, ConversationError> {
        let wanted = &ready.thread;
        let found = match tx.find_thread(&call.space, &wanted.id).await? {
            None if ready.creates => Some(tx.find_or_add_thread(&call.space, wanted).await?.0),
            found => found,
        };
        found
            .filter(|thread| thread.user_id == wanted.user_id)
            .ok_or_else(|| ConversationError::no_thread(wanted.id.as_str()))
    }

    /// Wakes the workers for what was queued.
    pub fn announce(&self) {
        self.jobs.announce();
    }

    /// Queues a classification job. A full queue does not reject a message: the next job of the
    /// thread classifies it too.
    async fn queue_enrichment(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        user_id: &str,
    ) -> Result<Option<JobId>, ConversationError> {
        let new = enrichment::new_job(user_id, self.jobs.max_attempts());
        match self.jobs.enqueue_for(tx, call, &new).await {
            Ok(job) => Ok(Some(job.id)),
            Err(JobsError::QueueFull { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stored messages of the thread that new ones may repeat.
    async fn known(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        ready: &PreparedMessages,
    ) -> Result<Vec<Memory>, StoreError> {
        let imports = ready.messages.iter().filter(|one| is_import(one));
        let mut hashes: Vec<&str> = imports.map(|one| one.content_hash.as_str()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        tx.list_same_content(&call.space, &ready.thread.id, &hashes)
            .await
    }
}

/// Whether a message can be recognised as sent before, because it has a source or a time of its
/// own. Two equal messages of a running chat are two messages.
fn is_import(message: &Memory) -> bool {
    message.source == "external" || message.created_at != message.stored_at
}

fn is_repeat(message: &Memory, old: &Memory) -> bool {
    is_import(message)
        && message.content_hash == old.content_hash
        && message.role == old.role
        && (message.source == "external" || message.created_at == old.created_at)
}

fn checked(
    new: NewMessage,
    user_id: &str,
    state: EnrichmentState,
    prefix: &str,
    now: Timestamp,
    errors: &mut Vec<FieldError>,
) -> Memory {
    let mut refuse =
        |field: &str, rule: String| errors.push(FieldError::new(format!("{prefix}{field}"), rule));
    let role = new.role.unwrap_or_else(|| "user".to_owned());
    if !ROLES.contains(&role.as_str()) {
        refuse("role", format!("must be one of {}", ROLES.join(", ")));
    }

    let source = new.source.unwrap_or_else(|| "chat".to_owned());
    if !SOURCES.contains(&source.as_str()) {
        refuse("source", format!("must be one of {}", SOURCES.join(", ")));
    }

    check_content(&new.content, &mut refuse);
    let file = FileHint {
        path: new.file_path,
        sha256: new.file_sha256,
        mtime: new.file_mtime,
    };
    check_file(&file, &mut refuse);
    let tags = check_tags(&new.tags, &mut refuse);
    if let Some(name) = &new.name
        && (name.trim().is_empty() || char_count(name) > MAX_NAME_CHARS || has_control(name))
    {
        refuse(
            "name",
            format!("must have 1 to {MAX_NAME_CHARS} characters"),
        );
    }

    Memory {
        role,
        source,
        file,
        labels: Labels {
            tags,
            speaker: new.name.map(|name| name.trim().to_owned()),
            redacted: new.redacted,
            ..Labels::default()
        },
        enrichment_state: state,
        created_at: new.created_at.unwrap_or(now),
        ..Memory::new(MemoryKind::Message, user_id.to_owned(), new.content, now)
    }
}

pub(super) fn check_content(content: &str, refuse: &mut impl FnMut(&str, String)) {
    if content.trim().is_empty() {
        refuse("content", "must not be empty".to_owned());
    }

    if char_count(content) > MAX_CHARS {
        refuse(
            "content",
            format!("must have at most {MAX_CHARS} characters"),
        );
    }
}

pub(super) fn check_file(file: &FileHint, refuse: &mut impl FnMut(&str, String)) {
    if file
        .path
        .as_ref()
        .is_some_and(|path| path.trim().is_empty() || char_count(path) > 4096)
    {
        refuse("file_path", "must have 1 to 4096 characters".to_owned());
    }

    let hex = |text: &String| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if file.sha256.as_ref().is_some_and(|sha256| !hex(sha256)) {
        refuse("file_sha256", "must have 64 hexadecimal digits".to_owned());
    }
}

pub(super) fn check_tags(given: &[String], refuse: &mut impl FnMut(&str, String)) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in given {
        let tag = tag.trim();
        if tag.is_empty() || char_count(tag) > tags::MAX_CHARS || has_control(tag) {
            refuse(
                "tags",
                format!("each tag must have 1 to {} characters", tags::MAX_CHARS),
            );
        } else if !tags.iter().any(|one| one == tag) {
            tags.push(tag.to_owned());
        }
    }

    if tags.len() > MAX_TAGS {
        refuse("tags", format!("must have at most {MAX_TAGS} entries"));
    }

    tags
}
