//! The lexicon of a space: terms and their aliases, which a search treats as the same.

use memoir_text::field_error::FieldError;
use memoir_text::text::{char_count, has_control, name_key};

use super::{Conversation, ConversationError};
use crate::model::call::CallContext;
use crate::store::{LexiconEntry, StoreError};

const MAX_ENTRIES: usize = 5000;
const MAX_CHARS: usize = 100;

impl Conversation {
    /// The lexicon, in its order.
    ///
    /// # Errors
    /// The store's.
    pub async fn lexicon(&self, call: &CallContext) -> Result<Vec<LexiconEntry>, StoreError> {
        self.store.list_lexicon(&call.space).await
    }

    /// Replaces the lexicon.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn replace_lexicon(
        &self,
        call: &CallContext,
        entries: Vec<LexiconEntry>,
    ) -> Result<Vec<LexiconEntry>, ConversationError> {
        let mut errors = Vec::new();
        if entries.len() > MAX_ENTRIES {
            errors.push(FieldError::new(
                "entries",
                format!("must have at most {MAX_ENTRIES} entries"),
            ));
        }

        for (place, entry) in entries.iter().enumerate() {
            for (name, text) in [("term", &entry.term), ("alias", &entry.alias)] {
                if text.trim().is_empty() || char_count(text) > MAX_CHARS || has_control(text) {
                    let rule = format!("must have 1 to {MAX_CHARS} characters on one line");
                    errors.push(FieldError::new(format!("entries[{place}].{name}"), rule));
                }
            }
        }

        if !errors.is_empty() {
            errors.truncate(20);
            return Err(ConversationError::Invalid(errors));
        }

        let trimmed = entries.into_iter().map(|entry| LexiconEntry {
            term: entry.term.trim().to_owned(),
            alias: entry.alias.trim().to_owned(),
        });
        let entries: Vec<LexiconEntry> = trimmed.collect();
        self.store
            .retry("replace_lexicon", || async {
                let mut tx = self.store.begin().await?;
                tx.replace_lexicon(&call.space, &entries).await?;
                tx.commit().await
            })
            .await?;
        Ok(self.lexicon(call).await?)
    }
}

/// The aliases of the terms in a question, each once.
pub fn other_names(query: &str, lexicon: &[LexiconEntry]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in lexicon {
        for (said, other) in [(&entry.term, &entry.alias), (&entry.alias, &entry.term)] {
            if mentions(query, said) && !mentions(query, other) && !names.contains(other) {
                names.push(other.clone());
            }
        }
    }

    names
}

/// Whether a text contains a name as whole words.
pub fn mentions(text: &str, name: &str) -> bool {
    let words = |text: &str| {
        let key = name_key(text);
        let words = key
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    };

    let (text, name) = (words(text), words(name));
    !name.is_empty() && text.windows(name.len()).any(|some| some == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_other_names() {
        let entry = |term: &str, alias: &str| LexiconEntry {
            term: term.to_owned(),
            alias: alias.to_owned(),
        };
        let lexicon = [
            entry("NVH", "vehicle acoustics"),
            entry("CI", "continuous integration"),
        ];
        assert_eq!(
            other_names("What about nvh?", &lexicon),
            ["vehicle acoustics"]
        );
        assert_eq!(other_names("vehicle  Acoustics today", &lexicon), ["NVH"]);
        assert!(other_names("the circus", &lexicon).is_empty());
    }
}
