//! Words of a query in double quotes: a result must contain them as they stand, in any case.

/// How many of the best results are looked at for the quoted words.
pub const LOOKED_AT: usize = 500;

/// The quoted phrases of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quoted(Vec<String>);

impl Quoted {
    /// A quote without its end is an inch or a slip, and counts as nothing.
    pub fn of(query: &str) -> Self {
        let mut phrases = Vec::new();
        let mut rest = query;
        while let Some((_, after)) = rest.split_once(is_quote) {
            let Some((inside, behind)) = after.split_once(is_quote) else {
                break;
            };
            phrases.push(folded(inside));
            rest = behind;
        }

        phrases.retain(|phrase| phrase.contains(char::is_alphanumeric));
        Self(phrases)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a text contains every phrase.
    pub fn are_in(&self, text: &str) -> bool {
        let text = folded(text);
        self.0.iter().all(|phrase| text.contains(phrase.as_str()))
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '«' | '»')
}

/// In lower case, with single spaces: a line break in a text may stand within the phrase.
fn folded(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
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
            ("\"Suitcase stands\" hall", true),
            ("“green suitcase” \"in the hall\"", true),
            ("\"green suitcase\" \"in the attic\"", false),
            ("a 24\" screen", true),
            ("\"\" suitcase", true),
        ] {
            assert_eq!(Quoted::of(query).are_in(text), there, "{query}");
        }

        assert!(Quoted::of("a 24\" screen \"").0.len() == 1);
        assert!(Quoted::of("plain words").is_empty());
    }
}
