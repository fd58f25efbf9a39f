//! OpenAI's chat protocol, which most servers support.
//!
//! The crate loses the status of an error that does not have OpenAI's format, and retries on its
//! own. Our own service therefore sends the requests: it checks the status first and limits the
//! size of the body.

use std::task::{Context, Poll};

use async_openai::Client;
use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use futures_util::future::BoxFuture;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::super::error_body::{codes_of, message_of};
use super::super::listener::Listener;
use super::super::provider::{Finish, Mode, Provider, Reply, Request, Usage, Vectors};
use super::super::provider_error::ProviderError;
use super::super::retry_after::retry_after;
use super::openai_stream;
use crate::base::clock::{Clock as _, SystemClock};
use crate::config::llm as settings;

/// Maximum bytes of a reply.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

pub struct OpenAi {
    client: Client<Address>,
    /// For streams, which the crate would read with its own rules.
    http: reqwest::Client,
}

impl OpenAi {
    pub fn new(provider: &settings::Provider, http: reqwest::Client) -> Self {
        let key = provider.api_key.expose();
        let bearer = HeaderValue::from_str(&format!("Bearer {key}"))
            .ok()
            .filter(|_| !key.is_empty());
        let headers = bearer.map(|mut bearer| {
            bearer.set_sensitive(true);
            (AUTHORIZATION, bearer)
        });

        let address = Address {
            base_url: provider.base_url.trim_end_matches('/').to_owned(),
            headers: headers.into_iter().collect(),
            key: SecretString::default(),
        };

        let client = Client::build(http.clone(), address);
        Self {
            client: client.with_http_service(Wire { http: http.clone() }),
            http,
        }
    }
}

/// The address and the headers. The crate's own configuration reads the environment and would send
/// keys found there to every provider.
#[derive(Debug, Clone)]
struct Address {
    base_url: String,
    headers: HeaderMap,
    /// Not used, because the key is in the headers.
    key: SecretString,
}

impl Config for Address {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

impl Provider for OpenAi {
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let answer: Result<Value, OpenAIError> =
                self.client.chat().create_byot(body(request)).await;
            read(&answer.map_err(from_crate)?, request)
        })
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
        listener: &'a dyn Listener,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        let address = self.client.config();
        let post = self
            .http
            .post(address.url("/chat/completions"))
            .headers(address.headers());
        Box::pin(openai_stream::stream(post, request, listener))
    }

    fn embed<'a>(
        &'a self,
        model: &'a str,
        texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vectors, ProviderError>> {
        Box::pin(async move {
            let body = json!({"model": model, "input": texts, "encoding_format": "float"});
            let answer: Result<Value, OpenAIError> =
                self.client.embeddings().create_byot(body).await;
            read_vectors(&answer.map_err(from_crate)?, texts.len())
        })
    }
}

/// The vectors in the order of the texts, whatever their order in the response.
fn read_vectors(answer: &Value, count: usize) -> Result<Vectors, ProviderError> {
    let unreadable = |what: &str| ProviderError::Unreadable(what.to_owned());
    let data = answer["data"]
        .as_array()
        .ok_or_else(|| unreadable("it has no data"))?;
    let mut vectors = vec![Vec::new(); count];

    for (place, item) in data.iter().enumerate() {
        let index = item["index"]
            .as_u64()
            .map_or(place, |index| usize::try_from(index).unwrap_or(usize::MAX));
        let numbers = item["embedding"]
            .as_array()
            .ok_or_else(|| unreadable("an item has no embedding"))?;
        #[expect(clippy::cast_possible_truncation, reason = "stored as float32")]
        let vector: Option<Vec<f32>> = numbers
            .iter()
            .map(|number| number.as_f64().map(|number| number as f32))
            .collect();

        let vector = vector.filter(|vector| vector.iter().all(|number| number.is_finite()));
        let slot = vectors
            .get_mut(index)
            .ok_or_else(|| unreadable("it has more vectors than texts"))?;
        *slot = vector
            .ok_or_else(|| unreadable("an embedding contains values that are not numbers"))?;
    }

    let length = vectors.first().map_or(0, Vec::len);
    if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
        return Err(unreadable("it lacks vectors, or their lengths differ"));
    }

    Ok(Vectors {
        found: vectors,
        usage: usage(&answer["usage"]),
        model: answer["model"].as_str().map(str::to_owned),
    })
}

pub(super) fn body(request: &Request<'_>) -> Value {
    let mut messages = vec![json!({"role": "user", "content": request.user})];
    if !request.system.is_empty() {
        messages.insert(0, json!({"role": "system", "content": request.system}));
    }

    let mut body = json!({"model": request.model, "messages": messages});

    for (name, value) in request.members() {
        body[name.as_str()] = value;
    }

    let parameters = request.parameters;
    if let Some(temperature) = parameters.temperature {
        body["temperature"] = temperature.into();
    }

    if let Some(seed) = parameters.seed {
        body["seed"] = seed.into();
    }

    if let Some(max) = parameters.max_output_tokens {
        let name = if parameters.new_name_for_max {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body[name] = max.into();
    }

    body
}

pub(super) fn read(answer: &Value, request: &Request<'_>) -> Result<Reply, ProviderError> {
    let choice = &answer["choices"][0];
    let message = &choice["message"];
    if !message.is_object() {
        return Err(ProviderError::Unreadable("it has no message".to_owned()));
    }

    let called = message["tool_calls"].as_array().and_then(|calls| {
        calls
            .iter()
            .map(|call| &call["function"])
            .find(|function| function["name"] == request.tool)
    });

    let arguments = called.map(|function| match &function["arguments"] {
        // Some servers send the object instead of a string.
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });

    let ignored_tool = request.mode == Mode::Tool && arguments.is_none();
    let text = arguments
        .or_else(|| text_of(&message["content"]))
        .unwrap_or_default();
    let ignored_tool = ignored_tool && !text.is_empty();
    let refusal = message["refusal"]
        .as_str()
        .filter(|refusal| !refusal.is_empty());

    let finish = match (refusal, choice["finish_reason"].as_str()) {
        (Some(refusal), _) => Finish::Refused(refusal.to_owned()),
        (None, Some("content_filter")) => {
            Finish::Refused("a content filter stopped the answer".to_owned())
        }
        (None, Some("length")) => Finish::CutOff,
        _ => Finish::Complete,
    };

    let field = |name: &str| answer[name].as_str().map(str::to_owned);
    Ok(Reply {
        text,
        ignored_tool,
        finish,
        usage: usage(&answer["usage"]),
        counted: false,
        model: field("model"),
        id: field("id"),
    })
}

/// The text of a message, which may consist of several parts.
fn text_of(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(
            parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect(),
        ),
        _ => None,
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    Some(Usage {
        prompt: usage["prompt_tokens"].as_i64()?,
        completion: usage["completion_tokens"].as_i64().unwrap_or(0),
        cached: usage["prompt_tokens_details"]["cached_tokens"]
            .as_i64()
            .unwrap_or(0),
    })
}

fn from_crate(error: OpenAIError) -> ProviderError {
    match error {
        OpenAIError::Boxed(inner) => match inner.downcast::<ProviderError>() {
            Ok(ours) => *ours,
            Err(other) => ProviderError::Broken(other.to_string()),
        },
        OpenAIError::Reqwest(error) => ProviderError::from_client(error),
        // The error quotes the body, which may quote the prompt.
        OpenAIError::JSONDeserialize(..) => ProviderError::Unreadable("it is not JSON".to_owned()),
        other => ProviderError::Broken(other.to_string()),
    }
}

/// The service that sends the requests for the crate.
#[derive(Clone)]
struct Wire {
    http: reqwest::Client,
}

impl tower::Service<HttpRequestFactory> for Wire {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<reqwest::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let http = self.http.clone();
        Box::pin(async move {
            let request = request.build().await?;
            exchange(&http, request)
                .await
                .map_err(|error| OpenAIError::Boxed(Box::new(error)))
        })
    }
}

async fn exchange(
    http: &reqwest::Client,
    request: reqwest::Request,
) -> Result<reqwest::Response, ProviderError> {
    let mut response = http
        .execute(request)
        .await
        .map_err(ProviderError::from_client)?;

    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(ProviderError::from_client)? {
        if body.len() + bytes.len() > MAX_BYTES {
            return Err(ProviderError::Unreadable("it is too large".to_owned()));
        }
        body.extend_from_slice(&bytes);
    }

    if status.is_success() {
        let mut whole = http::Response::new(body);
        *whole.status_mut() = status;
        return Ok(whole.into());
    }

    Err(refusal(status, response.headers(), &body))
}

/// The error in a response with another status than success.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let text = String::from_utf8_lossy(body);
    let should_retry = headers
        .get("x-should-retry")
        .map(|value| value.as_bytes() == b"true");

    ProviderError::Status {
        status: status.as_u16(),
        message: message_of(&text),
        codes: codes_of(&text),
        retry_after: retry_after(headers, &text, SystemClock.now()),
        should_retry,
    }
}
