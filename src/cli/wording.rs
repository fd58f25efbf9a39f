//! Words a problem document for the command line: flags and commands instead of fields, headers and
//! routes.

/// The flag for a field of a request, where the names differ.
const FLAGS: [(&str, &str); 10] = [
    ("filters.user_id", "--user"),
    ("filters.as_of", "--as-of"),
    ("filters.category_id", "--category"),
    ("filters.source_ids", "--source"),
    ("user_id", "--user"),
    ("as_of", "--as-of"),
    ("max_token_budget", "--budget"),
    ("max_tokens", "--max-tokens"),
    ("min_score", "--min-score"),
    ("strategy", "--strategy"),
];

/// What the service says, and what the command line says instead. The order matters: an earlier
/// entry may contain a later one.
const WORDS: [(&str, &str); 14] = [
    (
        "Send the header Authorization: Bearer KEY with a key",
        "Set --key (or MEMOIR_KEY) to a key",
    ),
    (
        "the Authorization header does not have the form Bearer KEY",
        "--key (or MEMOIR_KEY) is empty or contains a space",
    ),
    ("the header X-Memoir-Space", "--space"),
    ("X-Memoir-Space", "--space"),
    ("must be sent once, as 1 to 64", "must be 1 to 64"),
    ("the time given in Retry-After", "a minute"),
    (
        "Correct the fields listed in errors; /docs describes each field.",
        "Correct the flag; --help describes every flag.",
    ),
    (
        "List the sources with GET /v1/sources",
        "List the sources with memoir list",
    ),
    ("(POST /v1/ingestions)", "(memoir ingest)"),
    ("(DELETE /v1/categories/{id}?into=…)", "(--into)"),
    (
        "(GET /v1/categories/changes)",
        "(memoir categories changes)",
    ),
    (
        "no source matches meta.filename, and strict is set",
        "no source has this file name",
    ),
    (", and strict is set", ""),
    (
        "or omit strict: the response then lists the ignored filters in relaxed.",
        "or add --relax to ignore those that match nothing.",
    ),
];

/// The text of a problem in terms of the command line.
pub fn for_command_line(text: &str) -> String {
    let flagged = FLAGS.iter().find_map(|(field, flag)| {
        let rest = text.strip_prefix(field)?;
        rest.starts_with(':').then(|| format!("{flag}{rest}"))
    });

    let text = flagged.unwrap_or_else(|| text.to_owned());
    WORDS
        .iter()
        .fold(text, |text, (said, meant)| text.replace(said, meant))
}

#[cfg(test)]
mod tests {
    use super::for_command_line;

    #[test]
    fn names_flags_and_commands() {
        let cases = [
            (
                "filters.as_of: must be a timestamp\n  Correct the fields listed in errors; /docs describes each field.",
                "--as-of: must be a timestamp\n  Correct the flag; --help describes every flag.",
            ),
            (
                "X-Memoir-Space: must be sent once, as 1 to 64 characters",
                "--space: must be 1 to 64 characters",
            ),
            (
                "Check that the header X-Memoir-Space names the right space.",
                "Check that --space names the right space.",
            ),
            ("k: must be from 1 to 50", "k: must be from 1 to 50"),
            (
                "min_score: must be from 0 to 1",
                "--min-score: must be from 0 to 1",
            ),
        ];
        for (said, wanted) in cases {
            assert_eq!(for_command_line(said), wanted);
        }
    }
}
