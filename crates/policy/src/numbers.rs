//! Finds card numbers and IBANs by their check digits, in linear time.
//!
//! People write them in groups, and other digits and words beside a number look like further groups
//! of it: `Order 12 4111 1111 1111 1111`. So a number may begin with any group and end with any
//! later one, as far as its length allows.

use std::ops::{Range, RangeInclusive};

/// Maximum separators between two groups: `4111 - 1111`.
const MAX_SEPARATORS: usize = 3;
const CARD_DIGITS: RangeInclusive<usize> = 13..=19;
/// Cards have groups of at least four digits; only the last one may be shorter.
const MIN_CARD_GROUP: usize = 4;
const IBAN_CHARACTERS: RangeInclusive<usize> = 15..=34;

/// What stands before a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// Separators on the same line.
    Near,
    /// Separators with a tab or a line break among them.
    Wide,
    /// Anything else.
    Other,
}

/// A run of characters that may belong to a number.
#[derive(Debug)]
struct Group {
    start: usize,
    end: usize,
    /// Between the group before and this one.
    gap: Gap,
    /// Whether a letter that is not part of it stands beside it.
    is_glued: bool,
}

impl Group {
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn bytes<'t>(&self, text: &'t str) -> &'t [u8] {
        &text.as_bytes()[self.start..self.end]
    }
}

/// Spaces and dashes as people type and paste them, some of which nobody sees.
fn is_separator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t'
            | '\n'
            | '\r'
            | '-'
            | '\u{a0}'
            | '\u{ad}'
            | '\u{2000}'..='\u{200b}'
            | '\u{2010}'..='\u{2015}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{2060}'
            | '\u{2212}'
            | '\u{3000}'
            | '\u{feff}'
    )
}

/// The runs of such characters in a text. Letters of other scripts end a group, and stand beside a
/// number as a space does: Chinese has none before it.
fn groups(text: &str, belongs: impl Fn(char) -> bool) -> Vec<Group> {
    let mut found: Vec<Group> = Vec::new();
    let (mut separators, mut gap) = (0, Gap::Other);
    let mut after_letter = false;

    for (at, c) in text.char_indices() {
        let continued = found.last_mut().filter(|last| last.end == at);
        if belongs(c) {
            if let Some(last) = continued {
                last.end += c.len_utf8();
            } else {
                found.push(Group {
                    start: at,
                    end: at + c.len_utf8(),
                    gap: if separators <= MAX_SEPARATORS {
                        gap
                    } else {
                        Gap::Other
                    },
                    is_glued: after_letter,
                });
            }
            (separators, gap, after_letter) = (0, Gap::Near, false);
            continue;
        }

        after_letter = c.is_ascii_alphabetic();
        if let Some(last) = continued {
            last.is_glued |= after_letter;
        }
        separators += 1;
        if !is_separator(c) {
            gap = Gap::Other;
        } else if gap == Gap::Near && matches!(c, '\t' | '\n' | '\r') {
            gap = Gap::Wide;
        }
    }

    found
}

/// The groups from one on that can be part of the same number of at most so many characters.
fn chain(groups: &[Group], most: usize) -> impl Iterator<Item = &Group> {
    let mut length = 0;
    groups.iter().enumerate().map_while(move |(place, group)| {
        length += group.len();
        (length <= most && (place == 0 || group.gap != Gap::Other)).then_some(group)
    })
}

/// Card numbers.
///
/// One number in ten has the check digit of a card by chance. Among numbers that are grouped as
/// cards are, all that may be one are returned, also if they overlap: a chance hit must not hide
/// the card beside it. Of others only the longest counts, and none that overlaps it. A number on
/// several lines, in several columns or beside a letter must look like a card in every way.
pub fn cards(text: &str) -> Vec<Range<usize>> {
    let groups = groups(text, |c| c.is_ascii_digit());
    let mut found = Vec::new();
    let mut covered = 0;

    for (place, first) in groups.iter().enumerate() {
        let mut luhn = Luhn::default();
        let (mut usual, mut unusual) = (true, None);
        let (mut is_plain, mut lengths) = (true, Vec::new());
        for (number, group) in chain(&groups[place..], *CARD_DIGITS.end()).enumerate() {
            group.bytes(text).iter().for_each(|digit| luhn.add(*digit));
            lengths.push(group.len());
            is_plain &= !group.is_glued && (number == 0 || group.gap == Gap::Near);
            if CARD_DIGITS.contains(&luhn.digits) && luhn.is_valid() {
                if !is_plain {
                    if has_form_of_card(&lengths) && has_issuer(first.bytes(text)) {
                        found.push(first.start..group.end);
                    }
                } else if usual {
                    found.push(first.start..group.end);
                } else {
                    unusual = Some(group.end);
                }
            }
            usual &= group.len() >= MIN_CARD_GROUP;
        }

        if let Some(end) = unusual.filter(|_| first.start >= covered) {
            found.push(first.start..end);
            covered = end;
        }
    }

    found
}

/// Whether the digits are grouped as on a card.
fn has_form_of_card(lengths: &[usize]) -> bool {
    matches!(lengths, [14..=16] | [4, 4, 4, 4] | [4, 6, 4 | 5])
}

/// Whether a number begins as those of the large card networks do.
fn has_issuer(digits: &[u8]) -> bool {
    match digits {
        [b'3'..=b'6', ..] => true,
        [b'2', ..] => digits
            .get(..4)
            .is_some_and(|four| (&b"2221"[..]..=&b"2720"[..]).contains(&four)),
        _ => false,
    }
}

/// Every second digit from the right counts double, and the sum is a multiple of ten.
#[derive(Default)]
struct Luhn {
    digits: usize,
    /// The sum if the digits at even, or at odd, places from the left count double: which do is
    /// known once the length is.
    sums: [usize; 2],
}

impl Luhn {
    fn add(&mut self, digit: u8) {
        let digit = usize::from(digit - b'0');
        let double = if digit > 4 { digit * 2 - 9 } else { digit * 2 };
        self.sums[self.digits % 2] += double;
        self.sums[(self.digits + 1) % 2] += digit;
        self.digits += 1;
    }

    /// Zeros alone are no card.
    fn is_valid(&self) -> bool {
        let sum = self.sums[self.digits % 2];
        sum > 0 && sum.is_multiple_of(10)
    }
}

/// IBANs; one in 97 texts of their form has the check digits of one by chance. One on several lines,
/// in several columns or beside a letter must have the length that its country prescribes.
pub fn ibans(text: &str) -> Vec<Range<usize>> {
    let groups = groups(text, |c| c.is_ascii_alphanumeric());
    let mut found = Vec::new();

    for (place, first) in groups.iter().enumerate() {
        let before = found.len();
        let mut iban = Iban::default();
        for (number, group) in chain(&groups[place..], *IBAN_CHARACTERS.end()).enumerate() {
            let is_near = number == 0 || group.gap == Gap::Near;
            if !is_near || !group.bytes(text).iter().all(|byte| iban.add(*byte)) {
                break;
            }
            if IBAN_CHARACTERS.contains(&iban.characters) && iban.is_valid() {
                found.push(first.start..group.end);
            }
        }

        let inside = glued_countries(first.bytes(text)).map(|at| first.start + at);
        for start in std::iter::once(first.start).chain(inside) {
            if let Some(exact) = exact_iban(text, &groups[place..], start)
                && !found[before..].contains(&exact)
            {
                found.push(exact);
            }
        }
    }

    found
}

/// The places in a word where an IBAN may begin behind a letter.
fn glued_countries(word: &[u8]) -> impl Iterator<Item = usize> {
    let places = word.windows(5).enumerate();
    let begins = places.filter(|(_, part)| {
        part[0].is_ascii_alphabetic()
            && part[1..3].iter().all(u8::is_ascii_uppercase)
            && part[3..].iter().all(u8::is_ascii_digit)
    });
    begins.map(|(place, _)| place + 1)
}

/// The IBAN that begins at a place of the first group, if it has the length of its country. A letter
/// may follow it.
fn exact_iban(text: &str, groups: &[Group], start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let length = length_of_ibans(bytes.get(start..start + 2)?)?;
    let mut iban = Iban::default();
    for (number, group) in groups.iter().enumerate() {
        if number > 0 && group.gap == Gap::Other {
            return None;
        }
        for at in group.start.max(start)..group.end {
            if !iban.add(bytes[at]) {
                return None;
            }
            if iban.characters == length {
                let end = at + 1;
                let ends = end == group.end || bytes[end].is_ascii_alphabetic();
                return (ends && iban.is_valid()).then_some(start..end);
            }
        }
    }

    None
}

/// The characters of the IBANs of a country.
fn length_of_ibans(country: &[u8]) -> Option<usize> {
    let country = std::str::from_utf8(country).ok()?.to_ascii_uppercase();
    let known = IBAN_LENGTHS.iter();
    let mut known = known.filter(|(_, countries)| countries.split(' ').any(|one| one == country));
    known.next().map(|(length, _)| *length)
}

/// The countries that have IBANs, by the number of characters.
const IBAN_LENGTHS: [(usize, &str); 18] = [
    (15, "NO"),
    (16, "BE"),
    (18, "DK FI FO GL NL SD"),
    (19, "MK SI"),
    (20, "AT BA EE KZ LT LU XK"),
    (21, "CH HR LI LV"),
    (22, "BG BH CR DE GB GE IE ME RS VA"),
    (23, "AE GI IL IQ OM SO TL"),
    (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
    (25, "LY PT ST"),
    (26, "IS TR"),
    (27, "BI DJ FR GR IT MC MR SM"),
    (28, "AL AZ BY CY DO GT HU LB NI PL SV"),
    (29, "BR EG PS QA UA"),
    (30, "JO KW MU YE"),
    (31, "MT SC"),
    (32, "LC"),
    (33, "RU"),
];

/// The remainder by 97 is 1, once the first four characters stand at the end and letters count
/// from 10.
#[derive(Default)]
struct Iban {
    characters: usize,
    /// Of the first four characters: two letters of the country and two check digits.
    front: usize,
    /// Of the others.
    remainder: usize,
}

impl Iban {
    /// Whether this can still be an IBAN.
    fn add(&mut self, byte: u8) -> bool {
        let value = match byte {
            b'0'..=b'9' => usize::from(byte - b'0'),
            letter => usize::from(letter.to_ascii_uppercase() - b'A') + 10,
        };
        let factor = if value > 9 { 100 } else { 10 };
        let (sum, fits) = match self.characters {
            0 | 1 => (&mut self.front, value > 9),
            2 | 3 => (&mut self.front, value <= 9),
            _ => (&mut self.remainder, true),
        };

        *sum = (*sum * factor + value) % 97;
        self.characters += 1;
        fits
    }

    fn is_valid(&self) -> bool {
        // The first four characters are six digits.
        (self.remainder * 1_000_000 + self.front) % 97 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, ranges: Vec<Range<usize>>) -> Vec<&str> {
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    const VISA: &str = "4111 1111 1111 1111";

    #[test]
    fn a_card_is_found_between_other_numbers() {
        for (text, wanted) in [
            ("Order 12 4111 1111 1111 1111", vec![VISA]),
            ("4111 1111 1111 1111 123", vec![VISA]),
            ("7 4111 1111 1111 1111 12/29", vec![VISA]),
            ("Room 1204, 4111 1111 1111 1111", vec![VISA]),
            ("x4111 4111 1111 1111 1111 9x", vec![VISA]),
            (
                "4111 1111 1111 1111 6011 0009 9013 9424",
                vec![VISA, "6011 0009 9013 9424"],
            ),
            ("4111111111111111", vec!["4111111111111111"]),
            ("卡号4111111111111111是", vec!["4111111111111111"]),
            ("3782 822463 10005", vec!["3782 822463 10005"]),
            ("4 111 11 1 1111 1111 1", vec!["4 111 11 1 1111 1111 1"]),
            (
                "4111\u{a0}1111\u{a0}1111\u{a0}1111",
                vec!["4111\u{a0}1111\u{a0}1111\u{a0}1111"],
            ),
            ("4111–1111–1111–1111", vec!["4111–1111–1111–1111"]),
            (
                "4111 - 1111 - 1111 - 1111",
                vec!["4111 - 1111 - 1111 - 1111"],
            ),
            ("4111 1111 1111 1112", vec![]),
            ("_4111 1111 1111 1111_", vec![VISA]),
            ("card4111111111111111now", vec!["4111111111111111"]),
            (
                "no\t4111\t1111\t1111\t1111\t12",
                vec!["4111\t1111\t1111\t1111"],
            ),
            ("4111 1111\r\n1111 1111.", vec!["4111 1111\r\n1111 1111"]),
            ("3782\n822463\n10005", vec!["3782\n822463\n10005"]),
            ("4111 1111, 1111 1111", vec![]),
            ("4111 1111\n\n\n\n1111 1111", vec![]),
            // The check digit is right, the rest is not: a time, years, a table.
            ("file1700000000004.jpg", vec![]),
            ("1984\n1990\n2005\n2013", vec![]),
            ("41\t11\t11\t11\t11\t11\t11\t11", vec![]),
            ("41111111111111114111111111111111", vec![]),
            ("0000 0000 0000 0000", vec![]),
        ] {
            assert_eq!(shown(text, cards(text)), wanted, "{text}");
        }
    }

    #[test]
    fn a_chance_hit_does_not_hide_the_card_beside_it() {
        let text = "2218 4111 1111 1111 1111";
        assert_eq!(shown(text, cards(text)), ["2218 4111 1111 1111", VISA]);
    }

    #[test]
    fn an_iban_is_found_between_words() {
        let iban = "DE89 3704 0044 0532 0130 00";
        for (text, wanted) in [
            ("Room AB12 DE89 3704 0044 0532 0130 00", vec![iban]),
            ("DE89 3704 0044 0532 0130 00 please", vec![iban]),
            ("to de89370400440532013000.", vec!["de89370400440532013000"]),
            (
                "DE89\u{a0}3704\u{202f}0044‑0532-0130 00",
                vec!["DE89\u{a0}3704\u{202f}0044‑0532-0130 00"],
            ),
            (
                "GB82WEST12345698765432 NL91ABNA0417164300",
                vec!["GB82WEST12345698765432", "NL91ABNA0417164300"],
            ),
            ("DE88 3704 0044 0532 0130 00", vec![]),
            ("DE89 3704, 0044 0532 0130 00", vec![]),
            ("_DE89 3704 0044 0532 0130 00_", vec![iban]),
            (
                "IBANDE89370400440532013000please",
                vec!["DE89370400440532013000"],
            ),
            (
                "DE89\t3704\t0044\t0532\t0130\t00\tAnn",
                vec!["DE89\t3704\t0044\t0532\t0130\t00"],
            ),
            (
                "DE89 3704 0044\n0532 0130 00.",
                vec!["DE89 3704 0044\n0532 0130 00"],
            ),
            ("IBANDE893704004405320130001", vec![]),
            ("xDE88370400440532013000", vec![]),
            ("DE89 3704 0044\n\n\n\n0532 0130 00", vec![]),
        ] {
            assert_eq!(shown(text, ibans(text)), wanted, "{text}");
        }
    }

    #[test]
    fn check_digits_are_the_same_as_by_the_rule() {
        let luhn = |number: u64| {
            let digits = number.to_string();
            let places = digits.bytes().rev().enumerate();
            let values = places.map(|(place, digit)| match (place % 2, (digit - b'0') * 2) {
                (0, double) => u32::from(double / 2),
                (_, double) => u32::from(double / 10 + double % 10),
            });
            values.sum::<u32>().is_multiple_of(10)
        };
        for number in (4_111_111_111_111_000..4_111_111_111_112_000)
            .chain(378_282_246_310_000..378_282_246_310_100)
        {
            let text = number.to_string();
            assert_eq!(!cards(&text).is_empty(), luhn(number), "{number}");
        }
    }
}
