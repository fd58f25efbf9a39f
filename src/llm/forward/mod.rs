//! Forwards requests in OpenAI's protocol as they are, past the same gates, breakers, pauses and
//! caps as other calls, and with a record of each. A reply passes through while it arrives; its last
//! part waits until the caller has stored what it wants.

mod events;
mod outlet;
mod reading;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use self::events::{EventCutter, data_of};
pub use self::outlet::{Outlet, Part};
use self::reading::Pass;
pub use self::reading::{Form, Reading};
use super::explain::explain;
use super::objection::{Objection, objection};
use super::profile::Parameter;
use super::provider::{Finish, Mode, Rejection, Reply};
use super::provider_error::ProviderError;
use super::record::{Attempts, Plan, Received};
use super::send::Target;
use super::{Llm, LlmError, Session};
use crate::config::llm::{Kind, Provider};
use crate::model::llm_call::CallOutcome;

/// Maximum bytes of a reply.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Maximum bytes of one event.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// How long a client may keep a reply waiting altogether.
const PATIENCE: Duration = Duration::from_secs(30);
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// A request to forward.
pub struct Forwarded<'f> {
    pub form: Form,
    /// The name that the client gives the model.
    pub model: &'f str,
    /// The body for a model of this name. With `true`, a stream reports its tokens.
    pub body: &'f (dyn Fn(&str, bool) -> Vec<u8> + Send + Sync),
    pub streamed: bool,
    /// Whether the client itself asks for the tokens of a stream.
    pub wants_usage: bool,
    /// An estimate of the tokens to send.
    pub expected_tokens: i64,
}

/// What is passed on last.
#[derive(Debug, Default)]
pub struct Held {
    /// The type of a whole reply; none for a stream, which has begun.
    pub content_type: Option<String>,
    pub bytes: Vec<u8>,
}

/// Why a request was not answered.
#[derive(Debug)]
pub enum ForwardError {
    /// The provider rejected the request itself, in its own words.
    Rejected {
        status: u16,
        body: String,
        retry_after: Option<Duration>,
    },
    Llm(LlmError),
}

/// A model that a client can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardModel {
    /// `provider:model`.
    pub id: String,
    pub provider: String,
}

/// Servers here need no settings, so nothing tells whether there is one.
const THIS_MACHINE: &str = "http://127.0.0.1";

impl Llm {
    /// The models that can be named, in the order of the settings.
    pub fn forward_models(&self) -> Vec<ForwardModel> {
        let usable = self.settings().providers.iter().filter(|provider| {
            let is_known = has_key(provider) || !provider.base_url.starts_with(THIS_MACHINE);
            is_usable(provider) && is_known && !provider.model.is_empty()
        });
        let mut models: Vec<ForwardModel> = usable
            .map(|provider| ForwardModel {
                id: format!("{}:{}", provider.name, provider.model),
                provider: provider.name.clone(),
            })
            .collect();

        let settings = self.settings();
        let named = settings.models.values().chain([&settings.model]);
        for name in named {
            let is_new = models.iter().all(|model| model.id != *name);
            if let Ok(target) = self.forward_target(Form::Chat, name)
                && is_new
                && target.name() == *name
            {
                models.push(ForwardModel {
                    id: name.clone(),
                    provider: target.profile.settings.name.clone(),
                });
            }
        }

        models
    }

    /// The full name of a model that a client names.
    ///
    /// # Errors
    /// There is no such model, or its provider speaks another protocol.
    pub fn forward_name(&self, form: Form, given: &str) -> Result<String, LlmError> {
        self.forward_target(form, given).map(|target| target.name())
    }

    /// `provider:model`, or the name of a model of the default provider.
    fn forward_target(&self, form: Form, given: &str) -> Result<Target, LlmError> {
        let prefix = given.split_once(':').map_or(given, |(name, _)| name);
        let target = if self.inner.profiles.contains_key(prefix) {
            self.target(given)?
        } else {
            self.target(&format!("{}:{given}", self.forward_provider()))?
        };

        let settings = &target.profile.settings;
        let fault = if settings.kind != Kind::Openai {
            "its provider does not speak OpenAI's protocol"
        } else if form == Form::Responses && !settings.responses {
            "its provider has no /responses; set responses = true if it has"
        } else {
            return Ok(target);
        };

        Err(LlmError::NotForwarded {
            model: given.chars().take(100).collect(),
            reason: fault,
        })
    }

    /// The provider of models that are named without one: that of the default model, or the first
    /// that can be used.
    fn forward_provider(&self) -> &str {
        let settings = self.settings();
        let default = settings.model.split(':').next().unwrap_or_default();
        let usable = || settings.providers.iter().filter(|one| is_usable(one));
        let found = usable()
            .find(|one| one.name == default)
            .or_else(|| usable().find(|one| has_key(one)))
            .or_else(|| usable().next());
        found.map_or(default, |provider| provider.name.as_str())
    }

    /// Forwards a request. Dropping the future ends it.
    ///
    /// # Errors
    /// A cap is reached, the provider rejects the request, or it is unreachable.
    pub async fn forward(
        &self,
        session: &Session,
        request: &Forwarded<'_>,
        out: &Outlet,
    ) -> Result<Held, ForwardError> {
        let target = self.forward_target(request.form, request.model)?;
        let is_counted = request.streamed && request.form == Form::Chat && !request.wants_usage;
        let learnt = target.profile.learnt(&target.model);
        let mut adds_usage = is_counted && !learnt.refused.contains(&Parameter::StreamOptions);
        // Well before the time for the whole reply is up, which would be the provider's fault.
        let total = Duration::from_secs(self.settings().transport.total_timeout);
        let patience = PATIENCE.min(total / 4);
        loop {
            let passing = Passing {
                request,
                target: &target,
                out,
                patience,
                adds_usage,
                held: Mutex::default(),
                rejected: Mutex::default(),
            };
            let error = match self.forward_once(session, &passing).await? {
                Ok(held) => return Ok(held),
                Err(error) => error,
            };

            let ProviderError::Status {
                status,
                message,
                retry_after,
                ..
            } = &error
            else {
                return Err(explain(&target, &error).into());
            };

            let unknown = Some(Objection::Parameter(Parameter::StreamOptions));
            if adds_usage
                && matches!(status, 400 | 422)
                && objection(message, Mode::Text) == unknown
            {
                let mut learnt = target.profile.learnt(&target.model);
                learnt.refused.insert(Parameter::StreamOptions);
                target.profile.learn(&target.model, learnt);
                adds_usage = false;
                continue;
            }

            let body = passing.take_rejected();
            return Err(match (status, body) {
                (400 | 404 | 408 | 409 | 413 | 415 | 422 | 429, Some(body)) => {
                    ForwardError::Rejected {
                        status: *status,
                        body: target.profile.without_secrets(body),
                        retry_after: *retry_after,
                    }
                }
                _ => explain(&target, &error).into(),
            });
        }
    }

    async fn forward_once(
        &self,
        session: &Session,
        passing: &Passing<'_>,
    ) -> Result<Result<Held, ProviderError>, LlmError> {
        let attempts = Attempts::new(self, session);
        let request = passing.request;
        let plan = Plan {
            stage: request.form.stage(),
            level: None,
            mode: Mode::Text,
            params: json!({"stream": request.streamed}),
            expected_tokens: request.expected_tokens,
            temperature: None,
            max_output_tokens: None,
        };

        let asking = passing.pass(&attempts);
        match self
            .attempt(&attempts, passing.target, asking, plan)
            .await?
        {
            Ok(sent) => {
                sent.call.finish(CallOutcome::Ok, None);
                Ok(Ok(passing.take_held()))
            }
            Err(error) => Ok(Err(error)),
        }
    }
}

/// A request on its way.
struct Passing<'p> {
    request: &'p Forwarded<'p>,
    target: &'p Target,
    out: &'p Outlet,
    /// How long the client may keep the reply waiting.
    patience: Duration,
    adds_usage: bool,
    held: Mutex<Held>,
    rejected: Mutex<Option<String>>,
}

impl Passing<'_> {
    async fn pass(&self, attempts: &Attempts<'_>) -> Result<Reply, ProviderError> {
        let (request, target) = (self.request, self.target);
        let body = (request.body)(&target.model, self.adds_usage);
        let client = target.profile.client();
        let mut response = match client.forward(request.form.path(), body).await {
            Ok(response) => response,
            Err(Rejection { error, body }) => {
                *self.rejected.lock().unwrap_or_else(PoisonError::into_inner) = body;
                return Err(error);
            }
        };

        let kind = response.headers().get("content-type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or(JSON);
        let kind = kind.to_owned();
        attempts.receive(Received::default());
        self.out.begun.notify_one();
        if kind.starts_with(EVENT_STREAM) {
            self.out.begin_stream();
            self.out.send(Part::Begun(kind), self.patience).await;
            let passed = self.pass_events(&mut response, attempts).await;
            passed.map_err(|error| self.failure().unwrap_or(error))?;
        } else {
            self.pass_whole(&mut response, kind).await?;
            attempts.receive(self.out.reading().received());
        }

        let reading = self.out.reading();
        Ok(Reply {
            text: reading.text.clone(),
            ignored_tool: false,
            finish: reading.finish.clone().unwrap_or(Finish::Complete),
            usage: reading.usage,
            counted: false,
            model: reading.model.clone(),
            id: reading.id.clone(),
        })
    }

    async fn pass_whole(
        &self,
        response: &mut reqwest::Response,
        kind: String,
    ) -> Result<(), ProviderError> {
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(ProviderError::from_client)? {
            bytes.extend_from_slice(&piece);
            check_size(bytes.len())?;
        }

        // The parser's error quotes the body, which may quote the prompt.
        let body: Value = serde_json::from_slice(&bytes)
            .map_err(|_| ProviderError::Unreadable("it is not JSON".to_owned()))?;
        self.out.reading().read_whole(self.request.form, &body);
        self.hold(Some(kind), bytes);
        Ok(())
    }

    async fn pass_events(
        &self,
        response: &mut reqwest::Response,
        attempts: &Attempts<'_>,
    ) -> Result<(), ProviderError> {
        let mut cutter = EventCutter::default();
        let mut bytes = 0;
        while let Some(piece) = response.chunk().await.map_err(ProviderError::from_client)? {
            bytes += piece.len();
            check_size(bytes)?;
            cutter.push(&piece);
            while let Some(event) = cutter.next() {
                if self.pass_event(event, attempts).await {
                    return Ok(());
                }
            }
            if cutter.pending() > MAX_EVENT_BYTES {
                return Err(blameless("an event of the reply is too large".to_owned()));
            }
        }

        let rest = cutter.rest();
        if !rest.is_empty() && self.pass_event(rest, attempts).await {
            return Ok(());
        }

        if self.out.reading().is_complete() {
            Ok(())
        } else {
            Err(ProviderError::Broken(
                "the connection broke before the response was complete".to_owned(),
            ))
        }
    }

    /// Passes an event on; whether it was the last one, which is held.
    async fn pass_event(&self, event: Vec<u8>, attempts: &Attempts<'_>) -> bool {
        let pass = match data_of(&event) {
            Some(data) => {
                let mut reading = self.out.reading();
                let pass = reading.read_event(self.request.form, &data, self.adds_usage);
                attempts.receive(reading.received());
                pass
            }
            None => Pass::On,
        };
        match pass {
            Pass::On => self.out.send(Part::Bytes(event), self.patience).await,
            Pass::Hide => {}
            Pass::Last => self.hold(None, event),
        }

        pass == Pass::Last
    }

    /// The error that the provider reported in the middle of a stream. The request may have caused
    /// it: its text is too long, or a filter stopped the reply.
    fn failure(&self) -> Option<ProviderError> {
        self.out.reading().failure.clone().map(blameless)
    }

    fn hold(&self, content_type: Option<String>, bytes: Vec<u8>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Held {
            content_type,
            bytes,
        };
    }

    fn take_held(&self) -> Held {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_rejected(&self) -> Option<String> {
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        rejected.take()
    }
}

fn is_usable(provider: &Provider) -> bool {
    provider.kind == Kind::Openai && provider.is_configured()
}

fn has_key(provider: &Provider) -> bool {
    !provider.api_key.expose().is_empty()
}

impl From<LlmError> for ForwardError {
    fn from(error: LlmError) -> Self {
        Self::Llm(error)
    }
}

fn check_size(bytes: usize) -> Result<(), ProviderError> {
    if bytes > MAX_BYTES {
        return Err(blameless("the reply is too large".to_owned()));
    }

    Ok(())
}

/// An error after a success status that does not count against the provider.
fn blameless(message: String) -> ProviderError {
    ProviderError::Status {
        status: 200,
        message,
        codes: Vec::new(),
        retry_after: None,
        should_retry: None,
    }
}
