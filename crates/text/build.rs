//! Writes the vocabularies of `tiktoken-rs` in half of their space. There they are base64 with ranks
//! as text, 7 MB of the binary; here each token is its length and its bytes, in the order of ranks.

use std::path::Path;
use std::{env, fs};

use tiktoken_rs::CoreBPE;

#[expect(clippy::disallowed_methods, reason = "cargo names the folder so")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    for (name, encoding) in [
        ("o200k_base", tiktoken_rs::o200k_base()),
        ("cl100k_base", tiktoken_rs::cl100k_base()),
        ("p50k_base", tiktoken_rs::p50k_base()),
        ("r50k_base", tiktoken_rs::r50k_base()),
    ] {
        let encoding = encoding.expect("its vocabulary is part of the crate");
        fs::write(Path::new(&folder).join(name), tokens_of(&encoding))
            .expect("a folder to write to");
    }
}

/// Every token, by rank; 0 stands for a rank without one.
fn tokens_of(encoding: &CoreBPE) -> Vec<u8> {
    // A special token's text is ordinary text for a count.
    let special = encoding.special_tokens();
    let is_special =
        |token: &[u8]| std::str::from_utf8(token).is_ok_and(|text| special.contains(text));
    let mut bytes = Vec::new();
    let mut end = 0;
    for rank in 0..=u32::from(u16::MAX) * 4 {
        let token = encoding.decode_bytes(&[rank]);
        let token = token.ok().filter(|token| !is_special(token));
        let token = token.unwrap_or_default();
        bytes.push(u8::try_from(token.len()).expect("tokens are short"));
        bytes.extend(&token);
        if !token.is_empty() {
            end = bytes.len();
        }
    }

    bytes.truncate(end);
    bytes
}
