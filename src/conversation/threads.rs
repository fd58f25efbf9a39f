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
use crate::store::{StoreError, ThreadPage, Tx};

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

impl Conversation {
    /// Checks a new thread and redacts its title, without storing it.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn prepare_thread(
        &self,
        call: &CallContext,
        id: Option<&str>,
        user_id: Option<String>,
        title: Option<String>,
    ) -> Result<Thread, ConversationError> {
        let mut errors = Vec::new();
        let user_id = user_of(user_id, &mut errors);
        if let Some(title) = &title {
            check_line("title", title, MAX_TITLE_CHARS, &mut errors);
        }

        let id = id.map_or_else(|| Ok(ThreadId::new()), str::parse);
        let id = id.unwrap_or_else(|_| {
            errors.push(FieldError::new(
                "id",
                "must be a UUID; if omitted, memoir generates one",
            ));
            ThreadId::new()
        });

        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        let title = self.redact_title(call, title).await?;
        Ok(Thread {
            id,
            user_id,
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

    /// A page of threads.
    pub async fn list_threads(
        &self,
        call: &CallContext,
        user_id: Option<&str>,
        page: &ThreadPage,
    ) -> Result<Vec<Thread>, ConversationError> {
        Ok(self.store.list_threads(&call.space, user_id, page).await?)
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
