//! Search entries that are not chunks: found by the same search, and written without locking the
//! whole space.

use std::sync::Arc;
use std::time::Duration;

use memoir::base::clock::{SystemClock, Timestamp};
use memoir::base::ids::{Space, memory_group};
use memoir::llm::{Llm, Session};
use memoir::search::Search;
use memoir::store::{Engine, NewEmbedding, NewEntry, Store, Tx};
use memoir_embedded_model::EmbeddedModel;
use memoir_index::{Hit, Kind, OwnerKind, terms, vectors};

use crate::support::app::load;
use crate::support::database::TestDatabase;
use crate::support::door::call;

const MODEL: &str = "local:embedded";

struct SearchedStore {
    store: Store,
    search: Search,
    space: Space,
    session: Session,
}

impl SearchedStore {
    async fn at(database: &TestDatabase, memory_mb: &str) -> Self {
        let config = load(&database.url, &[("VECTOR__MEMORY_MB", memory_mb)]);
        let store = Store::connect(&config.database).await.unwrap();
        store.migrate().await.unwrap();
        let llm = Llm::new(
            config.llm,
            config.audit,
            "",
            store.clone(),
            Arc::new(SystemClock),
        );
        Self {
            search: Search::new(store.clone(), llm, config.vector),
            store,
            space: Space::default(),
            session: Session::of_caller(call()),
        }
    }

    /// Writes a memory, and leaves the transaction open.
    async fn write(&self, id: i64, user: &str, text: &str) -> Tx {
        let group = memory_group(user);
        let mut tx = self.store.begin().await.unwrap();
        let terms = terms::of_chunk(text);
        let entry = NewEntry {
            owner_id: id,
            group_id: &group,
            version_id: 0,
            length: i64::from(terms.length),
            tokens: &terms.tokens,
        };

        let (kind, now) = (OwnerKind::Memory, Timestamp::from_micros(id));
        tx.remove_entries(&self.space, kind, &[id]).await.unwrap();
        tx.add_entries(&self.space, kind, &[entry], now)
            .await
            .unwrap();
        tx.count_entry_write(&self.space, &group).await.unwrap();
        tx
    }

    /// Stores the vector of a memory.
    async fn embed(&self, id: i64, user: &str, text: &str) {
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
        let group = memory_group(user);
        tx.count_entry_write(&self.space, &group).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// The numbers of the memories of a user that a search finds.
    async fn found(&self, user: &str, kind: Kind, text: &str) -> Vec<i64> {
        let found = self
            .search
            .find_entries_of(&self.session, user, text, kind, 10);
        let found = found.await.unwrap();
        let memory = |hit: &Hit| hit.owner.kind == OwnerKind::Memory;
        assert!(found.hits.iter().all(memory));
        let mut ids: Vec<i64> = found.hits.iter().map(|hit| hit.owner.id).collect();
        if kind == Kind::Keyword {
            ids.sort_unstable();
        }

        ids
    }
}

#[tokio::test]
async fn writers_for_two_users_do_not_wait_for_each_other() {
    for database in TestDatabase::each().await {
        let searched = SearchedStore::at(&database, "64").await;
        searched
            .write(1, "ann", "an early zeppelin")
            .await
            .commit()
            .await
            .unwrap();
        let found = async |user: &str| searched.found(user, Kind::Keyword, "zeppelin").await;
        assert_eq!(found("ann").await, [1]);

        if database.engine == Engine::Sqlite {
            // One writer at a time, whatever it writes.
            continue;
        }

        let slow = searched.write(2, "ann", "a slow zeppelin").await;
        let quick = tokio::time::timeout(
            Duration::from_secs(10),
            searched.write(3, "bob", "a zeppelin"),
        );
        quick.await.unwrap().commit().await.unwrap();
        assert_eq!((found("ann").await, found("bob").await), (vec![1], vec![3]));

        // It has the lower id, but is committed later.
        slow.commit().await.unwrap();
        assert_eq!(found("ann").await, [1, 2], "{:?}", database.engine);
        assert_eq!(found("bob").await, [3], "{:?}", database.engine);
    }
}

#[tokio::test]
async fn memories_are_found_in_memory_and_in_the_database() {
    for database in TestDatabase::each().await {
        let texts = [
            (1, "ann", "a red fox in the snow"),
            (2, "ann", "the weather of the north"),
            (3, "bob", "a fox again"),
        ];

        let (roomy, small) = (
            SearchedStore::at(&database, "64").await,
            SearchedStore::at(&database, "0").await,
        );
        for (id, user, text) in texts {
            roomy.write(id, user, text).await.commit().await.unwrap();
        }

        let both = async |user: &str, kind, text: &str, wanted: &[i64]| {
            for searched in [&roomy, &small] {
                let found = searched.found(user, kind, text).await;
                assert_eq!(found, wanted, "{:?} {user} {text}", database.engine);
            }
        };

        both("ann", Kind::Keyword, "fox", &[1]).await;
        both("bob", Kind::Keyword, "fox", &[3]).await;
        both("carl", Kind::Keyword, "fox", &[]).await;
        both("ann", Kind::Semantic, "fox", &[]).await;

        // A vector may be written later than the terms, and in another order.
        for (id, user, text) in [texts[2], texts[1], texts[0]] {
            roomy.embed(id, user, text).await;
            let found = roomy.found(user, Kind::Semantic, text).await;
            assert_eq!(found[0], id, "{:?}", database.engine);
        }

        both("ann", Kind::Semantic, "weather of the north", &[2, 1]).await;
        both("bob", Kind::Semantic, "weather of the north", &[3]).await;

        // Another text, then a deletion.
        roomy
            .write(1, "ann", "a blue hen")
            .await
            .commit()
            .await
            .unwrap();
        both("ann", Kind::Keyword, "fox", &[]).await;
        both("ann", Kind::Keyword, "hen north", &[1, 2]).await;
        let (mut tx, group) = (roomy.store.begin().await.unwrap(), memory_group("bob"));
        tx.remove_group_entries(&roomy.space, OwnerKind::Memory, &group)
            .await
            .unwrap();
        tx.count_entry_write(&roomy.space, &group).await.unwrap();
        tx.commit().await.unwrap();
        both("bob", Kind::Keyword, "fox", &[]).await;
        both("ann", Kind::Keyword, "hen north", &[1, 2]).await;
    }
}

/// Stores many memories of a user, each with a word of its own.
async fn write_many(searched: &SearchedStore, user: &str, ids: std::ops::Range<i64>) {
    let group = memory_group(user);
    let (kind, now) = (OwnerKind::Memory, Timestamp::from_micros(1));
    let tokens: Vec<(i64, String)> = ids
        .map(|id| (id, terms::of_chunk(&word(id)).tokens))
        .collect();
    let mut tx = searched.store.begin().await.unwrap();
    let entries: Vec<NewEntry<'_>> = tokens
        .iter()
        .map(|(id, tokens)| NewEntry {
            owner_id: *id,
            group_id: &group,
            version_id: 0,
            length: 1,
            tokens,
        })
        .collect();
    let ids = tx.add_entries_for_ids(&searched.space, kind, &entries, now);
    assert_eq!(ids.await.unwrap().len(), entries.len());
    tx.count_entry_write(&searched.space, &group).await.unwrap();
    tx.commit().await.unwrap();
}

fn word(id: i64) -> String {
    format!("zeppelin{id}")
}

#[tokio::test]
async fn all_memories_of_a_user_with_very_many_are_found() {
    for database in TestDatabase::each().await {
        let searched = SearchedStore::at(&database, "64").await;
        // More than are read at once.
        write_many(&searched, "ann", 1..20_101).await;
        for id in [1, 4_000, 4_001, 20_000, 20_001, 20_100] {
            let found = searched.found("ann", Kind::Keyword, &word(id)).await;
            assert_eq!(found, [id], "{:?}", database.engine);
        }

        write_many(&searched, "ann", 20_101..20_103).await;
        for id in [1, 20_100, 20_102] {
            let found = searched.found("ann", Kind::Keyword, &word(id)).await;
            assert_eq!(found, [id], "{:?}", database.engine);
        }
    }
}

#[tokio::test]
async fn users_are_found_again_after_their_index_was_evicted() {
    let database = TestDatabase::sqlite();
    let searched = SearchedStore::at(&database, "1").await;
    // Ten times as much as fits.
    for user in 0..60 {
        write_many(
            &searched,
            &format!("u{user}"),
            user * 1_000 + 1..user * 1_000 + 1_001,
        )
        .await;
    }

    for _ in 0..2 {
        for user in 0..60 {
            let (name, own) = (format!("u{user}"), user * 1_000 + 500);
            let found = searched.found(&name, Kind::Keyword, &word(own)).await;
            assert_eq!(found, [own]);
            assert!(
                searched
                    .found(&name, Kind::Keyword, &word(own + 1_000))
                    .await
                    .is_empty()
            );
        }
    }

    assert!(searched.search.index_bytes() <= 1024 * 1024);
}
