//! Forwards a request in a task of its own, which outlives a client that disconnects just long
//! enough to store what came.

use std::pin::pin;

use serde_json::json;
use tokio::sync::mpsc::{OwnedPermit, Receiver, channel};
use tokio::sync::oneshot;

use super::block::{block, without_blocks};
use super::request::OpenAiRequest;
use super::{Exchange, OpenAi, OpenAiError};
use crate::base::problems;
use crate::conversation::turns::{Recollection, Turn};
use crate::llm::Session;
use crate::llm::forward::{Form, ForwardError, Forwarded, Held, Outlet, Part};
use crate::model::call::CallContext;

/// Parts that wait for the client.
const WAITING: usize = 8;

/// Room for the last part, so that nobody waits for a slow client in the end.
type LastRoom = Option<OwnedPermit<Part>>;

/// A task that forwards a request.
struct Running {
    openai: OpenAi,
    call: CallContext,
    exchange: Exchange,
    turn: Option<Turn>,
    recollection: Recollection,
}

/// Why a request was not forwarded to its end.
enum Ended {
    Failed(ForwardError),
    /// The client is gone, or reads too slowly.
    Unread,
    /// The service stops.
    Stopped,
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
        let (client, mut parts) = channel(WAITING + 1);
        let last = client.clone().try_reserve_owned().ok();
        let (failed, failure) = oneshot::channel();
        let running = Running {
            openai: self.clone(),
            call,
            exchange,
            turn,
            recollection,
        };
        self.running.spawn(async move {
            if let Err(error) = running.drive(Outlet::new(client), last).await {
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
    async fn drive(&self, out: Outlet, last: LastRoom) -> Result<(), ForwardError> {
        let (outcome, is_stored) = self.forward(&out).await;
        if outcome.is_ok() && !is_stored {
            self.store_turn().await;
        }

        self.store_reply(&out, outcome.is_ok()).await;
        let is_reported = out.reading().failure.is_some();
        match outcome {
            Ok(held) => send_held(&out, last, held),
            // The provider has reported the error itself.
            Err(_) if is_reported => {}
            Err(ended) if out.is_streaming() => {
                send_last(last, last_event(self.exchange.form, &ended));
            }
            Err(Ended::Failed(error)) => return Err(error),
            Err(Ended::Unread | Ended::Stopped) => {}
        }

        Ok(())
    }

    /// Forwards the request. What the user said is stored as soon as the provider replies; whether
    /// that was done.
    async fn forward(&self, out: &Outlet) -> (Result<Held, Ended>, bool) {
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
                outcome = self.openai.llm.forward(&session, &request, out) => {
                    outcome.map_err(Ended::Failed)
                }
                () = out.gone() => Err(Ended::Unread),
                () = self.openai.stop.cancelled() => Err(Ended::Stopped),
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
fn send_held(out: &Outlet, last: LastRoom, held: Held) {
    if let Some(content_type) = held.content_type {
        // A whole reply is all that is sent, so there is room.
        let _ = out.client.try_send(Part::Begun(content_type));
    }
    send_last(last, held.bytes);
}

fn send_last(last: LastRoom, bytes: Vec<u8>) {
    if let Some(last) = last {
        last.send(Part::Bytes(bytes));
    }
}

/// The event that ends a stream which is not complete.
fn last_event(form: Form, ended: &Ended) -> Vec<u8> {
    let (message, code) = match ended {
        Ended::Failed(ForwardError::Llm(error)) => (error.to_string(), Some(error.code())),
        Ended::Failed(ForwardError::Rejected { .. }) => (
            "the provider rejected the request".to_owned(),
            Some("llm_rejected"),
        ),
        Ended::Unread => ("the reply was read too slowly".to_owned(), None),
        Ended::Stopped => (
            "the service is stopping".to_owned(),
            Some(problems::SHUTTING_DOWN.code),
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
