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
    /// Derived from the dates of a chat: a number above 12 is a day, and dates with dots begin with
    /// the day. Otherwise, chats with AM and PM begin with the month and all others with the day,
    /// unless the chat then goes back in time and with the other order it does not.
    pub fn of(stamps: &[&str]) -> Self {
        // A date that begins with the year says nothing about the others.
        let dates: Vec<([i64; 3], char)> = stamps
            .iter()
            .filter_map(|stamp| date_of(stamp))
            .filter(|([first, ..], _)| !is_year(*first))
            .collect();
        if let Some(certain) = dates.iter().find_map(|(numbers, _)| Self::certain(numbers)) {
            return certain;
        }
        if dates.iter().any(|(_, separator)| *separator == '.') {
            return Self::DayFirst;
        }

        let slashes = dates.iter().any(|(_, separator)| *separator == '/');
        let (usual, other) = if slashes && stamps.iter().any(|stamp| has_half(stamp)) {
            (Self::MonthFirst, Self::DayFirst)
        } else {
            (Self::DayFirst, Self::MonthFirst)
        };
        if usual.goes_back(&dates) && !other.goes_back(&dates) {
            other
        } else {
            usual
        }
    }

    /// The order of a date that can only be read in one way.
    fn certain([first, second, _]: &[i64; 3]) -> Option<Self> {
        match (*first > 12, *second > 12) {
            (true, _) => Some(Self::DayFirst),
            (_, true) => Some(Self::MonthFirst),
            _ => None,
        }
    }

    /// Whether a date is before the one above it. Times of day are not compared: lines of one day
    /// can change places whatever the order is.
    fn goes_back(self, dates: &[([i64; 3], char)]) -> bool {
        !dates.is_sorted_by_key(|(numbers, _)| self.calendar(*numbers))
    }

    /// Year, month and day of the numbers of a date.
    fn calendar(self, [first, second, third]: [i64; 3]) -> (i64, i64, i64) {
        let (year, month, day) = match self {
            _ if is_year(first) => (first, second, third),
            Self::MonthFirst => (third, first, second),
            Self::DayFirst => (third, second, first),
        };
        (if year < 100 { 2000 + year } else { year }, month, day)
    }
}

fn is_year(number: i64) -> bool {
    number > 31
}

/// Whether a stamp has AM or PM. Other forms, such as `pm` in Britain or `p. m.`, do not count: who
/// writes them begins dates with the day.
fn has_half(stamp: &str) -> bool {
    stamp.contains("AM") || stamp.contains("PM")
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
    let (numbers, _) = date_of(text)?;
    let (year, month, day) = order.calendar(numbers);
    let rest = &text[text.find([',', ' '])?..];
    let clock = rest.trim_start_matches([',', ' ']).to_lowercase();
    // Some languages write `p. m.`.
    let letters = clock.replace(['.', ' '], "");
    let (morning, afternoon) = (letters.contains("am"), letters.contains("pm"));
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

    #[test]
    fn the_order_of_day_and_month_is_that_of_the_whole_file() {
        use DayOrder::{DayFirst, MonthFirst};
        let cases: [(&[&str], DayOrder); 11] = [
            (&["10/3/26, 6:02 PM", "10/4/26, 7:00 AM"], MonthFirst),
            (&["10/3/26, 18:02", "10/31/26, 18:02"], MonthFirst),
            (&["10/3/26, 6:02 pm", "31/3/26, 6:02 pm"], DayFirst),
            (&["03.10.26, 6:02 PM"], DayFirst),
            (&["11.12.26, 18:02", "12.11.26, 18:02"], DayFirst),
            (&["3/10/26, 18:02"], DayFirst),
            // Only the month first keeps these in the order of time.
            (&["3/10/26, 18:02", "4/1/26, 18:02"], MonthFirst),
            // Both orders go back: the usual one stays.
            (&["4/4/26, 18:02", "3/3/26, 18:02"], DayFirst),
            // The time of day is no reason to change the order.
            (&["3/10/26, 18:02", "3/10/26, 18:01"], DayFirst),
            (&["05/11/26, 6:02 pm", "01/12/26, 7:00 pm"], DayFirst),
            // The date with the year first does not decide about the other one.
            (&["2026-10-03, 18:02", "10/31/26, 18:02"], MonthFirst),
        ];
        for (stamps, wanted) in cases {
            assert_eq!(DayOrder::of(stamps), wanted, "{stamps:?}");
        }
        let spanish = stamp("3/10/26, 6:02 p. m.", DayFirst).unwrap();
        assert_eq!(spanish.to_string(), "2026-10-03T18:02:00.000000Z");
    }
}
