//! Which chunks a request may find: as a caller states it, with the rules for it, and as the store
//! applies it.

use memoir_text::field_error::FieldError;
use memoir_text::text::{char_count, has_control};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::base::{tags, user_id};

/// Maximum number of sources, and of tags, in one request.
pub const MAX_NAMED: usize = 100;

/// Read only the current version of each source (`latest`), or all versions (`all`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueryVersionScope)]
pub enum VersionScope {
    #[default]
    Latest,
    All,
}

/// What to answer from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueryScopeName)]
pub enum Searched {
    /// The chunks of sources.
    #[default]
    Sources,
    /// The memories of one end user.
    Memories,
    Both,
}

impl Searched {
    pub fn memories(self) -> bool {
        self != Self::Sources
    }

    pub fn sources(self) -> bool {
        self != Self::Memories
    }
}

/// Why memories need a user.
pub const MEMORIES_NEED_A_USER: &str =
    "is required to search memories: name the end user whose memories are searched";

/// A scope as the caller sent it.
#[derive(Debug, Clone, Default)]
pub struct ScopeInput {
    pub source_ids: Vec<String>,
    pub tags: Vec<String>,
    pub user_id: Option<String>,
    pub as_of: Option<String>,
    pub version_scope: VersionScope,
}

impl ScopeInput {
    /// Checks everything and adds each violation to `errors`, its field after `prefix`. What is
    /// invalid is missing in the returned scope.
    pub fn resolve(self, prefix: &str, errors: &mut Vec<FieldError>) -> QueryScope {
        let mut refuse = |field: &str, rule: String| {
            errors.push(FieldError::new(format!("{prefix}{field}"), rule));
        };

        for (field, named) in [
            ("source_ids", self.source_ids.len()),
            ("tags", self.tags.len()),
        ] {
            if named > MAX_NAMED {
                refuse(field, format!("must have at most {MAX_NAMED} entries"));
            }
        }

        for (place, tag) in self.tags.iter().enumerate() {
            if !is_plain(tag, tags::MAX_CHARS) {
                refuse(&format!("tags[{place}]"), plain_rule(tags::MAX_CHARS));
            }
        }

        if let Some(user_id) = &self.user_id
            && !is_plain(user_id, user_id::MAX_CHARS)
        {
            refuse("user_id", plain_rule(user_id::MAX_CHARS));
        }

        let mut source_ids = Vec::new();
        for (place, id) in self.source_ids.iter().enumerate() {
            match id.parse() {
                Ok(id) => source_ids.push(id),
                Err(_) => refuse(
                    &format!("source_ids[{place}]"),
                    "must be the id of a source".to_owned(),
                ),
            }
        }

        let as_of = self.as_of.as_deref().map(Timestamp::parse_rfc3339);
        if as_of == Some(None) {
            refuse(
                "as_of",
                "must be a timestamp such as 2026-01-31T12:00:00Z".to_owned(),
            );
        }

        QueryScope {
            source_ids,
            tags: self.tags,
            user_id: self.user_id,
            as_of: as_of.flatten(),
            all_versions: self.version_scope == VersionScope::All,
        }
    }
}

/// Which chunks a query may find; by default, those of all current versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryScope {
    /// Only these sources; empty: all.
    pub source_ids: Vec<SourceId>,
    /// Only sources that have all of these tags.
    pub tags: Vec<String>,
    pub user_id: Option<String>,
    /// As of this time.
    pub as_of: Option<Timestamp>,
    /// Chunks of older versions too.
    pub all_versions: bool,
}

impl QueryScope {
    /// Whether it excludes sources or times, so that categories may be empty.
    pub fn is_narrow(&self) -> bool {
        self.names_sources() || self.as_of.is_some()
    }

    /// Whether it distinguishes sources.
    pub fn names_sources(&self) -> bool {
        !self.source_ids.is_empty() || !self.tags.is_empty() || self.user_id.is_some()
    }
}

fn is_plain(text: &str, most: usize) -> bool {
    !text.trim().is_empty() && !has_control(text) && char_count(text) <= most
}

fn plain_rule(most: usize) -> String {
    format!("must have 1 to {most} characters and no control characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_is_reported_with_its_field() {
        let input = ScopeInput {
            source_ids: vec!["none".to_owned(); MAX_NAMED + 1],
            tags: vec!["fine".to_owned(), " ".to_owned()],
            user_id: Some("x".repeat(user_id::MAX_CHARS + 1)),
            as_of: Some("yesterday".to_owned()),
            version_scope: VersionScope::All,
        };

        let mut errors = Vec::new();
        let scope = input.resolve("filters.", &mut errors);
        let mut fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        fields.dedup_by(|one, other| {
            one.starts_with("filters.source_ids[") && other.starts_with("filters.source_ids[")
        });

        assert_eq!(
            fields,
            [
                "filters.source_ids",
                "filters.tags[1]",
                "filters.user_id",
                "filters.source_ids[0]",
                "filters.as_of"
            ]
        );
        assert!(scope.source_ids.is_empty() && scope.as_of.is_none() && scope.all_versions);
    }
}
