//! From a request to a job: checks the request and determines the source of its text.
//!
//! No transaction is open, because long texts take time. Many texts need no more lookups than a
//! few, and texts without `path` and `source_id` need none.

use std::collections::HashMap;

use memoir_text::field_error::FieldError;

use super::request::{self, NewIngestion, Order};
use super::{Ingestion, IngestionError, KIND};
use crate::base::ids::{SourceId, new_uuid};
use crate::model::call::CallContext;
use crate::model::job::{LINGERS, Lane, NewJob, SHARES_CALLS};
use crate::model::source::Source;
use crate::sources::{NewSource, SourceError};
use crate::store::StoreError;

/// Bytes of a text that is ingested in moments.
pub(super) const SMALL: usize = 16 * 1024;
/// Small texts that a worker runs at once if the embedded model files them.
const TOGETHER_HERE: i64 = 32;
/// Longer texts are checked and serialized on a blocking thread.
const LARGE: usize = 128 * 1024;

/// Which source a text belongs to.
#[derive(Debug)]
pub(super) struct Identity {
    pub id: SourceId,
    pub user_id: String,
    pub path: Option<String>,
    pub filename: Option<String>,
    /// As they are stored.
    pub tags: Vec<String>,
}

/// The existing sources that requests refer to.
#[derive(Default)]
struct ExistingSources {
    by_id: HashMap<String, Source>,
    /// By user and path.
    by_place: HashMap<(String, String), Source>,
}

impl Ingestion {
    /// Checks a text and creates the job that will file it; [`crate::jobs::Jobs::enqueue`] queues
    /// it.
    ///
    /// # Errors
    /// [`IngestionError::Invalid`], the source's, or the store's.
    pub async fn prepare(
        &self,
        call: &CallContext,
        new: NewIngestion,
    ) -> Result<NewJob, IngestionError> {
        let mut prepared = self.prepare_all(call, vec![new]).await?;
        prepared.pop().unwrap_or_else(|| Err(broken("no job")))
    }

    /// Checks several texts and creates their jobs, with a result for each, in their order.
    ///
    /// # Errors
    /// The store's.
    pub async fn prepare_all(
        &self,
        call: &CallContext,
        all: Vec<NewIngestion>,
    ) -> Result<Vec<Result<NewJob, IngestionError>>, IngestionError> {
        let known = self.known_sources(call, &all).await?;
        let length: usize = all.iter().map(|new| new.text.len()).sum();
        let together = (all.len() > 1).then(new_uuid);
        let (this, call) = (self.clone(), call.clone());
        let write = move || -> Vec<_> {
            all.into_iter()
                .map(|new| this.job_of(&call, new, (&known, together.as_ref())))
                .collect()
        };

        if length <= LARGE {
            return Ok(write());
        }

        #[expect(
            clippy::disallowed_methods,
            reason = "pure computation that ends by itself"
        )]
        let made = tokio::task::spawn_blocking(write).await;
        made.map_err(|error| broken(&error.to_string()))
    }

    fn job_of(
        &self,
        call: &CallContext,
        mut new: NewIngestion,
        (known, together): (&ExistingSources, Option<&String>),
    ) -> Result<NewJob, IngestionError> {
        if call.redact_secrets {
            new.redact_secrets();
        }

        if let Some(model) = &new.options.model {
            self.llm.check_model(model).map_err(IngestionError::Model)?;
        }

        let identity = self.identity(call, &new, known)?;
        let (user_id, source_id) = (identity.user_id.clone(), Some(identity.id.to_string()));
        let mut order = request::check(new, identity, &self.settings)?;
        let (is_short, is_free) = (order.text.len() <= SMALL, self.is_free(&order));
        order.together = together.filter(|_| is_short && !is_free).cloned();
        let group_size = if is_free {
            if is_short { TOGETHER_HERE } else { 1 }
        } else if order.together.is_some() {
            SHARES_CALLS
        } else if order.may_linger(&self.settings.ingestion) {
            LINGERS
        } else {
            1
        };

        let request = order
            .written()
            .map_err(|error| broken(&error.to_string()))?;

        Ok(NewJob {
            kind: KIND,
            lane: Lane::Requested,
            user_id,
            source_id,
            request,
            max_attempts: self.jobs.max_attempts(),
            group_size,
        })
    }

    /// Whether no model has to be paid for.
    fn is_free(&self, order: &Order) -> bool {
        !order.is_filed() || self.llm.ingests_for_free(order.model.as_deref())
    }

    /// Looks up the sources that the requests name by id or path.
    async fn known_sources(
        &self,
        call: &CallContext,
        all: &[NewIngestion],
    ) -> Result<ExistingSources, StoreError> {
        let (mut ids, mut places) = (Vec::new(), Vec::new());
        for new in all {
            match (&new.source_id, &new.path) {
                (Some(id), _) => ids.extend(id.parse::<SourceId>()),
                // An invalid one is reported later.
                (None, Some(path)) => {
                    if let Ok(checked) = self.sources.check(wanted(new), call.now) {
                        places.push((checked.user_id, path.clone()));
                    }
                }
                (None, None) => {}
            }
        }

        let mut known = ExistingSources::default();
        for source in self.store.list_sources_by_id(&call.space, &ids).await? {
            known.by_id.insert(source.id.to_string(), source);
        }

        for source in self.store.list_sources_at(&call.space, &places).await? {
            let place = (source.user_id.clone(), source.path.clone());
            known.by_place.insert(place, source);
        }

        Ok(known)
    }

    /// The source of a text: named, found at its path, or to be created.
    fn identity(
        &self,
        call: &CallContext,
        new: &NewIngestion,
        known: &ExistingSources,
    ) -> Result<Identity, IngestionError> {
        if let Some(id) = &new.source_id {
            return self.named(id, new, known);
        }

        // Checked now, so that an invalid name is rejected now and not by the job.
        let checked = self.sources.check(wanted(new), call.now)?;
        let id = match &new.path {
            None => checked.id,
            Some(path) => {
                let place = (checked.user_id.clone(), path.clone());
                match known.by_place.get(&place) {
                    // If it is deleted meanwhile, it will be created again.
                    Some(found) => {
                        self.sources.check_tags(&found.tags, &new.tags)?;
                        found.id.clone()
                    }
                    None => SourceId::of_path(&call.space, &checked.user_id, path),
                }
            }
        };

        Ok(Identity {
            id,
            user_id: checked.user_id,
            path: new.path.clone(),
            filename: new.filename.clone(),
            tags: checked.tags,
        })
    }

    /// The source that a request names by its id.
    fn named(
        &self,
        id: &str,
        new: &NewIngestion,
        known: &ExistingSources,
    ) -> Result<Identity, IngestionError> {
        let parsed = id.parse::<SourceId>().ok();
        let found = parsed.and_then(|id| known.by_id.get(id.as_str()));
        let is_own = |source: &&Source| {
            let user = new.user_id.as_deref().map(str::trim);
            user.is_none_or(|user| source.user_id == user)
        };
        // A malformed id, which may be long, and a source of another user are treated as not found.
        let found = found.filter(is_own);
        let found = found.ok_or_else(|| SourceError::NotFound(id.chars().take(64).collect()))?;

        if new.path.as_ref().is_some_and(|path| *path != found.path) {
            let own = &found.path;
            let rule = format!("does not match the source given by source_id: {own:?}");
            return Err(IngestionError::Invalid(vec![FieldError::new("path", rule)]));
        }

        Ok(Identity {
            id: found.id.clone(),
            user_id: found.user_id.clone(),
            path: Some(found.path.clone()),
            filename: Some(found.filename.clone()),
            tags: self.sources.check_tags(&found.tags, &new.tags)?,
        })
    }
}

/// The source that a request without `source_id` describes.
fn wanted(new: &NewIngestion) -> NewSource {
    NewSource {
        id: None,
        filename: new
            .filename
            .clone()
            .or_else(|| new.path.is_none().then(|| "untitled.txt".to_owned())),
        path: new.path.clone(),
        user_id: new.user_id.clone(),
        tags: new.tags.clone(),
        eligible: true,
    }
}

fn broken(cause: &str) -> IngestionError {
    IngestionError::Store(StoreError::Broken {
        cause: cause.to_owned(),
    })
}
