//! The protocols of Anthropic and Gemini, which the crate `genai` speaks.

use futures_util::future::BoxFuture;
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatRequest, ChatResponse, JsonSpec, StopReason, Tool, ToolChoice};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ModelSpec, ServiceTarget, webc};
use serde_json::Value;

use super::super::provider::{
    Finish, Mode, Provider, ProviderError, Reply, Request, Usage, codes_of, message_of,
};
use super::super::retry_after::retry_after;
use crate::base::clock::{Clock as _, SystemClock};
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

impl Provider for Native {
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let target = ServiceTarget {
                endpoint: self.endpoint.clone(),
                auth: self.auth.clone(),
                model: ModelIden::new(self.adapter, request.model),
            };

            let (question, options) = question(request);
            match self
                .client
                .exec_chat(ModelSpec::Target(target), question, Some(&options))
                .await
            {
                Ok(answer) => Ok(read(answer, request)),
                Err(error) => from_crate(error),
            }
        })
    }
}

fn question(request: &Request<'_>) -> (ChatRequest, ChatOptions) {
    let mut question = ChatRequest::from_user(request.user).with_system(request.system);
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
        Mode::Prompted | Mode::Embedded => {}
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

    let finish = match &answer.stop_reason {
        Some(StopReason::MaxTokens(_)) => Finish::CutOff,
        Some(StopReason::ContentFilter(reason)) => Finish::Refused(reason.clone()),
        _ => Finish::Complete,
    };

    let usage = answer
        .usage
        .prompt_tokens
        .filter(|tokens| *tokens > 0)
        .map(|prompt| Usage {
            prompt: prompt.into(),
            completion: answer.usage.completion_tokens.unwrap_or(0).into(),
            cached: answer
                .usage
                .prompt_tokens_details
                .as_ref()
                .and_then(|details| details.cached_tokens)
                .unwrap_or(0)
                .into(),
        });

    let ignored_tool = request.mode == Mode::Tool && arguments.is_none();
    let text = arguments.unwrap_or_else(|| answer.texts().concat());
    Reply {
        ignored_tool: ignored_tool && !text.is_empty(),
        text,
        finish,
        usage,
        model: Some(answer.provider_model_iden.model_name.to_string()),
        id: answer.response_id,
    }
}

fn from_crate(error: genai::Error) -> Result<Reply, ProviderError> {
    use genai::Error;
    match error {
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => {
            Err(from_wire(webc_error))
        }
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
        } => ProviderError::Status {
            status: status.as_u16(),
            message: message_of(&body),
            codes: codes_of(&body),
            retry_after: retry_after(&headers, &body, SystemClock.now()),
            should_retry: headers
                .get("x-should-retry")
                .map(|value| value.as_bytes() == b"true"),
        },
        webc::Error::Reqwest(error) => ProviderError::from_client(error),
        _ => ProviderError::Unreadable("it is not JSON".to_owned()),
    }
}
