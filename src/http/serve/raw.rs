//! Problem documents for clients whose request reaches no handler.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::base::ids::new_uuid;
use crate::http::error::ApiError;

/// The maximum number of reads to discard what a rejected client has already sent.
const READ_CALLS: usize = 16;

/// A complete response, after which the connection is closed.
pub fn response(error: &ApiError) -> Vec<u8> {
    let request_id = new_uuid();
    let body = serde_json::to_vec(&error.problem(&request_id)).unwrap_or_default();
    let mut head = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\nx-request-id: {request_id}\r\nconnection: close\r\n",
        error.status(),
        body.len()
    );

    for (name, value) in &error.headers {
        head.extend([
            name.as_str(),
            ": ",
            value.to_str().unwrap_or_default(),
            "\r\n",
        ]);
    }

    head.push_str("\r\n");

    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}

/// Tells a client why it is rejected, without parsing its request.
pub async fn refuse(mut stream: TcpStream, error: ApiError) {
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(&response(&error))).await;
    // A connection closed with unread bytes is reset, and the client may lose the response.
    let mut space = [0; 4096];
    for _ in 0..READ_CALLS {
        if !stream.try_read(&mut space).is_ok_and(|read| read > 0) {
            break;
        }
    }

    let _ = stream.shutdown().await;
}
