//! The identity of a request: its own id, and its position in the caller's trace (W3C trace
//! context).

use axum::http::{HeaderMap, HeaderValue};

use crate::base::ids::{new_span_id, new_uuid};

pub const REQUEST_ID: &str = "x-request-id";
pub const TRACEPARENT: &str = "traceparent";

/// The identity of a request.
#[derive(Debug, Clone)]
pub struct RequestIdentity {
    pub request_id: String,
    pub trace_id: String,
    span_id: String,
    sampled: bool,
}

impl RequestIdentity {
    /// Uses the caller's headers if they are well formed, and generates the rest.
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok());
        let usable = |id: &&str| {
            (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let request_id = given.filter(usable).map_or_else(new_uuid, str::to_owned);
        let parent = headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok())
            .and_then(parse_traceparent);

        let (trace_id, sampled) = parent.unwrap_or_else(|| (new_uuid().replace('-', ""), false));
        Self {
            request_id,
            trace_id,
            span_id: new_span_id(),
            sampled,
        }
    }

    /// The value to pass on to everything that this request causes.
    pub fn traceparent(&self) -> String {
        format!(
            "00-{}-{}-0{}",
            self.trace_id,
            self.span_id,
            u8::from(self.sampled)
        )
    }

    /// The headers that identify the response.
    pub fn write(&self, headers: &mut HeaderMap) {
        let traceparent = self.traceparent();
        for (name, value) in [(REQUEST_ID, &self.request_id), (TRACEPARENT, &traceparent)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
    }
}

fn parse_traceparent(text: &str) -> Option<(String, bool)> {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length| {
        part.len() == length
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };

    let [version, trace, span, flags, rest @ ..] = parts.as_slice() else {
        return None;
    };
    let known = hex(version, 2) && *version != "ff" && (*version != "00" || rest.is_empty());
    let filled = |part: &str| part.bytes().any(|b| b != b'0');
    if !(known && hex(trace, 32) && hex(span, 16) && hex(flags, 2) && filled(trace) && filled(span))
    {
        return None;
    }

    Some((
        (*trace).to_owned(),
        u8::from_str_radix(flags, 16).ok()? & 1 == 1,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_well_formed_traces() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(parse_traceparent(&good), Some((trace.to_owned(), true)));

        for bad in [
            "",
            "00",
            "nonsense",
            &good.replace("00-0", "ff-0"),
            &good.replace(trace, &"0".repeat(32)),
            &good.to_uppercase(),
            &format!("{good}-extra"),
        ] {
            assert_eq!(parse_traceparent(bad), None, "{bad}");
        }
    }
}
