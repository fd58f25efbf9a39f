//! The nouns that more than one floor speaks of, as plain data: no wire format, no SQL.

pub mod source;
