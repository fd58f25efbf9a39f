//! Rows of `categories`: the hierarchy of a space. Closed categories are left out, unless a function
//! says otherwise.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::Row as _;

use super::candidates::StatementBuilder;
use super::dialect::{BindAll as _, Dialect, Statement};
use super::rows::{Stored as _, row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::category::{Category, CategoryPath, NewCategory};

const COLUMNS: &str = Category::COLUMNS;
/// Neither merged nor removed.
const OPEN: &str = "closed_at IS NULL";

row! {
    Category as "" { id, parent_id, level, name, chunk_count, created_at }
}

/// Ids per statement: below every engine's limit of values, and of a size that planners handle
/// well.
pub(super) const AT_ONCE: usize = 500;
/// Names per statement.
pub(super) const NAMES: usize = 100;

/// Which categories a list shows; `None`: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CategoryFilter {
    pub parent_id: Option<i64>,
    pub level: Option<i64>,
    /// Those that existed at this time.
    pub as_of: Option<Timestamp>,
}

/// A page: at most `limit` categories, level by level, oldest first, after the given one.
#[derive(Debug, Clone, Default)]
pub struct CategoryPage {
    /// Level and id.
    pub after: Option<(i64, i64)>,
    pub limit: Option<usize>,
}

impl Store {
    /// A category, now or at a time.
    pub async fn find_category(
        &self,
        space: &Space,
        id: i64,
        as_of: Option<Timestamp>,
    ) -> Result<Option<Category>, StoreError> {
        let mut statement = select_as_of(space, as_of);
        statement.number(" AND id = ?", id);
        self.read_first("find_category", || self.put_together(&statement, true))
            .await
    }

    pub async fn list_categories(
        &self,
        space: &Space,
        filter: &CategoryFilter,
        page: &CategoryPage,
    ) -> Result<Vec<Category>, StoreError> {
        self.read_all("list_categories", || {
            self.put_together(&select_page(space, filter, page), true)
        })
        .await
    }

    /// The children of several parents; 0 stands for the root.
    pub async fn list_children(
        &self,
        space: &Space,
        parents: &[i64],
    ) -> Result<Vec<Category>, StoreError> {
        let mut found = Vec::new();
        for some in parents.chunks(AT_ONCE) {
            let children = self.read_all::<Category>("list_children", || {
                select_children(self.dialect(), space, some)
            });
            found.extend(children.await?);
        }

        found.sort_unstable_by_key(|category| category.id);
        Ok(found)
    }

    /// The paths to categories, by id, now or at a time.
    pub async fn find_category_paths(
        &self,
        space: &Space,
        ids: &[i64],
        as_of: Option<Timestamp>,
    ) -> Result<HashMap<i64, CategoryPath>, StoreError> {
        let mut paths: HashMap<i64, CategoryPath> = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let rows = self.retry("find_category_paths", || async {
                let query = match as_of {
                    Some(moment) => self.put_together(&select_paths_of(space, some, moment), false),
                    None => select_paths(self.dialect(), space, some),
                };
                self.fetch_all(query).await
            });
            for row in rows.await? {
                paths
                    .entry(row.try_get("leaf")?)
                    .or_default()
                    .push((row.try_get("id")?, row.try_get("name")?));
            }
        }

        Ok(paths)
    }

    /// The number of categories per level, now or at a time.
    pub async fn count_categories(
        &self,
        space: &Space,
        as_of: Option<Timestamp>,
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let mut statement =
            StatementBuilder::of("SELECT found.level, COUNT(*) AS categories FROM (");
        statement.append(select_as_of(space, as_of));
        statement.push(") found GROUP BY found.level");
        let counts = self.read_all("count_categories", || self.put_together(&statement, true));
        Ok(counts.await?.into_iter().collect())
    }

    /// Parents with at least `limit` children, and how many they have; 0 stands for the root.
    pub async fn list_full_parents(
        &self,
        space: &Space,
        limit: i64,
        most: usize,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let sql = "SELECT parent_key, COUNT(*) AS children FROM categories WHERE space = ? AND closed_at IS NULL \
                   GROUP BY parent_key HAVING COUNT(*) >= ? ORDER BY parent_key LIMIT ?";
        self.read_all("list_full_parents", || {
            let query = self.sql(sql).bind(space.as_str()).bind(limit);
            query.bind(row_limit(most))
        })
        .await
    }
}

impl Tx {
    pub async fn find_category(
        &mut self,
        space: &Space,
        id: i64,
    ) -> Result<Option<Category>, StoreError> {
        let query = select(
            self.dialect(),
            "WHERE space = ? AND id = ? AND closed_at IS NULL",
        )
        .bind(space.as_str())
        .bind(id);
        self.read_first(query).await
    }

    /// The whole hierarchy, level by level.
    pub async fn list_categories(&mut self, space: &Space) -> Result<Vec<Category>, StoreError> {
        let sql = format!("WHERE space = ? AND {OPEN} ORDER BY level, id");
        let query = select(self.dialect(), &sql).bind(space.as_str());

        self.read_all(query).await
    }

    /// The children of several parents; 0 stands for the root.
    pub async fn list_children(
        &mut self,
        space: &Space,
        parents: &[i64],
    ) -> Result<Vec<Category>, StoreError> {
        let mut found = Vec::new();
        for some in parents.chunks(AT_ONCE) {
            let query = select_children(self.dialect(), space, some);
            for row in self.fetch_all(query).await? {
                found.push(Category::read(&row)?);
            }
        }

        found.sort_unstable_by_key(|category| category.id);
        Ok(found)
    }

    /// The open categories with these names below these parents; 0 stands for the root.
    pub async fn list_categories_named(
        &mut self,
        space: &Space,
        named: &BTreeSet<(i64, String)>,
    ) -> Result<HashMap<(i64, String), i64>, StoreError> {
        let named: Vec<&(i64, String)> = named.iter().collect();
        let mut found = HashMap::with_capacity(named.len());
        for some in named.chunks(NAMES) {
            let sql = "SELECT c.id, c.parent_key, c.name_key FROM categories c WHERE c.closed_at IS NULL AND";
            let query = select_named(self.dialect(), sql, "c", space, some);
            for row in self.fetch_all(query).await? {
                let key = (row.try_get("parent_key")?, row.try_get("name_key")?);
                found.insert(key, row.try_get("id")?);
            }
        }

        Ok(found)
    }

    /// Whether any chunk, of any version, belongs to one of these.
    pub async fn has_chunks_in(&mut self, space: &Space, ids: &[i64]) -> Result<bool, StoreError> {
        for some in ids.chunks(AT_ONCE) {
            let sql = "SELECT id FROM chunks WHERE space = ? AND category_id IN (??) LIMIT 1";
            let query = self
                .dialect()
                .query_list(sql, some.len())
                .bind(space.as_str());

            if self
                .fetch_optional(query.bind_all(some.iter().copied()))
                .await?
                .is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes categories without chunks or children.
    pub async fn remove_categories(
        &mut self,
        space: &Space,
        ids: &[i64],
    ) -> Result<(), StoreError> {
        for some in ids.chunks(AT_ONCE) {
            let sql = "DELETE FROM categories WHERE space = ? AND id IN (??)";
            let delete = self
                .dialect()
                .query_list(sql, some.len())
                .bind(space.as_str());

            self.execute(delete.bind_all(some.iter().copied())).await?;
        }
        Ok(())
    }

    /// The number of categories per level.
    pub async fn count_categories(
        &mut self,
        space: &Space,
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let query = self.sql(
            "SELECT level, COUNT(*) AS categories FROM categories WHERE space = ? AND closed_at IS NULL GROUP BY level",
        );
        let rows = self.fetch_all(query.bind(space.as_str())).await?;
        rows.iter()
            .map(|row| Ok((row.try_get("level")?, row.try_get("categories")?)))
            .collect()
    }

    /// The names from level 1 to each of these categories.
    pub async fn list_paths(
        &mut self,
        space: &Space,
        ids: &[i64],
    ) -> Result<HashMap<i64, Vec<String>>, StoreError> {
        let mut paths: HashMap<i64, Vec<String>> = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let query = select_paths(self.dialect(), space, some);
            for row in self.fetch_all(query).await? {
                let path = paths.entry(row.try_get("leaf")?).or_default();
                path.push(row.try_get("name")?);
            }
        }

        Ok(paths)
    }

    /// Creates categories with unused names; the caller holds the space's lock.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] on `categories_name`: a name is taken under its parent.
    pub async fn add_categories(
        &mut self,
        space: &Space,
        new: &[NewCategory],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for some in new.chunks(AT_ONCE) {
            let values = vec!["(?, ?, ?, ?, ?, ?, ?, 0, ?)"; some.len()].join(", ");
            let insert = format!(
                "INSERT INTO categories (space, parent_id, parent_key, level, name, name_key, named_by, chunk_count, \
                 created_at) VALUES {values}"
            );

            let mut insert = self.composed(&insert).persistent(false);
            for category in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(category.parent_id)
                    .bind(category.parent_id.unwrap_or(0))
                    .bind(category.level)
                    .bind(category.name.as_str())
                    .bind(category.name_key.as_str())
                    .bind(category.named_by.into_str())
                    .bind(now.as_micros());
            }

            if self.insert(insert).await?.is_none() {
                return Err(StoreError::Conflict {
                    constraint: "categories_name",
                });
            }
        }
        Ok(())
    }

    /// Makes leaves and their ancestors no younger than when chunks were moved into them, so that a
    /// query as of that time finds every chunk. The caller holds the space's lock.
    pub async fn date_back(
        &mut self,
        space: &Space,
        leaves: &[i64],
        moment: Timestamp,
    ) -> Result<(), StoreError> {
        for some in leaves.chunks(AT_ONCE) {
            let mut ids = BTreeSet::new();
            for row in self
                .fetch_all(select_paths(self.dialect(), space, some))
                .await?
            {
                ids.insert(row.try_get::<i64, _>("id")?);
            }
            for some in ids.into_iter().collect::<Vec<_>>().chunks(AT_ONCE) {
                let sql = "UPDATE categories SET created_at = ? WHERE COALESCE(space, '') = ? AND created_at > ? \
                           AND id IN (??)";
                let update = self
                    .dialect()
                    .query_list(sql, some.len())
                    .bind(moment.as_micros())
                    .bind(space.as_str())
                    .bind(moment.as_micros());
                self.execute(update.bind_all(some.iter().copied())).await?;
            }
        }
        Ok(())
    }
}

fn select(dialect: &Dialect, condition: &str) -> Statement {
    dialect.assembled(&format!("SELECT {COLUMNS} FROM categories {condition}"))
}

/// Unordered: with ORDER BY, SQLite would scan the whole space by id.
fn select_children(dialect: &Dialect, space: &Space, parents: &[i64]) -> Statement {
    let marks = vec!["?"; parents.len().max(1)].join(",");
    let sql = format!(
        "SELECT {COLUMNS} FROM categories WHERE space = ? AND parent_key IN ({marks}) AND closed_at IS NULL"
    );
    let mut query = dialect
        .assembled(&sql)
        .persistent(false)
        .bind(space.as_str());
    query = query.bind_all(parents.iter().copied());

    query
}

/// `sql`, which ends in WHERE or AND, limited to rows of `table` with these names below these parents.
pub(super) fn select_named(
    dialect: &Dialect,
    sql: &str,
    table: &str,
    space: &Space,
    named: &[&(i64, String)],
) -> Statement {
    let one = format!("({table}.space = ? AND {table}.parent_key = ? AND {table}.name_key = ?)");
    let any = vec![one; named.len()].join(" OR ");
    let mut query = dialect
        .assembled(&format!("{sql} ({any})"))
        .persistent(named.len() == 1);

    for (parent, name) in named {
        query = query
            .bind(space.as_str().to_owned())
            .bind(*parent)
            .bind(name.clone());
    }

    query
}

/// From each category up to level 1, then reversed.
pub(super) fn select_paths(dialect: &Dialect, space: &Space, ids: &[i64]) -> Statement {
    let sql = "WITH RECURSIVE way (leaf, id, parent_id, level, name, chunk_count, named_by) AS (\
               SELECT id, id, parent_id, level, name, chunk_count, named_by FROM categories \
               WHERE COALESCE(space, '') = ? AND id IN (??) \
               UNION ALL SELECT way.leaf, c.id, c.parent_id, c.level, c.name, c.chunk_count, c.named_by FROM way \
               JOIN categories c ON c.space = ? AND c.id = way.parent_id) \
               SELECT leaf, id, parent_id, name, chunk_count, named_by FROM way ORDER BY leaf, level";

    let mut query = dialect.query_list(sql, ids.len()).bind(space.as_str());
    query = query.bind_all(ids.iter().copied());

    query.bind(space.as_str())
}

/// The paths of a time.
fn select_paths_of(space: &Space, ids: &[i64], moment: Timestamp) -> StatementBuilder {
    let mut statement = StatementBuilder::of_categories(space, moment);
    statement.push(", way (leaf, id, parent_id, level, name) AS (SELECT k.id, k.id, k.parent_id, k.level, k.name FROM k");
    statement.numbers(" WHERE k.id IN (", ids);
    statement.push(
        " UNION ALL SELECT way.leaf, k.id, k.parent_id, k.level, k.name FROM way JOIN k ON k.id = way.parent_id) \
         SELECT leaf, id, name FROM way ORDER BY leaf, level",
    );
    statement
}

/// Categories that exist now, or that existed at a time; further conditions can follow.
fn select_as_of(space: &Space, as_of: Option<Timestamp>) -> StatementBuilder {
    let mut statement = StatementBuilder::of(&format!("SELECT {COLUMNS} FROM "));
    match as_of {
        Some(moment) => {
            statement.categories("(", space, moment);
            statement.number(") k WHERE created_at <= ?", moment.as_micros());
        }
        None => statement.text(
            &format!("categories WHERE space = ? AND {OPEN}"),
            space.as_str(),
        ),
    }
    statement
}

fn select_page(space: &Space, filter: &CategoryFilter, page: &CategoryPage) -> StatementBuilder {
    // Children of one parent: ordered by level, SQLite would scan all categories of the space.
    let one_level = filter.parent_id.is_some();
    let mut statement = select_as_of(space, filter.as_of);
    if let Some(parent_id) = filter.parent_id {
        statement.number(" AND parent_id = ?", parent_id);
    }
    if let Some(level) = filter.level {
        statement.number(" AND level = ?", level);
    }

    match page.after {
        Some((_, id)) if one_level => statement.number(" AND id > ?", id),
        Some((level, id)) => {
            statement.number(" AND level >= ?", level);
            statement.number(" AND (level > ?", level);
            statement.number(" OR id > ?)", id);
        }
        None => {}
    }

    let order = if one_level {
        " ORDER BY id"
    } else {
        " ORDER BY level, id"
    };
    match page.limit {
        Some(limit) => statement.limit(order, limit),
        None => statement.push(order),
    }
    statement
}
