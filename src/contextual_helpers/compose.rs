//! A helper in the user's words: checked field by field, and composed into one paragraph.

use memoir_policy::secrets::redact_in_place;
use memoir_text::field_error::FieldError;
use memoir_text::text::{char_count, has_control_but_breaks, one_line};
use memoir_text::tokens::TokenCounter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::is_date;
use crate::llm::tasks::helper::{HelperOutput, MAX_TOKENS};
use crate::model::contextual_helper::{HelperOrigin, NewHelper};

/// Maximum tokens of a description.
const MAX_DESCRIPTION_TOKENS: usize = 200;
/// A longer text need not be counted.
const MAX_CHARS: usize = 20_000;
/// The value of a field that the user does not know.
const UNKNOWN: &str = "unknown";

/// What you know about a source. All four fields are required; `unknown` is a valid value for each.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = HelperFieldsRequest, example = json!({"date": "2024-05-01", "author": "Ada Example", "topic": "Lighthouses", "description": "unknown"}))]
pub struct HelperFields {
    /// When the source was created: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`.
    #[schema(required, value_type = String)]
    pub date: Option<String>,
    /// Who created it.
    #[schema(required, value_type = String)]
    pub author: Option<String>,
    /// What it is about.
    #[schema(required, value_type = String)]
    pub topic: Option<String>,
    /// What it is, in at most 200 tokens.
    #[schema(required, value_type = String)]
    pub description: Option<String>,
}

impl HelperFields {
    /// Redacts keys and tokens.
    pub fn redact_secrets(&mut self) {
        let fields = [
            &mut self.date,
            &mut self.author,
            &mut self.topic,
            &mut self.description,
        ];
        for field in fields.into_iter().flatten() {
            redact_in_place(field);
        }
    }
}

/// What is wrong with a helper.
#[derive(Debug)]
pub struct Refused {
    pub errors: Vec<FieldError>,
    /// Only an invalid date.
    pub bad_date: bool,
}

impl From<FieldError> for Refused {
    fn from(error: FieldError) -> Self {
        Self {
            errors: vec![error],
            bad_date: false,
        }
    }
}

/// Checks the fields and composes the paragraph.
///
/// # Errors
/// Every field that violates a rule.
pub fn compose(fields: &HelperFields) -> Result<NewHelper, Refused> {
    let mut errors = Vec::new();
    let mut known = |name: &str, value: &Option<String>| -> Option<String> {
        let Some(value) = value.as_deref().filter(|value| !value.trim().is_empty()) else {
            errors.push(FieldError::new(
                name,
                format!("is required; use {UNKNOWN:?} if it is not known"),
            ));
            return None;
        };
        if let Some(fault) = text_fault(value) {
            errors.push(FieldError::new(name, fault));
            return None;
        }
        let value = one_line(value);
        (!value.eq_ignore_ascii_case(UNKNOWN)).then_some(value)
    };

    let given_date = known("date", &fields.date);
    let author = known("author", &fields.author);
    let topic = known("topic", &fields.topic);
    let description = known("description", &fields.description);
    // Kept as the user wrote it.
    let date = given_date.clone().filter(|date| is_date(date));
    let bad_date = given_date.is_some() && date.is_none() && errors.is_empty();

    if given_date.is_some() && date.is_none() {
        let rule = "must be a valid date such as 2025-01-31 or 2025-01-31T09:30:00, or unknown";
        errors.push(FieldError::new("date", rule));
    }

    let tokens = |text: &str| TokenCounter::for_model(None).count(text);
    if let Some(count) = description
        .as_deref()
        .map(tokens)
        .filter(|count| *count > MAX_DESCRIPTION_TOKENS)
    {
        let rule = format!("has {count} tokens; the maximum is {MAX_DESCRIPTION_TOKENS}");
        errors.push(FieldError::new("description", rule));
    }

    if !errors.is_empty() {
        let bad_date = bad_date && errors.len() == 1;
        return Err(Refused { errors, bad_date });
    }

    let summary = description.clone().unwrap_or_default();
    let output = HelperOutput {
        author: author.clone(),
        date: date.clone(),
        topic: topic.clone(),
        summary,
    };

    let text = output.paragraph().trim().to_owned();
    let token_count = checked_tokens("description", &text)?;
    let origin = HelperOrigin::User;
    Ok(NewHelper {
        text,
        origin,
        author,
        date,
        topic,
        description,
        token_count,
        tokens_prompt: 0,
        tokens_completion: 0,
    })
}

/// A helper as free text.
///
/// # Errors
/// It is empty, too long, or contains invalid characters.
pub fn from_text(field: &str, text: &str) -> Result<NewHelper, FieldError> {
    if text.trim().is_empty() {
        return Err(FieldError::new(field, "must not be empty"));
    }

    if let Some(fault) = text_fault(text) {
        return Err(FieldError::new(field, fault));
    }

    let text = one_line(text);
    let token_count = checked_tokens(field, &text)?;
    Ok(NewHelper {
        text,
        origin: HelperOrigin::User,
        author: None,
        date: None,
        topic: None,
        description: None,
        token_count,
        tokens_prompt: 0,
        tokens_completion: 0,
    })
}

fn text_fault(text: &str) -> Option<String> {
    if char_count(text) > MAX_CHARS {
        return Some(format!("must have at most {MAX_CHARS} characters"));
    }
    has_control_but_breaks(text).then(|| "must not contain control characters".to_owned())
}

fn checked_tokens(field: &str, text: &str) -> Result<i64, FieldError> {
    let count = TokenCounter::for_model(None).count(text);
    if count > MAX_TOKENS {
        let rule = format!("the whole paragraph has {count} tokens; the maximum is {MAX_TOKENS}");
        return Err(FieldError::new(field, rule));
    }

    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(date: &str, author: &str, topic: &str, description: &str) -> HelperFields {
        let some = |text: &str| Some(text.to_owned());
        HelperFields {
            date: some(date),
            author: some(author),
            topic: some(topic),
            description: some(description),
        }
    }

    #[test]
    fn unknown_fields_are_omitted_from_the_paragraph() {
        let helper = compose(&fields("2025 01 31", "Ada", "unknown", "About\nengines.")).unwrap();
        assert_eq!(helper.text, "Author: Ada. Date: 2025 01 31. About engines.");
        assert_eq!(helper.origin, HelperOrigin::User);
        assert_eq!(
            compose(&fields("unknown", "Unknown", "unknown", "unknown"))
                .unwrap()
                .text,
            ""
        );
    }

    #[test]
    fn invalid_fields_are_named() {
        let long = "word ".repeat(201);
        let topic = "topic ".repeat(150);
        let near = "word ".repeat(200);

        for (given, wanted) in [
            (
                HelperFields {
                    author: None,
                    ..fields("unknown", "", "x", "x")
                },
                vec!["author"],
            ),
            (
                HelperFields::default(),
                vec!["date", "author", "topic", "description"],
            ),
            (fields("2025-13-40", "x", "x", "x"), vec!["date"]),
            (fields("yesterday", "x", "x", "x"), vec!["date"]),
            (fields("unknown", "x", "x", &long), vec!["description"]),
            (
                fields("unknown", "x", &topic, near.trim()),
                vec!["description"],
            ),
            (fields("unknown", "a\u{7}", "x", "x"), vec!["author"]),
        ] {
            let Refused { errors, bad_date } = compose(&given).unwrap_err();
            assert_eq!(bad_date, wanted == ["date"], "{given:?}");
            assert_eq!(
                errors
                    .iter()
                    .map(|error| error.field.as_str())
                    .collect::<Vec<_>>(),
                wanted,
                "{given:?}"
            );
        }

        assert!(
            compose(&fields("unknown", "x", "x", near.trim())).is_ok(),
            "200 tokens are fine"
        );
    }

    #[test]
    fn free_text_has_a_limit() {
        assert_eq!(
            from_text("contextual_helper", " A\n letter. ")
                .unwrap()
                .text,
            "A letter."
        );

        assert!(from_text("contextual_helper", &"word ".repeat(301)).is_err());
        assert!(from_text("contextual_helper", "  ").is_err());
    }
}
