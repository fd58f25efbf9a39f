//! The byte-pair encodings: their tokens, as the build script wrote them, and the expressions that
//! split a text before it is encoded. Special tokens are left out: they count as ordinary text.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR, Rank};

const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
const GPT_3: &str =
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";

/// The tokens of an encoding.
macro_rules! vocabulary {
    ($name:literal, $pattern:expr) => {
        LazyLock::new(|| {
            read(
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
                $pattern,
            )
        })
    };
}

pub static O200K_BASE: LazyLock<CoreBPE> = vocabulary!("o200k_base", O200K_BASE_PAT_STR);
pub static CL100K_BASE: LazyLock<CoreBPE> = vocabulary!("cl100k_base", CL100K);
pub static P50K_BASE: LazyLock<CoreBPE> = vocabulary!("p50k_base", GPT_3);
pub static R50K_BASE: LazyLock<CoreBPE> = vocabulary!("r50k_base", GPT_3);

fn read(mut bytes: &[u8], pattern: &str) -> CoreBPE {
    let mut ranks: FxHashMap<Vec<u8>, Rank> = FxHashMap::default();
    let mut rank = 0;
    while let Some((length, rest)) = bytes.split_first() {
        let (token, rest) = rest.split_at(usize::from(*length));
        if !token.is_empty() {
            ranks.insert(token.to_vec(), rank);
        }

        bytes = rest;
        rank += 1;
    }

    CoreBPE::new(ranks, FxHashMap::default(), pattern)
        .unwrap_or_else(|error| unreachable!("the vocabularies are checked by a test: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_that_of_the_reference() {
        let text = "It's 2026: the O'Neils' café isn't open, (see p. 12).\n\n\t- no\r\n  中文文本，नमस्ते!\n 👩‍🚀 <|endoftext|>";
        for (own, reference) in [
            (&O200K_BASE, tiktoken_rs::o200k_base()),
            (&CL100K_BASE, tiktoken_rs::cl100k_base()),
            (&P50K_BASE, tiktoken_rs::p50k_base()),
            (&R50K_BASE, tiktoken_rs::r50k_base()),
        ] {
            let reference = reference.unwrap();
            assert_eq!(own.encode_ordinary(text), reference.encode_ordinary(text));
            let special = reference.special_tokens();
            let is_ordinary = |token: &Vec<u8>| {
                !std::str::from_utf8(token).is_ok_and(|text| special.contains(text))
            };
            for rank in 0..=u32::from(u16::MAX) * 4 {
                let expected = reference.decode_bytes(&[rank]).ok();
                let expected = expected.filter(is_ordinary);
                assert_eq!(own.decode_bytes(&[rank]).ok(), expected, "{rank}");
            }
        }
    }
}
