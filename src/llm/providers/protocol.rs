//! What the protocols have in common: where a request goes, how its reply is read, whole or as a
//! stream of events.

use futures_util::future::BoxFuture;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::super::listener::Listener;
use super::super::provider::{
    Finish, Mode, Provider, Rejection, Reply, Request, Usage, Vectors, no_embeddings,
};
use super::super::provider_error::ProviderError;
use super::wire::{self, Streamed};

/// A protocol: the differences between providers.
pub(super) trait Protocol: Send + Sync + 'static {
    /// The path below the provider's address.
    fn path(&self, request: &Request<'_>, streamed: bool) -> String;

    fn body(&self, request: &Request<'_>, streamed: bool) -> Value;

    /// Reads a whole reply.
    fn read(&self, answer: &Value, request: &Request<'_>) -> Result<Parts, ProviderError>;

    /// Adds one event of a stream to what came before, and returns the text that is new.
    fn add(&self, parts: &mut Parts, event: &Value, request: &Request<'_>) -> String;

    /// The tokens of a call, from what the reply says about them.
    fn usage(&self, usage: &Value) -> Option<Usage>;

    /// The request for vectors, and their place in the reply; `None` if the protocol has none.
    fn embedding(&self) -> Option<Embedding> {
        None
    }
}

type ReadVectors = fn(&Value, usize) -> Result<Vec<Vec<f32>>, ProviderError>;

/// How a protocol embeds texts.
pub(super) struct Embedding {
    pub path: &'static str,
    pub body: fn(&str, &[&str]) -> Value,
    /// Reads as many vectors as there were texts.
    pub read: ReadVectors,
}

/// What a reply consists of, in every protocol.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub text: String,
    /// The arguments of the call of the offered tool.
    pub arguments: Option<String>,
    /// The number of that call among the blocks of a stream.
    pub call: Option<i64>,
    /// The words with which the model declined.
    pub refusal: String,
    /// Why the model stopped; `None` while it writes.
    pub finish: Option<Finish>,
    pub usage: Value,
    pub model: Option<String>,
    pub id: Option<String>,
    /// Whether a stream said that nothing follows.
    pub over: bool,
}

impl Parts {
    /// Keeps these fields of a reply or an event, where it has them.
    pub fn identify(&mut self, model: &Value, id: &Value) {
        if let Some(model) = model.as_str() {
            self.model = Some(model.to_owned());
        }

        if let Some(id) = id.as_str() {
            self.id = Some(id.to_owned());
        }
    }

    /// Adds the counts of a reply or an event; anything but an object says nothing.
    pub fn add_usage(&mut self, usage: &Value) {
        let Some(counts) = usage.as_object() else {
            return;
        };

        if !self.usage.is_object() {
            self.usage = json!({});
        }

        for (name, count) in counts.iter().filter(|(_, count)| !count.is_null()) {
            self.usage[name.as_str()] = count.clone();
        }
    }

    fn into_reply(self, mode: Mode, usage: Option<Usage>) -> Reply {
        let ignored_tool = mode == Mode::Tool && self.arguments.is_none();
        let text = self.arguments.unwrap_or(self.text);
        let finish = if self.refusal.is_empty() {
            self.finish.unwrap_or(Finish::Complete)
        } else {
            Finish::Refused(self.refusal)
        };

        Reply {
            ignored_tool: ignored_tool && !text.is_empty(),
            text,
            finish,
            usage,
            counted: false,
            model: self.model,
            id: self.id,
        }
    }
}

/// A provider that is reached over HTTP.
pub(super) struct Remote<P> {
    pub protocol: P,
    pub http: reqwest::Client,
    pub base_url: String,
    /// The key, and what else the protocol requires.
    pub headers: HeaderMap,
}

impl<P: Protocol> Remote<P> {
    fn post(&self, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base_url);
        self.http.post(url).headers(self.headers.clone())
    }

    /// The tokens of a call; some servers say 0 for a prompt that they did not count.
    fn usage(&self, usage: &Value) -> Option<Usage> {
        let usage = self.protocol.usage(usage);
        usage.filter(|usage| usage.prompt > 0)
    }

    fn reply(&self, parts: Parts, request: &Request<'_>) -> Reply {
        let usage = self.usage(&parts.usage);
        parts.into_reply(request.mode, usage)
    }

    async fn whole(&self, request: &Request<'_>) -> Result<Reply, ProviderError> {
        let post = self.post(&self.protocol.path(request, false));
        let answer = wire::send(post, &self.protocol.body(request, false)).await?;

        Ok(self.reply(self.protocol.read(&answer, request)?, request))
    }

    async fn streamed(
        &self,
        request: &Request<'_>,
        listener: &dyn Listener,
    ) -> Result<Reply, ProviderError> {
        let post = self.post(&self.protocol.path(request, true));
        let mut events = match wire::open(post, &self.protocol.body(request, true)).await? {
            Streamed::Events(events) => events,
            // Some servers answer as a whole although a stream was requested.
            Streamed::Whole(answer) => {
                let reply = self.reply(self.protocol.read(&answer, request)?, request);
                listener.piece(&reply.text);
                return Ok(reply);
            }
        };

        let mut parts = Parts::default();
        while !parts.over {
            let Some(event) = events.next().await? else {
                break;
            };

            let piece = self.protocol.add(&mut parts, &event, request);
            if !piece.is_empty() {
                listener.piece(&piece);
            }
        }

        if parts.finish.is_none() && !parts.over && !events.is_over() {
            return Err(wire::broken());
        }

        Ok(self.reply(parts, request))
    }
}

impl<P: Protocol> Provider for Remote<P> {
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(self.whole(request))
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
        listener: &'a dyn Listener,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(self.streamed(request, listener))
    }

    fn forward<'a>(
        &'a self,
        path: &'a str,
        body: Vec<u8>,
    ) -> BoxFuture<'a, Result<reqwest::Response, Rejection>> {
        Box::pin(wire::forward(self.post(path), body))
    }

    fn embed<'a>(
        &'a self,
        model: &'a str,
        texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vectors, ProviderError>> {
        Box::pin(async move {
            let embedding = self.protocol.embedding().ok_or_else(no_embeddings)?;
            let post = self.post(embedding.path);
            let answer = wire::send(post, &(embedding.body)(model, texts)).await?;

            Ok(Vectors {
                found: (embedding.read)(&answer, texts.len())?,
                usage: self.usage(&answer["usage"]),
                model: answer["model"].as_str().map(str::to_owned),
            })
        })
    }
}
