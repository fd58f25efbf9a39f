//! Redacts what is about to be stored, where the retrieval policy of the space wants that: the text
//! of every message, and the text and title of every memory, whoever writes it.

use super::memories::NewMemory;
use super::messages::NewMessage;
use super::{Conversation, ConversationError};
use crate::base::ids::Space;
use crate::memory_retrieval::{NewText, PolicyError};
use crate::store::StoreError;

impl Conversation {
    pub(super) async fn redact_messages(
        &self,
        space: &Space,
        messages: &mut [NewMessage],
    ) -> Result<(), ConversationError> {
        let single = messages.len() == 1;
        let texts = messages.iter().enumerate().map(|(place, message)| NewText {
            field: if single {
                "content".to_owned()
            } else {
                format!("messages[{place}].content")
            },
            text: message.content.clone(),
        });

        let redacted = self.policies.redact_for_storage(space, texts).await?;
        for (message, redacted) in messages.iter_mut().zip(redacted) {
            if let Some(redacted) = redacted {
                (message.content, message.redacted) = (redacted, true);
            }
        }

        Ok(())
    }

    pub(super) async fn redact_title(
        &self,
        space: &Space,
        title: &str,
    ) -> Result<Option<String>, ConversationError> {
        let text = NewText {
            field: "title".to_owned(),
            text: title.to_owned(),
        };
        let redacted = self
            .policies
            .redact_for_storage(space, std::iter::once(text));
        Ok(redacted.await?.pop().flatten())
    }

    pub(super) async fn redact_memory(
        &self,
        space: &Space,
        memory: &mut NewMemory,
    ) -> Result<(), ConversationError> {
        let text = |field: &str, text: &str| NewText {
            field: field.to_owned(),
            text: text.to_owned(),
        };
        let title = memory.title.as_deref().unwrap_or_default();
        let texts = [text("content", &memory.content), text("title", title)];

        let redacted = self.policies.redact_for_storage(space, texts.into_iter());
        let mut redacted = redacted.await?.into_iter();
        if let Some(content) = redacted.next().flatten() {
            (memory.content, memory.redacted) = (content, true);
        }
        if let Some(title) = redacted.next().flatten() {
            (memory.title, memory.redacted) = (Some(title), true);
        }

        Ok(())
    }
}

impl From<PolicyError> for ConversationError {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::Invalid(faults) => Self::Invalid(faults),
            PolicyError::Store(error) => Self::Store(error),
            // The current policy always exists: without a stored one, it is the default.
            PolicyError::NotFound(_) => Self::Store(StoreError::Broken {
                cause: error.to_string(),
            }),
        }
    }
}
