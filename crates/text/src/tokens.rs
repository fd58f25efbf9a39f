//! Token counts: exact, by the model's own byte-pair encoding, or estimated as a quarter of the
//! characters.
//!
//! Vocabularies are compiled in and parsed on first use, never at start. A text is encoded in short
//! pieces (see `pieces`): the encoder's regular expression panics on a million spaces. Of their
//! words, only new ones are encoded (see `known_words`).
//!
//! Pieces end where every encoding begins a new token, so the counts are the reference's; only a run
//! of more than 16 KiB without such a place (a million digits) may count one token more per 16 KiB.
//! `tiktoken-rs` follows `OpenAI`'s own code. The crate `tiktoken` gave equal counts on 4 MB of texts
//! in a quarter of the time, and knows more vocabularies, but it is young.

mod known_words;
mod vocabulary;

use std::sync::LazyLock;

use known_words::KnownWords;
use tiktoken_rs::CoreBPE;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use super::text::char_count;

/// The encoding used for models whose own is not public.
const FALLBACK: Tokenizer = Tokenizer::O200kBase;

/// A piece of a text ends at the first sure boundary after this many bytes.
const PIECE_BYTES: usize = 2 * 1024;

/// A piece without a sure boundary ends here. Counts may differ by one token at such a place.
const MAX_PIECE_BYTES: usize = 16 * 1024;

/// Counts tokens for one model.
#[derive(Debug, Clone, Copy)]
pub struct TokenCounter {
    encoding: Tokenizer,
    exact: bool,
}

impl TokenCounter {
    /// The counter of a model, named with or without its provider (`openai:gpt-4o`, `gpt-4o`).
    #[must_use]
    pub fn for_model(model: Option<&str>) -> Self {
        // A colon may also belong to the model's own name: `qwen2.5:7b`.
        let bare = |name: &str| {
            name.split_once(':')
                .and_then(|(_, bare)| get_tokenizer(bare))
        };

        let known = model.and_then(|name| get_tokenizer(name).or_else(|| bare(name)));
        Self {
            encoding: known.unwrap_or(FALLBACK),
            exact: known.is_some(),
        }
    }

    /// Whether the encoding is the model's own and not a substitute.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.exact
    }

    /// The encoding's public name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.encoding {
            Tokenizer::O200kHarmony => "o200k_harmony",
            Tokenizer::O200kBase => "o200k_base",
            Tokenizer::Cl100kBase => "cl100k_base",
            Tokenizer::P50kBase => "p50k_base",
            Tokenizer::P50kEdit => "p50k_edit",
            Tokenizer::R50kBase => "r50k_base",
            Tokenizer::Gpt2 => "gpt2",
        }
    }

    /// The length in bytes of the longest prefix of `text` with about `most` tokens, on a character
    /// boundary.
    #[must_use]
    pub fn prefix(self, text: &str, most: usize) -> usize {
        let encoder = self.encoder();
        let (mut left, mut start) = (most, 0);
        for piece in pieces(text) {
            let tokens = encoder.encode_ordinary(piece);
            if tokens.len() > left {
                let bytes = encoder
                    .decode_bytes(&tokens[..left])
                    .map_or(0, |bytes| bytes.len());

                return text.floor_char_boundary(start + bytes);
            }

            left -= tokens.len();
            start += piece.len();
        }

        text.len()
    }

    /// The number of tokens in `text`; special tokens count as ordinary text.
    ///
    /// Takes up to 0.2 ms per 400 tokens, and much less if most words came before: call it from a
    /// blocking thread above some 50 kB.
    #[must_use]
    pub fn count(self, text: &str) -> usize {
        let (encoder, known) = (self.encoder(), self.known_words());
        pieces(text)
            .map(|piece| known.count(words(piece), |word| encoder.count_ordinary(word)))
            .sum()
    }

    /// Encodings that differ only in their special tokens share a vocabulary.
    fn encoder(self) -> &'static CoreBPE {
        match self.encoding {
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => &vocabulary::O200K_BASE,
            Tokenizer::Cl100kBase => &vocabulary::CL100K_BASE,
            Tokenizer::P50kBase | Tokenizer::P50kEdit => &vocabulary::P50K_BASE,
            Tokenizer::R50kBase | Tokenizer::Gpt2 => &vocabulary::R50K_BASE,
        }
    }

    fn known_words(self) -> &'static KnownWords {
        static KNOWN: LazyLock<[KnownWords; 4]> = LazyLock::new(Default::default);

        let number = match self.encoding {
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => 0,
            Tokenizer::Cl100kBase => 1,
            Tokenizer::P50kBase | Tokenizer::P50kEdit => 2,
            Tokenizer::R50kBase | Tokenizer::Gpt2 => 3,
        };
        &KNOWN[number]
    }
}

/// Cuts a text into pieces that can be encoded one by one: the tokens are the same, because every
/// encoding starts a new token where a piece ends. Only a run of more than [`MAX_PIECE_BYTES`]
/// without such a place is cut elsewhere.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }

        let (piece, rest) = text.split_at(piece_end(text));
        text = rest;
        Some(piece)
    })
}

fn piece_end(text: &str) -> usize {
    if text.len() <= PIECE_BYTES {
        return text.len();
    }

    let start = text.floor_char_boundary(PIECE_BYTES);
    let end = text.floor_char_boundary(MAX_PIECE_BYTES);
    let mut before = text[..start].chars().next_back().unwrap_or_default();
    for (offset, character) in text[start..end].char_indices() {
        if starts_token(before, character) {
            return start + offset;
        }

        before = character;
    }

    end
}

/// Cuts a piece at every place where a token is sure to start: mostly before the space of a word.
fn words(mut piece: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut characters = piece.char_indices();
        let (_, mut before) = characters.next()?;
        let end = characters.find(|(_, character)| {
            let starts = starts_token(before, *character);
            before = *character;
            starts
        });

        let (word, rest) = piece.split_at(end.map_or(piece.len(), |(at, _)| at));
        piece = rest;
        Some(word)
    })
}

/// Whether every encoding starts a token at `character`. No token continues with a space after a
/// character that is none, and no token with a letter or digit at its end continues with a line
/// break or a punctuation mark. Marks and symbols do continue with a line break.
fn starts_token(before: char, character: char) -> bool {
    match character {
        ' ' => !before.is_whitespace(),
        '\n' | '。' | '，' | '、' => {
            before.is_ascii_alphanumeric()
                || matches!(before, '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
        }
        _ => false,
    }
}

/// A quarter of the characters, rounded up: an estimate that needs no vocabulary.
#[must_use]
pub fn quarter_estimate(text: &str) -> usize {
    char_count(text).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_encoding() {
        for (model, name, exact) in [
            (Some("gpt-4o"), "o200k_base", true),
            (Some("openai:gpt-4o"), "o200k_base", true),
            (Some("gpt-4"), "cl100k_base", true),
            (Some("ollama:llama3.1"), "o200k_base", false),
            (Some("gpt-4.1-mini"), "o200k_base", true),
            (Some("gpt-4-turbo"), "cl100k_base", true),
            (Some("o3-mini"), "o200k_base", true),
            (Some("somebodys-model"), "o200k_base", false),
            (Some(""), "o200k_base", false),
            (None, "o200k_base", false),
        ] {
            let counter = TokenCounter::for_model(model);
            assert_eq!(
                (counter.name(), counter.is_exact()),
                (name, exact),
                "{model:?}"
            );
        }
    }

    /// Expected values from OpenAI's own tiktoken.
    #[test]
    fn counts_equal_the_reference() {
        let text = "tiktoken is great!";
        assert_eq!(TokenCounter::for_model(Some("gpt-4")).count(text), 6);
        assert_eq!(TokenCounter::for_model(Some("gpt-4o")).count(text), 6);
        assert_eq!(
            TokenCounter::for_model(Some("gpt-4o")).count("<|endoftext|>"),
            7
        );

        assert_eq!(TokenCounter::for_model(None).count(""), 0);
    }

    #[test]
    fn the_estimate_rounds_up() {
        assert_eq!(
            [0, 1, 4, 5].map(|n| quarter_estimate(&"é".repeat(n))),
            [0, 1, 1, 2]
        );
    }

    /// Expected values from OpenAI's own tiktoken, for text that is longer than one piece.
    #[test]
    fn pieces_change_no_count_of_ordinary_text() {
        let latin = "It's 2026: the O'Neils' café isn't open, (see p. 12).\n\n\t- no\r\n";
        let mixed = "中文文本，没有空格。한국어 텍스트, नमस्ते दुनिया!\n";
        for model in ["gpt-4", "gpt-4o"] {
            let counter = TokenCounter::for_model(Some(model));
            for sentence in [latin, mixed] {
                let text = sentence.repeat(500);
                assert!(pieces(&text).count() > 5);
                assert_eq!(
                    counter.count(&text),
                    counter.encoder().count_ordinary(&text),
                    "{model}: {sentence}"
                );
            }
        }
    }

    /// All runs of a few characters of every kind, between and after words.
    #[test]
    fn words_change_no_count() {
        let kinds = [
            " ", "\n", "\r\n", "\t", "a", "Z", "7", "'s", "!", "/", "é", "\u{301}", "語", "。",
            "\u{a0}",
        ];
        for model in ["gpt-4o", "gpt-4", "text-davinci-003", "davinci"] {
            let counter = TokenCounter::for_model(Some(model));
            for first in kinds {
                for second in kinds {
                    for third in kinds {
                        let text = format!("The lamp{first}{second}{third} of x{third}{second} ");
                        assert_eq!(
                            counter.count(&text),
                            counter.encoder().count_ordinary(&text),
                            "{model}: {text:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn no_run_is_too_long_to_count() {
        let counter = TokenCounter::for_model(None);
        for (run, times, tokens) in [
            (" ", 1_000_000, 7_813),
            ("\n", 1_000_000, 62_500),
            ("7", 1_000_000, 333_374),
            ("語", 300_000, 300_000),
            ("a", 1_000_000, 125_000),
            ("!", 1_000_000, 62_500),
        ] {
            let text = run.repeat(times);
            assert_eq!(counter.count(&text), tokens, "{run:?}");
            assert!(counter.prefix(&text, 100) < 20_000, "{run:?}");
        }
    }
}
