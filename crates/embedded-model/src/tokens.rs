//! `WordPiece` tokens: text to row numbers of the vector table. Guarantees the BERT uncased rules
//! (clean, lower-case, strip accents, split at white space, punctuation and CJK, greedy longest
//! match), time linear in the text, and a vocabulary index of a few hundred kilobytes.

use std::ops::Range;
use std::sync::OnceLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

static VOCABULARY: &str = include_str!("../word-vectors/vocab.txt");
/// Longer words, in characters, are unknown by definition.
const LONGEST_WORD: usize = 100;
/// Length of the longest entry of the vocabulary in bytes, without `##`; longer pieces cannot
/// match.
const LONGEST_PIECE: usize = 24;
const SLOTS: usize = 1 << 16;
const EMPTY: u16 = u16::MAX;
/// Row of `[UNK]`, which counts as a token but is never part of a mean.
pub const UNKNOWN: u16 = 1;

/// Vocabulary as offsets into the static text and an open-addressed hash table.
struct Index {
    starts: Vec<u32>,
    slots: Vec<Slot>,
}

/// One entry of the hash table. Most words that do not match differ in the hash already, so the
/// text is seldom read in vain.
#[derive(Clone, Copy)]
struct Slot {
    row: u16,
    upper_hash: u16,
}

impl Index {
    fn build() -> Self {
        let mut starts = Vec::with_capacity(30_000);
        let mut slots = vec![
            Slot {
                row: EMPTY,
                upper_hash: 0
            };
            SLOTS
        ];
        let mut at = 0u32;

        for (row, line) in VOCABULARY.split_inclusive('\n').enumerate() {
            starts.push(at);
            at += u32::try_from(line.len()).unwrap_or(0);
            let Ok(row) = u16::try_from(row) else { break };
            let entry = line.trim_end();
            let (inner, piece) = match entry.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => (true, rest),
                _ => (false, entry),
            };

            let hash = hash(inner, piece.as_bytes());
            let mut slot = hash.slot();
            while slots[slot].row != EMPTY {
                slot = (slot + 1) % SLOTS;
            }

            slots[slot] = Slot {
                row,
                upper_hash: hash.upper(),
            };
        }

        starts.push(at);
        Self { starts, slots }
    }

    fn entry(&self, row: u16) -> &'static str {
        let row = usize::from(row);
        match (self.starts.get(row), self.starts.get(row + 1)) {
            (Some(&from), Some(&to)) => VOCABULARY[from as usize..to as usize].trim_end(),
            _ => "",
        }
    }

    fn find(&self, inner: bool, piece: &str, hash: Hash) -> Option<u16> {
        let mut at = hash.slot();
        loop {
            let slot = self.slots[at];
            if slot.row == EMPTY {
                return None;
            }

            if slot.upper_hash == hash.upper() && self.is(slot.row, inner, piece) {
                return Some(slot.row);
            }

            at = (at + 1) % SLOTS;
        }
    }

    fn is(&self, row: u16, inner: bool, piece: &str) -> bool {
        let entry = self.entry(row);
        if inner {
            entry.strip_prefix("##") == Some(piece)
        } else {
            entry == piece
        }
    }
}

/// The hash of the beginning of a word; it grows byte by byte, so all beginnings cost one pass.
#[derive(Clone, Copy)]
struct Hash(u32);

impl Hash {
    fn new(inner: bool) -> Self {
        Self(if inner { 0x9dc5_811c } else { 0x811c_9dc5 })
    }

    fn with(self, byte: u8) -> Self {
        Self((self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    fn slot(self) -> usize {
        ((self.0 ^ (self.0 >> 15)) as usize) % SLOTS
    }

    fn upper(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

fn hash(inner: bool, bytes: &[u8]) -> Hash {
    bytes
        .iter()
        .fold(Hash::new(inner), |hash, byte| hash.with(*byte))
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(Index::build)
}

/// The row of a whole word or mark, if it is in the vocabulary.
pub fn whole_word(word: &str) -> Option<u16> {
    index().find(false, word, hash(false, word.as_bytes()))
}

/// The vocabulary's entry for a row; empty for rows it does not have.
pub fn entry(row: u16) -> &'static str {
    index().entry(row)
}

/// Calls `each` with every basic word or mark of `text`: its bytes in `text` and its normalised
/// form, which is `None` if it is too long to be known.
pub fn for_each_word(text: &str, mut each: impl FnMut(Range<usize>, Option<&str>)) {
    let mut word = Word::default();
    for (at, c) in text.char_indices() {
        if c.is_ascii_alphanumeric() {
            word.push(at, 1, c.to_ascii_lowercase());
            continue;
        }

        let bytes = at..at + c.len_utf8();
        match class(c) {
            Class::Space => word.flush(&mut each),
            Class::Nothing => {}
            Class::Mark => {
                word.flush(&mut each);
                let mut mark = [0u8; 4];
                each(bytes, Some(c.encode_utf8(&mut mark)));
            }
            Class::Letter => word.push_folded(at, c),
        }
    }

    word.flush(&mut each);
}

#[derive(Default)]
struct Word {
    form: String,
    letters: usize,
    bytes: Range<usize>,
}

impl Word {
    fn push(&mut self, at: usize, width: usize, c: char) {
        if self.letters == 0 {
            self.bytes.start = at;
        }

        self.bytes.end = at + width;
        self.letters += 1;
        if self.letters <= LONGEST_WORD {
            self.form.push(c);
        }
    }

    fn push_folded(&mut self, at: usize, c: char) {
        for lower in c.to_lowercase() {
            for part in std::iter::once(lower)
                .nfd()
                .filter(|p| !is_combining_mark(*p))
            {
                self.push(at, c.len_utf8(), part);
            }
        }
    }

    fn flush(&mut self, each: &mut impl FnMut(Range<usize>, Option<&str>)) {
        if self.letters > 0 {
            let known = self.letters <= LONGEST_WORD;
            each(self.bytes.clone(), known.then_some(self.form.as_str()));
        }

        self.form.clear();
        self.letters = 0;
    }
}

enum Class {
    Space,
    Nothing,
    Mark,
    Letter,
}

fn class(c: char) -> Class {
    if c.is_whitespace() {
        Class::Space
    } else if c.is_control() || c == '\u{fffd}' || is_format(c) || is_combining_mark(c) {
        Class::Nothing
    } else if is_cjk(c) || is_punctuation(c) {
        Class::Mark
    } else {
        Class::Letter
    }
}

/// Invisible format characters, which BERT drops together with control characters.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}'
        | '\u{e0001}' | '\u{e0020}'..='\u{e007f}' | '\u{e000}'..='\u{f8ff}')
}

/// Chinese characters, each of which is a word; kana and hangul are not.
pub fn is_cjk(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
            | '\u{37e}' | '\u{387}' | '\u{55a}'..='\u{55f}' | '\u{589}' | '\u{58a}' | '\u{5be}'
            | '\u{5c0}' | '\u{5c3}' | '\u{5f3}' | '\u{5f4}' | '\u{60c}' | '\u{61b}' | '\u{61f}'
            | '\u{66a}'..='\u{66d}' | '\u{6d4}' | '\u{964}' | '\u{965}' | '\u{e4f}'
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{2043}' | '\u{2045}'..='\u{2051}'
            | '\u{2053}'..='\u{205e}' | '\u{207d}' | '\u{207e}' | '\u{2329}' | '\u{232a}'
            | '\u{2e00}'..='\u{2e5d}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}'
            | '\u{3014}'..='\u{301f}' | '\u{3030}' | '\u{30a0}' | '\u{30fb}'
            | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe52}' | '\u{fe54}'..='\u{fe61}'
            | '\u{ff01}'..='\u{ff03}' | '\u{ff05}'..='\u{ff0a}' | '\u{ff0c}'..='\u{ff0f}'
            | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}' | '\u{ff20}' | '\u{ff3b}'..='\u{ff3d}'
            | '\u{ff3f}' | '\u{ff5b}' | '\u{ff5d}' | '\u{ff5f}'..='\u{ff65}')
}

/// Appends the pieces of one normalised word; a word that cannot be divided is unknown.
pub fn pieces(word: Option<&str>, into: &mut Vec<u16>) {
    let Some(word) = word else {
        into.push(UNKNOWN);
        return;
    };

    let (index, kept) = (index(), into.len());
    let mut from = 0;
    while from < word.len() {
        let Some((row, to)) = longest(index, word, from) else {
            into.truncate(kept);
            into.push(UNKNOWN);
            return;
        };

        into.push(row);
        from = to;
    }
}

fn longest(index: &Index, word: &str, from: usize) -> Option<(u16, usize)> {
    let inner = from > 0;
    let rest = &word.as_bytes()[from..word.len().min(from + LONGEST_PIECE)];
    let mut hashes = [Hash(0); LONGEST_PIECE];
    let mut hash = Hash::new(inner);
    for (at, byte) in rest.iter().enumerate() {
        hash = hash.with(*byte);
        hashes[at] = hash;
    }

    for length in (1..=rest.len()).rev() {
        let to = from + length;
        if word.is_char_boundary(to)
            && let Some(row) = index.find(inner, &word[from..to], hashes[length - 1])
        {
            return Some((row, to));
        }
    }

    None
}

/// All tokens of a text, unknown ones included.
pub fn ids(text: &str) -> Vec<u16> {
    let mut ids = Vec::with_capacity(text.len() / 4 + 1);
    for_each_word(text, |_, word| pieces(word, &mut ids));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_known_words() {
        for (text, count) in [
            ("", 0),
            ("   \n\t", 0),
            ("car engine noise", 3),
            ("Café naïveté, $3.50!", 9),
            ("你好世界", 4),
            ("\u{0}\u{200b}", 0),
        ] {
            assert_eq!(ids(text).len(), count, "{text:?}");
        }
    }

    #[test]
    fn an_overlong_word_is_one_unknown_token() {
        assert_eq!(ids(&"x".repeat(1_000_000)), vec![UNKNOWN]);
    }

    #[test]
    fn words_keep_their_position_in_the_text() {
        let text = "Ünder the Bridge!";
        let mut seen = Vec::new();
        for_each_word(text, |bytes, word| {
            seen.push((text[bytes].to_string(), word.unwrap_or("").to_string()));
        });
        let forms: Vec<_> = seen.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let wanted = [
            ("Ünder", "under"),
            ("the", "the"),
            ("Bridge", "bridge"),
            ("!", "!"),
        ];

        assert_eq!(forms, wanted);
    }

    #[test]
    fn the_longest_entry_fits() {
        let longest = VOCABULARY
            .lines()
            .map(|l| l.trim_start_matches('#').len())
            .max();
        assert!(longest <= Some(LONGEST_PIECE));
    }
}
