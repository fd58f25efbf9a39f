//! The rules for a source's name, path and tags. A `Source` built here satisfies them.

use memoir_text::field_error::FieldError;
use memoir_text::text::{basename, char_count, has_control, is_absolute_path};

use super::{NewSource, SourceChange};
use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::base::tags::{self, MAX_OF_SOURCE};
use crate::base::user_id;
use crate::model::source::{FILE_INGEST, Source, SourceKind, own_path};

const MAX_NAME_CHARS: usize = 255;
const MAX_TITLED_CHARS: usize = 100;
const MAX_PATH_CHARS: usize = 4096;

/// Checks everything at once and builds the source.
pub fn build(new: NewSource, now: Timestamp) -> Result<Source, Vec<FieldError>> {
    let mut errors = Vec::new();
    let id = new.id.clone().unwrap_or_default();
    let filename = filename(&new, &mut errors);
    let path = path(new.path, &id, &filename, &mut errors);
    let user_id = new.user_id.unwrap_or_else(|| user_id::DEFAULT.to_owned());

    check_text("user_id", &user_id, user_id::MAX_CHARS, &mut errors);
    let user_id = user_id.trim().to_owned();
    let tags = tags(&new.tags, true, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }

    Ok(Source {
        id,
        user_id,
        file_type: file_type(&filename),
        filename,
        path,
        kind: SourceKind::FileIngest,
        eligible: new.eligible,
        tags,
        latest_version: 0,
        created_at: now,
        updated_at: now,
    })
}

/// Checks a change; the tag that every source has cannot be removed.
pub fn check_change(change: &SourceChange) -> Result<SourceChange, Vec<FieldError>> {
    let mut errors = Vec::new();
    let tags = change
        .tags
        .as_ref()
        .map(|given| tags(given, false, &mut errors));

    if tags
        .as_ref()
        .is_some_and(|tags| !tags.iter().any(|tag| tag == FILE_INGEST))
    {
        errors.push(FieldError::new(
            "tags",
            format!("must contain {FILE_INGEST:?}: it cannot be removed"),
        ));
    }

    if errors.is_empty() {
        Ok(SourceChange {
            tags,
            eligible: change.eligible,
        })
    } else {
        Err(errors)
    }
}

/// Checks tags to add to those of a source; returns all of them.
pub fn check_tags(own: &[String], added: &[String]) -> Result<Vec<String>, Vec<FieldError>> {
    let mut errors = Vec::new();
    let added = tags(added, true, &mut errors);
    let mut all = own.to_vec();
    all.extend(added.into_iter().filter(|tag| !own.contains(tag)));

    if errors.is_empty() && all.len() > MAX_OF_SOURCE {
        errors.push(FieldError::new(
            "tags",
            format!("the source would have more than {MAX_OF_SOURCE} tags"),
        ));
    }

    if errors.is_empty() {
        Ok(all)
    } else {
        Err(errors)
    }
}

fn filename(new: &NewSource, errors: &mut Vec<FieldError>) -> String {
    let given = new.filename.as_deref().or(new.path.as_deref());
    let Some(given) = given else {
        errors.push(FieldError::new("filename", "send `filename` or `path`"));
        return String::new();
    };

    let (field, most) = if new.filename.is_some() {
        ("filename", MAX_NAME_CHARS)
    } else {
        ("path", MAX_PATH_CHARS)
    };

    check_text(field, given, most, errors);
    let name = basename(given).trim().to_owned();
    if errors.is_empty()
        && (matches!(name.as_str(), "" | "." | "..") || char_count(&name) > MAX_NAME_CHARS)
    {
        errors.push(FieldError::new(
            field,
            format!("must end in a file name of at most {MAX_NAME_CHARS} characters"),
        ));
    }

    name
}

/// The name of a source that has only a title; `None` if no character of the title can be part of a
/// file name.
pub fn titled(title: &str) -> Option<String> {
    let part = |c: char| !c.is_control() && !matches!(c, '/' | '\\');
    let words: String = title
        .chars()
        .map(|c| if part(c) { c } else { ' ' })
        .collect();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let name: String = words.chars().take(MAX_TITLED_CHARS).collect();
    let name = name.trim_matches(['.', ' ']);

    (!name.is_empty()).then(|| format!("{name}.txt"))
}

fn path(
    given: Option<String>,
    id: &SourceId,
    filename: &str,
    errors: &mut Vec<FieldError>,
) -> String {
    let Some(path) = given else {
        return own_path(id, filename);
    };
    if !errors.iter().any(|error| error.field == "path") {
        check_text("path", &path, MAX_PATH_CHARS, errors);
    }

    if !is_absolute_path(&path) && !errors.iter().any(|error| error.field == "path") {
        errors.push(FieldError::new(
            "path",
            "must be absolute, such as /docs/plan.md or C:\\docs\\plan.md",
        ));
    }

    path
}

/// Trimmed and deduplicated, in order.
fn tags(given: &[String], with_own: bool, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut tags: Vec<String> = with_own
        .then(|| FILE_INGEST.to_owned())
        .into_iter()
        .collect();

    let most = MAX_OF_SOURCE - tags.len();
    // They may include the one that every source has.
    if given
        .iter()
        .filter(|tag| !with_own || tag.trim() != FILE_INGEST)
        .count()
        > most
    {
        errors.push(FieldError::new(
            "tags",
            format!("must have at most {most} tags"),
        ));
        return tags;
    }

    for (index, tag) in given.iter().enumerate() {
        check_text(&format!("tags[{index}]"), tag, tags::MAX_CHARS, errors);
        let tag = tag.trim();
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }

    tags
}

/// A non-empty text within its length, without control characters.
fn check_text(field: &str, text: &str, most: usize, errors: &mut Vec<FieldError>) {
    if text.trim().is_empty() {
        errors.push(FieldError::new(field, "must not be empty"));
    } else if char_count(text) > most {
        errors.push(FieldError::new(
            field,
            format!("must have at most {most} characters"),
        ));
    } else if has_control(text) {
        errors.push(FieldError::new(
            field,
            "must not contain control characters",
        ));
    }
}

/// The extension in lower case; a name without one is plain text.
fn file_type(filename: &str) -> String {
    let extension = filename
        .rsplit_once('.')
        .map(|(stem, extension)| (stem, extension.to_ascii_lowercase()));
    match extension {
        Some((stem, extension))
            if !stem.is_empty()
                && (1..=16).contains(&extension.len())
                && extension.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            extension
        }
        _ => "txt".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(
        filename: Option<&str>,
        path: Option<&str>,
        tags: &[&str],
    ) -> Result<Source, Vec<FieldError>> {
        let new = NewSource {
            filename: filename.map(str::to_owned),
            path: path.map(str::to_owned),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..NewSource::default()
        };
        build(new, Timestamp::from_micros(0))
    }

    #[test]
    fn the_name_is_a_basename_and_the_path_absolute() {
        for (filename, path, name, file_type) in [
            (Some("a/b/c.md"), None, "c.md", "md"),
            (None, Some("/docs/Plan.TXT"), "Plan.TXT", "txt"),
            (Some("x"), Some("C:\\docs\\y.json"), "x", "txt"),
            (Some("../../etc/passwd"), None, "passwd", "txt"),
            (Some(".bashrc"), None, ".bashrc", "txt"),
        ] {
            let source = built(filename, path, &[]).unwrap();
            assert_eq!(
                (source.filename.as_str(), source.file_type.as_str()),
                (name, file_type)
            );
            assert!(is_absolute_path(&source.path));
        }
    }

    #[test]
    fn a_title_becomes_a_name() {
        for (title, name) in [
            ("Notes", "Notes.txt"),
            ("  Week 3:\tplans / ideas ", "Week 3: plans ideas.txt"),
            ("../..\\etc", "etc.txt"),
            ("v1.2.", "v1.2.txt"),
        ] {
            let named = titled(title).unwrap();
            assert_eq!(named, name);
            assert_eq!(built(Some(&named), None, &[]).unwrap().filename, name);
        }

        assert_eq!(titled(&"x".repeat(2000)).unwrap().len(), 104);
        assert_eq!(titled(" / "), None);
    }

    #[test]
    fn invalid_fields_are_named() {
        for (filename, path, field) in [
            (None, None, "filename"),
            (Some(""), None, "filename"),
            (Some("/"), None, "filename"),
            (Some(".."), None, "filename"),
            (Some("a\nb"), None, "filename"),
            (Some(&*"x".repeat(256)), None, "filename"),
            (Some("x"), Some("relative/x"), "path"),
            (None, Some("/.."), "path"),
            (None, Some("/"), "path"),
        ] {
            let errors = built(filename, path, &[]).unwrap_err();
            assert_eq!(errors[0].field, field, "{filename:?} {path:?}");
        }
    }

    #[test]
    fn tags_are_unique_with_file_ingest_first() {
        let source = built(Some("x"), None, &["b", " a ", "b", "file_ingest"]).unwrap();
        assert_eq!(source.tags, ["file_ingest", "b", "a"]);
        let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();

        assert_eq!(built(Some("x"), None, &many).unwrap_err().len(), 1);
    }

    #[test]
    fn the_tag_file_ingest_cannot_be_removed() {
        let without = SourceChange {
            tags: Some(vec!["a".to_owned()]),
            eligible: None,
        };
        assert_eq!(check_change(&without).unwrap_err()[0].field, "tags");
    }
}
