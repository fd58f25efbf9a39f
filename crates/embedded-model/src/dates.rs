//! Reads the common written forms of a date. Guarantees ISO 8601 with the precision of the text,
//! and no guess where day and month are ambiguous.

use memoir_text::months::MONTHS;

/// The first date in a short text such as a header field or a file name.
pub fn iso(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect();

    let spaced =
        (0..words.len()).find_map(|at| year_first(&words[at..]).or_else(|| named(&words[at..])));
    spaced
        .or_else(|| numeric(&words))
        .or_else(|| compact(&words))
}

fn number(word: &str) -> Option<u32> {
    // In "2024-03-05T10:00", the day and the hour are one word.
    let word = word.split(['T', 't']).next()?;
    word.trim_end_matches(['s', 'n', 'r', 'h', 'd'])
        .parse()
        .ok()
}

fn year(word: &str) -> Option<u32> {
    word.parse()
        .ok()
        .filter(|y| word.len() == 4 && (1000..=2999).contains(y))
}

/// The number of a month by its name or the beginning of it: `March`, `Mar`, `sept`.
fn month(word: &str) -> Option<u32> {
    let lower = word.to_lowercase();
    if lower.len() < 3 {
        return None;
    }

    let at = MONTHS.iter().position(|name| name.starts_with(&lower))?;
    u32::try_from(at + 1).ok()
}

fn day_in(year: u32, month: u32, day: u32) -> Option<String> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };

    ((1..=12).contains(&month) && (1..=last).contains(&day))
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// 2024-03-05, 2024/3/5, 2024-03.
fn year_first(words: &[&str]) -> Option<String> {
    let year = year(words.first()?)?;
    let month = words
        .get(1)?
        .parse()
        .ok()
        .filter(|m| (1..=12).contains(m))?;

    match words.get(2).and_then(|w| number(w)) {
        Some(day) => day_in(year, month, day),
        None => Some(format!("{year:04}-{month:02}")),
    }
}

/// 5 March 2024, March 5 2024, Mar 2024.
fn named(words: &[&str]) -> Option<String> {
    if let Some(month) = words.first().and_then(|w| month(w)) {
        let second = words.get(1)?;
        if let Some(year) = year(second) {
            return Some(format!("{year:04}-{month:02}"));
        }

        // Unix dates put the time between the day and the year.
        let year = words.iter().skip(2).take(5).find_map(|w| year(w))?;
        return day_in(year, month, number(second)?);
    }

    let day = number(words.first()?).filter(|d| *d <= 31)?;
    let month = month(words.get(1)?)?;
    let last = words.get(2)?;
    let year = year(last).or_else(|| {
        last.parse::<u32>()
            .ok()
            .filter(|y| *y > 31 && *y < 100)
            .map(|y| 1900 + y)
    })?;

    day_in(year, month, day)
}

/// 25/12/2024 and 12/25/2024, where only one reading is possible.
fn numeric(words: &[&str]) -> Option<String> {
    words.windows(3).find_map(|w| {
        let (a, b, year) = (w[0].parse().ok()?, w[1].parse().ok()?, year(w[2])?);
        match (a, b) {
            (13..=31, 1..=12) => day_in(year, b, a),
            (1..=12, 13..=31) => day_in(year, a, b),
            (a, b) if a == b => day_in(year, a, b),
            _ => None,
        }
    })
}

/// 20240305.
fn compact(words: &[&str]) -> Option<String> {
    words.iter().find_map(|w| {
        if w.len() != 8 || !w.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        day_in(year(&w[..4])?, w[4..6].parse().ok()?, w[6..].parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dates_in_many_forms() {
        for (text, wanted) in [
            ("2024-03-05", Some("2024-03-05")),
            ("2024-03-05T10:11:12Z", Some("2024-03-05")),
            ("Tue, 5 Mar 2024 10:00:00 +0100", Some("2024-03-05")),
            ("March 5th, 2024", Some("2024-03-05")),
            ("Tue Mar  5 10:00:00 2024", Some("2024-03-05")),
            ("15 Apr 93 12:00 GMT", Some("1993-04-15")),
            ("May 1999", Some("1999-05")),
            ("2024-03", Some("2024-03")),
            ("25/12/2024", Some("2024-12-25")),
            ("03/04/2024", None),
            ("notes-20240305.md", Some("2024-03-05")),
            ("30 February 2024", Some("2024-02")),
            ("Martin 5 2024 items", None),
            ("no date", None),
            ("", None),
        ] {
            assert_eq!(iso(text).as_deref(), wanted, "{text}");
        }
    }
}
