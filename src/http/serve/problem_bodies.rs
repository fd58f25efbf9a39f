//! A connection on which hyper's own errors also carry a problem document.
//!
//! hyper responds to an invalid request head by itself, with a bare status, and closes the
//! connection. It offers no way to add a body, so its response is recognised as it is written: it
//! is the only one without a request id. Bytes that the client is still sending are read and
//! discarded for a moment, because closing the connection with unread bytes would lose the
//! response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::raw;
use crate::base::problems;
use crate::http::error::ApiError;
use crate::http::trace::REQUEST_ID;

/// How long to read what a client sends after its request head was rejected.
const LINGER: Duration = Duration::from_secs(1);

pub struct Explained<S> {
    stream: S,
    /// The replacement response, and how much of it has been written.
    instead: Option<(Vec<u8>, usize)>,
    /// Set once a request head was rejected.
    linger: Option<Pin<Box<Sleep>>>,
}

impl<S> Explained<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            instead: None,
            linger: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.instead.is_none() {
            this.instead = bare_refusal(bytes).map(|status| (raw::response(&explain(status)), 0));
        }

        let Some((document, written)) = &mut this.instead else {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        };

        while *written < document.len() {
            let more =
                ready!(Pin::new(&mut this.stream).poll_write(context, &document[*written..]))?;
            if more == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }

            *written += more;
        }

        this.instead = None;
        this.linger = Some(Box::pin(tokio::time::sleep(LINGER)));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        match (filled.next(), filled.next()) {
            // Only a head: it may be one of hyper's.
            (Some(only), None) => self.poll_write(context, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        let Some(linger) = &mut this.linger else {
            return Poll::Ready(Ok(()));
        };

        let mut space = [0; 4096];
        while linger.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
        }

        Poll::Ready(Ok(()))
    }
}

/// The status of a response that hyper created itself.
fn bare_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?;
    let of_hyper = ["400", "414", "431"].contains(&status)
        && head.contains("\r\ncontent-length: 0")
        && !head.contains("\r\n\r\n")
        && !head.contains(REQUEST_ID);

    if of_hyper { status.parse().ok() } else { None }
}

fn explain(status: StatusCode) -> ApiError {
    match status {
        StatusCode::URI_TOO_LONG => ApiError::new(
            problems::URI_TOO_LONG,
            "the path and query string are too long",
        ),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ApiError::new(
            problems::HEAD_TOO_LARGE,
            format!(
                "the request line and headers are larger than {} bytes",
                super::MAX_HEAD_BYTES
            ),
        ),
        _ => ApiError::malformed("the request line or the headers are not valid HTTP/1.1").fix(
            "Send a request line and headers as defined in RFC 9112, and check what proxies \
                 change.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_error_responses_are_replaced() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        assert_eq!(
            bare_refusal(bare.as_bytes()),
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
        );

        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nx-request-id: 1\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "",
        ] {
            assert_eq!(bare_refusal(other.as_bytes()), None, "{other}");
        }
    }
}
