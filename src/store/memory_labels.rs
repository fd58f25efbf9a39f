//! Rows of `memory_topics`, `memory_entities` and `memory_tags`, by which memories are found. The
//! first two name the user too, so that one index finds a user's memories of a topic.

use super::{StoreError, Tx};
use crate::base::ids::Space;
use crate::model::memory::Memory;

/// Rows per insert.
const ROWS: usize = 50;

impl Tx {
    /// Stores the labels of memories that have none yet.
    pub(super) async fn add_labels(
        &mut self,
        space: &Space,
        memories: &[Memory],
    ) -> Result<(), StoreError> {
        self.add_topics(space, memories).await?;
        self.add_tags(space, memories).await?;
        self.add_entities(space, memories).await
    }

    /// Removes the labels of a memory.
    pub(super) async fn remove_labels(
        &mut self,
        space: &Space,
        memory: &Memory,
    ) -> Result<(), StoreError> {
        for table in [
            "DELETE FROM memory_topics WHERE space = ? AND memory_id = ?",
            "DELETE FROM memory_entities WHERE space = ? AND memory_id = ?",
            "DELETE FROM memory_tags WHERE space = ? AND memory_id = ?",
        ] {
            let delete = self.sql(table).bind(space.as_str());
            self.execute(delete.bind(memory.id.as_str())).await?;
        }

        Ok(())
    }

    async fn add_topics(&mut self, space: &Space, memories: &[Memory]) -> Result<(), StoreError> {
        let sql = "INSERT INTO memory_topics (space, memory_id, position, topic, user_id) VALUES (?, ?, ?, ?, ?)";
        let rows: Vec<_> = each(memories, |memory| &memory.labels.topics).collect();
        for some in rows.chunks(ROWS) {
            let insert = self.dialect().insert_rows_if_absent(sql, some.len());
            let insert = some.iter().fold(insert, |insert, (memory, at, topic)| {
                let insert = insert.bind(space.as_str()).bind(memory.id.to_string());
                insert
                    .bind(*at)
                    .bind((*topic).clone())
                    .bind(memory.user_id.clone())
            });
            self.execute(insert).await?;
        }

        Ok(())
    }

    async fn add_tags(&mut self, space: &Space, memories: &[Memory]) -> Result<(), StoreError> {
        let sql = "INSERT INTO memory_tags (space, memory_id, position, tag) VALUES (?, ?, ?, ?)";
        let rows: Vec<_> = each(memories, |memory| &memory.labels.tags).collect();
        for some in rows.chunks(ROWS) {
            let insert = self.dialect().insert_rows_if_absent(sql, some.len());
            let insert = some.iter().fold(insert, |insert, (memory, at, tag)| {
                let insert = insert.bind(space.as_str()).bind(memory.id.to_string());
                insert.bind(*at).bind((*tag).clone())
            });
            self.execute(insert).await?;
        }

        Ok(())
    }

    async fn add_entities(&mut self, space: &Space, memories: &[Memory]) -> Result<(), StoreError> {
        let sql = "INSERT INTO memory_entities (space, memory_id, position, type, value, user_id) VALUES (?, ?, ?, ?, ?, ?)";
        let rows: Vec<_> = each(memories, |memory| &memory.labels.entities).collect();
        for some in rows.chunks(ROWS) {
            let insert = self.dialect().insert_rows_if_absent(sql, some.len());
            let insert = some.iter().fold(insert, |insert, (memory, at, entity)| {
                let insert = insert.bind(space.as_str()).bind(memory.id.to_string());
                insert
                    .bind(*at)
                    .bind(entity.kind.clone())
                    .bind(entity.value.clone())
                    .bind(memory.user_id.clone())
            });
            self.execute(insert).await?;
        }

        Ok(())
    }
}

/// The labels of one kind of all memories, each with its memory and its place there.
fn each<'m, T: 'm>(
    memories: &'m [Memory],
    labels: impl Fn(&'m Memory) -> &'m Vec<T>,
) -> impl Iterator<Item = (&'m Memory, i64, &'m T)> {
    memories.iter().flat_map(move |memory| {
        let labels = (0_i64..).zip(labels(memory));
        labels.map(move |(at, label)| (memory, at, label))
    })
}
