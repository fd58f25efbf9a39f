//! Connections: accepted without delay for small writes, and with a switch that handlers use to
//! break them, because no HTTP response means "closed without a response".

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

const WHOLE: u8 = 0;
const CLOSED: u8 = 1;
const RESET: u8 = 2;

/// The handlers' control of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Switch(Arc<AtomicU8>);

impl Switch {
    /// Nothing more is written; the next write ends the connection.
    pub(super) fn close(&self) {
        self.0.store(CLOSED, Ordering::Release);
    }

    /// The connection ends with a reset instead of a normal close.
    pub(super) fn reset(&self) {
        self.0.store(RESET, Ordering::Release);
    }

    fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Acquire) == state
    }
}

impl Connected<IncomingStream<'_, Lines>> for Switch {
    fn connect_info(stream: IncomingStream<'_, Lines>) -> Self {
        stream.io().switch.clone()
    }
}

/// Accepts connections.
pub(super) struct Lines(pub(super) TcpListener);

impl Listener for Lines {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        // The listener's own `accept` returns errors; that of the trait retries.
        let (tcp, peer) = Listener::accept(&mut self.0).await;
        // If this fails, responses only take a few milliseconds longer.
        let _ = tcp.set_nodelay(true);
        (
            Line {
                tcp,
                switch: Switch(Arc::new(AtomicU8::new(WHOLE))),
            },
            peer,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// One connection.
pub(super) struct Line {
    tcp: TcpStream,
    switch: Switch,
}

impl Line {
    fn writable(&self) -> io::Result<()> {
        if self.switch.is(CLOSED) {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            Ok(())
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.switch.is(RESET) {
            // If this fails, the client sees an early end instead, which breaks the connection as
            // well.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writable()?;
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writable()?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
