//! Named facts at the start of a text: front matter, mail headers, bylines. Guarantees that only
//! the first lines are read, and that prose is not taken for a header.

/// Number of lines at the start that may be headers.
const HEAD: usize = 40;

/// Fields in the order in which they were found; names are lower-case.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    fields: Vec<(String, String)>,
}

impl Headers {
    pub fn read(text: &str) -> Self {
        let mut headers = Self::default();
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let matter = text.starts_with("---");

        for (at, line) in text.lines().take(HEAD).enumerate() {
            let line = line.trim();
            if matter && at > 0 && (line == "---" || line == "...") {
                break;
            }

            headers.read_line(line, at);
        }

        headers
    }

    fn read_line(&mut self, line: &str, at: usize) {
        if let Some((name, value)) = line.split_once(':') {
            let name = name
                .trim_start_matches(['#', '*', ' '])
                .trim_end_matches('*')
                .trim()
                .to_lowercase();

            let value = value.trim().trim_matches(['"', '\'', '[', ']', '*', ' ']);
            let plain = name.len() <= 20 && name.split(' ').count() <= 2 && !value.is_empty();
            if plain
                && name
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ')
            {
                self.fields.push((name, value.to_string()));
            }
        }

        if let Some(heading) = line.strip_prefix("# ") {
            self.fields
                .push(("heading".into(), heading.trim().to_string()));
        }

        if at < 12 {
            self.read_byline(line);
        }
    }

    /// "By Jane Doe", "Written by Jane Doe", "[Title by Jane Doe 1865]".
    fn read_byline(&mut self, line: &str) {
        let line = line.trim_matches(['[', ']', '*', '_', ' ']);
        let lower = line.to_lowercase();
        let Some(at) = lower
            .rfind("by ")
            .filter(|at| lower.is_char_boundary(*at) && lower.len() == line.len())
        else {
            return;
        };

        let opens = at == 0
            || ["written ", "posted ", "author "]
                .iter()
                .any(|p| lower[..at] == **p);

        let (name, year) = split_year(line[at + 3..].trim_end_matches(['.', ',']));
        let titled = at > 1 && lower[..at].ends_with(' ') && year.is_some();
        if (opens || titled) && is_person(name) {
            self.fields.push(("byline".into(), name.to_string()));
            if let Some(year) = year {
                self.fields.push(("year".into(), year.to_string()));
            }

            if titled {
                self.fields
                    .push(("heading".into(), line[..at].trim().to_string()));
            }
        }
    }

    /// The first field with one of these names, by the order of the names.
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| {
            self.fields
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value.as_str())
        })
    }
}

fn split_year(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once([' ', ',']) {
        Some((name, year)) if year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()) => {
            (name.trim_end_matches([',', ' ']), Some(year))
        }
        _ => (text, None),
    }
}

/// Two to four words, each with a capital.
fn is_person(name: &str) -> bool {
    let words: Vec<&str> = name.split_whitespace().collect();
    let capital = |w: &&str| {
        w.chars().next().is_some_and(char::is_uppercase)
            || matches!(*w, "de" | "van" | "von" | "la")
    };

    (2..=4).contains(&words.len())
        && words.iter().all(capital)
        && !name.contains(|c: char| c.is_ascii_digit())
}

/// The readable part of "Jane Doe <jane@x.org>" or "jane@x.org (Jane Doe)".
pub fn person(value: &str) -> Option<String> {
    let inside = |open: char, close: char| {
        let from = value.find(open)? + open.len_utf8();
        let to = value[from..].find(close)? + from;
        Some(value[from..to].trim())
    };

    let before = value
        .split('<')
        .next()
        .unwrap_or("")
        .trim()
        .trim_matches(['"', '\'', ' ', ',']);

    let candidates = [
        inside('(', ')').filter(|_| before.contains('@')),
        Some(before),
        inside('<', '>'),
    ];

    let name = candidates.into_iter().flatten().find(|c| !c.is_empty())?;
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(name.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_names_of_people() {
        for (value, wanted) in [
            ("Jane Doe <jane@x.org>", Some("Jane Doe")),
            ("jane@x.org (Jane Doe)", Some("Jane Doe")),
            ("<jane@x.org>", Some("jane@x.org")),
            ("\"Doe, Jane\" <jane@x.org>", Some("Doe, Jane")),
            ("", None),
        ] {
            assert_eq!(person(value).as_deref(), wanted);
        }
    }

    #[test]
    fn reads_the_headers_of_texts() {
        let fields = ["author", "from", "byline"];
        for (text, wanted) in [
            (
                "---\ntitle: X\nauthor: Ann Lee\n---\nFrom: nobody",
                Some("Ann Lee"),
            ),
            (
                "From: bob@x.org (Bob Ray)\nSubject: Oil\n\nText",
                Some("bob@x.org (Bob Ray)"),
            ),
            ("The Tides\nBy Mary Jane Poe\n\nText", Some("Mary Jane Poe")),
            (
                "[Moby Dick by Herman Melville 1851]",
                Some("Herman Melville"),
            ),
            ("He was struck by the Great Storm", None),
            ("It stood by the sea: a house", None),
        ] {
            assert_eq!(Headers::read(text).first(&fields), wanted, "{text}");
        }
    }
}
