//! One scenario for the whole store, on every engine: add, find, list, update and remove.

use std::collections::BTreeSet;
use std::time::Duration;

use memoir::base::clock::Timestamp;
use memoir::base::ids::{SourceId, Space};
use memoir::model::job::{Claim, Job, JobRecord, Lane, NewJob, Record};
use memoir::model::source::{Source, SourceKind};
use memoir::store::{
    NewResponse, SourceFilter, SourceKey, SourcePage, Store, StoreError, StoredAnswer,
};
use serde_json::json;

use crate::support::app::load;
use crate::support::database::TestDatabase;

fn source(path: &str, created: i64) -> Source {
    Source {
        id: SourceId::new(),
        user_id: "ann".to_owned(),
        filename: "plan.md".to_owned(),
        path: path.to_owned(),
        kind: SourceKind::FileIngest,
        file_type: "md".to_owned(),
        eligible: true,
        tags: vec!["file_ingest".to_owned(), "z".to_owned(), "a".to_owned()],
        latest_version: 0,
        created_at: Timestamp::from_micros(created),
        updated_at: Timestamp::from_micros(created),
    }
}

async fn add(store: &Store, space: &Space, source: &Source) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    tx.add_source(space, source).await?;
    tx.commit().await
}

#[tokio::test]
async fn the_store_behaves_the_same_on_every_engine() {
    for database in TestDatabase::each().await {
        let store = Store::connect(&load(&database.url, &[]).database)
            .await
            .unwrap();
        assert_eq!(store.engine(), database.engine);
        store.migrate().await.unwrap();
        sources(&store).await;
        idempotency(&store).await;
        records_of_jobs(&store).await;

        store.close().await;
    }
}

async fn sources(store: &Store) {
    let (here, there): (Space, Space) = ("here".parse().unwrap(), "there".parse().unwrap());
    let first = source("/a", 1);

    // Nothing is stored before the commit.
    let mut tx = store.begin().await.unwrap();
    tx.add_source(&here, &first).await.unwrap();
    assert_eq!(
        tx.find_source(&here, &first.id).await.unwrap().as_ref(),
        Some(&first)
    );

    drop(tx);
    assert_eq!(store.find_source(&here, &first.id).await.unwrap(), None);

    add(store, &here, &first).await.unwrap();
    assert_eq!(
        store.find_source(&here, &first.id).await.unwrap().as_ref(),
        Some(&first)
    );

    assert_eq!(store.find_source(&there, &first.id).await.unwrap(), None);

    // One path per user and space.
    let error = add(store, &here, &source("/a", 2)).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Conflict {
                constraint: "sources_path"
            }
        ),
        "{error}"
    );

    add(store, &there, &source("/a", 2)).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    assert_eq!(
        tx.find_source_at(&here, "ann", "/a").await.unwrap(),
        Some(first.id.clone())
    );

    assert_eq!(tx.find_source_at(&here, "ben", "/a").await.unwrap(), None);
    drop(tx);

    // Lists: oldest first, ties by id, only what matches the filter.
    let mut all = vec![
        first.clone(),
        source("/b", 5),
        source("/c", 5),
        source("/d", 7),
    ];

    for one in &all[1..] {
        add(store, &here, one).await.unwrap();
    }

    all.sort_by_key(|one| (one.created_at, one.id.clone()));
    let page = |after, limit| SourcePage {
        after,
        limit,
        ..SourcePage::default()
    };
    let every = SourceFilter::default();
    assert_eq!(
        store
            .list_sources(&here, &every, &page(None, 10))
            .await
            .unwrap(),
        all
    );

    let created = SourceKey::Created.value(&all[1], None);
    let after = Some((created, all[1].id.clone()));
    assert_eq!(
        store
            .list_sources(&here, &every, &page(after, 1))
            .await
            .unwrap(),
        all[2..3]
    );

    let nobody = SourceFilter {
        user_id: Some("ben".to_owned()),
        ..SourceFilter::default()
    };

    assert_eq!(
        store
            .list_sources(&here, &nobody, &page(None, 10))
            .await
            .unwrap(),
        []
    );

    let fitting = SourceFilter {
        user_id: Some("ann".to_owned()),
        path: None,
        name: None,
        filename: Some("plan.md".to_owned()),
        tag: Some("z".to_owned()),
        eligible: Some(true),
        as_of: None,
    };

    assert_eq!(
        store
            .list_sources(&here, &fitting, &page(None, 10))
            .await
            .unwrap(),
        all
    );

    let there_alone = SourceFilter {
        path: Some("/a".to_owned()),
        ..fitting
    };

    assert_eq!(
        store
            .list_sources(&here, &there_alone, &page(None, 10))
            .await
            .unwrap(),
        std::slice::from_ref(&first)
    );

    // A change replaces the tags.
    let mut changed = first.clone();
    changed.tags = vec!["file_ingest".to_owned(), "new".to_owned()];
    changed.eligible = false;
    changed.updated_at = Timestamp::from_micros(9);
    let mut tx = store.begin().await.unwrap();

    tx.update_source(&there, &changed).await.unwrap_err();
    drop(tx);
    let mut tx = store.begin().await.unwrap();
    tx.update_source(&here, &changed).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        store.find_source(&here, &first.id).await.unwrap(),
        Some(changed)
    );

    let mut tx = store.begin().await.unwrap();
    assert!(!tx.remove_source(&there, &first.id).await.unwrap());
    assert!(tx.remove_source(&here, &first.id).await.unwrap());
    assert!(!tx.remove_source(&here, &first.id).await.unwrap());
    tx.commit().await.unwrap();

    assert_eq!(store.find_source(&here, &first.id).await.unwrap(), None);
}

async fn idempotency(store: &Store) {
    let space = Space::default();
    let at = Timestamp::from_micros;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(
        tx.claim_idempotency_key(&space, "k", ("r", "h"), at(10), at(0))
            .await
            .unwrap(),
        None
    );

    let response = NewResponse {
        status: 201,
        json: "{}".to_owned(),
        used: BTreeSet::new(),
        at: at(10),
    };
    tx.update_idempotency_key(&space, "k", &response)
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let stored = StoredAnswer {
        route: "r".to_owned(),
        body_hash: "h".to_owned(),
        status: Some(201),
        response_json: Some("{}".to_owned()),
    };

    let mut tx = store.begin().await.unwrap();
    assert_eq!(
        tx.claim_idempotency_key(&space, "k", ("r2", "h2"), at(20), at(10))
            .await
            .unwrap(),
        Some(stored)
    );

    assert_eq!(
        tx.claim_idempotency_key(&space, "k", ("r2", "h2"), at(20), at(11))
            .await
            .unwrap(),
        None
    );

    tx.commit().await.unwrap();

    assert_eq!(store.remove_idempotency_keys(at(20)).await.unwrap(), 0);
    assert_eq!(store.remove_idempotency_keys(at(21)).await.unwrap(), 1);
}

/// Results of a lost claim are not written, even in the same transaction as those of its successor.
async fn records_of_jobs(store: &Store) {
    let space = Space::default();
    let at = Timestamp::from_micros(1);
    let new = || NewJob {
        kind: "story",
        lane: Lane::Requested,
        user_id: "ann".to_owned(),
        source_id: None,
        request: "{}".to_owned(),
        max_attempts: 3,
        group_size: 1,
    };

    let mut tx = store.begin().await.unwrap();
    let added = tx.add_jobs(&space, &[new(), new()], None, 10, at).await;
    assert_eq!(added.unwrap().unwrap().len(), 2);

    tx.commit().await.unwrap();
    let claimed = store
        .claim_jobs(&["story"], "me", Duration::from_mins(1), 2, at)
        .await
        .unwrap();

    let claimed: Vec<_> = claimed.into_iter().flatten().collect();
    let [first, second] = claimed.as_slice() else {
        panic!("{} claimed", claimed.len())
    };
    let claim = |job: &Job, fence| Claim {
        space: job.space.clone(),
        id: job.id.clone(),
        fence,
    };

    let claims = [
        claim(&first.job, first.job.fence - 1),
        claim(&first.job, first.job.fence),
        claim(&second.job, second.job.fence),
    ];

    let records = claims.map(|claim| JobRecord {
        record: Record::step("step".to_owned(), json!(claim.fence)),
        claim,
        at,
    });

    let all: Vec<&JobRecord> = records.iter().collect();
    assert_eq!(
        store.add_paid_records(&[], &all).await.unwrap(),
        [false, true, true]
    );

    for job in [&first.job, &second.job] {
        let saved = store.list_checkpoints(&space, &job.id).await.unwrap();
        assert_eq!(saved.get("step"), Some(&json!(job.fence)));
    }
}
