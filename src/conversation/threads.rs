//! Threads: create, list, rename.

use memoir_text::field_error::FieldError;
use serde::Deserialize;
use utoipa::ToSchema;

use super::memories::MAX_TITLE_CHARS;
use super::redacting::Part;
use super::{Conversation, ConversationError, check_line, user_of};
use crate::base::ids::ThreadId;
use crate::model::call::CallContext;
use crate::model::thread::Thread;
use crate::store::{StoreError, ThreadFilter, ThreadPage, Tx};

/// Maximum characters of the name that a client gives a thread.
pub const MAX_NAME_CHARS: usize = 128;

/// The fields to change; omitted fields stay unchanged.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UpdateThreadRequest, example = json!({"title": "Refund of order 5678"}))]
pub struct ThreadChange {
    /// The new title; null removes it.
    #[serde(default, deserialize_with = "crate::base::json_object::given")]
    #[schema(value_type = Option<String>, max_length = 300)]
    pub title: Option<Option<String>>,
}

/// A thread to create: with an id of its own, with the name that the client gives it, or with
/// neither.
#[derive(Debug, Clone, Default)]
pub struct NewThread {
    pub id: Option<String>,
    pub external_id: Option<String>,
    pub user_id: Option<String>,
    pub title: Option<String>,
}

impl Conversation {
    /// Checks a new thread and redacts its title, without storing it. A thread with a name has the
    /// id that follows from space, user and name; a name that is a UUID is the id.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn prepare_thread(
        &self,
        call: &CallContext,
        new: NewThread,
    ) -> Result<Thread, ConversationError> {
        let mut errors = Vec::new();
        let user_id = user_of(new.user_id, &mut errors);
        if let Some(title) = &new.title {
            check_line("title", title, MAX_TITLE_CHARS, &mut errors);
        }

        let (id, external_id) = match (&new.id, &new.external_id) {
            (None, None) => (ThreadId::new(), None),
            (None, Some(name)) => named(call, &user_id, name, &mut errors),
            (Some(id), name) => {
                if name.is_some() {
                    let rule = "send either `id` or `external_id`, not both";
                    errors.push(FieldError::new("external_id", rule));
                }

                let id = id.parse().unwrap_or_else(|_| {
                    let rule = "must be a UUID; if omitted, memoir generates one";
                    errors.push(FieldError::new("id", rule));
                    ThreadId::new()
                });
                (id, None)
            }
        };

        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        let title = self.redact_title(call, new.title).await?;
        Ok(Thread {
            id,
            user_id,
            external_id,
            title,
            message_count: 0,
            turn_count: 0,
            created_at: call.now,
            updated_at: call.now,
            last_message_at: None,
        })
    }

    /// The title as it is stored.
    async fn redact_title(
        &self,
        call: &CallContext,
        title: Option<String>,
    ) -> Result<Option<String>, ConversationError> {
        let mut title = title.map(|title| title.trim().to_owned());
        let part = title.iter_mut().map(Part::title).collect();
        self.redact_parts(call, part).await?;
        Ok(title)
    }

    /// Stores a new thread inside the caller's transaction.
    ///
    /// # Errors
    /// [`ConversationError::ThreadExists`], or the store's.
    pub async fn add_thread(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        thread: &Thread,
    ) -> Result<(), ConversationError> {
        match tx.add_thread(&call.space, thread).await {
            Err(StoreError::Conflict { .. }) => {
                Err(ConversationError::ThreadExists(thread.id.to_string()))
            }
            done => Ok(done?),
        }
    }

    /// Stores a thread inside the caller's transaction unless it exists; returns the stored one, and
    /// whether it is new.
    ///
    /// # Errors
    /// [`ConversationError::ThreadExists`]: another user has a thread with this id. Or the store's.
    pub async fn find_or_add_thread(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        thread: &Thread,
    ) -> Result<(Thread, bool), ConversationError> {
        let (stored, is_new) = tx.find_or_add_thread(&call.space, thread).await?;
        if stored.user_id == thread.user_id {
            Ok((stored, is_new))
        } else {
            Err(ConversationError::ThreadExists(thread.id.to_string()))
        }
    }

    /// A page of threads.
    pub async fn list_threads(
        &self,
        call: &CallContext,
        filter: ThreadFilter<'_>,
        page: &ThreadPage,
    ) -> Result<Vec<Thread>, ConversationError> {
        Ok(self.store.list_threads(&call.space, filter, page).await?)
    }

    /// Changes a thread if `unchanged` accepts its current state.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], [`ConversationError::Changed`],
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn update_thread(
        &self,
        call: &CallContext,
        id: &str,
        user_id: Option<&str>,
        change: &ThreadChange,
        unchanged: impl Fn(&Thread) -> bool,
    ) -> Result<Thread, ConversationError> {
        let mut errors = Vec::new();
        if let Some(Some(title)) = &change.title {
            check_line("title", title, MAX_TITLE_CHARS, &mut errors);
        }

        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        let known = self.thread(call, id, user_id).await?;
        let title = match &change.title {
            Some(title) => Some(self.redact_title(call, title.clone()).await?),
            None => None,
        };
        self.store
            .retry_as("update_thread", || async {
                let mut tx = self.store.begin().await?;
                let found = tx.find_thread(&call.space, &known.id).await?;
                let mut thread = found.ok_or_else(|| ConversationError::no_thread(id))?;
                if !unchanged(&thread) {
                    return Err(ConversationError::Changed("thread"));
                }

                if let Some(title) = &title {
                    thread.title.clone_from(title);
                }

                thread.updated_at = call.now;
                tx.update_thread(&call.space, &thread).await?;
                tx.commit().await?;
                Ok(thread)
            })
            .await
    }
}

/// The id of a thread with a name, and the name if it is not the id itself.
fn named(
    call: &CallContext,
    user_id: &str,
    name: &str,
    errors: &mut Vec<FieldError>,
) -> (ThreadId, Option<String>) {
    check_line("external_id", name, MAX_NAME_CHARS, errors);
    let name = name.trim();
    if let Ok(id) = name.parse() {
        return (id, None);
    }

    let id = ThreadId::of_name(&call.space, user_id, name);
    (id, Some(name.to_owned()))
}
