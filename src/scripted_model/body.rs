//! The body of an answer on its way out: whole, or broken off where the plan says.
//! It settles the request's outcome the moment the last byte is handed over, before the client can
//! see it, so that a client that has its answer finds the counts in order.

use std::io;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::line::Switch;
use super::plan::Ending;
use super::state::InFlight;
use super::types::Outcome;

/// Large answers go out in pieces, so that a client that leaves halfway is noticed.
const PIECE: usize = 64 * 1024;

pub(super) struct Outgoing {
    pub(super) rest: Bytes,
    pub(super) status: u16,
    pub(super) ending: Ending,
    pub(super) guard: InFlight,
    pub(super) switch: Switch,
    pub(super) stop: CancellationToken,
}

impl Outgoing {
    pub(super) fn into_body(mut self) -> Body {
        if self.ending != Ending::Complete {
            self.rest.truncate(self.rest.len() / 2);
        } else if self.rest.is_empty() {
            // Nobody asks for the pieces of an empty body.
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

        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        // Settled here, not at the end: once the announced length is reached nobody asks again.
        if self.rest.is_empty() && self.ending == Ending::Complete {
            self.guard.settle(Outcome::Answered(self.status));
        }

        Some(Ok(piece))
    }

    async fn end(&mut self) -> Option<io::Error> {
        match self.ending {
            Ending::Complete => return None,
            // The pause lets the connection write what it holds before it is broken.
            Ending::ResetHalfway => tokio::task::yield_now().await,
            Ending::StallHalfway => self.stop.cancelled().await,
        }

        self.guard.settle(Outcome::Broken);
        self.switch.reset();
        Some(io::ErrorKind::ConnectionReset.into())
    }
}
