//! The only place that reads the system clock.
//!
//! All code that depends on time uses a `Clock`, so tests can stop it, move it, or set the time in
//! a request header (`testing.clock_header`).

use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// See [`set_ahead`].
#[cfg(feature = "testing")]
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// A point in time, as microseconds since 1970 in UTC: the form in which all three databases store
/// and order it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time `micros` microseconds later.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// The time `seconds` earlier.
    #[must_use]
    pub const fn minus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_sub(seconds.saturating_mul(1_000_000)))
    }

    /// The day in UTC: `2026-11-15`.
    #[must_use]
    pub fn day(self) -> String {
        let mut day = self.to_string();
        day.truncate(10);
        day
    }

    /// Seconds until the end of the day in UTC.
    #[must_use]
    pub const fn seconds_left_today(self) -> u64 {
        const DAY: i64 = 86_400;
        (DAY - (self.0 / 1_000_000).rem_euclid(DAY)).unsigned_abs()
    }

    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// The modification time of a file.
    #[must_use]
    pub fn of_file(time: std::time::SystemTime) -> Option<Self> {
        let micros = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_micros();
        i64::try_from(micros).ok().map(Self)
    }

    /// Parses RFC 3339 with an offset; anything else is `None`.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let parsed: jiff::Timestamp = text.parse().ok().or_else(|| end_of_time(text))?;
        Some(Self(parsed.as_microsecond()))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with microseconds, the format of every time in the API.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            Err(_) => f.write_str("out of range"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    /// RFC 3339 with an offset.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        // In a query string `+` means a space unless it is encoded.
        let read = Self::parse_rfc3339(&text).or_else(|| {
            let (time, offset) = text.rsplit_once(' ')?;
            Self::parse_rfc3339(&format!("{time}+{offset}"))
        });

        let rule = "must be a timestamp with an offset, such as 2026-01-31T12:00:00Z";
        read.ok_or_else(|| D::Error::custom(rule))
    }
}

/// One of the latest timestamps for the last two days of the year 9999: many programs write the last
/// of them for "always", and it is beyond what can be represented.
fn end_of_time(text: &str) -> Option<jiff::Timestamp> {
    let rest = text
        .strip_prefix("9999-12-31")
        .or_else(|| text.strip_prefix("9999-12-30"))?;
    format!("9999-12-29{rest}")
        .parse::<jiff::Timestamp>()
        .ok()?;
    "9999-12-30T00:00:00Z".parse().ok()
}

/// Whether a text is a calendar day, such as `2026-11-15`.
#[must_use]
pub fn is_day(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Whether a text is an ISO 8601 calendar date, with or without a time of day; spaces may replace
/// its separators (`2025 01 31`).
#[must_use]
pub fn is_date(text: &str) -> bool {
    let text = text.trim();
    if Timestamp::parse_rfc3339(text).is_some() {
        return true;
    }

    let allowed = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | 'T' | 't' | ' ');
    let parts: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
    let widths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if !text.chars().all(allowed) || !matches!(widths.as_slice(), [4, 2, 2] | [4, 2, 2, 2, 2, 2]) {
        return false;
    }

    let day = parts[..3].join("-");
    if parts.len() == 3 {
        return is_day(&day);
    }

    let moment = format!("{day}T{}", parts[3..].join(":"));
    moment.parse::<jiff::civil::DateTime>().is_ok()
}

/// Milliseconds since a moment, rounded to microseconds; more digits would be noise.
#[must_use]
pub fn milliseconds_since(begun: Instant) -> f64 {
    (begun.elapsed().as_secs_f64() * 1e6).round() / 1000.0
}

/// Returns the time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// Sets the clock of this process ahead, including its ids, as on a host with a wrong clock: for
/// tests with several processes.
#[cfg(feature = "testing")]
pub fn set_ahead(milliseconds: u64) {
    AHEAD_MS.store(milliseconds, Ordering::Relaxed);
}

/// How many milliseconds this process is ahead; 0 except in tests.
#[cfg(feature = "testing")]
#[must_use]
pub fn ahead() -> u64 {
    AHEAD_MS.load(Ordering::Relaxed)
}

/// The computer's own clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(
            clippy::disallowed_methods,
            reason = "the only place that reads the clock"
        )]
        let now = jiff::Timestamp::now();
        let now = Timestamp(now.as_microsecond());
        #[cfg(feature = "testing")]
        let now = now.plus(std::time::Duration::from_millis(ahead()));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_day_that_programs_write_is_a_time() {
        let always = Timestamp::parse_rfc3339("9999-12-31T23:59:59Z").unwrap();
        assert!(always > Timestamp::parse_rfc3339("9999-12-29T00:00:00Z").unwrap());
        assert_ne!(always.to_string(), "out of range");
        assert_eq!(Timestamp::parse_rfc3339("9999-12-31 maybe"), None);
    }

    #[test]
    fn a_timestamp_can_be_formatted_and_parsed() {
        let moment = Timestamp::from_micros(1_763_172_000_123_456);
        assert_eq!(moment.to_string(), "2025-11-15T02:00:00.123456Z");
        assert_eq!(Timestamp::parse_rfc3339(&moment.to_string()), Some(moment));
    }

    #[test]
    fn parses_dates_in_all_formats() {
        for (given, wanted) in [
            ("2025-01-31", true),
            ("2025 01 31", true),
            ("2025-01-31T09:30:00", true),
            ("2025-01-31 09:30:00", true),
            ("2025 01 31T09 30 00", true),
            ("2025-01-31T09:30:00Z", true),
            ("2025-13-40", false),
            ("2025-02-29", false),
            ("2025-1-31", false),
            ("2025-01-31T25:00:00", false),
            ("0000-00-00", false),
            ("2025-W05", false),
            ("20250131", false),
            ("yesterday", false),
            ("", false),
        ] {
            assert_eq!(is_date(given), wanted, "{given}");
        }
    }

    #[test]
    fn rejects_invalid_timestamps() {
        for text in [
            "",
            "yesterday",
            "2025-13-40T00:00:00Z",
            "0000-00-00",
            "2025-01-01T00:00:00",
            "2025-01-01T00:00:00+99:99",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
        }
    }
}
