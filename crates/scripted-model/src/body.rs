//! The body of a response: complete, or cut off as planned. The outcome of the request is recorded
//! when the last byte is handed over, before the client can see it, so that a client with a
//! response finds correct counts.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::line::Switch;
use super::plan::Ending;
use super::state::InFlight;
use super::types::Outcome;

/// Large responses are sent in parts, so that a client that disconnects is noticed.
const PIECE: usize = 64 * 1024;

pub(super) struct Outgoing {
    pub(super) rest: Bytes,
    pub(super) status: u16,
    pub(super) ending: Ending,
    /// Between the events of a stream; none for other bodies.
    pub(super) pause: Option<Duration>,
    pub(super) begun: bool,
    pub(super) guard: InFlight,
    pub(super) switch: Switch,
    pub(super) stop: CancellationToken,
}

impl Outgoing {
    pub(super) fn into_body(mut self) -> Body {
        if self.ending != Ending::Complete {
            self.rest.truncate(self.rest.len() / 2);
        } else if self.rest.is_empty() {
            // An empty body is never polled.
            self.guard.settle(Outcome::Answered(self.status));
        }
        Body::from_stream(stream::unfold(self, |mut outgoing| async move {
            let piece = outgoing.next().await?;
            Some((piece, outgoing))
        }))
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.rest.is_empty() {
            return self.end().await.map(Err);
        }

        let length = match self.pause {
            None => self.rest.len().min(PIECE),
            Some(pause) => {
                if std::mem::replace(&mut self.begun, true) && !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                event_length(&self.rest)
            }
        };

        let piece = self.rest.split_to(length);
        // Recorded here, not at the end: once the announced length is reached, the body is not
        // polled again.
        if self.rest.is_empty() && self.ending == Ending::Complete {
            self.guard.settle(Outcome::Answered(self.status));
        }

        Some(Ok(piece))
    }

    async fn end(&mut self) -> Option<io::Error> {
        match self.ending {
            Ending::Complete => return None,
            // Yields, so that the connection writes its buffer before it is broken.
            Ending::ResetHalfway => tokio::task::yield_now().await,
            Ending::StallHalfway => self.stop.cancelled().await,
        }

        self.guard.settle(Outcome::Broken);
        self.switch.reset();
        Some(io::ErrorKind::ConnectionReset.into())
    }
}

/// The bytes of the first event in a stream.
fn event_length(rest: &[u8]) -> usize {
    let end = rest.windows(2).position(|pair| pair == b"\n\n");
    end.map_or(rest.len(), |end| end + 2)
}
