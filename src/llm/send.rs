//! Gets a reply from a provider: finds the output mode and the parameters that it accepts, and
//! retries when it is busy.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::explain::explain;
use super::gate::NoEntry;
use super::listener::Listener;
use super::objection::{Objection, objection};
use super::profile::{Learnt, Parameter, Profile};
use super::provider::{Capabilities, Mode, Parameters, Provider, Reply, Request, Usage};
use super::provider_error::ProviderError;
use super::record::{Attempts, Call, Plan};
use super::task::Task;
use super::{Llm, LlmError, embed, measure, schema};
use crate::base::backoff::with_jitter;
use crate::base::ids::random_fraction;
use crate::base::tokens::{TokenCounter, quarter_estimate};

/// A provider and one of its models.
pub struct Target {
    pub profile: Arc<Profile>,
    pub model: String,
}

impl Target {
    /// `provider:model`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.profile.settings.name, self.model)
    }

    pub fn capabilities(&self) -> Capabilities {
        self.profile.capabilities
    }
}

/// A reply whose record is still open.
pub struct Sent<'a> {
    pub reply: Reply,
    pub call: Call<'a>,
}

/// A task, and how to send it.
pub struct TaskRequest<'t, T> {
    pub task: &'t T,
    /// The errors of the previous answer.
    pub faults: &'t [String],
    /// Whether to send it without retries.
    pub once: bool,
    /// Whether to put the schema into the prompt, whatever the model supports.
    pub in_words: bool,
}

/// The parts of a request that do not depend on the output mode.
struct Message<'t, T> {
    task: &'t T,
    user: String,
    deterministic: bool,
    once: bool,
}

impl Llm {
    /// Sends a request until there is a reply: omits what the model rejects, and waits when it is
    /// busy.
    pub(super) async fn send<'a, T: Task>(
        &self,
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        question: TaskRequest<'_, T>,
    ) -> Result<Sent<'a>, LlmError> {
        let TaskRequest {
            task,
            faults,
            once,
            in_words,
        } = question;

        let mut user = task.frame();
        if !faults.is_empty() {
            user.push_str(&repair_note(faults));
        }

        let message = Message {
            task,
            user,
            deterministic: attempts.session.deterministic,
            once,
        };

        let mut before = target.profile.learnt(&target.model);
        if in_words {
            before.mode = Some(Mode::Prompted);
        }

        let mut learnt = before.clone();
        loop {
            let mode = suited::<T>(target.profile.mode(&learnt));
            match self
                .send_as(attempts, target, &message, mode, &learnt)
                .await
            {
                Ok(sent) => {
                    // Remembered only now: if the next mode is rejected too, the mode was not the
                    // reason.
                    if T::TOOL.is_some() || T::FREE_TEXT {
                        // That it takes no tools says nothing about its best mode.
                        learnt.mode = before.mode;
                    }

                    if learnt != before {
                        target.profile.learn(&target.model, learnt);
                    }
                    return Ok(sent);
                }
                Err(error) => learnt = downgrade(target, error, mode, learnt)?,
            }
        }
    }

    /// The instruction as it will be sent in the current output mode, which may include the schema.
    pub fn instruction<T: Task>(&self, wished: Option<&str>, task: &T) -> String {
        let model = wished.unwrap_or_else(|| self.model_of(T::STAGE));
        let Ok(target) = self.target(model) else {
            return T::SYSTEM.to_owned();
        };
        let learnt = target.profile.learnt(&target.model);

        match target.profile.mode(&learnt) {
            Mode::Prompted => system_in::<T>(Mode::Prompted, &self.schema_for(task, &learnt)),
            _ => T::SYSTEM.to_owned(),
        }
    }

    /// The schema of a task's answers, with the limits that the model supports.
    fn schema_for<T: Task>(&self, task: &T, learnt: &Learnt) -> Value {
        if let Some(own) = task.own_schema().filter(|_| !learnt.plain_schema) {
            return own;
        }

        let mut schema = self.forms::<T>().schema.clone();
        if !learnt.plain_schema {
            task.narrow(&mut schema);
            if learnt.bounded {
                task.bound(&mut schema);
            }
        }

        schema
    }

    /// Sends in one mode, with retries.
    async fn send_as<'a, T: Task>(
        &self,
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        message: &Message<'_, T>,
        mode: Mode,
        learnt: &Learnt,
    ) -> Result<Sent<'a>, SendError> {
        let schema = self.schema_for(message.task, learnt);
        let system = match message.task.own_system() {
            Some(own) => own,
            None => system_in::<T>(mode, &schema),
        };
        let (parameters, params) = self.parameters(message.deterministic, learnt);
        let task = || message.task.clone().into();
        let request = Request {
            model: &target.model,
            stage: T::STAGE,
            tool: T::TOOL.unwrap_or(T::STAGE),
            description: T::DESCRIPTION,
            system: &system,
            user: &message.user,
            mode,
            schema: &schema,
            parameters,
            task: &task,
        };

        let expected = quarter_estimate(&system) + quarter_estimate(&message.user);
        let plan = || Plan {
            stage: T::STAGE,
            level: message.task.level(),
            mode,
            params: params.clone(),
            expected_tokens: i64::try_from(expected).unwrap_or(i64::MAX),
            temperature: parameters.temperature,
            max_output_tokens: parameters.max_output_tokens,
        };

        let tries = if message.once {
            1
        } else {
            self.settings().transport.tries
        };

        let mut count = 1;
        loop {
            let client = target.profile.client();
            let asking = async {
                match &attempts.listener {
                    Some(listener) => streamed(client, &request, listener).await,
                    None => client.complete(&request).await,
                }
            };

            let error = match self.attempt(attempts, target, asking, plan()).await? {
                Ok(sent) => return Ok(sent),
                Err(error) => error,
            };

            let Some(wait) = self
                .wait_before_next(&error, count)
                .filter(|_| count < tries)
            else {
                return Err(SendError::Provider(error));
            };

            measure::retried(&target.profile.settings.name, error.reason());
            count += 1;
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a single request.
    pub(super) async fn attempt<'a>(
        &self,
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        asking: impl Future<Output = Result<Reply, ProviderError>>,
        plan: Plan,
    ) -> Result<Result<Sent<'a>, ProviderError>, LlmError> {
        let profile = &target.profile;
        let away = |reason: String, wait| LlmError::Unavailable {
            model: target.name(),
            reason,
            wait,
        };

        let tokens = u64::try_from(plan.expected_tokens).unwrap_or(0);
        let shut = |no_entry| match no_entry {
            NoEntry::Stopping => away("the service is stopping".to_owned(), None),
            NoEntry::Shut(left) => away(
                format!("it asked callers to wait for another {} s", left.as_secs()),
                Some(left),
            ),
        };

        let resting = |left: Duration| {
            let reason = format!(
                "it failed too often in a row, so memoir sends it no requests for another {} s",
                left.as_secs()
            );
            away(reason, Some(left))
        };

        let (_turn, probe, pass) = if attempts.session.probing {
            let turn = profile.gate.knock(tokens).await.map_err(shut)?;
            (
                turn,
                profile.pauses.knock(&target.model),
                profile.breaker.knock(),
            )
        } else {
            // Checked twice: a call that will be rejected takes no turn, and a pause may begin
            // while the call waits for its turn.
            if let Some(error) = profile.pauses.refusal(&target.model) {
                return Err(error);
            }

            let turn = profile.gate.enter(tokens).await.map_err(shut)?;
            (
                turn,
                profile.pauses.admit(&target.model)?,
                profile.breaker.admit().map_err(resting)?,
            )
        };

        // The embedding model is never named by a request.
        let named = attempts.session.model.is_some() && plan.stage != embed::STAGE;
        let mut call = Call::begin(attempts, target, plan).await?;
        let total = Duration::from_secs(self.settings().transport.total_timeout);
        let answered = tokio::time::timeout(total, asking).await;

        match answered.unwrap_or(Err(ProviderError::TimedOut)) {
            Ok(reply) => {
                let reopened = attempts.session.probing && profile.gate.reopen();
                let (back, resumed) = (pass.succeeded(), probe.succeeded());
                if back || resumed || reopened {
                    self.announce_recovery();
                }

                call.replied(&reply);
                Ok(Ok(Sent { reply, call }))
            }
            Err(error) => {
                if error.is_trouble() && !target.capabilities().in_process {
                    pass.failed();
                } else {
                    pass.succeeded();
                }

                if let ProviderError::Status {
                    status: 429 | 503,
                    retry_after: Some(wait),
                    ..
                } = &error
                {
                    if *wait <= self.longest_wait() {
                        profile.gate.hold_for(*wait);
                    } else {
                        profile.gate.shut_for(*wait);
                    }
                }

                call.fail(&error);
                let error = profile.redacted(error);
                probe.failed(&error, named, self.now());
                Ok(Err(error))
            }
        }
    }

    /// How long to wait before the next try, if a retry may help.
    pub(super) fn wait_before_next(&self, error: &ProviderError, tried: u64) -> Option<Duration> {
        if !error.may_pass() {
            return None;
        }

        if let ProviderError::Status {
            retry_after: Some(told),
            ..
        } = error
        {
            // Slightly longer than requested, so that not all callers return at once.
            return (*told <= self.longest_wait())
                .then(|| told.mul_f64(1.0 + random_fraction() / 10.0));
        }

        Some(with_jitter(self.settings().transport.pause(tried)))
    }

    fn longest_wait(&self) -> Duration {
        Duration::from_secs(self.settings().transport.retry_after_cap)
    }

    /// The parameters of a request, and their form in the record.
    fn parameters(&self, deterministic: bool, learnt: &Learnt) -> (Parameters, Value) {
        let takes = |parameter| !learnt.refused.contains(&parameter);
        let settings = self.settings();
        let wanted = if deterministic {
            0.0
        } else {
            settings.temperature
        };

        let max = takes(Parameter::MaxTokens) || takes(Parameter::MaxCompletionTokens);
        let parameters = Parameters {
            temperature: takes(Parameter::Temperature).then_some(wanted),
            seed: (deterministic && takes(Parameter::Seed)).then_some(SEED),
            max_output_tokens: max.then_some(settings.max_output_tokens),
            new_name_for_max: !takes(Parameter::MaxTokens),
            stream_usage: takes(Parameter::StreamOptions),
        };

        let shown = |sent: Option<Value>| sent.unwrap_or_else(|| "unsupported".into());
        let mut params = json!({
            "temperature": shown(parameters.temperature.map(Value::from)),
            "max_output_tokens": shown(parameters.max_output_tokens.map(Value::from)),
        });

        if deterministic {
            params["seed"] = shown(parameters.seed.map(Value::from));
        }

        (parameters, params)
    }
}

/// Sends a request whose text is passed on while it is written. If the provider does not report the
/// tokens, they are counted.
async fn streamed(
    client: &dyn Provider,
    request: &Request<'_>,
    listener: &dyn Listener,
) -> Result<Reply, ProviderError> {
    listener.begin();
    let mut reply = client.stream(request, listener).await?;
    if reply.usage.is_none() {
        let counter = TokenCounter::for_model(Some(request.model));
        let count = |text: &str| i64::try_from(counter.count(text)).unwrap_or(i64::MAX);
        reply.counted = true;
        reply.usage = Some(Usage {
            prompt: count(request.system) + count(request.user),
            completion: count(&reply.text),
            cached: 0,
        });
    }

    Ok(reply)
}

/// Any number, as long as it never changes.
const SEED: u64 = 7;

/// A send that ended without a reply.
pub enum SendError {
    Provider(ProviderError),
    Gone(LlmError),
}

impl From<LlmError> for SendError {
    fn from(error: LlmError) -> Self {
        Self::Gone(error)
    }
}

/// Omits what the provider rejected, if the rejection was about the form of the request.
fn downgrade(
    target: &Target,
    error: SendError,
    mode: Mode,
    mut learnt: Learnt,
) -> Result<Learnt, LlmError> {
    let error = match error {
        SendError::Gone(error) => return Err(error),
        SendError::Provider(error) => error,
    };

    let ProviderError::Status {
        status: status @ (400 | 422),
        message,
        ..
    } = &error
    else {
        return Err(explain(target, &error));
    };

    let changed = match objection(message, mode) {
        Some(Objection::Parameter(parameter)) => learnt.refused.insert(parameter),
        Some(Objection::Schema) if !learnt.plain_schema => {
            learnt.plain_schema = true;
            true
        }
        Some(Objection::Schema | Objection::Mode) => match mode.lower() {
            Some(lower) => {
                learnt.mode = Some(lower);
                true
            }
            None => false,
        },
        None => false,
    };

    if !changed {
        return Err(explain(target, &error));
    }

    tracing::info!(
        model = target.name(),
        status,
        mode = mode.as_str(),
        "the model rejected this form of request; trying another"
    );

    Ok(learnt)
}

/// The mode for a task: one with its own tool does not use a better one.
fn suited<T: Task>(mode: Mode) -> Mode {
    match mode {
        Mode::Embedded => mode,
        _ if T::FREE_TEXT => Mode::Text,
        Mode::Native if T::TOOL.is_some() => Mode::Tool,
        mode => mode,
    }
}

fn system_in<T: Task>(mode: Mode, schema: &Value) -> String {
    match mode {
        Mode::Prompted => prompted(T::SYSTEM, schema),
        _ => T::SYSTEM.to_owned(),
    }
}

/// The instruction for a model that supports neither schemas nor tools.
fn prompted(system: &str, schema: &Value) -> String {
    let form = schema::form(schema);
    format!(
        "{system}\n\nAnswer with one JSON object of the form {form}, which keeps to this JSON schema: {schema}\n\
         Write the JSON only: no explanation, no Markdown, no code fence, and not the schema itself."
    )
}

fn repair_note(faults: &[String]) -> String {
    let listed: String = faults
        .iter()
        .fold(String::new(), |text, fault| format!("{text}- {fault}\n"));
    format!(
        "\n\nThe previous answer could not be used:\n{listed}Answer again, complete and correct."
    )
}
