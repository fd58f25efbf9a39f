//! Times as chats write them: RFC 3339, seconds since 1970, or a day and a time of day.

use serde_json::Value;

use crate::base::clock::Timestamp;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// The time of a JSON value, if it is one.
pub fn moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Number(number) => of_seconds(number.as_f64()?),
        Value::String(text) => {
            let text = text.trim();
            let plain = || stamp(text, DayOrder::of(&[text])).or_else(|| in_words(text));
            let utc = || Timestamp::parse_rfc3339(&format!("{}Z", text.replace(' ', "T")));
            Timestamp::parse_rfc3339(text).or_else(utc).or_else(plain)
        }
        _ => None,
    }
}

/// A time such as `1:56 pm on 8 May, 2023`.
fn in_words(text: &str) -> Option<Timestamp> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != ':')
        .filter(|word| !word.is_empty())
        .collect();
    let month = |word: &str| MONTHS.iter().position(|name| word.starts_with(name));
    let (place, month) = words
        .iter()
        .enumerate()
        .find_map(|(place, word)| Some((place, month(word)? + 1)))?;
    let is_year = |word: &str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let year = words.iter().find(|word| is_year(word))?;
    let near = [place.checked_sub(1), Some(place + 1)];
    let day = near
        .into_iter()
        .flatten()
        .find_map(|place| words.get(place)?.parse::<u8>().ok())?;
    let clock = words.iter().position(|word| word.contains(':'));
    let clock = clock.map_or("00:00".to_owned(), |place| {
        let half = words.get(place + 1).copied().unwrap_or_default();
        format!("{} {half}", words[place])
    });
    stamp(
        &format!("{day}.{month}.{year}, {clock}"),
        DayOrder::DayFirst,
    )
}

/// A number of seconds, or of milliseconds if it is too large for seconds.
#[expect(clippy::cast_possible_truncation, reason = "checked before")]
fn of_seconds(number: f64) -> Option<Timestamp> {
    let seconds = if number > 1e11 {
        number / 1000.0
    } else {
        number
    };
    let valid = seconds.is_finite() && (0.0..1e11).contains(&seconds);
    valid.then(|| Timestamp::from_micros((seconds * 1e6).round() as i64))
}

/// Whether dates begin with the day or the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayOrder {
    DayFirst,
    MonthFirst,
}

impl DayOrder {
    /// Derived from the dates of a chat: a number above 12 is a day. Otherwise, chats with AM and
    /// PM write the month first.
    pub fn of(stamps: &[&str]) -> Self {
        let mut american = false;
        for stamp in stamps {
            let Some(([first, second, _], separator)) = date_of(stamp) else {
                continue;
            };
            if first > 12 {
                return Self::DayFirst;
            }
            if second > 12 {
                return Self::MonthFirst;
            }

            let lower = stamp.to_lowercase();
            american |= separator == '/' && (lower.contains("am") || lower.contains("pm"));
        }

        if american {
            Self::MonthFirst
        } else {
            Self::DayFirst
        }
    }
}

/// The numbers of a date at the beginning of a stamp, and what separates them.
fn date_of(stamp: &str) -> Option<([i64; 3], char)> {
    let date = stamp.split([',', ' ']).next()?;
    let separator = date.chars().find(|c| matches!(c, '.' | '/' | '-'))?;
    let numbers: Vec<i64> = date
        .split(separator)
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    Some((numbers.try_into().ok()?, separator))
}

/// The time of a stamp such as `29.12.2023, 00:51:12` or `12/29/23, 9:15 PM`, in UTC.
pub fn stamp(text: &str, order: DayOrder) -> Option<Timestamp> {
    let ([first, second, third], _) = date_of(text)?;
    let (year, month, day) = if first > 31 {
        (first, second, third)
    } else if order == DayOrder::MonthFirst {
        (third, first, second)
    } else {
        (third, second, first)
    };
    let year = if year < 100 { 2000 + year } else { year };
    let rest = &text[text.find([',', ' '])?..];
    let clock = rest.trim_start_matches([',', ' ']).to_lowercase();
    let afternoon = clock.contains("pm") || clock.contains("p.m");
    let morning = clock.contains("am") || clock.contains("a.m");
    let digits = clock
        .split(|c: char| !c.is_ascii_digit() && c != ':')
        .next()?;
    let parts: Vec<i64> = digits
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let (mut hour, minute) = (*parts.first()?, *parts.get(1)?);
    let second = parts.get(2).copied().unwrap_or(0);
    if afternoon && hour < 12 {
        hour += 12;
    } else if morning && hour == 12 {
        hour = 0;
    }

    Timestamp::parse_rfc3339(&format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_several_countries_are_read() {
        let time = |text: &str, order| stamp(text, order).map(|time| time.to_string());
        let wanted = Some("2023-12-09T21:15:00.000000Z".to_owned());
        assert_eq!(time("12/9/23, 9:15 PM", DayOrder::MonthFirst), wanted);
        assert_eq!(time("09.12.2023, 21:15:00", DayOrder::DayFirst), wanted);
        assert_eq!(time("2023-12-09, 21:15", DayOrder::DayFirst), wanted);
        assert_eq!(time("31.02.2023, 21:15", DayOrder::DayFirst), None);
        let words = moment(&serde_json::json!("9:15 pm on 9 December, 2023"));
        assert_eq!(words.map(|time| time.to_string()), wanted);
        assert_eq!(DayOrder::of(&["1/2/23, 9:00 AM"]), DayOrder::MonthFirst);
        assert_eq!(
            DayOrder::of(&["1/2/23, 9:00", "13/2/23, 9:00"]),
            DayOrder::DayFirst
        );
    }
}
