//! A query of words in double quotes: results contain them as they stand, in any case.

/// How many of the best results are looked at for the quoted words.
pub const LOOKED_AT: usize = 500;

/// The quoted phrases of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quoted(Vec<String>);

impl Quoted {
    /// None if there are words outside the quotes: a question may name a title in quotes that the
    /// answer does not repeat.
    pub fn of(query: &str) -> Self {
        let parts: Vec<&str> = query.split(is_quote).collect();
        let outside = parts.iter().step_by(2).any(|part| has_word(part));
        // A quote without its end is an inch or a slip.
        if outside || parts.len().is_multiple_of(2) {
            return Self::default();
        }

        let inside = parts.into_iter().skip(1).step_by(2);
        Self(inside.filter(|part| has_word(part)).map(folded).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a text contains every phrase.
    pub fn are_in(&self, text: &str) -> bool {
        let text = folded(text);
        let is_whole = |at: usize, phrase: &str| {
            let (before, after) = (&text[..at], &text[at + phrase.len()..]);
            !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
        };
        let is_there = |phrase: &String| {
            let mut places = text.match_indices(phrase.as_str());
            places.any(|(at, _)| is_whole(at, phrase))
        };
        self.0.iter().all(is_there)
    }
}

fn has_word(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '«' | '»')
}

/// In lower case, with single spaces and straight apostrophes: a line break in a text may stand
/// within the phrase.
fn folded(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ").replace('’', "'")
}

#[cfg(test)]
mod tests {
    use super::Quoted;

    #[test]
    fn all_quoted_words_must_be_there_in_their_order() {
        let text = "The green suitcase\nstands in the hall.";
        for (query, there) in [
            ("\"green suitcase\"", true),
            ("\"suitcase green\"", false),
            ("\"suit\"", false),
            ("\"hall\"", true),
            ("\"Suitcase stands\"", true),
            ("Who owns the \"suitcase green\"?", true),
            ("“green suitcase” \"in the hall\"", true),
            ("\"green suitcase\" \"in the attic\"", false),
            ("a 24\" screen", true),
            ("\"\" suitcase", true),
        ] {
            assert_eq!(Quoted::of(query).are_in(text), there, "{query}");
        }

        assert!(Quoted::of("\"screen").is_empty());
        assert!(Quoted::of("plain words").is_empty());
    }
}
