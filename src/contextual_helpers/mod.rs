//! Contextual helpers: one paragraph that says what a source is, generated from its head or written
//! by its user, with versions. It is part of every prompt about the source.

mod compose;
mod derive;

use std::sync::Arc;

use memoir_text::tokens::TokenCounter;

use crate::base::ids::SourceId;
use crate::llm::tasks::helper::{Helper, HelperOutput};
use crate::llm::tasks::helper_many::HelperMany;
use crate::llm::{Llm, LlmError, Session};
use crate::model::call::CallContext;
use crate::model::chunk::{RETRIEVAL, TAXONOMY};
use crate::model::contextual_helper::{ContextualHelper, HelperOrigin, NewHelper};
use crate::model::llm_call::LlmCall;
use crate::store::{Store, StoreError, as_store_error};

pub use compose::{HelperFields, Refused, compose, from_text};
pub use derive::detect_title;

/// Maximum chunks and tokens from which a helper is generated.
pub const FIRST_CHUNKS: usize = 5;
pub const FIRST_TOKENS: usize = 2000;

/// Entry point of helpers; cheap to clone.
#[derive(Clone)]
pub struct ContextualHelpers {
    store: Store,
    llm: Llm,
}

/// The input for generating a helper.
#[derive(Debug, Clone, Default)]
pub struct SourceHead {
    pub filename: String,
    /// Given by the user, or found in the text.
    pub title: Option<String>,
    pub metadata: Vec<(String, String)>,
    /// The first chunks with their token counts.
    pub chunks: Vec<(Arc<str>, usize)>,
}

/// A request about a helper failed.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// 422: fields violate a rule.
    #[error("the helper is invalid")]
    Invalid(Refused),
    /// 404: the source does not exist.
    #[error("there is no source {0} in this space")]
    NoSource(String),
    /// 404: the source has no helper.
    #[error("source {0} has no helper yet")]
    NotFound(String),
    /// 409: there is no text to generate it from.
    #[error("source {0} has no version yet")]
    NoText(String),
    /// 502 and others, as the model layer says.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

as_store_error!(HelperError);

impl ContextualHelpers {
    #[must_use]
    pub fn new(store: Store, llm: Llm) -> Self {
        Self { store, llm }
    }

    /// The current helper.
    pub async fn current(
        &self,
        call: &CallContext,
        source: &SourceId,
    ) -> Result<Option<ContextualHelper>, StoreError> {
        self.store.find_helper(&call.space, source).await
    }

    /// All of them, newest first.
    pub async fn list(
        &self,
        call: &CallContext,
        source: &SourceId,
    ) -> Result<Vec<ContextualHelper>, StoreError> {
        self.store
            .list_helpers(&call.space, source, usize::MAX)
            .await
    }

    /// Stores a helper, which becomes current.
    ///
    /// # Errors
    /// [`HelperError::NoSource`], or the store's.
    pub async fn store(
        &self,
        call: &CallContext,
        source: &SourceId,
        helper: &NewHelper,
    ) -> Result<ContextualHelper, HelperError> {
        self.store
            .retry_as("add_helper", || async {
                let mut tx = self.store.begin().await?;
                // Locked, so that concurrent requests get different versions.
                if tx.find_source(&call.space, source).await?.is_none() {
                    return Err(HelperError::NoSource(source.to_string()));
                }

                let version = tx.add_helper(&call.space, source, helper, call.now).await?;
                tx.commit().await?;
                Ok(ContextualHelper {
                    version,
                    helper: helper.clone(),
                    created_at: call.now,
                })
            })
            .await
    }

    /// A model writes a helper; nothing is stored.
    ///
    /// # Errors
    /// The model's.
    pub async fn generate(
        &self,
        session: &Session,
        head: SourceHead,
    ) -> Result<NewHelper, LlmError> {
        let answered = self.llm.ask(session, task(head)).await?;
        Ok(generated(answered.value, spent(&answered.calls)))
    }

    /// Generates helpers for several short sources with one call; `None` for those without a valid
    /// one. Each counts its share of the tokens.
    pub async fn generate_many(
        &self,
        session: &Session,
        heads: Vec<SourceHead>,
    ) -> Vec<Option<NewHelper>> {
        let count = heads.len();
        let documents = (1..).zip(heads.into_iter().map(task)).collect();
        let asked = self.llm.ask_partly(session, HelperMany { documents }).await;
        let Ok(answered) = asked else {
            return vec![None; count];
        };

        let share = i64::try_from(count).unwrap_or(1).max(1);
        let (prompt, completion) = spent(&answered.calls);
        let mut helpers = vec![None; count];
        for document in answered.value.into_iter().flat_map(|all| all.documents) {
            let index = usize::try_from(document.id - 1).unwrap_or(usize::MAX);
            if let Some(helper) = helpers.get_mut(index) {
                let tokens = (prompt / share, completion / share);
                *helper = Some(generated(document.known(), tokens));
            }
        }

        helpers
    }

    /// A model rewrites the helper from the stored text; the result is stored.
    ///
    /// # Errors
    /// [`HelperError::NoText`], the model's, or the store's.
    pub async fn regenerate(
        &self,
        call: &CallContext,
        source: &crate::model::source::Source,
    ) -> Result<ContextualHelper, HelperError> {
        let id = &source.id;
        let no_text = || HelperError::NoText(id.to_string());
        let version = self
            .store
            .find_source_version(&call.space, id, source.latest_version)
            .await?
            .ok_or_else(no_text)?;

        let content = version.content_version_id.unwrap_or(version.id);
        let mut chunks = self
            .store
            .list_version_chunks(&call.space, content, TAXONOMY, 0, FIRST_CHUNKS)
            .await?;

        if chunks.is_empty() {
            // A source that is only searched.
            chunks = self
                .store
                .list_version_chunks(&call.space, content, RETRIEVAL, 0, FIRST_CHUNKS)
                .await?;
        }

        let given = |name: &str| {
            version
                .facts
                .metadata
                .get(name)
                .and_then(|value| value.as_str())
                .map(str::to_owned)
        };

        let mut metadata: Vec<(String, String)> = Vec::new();
        for (name, value) in [
            ("author", given("author")),
            ("date", given("date")),
            ("topic", version.facts.topic.clone()),
            ("note", version.facts.note.clone()),
            ("provider", version.facts.provider.clone()),
            ("tags", tags(&source.tags)),
        ] {
            metadata.extend(value.map(|value| (name.to_owned(), value)));
        }

        let token_count = |count: i64| usize::try_from(count).unwrap_or(usize::MAX);
        let mut chunks: Vec<(Arc<str>, usize)> = chunks
            .iter()
            .map(|chunk| (chunk.text.as_str().into(), token_count(chunk.token_count)))
            .collect();

        if chunks.is_empty() {
            // A source that is only stored has no chunks at all.
            let text = self
                .store
                .find_content(&call.space, id, version.version)
                .await?
                .unwrap_or_default();

            let end = TokenCounter::for_model(None).prefix(&text, FIRST_TOKENS);
            chunks.extend((end > 0).then(|| (text[..end].into(), FIRST_TOKENS)));
        }

        let title = given("title").or_else(|| detect_title(&chunks.first()?.0));
        let head = SourceHead {
            filename: source.filename.clone(),
            title,
            metadata,
            chunks,
        };

        // Its spans begin their own trace.
        let session = Session::of_caller(CallContext {
            traceparent: None,
            ..call.clone()
        });
        let helper = self.generate(&session, head).await?;
        self.store(call, id, &helper).await
    }
}

/// The user's own tags, as one text.
pub fn tags(tags: &[String]) -> Option<String> {
    let own: Vec<&str> = tags
        .iter()
        .map(String::as_str)
        .filter(|tag| *tag != crate::model::source::FILE_INGEST)
        .collect();
    (!own.is_empty()).then(|| own.join(", "))
}

fn task(head: SourceHead) -> Helper {
    Helper {
        filename: head.filename.into(),
        title: head.title.map(Into::into),
        metadata: head.metadata,
        chunks: (1..).zip(first(head.chunks)).collect(),
    }
}

/// Tokens sent and received by calls.
fn spent(calls: &[LlmCall]) -> (i64, i64) {
    let sum = |tokens: fn(&LlmCall) -> i64| calls.iter().map(tokens).sum();
    (
        sum(|call| call.tokens_prompt),
        sum(|call| call.tokens_completion),
    )
}

fn generated(output: HelperOutput, (tokens_prompt, tokens_completion): (i64, i64)) -> NewHelper {
    let text = output.paragraph();
    let token_count = i64::try_from(TokenCounter::for_model(None).count(&text)).unwrap_or(i64::MAX);
    NewHelper {
        text,
        origin: HelperOrigin::Generated,
        author: output.author,
        date: output.date,
        topic: output.topic,
        description: Some(output.summary),
        token_count,
        tokens_prompt,
        tokens_completion,
    }
}

/// As many of the first chunks as a helper may use; at least the beginning of the first one.
fn first(chunks: Vec<(Arc<str>, usize)>) -> Vec<Arc<str>> {
    let mut room = FIRST_TOKENS;
    let mut found = Vec::new();
    for (text, tokens) in chunks.into_iter().take(FIRST_CHUNKS) {
        if tokens <= room {
            room -= tokens;
            found.push(text);
            continue;
        }

        if found.is_empty() {
            let end = TokenCounter::for_model(None).prefix(&text, room);
            found.push(text[..end].into());
        }

        break;
    }

    found
}
