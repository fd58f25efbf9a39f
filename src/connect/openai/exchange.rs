//! Forwards a request in a task of its own, which outlives a client that disconnects just long
//! enough to store what came.

use std::pin::pin;

use serde_json::json;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;

use super::block::{block, without_blocks};
use super::request::OpenAiRequest;
use super::{Exchange, OpenAi, OpenAiError};
use crate::conversation::turns::{Recollection, Turn};
use crate::llm::Session;
use crate::llm::forward::{Form, ForwardError, Forwarded, Held, Outlet, Part};
use crate::model::call::CallContext;

/// Parts that wait for the client.
const WAITING: usize = 64;

/// A task that forwards a request.
struct Running {
    openai: OpenAi,
    call: CallContext,
    exchange: Exchange,
    turn: Option<Turn>,
    recollection: Recollection,
}

impl OpenAi {
    /// Starts the task; returns once the reply begins, with its type.
    pub(super) async fn run(
        &self,
        call: CallContext,
        exchange: Exchange,
        turn: Option<Turn>,
        recollection: Recollection,
    ) -> Result<(String, Receiver<Part>), OpenAiError> {
        let (client, mut parts) = channel(WAITING);
        let (failed, failure) = oneshot::channel();
        let running = Running {
            openai: self.clone(),
            call,
            exchange,
            turn,
            recollection,
        };
        self.running.spawn(async move {
            if let Err(error) = running.drive(Outlet::new(client)).await {
                let _ = failed.send(error);
            }
        });

        if let Some(Part::Begun(content_type)) = parts.recv().await {
            return Ok((content_type, parts));
        }

        Err(match failure.await {
            Ok(error) => OpenAiError::Forward(error),
            Err(_) => OpenAiError::Ended,
        })
    }
}

impl Running {
    /// Forwards the request and stores the turn. An error is returned only if nothing was sent to
    /// the client yet.
    async fn drive(&self, out: Outlet) -> Result<(), ForwardError> {
        let (outcome, is_stored) = self.forward(&out).await;
        let outcome = match outcome {
            Some(Ok(held)) => {
                if !is_stored {
                    self.store_turn().await;
                }
                Ok(held)
            }
            Some(Err(error)) => Err(Some(error)),
            None => Err(None),
        };

        self.store_reply(&out, outcome.is_ok()).await;
        match outcome {
            Ok(held) => {
                send_held(&out, held).await;
                Ok(())
            }
            // The provider has reported the error itself.
            Err(Some(_)) if out.reading().failure.is_some() => Ok(()),
            Err(Some(error)) if out.is_streaming() => {
                let last = Part::Bytes(last_event(self.exchange.form, &error));
                let _ = out.client.send(last).await;
                Ok(())
            }
            Err(Some(error)) => Err(error),
            // Nobody reads any more.
            Err(None) => Ok(()),
        }
    }

    /// Forwards the request until it ends, or the client is gone or the service stops (`None`). What the user said is
    /// stored as soon as the provider replies; whether that was done.
    async fn forward(&self, out: &Outlet) -> (Option<Result<Held, ForwardError>>, bool) {
        let exchange = &self.exchange;
        let session =
            Session::of_caller(self.call.clone()).with_model(Some(exchange.model.clone()));
        let added = match self.recollection.text.as_str() {
            "" => String::new(),
            lines => block(lines),
        };
        let body = |model: &str, adds_usage: bool| {
            let request = OpenAiRequest::read(exchange.form, &exchange.body);
            let written = request.map(|request| request.write(model, &added, adds_usage));
            written.unwrap_or_default()
        };
        let request = Forwarded {
            form: exchange.form,
            model: &exchange.given_model,
            body: &body,
            streamed: exchange.streamed,
            wants_usage: exchange.wants_usage,
            expected_tokens: exchange.expected_tokens,
        };

        let forwarding = async {
            tokio::select! {
                biased;
                outcome = self.openai.llm.forward(&session, &request, out) => Some(outcome),
                () = out.client.closed() => None,
                () = self.openai.stop.cancelled() => None,
            }
        };
        let mut forwarding = pin!(forwarding);
        tokio::select! {
            biased;
            () = out.begun.notified() => {}
            outcome = &mut forwarding => return (outcome, false),
        }

        let (outcome, ()) = tokio::join!(forwarding, self.store_turn());
        (outcome, true)
    }

    async fn store_turn(&self) {
        let Some(turn) = &self.turn else { return };
        let handed = (self.exchange.model.as_str(), &self.recollection);
        let stored = self
            .openai
            .conversation
            .store_turn(&self.call, turn, handed);
        if let Err(error) = stored.await {
            tracing::warn!(error = error.reason(), "what a user said cannot be stored");
        }
    }

    /// Stores the reply, or what came of it. What only calls tools is none.
    async fn store_reply(&self, out: &Outlet, complete: bool) {
        let Some(turn) = &self.turn else { return };
        let reading = out.reading().clone();
        let text = without_blocks(&reading.text);
        if reading.calls_tools || text.trim().is_empty() {
            return;
        }

        let complete = complete && reading.is_complete();
        let conversation = &self.openai.conversation;
        let stored = conversation.store_reply(&self.call, turn, &text, complete);
        if let Err(error) = stored.await {
            tracing::warn!(error = error.reason(), "a reply cannot be stored");
        }
    }
}

/// Sends what was held back until the turn was stored.
async fn send_held(out: &Outlet, held: Held) {
    let begun = held.content_type.map(Part::Begun);
    let parts = begun.into_iter().chain([Part::Bytes(held.bytes)]);
    for part in parts {
        if out.client.send(part).await.is_err() {
            return;
        }
    }
}

/// The event that ends a stream after an error.
fn last_event(form: Form, error: &ForwardError) -> Vec<u8> {
    let (message, code) = match error {
        ForwardError::Llm(error) => (error.to_string(), error.code()),
        ForwardError::Rejected { .. } => (
            "the provider rejected the request".to_owned(),
            "llm_rejected",
        ),
    };
    let event = if form == Form::Responses {
        let data = json!({"type": "error", "code": code, "message": message, "param": null});
        format!("event: error\ndata: {data}\n\n")
    } else {
        let error =
            json!({"message": message, "type": "server_error", "param": null, "code": code});
        format!("data: {}\n\n", json!({ "error": error }))
    };
    event.into_bytes()
}
