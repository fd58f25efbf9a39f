//! The time that a question names: "in August 2023", "on 5 May", "in 2022". Pure.

use memoir_text::months::MONTHS;

use crate::base::clock::Timestamp;

/// Words before "may" and "march" that make them months.
const BEFORE_MONTH: [&str; 12] = [
    "in", "last", "of", "this", "since", "until", "during", "early", "late", "next", "by", "mid",
];

/// What a question says about a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeWords {
    month: Option<usize>,
    year: Option<usize>,
    day: Option<usize>,
}

impl TimeWords {
    /// The time that a text names, if it does.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let mut found = Self {
            year: words.iter().find_map(|word| year(word)),
            ..Self::default()
        };
        for (place, word) in words.iter().enumerate() {
            let Some(month) = MONTHS.iter().position(|name| name == word) else {
                continue;
            };
            let before = place.checked_sub(1).and_then(|place| words.get(place));
            let after = words.get(place + 1);
            let day = before
                .and_then(|word| day(word))
                .or_else(|| after.and_then(|word| day(word)));
            let followed = after.is_some_and(|word| year(word).is_some());
            let verb = matches!(*word, "may" | "march");
            let named = before.is_some_and(|word| BEFORE_MONTH.contains(word));
            if !verb || named || followed || day.is_some() {
                (found.month, found.day) = (Some(month + 1), day);
                break;
            }
        }

        (found != Self::default()).then_some(found)
    }

    /// How much of what is named a time has: 0 if it differs, 1 if it fits, more if the day fits.
    pub fn fit(self, time: Timestamp) -> f64 {
        let day = time.day();
        let parts: Vec<usize> = day
            .split('-')
            .filter_map(|part| part.parse().ok())
            .collect();
        let [year, month, day] = parts[..] else {
            return 0.0;
        };
        let fits = self.year.is_none_or(|named| named == year)
            && self.month.is_none_or(|named| named == month);
        match (fits, self.day == Some(day)) {
            (false, _) => 0.0,
            (true, false) => 1.0,
            (true, true) => 1.5,
        }
    }
}

fn year(word: &str) -> Option<usize> {
    let number: usize = word.parse().ok()?;
    (word.len() == 4 && (1900..2100).contains(&number)).then_some(number)
}

fn day(word: &str) -> Option<usize> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = &word[digits.len()..];
    let number: usize = digits.parse().ok()?;
    (matches!(ending, "" | "st" | "nd" | "rd" | "th") && (1..=31).contains(&number))
        .then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_years_and_days_are_recognised() {
        let fit = |text: &str, time: &str| {
            let time = Timestamp::parse_rfc3339(time).unwrap();
            TimeWords::of(text).map(|words| words.fit(time))
        };
        let summer = "2023-08-05T10:00:00Z";
        assert_eq!(fit("What happened in August 2023?", summer), Some(1.0));
        assert_eq!(fit("What happened on 5 August?", summer), Some(1.5));
        assert_eq!(fit("What happened on August 5th, 2022?", summer), Some(0.0));
        assert_eq!(fit("Where was she in 2023?", summer), Some(1.0));
        assert_eq!(fit("May I ask you something?", summer), None);
        assert_eq!(fit("What did we do last May?", summer), Some(0.0));
        assert_eq!(fit("Order 5678", summer), None);
    }
}
