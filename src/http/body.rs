//! Request bodies: read in full, within a size and a time limit; unread bodies are drained.
//!
//! A server that responds before it has read the body must close the connection, and a client that
//! is still sending then loses the response. So whatever a handler leaves unread is read and
//! discarded, within limits, before the response is sent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::oneshot;

use super::body_budget::Reservation;
use super::error::ApiError;
use super::state::AppState;
use crate::base::problems;

/// If more than this is unread, the connection is closed instead.
const DRAIN_BYTES: usize = 64 << 20;
pub const DRAIN_TIME: Duration = Duration::from_secs(5);
/// For a request that anybody may send: it must not hold its connection.
pub const SHORT_DRAIN_TIME: Duration = Duration::from_millis(200);
/// A client that sends nothing for this long is not about to finish its body.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The error for data that exceeds the maximum size.
pub fn too_large(what: &str, most: usize) -> ApiError {
    let detail = format!("{what} is larger than {most} bytes");
    ApiError::new(problems::BODY_TOO_LARGE, detail).with("max_body_bytes", most)
}

/// Reads the whole body; its memory is reserved for as long as the reservation lives.
pub async fn read(body: Body, state: &AppState) -> Result<(Bytes, Reservation), ApiError> {
    let (most, patience) = (state.settings.max_body_bytes, state.settings.body_timeout);
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > most {
        return Err(too_large("the request body", most));
    }

    let mut reservation = state.body_budget.reservation();
    // A body that will not fit is rejected before it is sent. Memory is reserved as bytes arrive,
    // so that a client that announces much and sends nothing blocks nobody.
    state.body_budget.check_room(announced)?;

    let reading = joined(Limited::new(body, most), announced, &mut reservation);
    let bytes = tokio::time::timeout(patience, reading).await.map_err(|_| {
        ApiError::new(
            problems::BODY_TIMEOUT,
            format!(
                "the request body did not arrive within {} s",
                patience.as_secs()
            ),
        )
    })?;

    Ok((bytes.map_err(|error| error.describe(most))?, reservation))
}

/// Why a body could not be read.
enum Unread {
    TooLarge,
    BrokeOff,
    NoMemory(ApiError),
}

impl Unread {
    fn describe(self, most: usize) -> ApiError {
        match self {
            Self::TooLarge => too_large("the request body", most),
            Self::BrokeOff => {
                ApiError::malformed("the request body ended early").fix("Send the complete body.")
            }
            Self::NoMemory(error) => error,
        }
    }
}

/// Joins the frames of a body as they arrive: joined only at the end, a large body would be in
/// memory twice.
async fn joined(
    mut body: Limited<Body>,
    announced: usize,
    reservation: &mut Reservation,
) -> Result<Bytes, Unread> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Unread::TooLarge
            } else {
                Unread::BrokeOff
            }
        })?;
        if let Ok(data) = frame.into_data() {
            let length = bytes.len() + data.len();
            if bytes.capacity() < length {
                let capacity = capacity_for(length, announced);
                reservation.grow_to(capacity).map_err(Unread::NoMemory)?;
                bytes.reserve_exact(capacity - bytes.len());
            }

            bytes.extend_from_slice(&data);
        }
    }

    Ok(bytes.into())
}

/// The capacity for what has arrived: everything announced once a quarter of it is here, so that
/// little is copied. A body without an announced length grows by doubling.
fn capacity_for(length: usize, announced: usize) -> usize {
    let quarter = announced / 4;
    if announced == 0 {
        length.saturating_mul(2)
    } else if length > quarter {
        announced.max(length)
    } else {
        length.saturating_mul(2).min(quarter)
    }
}

/// Receives the rest of a body that was not read to its end.
pub struct Rest(oneshot::Receiver<Body>);

impl Rest {
    /// Wraps a body so that its rest comes back here.
    pub fn of(body: Body) -> (Body, Option<Self>) {
        if body.is_end_stream() {
            return (body, None);
        }

        let (give_back, rest) = oneshot::channel();
        (
            Body::new(GiveBack {
                body: Some(body),
                give_back: Some(give_back),
            }),
            Some(Self(rest)),
        )
    }

    /// Reads and discards the rest; returns whether the connection is still usable.
    pub async fn drain(mut self, time: Duration) -> bool {
        let Ok(rest) = self.0.try_recv() else {
            return true;
        };
        let drained = Limited::new(rest, DRAIN_BYTES);
        let mut drained = std::pin::pin!(drained);
        let all = async {
            loop {
                match tokio::time::timeout(MAX_PAUSE, drained.as_mut().frame()).await {
                    Ok(Some(Ok(_))) => {}
                    Ok(None) => return true,
                    Ok(Some(Err(_))) | Err(_) => return false,
                }
            }
        };

        tokio::time::timeout(time, all).await.unwrap_or(false)
    }
}

/// A body that sends itself back if it is dropped before its end.
struct GiveBack {
    body: Option<Body>,
    give_back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for GiveBack {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let Some(body) = self.body.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) {
            self.body = None;
        }

        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| hyper::body::SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        if let (Some(body), Some(give_back)) = (
            self.body.take().filter(|b| !b.is_end_stream()),
            self.give_back.take(),
        ) {
            let _ = give_back.send(body);
        }
    }
}
