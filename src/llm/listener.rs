//! Passes on what a model writes while it writes it, and finds the answer in structured output.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Gets the text of a reply piece by piece.
pub trait Listener: Send + Sync {
    /// A request is sent. Pieces of an earlier one are void: it failed, or its answer was invalid.
    fn begin(&self);

    /// The next piece of the text; in structured output, a piece of the JSON.
    fn piece(&self, text: &str);
}

/// A listener that also counts, for the record of a call that is cancelled.
pub struct Counting<'a> {
    inner: &'a dyn Listener,
    chars: AtomicUsize,
}

impl<'a> Counting<'a> {
    pub fn new(inner: &'a dyn Listener) -> Self {
        Self {
            inner,
            chars: AtomicUsize::new(0),
        }
    }

    /// Characters of the current reply so far.
    pub fn chars(&self) -> usize {
        self.chars.load(Ordering::Relaxed)
    }
}

impl Listener for Counting<'_> {
    fn begin(&self) {
        self.chars.store(0, Ordering::Relaxed);
        self.inner.begin();
    }

    fn piece(&self, text: &str) {
        self.chars
            .fetch_add(text.chars().count(), Ordering::Relaxed);
        self.inner.piece(text);
    }
}

/// What a reader of a text gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The next piece of the text.
    Piece(String),
    /// Everything written so far is void.
    Restarted,
}

/// Passes on one string member of a JSON object, decoded, while the object is written.
pub struct MemberListener<F> {
    member: &'static str,
    tell: F,
    reading: Mutex<(MemberReader, bool)>,
}

impl<F: Fn(Written) + Send + Sync> MemberListener<F> {
    pub fn new(member: &'static str, tell: F) -> Self {
        Self {
            member,
            tell,
            reading: Mutex::new((MemberReader::new(member), false)),
        }
    }
}

impl<F: Fn(Written) + Send + Sync> Listener for MemberListener<F> {
    fn begin(&self) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let wrote = std::mem::take(&mut reading.1);
        reading.0 = MemberReader::new(self.member);
        drop(reading);
        if wrote {
            (self.tell)(Written::Restarted);
        }
    }

    fn piece(&self, text: &str) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reading.0.read(text);
        reading.1 |= !found.is_empty();
        drop(reading);
        if !found.is_empty() {
            (self.tell)(Written::Piece(found));
        }
    }
}

/// Passes on a text as it is.
pub struct TextListener<F> {
    tell: F,
    wrote: Mutex<bool>,
}

impl<F: Fn(Written) + Send + Sync> TextListener<F> {
    pub fn new(tell: F) -> Self {
        Self {
            tell,
            wrote: Mutex::new(false),
        }
    }

    fn set_wrote(&self, wrote: bool) -> bool {
        let mut held = self.wrote.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, wrote)
    }
}

impl<F: Fn(Written) + Send + Sync> Listener for TextListener<F> {
    fn begin(&self) {
        if self.set_wrote(false) {
            (self.tell)(Written::Restarted);
        }
    }

    fn piece(&self, text: &str) {
        if !text.is_empty() {
            self.set_wrote(true);
            (self.tell)(Written::Piece(text.to_owned()));
        }
    }
}

/// Reads JSON piece by piece and returns what it holds of one string member: the first one with
/// this name, at any depth, because some models wrap their answer in another object.
struct MemberReader {
    member: &'static str,
    at: ReaderState,
    /// The current string outside the member, or the escape inside it.
    token: String,
    /// The first half of a character that JSON writes as two escapes.
    high: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    /// Outside strings.
    Between,
    /// In another string.
    Other { escaped: bool },
    /// After a string with the name of the member.
    Named,
    /// After its colon.
    Value,
    /// In its value.
    Inside,
    /// In an escape of its value.
    Escape,
    /// After its end.
    Done,
}

impl MemberReader {
    fn new(member: &'static str) -> Self {
        Self {
            member,
            at: ReaderState::Between,
            token: String::new(),
            high: None,
        }
    }

    fn read(&mut self, text: &str) -> String {
        let mut found = String::new();
        for symbol in text.chars() {
            self.at = self.next(symbol, &mut found);
        }

        found
    }

    fn next(&mut self, symbol: char, found: &mut String) -> ReaderState {
        match (self.at, symbol) {
            (ReaderState::Between, '"') => {
                self.token.clear();
                ReaderState::Other { escaped: false }
            }
            (ReaderState::Other { escaped: false }, '"') if self.token == self.member => {
                ReaderState::Named
            }
            (ReaderState::Other { escaped: false }, '"') => ReaderState::Between,
            (ReaderState::Other { escaped }, _) => {
                self.token.push(symbol);
                ReaderState::Other {
                    escaped: symbol == '\\' && !escaped,
                }
            }
            (ReaderState::Named, ':') => ReaderState::Value,
            (ReaderState::Named | ReaderState::Value, space) if space.is_whitespace() => self.at,
            (ReaderState::Value, '"') => ReaderState::Inside,
            // The name was a value, or its value is not a string.
            (ReaderState::Named | ReaderState::Value | ReaderState::Between, _) => {
                ReaderState::Between
            }
            (ReaderState::Inside, '"') | (ReaderState::Done, _) => ReaderState::Done,
            (ReaderState::Inside, '\\') => {
                self.token.clear();
                ReaderState::Escape
            }
            (ReaderState::Inside, _) => {
                found.push(symbol);
                ReaderState::Inside
            }
            (ReaderState::Escape, _) => self.escape(symbol, found),
        }
    }

    /// The next symbol of an escape: `\n`, `\u00e9`.
    fn escape(&mut self, symbol: char, found: &mut String) -> ReaderState {
        self.token.push(symbol);
        let plain = match self.token.as_str() {
            "n" => '\n',
            "t" => '\t',
            "r" => '\r',
            "b" => '\u{8}',
            "f" => '\u{c}',
            token if token.starts_with('u') && token.len() < 5 => return ReaderState::Escape,
            token if token.starts_with('u') => {
                let unit = u32::from_str_radix(&token[1..], 16).unwrap_or(0xfffd);
                return self.unit(unit, found);
            }
            _ => symbol,
        };

        found.push(plain);
        ReaderState::Inside
    }

    fn unit(&mut self, unit: u32, found: &mut String) -> ReaderState {
        match (self.high.take(), unit) {
            (_, 0xd800..=0xdbff) => self.high = Some(unit),
            (Some(high), 0xdc00..=0xdfff) => {
                let whole = 0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00);
                found.push(char::from_u32(whole).unwrap_or('\u{fffd}'));
            }
            (_, unit) => found.push(char::from_u32(unit).unwrap_or('\u{fffd}')),
        }

        ReaderState::Inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a text that arrives in pieces of this length.
    fn read(text: &str, length: usize) -> String {
        let mut reader = MemberReader::new("answer");
        let symbols: Vec<char> = text.chars().collect();
        symbols
            .chunks(length)
            .map(|piece| reader.read(&piece.iter().collect::<String>()))
            .collect()
    }

    #[test]
    fn reads_the_answer_however_it_is_cut() {
        let odd = "Line 1\nsaid \"so\" \\ tab\t, é, 世, 𝄞, {\"answer\": \"no\"} /";
        let plain = serde_json::json!({"note": "the \"answer\": ", "answer": odd}).to_string();
        let spelt = r#"```json
{ "answer" :
 "caf\u00e9 \ud834\udd1e \/ [12]" , "more": "x" }```"#;
        let wrapped = r#"{"answer": {"answer": "inner"}, "other": "answer"}"#;
        for length in 1..20 {
            assert_eq!(read(&plain, length), odd, "{length}");
            assert_eq!(read(spelt, length), "café 𝄞 / [12]", "{length}");
            assert_eq!(read(wrapped, length), "inner", "{length}");
        }
    }

    #[test]
    fn reads_nothing_where_there_is_no_answer() {
        for text in [
            "",
            "plain text",
            r#"{"text": "answer"}"#,
            r#"{"answer": 7}"#,
        ] {
            assert_eq!(read(text, 3), "", "{text}");
        }
    }

    #[test]
    fn tells_that_a_text_begins_again() {
        let pieces = Mutex::new(Vec::new());
        let listener =
            MemberListener::new("answer", |written| pieces.lock().unwrap().push(written));
        listener.begin();
        listener.piece(r#"{"answer": "on"#);
        listener.begin();
        listener.piece(r#"{"answer": "two"}"#);
        listener.begin();
        let pieces = pieces.lock().unwrap();
        let piece = |text: &str| Written::Piece(text.to_owned());
        assert_eq!(
            *pieces,
            [
                piece("on"),
                Written::Restarted,
                piece("two"),
                Written::Restarted
            ]
        );
    }
}
