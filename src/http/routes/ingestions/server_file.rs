//! Ingestion of a file on the server, given by its path: only below `ingestion.root`.
//!
//! A file outside the root and a missing file get the same error, so that callers cannot probe the
//! file system.

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::{CreateIngestionRequest, upload};
use crate::base::clock::Timestamp;
use crate::http::body;
use crate::http::body_budget::Reservation;
use crate::http::error::ApiError;
use crate::http::state::HttpSettings;

/// Fills in the text of the file at `path` if the request has no text. `taken` counts the bytes
/// that the request has used so far: all its files together must fit into `limits.max_body_bytes`.
pub async fn fill(
    mut request: CreateIngestionRequest,
    settings: &HttpSettings,
    reservation: &mut Reservation,
    taken: &mut usize,
) -> Result<CreateIngestionRequest, ApiError> {
    let (None, Some(root), Some(path)) = (&request.text, &settings.ingestion_root, &request.path)
    else {
        return Ok(request);
    };

    // One file has one path: without doubled slashes, and (see `inside`) without detours.
    let path: PathBuf = Path::new(path).components().collect();
    request.path = Some(path.to_string_lossy().into_owned());
    let (root, most) = (root.clone(), settings.max_body_bytes);
    let left = most.saturating_sub(*taken);
    let measured = (root.clone(), path.clone());
    #[expect(clippy::disallowed_methods, reason = "looks at one file and ends")]
    let size = tokio::task::spawn_blocking(move || size(&measured.0, &measured.1))
        .await
        .unwrap_or(0);

    reservation.grow_to(*taken + size.min(left))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "reads one file of bounded size and ends"
    )]
    let read = tokio::task::spawn_blocking(move || read(&root, &path, left)).await;
    let read = read.unwrap_or_else(|error| Err(ApiError::internal(error.to_string())))?;
    let (text, mtime) = read.ok_or_else(|| {
        let what = if *taken == 0 {
            "the file"
        } else {
            "the request, together with the files that it names,"
        };
        body::too_large(what, most)
    })?;

    *taken += text.len();
    request.text = Some(text);
    request.mtime = request.mtime.or(mtime);

    Ok(request)
}

/// The size of a file below the root; 0 for any other file, so that nothing is revealed.
fn size(root: &Path, path: &Path) -> usize {
    let facts = inside(root, path).and_then(|place| place.metadata().ok());
    facts.map_or(0, |facts| {
        usize::try_from(facts.len()).unwrap_or(usize::MAX)
    })
}

/// A text, and when its file was last modified.
type TextAndTime = (String, Option<Timestamp>);

/// Reads a file; `None` if it is larger than `most` bytes.
fn read(root: &Path, path: &Path, most: usize) -> Result<Option<TextAndTime>, ApiError> {
    let unreadable = || {
        ApiError::invalid_field(
            "path",
            "must be the path of a readable file below ingestion.root",
        )
    };
    let place = inside(root, path).ok_or_else(unreadable)?;
    upload::check_type(&place.file_name().unwrap_or_default().to_string_lossy())?;
    let file = std::fs::File::open(&place).map_err(|_| unreadable())?;
    let facts = file.metadata().map_err(|_| unreadable())?;

    // Someone may have replaced the file with a link meanwhile, so check the opened file.
    let same = |there: &Metadata| (there.dev(), there.ino()) == (facts.dev(), facts.ino());
    let still = inside(root, path).and_then(|place| place.symlink_metadata().ok());
    if !facts.is_file() || !still.is_some_and(|there| same(&there)) {
        return Err(unreadable());
    }

    let mut bytes = Vec::new();
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| unreadable())?;
    if bytes.len() > most {
        return Ok(None);
    }

    let text = String::from_utf8(bytes)
        .map_err(|_| ApiError::invalid_field("path", "the file must be UTF-8 text"))?;
    let mtime = facts.modified().ok().and_then(Timestamp::of_file);
    Ok(Some((text, mtime)))
}

/// The real location of a plain file, if it is below the root and not hidden. Links are resolved;
/// `..` is rejected, so that one file is not several sources.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }

    let place = path.canonicalize().ok()?;
    let below = place.strip_prefix(root.canonicalize().ok()?).ok()?;
    let hidden = below
        .components()
        .any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
    (!hidden && place.is_file()).then_some(place)
}
