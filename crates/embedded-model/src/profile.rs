//! One pass over a text: its vector without boilerplate, and how much of it is in a language that
//! the table covers. Guarantees linear time, and the same profile for the same text.

use super::clean;
use super::names;
use super::table::{self, Vector};
use super::tokens;
use super::topics;
use super::words::{self, Kind};

/// Words of a person who asks for something or describes their own case.
const ASKING: [&str; 8] = ["i", "my", "me", "mine", "please", "you", "your", "help"];

/// Beside a number, a price: whatever has one is not about money.
const CURRENCIES: [&str; 9] = [
    "euro", "euros", "eur", "dollar", "dollars", "usd", "pounds", "gbp", "cents",
];

/// The result of one pass over a text.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Mean of the content words, length 1; zeros if there are none.
    pub vector: Vector,
    /// Number of words, without punctuation.
    pub words: usize,
    /// Number of words that are whole entries of the vocabulary.
    pub known: usize,
    /// Number of braces, semicolons and other symbols of program code.
    pub symbols: usize,
    /// Whether a person asks for something or describes their own case.
    pub enquiry: bool,
    /// Matters that a word of the text is a cue for.
    pub cues: Vec<usize>,
    /// Whether the grammar words are not English.
    pub foreign: bool,
}

impl Profile {
    /// The profile of a text.
    pub fn of(text: &str) -> Self {
        let mut building = Building::default();
        for line in clean::telling_lines(text) {
            building.add_line(line);
        }

        Profile {
            foreign: names::language(text).is_some_and(|l| l != "English"),
            ..building.finish()
        }
    }

    /// Whether the vectors are reliable: there are words, and most of them are known.
    pub fn is_readable(&self) -> bool {
        !self.foreign && self.known * 2 >= self.words && self.vector.iter().any(|v| *v != 0.0)
    }

    /// The vector of the chunk if it is reliable; zeros otherwise.
    pub fn about(&self) -> &Vector {
        if self.is_readable() {
            &self.vector
        } else {
            &table::ZERO
        }
    }

    /// Whether there are so many symbols that this must be code or data.
    pub fn is_code(&self) -> bool {
        self.symbols >= 5 && self.symbols * 3 > self.words
    }
}

/// The vector of a short text such as a name: its content words, or all its words if it has only
/// grammar words.
pub fn vector_of(text: &str) -> Vector {
    let (mut sum, mut all) = (table::ZERO, table::ZERO);
    for id in tokens::ids(text) {
        if id == tokens::UNKNOWN {
            continue;
        }

        table::add_row(&mut all, id, 1.0);
        if words::kind(id) != Kind::Stop {
            table::add_row(&mut sum, id, 1.0);
        }
    }

    if table::dot(&sum, &sum) > 0.0 {
        table::unit(sum)
    } else {
        table::unit(all)
    }
}

struct Building {
    sum: Vector,
    ids: Vec<u16>,
    words: usize,
    known: usize,
    symbols: usize,
    enquiry: bool,
    after_number: bool,
    cues: Vec<usize>,
}

impl Default for Building {
    fn default() -> Self {
        Self {
            sum: table::ZERO,
            ids: Vec::new(),
            words: 0,
            known: 0,
            symbols: 0,
            enquiry: false,
            after_number: false,
            cues: Vec::new(),
        }
    }
}

impl Building {
    fn add_line(&mut self, line: &str) {
        let mut ids = std::mem::take(&mut self.ids);
        tokens::for_each_word(line, |_, word| {
            ids.clear();
            tokens::pieces(word, &mut ids);
            self.add_word(word.unwrap_or(""), &ids);
        });

        self.ids = ids;
    }

    fn add_word(&mut self, word: &str, ids: &[u16]) {
        if !word.chars().any(char::is_alphanumeric) {
            self.symbols += usize::from(word.contains(['{', '}', ';', '=', '[', ']', '_']));
            self.enquiry |= word == "?";
            return;
        }

        self.words += 1;
        self.enquiry |= ASKING.contains(&word);
        self.known += usize::from(ids.len() == 1 && ids[0] != tokens::UNKNOWN);

        let is_price = self.after_number && CURRENCIES.contains(&word);
        self.after_number = word.ends_with(|c: char| c.is_ascii_digit());
        for &id in ids {
            if id != tokens::UNKNOWN && words::kind(id) != Kind::Stop && !is_price {
                table::add_row(&mut self.sum, id, 1.0);
            }
        }

        if let [id] = ids
            && let Some(matter) = topics::inventory().cue(*id)
            && !self.cues.contains(&matter)
        {
            self.cues.push(matter);
        }
    }

    fn finish(self) -> Profile {
        Profile {
            vector: table::unit(self.sum),
            words: self.words,
            known: self.known,
            symbols: self.symbols,
            enquiry: self.enquiry,
            cues: self.cues,
            foreign: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_prose_from_code() {
        for (text, readable, code) in [
            (
                "The shuttle reached its orbit after the launch.",
                true,
                false,
            ),
            ("", false, false),
            ("12345 6789", false, false),
            ("你好世界", false, false),
            (
                "fn main() { let x = [1, 2]; if (x == y) { go(); } }",
                false,
                true,
            ),
        ] {
            let profile = Profile::of(text);
            assert_eq!(profile.is_code(), code, "{text}");
            if !code {
                assert_eq!(profile.is_readable(), readable, "{text}");
            }
        }
    }
}
