//! The service of one connection: reports to the list of slots when a request begins and when its
//! response is written.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;

use super::connection_slots::{ConnectionSlot, Turn};
use crate::http::admission::is_probe;

pub struct Attended {
    pub slot: Arc<ConnectionSlot>,
    pub service: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for Attended {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let turn = self.slot.begin(is_probe(&request));
        request.extensions_mut().insert(turn.admission);
        let answering = self.service.call(request);
        Box::pin(async move {
            Ok(answering
                .await?
                .map(|body| Body::new(Held { body, _turn: turn })))
        })
    }
}

/// The body of a response: the request is in progress until all of it is written.
struct Held {
    body: Body,
    _turn: Turn,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
