//! The protocols of Anthropic and Gemini, which the crate `genai` speaks.

use futures_util::future::BoxFuture;
use genai::adapter::AdapterKind;
use genai::chat::{
    self, ChatOptions, ChatRequest, ChatResponse, JsonSpec, StopReason, Tool, ToolChoice,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ModelSpec, ServiceTarget, webc};
use serde_json::Value;

use super::super::error_body::{codes_of, message_of};
use super::super::listener::Listener;
use super::super::provider::{Finish, Mode, Provider, Reply, Request, Usage};
use super::super::provider_error::ProviderError;
use super::native_stream;
use super::openai::refusal;
use crate::config::llm::{self as settings, Kind};

pub struct Native {
    client: Client,
    adapter: AdapterKind,
    endpoint: Endpoint,
    auth: AuthData,
}

impl Native {
    pub fn new(provider: &settings::Provider, http: reqwest::Client) -> Self {
        let adapter = if provider.kind == Kind::Anthropic {
            AdapterKind::Anthropic
        } else {
            AdapterKind::Gemini
        };

        let client = Client::builder().with_reqwest(http).build();
        Self {
            client: client
                .unwrap_or_else(|error| unreachable!("the client's settings are fixed: {error}")),
            adapter,
            endpoint: Endpoint::from_owned(format!("{}/", provider.base_url.trim_end_matches('/'))),
            auth: AuthData::from_single(provider.api_key.expose()),
        }
    }
}

impl Native {
    fn target(&self, request: &Request<'_>) -> ModelSpec {
        ModelSpec::Target(ServiceTarget {
            endpoint: self.endpoint.clone(),
            auth: self.auth.clone(),
            model: ModelIden::new(self.adapter, request.model),
        })
    }
}

impl Provider for Native {
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let (question, options) = question(request);
            match self
                .client
                .exec_chat(self.target(request), question, Some(&options))
                .await
            {
                Ok(answer) => Ok(read(answer, request)),
                Err(error) => from_crate(error),
            }
        })
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
        listener: &'a dyn Listener,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(native_stream::stream(
            &self.client,
            self.target(request),
            request,
            listener,
        ))
    }
}

pub(super) fn question(request: &Request<'_>) -> (ChatRequest, ChatOptions) {
    let mut question = ChatRequest::from_user(request.user);
    if !request.system.is_empty() {
        question = question.with_system(request.system);
    }

    // The body is needed to distinguish a blocked prompt from an invalid response.
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_raw_body(true);
    match request.mode {
        Mode::Native => {
            let form = JsonSpec::new(request.stage, request.schema.clone())
                .with_description(request.description);
            options = options.with_response_format(form);
        }
        Mode::Tool => {
            let tool = Tool::new(request.tool).with_description(request.description);
            question = question.append_tool(tool.with_schema(request.schema.clone()));
            options = options.with_tool_choice(ToolChoice::tool(request.tool));
        }
        Mode::Prompted | Mode::Text | Mode::Embedded => {}
    }

    let parameters = request.parameters;
    if let Some(temperature) = parameters.temperature {
        options = options.with_temperature(temperature);
    }

    if let Some(seed) = parameters.seed {
        options = options.with_seed(seed);
    }

    if let Some(max) = parameters.max_output_tokens {
        options = options.with_max_tokens(u32::try_from(max).unwrap_or(u32::MAX));
    }

    (question, options)
}

fn read(answer: ChatResponse, request: &Request<'_>) -> Reply {
    let called = answer
        .tool_calls()
        .into_iter()
        .find(|call| call.fn_name == request.tool);

    let arguments = called.map(|call| match &call.fn_arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });

    let finish = finish_of(answer.stop_reason.as_ref());
    let usage = usage_of(&answer.usage);
    let ignored_tool = request.mode == Mode::Tool && arguments.is_none();
    let text = arguments.unwrap_or_else(|| answer.texts().concat());
    Reply {
        ignored_tool: ignored_tool && !text.is_empty(),
        text,
        finish,
        usage,
        counted: false,
        model: Some(answer.provider_model_iden.model_name.to_string()),
        id: answer.response_id,
    }
}

pub(super) fn finish_of(reason: Option<&StopReason>) -> Finish {
    match reason {
        Some(StopReason::MaxTokens(_)) => Finish::CutOff,
        Some(StopReason::ContentFilter(reason)) => Finish::Refused(reason.clone()),
        _ => Finish::Complete,
    }
}

pub(super) fn usage_of(usage: &chat::Usage) -> Option<Usage> {
    let prompt = usage.prompt_tokens.filter(|tokens| *tokens > 0)?;
    let details = usage.prompt_tokens_details.as_ref();
    Some(Usage {
        prompt: prompt.into(),
        completion: usage.completion_tokens.unwrap_or(0).into(),
        cached: details
            .and_then(|details| details.cached_tokens)
            .unwrap_or(0)
            .into(),
    })
}

pub(super) fn from_crate(error: genai::Error) -> Result<Reply, ProviderError> {
    use genai::Error;
    match error {
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => {
            Err(from_wire(webc_error))
        }
        Error::HttpError {
            status,
            body,
            headers,
            ..
        } => Err(refusal(status, &headers, body.as_bytes())),
        // An error in the middle of a stream.
        Error::ChatResponse { body, .. } => Err(ProviderError::Status {
            status: 500,
            message: message_of(&body.to_string()),
            codes: codes_of(&body.to_string()),
            retry_after: None,
            should_retry: None,
        }),
        Error::WebStream { error, .. } => match error.downcast::<Error>() {
            Ok(inner) => from_crate(*inner),
            Err(error) => Err(match error.downcast::<reqwest::Error>() {
                Ok(error) => ProviderError::from_client(*error),
                Err(error) => ProviderError::Broken(error.to_string()),
            }),
        },
        // Gemini returns no candidate for a blocked prompt.
        Error::ChatResponseGeneration { response_body, .. }
            if response_body.get("promptFeedback").is_some() =>
        {
            let reason = response_body["promptFeedback"]["blockReason"]
                .as_str()
                .unwrap_or("the prompt was blocked");
            Ok(Reply {
                text: String::new(),
                ignored_tool: false,
                finish: Finish::Refused(reason.to_owned()),
                usage: None,
                counted: false,
                model: None,
                id: None,
            })
        }
        // Other errors quote the request.
        _ => Err(ProviderError::Unreadable(
            "it does not have the provider's format".to_owned(),
        )),
    }
}

fn from_wire(error: webc::Error) -> ProviderError {
    match error {
        webc::Error::ResponseFailedStatus {
            status,
            body,
            headers,
        } => refusal(status, &headers, body.as_bytes()),
        webc::Error::Reqwest(error) => ProviderError::from_client(error),
        _ => ProviderError::Unreadable("it is not JSON".to_owned()),
    }
}
