//! Search entries that are not chunks: found by the same search, and written without locking the
//! whole space.

use std::sync::Arc;
use std::time::Duration;

use memoir::base::clock::{SystemClock, Timestamp};
use memoir::base::ids::Space;
use memoir::embedded_model::EmbeddedModel;
use memoir::llm::{Llm, Session};
use memoir::model::search::OwnerKind;
use memoir::search::{EntryQuery, Filter, Kind, Search, terms, vectors};
use memoir::store::{Engine, NewEmbedding, NewEntry, Store, Tx};

use crate::support::app::load;
use crate::support::database::TestDatabase;

const MODEL: &str = "local:embedded";

struct Desk {
    store: Store,
    search: Search,
    space: Space,
    session: Session,
}

impl Desk {
    async fn at(database: &TestDatabase, memory_mb: &str) -> Self {
        let config = load(&database.url, &[("VECTOR__MEMORY_MB", memory_mb)]);
        let store = Store::connect(&config.database).await.unwrap();
        store.migrate().await.unwrap();
        let llm = Llm::new(config.llm, "", store.clone(), Arc::new(SystemClock));
        Self {
            search: Search::new(store.clone(), llm, config.vector),
            store,
            space: Space::default(),
            session: Session::of_caller(Space::default()),
        }
    }

    /// Writes a memory, and leaves the transaction open.
    async fn write(&self, id: i64, thread: &str, text: &str) -> Tx {
        let mut tx = self.store.begin().await.unwrap();
        let terms = terms::of_chunk(text);
        let entry = NewEntry {
            owner_id: id,
            group_id: thread,
            version_id: 0,
            length: i64::from(terms.length),
            tokens: &terms.tokens,
        };

        let (kind, now) = (OwnerKind::Memory, Timestamp::from_micros(id));
        tx.remove_entries(&self.space, kind, &[id]).await.unwrap();
        tx.add_entries(&self.space, kind, &[entry], now)
            .await
            .unwrap();
        tx.count_entry_write(&self.space, thread).await.unwrap();
        tx
    }

    /// Stores the vector of a memory.
    async fn embed(&self, id: i64, thread: &str, text: &str) {
        let mut tx = self.store.begin().await.unwrap();
        let (kind, now) = (OwnerKind::Memory, Timestamp::from_micros(id));
        let entries = tx.list_entry_ids(&self.space, kind, &[id]).await.unwrap();
        let vector = EmbeddedModel::embed(text);
        let new = NewEmbedding {
            entry_id: entries[&id],
            dim: i64::try_from(vector.len()).unwrap(),
            vector: &vectors::to_bytes(&vector),
        };

        let settled = tx.settle_embedding_model(&self.space, MODEL, now).await;
        assert_eq!(settled.unwrap(), MODEL);
        tx.add_embeddings(&self.space, kind, MODEL, &[new], now)
            .await
            .unwrap();
        tx.count_entry_write(&self.space, thread).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn found(&self, owner_kind: OwnerKind, kind: Kind, text: &str) -> Vec<i64> {
        let query = EntryQuery {
            owner_kind,
            text,
            kind,
            k: 10,
            min_score: None,
            by_group: false,
            scope: None,
            group: None,
        };

        let found = self
            .search
            .find(&self.session, &self.space, query, Filter::default())
            .await
            .unwrap();

        assert!(found.hits.iter().all(|hit| hit.owner.kind == owner_kind));
        let mut ids: Vec<i64> = found.hits.iter().map(|hit| hit.owner.id).collect();
        if kind == Kind::Keyword {
            ids.sort_unstable();
        }

        ids
    }
}

#[tokio::test]
async fn writers_of_two_threads_do_not_wait_for_each_other() {
    for database in TestDatabase::each().await {
        let desk = Desk::at(&database, "64").await;
        desk.write(1, "a", "an early zeppelin")
            .await
            .commit()
            .await
            .unwrap();
        let found = async || {
            desk.found(OwnerKind::Memory, Kind::Keyword, "zeppelin")
                .await
        };
        assert_eq!(found().await, [1]);

        if database.engine == Engine::Sqlite {
            // One writer at a time, whatever it writes.
            continue;
        }

        let slow = desk.write(2, "a", "a slow zeppelin").await;
        let quick = tokio::time::timeout(Duration::from_secs(10), desk.write(3, "b", "a zeppelin"));
        quick.await.unwrap().commit().await.unwrap();
        assert_eq!(found().await, [1, 3]);

        // It has the lower id, but is committed later.
        slow.commit().await.unwrap();
        assert_eq!(found().await, [1, 2, 3], "{:?}", database.engine);
    }
}

#[tokio::test]
async fn memories_are_found_like_chunks() {
    for database in TestDatabase::each().await {
        let texts = [
            (1, "a", "a red fox in the snow"),
            (2, "a", "the weather of the north"),
            (3, "b", "a fox again"),
        ];

        let (roomy, small) = (
            Desk::at(&database, "64").await,
            Desk::at(&database, "0").await,
        );
        for (id, thread, text) in texts {
            roomy.write(id, thread, text).await.commit().await.unwrap();
        }

        let both = async |kind, text: &str, wanted: &[i64]| {
            for desk in [&roomy, &small] {
                let found = desk.found(OwnerKind::Memory, kind, text).await;
                assert_eq!(found, wanted, "{:?} {text}", database.engine);
            }
        };

        both(Kind::Keyword, "fox", &[1, 3]).await;
        both(Kind::Semantic, "fox", &[]).await;
        let chunks = roomy.found(OwnerKind::Chunk, Kind::Keyword, "fox").await;
        assert!(chunks.is_empty(), "not a chunk");

        // A vector may be written later than the terms, and in another order.
        for (id, thread, text) in [texts[2], texts[0], texts[1]] {
            roomy.embed(id, thread, text).await;
            let found = roomy.found(OwnerKind::Memory, Kind::Semantic, text).await;
            assert_eq!(found[0], id, "{:?}", database.engine);
        }

        both(Kind::Semantic, "weather of the north", &[2, 1, 3]).await;

        // Another text, then a deletion.
        roomy
            .write(1, "a", "a blue hen")
            .await
            .commit()
            .await
            .unwrap();
        both(Kind::Keyword, "fox", &[3]).await;
        both(Kind::Keyword, "hen", &[1]).await;
        let mut tx = roomy.store.begin().await.unwrap();
        tx.remove_group_entries(&roomy.space, OwnerKind::Memory, "b")
            .await
            .unwrap();
        tx.count_entry_write(&roomy.space, "b").await.unwrap();
        tx.commit().await.unwrap();
        both(Kind::Keyword, "fox", &[]).await;
        both(Kind::Keyword, "hen north", &[1, 2]).await;
    }
}
