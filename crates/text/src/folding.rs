//! Text as a reader sees it, for checks that a disguise must not evade: compatibility forms, invisible
//! characters, look-alike letters, HTML entities, case and white space make no difference. Every
//! folded character knows its place in the text.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Maximum characters of an entity between `&` and `;`.
const MAX_ENTITY_CHARS: usize = 8;

/// A folded text: lower case; one space, one line break or one empty line for each run of white
/// space.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    pub text: String,
    /// For each byte of `text`, the part of the original text that it stands for.
    origins: Vec<(u32, u32)>,
}

impl Folded {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut folded = Self {
            text: String::with_capacity(text.len()),
            origins: Vec::with_capacity(text.len()),
        };
        let mut space: Option<Space> = None;
        for (c, origin) in characters(text) {
            let breaks = usize::from(is_line_break(c));
            if breaks > 0 || is_space(c) {
                let run = space.get_or_insert(Space {
                    breaks: 0,
                    origin: origin.clone(),
                });
                run.breaks += breaks;
                run.origin.end = origin.end;
                continue;
            }

            if let Some(run) = space.take()
                && !folded.text.is_empty()
            {
                let shown = [" ", "\n", "\n\n"][run.breaks.min(2)];
                shown.chars().for_each(|c| folded.push(c, &run.origin));
            }
            folded.push(c, &origin);
        }
        folded
    }

    fn push(&mut self, c: char, origin: &Range<usize>) {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let place = (place(origin.start), place(origin.end));
        self.text.push(c);
        self.origins
            .extend(std::iter::repeat_n(place, c.len_utf8()));
    }

    /// The part of the original text that a part of the folded text stands for.
    #[must_use]
    pub fn origin(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.origins.get(part.start).map_or(0, |one| one.0);
        let last = part
            .end
            .checked_sub(1)
            .and_then(|last| self.origins.get(last));
        let end = last.map_or(start, |one| one.1).max(start);
        start as usize..end as usize
    }
}

/// A run of white space.
struct Space {
    breaks: usize,
    origin: Range<usize>,
}

/// The characters of a text as a reader sees them, each with its place. Invisible ones are missing;
/// white space is as it was.
pub fn characters(text: &str) -> impl Iterator<Item = (char, Range<usize>)> {
    let mut at = 0;
    let read = std::iter::from_fn(move || {
        let (c, length) = next(&text[at..])?;
        let origin = at..at + length;
        at = origin.end;
        Some((c, origin))
    });
    read.flat_map(|(c, origin)| folded(c).map(move |c| (c, origin.clone())))
}

/// The first character of a text, or of the entity that it begins with, and its length. The two
/// characters of a Windows line break count as one.
fn next(text: &str) -> Option<(char, usize)> {
    let c = text.chars().next()?;
    if c == '&'
        && let Some(found) = entity(text)
    {
        return Some(found);
    }
    if text.starts_with("\r\n") {
        return Some(('\n', 2));
    }
    Some((c, c.len_utf8()))
}

/// What an entity at the beginning of a text stands for, and its length.
fn entity(text: &str) -> Option<(char, usize)> {
    let name = text.get(1..)?;
    let end = name
        .char_indices()
        .take(MAX_ENTITY_CHARS + 1)
        .find(|(_, c)| *c == ';')?
        .0;
    let name = &name[..end];
    let c = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
        None => named(name)?,
    };
    Some((c, end + 2))
}

/// The entities that a mark could be written with.
fn named(name: &str) -> Option<char> {
    Some(match name {
        "nbsp" | "ensp" | "emsp" | "thinsp" | "Tab" => ' ',
        "NewLine" => '\n',
        "shy" | "zwnj" | "zwj" | "lrm" | "rlm" => '\u{200b}',
        "lsqb" | "lbrack" => '[',
        "rsqb" | "rbrack" => ']',
        "num" => '#',
        "lt" | "LT" => '<',
        "gt" | "GT" => '>',
        "verbar" | "vert" | "VerticalLine" => '|',
        "sol" => '/',
        "lowbar" => '_',
        "colon" => ':',
        "quot" | "QUOT" => '"',
        "grave" => '`',
        "amp" | "AMP" => '&',
        _ => return None,
    })
}

/// Whether a character ends a line somewhere.
#[must_use]
pub fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// White space, and letters that look like it.
fn is_space(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
        )
}

/// Whether a reader sees nothing of a character: format characters, variation selectors, controls.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        || (c.is_control() && !c.is_whitespace())
}

/// A character as a reader sees it: none, one or several.
fn folded(c: char) -> impl Iterator<Item = char> {
    let ascii = c.is_ascii().then(|| c.to_ascii_lowercase());
    let other = (!c.is_ascii()).then(|| tagged(c));
    let other = other.filter(|c| !is_invisible(*c)).into_iter();
    let other = other
        .flat_map(|c| std::iter::once(c).nfkd())
        .filter(|c| !is_combining_mark(*c))
        .flat_map(char::to_lowercase)
        .map(look_alike);
    let visible = |c: &char| !c.is_ascii_control() || c.is_ascii_whitespace() || *c == '\u{b}';
    ascii.into_iter().filter(visible).chain(other)
}

/// Tag characters are invisible copies of ASCII, which some models read.
fn tagged(c: char) -> char {
    let hidden = u32::from(c).checked_sub(0xe_0000);
    let plain = hidden.filter(|code| (0x20..0x7f).contains(code));
    plain.and_then(char::from_u32).unwrap_or(c)
}

/// The Latin letter or the sign that a lower-case letter or sign looks like.
fn look_alike(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'в' | 'β' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ε' => 'e',
        'һ' | 'н' | 'η' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'м' | 'μ' => 'm',
        'ո' | 'ν' => 'n',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' => 'u',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'ζ' => 'z',
        '’' | '‘' | 'ʼ' | '′' => '\'',
        '【' | '〔' | '〖' | '〚' | '⟦' | '❲' | '⁅' | '⟨' => '[',
        '】' | '〕' | '〗' | '〛' | '⟧' | '❳' | '⁆' | '⟩' => ']',
        '⁄' | '∕' | '⧸' => '/',
        '‐' | '‑' | '‒' | '–' | '—' | '−' => '-',
        '▁' => '_',
        '❘' | '∣' | '│' => '|',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disguise_makes_no_difference() {
        for text in [
            "[Hard Rules]",
            "[HARD\u{a0}  RULES]",
            "［Ｈａｒｄ　Ｒｕｌｅｓ］",
            "[H\u{200b}ard\u{2060} Ru\u{ad}les]",
            "[𝐇𝐚𝐫𝐝 𝓡𝓾𝓵𝓮𝓼]",
            "[Hárd Rülês]",
            "[Наrd Rulеѕ]",
            "&#91;Hard&nbsp;Rules&#x5D;",
            "&lsqb;Hard&#32;Rules&rsqb;",
            "【Hard\t Rules】",
        ] {
            assert_eq!(Folded::new(text).text, "[hard rules]", "{text}");
        }

        let tags: String = "[Hard Rules]"
            .chars()
            .map(|c| char::from_u32(0xe_0000 + u32::from(c)).unwrap())
            .collect();
        assert_eq!(Folded::new(&tags).text, "[hard rules]");
        assert_eq!(Folded::new(" a \r\n b\n \u{2028} c ").text, "a\nb\n\nc");
        assert_eq!(
            Folded::new("R&D; AT&T &#xffffffff; &#;").text,
            "r&d; at&t &#xffffffff; &#;"
        );
        assert_eq!(Folded::new("\u{200b}").text, "");
    }

    #[test]
    fn a_part_knows_where_it_was() {
        let text = "Ä  ［x\u{200b}］&nbsp;y";
        let folded = Folded::new(text);
        assert_eq!(folded.text, "a [x] y");
        let at = folded.text.find("[x]").unwrap();
        assert_eq!(&text[folded.origin(&(at..at + 3))], "［x\u{200b}］");
        assert_eq!(&text[folded.origin(&(0..folded.text.len()))], text);
        assert_eq!(folded.origin(&(0..0)), 0..0);
    }
}
