//! A request for one document: checked, and turned into words, tags and a name.

use memoir_text::field_error::FieldError;
use memoir_text::text::{basename, char_count};

use crate::base::clock::Timestamp;
use crate::base::tags::{self, MAX_OF_SOURCE};
use crate::base::user_id;
use crate::model::source::FILE_INGEST;
use crate::model::version_search::Choice;

/// Maximum characters of a query and of each other text.
const MAX_CHARS: usize = 4000;
/// Maximum candidates.
pub const MAX_K: usize = 1000;
/// The query used if nothing is given.
const ANYTHING: &str = "document relevant to current request";

/// The metadata of the wanted document, as an application or its model gives it.
#[derive(Debug, Clone, Default)]
pub struct VersionDescription {
    pub filename: Option<String>,
    pub topic: Option<String>,
    pub note: Option<String>,
    pub provider: Option<String>,
    pub tags: Vec<String>,
    /// Replaces the query that is derived from the other fields.
    pub query: Option<String>,
}

/// A request for one document.
#[derive(Debug, Clone)]
pub struct RetrievalInput {
    pub meta: VersionDescription,
    pub user_id: String,
    /// Maximum candidates, before any filter.
    pub k: usize,
    pub default_tags: Vec<String>,
    pub choice: Choice,
    pub as_of: Option<Timestamp>,
    /// No filter is dropped: what does not match is not found.
    pub strict: bool,
    pub explain: bool,
}

impl RetrievalInput {
    /// Reports all errors at once.
    pub(super) fn checked(mut self) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let meta = &mut self.meta;
        for (field, text) in [
            ("meta.filename", &mut meta.filename),
            ("meta.topic", &mut meta.topic),
            ("meta.note", &mut meta.note),
            ("meta.provider", &mut meta.provider),
            ("meta.query", &mut meta.query),
        ] {
            // Models express "nothing" as an empty text.
            *text = text.take().filter(|text| !text.trim().is_empty());
            if text
                .as_ref()
                .is_some_and(|text| char_count(text) > MAX_CHARS)
            {
                errors.push(FieldError::new(
                    field,
                    format!("must have at most {MAX_CHARS} characters"),
                ));
            }
        }

        for (field, tags) in [
            ("meta.tags", &mut meta.tags),
            ("default_tags", &mut self.default_tags),
        ] {
            if tags.len() > MAX_OF_SOURCE {
                errors.push(FieldError::new(
                    field,
                    format!("must have at most {MAX_OF_SOURCE} tags"),
                ));
            }
            for (place, tag) in tags
                .iter()
                .enumerate()
                .filter(|(_, tag)| char_count(tag) > tags::MAX_CHARS)
            {
                let rule = format!(
                    "must have at most {} characters, but has {}",
                    tags::MAX_CHARS,
                    char_count(tag)
                );
                errors.push(FieldError::new(format!("{field}[{place}]"), rule));
            }
            *tags = tags
                .iter()
                .map(|tag| tag.trim().to_owned())
                .filter(|tag| !tag.is_empty())
                .collect();
        }

        self.user_id.truncate(self.user_id.trim_end().len());
        self.user_id
            .drain(..self.user_id.len() - self.user_id.trim_start().len());
        if self.user_id.is_empty() || char_count(&self.user_id) > user_id::MAX_CHARS {
            errors.push(FieldError::new(
                "user_id",
                format!("must have 1 to {} characters", user_id::MAX_CHARS),
            ));
        }

        if !(1..=MAX_K).contains(&self.k) {
            errors.push(FieldError::new("k", format!("must be from 1 to {MAX_K}")));
        }

        if self.strict && self.as_of.is_some() && self.choice != Choice::Latest {
            let rule =
                "applies only to the strategy latest; strict does not allow memoir to ignore it";
            errors.push(FieldError::new("as_of", rule));
        }

        if errors.is_empty() {
            Ok(self)
        } else {
            Err(errors)
        }
    }

    /// The file name; of a path, the last segment.
    pub(super) fn filename(&self) -> Option<&str> {
        self.meta
            .filename
            .as_deref()
            .map(|name| basename(name).trim())
            .filter(|name| !name.is_empty())
    }

    /// The query as one text.
    pub(super) fn query(&self) -> String {
        if let Some(query) = &self.meta.query {
            return query.clone();
        }

        if let Some(name) = self.filename() {
            return name.to_owned();
        }

        let said = self.said();
        if said.is_empty() {
            ANYTHING.to_owned()
        } else {
            said
        }
    }

    /// Topic, note and provider, in this order.
    fn said(&self) -> String {
        let provider = self
            .meta
            .provider
            .as_ref()
            .map(|provider| format!("provided by {provider}"));

        let pieces = [self.meta.topic.clone(), self.meta.note.clone(), provider];
        pieces.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The words by which sources may be found: of the query and of the other fields. Empty input
    /// finds nothing.
    pub(super) fn words(&self) -> String {
        let first = self
            .meta
            .query
            .as_deref()
            .or(self.filename())
            .unwrap_or_default();
        format!("{first} {}", self.said())
    }

    /// `file_ingest`, the tags that are always required, and those of the metadata, each once.
    pub(super) fn required_tags(&self) -> Vec<String> {
        let mut tags = vec![FILE_INGEST.to_owned()];
        for tag in self.default_tags.iter().chain(&self.meta.tags) {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }

        tags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(meta: VersionDescription) -> RetrievalInput {
        let (user_id, choice) = ("default".to_owned(), Choice::Latest);
        RetrievalInput {
            meta,
            user_id,
            k: 50,
            default_tags: Vec::new(),
            choice,
            as_of: None,
            strict: false,
            explain: false,
        }
    }

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn the_query_is_composed_of_the_given_fields() {
        let (topic, note, provider) = (
            Some(text("design")),
            Some(text("of May")),
            Some(text("evert")),
        );

        let said = VersionDescription {
            topic,
            note,
            provider,
            ..VersionDescription::default()
        };

        assert_eq!(
            request(said.clone()).query(),
            "design of May provided by evert"
        );

        let named = VersionDescription {
            filename: Some(text("/a/plan.md")),
            ..said.clone()
        };

        assert_eq!(request(named.clone()).query(), "plan.md");
        assert_eq!(
            request(VersionDescription {
                query: Some(text("verbatim  text")),
                ..named
            })
            .query(),
            "verbatim  text"
        );

        assert_eq!(request(VersionDescription::default()).query(), ANYTHING);
        let empty = VersionDescription {
            filename: Some(text(" ")),
            topic: Some(text("")),
            ..VersionDescription::default()
        };

        assert_eq!(request(empty).checked().unwrap().query(), ANYTHING);
    }

    #[test]
    fn required_tags_are_unique_and_in_order() {
        let tags = ["docs", "a", "file_ingest"].map(str::to_owned).to_vec();
        let mut request = request(VersionDescription {
            tags,
            ..VersionDescription::default()
        });

        request.default_tags = vec!["base".to_owned(), "a".to_owned()];
        assert_eq!(
            request.required_tags(),
            ["file_ingest", "base", "a", "docs"]
        );
    }

    #[test]
    fn all_errors_are_listed() {
        let long = VersionDescription {
            topic: Some(text(&"x".repeat(4001))),
            tags: vec!["y".repeat(101)],
            ..VersionDescription::default()
        };

        let wrong = RetrievalInput {
            k: 0,
            user_id: " ".to_owned(),
            ..request(long)
        };

        let fields: Vec<String> = wrong
            .checked()
            .unwrap_err()
            .into_iter()
            .map(|error| error.field)
            .collect();

        assert_eq!(fields, ["meta.topic", "meta.tags[0]", "user_id", "k"]);
    }
}
