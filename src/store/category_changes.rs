//! Rows of `category_changes` and `category_aliases`: what changed in the hierarchy, and the former
//! names of categories.

use std::collections::{BTreeSet, HashMap};

use memoir_text::text::name_key;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::categories::{NAMES, select_named};
use super::rows::{Stored as _, get, row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::category::{CategoryChange, LeafText, Rename};

impl Store {
    /// Changes of the hierarchy, or of one category, newest first, before the given one.
    pub async fn list_category_changes(
        &self,
        space: &Space,
        category_id: Option<i64>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<CategoryChange>, StoreError> {
        let of_one = if category_id.is_some() {
            " AND category_id = ?"
        } else {
            ""
        };
        let sql = format!(
            "SELECT {} FROM category_changes WHERE space = ?{of_one} AND id < ? ORDER BY id DESC LIMIT ?",
            CategoryChange::COLUMNS
        );

        self.read_all("list_category_changes", || {
            let mut query = self.composed(&sql).bind(space.as_str());
            if let Some(id) = category_id {
                query = query.bind(id);
            }

            query
                .bind(before.unwrap_or(i64::MAX))
                .bind(row_limit(limit))
        })
        .await
    }
}

impl Tx {
    /// About `most` texts of a leaf that holds `count` of current versions, spread evenly from the
    /// oldest to the newest; of each its headings and its first characters.
    pub async fn list_leaf_texts(
        &mut self,
        space: &Space,
        leaf: i64,
        count: i64,
        (most, chars): (i64, i32),
    ) -> Result<Vec<LeafText>, StoreError> {
        let step = (count + most - 1).div_euclid(most.max(1)).max(1);
        let sql = "SELECT c.source_id, c.heading, SUBSTR(c.text_content, 1, ?) AS beginning FROM (SELECT p.id, \
                   ROW_NUMBER() OVER (ORDER BY p.created_at, p.id) AS place FROM chunks p \
                   JOIN sources s ON s.space = p.space AND s.id = p.source_id AND s.content_version_id = p.version_id \
                   WHERE p.space = ? AND p.category_id = ?) r JOIN chunks c ON c.id = r.id \
                   WHERE r.place % ? = 0 ORDER BY r.place";
        let query = self
            .sql(sql)
            .bind(chars)
            .bind(space.as_str())
            .bind(leaf)
            .bind(step);

        let read = |row: &AnyRow| {
            let heading: Option<String> = row.try_get("heading")?;
            let beginning: String = row.try_get("beginning")?;
            Ok(LeafText {
                source_id: row.try_get("source_id")?,
                text: heading.map_or(beginning.clone(), |heading| {
                    format!("{heading}\n{beginning}")
                }),
            })
        };

        self.fetch_all(query).await?.iter().map(read).collect()
    }

    /// Gives a category another name, records the change, and keeps the former name as an alias.
    /// Returns the number of the change; `None` if the name is taken under its parent. The caller
    /// holds the space's lock.
    pub async fn rename_category(
        &mut self,
        space: &Space,
        rename: &Rename<'_>,
        now: Timestamp,
    ) -> Result<Option<i64>, StoreError> {
        let (former, wanted) = (name_key(rename.from), name_key(rename.to));
        let named = BTreeSet::from([(rename.parent_id, wanted.clone())]);
        let taken = self.list_categories_named(space, &named).await?;
        if taken.values().any(|id| *id != rename.id) {
            return Ok(None);
        }

        let update = self
            .sql("UPDATE categories SET name = ?, name_key = ?, named_by = ? WHERE space = ? AND id = ?")
            .bind(rename.to)
            .bind(wanted.as_str())
            .bind(rename.by.into_str())
            .bind(space.as_str())
            .bind(rename.id);
        self.execute(update).await?;

        // A name that a category has again is no alias any more, of whichever category.
        for key in [wanted.as_str(), former.as_str()] {
            let delete = self
                .sql("DELETE FROM category_aliases WHERE space = ? AND parent_key = ? AND name_key = ?")
                .bind(space.as_str())
                .bind(rename.parent_id)
                .bind(key);
            self.execute(delete).await?;
        }

        if former != wanted {
            let insert = self
                .sql("INSERT INTO category_aliases (space, parent_key, name_key, category_id) VALUES (?, ?, ?, ?)")
                .bind(space.as_str())
                .bind(rename.parent_id)
                .bind(former.as_str())
                .bind(rename.id);
            self.execute(insert).await?;
        }

        self.count_category_removal(space).await?;
        self.add_category_change(space, rename, now).await.map(Some)
    }

    async fn add_category_change(
        &mut self,
        space: &Space,
        rename: &Rename<'_>,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let insert = "INSERT INTO category_changes (space, category_id, kind, before_json, after_json, actor, reason, \
                      created_at) VALUES (?, ?, 'rename', ?, ?, ?, ?, ?)";
        let named = |name: &str| serde_json::json!({"name": name}).to_string();
        let insert = self
            .dialect()
            .insert_with_id(insert)
            .bind(space.as_str())
            .bind(rename.id)
            .bind(named(rename.from))
            .bind(named(rename.to))
            .bind(rename.by.into_str())
            .bind(rename.reason.map(str::to_owned))
            .bind(now.as_micros());

        self.insert_for_id(insert).await
    }

    /// The categories that formerly had these names below these parents, with their present names;
    /// 0 stands for the root.
    pub async fn list_aliases(
        &mut self,
        space: &Space,
        named: &BTreeSet<(i64, String)>,
    ) -> Result<HashMap<(i64, String), (i64, String)>, StoreError> {
        let named: Vec<&(i64, String)> = named.iter().collect();
        let mut found = HashMap::new();
        for some in named.chunks(NAMES) {
            let sql = "SELECT a.parent_key, a.name_key, c.id, c.name FROM category_aliases a \
                       JOIN categories c ON c.space = a.space AND c.id = a.category_id";
            let query = select_named(self.dialect(), sql, "a", space, some);
            for row in self.fetch_all(query).await? {
                let key = (row.try_get("parent_key")?, row.try_get("name_key")?);
                found.insert(key, (row.try_get("id")?, row.try_get("name")?));
            }
        }

        Ok(found)
    }
}

row! {
    CategoryChange as "" { id, category_id, kind, actor, reason, created_at }
    from row "before_json, after_json" {
        from: name_in(&get::<String>(row, "before_json")?),
        to: name_in(&get::<String>(row, "after_json")?),
    }
}

/// The name in the stored state of a category.
fn name_in(state: &str) -> String {
    let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
    state["name"].as_str().unwrap_or_default().to_owned()
}
