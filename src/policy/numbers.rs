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

/// A run of letters and digits.
#[derive(Debug)]
struct Group {
    start: usize,
    end: usize,
    /// Whether only separators stand between the group before and this one.
    follows: bool,
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
        ' ' | '-'
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

/// Letters of other scripts end a group: Chinese has no space before a number.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The words of a text that consist of such bytes.
fn groups(text: &str, belongs: impl Fn(&u8) -> bool) -> Vec<Group> {
    let mut found = Vec::new();
    // Since the group before; more than allowed if anything else stands there.
    let mut separators = usize::MAX;
    let mut chars = text.char_indices().peekable();

    while let Some((start, c)) = chars.next() {
        if !is_word(c) {
            separators = if is_separator(c) {
                separators.saturating_add(1)
            } else {
                usize::MAX
            };
            continue;
        }

        let mut end = start + c.len_utf8();
        while let Some((at, c)) = chars.next_if(|(_, c)| is_word(*c)) {
            end = at + c.len_utf8();
        }

        let whole = text.as_bytes()[start..end].iter().all(&belongs);
        if whole {
            let follows = separators <= MAX_SEPARATORS;
            found.push(Group {
                start,
                end,
                follows,
            });
        }
        separators = if whole { 0 } else { usize::MAX };
    }

    found
}

/// The groups from one on that can be part of the same number of at most so many characters.
fn chain(groups: &[Group], most: usize) -> impl Iterator<Item = &Group> {
    let mut length = 0;
    groups.iter().enumerate().map_while(move |(place, group)| {
        length += group.len();
        (length <= most && (place == 0 || group.follows)).then_some(group)
    })
}

/// Card numbers.
///
/// One number in ten has the check digit of a card by chance. Among numbers that are grouped as
/// cards are, all that may be one are returned, also if they overlap: a chance hit must not hide
/// the card beside it. Of others only the longest counts, and none that overlaps it.
pub fn cards(text: &str) -> Vec<Range<usize>> {
    let groups = groups(text, u8::is_ascii_digit);
    let mut found = Vec::new();
    let mut covered = 0;

    for (place, first) in groups.iter().enumerate() {
        let mut luhn = Luhn::default();
        let (mut usual, mut unusual) = (true, None);
        for group in chain(&groups[place..], *CARD_DIGITS.end()) {
            group.bytes(text).iter().for_each(|digit| luhn.add(*digit));
            if CARD_DIGITS.contains(&luhn.digits) && luhn.is_valid() {
                if usual {
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

/// IBANs; one in 97 texts of their form has the check digits of one by chance.
pub fn ibans(text: &str) -> Vec<Range<usize>> {
    let groups = groups(text, u8::is_ascii_alphanumeric);
    let mut found = Vec::new();

    for (place, first) in groups.iter().enumerate() {
        let mut iban = Iban::default();
        for group in chain(&groups[place..], *IBAN_CHARACTERS.end()) {
            if !group.bytes(text).iter().all(|byte| iban.add(*byte)) {
                break;
            }
            if IBAN_CHARACTERS.contains(&iban.characters) && iban.is_valid() {
                found.push(first.start..group.end);
            }
        }
    }

    found
}

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
            ("4111 1111, 1111 1111", vec![]),
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
