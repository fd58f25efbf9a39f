//! The limits of tags, wherever a request names them.

/// Maximum characters of a tag of a source or a memory.
pub const MAX_CHARS: usize = 100;
/// Maximum tags of a source, with the one that every source has.
pub const MAX_OF_SOURCE: usize = 100;
