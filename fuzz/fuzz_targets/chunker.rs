//! For any text and any rules, the joined chunks are the text, none is empty, and none is too
//! large.
//!
//! `cargo +nightly fuzz run chunker` (cargo install cargo-fuzz); see CONTRIBUTING.md.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memoir::ingestion::chunker::{ChunkRules, cut};
use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;

fuzz_target!(|input: (u8, u8, Vec<String>, String)| {
    let (min, more, delimiters, text) = input;
    let rules = ChunkRules {
        delimiters: delimiters.into_iter().filter(|mark| !mark.is_empty()).collect(),
        min_tokens: usize::from(min) + 1,
        max_tokens: usize::from(min) + 2 + usize::from(more),
    };

    let counter = TokenCounter::for_model(None);
    let mut end = 0;
    for chunk in cut(&text, &rules, counter) {
        assert_eq!(chunk.range.start, end);
        end = chunk.range.end;
        let part = &text[chunk.range];
        assert!(!part.is_empty());

        assert!(chunk.token_count <= rules.max_tokens || char_count(part) == 1);
    }

    assert_eq!(end, text.len());
});
