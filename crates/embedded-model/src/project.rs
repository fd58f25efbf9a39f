//! The project that a changelog or a similar file belongs to: by its file name, its folder, or the
//! repository that it refers to most. Guarantees linear time.

use std::collections::BTreeMap;

use super::collection;
use super::outline::OutlineInput;
use super::title::from_file_name;

/// Hosts of repositories, before the owner and the name of one.
const HOSTS: [&str; 3] = ["github.com/", "gitlab.com/", "codeberg.org/"];
/// References from which on a repository is the project's own.
const MIN_REFERENCES: usize = 2;
/// Bytes of a text that are read for references.
const READ: usize = 60_000;

/// The name of the project, if it is known.
pub fn name(input: &OutlineInput<'_>) -> Option<String> {
    by_file_name(input)
        .or_else(|| collection::telling_folder(input))
        .or_else(|| by_references(input.text))
}

/// "tokio-CHANGELOG.md" as "Tokio".
fn by_file_name(input: &OutlineInput<'_>) -> Option<String> {
    let name = from_file_name(input.filename.or(input.path)?)?;
    let is_kind = |word: &&str| collection::is_project_file(word);
    let others: Vec<&str> = name.split(' ').filter(|word| !is_kind(word)).collect();
    let telling = name.split(' ').any(|word| is_kind(&word)) && !others.is_empty();
    telling.then(|| others.join(" "))
}

/// The repository that most links lead to.
fn by_references(text: &str) -> Option<String> {
    let mut end = text.len().min(READ);
    while !text.is_char_boundary(end) {
        end -= 1;
    }

    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for host in HOSTS {
        for (at, _) in text[..end].match_indices(host) {
            let mut parts = text[at + host.len()..end].split('/');
            let repository = parts.nth(1).unwrap_or_default();
            let length = repository
                .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
                .unwrap_or(repository.len());
            let repository = repository[..length].trim_end_matches(".git");
            if !repository.is_empty() {
                *counts.entry(repository).or_default() += 1;
            }
        }
    }

    let (name, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (count >= MIN_REFERENCES).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(path: &str, text: &str) -> Option<String> {
        name(&OutlineInput {
            filename: None,
            path: Some(path),
            title: None,
            text,
            headings: &[],
            chunks: &[],
            depth: 3,
            most_sections: 8,
        })
    }

    #[test]
    fn finds_the_project_of_a_changelog() {
        let links =
            "- One (https://github.com/a/lamp/pull/1)\n- Two (https://github.com/a/lamp/pull/2)\n";
        for (path, text, wanted) in [
            ("/harbour-CHANGELOG.md", links, Some("Harbour")),
            ("/src/harbour/CHANGELOG.md", links, Some("Harbour")),
            ("/CHANGELOG.md", links, Some("lamp")),
            ("/CHANGELOG.md", "- See https://github.com/", None),
        ] {
            assert_eq!(project(path, text).as_deref(), wanted, "{path}");
        }
    }
}
