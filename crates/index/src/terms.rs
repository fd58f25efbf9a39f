//! Turns text into the terms that a keyword search compares. The terms are the same for chunk and
//! query on every machine and engine: compatibility forms and accents folded, lower case, split at
//! everything that is neither letter nor digit, Chinese and Japanese as overlapping pairs, English
//! endings removed (`stem`). Changing any rule here requires a new `TERMS_VERSION`, after which
//! every space is rewritten (`reindex`).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use memoir_text::stop_words;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::stem::stem;

/// Version of these rules, stored with the terms of each space.
pub const TERMS_VERSION: i64 = 1;

/// Longer terms are cut, because no user types them and engines have limits.
const LONGEST: usize = 40;
/// Maximum counted occurrences of a term; more make no difference.
const MAX_COUNT: usize = 200;
/// Words of a source that are cached during its analysis.
const MAX_KEPT: usize = 50_000;
/// Maximum distinct terms of a query: one with more is a text, not a query.
const MAX_ASKED: usize = 256;
/// Maximum length of a stored token; `InnoDB` indexes no token above 84 characters.
const LONGEST_TOKEN: usize = 80;

/// Minimum length of a stored token; `InnoDB` indexes no shorter one.
const SHORTEST_TOKEN: usize = 3;
/// The words of at least three letters that `InnoDB` does not index by default.
const NOT_INDEXED: [&str; 18] = [
    "about", "are", "com", "for", "from", "how", "that", "the", "this", "und", "was", "what",
    "when", "where", "who", "will", "with", "www",
];

/// The groups of words that say nothing about a subject, in any of the languages.
const STOP_WORDS: [&str; 8] = [
    "english_common",
    "english",
    "german",
    "french",
    "spanish",
    "italian",
    "portuguese",
    "dutch",
];

/// One term of a query and its number of occurrences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryTerm {
    pub term: String,
    pub count: u32,
}

/// The stored terms of a chunk, and its length for the ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkTerms {
    /// Each term once, as its index token (`token`): those that occur once, a semicolon, those that
    /// occur twice, a semicolon, and so on, with a space between two of a group. An engine's
    /// full-text index reads this as a list of words.
    pub tokens: String,
    /// Terms without stop words. Counting grammar as length would make chatty short texts look
    /// long.
    pub length: u32,
}

/// Analyses the chunks of a source for storage. Each distinct word is analysed once.
#[derive(Debug, Default)]
pub struct Analyzer {
    /// The number of a word's term, and whether it is a stop word.
    words: HashMap<String, (usize, bool)>,
    /// The number of a term.
    numbers: HashMap<String, usize>,
    /// By number: the term's token, and its occurrences in the current chunk.
    tokens: Vec<String>,
    counts: Vec<usize>,
}

impl Analyzer {
    /// Stop words are stored too, so that a query of nothing else ("to be or not to be") still
    /// finds something.
    pub fn chunk(&mut self, text: &str) -> ChunkTerms {
        self.chunk_under(text, "")
    }

    /// The terms of a chunk and of the headings above it: each word of these counts once, unless the
    /// chunk has it too, and none makes the chunk longer.
    pub fn chunk_under(&mut self, text: &str, headings: &str) -> ChunkTerms {
        if self.words.len() > MAX_KEPT {
            *self = Self::default();
        }

        let mut length = 0_u32;
        // In order of first appearance.
        let mut held: Vec<usize> = Vec::new();
        for_each_word(text, |word| {
            let (number, stop) = self.known(word);
            length = length.saturating_add(u32::from(!stop));
            if self.counts[number] == 0 {
                held.push(number);
            }

            self.counts[number] += 1;
        });

        for_each_word(headings, |word| {
            let (number, stop) = self.known(word);
            if self.counts[number] == 0 && !stop {
                held.push(number);
                self.counts[number] = 1;
            }
        });

        // Sorted by occurrences; ties keep their order.
        held.sort_by_key(|number| self.counts[*number].min(MAX_COUNT));
        let mut tokens = String::with_capacity(text.len());
        let mut group = 1;
        let mut first = true;

        for number in held {
            let count = std::mem::take(&mut self.counts[number]).min(MAX_COUNT);
            while group < count {
                tokens.push(';');
                group += 1;
                first = true;
            }

            if !first {
                tokens.push(' ');
            }

            first = false;
            tokens.push_str(&self.tokens[number]);
        }

        ChunkTerms { tokens, length }
    }

    fn known(&mut self, word: &str) -> (usize, bool) {
        if let Some(known) = self.words.get(word) {
            return *known;
        }

        let mut term = word.to_owned();
        stem(&mut term);
        let next = self.tokens.len();
        let number = *self.numbers.entry(term).or_insert_with_key(|term| {
            self.tokens.push(token(term));
            self.counts.push(0);
            next
        });

        let known = (number, is_stop(word));
        self.words.insert(word.to_owned(), known);
        known
    }
}

/// Analyses one chunk for storage.
pub fn of_chunk(text: &str) -> ChunkTerms {
    Analyzer::default().chunk(text)
}

/// Analyses the words about a source: all that are said, and of those derived from its text only
/// the ones whose tokens the text does not have itself.
pub fn of_source(said: &str, derived: &str, text_tokens: &str) -> ChunkTerms {
    let mut own = HashSet::new();
    for_each_token(text_tokens, |token, _| {
        own.insert(token);
    });

    let mut analyzer = Analyzer::default();
    let mut words = said.to_owned();
    for_each_word(derived, |word| {
        let (number, _) = analyzer.known(word);
        if !own.contains(analyzer.tokens[number].as_str()) {
            words.push(' ');
            words.push_str(word);
        }
    });

    analyzer.chunk(&words)
}

/// Calls `each` with every stored token and the occurrences of its term.
pub fn for_each_token<'t>(tokens: &'t str, mut each: impl FnMut(&'t str, u32)) {
    for (count, group) in (1..).zip(tokens.split(';')) {
        for token in group.split(' ').filter(|token| !token.is_empty()) {
            each(token, count);
        }
    }
}

/// Analyses a query: its first distinct terms in order of appearance without stop words, or with
/// them if there is nothing else.
pub fn of_query(text: &str) -> Vec<QueryTerm> {
    let (mut content, mut all) = (Asked::default(), Asked::default());
    for_each(text, |term, stop| {
        all.count(term);
        if !stop {
            content.count(term);
        }
    });

    if content.terms.is_empty() {
        all.terms
    } else {
        content.terms
    }
}

/// Terms of a query while they are counted.
#[derive(Default)]
struct Asked {
    terms: Vec<QueryTerm>,
    places: HashMap<String, usize>,
}

impl Asked {
    fn count(&mut self, term: &str) {
        if let Some(place) = self.places.get(term) {
            self.terms[*place].count += 1;
        } else if self.terms.len() < MAX_ASKED {
            self.places.insert(term.to_owned(), self.terms.len());
            self.terms.push(QueryTerm {
                term: term.to_owned(),
                count: 1,
            });
        }
    }
}

/// The form of a term in the engine's index: only letters a-z and digits, at least three
/// characters, never a stop word of an engine, so that SQLite, PostgreSQL and MariaDB all keep it
/// whole whatever their locale, collation, minimum length and word lists. Most terms are such
/// words already and stay as they are; the others begin with `q`, which no unchanged term does.
pub fn token(term: &str) -> String {
    let mut out = String::with_capacity(term.len() + 2);
    push_token(term, &mut out);
    out
}

fn push_token(term: &str, out: &mut String) {
    if is_plain(term) {
        out.push_str(term);
        return;
    }

    if term.is_ascii() {
        out.push_str("qa");
        out.push_str(term);
        return;
    }

    out.push_str("qu");
    for byte in term.bytes().take((LONGEST_TOKEN - 2) / 2) {
        for half in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
    }
}

/// Whether every engine indexes the term as it is. PostgreSQL reads `4e12ab` as a number and a word.
fn is_plain(term: &str) -> bool {
    term.is_ascii()
        && term.len() >= SHORTEST_TOKEN
        && term.starts_with(|first: char| first.is_ascii_alphabetic())
        && !term.starts_with('q')
        && !NOT_INDEXED.contains(&term)
}

/// Calls `each` with every term of `text` in order and whether it is a stop word.
pub(crate) fn for_each(text: &str, mut each: impl FnMut(&str, bool)) {
    let mut term = String::new();
    for_each_word(text, |word| {
        term.clear();
        term.push_str(word);
        stem(&mut term);
        each(&term, is_stop(word));
    });
}

/// Calls `each` with every word of `text` in order, folded, with its ending.
fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut words = Words {
        word: String::new(),
        letters: 0,
        pair: None,
    };

    if text.is_ascii() {
        text.chars().for_each(|c| words.take(c, &mut each));
    } else {
        // Only accents of European scripts are removed: marks elsewhere are letters.
        let folded = text
            .nfkd()
            .filter(|c| !('\u{300}'..='\u{36f}').contains(c))
            .nfc();
        folded.for_each(|c| words.take(c, &mut each));
    }

    words.end(&mut each);
}

struct Words {
    word: String,
    letters: usize,
    /// Last character of a run without spaces between words, and whether it is already part of a
    /// pair.
    pair: Option<(char, bool)>,
}

impl Words {
    fn take(&mut self, c: char, each: &mut impl FnMut(&str)) {
        if is_unspaced(c) {
            self.end_word(each);
            if let Some((last, _)) = self.pair {
                each(String::from_iter([last, c]).as_str());
            }

            self.pair = Some((c, self.pair.is_some()));
        } else if c.is_alphanumeric() || is_combining_mark(c) {
            self.end_pair(each);
            self.letters += 1;
            match self.letters {
                n if n > LONGEST => {}
                _ if c.is_ascii() => self.word.push(c.to_ascii_lowercase()),
                _ => self.word.extend(c.to_lowercase()),
            }
        } else {
            self.end(each);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(&str)) {
        self.end_word(each);
        self.end_pair(each);
    }

    fn end_word(&mut self, each: &mut impl FnMut(&str)) {
        if self.letters > 0 {
            each(&self.word);
            self.word.clear();
            self.letters = 0;
        }
    }

    /// A single character is a term by itself.
    fn end_pair(&mut self, each: &mut impl FnMut(&str)) {
        if let Some((c, false)) = self.pair.take() {
            each(c.encode_utf8(&mut [0; 4]));
        }
    }
}

/// Scripts without spaces between words, where pairs serve as words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
        && c.is_alphanumeric()
}

fn is_stop(word: &str) -> bool {
    static LIST: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let mut list = HashSet::new();
        for word in STOP_WORDS.into_iter().flat_map(stop_words::group) {
            for_each_word(word, |word| _ = list.insert(word.to_owned()));
        }

        list
    });

    LIST.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_each(text, |term, _| out.push(term.to_string()));
        out
    }

    #[test]
    fn headings_count_once_and_make_nothing_longer() {
        let plain = of_chunk("the whale swims");
        let under = Analyzer::default().chunk_under("the whale swims", "The Whale › Chapter 7");
        assert_eq!(under.length, plain.length);
        let mut words = Vec::new();
        for_each_token(&under.tokens, |word, count| words.push((word, count)));
        assert!(words.contains(&(token("whale").as_str(), 1)), "{words:?}");
        assert!(words.contains(&(token("chapter").as_str(), 1)), "{words:?}");
    }

    #[test]
    fn words_of_the_text_count_there_unless_somebody_said_them() {
        let text = of_chunk("The boiler was serviced");
        let words = of_source("boiler.md", "A note about services, heating", &text.tokens);
        let mut held = Vec::new();
        for_each_token(&words.tokens, |word, count| held.push((word, count)));
        assert!(held.contains(&(token("boiler").as_str(), 1)), "{held:?}");
        assert!(held.contains(&(token("heat").as_str(), 1)), "{held:?}");
        assert!(!held.contains(&(token("servic").as_str(), 1)), "{held:?}");
    }

    #[test]
    fn turns_text_into_terms() {
        for (text, wanted) in [
            ("", vec![]),
            ("  \n—!?", vec![]),
            ("Heated heats, HEATING", vec!["heat", "heat", "heat"]),
            ("Café ÉTUDES", vec!["cafe", "etud"]),
            ("cafe\u{301}", vec!["cafe"]),
            ("ﬁle № １２", vec!["file", "no", "12"]),
            ("file_ingest v2.0", vec!["file", "ingest", "v2", "0"]),
            ("whale's", vec!["whale", "s"]),
            ("東京都 x", vec!["東京", "京都", "x"]),
            ("我 A", vec!["我", "a"]),
            ("カタカナ", vec!["カタ", "タカ", "カナ"]),
            ("한국어", vec!["한국어"]),
            ("हिन्दी", vec!["हिन्दी"]),
            ("ДОМА", vec!["дома"]),
        ] {
            assert_eq!(terms(text), wanted, "{text}");
        }
    }

    #[test]
    fn queries_lose_their_stop_words_unless_nothing_is_left() {
        let term = |term: &str, count| QueryTerm {
            term: term.to_string(),
            count,
        };

        assert_eq!(
            of_query("What is the wing of a wing?"),
            vec![term("wing", 2)]
        );

        assert_eq!(of_query("to be or not to be").len(), 4);
        assert_eq!(of_query("How did he die?"), vec![term("die", 1)]);
        assert!(of_query("?!").is_empty());
    }

    #[test]
    fn chunks_keep_stop_words_but_do_not_count_them() {
        let chunk = of_chunk("The wings of a dove, the wing of the raven");
        assert_eq!(chunk.tokens, "qaa dove raven;wing qaof;qathe");
        assert_eq!(chunk.length, 4);
        let mut read = Vec::new();
        for_each_token(&chunk.tokens, |token, count| read.push((token, count)));
        assert_eq!(
            read,
            [
                ("qaa", 1),
                ("dove", 1),
                ("raven", 1),
                ("wing", 2),
                ("qaof", 2),
                ("qathe", 3)
            ]
        );

        for_each_token(&of_chunk("wing wing wing").tokens, |token, count| {
            assert_eq!((token, count), ("wing", 3));
        });
        for_each_token("", |_, _| panic!("there is none"));
    }

    #[test]
    fn tokens_are_plain_and_unique_per_term() {
        assert_eq!(token("a"), "qaa");
        assert_eq!(token("é"), "quc3a9");
        assert_eq!(token("wing"), "wing");
        assert_eq!(token("quay"), "qaquay");
        assert_eq!(token("the"), "qathe");
        assert_eq!(token("4e12ab"), "qa4e12ab");
        for term in ["x", "wing", "東京", "дома"] {
            let token = token(term);
            assert!(
                token.len() >= 3
                    && token
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            );
        }

        assert!(token(&"東".repeat(100)).len() <= LONGEST_TOKEN);
    }

    #[test]
    fn overlong_words_are_cut() {
        assert_eq!(terms(&"9".repeat(1_000_000)), vec!["9".repeat(LONGEST)]);
    }
}
