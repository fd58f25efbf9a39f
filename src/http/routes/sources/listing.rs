//! The list of sources: its filters, its order, its pages and their cursors.

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::http::error::ApiError;
use crate::http::page::{self, Page, list_query};
use crate::model::source::Source;
use crate::store::{SortValue, SourceFilter, SourceKey, SourceOrder, SourcePage};
use memoir_text::text::has_control;

list_query! {
    /// Filters, order and pagination of the source list.
    ListSourcesQuery {
        /// Only sources of this end user.
        #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
        user_id: Option<String>,
        /// Only sources with this tag.
        tag: Option<String>,
        /// Only sources with exactly this file name.
        filename: Option<String>,
        /// Only sources whose file name or path contains this, in upper or lower case. Letters of a
        /// folder that are not ASCII may have to be written as they are.
        name: Option<String>,
        /// Only the source at exactly this path; each end user has at most one.
        path: Option<String>,
        /// Only sources that retrieval may (true) or may not (false) use.
        eligible: Option<bool>,
        /// Shows the sources as they were at this time, but with their current tags and eligibility.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
        /// The order: `created_at` (the default), `name` (ignoring case), `size` (of the newest
        /// version), `versions` (their number) or `updated_at`; with `-` before it, descending. With
        /// `as_of`, only `created_at` and `name`.
        #[param(pattern = "^-?(created_at|name|size|versions|updated_at)$")]
        sort: Option<String>,
        /// Whether the newest come first; the same as `sort=-created_at`. Ignored if `sort` is given.
        newest_first: Option<bool>,
    }
}

/// A request for a page of sources.
pub struct Listing {
    pub filter: SourceFilter,
    pub page: SourcePage,
    /// The number of sources in the whole list, if an earlier page has counted them.
    pub total: Option<i64>,
    requested: Page,
}

/// Where a page ends: the value that the list is sorted by, the id, and the length of the list.
type ListPosition = (SortValue, String, Option<i64>);

impl ListSourcesQuery {
    /// The request for a page of the list `name`.
    pub fn listing(self, name: &str) -> Result<Listing, ApiError> {
        let order = self.order()?;
        let filter = SourceFilter {
            as_of: self.as_of,
            user_id: self.user_id,
            filename: self.filename,
            name: self.name,
            path: self.path,
            tag: self.tag,
            eligible: self.eligible,
        };

        let fingerprint = format!("{name}{order:?}{filter:?}");
        let requested = Page::new(self.limit, self.cursor, fingerprint)?;
        let (after, total) = match requested.after::<ListPosition>()? {
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
            limit: requested.rows(),
            order,
        };
        Ok(Listing {
            filter,
            page,
            total,
            requested,
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
        found.len() >= self.requested.rows()
    }

    /// Cuts what was read to the page, and makes the cursor of the next one. `entry` names the
    /// source of an item and the size of its newest version.
    pub fn cut<T>(
        &self,
        found: Vec<T>,
        total: Option<i64>,
        entry: impl Fn(&T) -> (&Source, Option<i64>),
    ) -> (Vec<T>, Option<String>) {
        let place = |item: &T| -> ListPosition {
            let (source, size) = entry(item);
            let value = self.page.order.by.value(source, size);
            (value, source.id.to_string(), total)
        };
        self.requested.cut(found, place)
    }
}
