//! Rows of `sources` and `source_tags`.

use std::collections::HashMap;

use memoir_index::OwnerKind;
use memoir_text::hash::short_hash;
use memoir_text::words::filename_key;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::dialect::KEPT_ROWS;
use super::rows::{Stored as _, row};
use super::source_versions;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::source::{FILE_INGEST, Source, SourceKind};

row! {
    Source as "s." {
        id, user_id, filename, path, file_type = "type", eligible, latest_version, created_at, updated_at,
    }
    from _row { kind: SourceKind::FileIngest, tags: Vec::new() }
}

/// One row per tag: a source and all its tags are read in one round trip.
fn select_one() -> String {
    format!(
        "SELECT {}, t.tag FROM sources s LEFT JOIN source_tags t ON t.space = s.space AND t.source_id = s.id \
         WHERE s.space = ? AND s.id = ? ORDER BY t.position",
        Source::COLUMNS
    )
}

const SELECT_AT: &str = "SELECT id FROM sources WHERE space = ? AND user_id = ? AND path_key = ?";

/// Sources in one lookup.
const ROWS: usize = 100;

impl Store {
    pub async fn find_source(
        &self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Option<Source>, StoreError> {
        self.retry("find_source", || async {
            let query = self
                .composed(&select_one())
                .bind(space.as_str())
                .bind(id.as_str());
            gather(&self.fetch_all(query).await?)
        })
        .await
    }

    /// Those of these sources that exist, in no order.
    pub async fn list_sources_by_id(
        &self,
        space: &Space,
        ids: &[SourceId],
    ) -> Result<Vec<Source>, StoreError> {
        let mut found = Vec::new();
        for some in ids.chunks(ROWS) {
            let mut statement = select_sources();
            statement.text(" WHERE s.space = ?", space.as_str());
            for (place, id) in some.iter().enumerate() {
                let joint = if place == 0 { " AND s.id IN (?" } else { ", ?" };
                statement.text(joint, id.as_str());
            }

            statement.push(")");
            found.extend(self.list_selected(space, &statement, some.len()).await?);
        }

        Ok(found)
    }

    /// The sources of users at their paths, where there are any, in no order.
    pub async fn list_sources_at(
        &self,
        space: &Space,
        places: &[(String, String)],
    ) -> Result<Vec<Source>, StoreError> {
        let mut found = Vec::new();
        for some in places.chunks(ROWS) {
            let mut statement = select_sources();
            for (place, (user_id, path)) in some.iter().enumerate() {
                statement.push(if place == 0 { " WHERE" } else { " OR" });
                statement.text(" (s.space = ?", space.as_str());
                statement.text(" AND s.user_id = ?", user_id);
                statement.text(" AND s.path_key = ?)", short_hash(path.as_bytes()));
            }

            found.extend(self.list_selected(space, &statement, some.len()).await?);
        }

        Ok(found)
    }

    /// The sources that a statement about so many selects.
    pub(super) async fn list_selected(
        &self,
        space: &Space,
        statement: &StatementBuilder,
        count: usize,
    ) -> Result<Vec<Source>, StoreError> {
        self.retry("list_sources", || async {
            let query = self.put_together(statement, count <= KEPT_ROWS);
            let rows = self.fetch_all(query).await?;
            let mut sources = rows
                .iter()
                .map(Source::read)
                .collect::<Result<Vec<_>, _>>()?;

            self.read_tags(space, sources.iter_mut()).await?;
            Ok(sources)
        })
        .await
    }

    /// A source as of a time, but with its present tags and eligibility; `None` if it did not exist
    /// yet.
    pub async fn find_source_as_of(
        &self,
        space: &Space,
        id: &SourceId,
        moment: Timestamp,
    ) -> Result<Option<Source>, StoreError> {
        let mut statement = StatementBuilder::default();
        statement.push("SELECT s.id, s.user_id, s.filename, s.path, s.type, s.eligible, ");
        latest(&mut statement, Some(moment));
        statement.push(" AS latest_version, s.created_at, s.updated_at, t.tag FROM sources s ");
        statement.push("LEFT JOIN source_tags t ON t.space = s.space AND t.source_id = s.id ");
        statement.text("WHERE s.space = ?", space.as_str());
        statement.text(" AND s.id = ?", id.as_str());
        statement.number(
            " AND s.created_at <= ? ORDER BY t.position",
            moment.as_micros(),
        );

        self.retry("find_source_as_of", || async {
            gather(&self.fetch_all(self.put_together(&statement, true)).await?)
        })
        .await
    }

    /// Fills in the tags of a page, in one round trip.
    pub(super) async fn read_tags(
        &self,
        space: &Space,
        sources: impl Iterator<Item = &mut Source>,
    ) -> Result<(), StoreError> {
        let sources: Vec<&mut Source> = sources.collect();
        if sources.is_empty() {
            return Ok(());
        }

        let sql = "SELECT source_id, tag FROM source_tags WHERE space = ? AND source_id IN (??) ORDER BY position";
        let mut query = self
            .dialect()
            .query_list(sql, sources.len())
            .bind(space.as_str());

        for source in &sources {
            query = query.bind(source.id.as_str());
        }

        let mut tags: HashMap<String, Vec<String>> = HashMap::new();
        for row in self.fetch_all(query).await? {
            tags.entry(row.try_get("source_id")?)
                .or_default()
                .push(row.try_get("tag")?);
        }

        for source in sources {
            source.tags = tags.remove(source.id.as_str()).unwrap_or_default();
        }

        Ok(())
    }
}

impl Tx {
    /// # Errors
    /// [`StoreError::Conflict`] on `sources_path`: the user already has a source at that path.
    pub async fn add_source(&mut self, space: &Space, source: &Source) -> Result<(), StoreError> {
        let insert = "INSERT INTO sources (space, id, user_id, filename, filename_key, path, path_key, type, kind, \
                      eligible, latest_version, latest_size, created_at, updated_at) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)";
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(source.id.as_str())
            .bind(source.user_id.as_str())
            .bind(source.filename.as_str())
            .bind(filename_key(&source.filename))
            .bind(source.path.as_str())
            .bind(short_hash(source.path.as_bytes()))
            .bind(source.file_type.as_str())
            .bind(FILE_INGEST)
            .bind(i16::from(source.eligible))
            .bind(source.latest_version)
            .bind(source.created_at.as_micros())
            .bind(source.updated_at.as_micros());
        if self.insert(insert).await?.is_none() {
            return Err(StoreError::Conflict {
                constraint: "sources_path",
            });
        }

        self.add_source_tags(space, source).await
    }

    /// Reads a source and locks it until the transaction ends.
    pub async fn find_source(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Option<Source>, StoreError> {
        let lock = "SELECT id FROM sources WHERE space = ? AND id = ?";
        let lock = self
            .dialect()
            .query_for_update(lock)
            .bind(space.as_str())
            .bind(id.as_str());

        self.fetch_optional(lock).await?;
        let query = self
            .composed(&select_one())
            .bind(space.as_str())
            .bind(id.as_str());
        gather(&self.fetch_all(query).await?)
    }

    /// The source of a user at a path, if any.
    pub async fn find_source_at(
        &mut self,
        space: &Space,
        user_id: &str,
        path: &str,
    ) -> Result<Option<SourceId>, StoreError> {
        let query = self.sql(SELECT_AT);
        let query = query
            .bind(space.as_str())
            .bind(user_id)
            .bind(short_hash(path.as_bytes()));

        self.read_value(query).await
    }

    /// Writes what may change in a source: tags, eligibility and the time of the change.
    pub async fn update_source(
        &mut self,
        space: &Space,
        source: &Source,
    ) -> Result<(), StoreError> {
        let update =
            self.sql("UPDATE sources SET eligible = ?, updated_at = ? WHERE space = ? AND id = ?");
        let update = update
            .bind(i16::from(source.eligible))
            .bind(source.updated_at.as_micros());
        self.execute(update.bind(space.as_str()).bind(source.id.as_str()))
            .await?;
        let clear = self.sql("DELETE FROM source_tags WHERE space = ? AND source_id = ?");
        self.execute(clear.bind(space.as_str()).bind(source.id.as_str()))
            .await?;

        self.add_source_tags(space, source).await
    }

    /// Deletes a source with everything that belongs to it; returns whether it existed.
    pub async fn remove_source(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<bool, StoreError> {
        for kind in [OwnerKind::Chunk, OwnerKind::Source] {
            self.remove_group_entries(space, kind, id.as_str()).await?;
        }

        self.remove_placements(space, id).await?;
        let delete = self.sql("DELETE FROM sources WHERE space = ? AND id = ?");
        Ok(self
            .execute(delete.bind(space.as_str()).bind(id.as_str()))
            .await?
            == 1)
    }

    async fn add_source_tags(&mut self, space: &Space, source: &Source) -> Result<(), StoreError> {
        if source.tags.is_empty() {
            return Ok(());
        }

        let values = vec!["(?, ?, ?, ?)"; source.tags.len()].join(", ");
        let insert =
            format!("INSERT INTO source_tags (space, source_id, tag, position) VALUES {values}");
        let mut insert = self.composed(&insert).persistent(false);

        for (position, tag) in (0_i64..).zip(&source.tags) {
            insert = insert
                .bind(space.as_str())
                .bind(source.id.as_str())
                .bind(tag.as_str())
                .bind(position);
        }

        self.execute(insert).await.map(|_| ())
    }
}

/// The newest version of a source `s`, now or at a time.
pub(super) fn latest(statement: &mut StatementBuilder, as_of: Option<Timestamp>) {
    let Some(moment) = as_of else {
        return statement.push("s.latest_version");
    };
    statement.push(
        "COALESCE((SELECT MAX(w.version) FROM source_versions w WHERE w.space = s.space AND ",
    );
    statement.push(source_versions::IS_WHOLE);
    statement.number(
        " AND w.source_id = s.id AND w.ingested_at <= ?), 0)",
        moment.as_micros(),
    );
}

/// The beginning of a statement that selects sources, without their tags.
fn select_sources() -> StatementBuilder {
    StatementBuilder::of(&format!("SELECT {} FROM sources s", Source::COLUMNS))
}

fn gather(rows: &[AnyRow]) -> Result<Option<Source>, StoreError> {
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let mut source = Source::read(first)?;
    for row in rows {
        source.tags.extend(row.try_get::<Option<String>, _>("tag")?);
    }

    Ok(Some(source))
}
