//! The web page and the API reference: their files, compiled in, and their headers. They use only
//! the public API and load nothing from other hosts; unchanged files are not sent again. A debug
//! build reads the files from the source folder, so that a change shows after a reload.

use std::borrow::Cow;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use memoir_text::hash;

/// The page may run its own scripts and styles and call its own service; nothing else is allowed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";

macro_rules! files {
    ($($name:literal $media_type:ident),* $(,)?) => {
        &[$(File { name: $name, media_type: $media_type, text: include_str!(concat!("assets/", $name)) }),*]
    };
}

/// Every file of the page; `index.html` comes first.
const FILES: &[File] = files![
    "index.html" HTML,
    "style.css" CSS,
    "views.css" CSS,
    "more.css" CSS,
    "theme.js" JS,
    "app.js" JS,
    "api.js" JS,
    "dom.js" JS,
    "parts.js" JS,
    "settings.js" JS,
    "keep-focus.js" JS,
    "live.js" JS,
    "job-card.js" JS,
    "helper.js" JS,
    "add.js" JS,
    "same-name.js" JS,
    "welcome.js" JS,
    "library.js" JS,
    "search.js" JS,
    "source.js" JS,
    "source-parts.js" JS,
    "diff.js" JS,
    "hierarchy.js" JS,
    "icicle.js" JS,
    "rename.js" JS,
    "care.js" JS,
    "care-dialog.js" JS,
    "care-words.js" JS,
    "category-actions.js" JS,
    "category-changes.js" JS,
    "category-pick.js" JS,
    "chunk-item.js" JS,
    "proposals.js" JS,
    "ask.js" JS,
    "ask-form.js" JS,
    "ask-result.js" JS,
    "ask-history.js" JS,
    "walk.js" JS,
    "full.js" JS,
    "jobs.js" JS,
    "job.js" JS,
    "status.js" JS,
    "conversations.js" JS,
    "thread.js" JS,
    "thread-parts.js" JS,
    "correct.js" JS,
    "context.js" JS,
    "chat-import.js" JS,
    "vocabulary.js" JS,
    "policy.js" JS,
    "policy-chain.js" JS,
    "policy-difference.js" JS,
    "workbench.js" JS,
    "workbench-parts.js" JS,
    "super-prompt.js" JS,
    "docs.html" HTML,
    "docs.css" CSS,
    "docs.js" JS,
    "docs-schema.js" JS,
    "sample.json" JSON,
];

struct File {
    name: &'static str,
    media_type: &'static str,
    text: &'static str,
}

impl File {
    /// The compiled text, or in a debug build the one on disk if it is there.
    fn current(&self) -> Cow<'static, str> {
        if cfg!(debug_assertions) {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/assets");
            if let Ok(text) = std::fs::read_to_string(format!("{folder}/{}", self.name)) {
                return Cow::Owned(text);
            }
        }

        Cow::Borrowed(self.text)
    }
}

/// A file of the page by name, or `None`. 304 if the client has the current version.
pub fn file(name: &str, request: &HeaderMap) -> Option<Response> {
    let file = FILES.iter().find(|file| file.name == name)?;
    let text = file.current();
    let etag = format!("\"{}\"", hash::sha256_hex(text.as_bytes()));
    let etag = HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\""));
    let has_it = request
        .get(header::IF_NONE_MATCH)
        .is_some_and(|value| same(value, &etag));
    let mut response = Response::new(match text {
        _ if has_it => Body::empty(),
        Cow::Borrowed(text) => Body::from(Bytes::from_static(text.as_bytes())),
        Cow::Owned(text) => Body::from(text),
    });

    if has_it {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }

    let mut set = |name: HeaderName, value: &'static str| {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    };

    set(header::CONTENT_TYPE, file.media_type);
    // A newer binary has newer files under the same names: clients ask each time and receive only
    // what changed.
    set(header::CACHE_CONTROL, "no-cache");
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response.headers_mut().insert(header::ETAG, etag);

    Some(response)
}

/// A compressing proxy makes an ETag weak; the file is the same.
fn same(theirs: &HeaderValue, ours: &HeaderValue) -> bool {
    let theirs = theirs.as_bytes();
    theirs.strip_prefix(b"W/").unwrap_or(theirs) == ours.as_bytes()
}
