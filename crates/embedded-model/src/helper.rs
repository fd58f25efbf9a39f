//! The helper of a source: author, date, topic and a summary. Guarantees that facts come only from
//! front matter, headers, metadata or the file name, and that the summary consists of the source's
//! own sentences.

use memoir_text::headings::headings;
use memoir_text::sentences;

use super::dates;
use super::headers::{self, Headers};
use super::names;
use super::phrases;
use super::profile::Profile;
use super::rank;
use super::summarize;
use super::{HelperInput, HelperOutput};

/// Maximum words of a summary.
const SUMMARY_WORDS: usize = 110;
/// Number of bytes of the source that are read for the summary.
const READ: usize = 30_000;
/// Maximum characters of a topic.
const TOPIC: usize = 80;

/// Facts and summary of one source.
pub fn helper(input: &HelperInput<'_>) -> HelperOutput {
    let first = input.chunks.first().copied().unwrap_or("");
    let headers = Headers::read(first);
    let topic = topic(input, &headers);
    HelperOutput {
        author: author(input, &headers),
        date: date(input, &headers),
        summary: summary(input, topic.as_deref()),
        topic,
    }
}

fn metadata<'a>(input: &HelperInput<'a>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| {
        let found = input
            .metadata
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(key));
        found
            .map(|(_, value)| value.trim())
            .filter(|v| !v.is_empty())
    })
}

fn author(input: &HelperInput<'_>, headers: &Headers) -> Option<String> {
    let fields = [
        "author",
        "authors",
        "written by",
        "by",
        "from",
        "creator",
        "byline",
    ];

    let given = metadata(
        input,
        &[
            "author", "authors", "creator", "from", "by", "owner", "sender",
        ],
    );

    headers::person(given.or_else(|| headers.first(&fields))?)
}

fn date(input: &HelperInput<'_>, headers: &Headers) -> Option<String> {
    let fields = [
        "date",
        "published",
        "created",
        "sent",
        "updated",
        "modified",
    ];

    let keys = [
        "date",
        "published",
        "created",
        "created_at",
        "sent",
        "timestamp",
        "modified",
    ];

    let given = metadata(input, &keys).and_then(dates::iso);
    given
        .or_else(|| headers.first(&fields).and_then(dates::iso))
        .or_else(|| headers.first(&["year"]).map(String::from))
        .or_else(|| dates::iso(input.filename))
}

fn topic(input: &HelperInput<'_>, headers: &Headers) -> Option<String> {
    let given = metadata(input, &["topic", "subject", "category"])
        .or_else(|| headers.first(&["topic", "subject", "title"]))
        .or(input.title.filter(|t| !t.trim().is_empty()))
        .or_else(|| headers.first(&["heading"]));

    if let Some(given) = given.map(without_reply_marks).filter(|g| !g.is_empty()) {
        return Some(sentences::cut(&sentences::flat(given), TOPIC));
    }

    let text = opening(input);
    let profile = Profile::of(&text);
    let phrases = phrases::key_phrases(&text, profile.about(), 2, false);
    names::tidy(phrases.first()?)
}

pub fn without_reply_marks(subject: &str) -> &str {
    let mut rest = subject.trim();
    while let Some(short) = ["re:", "fw:", "fwd:", "aw:"].iter().find_map(|mark| {
        let head = rest.get(..mark.len())?;
        head.eq_ignore_ascii_case(mark)
            .then(|| rest[mark.len()..].trim_start())
    }) {
        rest = short;
    }

    rest
}

fn opening(input: &HelperInput<'_>) -> String {
    let mut text = String::new();
    for chunk in input.chunks {
        if text.len() + chunk.len() > READ && !text.is_empty() {
            break;
        }

        text.push_str(chunk);
        text.push_str("\n\n");
    }

    without_front_matter(&text).to_string()
}

fn without_front_matter(text: &str) -> &str {
    let start = text.trim_start_matches(['\u{feff}', '\n', '\r', ' ']);
    let Some(rest) = start
        .strip_prefix("---\n")
        .or_else(|| start.strip_prefix("---\r\n"))
    else {
        return text;
    };

    rest.find("\n---")
        .map_or(text, |end| rest[end + 4..].trim_start_matches('-'))
}

/// The text below a heading that it begins with, if the topic says the same.
fn without_title<'t>(text: &'t str, topic: &str) -> &'t str {
    let found = headings(text);
    let first = found.first().filter(|first| {
        let (before, after) = (&text[..first.start], &text[first.end..]);
        let is_first = before.trim().is_empty() && after.chars().any(char::is_alphabetic);
        is_first && names::same(&first.text, topic)
    });
    first.map_or(text, |first| &text[first.end..])
}

fn summary(input: &HelperInput<'_>, topic: Option<&str>) -> String {
    let opening = opening(input);
    let text = without_title(&opening, topic.unwrap_or_default());
    let told = summarize::telling(text);
    let words = |s: &str| s.split_whitespace().count();
    let digest = rank::digest(&told, SUMMARY_WORDS, words);
    let all = [digest, sentences::flat(&told), sentences::flat(text)];
    let best = all
        .iter()
        .find(|s| !s.is_empty())
        .map_or("", String::as_str);

    let kept: Vec<&str> = best.split_whitespace().take(SUMMARY_WORDS).collect();
    sentences::cut(&kept.join(" "), SUMMARY_WORDS * 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(filename: &str, chunks: &[&str]) -> HelperOutput {
        helper(&HelperInput {
            filename,
            title: None,
            metadata: &[],
            chunks,
        })
    }

    #[test]
    fn the_description_does_not_begin_with_the_title() {
        let out = of(
            "attic.md",
            &["# Attic\n\nThe old radio stands in the attic.\n"],
        );
        assert_eq!(out.topic.as_deref(), Some("Attic"));
        assert_eq!(out.summary, "The old radio stands in the attic.");
        assert_eq!(of("a.md", &["# Attic\n"]).summary, "Attic");
    }

    #[test]
    fn writes_a_helper_for_an_email() {
        let mail = "From: Jane Doe <jane@acme.org>\nTo: bob@acme.org\nDate: Tue, 5 Mar 2024 10:00:00 +0100\n\
            Subject: Re: Delivery of the new pumps\n\nDear Bob,\n\nthe three pumps for the Hull plant will leave \
            the factory on Friday. The carrier expects them at the plant a week later. Please tell the crew \
            to keep the loading bay free.\n\nBest regards\nJane\n";

        let out = of("mail.eml", &[mail]);
        assert_eq!(out.author.as_deref(), Some("Jane Doe"));
        assert_eq!(out.date.as_deref(), Some("2024-03-05"));
        assert_eq!(out.topic.as_deref(), Some("Delivery of the new pumps"));

        assert!(
            out.summary.contains("pumps") && !out.summary.contains("bob@acme.org"),
            "{}",
            out.summary
        );
    }

    #[test]
    fn writes_a_helper_for_markdown_with_front_matter() {
        let text = "---\ntitle: \"Growing tomatoes\"\nauthor: Ann Lee\ndate: 2023-06-01\n---\n\n# Growing tomatoes\n\n\
            Tomatoes need six hours of sun. Water them in the morning.\n";
        let out = of("tomatoes.md", &[text]);
        assert_eq!(out.author.as_deref(), Some("Ann Lee"));
        assert_eq!(out.date.as_deref(), Some("2023-06-01"));
        assert_eq!(out.topic.as_deref(), Some("Growing tomatoes"));

        assert!(
            out.summary.contains("six hours of sun") && !out.summary.contains("author"),
            "{}",
            out.summary
        );
    }

    #[test]
    fn writes_a_helper_for_a_page_of_a_novel() {
        let page = "[Moby Dick by Herman Melville 1851]\n\nCall me Ishmael. Some years ago, never mind how long \
            precisely, having little or no money in my purse, I thought I would sail about a little and see the \
            watery part of the world. It is a way I have of driving off the spleen.";
        let out = of("melville.txt", &[page]);
        assert_eq!(out.author.as_deref(), Some("Herman Melville"));
        assert_eq!(out.date.as_deref(), Some("1851"));
        assert_eq!(out.topic.as_deref(), Some("Moby Dick"));

        assert!(out.summary.split_whitespace().count() <= 120 && !out.summary.contains('\n'));
    }

    #[test]
    fn uses_metadata_and_file_names() {
        let metadata = [("Author".to_string(), "Kim Li".to_string())];
        let input = HelperInput {
            filename: "2021-05-06 notes.txt",
            title: Some("Team notes"),
            metadata: &metadata,
            chunks: &["We met."],
        };

        let out = helper(&input);
        assert_eq!(out.author.as_deref(), Some("Kim Li"));
        assert_eq!(out.date.as_deref(), Some("2021-05-06"));
        assert_eq!(out.topic.as_deref(), Some("Team notes"));
    }

    #[test]
    fn odd_texts_are_harmless() {
        let giant = "x".repeat(1_000_000);
        let chinese = "机器学习是人工智能的一个分支。它很有用。".repeat(50);
        for text in [
            "",
            "   ",
            "🙂",
            giant.as_str(),
            chinese.as_str(),
            "---\n---",
            "--- \n",
            "From:",
            ":::",
        ] {
            let out = of("f", &[text]);
            assert!(out.summary.split_whitespace().count() <= 120);
            assert!(!out.summary.contains('\n'));
        }

        assert_eq!(of("f", &[]), HelperOutput::default());
    }
}
