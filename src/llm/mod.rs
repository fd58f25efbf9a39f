//! Every model call goes through `Llm::ask`.
//!
//! `task` defines what a task is and `tasks` contains them; `ask` turns a task into a checked
//! answer; `send` gets replies from providers; `providers` implement their protocols, or compute
//! the answer in this process; `session` and `record` account for every attempt. This is the only
//! outgoing traffic of the service.

mod abilities;
mod answer;
mod ask;
mod attempt;
mod breaker;
mod catalogue;
mod daily_caps;
mod embed;
mod error;
mod error_body;
mod explain;
pub mod forward;
mod gate;
mod hint;
mod listener;
mod local_models;
mod measure;
mod objection;
mod pause;
mod profile;
mod provider;
mod provider_error;
mod providers;
mod quote;
mod record;
mod recorded_answers;
mod request_form;
mod retry_after;
mod schema;
mod scoring;
mod send;
mod session;
mod small_models;
mod spans;
mod task;
pub mod tasks;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tokio::sync::watch;

pub use ask::{Answered, Partly};
pub use catalogue::{ModelsView, PauseView, ProbeResult, ProviderView};
pub use error::LlmError;
pub use hint::Hint;
pub use listener::{Listener, MemberListener, TextListener, Written};
pub use local_models::LocalModel;
pub use provider::Capabilities;
pub use scoring::{ScoringError, ScoringServer};
pub use session::Session;
pub use task::{Fault, Items, Task};

use self::schema::Validator;
use crate::base::clock::{Clock, Timestamp};
use crate::base::ids::JobId;
use crate::config;
use crate::model::call::CallContext;
use crate::model::llm_call::{Payer, Spent, UsageDay};
use crate::store::{Journal, Store, StoreError, UsageFilter, UsagePlace};
use daily_caps::DailySpending;
use profile::Profile;
use send::Target;
use spans::Spans;

/// The entry point to all models; cheap to clone.
#[derive(Clone)]
pub struct Llm {
    inner: Arc<Inner>,
}

struct Inner {
    settings: config::Llm,
    profiles: HashMap<String, Arc<Profile>>,
    forms: RwLock<HashMap<&'static str, Arc<Forms>>>,
    store: Store,
    journal: Journal,
    daily_spending: DailySpending,
    spans: Spans,
    clock: Arc<dyn Clock>,
    /// Changes whenever a provider that failed or was paused responds again.
    recovered: watch::Sender<u64>,
}

/// A task's schema: the form that is sent and the form that is checked.
struct Forms {
    schema: Value,
    validator: Validator,
}

impl Llm {
    /// Prepares every provider; nothing is sent yet. With an empty `otlp_endpoint`, no spans are
    /// sent.
    pub fn new(
        settings: config::Llm,
        audit: config::Audit,
        otlp_endpoint: &str,
        store: Store,
        clock: Arc<dyn Clock>,
    ) -> Self {
        // Every HTTP client needs it. It may already be installed by an earlier call.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let profile = |provider: &config::llm::Provider| {
            (
                provider.name.clone(),
                Arc::new(Profile::new(provider.clone(), &settings.transport)),
            )
        };

        let profiles = settings.providers.iter().map(profile).collect();
        let journal = Journal::start(store.clone(), audit.persist);
        let spans = Spans::new(otlp_endpoint);
        let forms = RwLock::default();
        let (daily_spending, recovered) = (DailySpending::default(), watch::Sender::new(0));

        Self {
            inner: Arc::new(Inner {
                settings,
                profiles,
                forms,
                store,
                journal,
                daily_spending,
                spans,
                clock,
                recovered,
            }),
        }
    }

    /// A job's session: the caps of the settings, and what its earlier attempts have spent, if it
    /// has run before.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn job_session(
        &self,
        call: CallContext,
        id: &JobId,
        is_first_run: bool,
    ) -> Result<Session, StoreError> {
        let (spent, last_seq) = if is_first_run {
            (Spent::default(), 0)
        } else {
            self.inner.journal.flush().await?;
            let payer = Payer::Job(id.clone());
            self.inner.store.find_spent_by(&call.space, &payer).await?
        };

        let caps = self.settings().caps.job;
        Ok(Session::of_job(call, id.clone(), caps, spent, last_seq + 1))
    }

    /// For a job that writes its free calls itself when it ends. Those that it has not written when
    /// the session is dropped go to the ledger.
    #[must_use]
    pub fn keep_free_calls(&self, session: Session) -> Session {
        session.keeping_free_calls(self.inner.journal.clone())
    }

    /// Usage by day, stage and model, and the totals of all entries that match the filter.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn usage(
        &self,
        call: &CallContext,
        filter: &UsageFilter,
        after: Option<&UsagePlace>,
        limit: usize,
    ) -> Result<(Vec<UsageDay>, UsageDay), StoreError> {
        self.inner.journal.flush().await?;
        let store = &self.inner.store;
        tokio::try_join!(
            store.list_usage_days(&call.space, filter, after, limit),
            store.find_usage_total(&call.space, filter)
        )
    }

    /// Waits until every attempt so far is stored.
    ///
    /// # Errors
    /// The database is unreachable; the attempts are kept until it responds.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.journal.flush().await
    }

    /// The journal that records every attempt; a job also writes its paid answers through it.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Stores the remaining records and sends the last spans.
    pub async fn close(&self) {
        let _ = self.inner.journal.flush().await;
        self.inner.spans.close().await;
    }

    /// Changes whenever a provider that failed or was paused responds again, so that waiting jobs
    /// can retry immediately.
    pub fn recovered(&self) -> watch::Receiver<u64> {
        self.inner.recovered.subscribe()
    }

    /// Whether a request may name this model.
    ///
    /// # Errors
    /// The model is unknown, or its provider has no key.
    pub fn check_model(&self, model: &str) -> Result<(), LlmError> {
        self.target(model).map(|_| ())
    }

    /// The configured `provider:model` of a stage.
    pub fn model_of(&self, stage: &str) -> &str {
        self.settings().model_for(stage)
    }

    fn announce_recovery(&self) {
        self.inner
            .recovered
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    fn settings(&self) -> &config::Llm {
        &self.inner.settings
    }

    fn spans(&self) -> &Spans {
        &self.inner.spans
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Resolves `provider:model`, or a provider alone.
    fn target(&self, given: &str) -> Result<Target, LlmError> {
        let (name, model) = given.split_once(':').unwrap_or((given, ""));
        let shown = || given.chars().take(100).collect();
        let unknown = |reason: &str| LlmError::UnknownModel {
            given: shown(),
            reason: reason.to_owned(),
        };

        let profile = self
            .inner
            .profiles
            .get(name)
            .ok_or_else(|| unknown("there is no such provider"))?;

        let model = if model.is_empty() {
            profile.settings.model.as_str()
        } else {
            model
        };

        if model.is_empty() {
            return Err(unknown(
                "the provider has no default model; write provider:model",
            ));
        }

        if let Some(fault) = fault_of_name(model) {
            return Err(unknown(fault));
        }

        if profile.settings.kind == config::llm::Kind::Local && model != config::llm::EMBEDDED {
            return Err(unknown("the embedded model is named embedded"));
        }

        if !profile.capabilities.in_process && profile.settings.base_url.is_empty() {
            return Err(unknown("the provider has no base_url"));
        }
        if profile.settings.lacks_key() {
            let variable = profile.settings.api_key_env.clone();
            return Err(LlmError::NoKey {
                provider: name.to_owned(),
                variable,
            });
        }

        Ok(Target {
            profile: Arc::clone(profile),
            model: model.to_owned(),
        })
    }

    /// The forms that an answer to this task is checked by.
    fn forms_of<T: Task>(&self, task: &T) -> Arc<Forms> {
        match task.own_schema() {
            Some(schema) => Arc::new(Forms {
                validator: Validator::new(schema.clone()),
                schema,
            }),
            None => self.forms::<T>(),
        }
    }

    fn forms<T: Task>(&self) -> Arc<Forms> {
        let known = self
            .inner
            .forms
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(std::any::type_name::<T>())
            .cloned();
        known.unwrap_or_else(|| {
            let schema = schema::of::<T>();
            let validator = if T::LENIENT {
                schema::lenient_validator(&schema)
            } else {
                schema::validator(&schema)
            };
            let forms = Arc::new(Forms { schema, validator });

            self.inner
                .forms
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(std::any::type_name::<T>(), Arc::clone(&forms));

            forms
        })
    }
}

/// What is wrong with the name of a model. For some providers it becomes part of a URL, so it must
/// not be able to change the path.
fn fault_of_name(model: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    if model.len() > 200 {
        return Some("a model name has at most 200 characters");
    }

    let fine = model.chars().all(plain) && !model.contains("..") && !model.starts_with('/');
    (!fine).then_some("a model name consists of letters, digits and - _ . : / @ +")
}
