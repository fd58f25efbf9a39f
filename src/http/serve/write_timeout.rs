//! A connection that gives up on a client that does not read: a write without progress in time is
//! an error.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

pub struct TimedStream {
    stream: TcpStream,
    patience: Duration,
    /// The deadline; only checked while a write waits.
    end: Pin<Box<Sleep>>,
    waiting: bool,
    /// Whether a write waits, for others to read.
    unread: Arc<AtomicBool>,
}

impl TimedStream {
    pub fn new(stream: TcpStream, patience: Duration, unread: Arc<AtomicBool>) -> Self {
        Self {
            stream,
            patience,
            end: Box::pin(tokio::time::sleep(patience)),
            waiting: false,
            unread,
        }
    }

    /// Returns the result of a write unless it has waited for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if self.waiting {
                self.waiting = false;
                self.unread.store(false, Ordering::Relaxed);
            }
            return polled;
        }

        if !self.waiting {
            self.waiting = true;
            self.unread.store(true, Ordering::Relaxed);
            let end = Instant::now() + self.patience;
            self.end.as_mut().reset(end);
        }

        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
