//! Everything memoir asks of a model goes through one door: `Llm::ask`.
//!
//! `task` says what can be asked and `tasks` holds the questions; `ask` drives one to a checked answer; `send` gets
//! replies out of providers; `providers` speak their protocols; `local` is the model that needs none; `session`,
//! `record` and `ledger` account for every attempt. The only outgoing traffic of the service.

mod answer;
mod ask;
mod breaker;
mod catalogue;
mod error;
mod gate;
mod ledger;
pub mod local;
mod measure;
mod objection;
mod profile;
mod provider;
mod providers;
mod record;
mod retry_after;
mod schema;
mod send;
mod session;
mod spans;
mod task;
pub mod tasks;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use jsonschema::Validator;
use serde_json::Value;

pub use ask::Answered;
pub use catalogue::{ModelsView, ProbeResult, ProviderView};
pub use error::LlmError;
pub use session::Session;
pub use task::{Fault, Items, Task};

use crate::base::clock::{Clock, Timestamp};
use crate::base::ids::{JobId, Space};
use crate::config;
use crate::model::llm_call::UsageDay;
use crate::store::{Store, StoreError, UsageFilter, UsagePlace};
use ledger::Ledger;
use profile::Profile;
use send::Target;
use spans::Spans;

/// The door; cheap to clone.
#[derive(Clone)]
pub struct Llm {
    inner: Arc<Inner>,
}

struct Inner {
    settings: config::Llm,
    profiles: HashMap<String, Arc<Profile>>,
    forms: RwLock<HashMap<&'static str, Arc<Forms>>>,
    store: Store,
    ledger: Ledger,
    spans: Spans,
    clock: Arc<dyn Clock>,
}

/// A task's schema, as it is sent and as it is checked.
struct Forms {
    schema: Value,
    validator: Validator,
}

impl Llm {
    /// Prepares every provider; nothing is asked yet. An empty `otlp_endpoint` sends no spans.
    pub fn new(settings: config::Llm, otlp_endpoint: &str, store: Store, clock: Arc<dyn Clock>) -> Self {
        // Whatever makes an HTTP client wants it there. A second call finds it installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let profile = |provider: &config::llm::Provider| {
            (provider.name.clone(), Arc::new(Profile::new(provider.clone(), &settings.transport)))
        };
        let profiles = settings.providers.iter().map(profile).collect();
        let ledger = Ledger::start(store.clone());
        let spans = Spans::new(otlp_endpoint);
        let forms = RwLock::default();
        Self { inner: Arc::new(Inner { settings, profiles, forms, store, ledger, spans, clock }) }
    }

    /// A job's session: caps of the settings, and what its earlier attempts have spent.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn job_session(&self, space: &Space, id: &JobId) -> Result<Session, StoreError> {
        self.inner.ledger.flush().await?;
        let (spent, last_seq) = self.inner.store.find_job_spent(space, id).await?;
        Ok(Session::of_job(space.clone(), id.clone(), self.settings().caps.job, spent, last_seq + 1))
    }

    /// What was spent, by day, stage and model.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn usage(
        &self,
        space: &Space,
        filter: &UsageFilter,
        after: Option<&UsagePlace>,
        limit: usize,
    ) -> Result<Vec<UsageDay>, StoreError> {
        self.inner.ledger.flush().await?;
        self.inner.store.list_usage_days(space, filter, after, limit).await
    }

    /// Waits until every attempt so far is written down.
    ///
    /// # Errors
    /// The database is away; the attempts are kept until it is back.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.ledger.flush().await
    }

    /// Writes down what is left and sends the last spans.
    pub async fn close(&self) {
        let _ = self.inner.ledger.flush().await;
        self.inner.spans.close().await;
    }

    fn settings(&self) -> &config::Llm {
        &self.inner.settings
    }

    fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    fn spans(&self) -> &Spans {
        &self.inner.spans
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The provider and model that `provider:model`, or a provider alone, stands for.
    fn target(&self, given: &str) -> Result<Target, LlmError> {
        let (name, model) = given.split_once(':').unwrap_or((given, ""));
        let unknown = |reason: &str| LlmError::UnknownModel { given: given.to_owned(), reason: reason.to_owned() };
        let profile = self.inner.profiles.get(name).ok_or_else(|| unknown("no such provider"))?;
        let model = if model.is_empty() { profile.settings.model.as_str() } else { model };
        if model.is_empty() {
            return Err(unknown("the provider has no model of its own; name one after a colon"));
        }
        if model.len() > 200 || crate::base::text::has_control(model) {
            return Err(unknown("a model's name has at most 200 characters"));
        }
        if profile.settings.kind == config::llm::Kind::Local && model != profile.settings.model {
            return Err(unknown("the embedded model has this one name only: embedded"));
        }
        if profile.settings.kind != config::llm::Kind::Local && profile.settings.base_url.is_empty() {
            return Err(unknown("the provider has no address"));
        }
        if profile.settings.lacks_key() {
            return Err(unknown(&format!("its key is not known; set {}", profile.settings.api_key_env)));
        }
        Ok(Target { profile: Arc::clone(profile), model: model.to_owned() })
    }

    fn forms<T: Task>(&self) -> Arc<Forms> {
        let known = self.inner.forms.read().unwrap_or_else(PoisonError::into_inner).get(T::STAGE).cloned();
        known.unwrap_or_else(|| {
            let schema = schema::of::<T>();
            let forms = Arc::new(Forms { validator: schema::validator(&schema), schema });
            self.inner.forms.write().unwrap_or_else(PoisonError::into_inner).insert(T::STAGE, Arc::clone(&forms));
            forms
        })
    }

    /// Refuses a call that would go over what its space may spend today.
    async fn check_daily_cap(&self, session: &Session, expected_tokens: i64) -> Result<(), LlmError> {
        let caps = self.settings().caps.space_day;
        if caps.is_open() {
            return Ok(());
        }
        // Other processes write to the same ledger; what this one has not written yet must count too.
        self.inner.ledger.flush().await?;
        let day = self.now().day();
        let spent = self.inner.store.find_spent_on(&session.space, &day).await?;
        session::check_cap("space and day", &caps, spent, expected_tokens)
    }
}
