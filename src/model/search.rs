//! What a search reads and finds.

/// A chunk without a vector of the current model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unembedded {
    pub entry_id: i64,
    pub text: String,
}

/// The position of a chunk in its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub chunk_id: i64,
    pub version_id: i64,
    pub start_char: i64,
    pub end_char: i64,
}
