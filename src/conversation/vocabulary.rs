//! The vocabulary of a space: its lists, its suggestions, and how a suggestion becomes a term.

use memoir_text::field_error::FieldError;
use memoir_text::presets;
use memoir_text::text::{char_count, has_control};
use serde_json::json;

use super::{Conversation, ConversationError, backfill, reclassifying};
use crate::base::ids::JobId;
use crate::model::call::CallContext;
use crate::model::job::{Lane, NewJob};
use crate::model::memory::USER_PREFERENCE;
use crate::model::vocabulary::{Suggestion, SuggestionKind, Terms, Vocabulary};
use crate::store::{StoreError, Tx};

/// Providers accept at most about this many values of a closed choice.
const MAX_TERMS: usize = 250;
const MAX_TERM_CHARS: usize = 100;
const MAX_VERSION_CHARS: usize = 32;
/// Suggestions of one list.
const MAX_SUGGESTIONS: usize = 20;

/// An approved suggestion.
pub struct Approved {
    pub vocabulary: Vocabulary,
    /// The job that adds the term to the memories that suggested it.
    pub job_id: JobId,
}

/// The vocabulary after a preset was chosen.
pub struct Chosen {
    pub vocabulary: Vocabulary,
    /// The job that has stored messages classified with it; none if all of them are.
    pub job_id: Option<JobId>,
}

impl Conversation {
    /// The current vocabulary of a space.
    ///
    /// # Errors
    /// The store's.
    pub async fn vocabulary(&self, call: &CallContext) -> Result<Vocabulary, StoreError> {
        let own = self.store.find_vocabulary(&call.space).await?;
        Ok(own.unwrap_or_else(Vocabulary::seeded))
    }

    /// Replaces the vocabulary by new lists, as a new version.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::VocabularyConflict`], or the store's.
    pub async fn replace_vocabulary(
        &self,
        call: &CallContext,
        version: Option<String>,
        terms: Terms,
    ) -> Result<Vocabulary, ConversationError> {
        let mut errors = faults(&terms);
        if let Some(version) = &version
            && (!version.is_ascii()
                || version.trim().is_empty()
                || version.len() > MAX_VERSION_CHARS
                || has_control(version))
        {
            let rule = format!("must have 1 to {MAX_VERSION_CHARS} ASCII characters");
            errors.push(FieldError::new("version", rule));
        }

        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        self.store
            .retry_as("replace_vocabulary", || async {
                let mut tx = self.store.begin().await?;
                tx.lock_vocabulary(&call.space).await?;
                let vocabulary = Vocabulary {
                    version: next_version(&mut tx, call, version.clone()).await?,
                    terms: terms.clone(),
                };
                tx.add_vocabulary(&call.space, &vocabulary, call.now)
                    .await?;
                tx.commit().await?;
                Ok(vocabulary)
            })
            .await
    }

    /// Makes a preset the vocabulary, as a new version, and queues the job that has stored messages
    /// classified with it; call [`Conversation::announce`] once the transaction is committed. For the
    /// preset that is in force already, returns the job that is still at work, or queues one if
    /// messages with other terms are left.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], the queue's, or the store's.
    pub async fn choose_preset(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        name: &str,
    ) -> Result<Chosen, ConversationError> {
        let Some(preset) = presets::find(name) else {
            let names: Vec<&str> = presets::all().iter().map(|preset| preset.name).collect();
            let rule = format!("must be one of {}", names.join(", "));
            return Err(ConversationError::invalid("name", rule));
        };

        let terms = Terms::of(preset);
        let current = tx.lock_vocabulary(&call.space).await?;
        let current = current.unwrap_or_else(Vocabulary::seeded);
        if current.terms == terms {
            let job_id = self.reclassification(tx, call, &current).await?;
            return Ok(Chosen {
                vocabulary: current,
                job_id,
            });
        }

        let version = next_version(tx, call, None).await?;
        let vocabulary = Vocabulary { version, terms };
        tx.add_vocabulary(&call.space, &vocabulary, call.now)
            .await?;
        let new = reclassifying::new_job(self.jobs.max_attempts());
        let job = self.jobs.enqueue_for(tx, call, &new).await?;
        Ok(Chosen {
            vocabulary,
            job_id: Some(job.id),
        })
    }

    /// The job that has stored messages classified with the vocabulary in force: the one at work, or
    /// a new one if it is needed.
    async fn reclassification(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        current: &Vocabulary,
    ) -> Result<Option<JobId>, ConversationError> {
        let unfinished = tx.find_unfinished_job(&call.space, reclassifying::KIND);
        if let Some(id) = unfinished.await? {
            return Ok(Some(id));
        }

        let left = tx.has_classified_before(&call.space, &current.version);
        if !left.await? {
            return Ok(None);
        }

        let new = reclassifying::new_job(self.jobs.max_attempts());
        let job = self.jobs.enqueue_for(tx, call, &new).await?;
        Ok(Some(job.id))
    }

    /// Terms that models keep suggesting.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], or the store's.
    pub async fn suggestions(
        &self,
        call: &CallContext,
        kind: SuggestionKind,
        min_frequency: i64,
    ) -> Result<Vec<Suggestion>, ConversationError> {
        if !(1..=1_000_000).contains(&min_frequency) {
            return Err(ConversationError::invalid(
                "min_frequency",
                "must be from 1 to 1000000",
            ));
        }

        let found = self
            .store
            .list_suggestions(&call.space, kind, min_frequency, MAX_SUGGESTIONS);
        Ok(found.await?)
    }

    /// Adds a suggestion to the vocabulary, and queues the job that adds it to the memories that
    /// suggested it; call [`Conversation::announce`] once the transaction is committed.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::VocabularyConflict`], the queue's, or the
    /// store's.
    pub async fn approve(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        kind: SuggestionKind,
        suggestion: &str,
    ) -> Result<Approved, ConversationError> {
        let current = tx.lock_vocabulary(&call.space).await?;
        let Vocabulary { mut terms, .. } = current.unwrap_or_else(Vocabulary::seeded);
        let list = match kind {
            SuggestionKind::Topic => &mut terms.topics,
            SuggestionKind::Category => &mut terms.categories,
        };

        if list.iter().any(|term| term == suggestion) {
            let detail = format!(
                "the vocabulary already has the {} {suggestion:?}",
                kind.into_str()
            );
            return Err(ConversationError::VocabularyConflict(detail));
        }

        list.push(suggestion.to_owned());
        let mut errors = faults(&terms);
        for error in &mut errors {
            "suggestion".clone_into(&mut error.field);
        }

        if !errors.is_empty() {
            return Err(ConversationError::Invalid(errors));
        }

        let version = next_version(tx, call, None).await?;
        let vocabulary = Vocabulary { version, terms };
        tx.add_vocabulary(&call.space, &vocabulary, call.now)
            .await?;
        let request = json!({"kind": kind.into_str(), "suggestion": suggestion});
        let new = NewJob {
            group_size: 1,
            kind: backfill::KIND,
            lane: Lane::Background,
            user_id: String::new(),
            source_id: None,
            request: request.to_string(),
            max_attempts: self.jobs.max_attempts(),
        };
        let job = self.jobs.enqueue(tx, call, &new).await?;
        Ok(Approved {
            vocabulary,
            job_id: job.id,
        })
    }
}

/// The version of a new vocabulary: the given one, or the day, with a number from the second on.
async fn next_version(
    tx: &mut Tx,
    call: &CallContext,
    given: Option<String>,
) -> Result<String, ConversationError> {
    let seeded = Vocabulary::seeded().version;
    if let Some(version) = given {
        if version == seeded || tx.has_vocabulary(&call.space, &version).await? {
            let detail = format!("there is already a vocabulary {version:?}");
            return Err(ConversationError::VocabularyConflict(detail));
        }

        return Ok(version);
    }

    let day = call.now.day();
    let mut version = day.clone();
    let mut number = 2;
    while version == seeded || tx.has_vocabulary(&call.space, &version).await? {
        version = format!("{day}.{number}");
        number += 1;
    }

    Ok(version)
}

/// What is wrong with the lists.
fn faults(terms: &Terms) -> Vec<FieldError> {
    let lists = [
        ("topics", &terms.topics),
        ("categories", &terms.categories),
        ("message_types", &terms.message_types),
        ("entity_types", &terms.entity_types),
    ];

    let mut errors = Vec::new();
    for (field, list) in lists {
        if list.is_empty() || list.len() > MAX_TERMS {
            errors.push(FieldError::new(
                field,
                format!("must have 1 to {MAX_TERMS} entries"),
            ));
        }

        for (place, term) in list.iter().enumerate() {
            let fits = !term.trim().is_empty()
                && term.trim() == term
                && char_count(term) <= MAX_TERM_CHARS
                && !has_control(term);
            let rule = if !fits {
                format!(
                    "must have 1 to {MAX_TERM_CHARS} characters on one line, without spaces around them"
                )
            } else if list[..place].contains(term) {
                "appears twice".to_owned()
            } else if field == "categories" && term == USER_PREFERENCE {
                "is reserved for preferences".to_owned()
            } else {
                continue;
            };

            errors.push(FieldError::new(format!("{field}[{place}]"), rule));
        }
    }

    errors
}
