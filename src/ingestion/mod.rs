//! Ingestion: cuts a text, gets its helper, classifies its chunks level by level, and writes
//! everything once.
//!
//! `preparing` makes a job, which is queued and answered with 202. The job (`work`) plans everything
//! first, with no transaction open while a model is called (`filing`, `saver`), and then writes it
//! in one (`writing`). Where the hierarchy has grown too large, another job balances it (`balancing`).

mod balancing;
mod blocks;
pub mod chunker;
mod cut_text;
mod embedding;
mod filed_so_far;
mod filing;
mod filing_permit;
mod fragments;
mod helper;
mod hierarchy;
mod nearest_leaves;
mod overlapping;
mod preparing;
mod request;
mod result;
mod saver;
pub mod second_look;
mod shared_calls;
mod tried_splits;
mod work;
mod write_error;
mod writing;

use std::sync::Arc;

use memoir_text::field_error::FieldError;
use tokio::sync::Semaphore;

use crate::categories::Taxonomy;
use crate::categories::options::OptionCache;
use crate::categories::samples::SampleCache;
use crate::categories::tree_cache::TreeCache;
use crate::config;
use crate::contextual_helpers::{ContextualHelpers, HelperFields, Refused, compose};
use crate::jobs::{Jobs, JobsError};
use crate::llm::{Llm, LlmError};
use crate::model::batch::Batch;
use crate::model::call::CallContext;
use crate::model::contextual_helper::NewHelper;
use crate::model::job::{Job, JobEvent};
use crate::search::Search;
use crate::sources::{SourceError, Sources};
use crate::store::{Store, StoreError, as_store_error};

use shared_calls::SharedCalls;

pub use balancing::BalanceWork;
pub use request::{GivenHelper, NewIngestion, Options, SourceFacts};
pub use result::whole as whole_result;
pub use work::{IngestionWork, KIND};

/// The settings of ingestion.
#[derive(Debug, Clone)]
pub struct IngestionSettings {
    pub ingestion: config::Ingestion,
    pub taxonomy: Taxonomy,
    /// The query budget, into which every chunk must fit.
    pub max_token_budget: u64,
    /// Concurrent model calls of one job.
    pub max_concurrency: usize,
    /// Maximum tokens of a search chunk, and how many two consecutive ones share.
    pub retrieval_tokens: u64,
    pub retrieval_overlap: u64,
}

/// Entry point of ingestion; cheap to clone.
#[derive(Clone)]
pub struct Ingestion {
    store: Store,
    jobs: Jobs,
    sources: Sources,
    llm: Llm,
    search: Search,
    settings: Arc<IngestionSettings>,
}

/// What an ingestion adds to its job.
#[derive(Debug)]
pub struct IngestionDetails {
    /// The log of its classification calls, in order.
    pub batches: Vec<Batch>,
    /// Where the helper of its source came from, oldest first.
    pub helper_events: Vec<JobEvent>,
}

/// An ingestion was rejected.
#[derive(Debug, thiserror::Error)]
pub enum IngestionError {
    /// 422: fields violate a rule.
    #[error("the ingestion is invalid")]
    Invalid(Vec<FieldError>),
    /// 422: the helper of a waiting job violates a rule.
    #[error("the helper is invalid")]
    InvalidHelper(Refused),
    /// 422: the model is unknown.
    #[error(transparent)]
    Model(LlmError),
    /// As `sources` says.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// As `jobs` says.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// 409: there is nothing to confirm yet.
    #[error("there is no helper to confirm yet")]
    NothingToConfirm,
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

as_store_error!(IngestionError, Source, Jobs);

impl Ingestion {
    #[must_use]
    pub fn new(
        store: Store,
        jobs: Jobs,
        sources: Sources,
        llm: Llm,
        search: Search,
        settings: IngestionSettings,
    ) -> Self {
        Self {
            store,
            jobs,
            sources,
            llm,
            search,
            settings: Arc::new(settings),
        }
    }

    /// The job that runs ingestions.
    pub fn work(&self, helpers: ContextualHelpers, samples: SampleCache) -> IngestionWork {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        IngestionWork {
            store: self.store.clone(),
            jobs: self.jobs.clone(),
            llm: self.llm.clone(),
            search: self.search.clone(),
            sources: self.sources.clone(),
            helpers,
            settings: self.settings.clone(),
            samples,
            trees: TreeCache::new(self.store.clone(), self.settings.taxonomy.clone()),
            options: OptionCache::new(self.store.clone()),
            cutting_permits: Arc::new(Semaphore::new(cores)),
            filing_permits: Arc::new(Semaphore::new(cores)),
            unanalyzed: Arc::default(),
            shared_calls: SharedCalls::default(),
        }
    }

    /// The recorded details of an ingestion; nothing for other kinds of jobs.
    ///
    /// # Errors
    /// The store's.
    pub async fn details(&self, job: &Job) -> Result<IngestionDetails, JobsError> {
        let batches = async {
            let batches = self.store.list_job_batches(&job.space, &job.id).await?;
            Ok::<_, JobsError>(batches)
        };

        let helper_events = self.jobs.events_of_kind(job, helper::HELPER_EVENT);
        let (batches, helper_events) = tokio::try_join!(batches, helper_events)?;
        Ok(IngestionDetails {
            batches,
            helper_events,
        })
    }

    /// Stores the helper that a user proposes for a waiting job; returns the paragraph that would
    /// be stored.
    ///
    /// # Errors
    /// [`IngestionError::InvalidHelper`], or the queue's.
    pub async fn preview_helper(
        &self,
        call: &CallContext,
        job_id: &str,
        fields: &HelperFields,
    ) -> Result<NewHelper, IngestionError> {
        // A job that does not wait for its user is reported before any invalid field.
        self.jobs.find_waiting(call, job_id).await?;
        let mut fields = fields.clone();
        if call.redact_secrets {
            fields.redact_secrets();
        }

        let helper = compose(&fields).map_err(IngestionError::InvalidHelper)?;
        let progress = serde_json::json!({
            "step": "preview", "fields": fields, "preview": helper.text, "token_count": helper.token_count,
            "helper": helper,
        });

        self.jobs.update_waiting(call, job_id, &progress).await?;
        Ok(helper)
    }

    /// Stores the previewed paragraph with the job, and resumes the job.
    ///
    /// # Errors
    /// [`IngestionError::NothingToConfirm`], or the queue's.
    pub async fn confirm_helper(
        &self,
        call: &CallContext,
        job_id: &str,
    ) -> Result<(), IngestionError> {
        self.store
            .retry_as("confirm_helper", || async {
                let mut tx = self.store.begin().await?;
                let job = self.jobs.hold_waiting(&mut tx, call, job_id).await?;
                let helper = job.progress.as_ref().and_then(|progress| progress.get("helper"));
                let helper = helper.filter(|helper| helper.is_object()).ok_or(IngestionError::NothingToConfirm)?;
                let event = serde_json::json!({"event": "confirmed", "origin": "user",
                    "token_count": helper["token_count"], "tokens_prompt": 0, "tokens_completion": 0});

                tx.add_waiting_step(&job, helper::HELPER, helper, (helper::HELPER_EVENT, &event), call.now).await?;
                self.jobs.resume(&mut tx, call, job_id).await?;
                Ok(tx.commit().await?)
            })
            .await
            .inspect(|()| self.jobs.announce())
    }
}
