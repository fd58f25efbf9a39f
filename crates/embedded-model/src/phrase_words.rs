//! The words of a line and what a phrase may do with them: which have a meaning, before which a phrase
//! ends, and which form pairs. Two Chinese characters count as a word.

use std::borrow::Cow;

use super::name_words;
use super::tokens;
use super::words::{self, Kind};

/// A word of a line, as phrases need it.
pub struct Word<'a> {
    pub surface: Cow<'a, str>,
    pub key: String,
    pub content: bool,
    /// Whether it is grammar or a mark, before which a phrase ends.
    pub closes: bool,
    /// Whether it may form a pair with its neighbour; overlapping Chinese pairs may not.
    pub pairs: bool,
    /// Its rows of the table; none for a word that is not known.
    pub rows: Vec<u16>,
}

impl Word<'_> {
    pub fn may_be_an_adjective(&self) -> bool {
        let plain = self.content && self.surface.starts_with(char::is_lowercase);
        plain && !self.surface.ends_with('s') && !self.surface.ends_with("ly")
    }
}

/// The words and marks of a line, in their order.
pub fn words_of(line: &str) -> Vec<Word<'_>> {
    let mut out = Vec::new();
    let mut ids = Vec::new();
    let mut han: Option<char> = None;
    tokens::for_each_word(line, |bytes, form| {
        let Some(form) = form else { return };
        let surface = &line[bytes];
        let single = surface.chars().next().filter(|c| tokens::is_cjk(*c));
        if let (Some(before), Some(c)) = (han, single) {
            // Two Chinese characters make a word far more often than one.
            out.push(foreign(format!("{before}{c}")));
        }

        han = single;
        if single.is_some() {
            return;
        }

        ids.clear();
        tokens::pieces(Some(form), &mut ids);
        out.push(word(surface, form, &ids));
    });

    out
}

fn foreign(pair: String) -> Word<'static> {
    Word {
        key: pair.clone(),
        surface: Cow::Owned(pair),
        content: true,
        closes: false,
        pairs: false,
        rows: Vec::new(),
    }
}

fn word<'a>(surface: &'a str, form: &str, ids: &[u16]) -> Word<'a> {
    let letters = form.chars().filter(|c| c.is_alphabetic()).count();
    let stop = words::is_stop(form);
    let plain = ids.len() != 1 || words::kind(ids[0]) == Kind::Content || ids[0] == tokens::UNKNOWN;
    let content =
        plain && letters > 2 && letters <= 24 && !stop && !name_words::is_never_a_name(form);
    let known = ids.len() == 1 && ids[0] != tokens::UNKNOWN;
    let grammar = known && words::kind(ids[0]) == Kind::Stop;
    let is_known = |id: &&u16| **id != tokens::UNKNOWN;
    Word {
        surface: Cow::Borrowed(surface),
        key: words::singular(form),
        content,
        closes: letters == 0 || grammar || stop,
        pairs: content,
        // Only words of content are part of a phrase.
        rows: ids
            .iter()
            .filter(|id| content && is_known(id))
            .copied()
            .collect(),
    }
}
