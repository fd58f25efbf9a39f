//! Finds the codes and the message in the body of a provider's error, whatever its format.

use serde_json::Value;

/// Our own code for an error that lists why a text was blocked (`OpenRouter`).
pub(super) const MODERATED: &str = "moderated";

/// Maximum characters of an error message that are kept.
const MAX_MESSAGE: usize = 500;

/// The codes in an error body: code, type, status, reasons.
pub fn codes_of(body: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = if value.is_array() {
        &value[0]["error"]
    } else {
        &value["error"]
    };

    let reasons = error["details"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|detail| &detail["reason"]);

    let members = ["code", "type", "status"]
        .into_iter()
        .map(|member| &error[member])
        .chain(reasons);

    let mut codes: Vec<String> = members
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();

    if error["metadata"]["reasons"].is_array() || error["metadata"]["flagged_input"].is_string() {
        codes.push(MODERATED.to_owned());
    }

    codes
}

/// The message in an error body: `error.message`, `error`, `detail`, `message`, or plain text.
/// Other JSON is omitted, because servers quote the request in it, including the prompt.
pub fn message_of(body: &str) -> String {
    let message = match serde_json::from_str::<Value>(body) {
        // Gemini's streams wrap errors in a list.
        Ok(Value::Array(list)) => list.first().map(message_in).unwrap_or_default(),
        Ok(value) => message_in(&value),
        Err(_) => body.trim().to_owned(),
    };
    message
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_MESSAGE)
        .collect()
}

fn message_in(value: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let error = &value["error"];
    let code = text(&error["code"])
        .or_else(|| text(&error["status"]))
        .or_else(|| text(&error["type"]));

    // FastAPI lists its errors, each with a quotation of the input.
    let listed = || {
        let list = value["detail"].as_array()?.iter();
        Some(
            list.map(|item| {
                format!(
                    "{} at {}",
                    item["msg"].as_str().unwrap_or("wrong"),
                    item["loc"]
                )
            })
            .collect::<Vec<_>>(),
        )
    };

    let message = text(&error["message"])
        .or_else(|| text(error))
        .or_else(|| text(&value["detail"]));
    let message = message
        .or_else(|| text(&value["message"]))
        .or_else(|| Some(listed()?.join("; ")));
    match (message, code) {
        (Some(message), Some(code)) => format!("{message} ({code})"),
        (message, code) => message.or(code).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_message_in_every_error_format() {
        for (body, wanted) in [
            (r#"{"error":{"message":"no","code":"bad"}}"#, "no (bad)"),
            (
                r#"{"error":{"message":"no","type":"overloaded_error"}}"#,
                "no (overloaded_error)",
            ),
            (
                r#"[{"error":{"message":"no","status":"INVALID_ARGUMENT"}}]"#,
                "no (INVALID_ARGUMENT)",
            ),
            (r#"{"error":"text"}"#, "text"),
            (r#"{"detail":"nope"}"#, "nope"),
            (r#"{"message":"nope"}"#, "nope"),
            (
                r#"{"detail":[{"msg":"bad","loc":["body",1],"input":"the prompt"}]}"#,
                r#"bad at ["body",1]"#,
            ),
            (r#"{"weird":"the prompt"}"#, ""),
            ("busy\n", "busy"),
            ("", ""),
        ] {
            assert_eq!(message_of(body), wanted, "{body}");
        }
        assert_eq!(message_of(&"x".repeat(10_000)).len(), MAX_MESSAGE);
    }
}
