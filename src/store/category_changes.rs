//! Rows of `category_changes` and `category_aliases`: what changed in the hierarchy, and the former
//! names of categories.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::categories::{NAMES, select_named};
use super::dialect::BindAll as _;
use super::rows::{Stored as _, get, row, to_json};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::category::{
    CategoryChange, CategoryState, ChangeKind, ChangeSide, LeafText, NewChange, Rename,
    StoredChange,
};

impl Store {
    /// Former names below parents, by their keys, with the categories that had them; 0 stands for the
    /// root.
    pub async fn list_aliases_below(
        &self,
        space: &Space,
        parents: &[i64],
    ) -> Result<Vec<((i64, String), i64)>, StoreError> {
        let sql = "SELECT parent_key, name_key, category_id FROM category_aliases WHERE space = ? AND parent_key IN (??)";
        let mut found = Vec::new();
        for some in parents.chunks(NAMES) {
            let rows = self.read_all::<(i64, String, i64)>("list_aliases_below", || {
                let query = self.dialect().query_list(sql, some.len());
                query.bind(space.as_str()).bind_all(some.iter().copied())
            });
            let rows = rows.await?.into_iter();
            found.extend(rows.map(|(parent, key, id)| ((parent, key), id)));
        }

        Ok(found)
    }

    /// Changes of the hierarchy, or of one category, newest first, before the given one.
    pub async fn list_category_changes(
        &self,
        space: &Space,
        category_id: Option<i64>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<CategoryChange>, StoreError> {
        let of_one = if category_id.is_some() {
            " AND (x.category_id = ? OR x.from_id = ? OR x.to_id = ?)"
        } else {
            ""
        };
        let sql =
            format!("{LISTED} WHERE x.space = ?{of_one} AND x.id < ? ORDER BY x.id DESC LIMIT ?");

        self.read_all("list_category_changes", || {
            let mut query = self.composed(&sql).bind(space.as_str());
            if let Some(id) = category_id {
                query = query.bind(id).bind(id).bind(id);
            }

            query
                .bind(before.unwrap_or(i64::MAX))
                .bind(row_limit(limit))
        })
        .await
    }
}

/// Changes with the present names of the categories that they tell of.
const LISTED: &str = "SELECT x.id, x.category_id, x.kind, x.actor, x.reason, x.created_at, x.undone_at, x.from_id, x.to_id, \
     x.chunk_id, x.chunk_count, x.before_json, x.after_json, f.name AS from_name, t.name AS to_name FROM category_changes x \
     LEFT JOIN categories f ON f.space = x.space AND f.id = x.from_id \
     LEFT JOIN categories t ON t.space = x.space AND t.id = x.to_id";

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
        let slot = (rename.parent_id, rename.to);
        let taken = self.find_namesake(space, slot, rename.id).await?;
        let before = self.find_state(space, rename.id).await?;
        let Some(before) = before.filter(|before| taken.is_none() && !before.is_closed) else {
            return Ok(None);
        };

        let after = CategoryState {
            name: rename.to.to_owned(),
            named_by: rename.by,
            ..before.clone()
        };
        self.change_state(space, &before, &after, now).await?;
        self.count_category_removal(space).await?;

        let change = NewChange {
            kind: ChangeKind::Rename,
            category_id: rename.id,
            from_id: None,
            to_id: None,
            chunk_id: None,
            by: rename.by,
            reason: rename.reason,
        };
        let named = |state: CategoryState| ChangeSide {
            name: Some(state.name),
            named_by: Some(state.named_by),
            states: Vec::new(),
        };
        let id = self.add_category_change(space, &change, now).await?;
        let sides = (&named(before), &named(after));
        self.complete_category_change(space, id, sides, 0).await?;
        Ok(Some(id))
    }

    /// Stores a change, whose two sides follow with [`Tx::complete_category_change`]; returns its
    /// number.
    pub async fn add_category_change(
        &mut self,
        space: &Space,
        change: &NewChange<'_>,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let insert = "INSERT INTO category_changes (space, category_id, kind, from_id, to_id, chunk_id, before_json, \
                      after_json, actor, reason, created_at) VALUES (?, ?, ?, ?, ?, ?, '{}', '{}', ?, ?, ?)";
        let insert = self
            .dialect()
            .insert_with_id(insert)
            .bind(space.as_str())
            .bind(change.category_id)
            .bind(change.kind.into_str())
            .bind(change.from_id)
            .bind(change.to_id)
            .bind(change.chunk_id)
            .bind(change.by.into_str())
            .bind(change.reason.map(str::to_owned))
            .bind(now.as_micros());

        self.insert_for_id(insert).await
    }

    /// Stores what a change has altered, and how many chunks it has moved.
    pub async fn complete_category_change(
        &mut self,
        space: &Space,
        id: i64,
        (before, after): (&ChangeSide, &ChangeSide),
        chunks: i64,
    ) -> Result<(), StoreError> {
        let update = "UPDATE category_changes SET before_json = ?, after_json = ?, chunk_count = ? \
                      WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(to_json(before))
            .bind(to_json(after))
            .bind(chunks)
            .bind(space.as_str())
            .bind(id);

        self.execute(update).await.map(|_| ())
    }

    /// A change, with what undoes it.
    pub async fn find_category_change(
        &mut self,
        space: &Space,
        id: i64,
    ) -> Result<Option<StoredChange>, StoreError> {
        let sql = format!(
            "SELECT {} FROM category_changes WHERE space = ? AND id = ?",
            StoredChange::COLUMNS
        );
        let query = self.composed(&sql).bind(space.as_str()).bind(id);
        self.read_first(query).await
    }

    /// A change as lists show it.
    pub async fn find_listed_change(
        &mut self,
        space: &Space,
        id: i64,
    ) -> Result<Option<CategoryChange>, StoreError> {
        let sql = format!("{LISTED} WHERE x.space = ? AND x.id = ?");
        let query = self.composed(&sql).bind(space.as_str()).bind(id);
        self.read_first(query).await
    }

    /// Notes that a change was undone.
    pub async fn mark_undone(
        &mut self,
        space: &Space,
        id: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = "UPDATE category_changes SET undone_at = ? WHERE space = ? AND id = ?";
        let update = self.sql(update).bind(now.as_micros()).bind(space.as_str());
        self.execute(update.bind(id)).await.map(|_| ())
    }

    /// The open categories that formerly had these names below these parents, or that took the place
    /// of those that had; 0 stands for the root.
    pub async fn list_aliases(
        &mut self,
        space: &Space,
        named: &BTreeSet<(i64, String)>,
    ) -> Result<HashMap<(i64, String), i64>, StoreError> {
        let named: Vec<&(i64, String)> = named.iter().collect();
        let mut found = HashMap::new();
        for some in named.chunks(NAMES) {
            let sql =
                "SELECT a.parent_key, a.name_key, a.category_id FROM category_aliases a WHERE";
            let query = select_named(self.dialect(), sql, "a", space, some);
            for row in self.fetch_all(query).await? {
                let key = (row.try_get("parent_key")?, row.try_get("name_key")?);
                found.insert(key, row.try_get("category_id")?);
            }
        }

        self.follow_merges(space, found).await
    }

    /// Replaces closed categories by those that took their place, which may be closed as well; without
    /// those whose place nothing took.
    async fn follow_merges<K: Eq + Hash>(
        &mut self,
        space: &Space,
        mut found: HashMap<K, i64>,
    ) -> Result<HashMap<K, i64>, StoreError> {
        let mut states: HashMap<i64, CategoryState> = HashMap::new();
        let mut read: BTreeSet<i64> = BTreeSet::new();
        let mut unread: BTreeSet<i64> = found.values().copied().collect();
        while !unread.is_empty() {
            let ids: Vec<i64> = unread.iter().copied().collect();
            read.append(&mut unread);
            states.extend(self.list_states(space, &ids).await?);

            let last = ids.iter().filter_map(|id| states.get(id));
            let next = last.filter_map(CategoryState::successor);
            unread = next.filter(|id| !read.contains(id)).collect();
        }

        found.retain(|_, id| {
            let open = open_successor(&states, *id);
            *id = open.unwrap_or(0);
            open.is_some()
        });
        Ok(found)
    }
}

/// The open category to which merges lead from this one; none if they lead nowhere, or in a circle.
fn open_successor(states: &HashMap<i64, CategoryState>, start: i64) -> Option<i64> {
    let mut seen = BTreeSet::new();
    let mut state = states.get(&start)?;
    while state.is_closed {
        if !seen.insert(state.id) {
            return None;
        }
        state = states.get(&state.successor()?)?;
    }

    Some(state.id)
}

row! {
    CategoryChange as "x." {
        id, category_id, kind, actor, reason, created_at, undone_at, from_id, to_id, chunk_id,
        chunks_moved = "chunk_count",
    }
    from row {
        from: name_in(row, "before_json", "from_name")?,
        to: name_in(row, "after_json", "to_name")?,
    }
}

row! {
    StoredChange as "" {
        id, category_id, kind, from_id, to_id, chunk_id, before = "before_json", after = "after_json", undone_at,
    }
}

/// The name that a change stores, or that of a category that it tells of.
fn name_in(row: &AnyRow, side: &str, present: &str) -> Result<String, StoreError> {
    let side: ChangeSide = get(row, side)?;
    let present: Option<String> = get(row, present)?;
    Ok(side.name.or(present).unwrap_or_default())
}
