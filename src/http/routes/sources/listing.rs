//! The list of sources: its filters, its order, its pages and their cursors.

use memoir_text::text::has_control;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::base::ids::SourceId;
use crate::http::error::ApiError;
use crate::http::extract::moment;
use crate::http::page;
use crate::model::source::Source;
use crate::store::{SortValue, SourceFilter, SourceKey, SourceOrder, SourcePage};

/// Filters, order and pagination of the source list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListSourcesQuery {
    /// Only sources of this end user.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    user_id: Option<String>,
    /// Only sources with this tag.
    #[serde(default)]
    tag: Option<String>,
    /// Only sources with exactly this file name.
    #[serde(default)]
    filename: Option<String>,
    /// Only sources whose file name or path contains this, in upper or lower case. Letters of a
    /// folder that are not ASCII may have to be written as they are.
    #[serde(default)]
    name: Option<String>,
    /// Only the source at exactly this path; each end user has at most one.
    #[serde(default)]
    path: Option<String>,
    /// Only sources that retrieval may (true) or may not (false) use.
    #[serde(default)]
    eligible: Option<bool>,
    /// Shows the sources as they were at this time, but with their current tags and eligibility.
    #[serde(default)]
    #[param(format = DateTime)]
    as_of: Option<String>,
    /// The order: `created_at` (the default), `name` (ignoring case), `size` (of the newest
    /// version), `versions` (their number) or `updated_at`; with `-` before it, descending. With
    /// `as_of`, only `created_at` and `name`.
    #[serde(default)]
    #[param(pattern = "^-?(created_at|name|size|versions|updated_at)$")]
    sort: Option<String>,
    /// Whether the newest come first; the same as `sort=-created_at`. Ignored if `sort` is given.
    #[serde(default)]
    newest_first: Option<bool>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// A request for a page of sources.
pub struct Listing {
    pub filter: SourceFilter,
    /// One item more than requested, to tell whether there is a next page.
    pub page: SourcePage,
    /// The number of sources in the whole list, if an earlier page has counted them.
    pub total: Option<i64>,
    limit: usize,
    /// What its cursors belong to.
    fingerprint: String,
}

/// Where a page ends: the value that the list is sorted by, the id, and the length of the list.
type Place = (SortValue, String, Option<i64>);

impl ListSourcesQuery {
    /// The request for a page of the list `name`.
    pub fn listing(self, name: &str) -> Result<Listing, ApiError> {
        let limit = page::limit(self.limit)?;
        let order = self.order()?;
        let filter = SourceFilter {
            as_of: moment("as_of", self.as_of.as_deref())?,
            user_id: self.user_id,
            filename: self.filename,
            name: self.name,
            path: self.path,
            tag: self.tag,
            eligible: self.eligible,
        };

        let fingerprint = format!("{name}{order:?}{filter:?}");
        let place = page::decode_key::<Place>(self.cursor.as_deref(), &fingerprint)?;
        let (after, total) = match place {
            // A forged cursor may contain characters that a database rejects.
            Some((SortValue::Text(text), _, _)) if has_control(&text) => {
                return Err(page::invalid());
            }
            Some((value, id, total)) if order.by.takes(&value) => {
                let id: SourceId = id.parse().map_err(|_| page::invalid())?;
                (Some((value, id)), total)
            }
            Some(_) => return Err(page::invalid()),
            None => (None, None),
        };

        let page = SourcePage {
            after,
            limit: limit + 1,
            order,
        };
        Ok(Listing {
            filter,
            page,
            total,
            limit,
            fingerprint,
        })
    }

    fn order(&self) -> Result<SourceOrder, ApiError> {
        let Some(sort) = self.sort.as_deref() else {
            return Ok(SourceOrder {
                by: SourceKey::Created,
                descending: self.newest_first.unwrap_or(false),
            });
        };

        let by = match sort.strip_prefix('-').unwrap_or(sort) {
            "created_at" => SourceKey::Created,
            "name" => SourceKey::Name,
            "size" => SourceKey::Size,
            "versions" => SourceKey::Versions,
            "updated_at" => SourceKey::Updated,
            _ => {
                let rule = "must be created_at, name, size, versions or updated_at, with - before it for descending";
                return Err(ApiError::invalid_field("sort", rule));
            }
        };

        // The others are known only as they are now.
        let timeless = matches!(by, SourceKey::Created | SourceKey::Name);
        if self.as_of.is_some() && !timeless {
            let rule = "must be created_at or name if as_of is given";
            return Err(ApiError::invalid_field("sort", rule));
        }

        Ok(SourceOrder {
            by,
            descending: sort.starts_with('-'),
        })
    }
}

impl Listing {
    /// Whether there is a page after the one that was read.
    pub fn has_more<T>(&self, found: &[T]) -> bool {
        found.len() > self.limit
    }

    /// Cuts what was read to the page, and makes the cursor of the next one. `entry` names the
    /// source of an item and the size of its newest version.
    pub fn cut<T>(
        &self,
        found: Vec<T>,
        total: Option<i64>,
        entry: impl Fn(&T) -> (&Source, Option<i64>),
    ) -> (Vec<T>, Option<String>) {
        let place = |item: &T| -> Place {
            let (source, size) = entry(item);
            let value = self.page.order.by.value(source, size);
            (value, source.id.to_string(), total)
        };
        page::cut(found, self.limit, &self.fingerprint, place)
    }
}
