//! Reads how long a provider asks us to wait, in all the forms that providers use.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use crate::base::clock::Timestamp;

/// From the headers, otherwise from the body of the error.
pub fn retry_after(headers: &HeaderMap, body: &str, now: Timestamp) -> Option<Duration> {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };

    if let Some(ms) = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return seconds(ms / 1000.0);
    }

    let named = header("retry-after").and_then(|text| match text.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => until(text, now),
    });

    named
        .or_else(|| retry_info(body))
        .or_else(|| try_again_in(body))
}

/// A number that is too large for a duration is a very long wait.
fn seconds(number: f64) -> Option<Duration> {
    (!number.is_nan())
        .then(|| Duration::try_from_secs_f64(number.max(0.0)).unwrap_or(Duration::MAX))
}

/// An HTTP date in any of its three forms; a date in the past means no wait.
fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let moment = httpdate::parse_http_date(date).ok()?;
    let now =
        SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(now.as_micros()).unwrap_or(0));
    Some(moment.duration_since(now).unwrap_or_default())
}

/// Google's `RetryInfo`: `"retryDelay": "37s"`.
fn retry_info(body: &str) -> Option<Duration> {
    let rest = body.split("\"retryDelay\"").nth(1)?;
    let quoted = rest.split('"').nth(1)?;
    seconds(quoted.strip_suffix('s')?.parse().ok()?)
}

/// OpenAI's sentence: "Please try again in 1.2s", or in 250ms, or in 1m3s.
fn try_again_in(body: &str) -> Option<Duration> {
    let rest = body.split("try again in ").nth(1)?;
    let word = rest.split([' ', '"', ',']).next()?.trim_end_matches('.');
    if let Some(ms) = word.strip_suffix("ms") {
        return seconds(ms.parse::<f64>().ok()? / 1000.0);
    }

    let word = word.strip_suffix('s')?;
    match word.split_once('m') {
        Some((minutes, left)) => seconds(
            minutes
                .parse::<f64>()
                .ok()?
                .mul_add(60.0, left.parse().ok()?),
        ),
        None => seconds(word.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers = &'static [(&'static str, &'static str)];

    #[test]
    fn reads_every_form_of_retry_after() {
        let now = Timestamp::parse_rfc3339("2026-11-15T12:00:00Z").unwrap();
        let cases: &[(Headers, &str, Option<u64>)] = &[
            (&[("retry-after", "2")], "", Some(2000)),
            (&[("retry-after", "0.5")], "", Some(500)),
            (
                &[("retry-after-ms", "250"), ("retry-after", "9")],
                "",
                Some(250),
            ),
            (
                &[("retry-after", "Sun, 15 Nov 2026 12:00:07 GMT")],
                "",
                Some(7000),
            ),
            (
                &[("retry-after", "Sun, 15 Nov 2026 11:00:00 GMT")],
                "",
                Some(0),
            ),
            (
                &[("retry-after", "Sunday, 15-Nov-26 12:00:07 GMT")],
                "",
                Some(7000),
            ),
            (
                &[("retry-after", "Sun Nov 15 12:00:07 2026")],
                "",
                Some(7000),
            ),
            (&[("retry-after", "-3")], "", Some(0)),
            (&[("retry-after", "NaN")], "", None),
            (&[("retry-after", "soon")], "", None),
            (
                &[],
                r#"{"error":{"details":[{"@type":"x.RetryInfo","retryDelay":"37s"}]}}"#,
                Some(37_000),
            ),
            (
                &[],
                r#"{"error":{"message":"Rate limit. Please try again in 1.5s."}}"#,
                Some(1500),
            ),
            (&[], "try again in 250ms", Some(250)),
            (&[], "try again in 1m3s", Some(63_000)),
            (&[], "busy", None),
        ];

        for (headers, body, wanted) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in *headers {
                map.insert(
                    reqwest::header::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    value.parse().unwrap(),
                );
            }

            assert_eq!(
                retry_after(&map, body, now),
                wanted.map(Duration::from_millis),
                "{headers:?} {body}"
            );
        }

        for absurd in ["1e23", "inf"] {
            let map =
                HeaderMap::from_iter([(reqwest::header::RETRY_AFTER, absurd.parse().unwrap())]);
            assert_eq!(retry_after(&map, "", now), Some(Duration::MAX), "{absurd}");
        }
    }
}
