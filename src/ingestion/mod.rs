//! Text in, filed verbatim under the hierarchy. So far: how a text is cut into passages.

pub mod chunker;
