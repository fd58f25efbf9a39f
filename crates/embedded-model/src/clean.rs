//! Removes the parts of a text that say nothing about its subject: mail routing headers,
//! attribution lines, signatures, addresses and lines of dashes. Guarantees slices of the text in
//! order, and the whole of a plain text.

/// Header fields that name people and machines rather than the subject.
const ROUTING: [&str; 22] = [
    "from",
    "to",
    "cc",
    "bcc",
    "reply-to",
    "sender",
    "date",
    "sent",
    "received",
    "message-id",
    "in-reply-to",
    "references",
    "path",
    "xref",
    "newsgroups",
    "organization",
    "lines",
    "nntp-posting-host",
    "distribution",
    "x-newsreader",
    "content-type",
    "mime-version",
];

/// The lines of `text` that may show its subject.
pub fn telling_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut signature = false;
    text.lines().filter_map(move |line| {
        let bare = line
            .trim_start_matches(['>', '|', ':', ' ', '\t'])
            .trim_end();
        if line.trim_end() == "--" || line == "-- " {
            signature = true;
        } else if bare.is_empty() {
            signature = false;
        }

        let says = bare
            .chars()
            .any(|c| c.is_alphanumeric() || matches!(c, '{' | '}'));
        (!signature && says && !is_routing(bare) && !is_attribution(bare)).then_some(bare)
    })
}

fn is_routing(line: &str) -> bool {
    let Some((field, rest)) = line.split_once(':') else {
        return false;
    };
    let header = field.len() <= 20 && rest.starts_with([' ', '\t']);
    header && ROUTING.iter().any(|name| name.eq_ignore_ascii_case(field))
}

fn is_attribution(line: &str) -> bool {
    let starts = ["In article", "On Mon", "-----Original Message"];
    let ends = ["writes:", "wrote:", "writes...", "said:"];
    starts.iter().any(|s| line.starts_with(s))
        && (line.contains('@') || line.contains('<') || line.ends_with(':'))
        || ends.iter().any(|s| line.ends_with(s))
        || line.split_whitespace().count() <= 8
            && line.contains('@')
            && line.contains('.')
            && !line.contains(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_words_that_show_the_subject() {
        for (text, wanted) in [
            (
                "From: a@b.org\nSubject: Oil prices\n\nOil rose.",
                "Subject: Oil prices|Oil rose.",
            ),
            (
                "In article <1@x> joe@x.edu writes:\n> The orbit decays.\n-- \nJoe",
                "The orbit decays.",
            ),
            ("One\n\nTwo", "One|Two"),
            ("", ""),
        ] {
            let lines: Vec<_> = telling_lines(text).collect();
            assert_eq!(lines.join("|"), wanted);
        }
    }
}
