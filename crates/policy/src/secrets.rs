//! Redaction of keys and tokens alone, whatever a policy says. It takes linear time.

use std::sync::LazyLock;

use super::built_in::BuiltIn;
use super::finder::Finder;
use super::patterns::merged;
use super::time_limit::TimeLimit;

/// The built-in patterns for keys and tokens.
pub const PATTERNS: [BuiltIn; 3] = [BuiltIn::ApiKey, BuiltIn::BearerToken, BuiltIn::PrivateKey];
const REPLACEMENT: &str = "[REDACTED]";

static FINDERS: LazyLock<[Finder; 3]> = LazyLock::new(|| PATTERNS.map(BuiltIn::finder));

/// The text without keys and tokens; `None` if it has none.
#[must_use]
pub fn redact(text: &str) -> Option<String> {
    let mut found = Vec::new();
    for finder in FINDERS.iter() {
        // Without a limit, a search ends by itself.
        let _ = finder.find(text, TimeLimit::NONE, &mut found);
    }

    if found.is_empty() {
        return None;
    }

    let mut redacted = String::with_capacity(text.len());
    let mut rest = 0;
    for range in merged(found) {
        redacted.push_str(&text[rest..range.start]);
        redacted.push_str(REPLACEMENT);
        rest = range.end;
    }

    redacted.push_str(&text[rest..]);
    Some(redacted)
}

/// Redacts a text in place; returns whether it had keys or tokens.
pub fn redact_in_place(text: &mut String) -> bool {
    match redact(text) {
        Some(redacted) => {
            *text = redacted;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_keys_and_tokens_and_nothing_else() {
        let key = format!("sk-{}", "a1B2".repeat(6));
        let text = format!("My key is {key}, my card 4111111111111111, my mail a@example.org.");
        let redacted = redact(&text).unwrap();
        assert_eq!(
            redacted,
            "My key is [REDACTED], my card 4111111111111111, my mail a@example.org."
        );
        assert_eq!(redact(&redacted), None);

        let private = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----";
        let text = format!("Authorization: Bearer abcdefghijklmnop\n{private}\nend");
        assert_eq!(
            redact(&text).unwrap(),
            "Authorization: [REDACTED]\n[REDACTED]\nend"
        );
    }
}
