//! The id of an end user as requests name it: white space around it does not count, wherever it
//! stands.

use serde::{Deserialize as _, Deserializer};

/// The end user of a request that names none.
pub const DEFAULT: &str = "default";
/// Maximum characters of an id.
pub const MAX_CHARS: usize = 128;

/// Reads the id of an end user from a request; every field with one uses it.
///
/// # Errors
/// It is not a text.
pub fn trimmed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let given = Option::<String>::deserialize(deserializer)?;
    Ok(given.map(|user_id| user_id.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    #[derive(serde::Deserialize)]
    struct Request {
        #[serde(default, deserialize_with = "super::trimmed")]
        user_id: Option<String>,
    }

    #[test]
    fn white_space_around_an_id_does_not_count() {
        for (given, wanted) in [
            (r#"{"user_id": " ann\u00a0"}"#, Some("ann")),
            (r#"{"user_id": null}"#, None),
            ("{}", None),
        ] {
            let request: Request = serde_json::from_str(given).unwrap();
            assert_eq!(request.user_id.as_deref(), wanted, "{given}");
        }
    }
}
