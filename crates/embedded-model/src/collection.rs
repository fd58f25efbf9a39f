//! The broad category of a whole source: a subject if it is clearly about one, otherwise the
//! collection it belongs to, by its kind or its folder.

use super::cues;
use super::headers::Headers;
use super::names;
use super::outline::OutlineInput;
use super::profile::Profile;
use super::table::{self, Vector};
use super::title::from_file_name;
use super::topics::inventory;

/// How similar a source must be to a subject, and how much more similar than to any subject of
/// another domain, to be clearly about it.
const CLEAR: f32 = 0.3;
const AHEAD: f32 = 0.04;
/// How similar it must be to a subject that its title has a word of, and how much more similar it may
/// be to another.
const NAMED: f32 = 0.2;
const NAMED_AHEAD: f32 = 0.1;
/// How much the words of a title must indicate a subject to tell something.
const TELLING: f32 = 0.3;
/// Bytes of a source that are read to find its subject, from three places.
const READ: usize = 60_000;
/// Weight of the title compared with the text.
const TITLE: f32 = 0.2;
/// Chapters of a novel, at least; and chunks of a story without any.
const CHAPTERS: usize = 3;
const STORY: usize = 20;
/// In a story, per thousand words at least: words for speaking, and words for people.
const SPEAKING: usize = 1;
const PEOPLE: usize = 15;

/// Files that document a project, whatever they are about.
const PROJECT_FILES: [&str; 14] = [
    "readme",
    "architecture",
    "changelog",
    "contributing",
    "license",
    "licence",
    "security",
    "notice",
    "design",
    "roadmap",
    "install",
    "code_of_conduct",
    "authors",
    "style",
];
/// Folders that say nothing about their files.
const PLAIN_FOLDERS: [&str; 22] = [
    "docs",
    "doc",
    "documents",
    "src",
    "data",
    "home",
    "tmp",
    "temp",
    "files",
    "users",
    "root",
    "desktop",
    "downloads",
    "uploads",
    "var",
    "opt",
    "mnt",
    "work",
    "test",
    "tests",
    "texts",
    "txt",
];
const CODE: [&str; 14] = [
    "rs", "py", "js", "ts", "go", "java", "c", "h", "cpp", "rb", "sh", "sql", "css", "php",
];
const SETTINGS: [&str; 7] = ["yaml", "yml", "toml", "ini", "conf", "cfg", "env"];

/// The name of the broad category.
pub fn of(input: &OutlineInput<'_>, title: &str) -> String {
    let text = input.text;
    if let Some(kind) = plain_kind(input) {
        return kind.to_owned();
    }

    let read = sample(text);
    let profile = Profile::of(&read);
    if profile.foreign || !profile.is_readable() {
        let kind = names::kind_of_text(&read, &profile);
        return folder(input)
            .filter(|_| kind == names::NOTES)
            .unwrap_or(kind);
    }

    subject(&profile.vector, &read, title)
        .map(|at| {
            inventory().domains[inventory().topics[at].domain]
                .name
                .to_owned()
        })
        .or_else(|| folder(input))
        .unwrap_or_else(|| by_form(input).to_owned())
}

/// The upper categories of a brief source, as far as its words below do not tell them: its kind, its
/// language, or what it is clearly about. Its form and its folder say less than its words.
pub fn of_brief(input: &OutlineInput<'_>, title: &str) -> (Option<String>, Option<String>) {
    if let Some(kind) = plain_kind(input) {
        return (Some(kind.to_owned()), None);
    }

    let profile = Profile::of(input.text);
    if profile.foreign || !profile.is_readable() {
        let kind = names::kind_of_text(input.text, &profile);
        return ((kind != names::NOTES).then_some(kind), None);
    }

    let all = inventory();
    let Some(at) = subject(&profile.vector, input.text, title) else {
        return (None, None);
    };

    let topic = &all.topics[at];
    let domain = all.domains[topic.domain].name.to_owned();
    (Some(domain), Some(topic.name.to_owned()))
}

/// Whether a title has a word that indicates a subject.
pub fn is_telling(title: &str) -> bool {
    let all = inventory();
    let cued = all
        .subject_cues
        .count(&cues::words_of(title), all.topics.len());
    cued.iter().any(|count| *count >= TELLING)
}

/// The subject below a domain that a whole source is clearly about.
pub fn subject_below(input: &OutlineInput<'_>, domain: &str) -> Option<String> {
    let profile = Profile::of(&sample(input.text));
    let all = inventory();
    let inside = |at: &usize| {
        let domain_name = all.domains[all.topics[*at].domain].name;
        names::same(domain_name, domain) || all.find(domain).is_none()
    };
    let like = |at: usize| table::dot(&all.topics[at].vector, &profile.vector);
    let best = (0..all.topics.len())
        .filter(inside)
        .max_by(|a, b| like(*a).total_cmp(&like(*b)))?;
    (profile.is_readable() && like(best) >= CLEAR).then(|| all.topics[best].name.to_owned())
}

/// The subject that a text is clearly about.
fn subject(vector: &Vector, text: &str, title: &str) -> Option<usize> {
    let mut vector = *vector;
    table::add(&mut vector, &super::profile::vector_of(title), TITLE);
    let vector = table::unit(vector);
    let all = inventory();
    let (words, title) = (cues::words_of(text), cues::words_of(title));
    let cued = all.subject_cues.evidence(&words, &title, all.topics.len());
    let like: Vec<f32> = all
        .topics
        .iter()
        .zip(cued)
        .map(|(topic, cued)| table::dot(&topic.vector, &vector) + cued)
        .collect();

    let best = (0..like.len()).max_by(|a, b| like[*a].total_cmp(&like[*b]))?;
    let other = (0..like.len())
        .filter(|at| all.topics[*at].domain != all.topics[best].domain)
        .map(|at| like[at])
        .fold(0.0, f32::max);

    let is_clear = like[best] >= CLEAR && like[best] - other >= AHEAD;

    // Who gives a text a name says what it is about.
    let is_named = |at: &usize| all.subject_cues.has(&title, *at);
    let named = (0..like.len())
        .filter(is_named)
        .max_by(|a, b| like[*a].total_cmp(&like[*b]))
        .filter(|at| like[*at] >= NAMED && like[*at] >= like[best] - NAMED_AHEAD);
    named.or_else(|| is_clear.then_some(best))
}

/// The beginning, the middle and the end of a long text.
fn sample(text: &str) -> String {
    if text.len() <= READ {
        return text.to_owned();
    }

    let third = READ / 3;
    let mut read = String::with_capacity(READ + 16);
    for from in [0, text.len() / 2 - third / 2, text.len() - third] {
        let (mut from, mut to) = (from, from + third);
        while !text.is_char_boundary(from) {
            from -= 1;
        }

        while !text.is_char_boundary(to) {
            to -= 1;
        }

        read.push_str(&text[from..to]);
        read.push('\n');
    }

    read
}

/// Kinds of sources whose subject is not what a reader looks for first.
fn plain_kind(input: &OutlineInput<'_>) -> Option<&'static str> {
    let (stem, extension) = file_name(input);
    if PROJECT_FILES.contains(&stem.as_str())
        && matches!(extension.as_str(), "" | "md" | "txt" | "rst")
    {
        return Some("Project documents");
    }

    if CODE.contains(&extension.as_str()) {
        return Some("Source code");
    }

    let acts = input
        .headings
        .iter()
        .filter(|heading| is_act(&heading.text.to_lowercase()));
    if acts.count() >= 2 {
        return Some("Plays");
    }

    if is_story(input) {
        return Some("Fiction");
    }

    let marked = input.text.contains("\n## ") || input.text.starts_with("# ");
    let fences = input.text.matches("\n```").count();
    let quoted = input.text.matches('`').count();
    let words = input.text.split_whitespace().count();
    (marked && (fences >= 4 || quoted * 40 >= words && words >= 150)).then_some("Project documents")
}

fn is_act(heading: &str) -> bool {
    heading.starts_with("act ") || heading.starts_with("actus ")
}

/// Chapters, or a long text, in which people speak.
fn is_story(input: &OutlineInput<'_>) -> bool {
    const SAID: [&str; 9] = [
        "said",
        "cried",
        "asked",
        "replied",
        "answered",
        "exclaimed",
        "whispered",
        "shouted",
        "thought",
    ];
    const THEM: [&str; 6] = ["he", "she", "his", "her", "him", "himself"];

    let marked = input.text.contains("\n## ");
    let chapters = input.headings.len();
    if marked || chapters < CHAPTERS && input.chunks.len() < STORY || input.chunks.len() < CHAPTERS
    {
        return false;
    }

    let (mut words, mut said, mut them) = (0, 0, 0);
    for word in sample(input.text).split(|c: char| !c.is_alphabetic()) {
        if word.is_empty() {
            continue;
        }

        words += 1;
        said += usize::from(SAID.iter().any(|s| word.eq_ignore_ascii_case(s)));
        them += usize::from(THEM.iter().any(|t| word.eq_ignore_ascii_case(t)));
    }

    said * 1000 >= words * SPEAKING && them * 1000 >= words * PEOPLE
}

/// The collection of a source without a clear subject, by its form.
fn by_form(input: &OutlineInput<'_>) -> &'static str {
    let (_, extension) = file_name(input);
    let headers = Headers::read(input.text.get(..2_000).unwrap_or(input.text));
    let mail = headers.first(&["from"]).is_some() && headers.first(&["to", "subject"]).is_some();
    let start = input.text.trim_start().get(..5).unwrap_or_default();
    let data = input.text.trim_start().starts_with('{') || extension == "json";
    if mail || extension == "eml" {
        "Mail"
    } else if start.eq_ignore_ascii_case("dear ") {
        "Letters"
    } else if SETTINGS.contains(&extension.as_str()) {
        "Settings"
    } else if data || extension == "csv" {
        "Data"
    } else if input.chunks.len() >= STORY {
        "Books"
    } else if input.chunks.len() > 4 {
        "Documents"
    } else {
        names::NOTES
    }
}

/// Whether a title is that of a file which many projects have.
pub fn is_project_file(title: &str) -> bool {
    let key = title.trim().to_lowercase().replace([' ', '-'], "_");
    PROJECT_FILES.contains(&key.trim_end_matches(".md"))
}

/// The folder of a source as a name, if it says what it is. One word is rather where it comes from.
fn folder(input: &OutlineInput<'_>) -> Option<String> {
    telling_folder(input).filter(|name| name.contains(' '))
}

/// The lowest folder with a name of its own.
pub fn telling_folder(input: &OutlineInput<'_>) -> Option<String> {
    let path = input.path?;
    let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.is_empty());
    parts.next();
    let telling = parts.find(|part| {
        let lower = part.to_lowercase();
        lower.chars().filter(|c| c.is_alphabetic()).count() >= 3
            && !lower.starts_with('.')
            && !PLAIN_FOLDERS.contains(&lower.as_str())
    })?;

    from_file_name(telling)
}

/// The name without its extension, and the extension, in lower case.
fn file_name(input: &OutlineInput<'_>) -> (String, String) {
    let name = input.filename.or(input.path).unwrap_or_default();
    let name = name
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(name)
        .to_lowercase();
    match name.rsplit_once('.') {
        Some((stem, extension)) => (stem.to_owned(), extension.to_owned()),
        None => (name, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use memoir_text::headings::headings;

    use super::*;

    fn collection(path: &str, text: &str) -> String {
        let found = headings(text);
        let whole = 0..text.len();
        of(
            &OutlineInput {
                filename: None,
                path: Some(path),
                title: None,
                text,
                headings: &found,
                chunks: &[whole.clone(), whole.clone(), whole],
                depth: 3,
                most_sections: 8,
            },
            "",
        )
    }

    #[test]
    fn names_what_a_source_is_about_or_what_it_is() {
        let story =
            "CHAPTER I\n\n\"Come,\" said he to her, and she gave him his hat and her hand.\n\n";
        let story = format!(
            "{story}{}{}",
            story.replace(" I", " II"),
            story.replace(" I", " III")
        );
        for (path, text, wanted) in [
            ("/book.txt", story.as_str(), "Fiction"),
            (
                "/README.md",
                "# Thing\n\nIt does things.\n",
                "Project documents",
            ),
            (
                "/x.md",
                "The telescope showed the moon of a planet, and the astronauts in their orbit saw the stars of another galaxy.",
                "Science",
            ),
            (
                "/reading-club/x.md",
                "We will be there at eight, as usual.",
                "Reading club",
            ),
            (
                "/x.txt",
                "Dear Anna,\n\nit was so good to be there.\n\nYours\nTim",
                "Letters",
            ),
            ("/x.txt", "We will be there at eight, as usual.", "Notes"),
        ] {
            assert_eq!(collection(path, text), wanted, "{path}");
        }
    }
}
