//! `as_of` on documents, passages and the hierarchy.
