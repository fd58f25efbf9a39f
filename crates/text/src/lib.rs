//! What memoir knows about texts: tokens, sentences, headings, words, hashes. Pure functions without
//! input or output that know nothing of the service.

pub mod blocks;
pub mod catch_all;
pub mod field_error;
pub mod folding;
pub mod framing;
pub mod hash;
pub mod headings;
mod identifier_parts;
pub mod identifiers;
pub mod months;
pub mod presets;
pub mod sentences;
pub mod single_facts;
pub mod stop_words;
pub mod text;
pub mod tokens;
pub mod words;
