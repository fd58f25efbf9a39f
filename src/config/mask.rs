//! Masks secrets: everything that is printed, logged or put into a message passes through here.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// The replacement for a secret.
pub const MASK: &str = "***";

/// Keys with secret values. Each may be given by a file, under the same name with `_file`.
pub const SECRETS: &[&str] = &[
    "database.url",
    "auth.keys",
    "workbench.reranker_key",
    "workbench.nli_key",
];

/// A string that is never displayed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The string itself, for authentication only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// The tree with its secrets masked.
pub fn printable(tree: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = tree.clone();
    if let Some(Value::String(url)) = shown
        .get_mut("database")
        .and_then(|section| section.get_mut("url"))
    {
        *url = mask_url(url);
    }
    let keys = shown
        .get_mut("auth")
        .and_then(|section| section.get_mut("keys"))
        .and_then(Value::as_array_mut);

    for entry in keys.into_iter().flatten() {
        match entry.as_object_mut() {
            Some(fields) => mask_fields(fields),
            None => *entry = MASK.into(),
        }
    }

    let providers = shown
        .get_mut("llm")
        .and_then(|llm| llm.get_mut("providers"))
        .and_then(Value::as_object_mut);

    for (_, entry) in providers.into_iter().flatten() {
        mask_provider(entry);
    }

    if let Some(defaults) = shown
        .get_mut("llm")
        .and_then(|llm| llm.get_mut("provider_defaults"))
    {
        mask_provider(defaults);
    }
    if let Some(Value::String(url)) = shown
        .get_mut("telemetry")
        .and_then(|section| section.get_mut("otlp_endpoint"))
    {
        mask_plain_url(url);
    }

    mask_workbench(&mut shown);
    shown
}

fn mask_workbench(shown: &mut Map<String, Value>) {
    let section = shown.get_mut("workbench").and_then(Value::as_object_mut);
    for (name, value) in section.into_iter().flatten() {
        match value {
            Value::String(key) if name.ends_with("_key") && !key.is_empty() => *value = MASK.into(),
            Value::String(url) if name.ends_with("_url") => mask_plain_url(url),
            _ => {}
        }
    }
}

/// Masks the key of a provider, the values of its headers, and a password in its address.
fn mask_provider(entry: &mut Value) {
    let Some(fields) = entry.as_object_mut() else {
        return;
    };
    if let Some(key) = fields
        .get_mut("api_key")
        .filter(|key| key.as_str() != Some(""))
    {
        *key = MASK.into();
    }
    for (_, value) in fields
        .get_mut("headers")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        *value = MASK.into();
    }
    if let Some(Value::String(url)) = fields.get_mut("base_url") {
        mask_plain_url(url);
    }
}

/// Leaves an address unchanged unless it contains a secret.
fn mask_plain_url(url: &mut String) {
    if url.contains(['@', '?']) {
        *url = mask_url(url);
    }
}

/// A value in the form in which a message about its key may show it.
pub fn shown(key: &str, given: &str) -> String {
    match key {
        "database.url" => mask_url(given.trim_matches('"')),
        _ if key.starts_with("auth.keys")
            && !matches!(
                key.rsplit('.').next(),
                Some("name" | "role" | "space" | "expires")
            ) =>
        {
            MASK.to_owned()
        }
        _ if key.starts_with("llm.provider")
            && ["api_key", "headers"].iter().any(|name| key.contains(name)) =>
        {
            MASK.to_owned()
        }
        _ => given.to_owned(),
    }
}

/// The message of a parser as a rule for the value. It does not quote the value, which may be a
/// secret.
pub fn rule(key: &str, said: &str) -> String {
    let secret =
        SECRETS.iter().any(|secret| key.starts_with(secret)) || key.starts_with("llm.provider");
    if secret && said.starts_with("invalid") {
        return "a value such as the one in the example".to_owned();
    }

    let allowed = said
        .strip_prefix("unknown variant ")
        .and_then(|rest| rest.split_once(", expected "));
    allowed.map_or(said, |(_, allowed)| allowed).to_owned()
}

fn mask_fields(fields: &mut Map<String, Value>) {
    for (name, value) in fields {
        if !matches!(
            name.as_str(),
            "name"
                | "space"
                | "role"
                | "key_file"
                | "expires"
                | "requests_per_minute"
                | "models"
                | "day"
        ) {
            *value = MASK.into();
        }
    }
}

/// A connection string without its password, wherever the password is.
pub fn mask_url(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else {
        // Not a URL: anything except the scheme may be a secret.
        return text
            .split_once(':')
            .map_or(MASK.to_owned(), |(scheme, _)| format!("{scheme}:{MASK}"));
    };

    if url.password().is_some() {
        let _ = url.set_password(Some(MASK));
    }

    if url.query().is_some() {
        let pairs: Vec<(String, String)> = url
            .query_pairs()
            .map(|(name, value)| {
                let name_key = name.to_ascii_lowercase();
                let secret = ["password", "key", "token", "secret", "sig"]
                    .iter()
                    .any(|word| name_key.contains(word));
                (
                    name.into_owned(),
                    if secret {
                        MASK.to_owned()
                    } else {
                        value.into_owned()
                    },
                )
            })
            .collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }

    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_of_a_connection_string_is_masked() {
        for (given, shown) in [
            (
                "postgres://me:s3cret@db:5432/memoir",
                "postgres://me:***@db:5432/memoir",
            ),
            ("mysql://me@db/memoir", "mysql://me@db/memoir"),
            (
                "postgres://db/memoir?user=me&password=s3cret",
                "postgres://db/memoir?user=me&password=***",
            ),
            ("sqlite://memoir.db", "sqlite://memoir.db"),
            ("postgres://me:s3cret@db:notaport/x", "postgres:***"),
            ("s3cret", "***"),
        ] {
            assert_eq!(mask_url(given), shown);
        }
    }
}
