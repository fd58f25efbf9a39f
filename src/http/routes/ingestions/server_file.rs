//! A file of the server, named by its path instead of sent: only below `ingestion.root` (K-21).
//!
//! What is outside of it and what is not there are refused in the same words, so that nobody can ask what the machine has.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{CreateIngestionRequest, upload};
use crate::base::clock::Timestamp;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::state::HttpSettings;

/// The request with the text of the file that it names, if it has none of its own.
pub async fn fill(
    mut request: CreateIngestionRequest,
    settings: &HttpSettings,
) -> Result<CreateIngestionRequest, ApiError> {
    let (None, Some(root), Some(path)) = (&request.text, &settings.ingestion_root, &request.path) else {
        return Ok(request);
    };
    upload::check_type(&request)?;
    let (root, path, most) = (root.clone(), PathBuf::from(path), settings.max_body_bytes);
    #[expect(clippy::disallowed_methods, reason = "reads one file of bounded size and ends")]
    let read = tokio::task::spawn_blocking(move || read(&root, &path, most)).await;
    let (text, mtime) = read.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))?;
    request.text = Some(text);
    request.mtime = request.mtime.or(mtime);
    Ok(request)
}

/// The text, and when it was last changed.
fn read(root: &Path, path: &Path, most: usize) -> Result<(String, Option<String>), ApiError> {
    let unreadable = |_| ApiError::invalid_field("path", "is no file below ingestion.root that can be read");
    // Links are followed first: what they lead to counts.
    let place = path.canonicalize().map_err(unreadable)?;
    let inside = root.canonicalize().is_ok_and(|root| place.starts_with(root));
    let facts = place.metadata().map_err(unreadable)?;
    if !inside || !facts.is_file() {
        return Err(unreadable(std::io::ErrorKind::NotFound.into()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(&place).map_err(unreadable)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > most {
        return Err(body::too_large("the file", most));
    }
    let text = String::from_utf8(bytes).map_err(|_| ApiError::invalid_field("path", "the file must be UTF-8 text"))?;
    Ok((text, facts.modified().ok().and_then(Timestamp::of_file).map(|time| time.to_string())))
}
