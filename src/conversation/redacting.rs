//! Redacts what is about to be stored, where the retrieval policy of the space wants that: the text,
//! title, tags and speaker of every message and memory, and the title of every thread, whoever writes
//! it. Ids and file paths stay as they are, because they identify something.

use memoir_text::text::char_count;

use super::memories::{MAX_TITLE_CHARS, NewMemory};
use super::messages::{MAX_NAME_CHARS, NewMessage};
use super::{Conversation, ConversationError};
use crate::base::tags;
use crate::memory_retrieval::{NewText, PolicyError};
use crate::model::call::CallContext;
use crate::store::StoreError;

/// A text of a request that is about to be stored.
pub(super) struct Part<'r> {
    field: String,
    text: &'r mut String,
    /// What a redacted text is cut to, if it had at most so many characters before.
    max_chars: usize,
}

impl<'r> Part<'r> {
    fn content(prefix: &str, text: &'r mut String) -> Self {
        Self {
            field: format!("{prefix}content"),
            text,
            max_chars: usize::MAX,
        }
    }

    pub(super) fn title(text: &'r mut String) -> Self {
        Self {
            field: "title".to_owned(),
            text,
            max_chars: MAX_TITLE_CHARS,
        }
    }

    fn name(prefix: &str, text: &'r mut String) -> Self {
        Self {
            field: format!("{prefix}name"),
            text,
            max_chars: MAX_NAME_CHARS,
        }
    }

    pub(super) fn tag(prefix: &str, text: &'r mut String) -> Self {
        Self {
            field: format!("{prefix}tags"),
            text,
            max_chars: tags::MAX_CHARS,
        }
    }

    fn replace(self, redacted: String) {
        let cut = if char_count(self.text) <= self.max_chars {
            redacted.char_indices().nth(self.max_chars)
        } else {
            None
        };
        *self.text = match cut {
            Some((end, _)) => redacted[..end].to_owned(),
            None => redacted,
        };
    }
}

impl Conversation {
    /// Redacts some texts together; whether each was changed.
    pub(super) async fn redact_parts(
        &self,
        call: &CallContext,
        parts: Vec<Part<'_>>,
    ) -> Result<Vec<bool>, ConversationError> {
        let texts = parts.iter().map(|part| NewText {
            field: part.field.clone(),
            text: part.text.clone(),
        });
        let texts: Vec<NewText> = texts.collect();

        let redacted = self
            .policies
            .redact_for_storage(call, texts.into_iter())
            .await?;
        let changed = redacted.iter().map(Option::is_some).collect();
        for (part, redacted) in parts.into_iter().zip(redacted) {
            if let Some(redacted) = redacted {
                part.replace(redacted);
            }
        }

        Ok(changed)
    }

    pub(super) async fn redact_messages(
        &self,
        call: &CallContext,
        messages: &mut [NewMessage],
    ) -> Result<(), ConversationError> {
        let single = messages.len() == 1;
        let mut parts = Vec::with_capacity(messages.len());
        let mut owners = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter_mut().enumerate() {
            let prefix = if single {
                String::new()
            } else {
                format!("messages[{place}].")
            };
            parts.push(Part::content(&prefix, &mut message.content));
            let name = message.name.iter_mut();
            parts.extend(name.map(|name| Part::name(&prefix, name)));
            let tags = message.tags.iter_mut();
            parts.extend(tags.map(|tag| Part::tag(&prefix, tag)));
            owners.resize(parts.len(), place);
        }

        let changed = self.redact_parts(call, parts).await?;
        for (place, changed) in owners.into_iter().zip(changed) {
            messages[place].redacted |= changed;
        }

        Ok(())
    }

    pub(super) async fn redact_memory(
        &self,
        call: &CallContext,
        memory: &mut NewMemory,
    ) -> Result<(), ConversationError> {
        let mut parts = vec![Part::content("", &mut memory.content)];
        parts.extend(memory.title.iter_mut().map(Part::title));
        parts.extend(memory.tags.iter_mut().map(|tag| Part::tag("", tag)));

        let changed = self.redact_parts(call, parts).await?;
        memory.redacted |= changed.contains(&true);
        Ok(())
    }
}

impl From<PolicyError> for ConversationError {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::Invalid(faults) => Self::Invalid(faults),
            PolicyError::Store(error) => Self::Store(error),
            // The current policy always exists: without a stored one, it is the default. Redaction
            // changes none.
            PolicyError::NotFound(_) | PolicyError::Changed => Self::Store(StoreError::Broken {
                cause: error.to_string(),
            }),
        }
    }
}
