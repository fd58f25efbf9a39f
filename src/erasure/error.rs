//! Why something was not erased.

use crate::store::{StoreError, as_store_error};

/// An erasure failed.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    /// 404: there is no such thing in this space, or it belongs to another user.
    #[error("there is no {what} {id} in this space")]
    NotFound { what: &'static str, id: String },
    /// 412: it has changed since the caller read it.
    #[error(
        "the {0} does not match If-Match: it has changed since you read it, or the ETag belongs to \
         another {0}"
    )]
    Changed(&'static str),
    /// 503 or 500, as the store says. A repeated request does the rest.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ErasureError {
    pub(super) fn not_found(what: &'static str, id: &str) -> Self {
        Self::NotFound {
            what,
            id: id.chars().take(100).collect(),
        }
    }
}

as_store_error!(ErasureError);
