//! Check digits: whether a number can be an IBAN or a card number.

/// The remainder by 97 is 1, once the first four characters stand at the end and letters count
/// from 10.
pub fn is_iban(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(u8::is_ascii_alphanumeric).collect();
    if !(15..=34).contains(&compact.len()) {
        return false;
    }

    let (front, back) = compact.split_at(4);
    let remainder = back.iter().chain(front).fold(0u32, |remainder, byte| {
        match char::from(*byte).to_digit(36).unwrap_or(0) {
            digit @ 0..=9 => (remainder * 10 + digit) % 97,
            letter => (remainder * 100 + letter) % 97,
        }
    });
    remainder == 1
}

/// Luhn: every second digit from the right counts double, and the sum is a multiple of ten.
pub fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    if !(13..=19).contains(&digits.len()) {
        return false;
    }

    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, &digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10) && digits.iter().any(|&digit| digit != 0)
}
