//! Lists of sources: filters, orders and pages.

use memoir_text::hash::short_hash;
use memoir_text::text::name_key;
use memoir_text::words::filename_key;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::dialect::like_text;
use super::rows::Stored as _;
use super::source_versions::{self, read_version};
use super::sources::latest;
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::source::Source;
use crate::model::version_search::ManifestEntry;

/// Which sources a list shows; `None`: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceFilter {
    pub user_id: Option<String>,
    pub filename: Option<String>,
    /// A part of the file name or of the path, in any case.
    pub name: Option<String>,
    pub path: Option<String>,
    pub tag: Option<String>,
    pub eligible: Option<bool>,
    /// Those that existed at this time, with their versions of that time.
    pub as_of: Option<Timestamp>,
}

/// What a list of sources is sorted by; equal ones by their id. Each has an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceKey {
    #[default]
    Created,
    /// The normalised name.
    Name,
    /// The size of the newest version; 0 if there is none.
    Size,
    /// The number of versions.
    Versions,
    Updated,
}

impl SourceKey {
    fn column(self) -> &'static str {
        match self {
            Self::Created => "s.created_at",
            Self::Name => "s.filename_key",
            Self::Size => "s.latest_size",
            Self::Versions => "s.latest_version",
            Self::Updated => "s.updated_at",
        }
    }

    /// Whether a list in this order can continue after the value.
    #[must_use]
    pub fn takes(self, value: &SortValue) -> bool {
        (self == Self::Name) == matches!(value, SortValue::Text(_))
    }

    /// The value of a source whose newest version has this size.
    #[must_use]
    pub fn value(self, source: &Source, size: Option<i64>) -> SortValue {
        match self {
            Self::Created => SortValue::Number(source.created_at.as_micros()),
            Self::Name => SortValue::Text(filename_key(&source.filename)),
            Self::Size => SortValue::Number(size.unwrap_or(0)),
            Self::Versions => SortValue::Number(source.latest_version),
            Self::Updated => SortValue::Number(source.updated_at.as_micros()),
        }
    }
}

/// The order of a list of sources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceOrder {
    pub by: SourceKey,
    pub descending: bool,
}

/// The value of a source that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SortValue {
    Number(i64),
    Text(String),
}

/// A page: at most `limit` sources in an order, after the given one.
#[derive(Debug, Clone, Default)]
pub struct SourcePage {
    pub after: Option<(SortValue, SourceId)>,
    pub limit: usize,
    pub order: SourceOrder,
}

impl Store {
    pub async fn list_sources(
        &self,
        space: &Space,
        filter: &SourceFilter,
        page: &SourcePage,
    ) -> Result<Vec<Source>, StoreError> {
        let statement = select_page(space, filter, page, false);
        self.list_selected(space, &statement, 1).await
    }

    /// A page of sources with the newest version of each.
    pub async fn list_manifest(
        &self,
        space: &Space,
        filter: &SourceFilter,
        page: &SourcePage,
    ) -> Result<Vec<ManifestEntry>, StoreError> {
        self.retry("list_manifest", || async {
            let rows = self
                .fetch_all(self.put_together(&select_page(space, filter, page, true), true))
                .await?;
            let read = |row: &AnyRow| {
                let known = row.try_get::<Option<i64>, _>("version_id")?.is_some();
                let version = known.then(|| read_version(row)).transpose()?;
                Ok::<_, StoreError>(ManifestEntry {
                    source: Source::read(row)?,
                    version,
                })
            };

            let mut entries = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            self.read_tags(space, entries.iter_mut().map(|entry| &mut entry.source))
                .await?;
            Ok(entries)
        })
        .await
    }

    /// The number of sources that a filter selects.
    pub async fn count_sources(
        &self,
        space: &Space,
        filter: &SourceFilter,
    ) -> Result<i64, StoreError> {
        let mut statement = StatementBuilder::of("SELECT COUNT(*) AS number FROM sources s");
        statement.sources(space, filter);
        let number = self.read_value("count_sources", || self.put_together(&statement, true));
        Ok(number.await?.unwrap_or(0))
    }
}

/// A page of sources; `versions` also fetches the newest version of each.
fn select_page(
    space: &Space,
    filter: &SourceFilter,
    page: &SourcePage,
    versions: bool,
) -> StatementBuilder {
    let mut statement = StatementBuilder::default();
    statement.push("SELECT ");
    if versions {
        let columns: Vec<String> = source_versions::COLUMNS
            .split(", ")
            .map(|name| format!("v.{name}"))
            .collect();
        statement.push(&format!("{}, ", columns.join(", ")));
    }

    statement.push("s.id, s.user_id, s.filename, s.path, s.type, s.eligible, ");
    latest(&mut statement, filter.as_of);
    statement.push(" AS latest_version, s.created_at, s.updated_at FROM sources s");
    if versions {
        statement.push(" LEFT JOIN source_versions v ON v.space = s.space AND v.source_id = s.id AND v.version = ");
        latest(&mut statement, filter.as_of);
    }

    statement.sources(space, filter);

    // The form of keyset pagination that all three engines answer from the index.
    let column = page.order.by.column();
    let (beyond, order) = if page.order.descending {
        ('<', " DESC")
    } else {
        ('>', "")
    };
    if let Some((value, id)) = &page.after {
        statement.value(&format!(" AND {column} {beyond}= ?"), value);
        statement.value(&format!(" AND ({column} {beyond} ?"), value);
        statement.text(&format!(" OR s.id {beyond} ?)"), id.as_str());
    }

    let order = format!(" ORDER BY {column}{order}, s.id{order}");
    statement.limit(&order, page.limit);
    statement
}

impl StatementBuilder {
    /// The conditions of a filter on sources `s`.
    fn sources(&mut self, space: &Space, filter: &SourceFilter) {
        self.text(" WHERE s.space = ?", space.as_str());
        if let Some(user_id) = &filter.user_id {
            self.text(" AND s.user_id = ?", user_id);
        }

        if let Some(filename) = &filter.filename {
            // The key has an index.
            self.text(" AND s.filename_key = ?", filename_key(filename));
            self.text(" AND s.filename = ?", filename);
        }

        if let Some(name) = &filter.name {
            let part = |name: &str| format!("%{}%", like_text(name));
            self.text(
                " AND (s.filename_key LIKE ? ESCAPE '!'",
                part(&name_key(name)),
            );
            // SQLite knows the lower case of ASCII only.
            self.text(
                " OR LOWER(s.path) LIKE ? ESCAPE '!'",
                part(&name.to_lowercase()),
            );
            self.text(" OR s.path LIKE ? ESCAPE '!')", part(name));
        }

        if let Some(path) = &filter.path {
            self.text(" AND s.path_key = ?", short_hash(path.as_bytes()));
        }

        if let Some(eligible) = filter.eligible {
            self.number(" AND s.eligible = ?", i64::from(eligible));
        }

        if let Some(tag) = &filter.tag {
            self.push(" AND EXISTS (SELECT 1 FROM source_tags t WHERE t.space = s.space ");
            self.text("AND t.tag = ? AND t.source_id = s.id)", tag);
        }

        if let Some(moment) = filter.as_of {
            self.number(" AND s.created_at <= ?", moment.as_micros());
        }
    }

    fn value(&mut self, sql: &str, value: &SortValue) {
        match value {
            SortValue::Number(number) => self.number(sql, *number),
            SortValue::Text(text) => self.text(sql, text),
        }
    }
}
