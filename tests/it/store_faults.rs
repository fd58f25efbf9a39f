//! What happens when the database is slow, unreachable, full or busy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir::base::clock::Timestamp;
use memoir::base::ids::{SourceId, Space};
use memoir::store::{Store, StoreError};
use reqwest::Method;
use serde_json::json;

use crate::support::app::{TestApp, load, send};
use crate::support::database::TestDatabase;
use crate::support::proxy::{Door, Proxy};

/// sqlx 0.9.0 returns a connection with an open transaction to the pool if the future of its
/// `begin` is dropped; unrelated work then fails. memoir's transactions must not do this.
#[tokio::test]
async fn a_dropped_begin_leaves_no_open_transaction() {
    for database in TestDatabase::each().await {
        let store =
            Store::connect(&load(&database.url, &[("DATABASE__MAX_CONNECTIONS", "2")]).database)
                .await
                .unwrap();

        store.migrate().await.unwrap();
        let (space, id) = (Space::default(), SourceId::new());
        for round in 0..150_u64 {
            {
                let begin = store.begin();
                let _ = tokio::time::timeout(Duration::from_micros(round * 4), begin).await;
            }

            assert_eq!(store.find_source(&space, &id).await.unwrap(), None);
            // A failing statement reveals a transaction that was left open, because it aborts it
            // for the next user of the connection.
            let mut tx = store.begin().await.unwrap();
            let key = format!("k{round}");
            let (now, expired) = (Timestamp::from_micros(1), Timestamp::from_micros(0));
            let claimed = tx.claim_idempotency_key(&space, &key, ("r", "h"), now, expired);

            assert_eq!(claimed.await.unwrap(), None, "{:?}", database.engine);
            tx.commit().await.unwrap();
        }

        assert_eq!(
            store
                .remove_idempotency_keys(Timestamp::from_micros(2))
                .await
                .unwrap(),
            150
        );
    }
}

#[tokio::test]
async fn sixteen_writers_get_no_lock_error() {
    for database in TestDatabase::each().await {
        let app = Arc::new(TestApp::on(database, &[]).await);
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..16 {
            let app = Arc::clone(&app);
            writers.spawn(async move {
                for n in 0..20 {
                    let body = json!({"path": format!("/{writer}/{n}.md"), "tags": ["x"]});
                    let made = app.post("/v1/sources", &body).await;
                    assert_eq!(made.status, 201, "{}", made.text);
                    let path = made.header("location").to_owned();
                    let changed = send(
                        app.request(Method::PATCH, &path)
                            .json(&json!({"eligible": false})),
                    )
                    .await;

                    assert_eq!(changed.status, 200, "{}", changed.text);
                }
            });
        }

        writers.join_all().await;
        let listed = app.get("/v1/sources?limit=500&eligible=false").await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 320);
    }
}

/// Two services on one SQLite file, as happens by mistake or during an upgrade.
#[tokio::test]
async fn two_services_can_share_one_sqlite_file() {
    let database = Arc::new(TestDatabase::sqlite());
    let one = TestApp::at(&database.url, Arc::clone(&database), &[]).await;
    let two = TestApp::at(&database.url, Arc::clone(&database), &[]).await;

    for n in 0..40 {
        let (a, b) = (
            json!({"path": format!("/a{n}")}),
            json!({"path": format!("/b{n}")}),
        );

        let (a, b) = tokio::join!(one.post("/v1/sources", &a), two.post("/v1/sources", &b));
        assert_eq!(
            (a.status.as_u16(), b.status.as_u16()),
            (201, 201),
            "{} {}",
            a.text,
            b.text
        );
    }

    assert_eq!(
        one.get("/v1/sources?limit=500").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        80
    );
}

/// A database behind a proxy, for each engine that is a server.
async fn behind_a_door(settings: &[(&str, &str)]) -> Vec<(TestApp, Proxy)> {
    let mut all = Vec::new();
    for database in [TestDatabase::postgres().await, TestDatabase::mysql().await]
        .into_iter()
        .flatten()
    {
        let proxy = Proxy::before(database.authority()).await;
        let url = database
            .url
            .replace(&database.authority(), &proxy.address.to_string());
        all.push((TestApp::at(&url, Arc::new(database), settings).await, proxy));
    }

    all
}

#[tokio::test]
async fn an_unreachable_database_is_503_until_it_recovers() {
    for (app, proxy) in behind_a_door(&[("DATABASE__ACQUIRE_TIMEOUT", "1")]).await {
        let made = app.post("/v1/sources", &json!({"path": "/a"})).await;
        assert_eq!(made.status, 201);
        let path = made.header("location").to_owned();

        proxy.set(Door::Shut);
        for _ in 0..3 {
            for reply in [
                app.get(&path).await,
                app.post("/v1/sources", &json!({"path": "/b"})).await,
                app.get("/health/ready").await,
            ] {
                reply.assert_problem(503, "database_unavailable");
                assert_eq!(reply.header("retry-after"), "2");
                assert!(
                    !reply.text.contains("127.0.0.1"),
                    "the place is for the log: {}",
                    reply.text
                );
            }
        }

        assert_eq!(app.get("/health/live").await.status, 200);

        proxy.set(Door::Open);
        assert_eq!(app.get("/health/ready").await.status, 200);
        assert_eq!(app.get(&path).await.json(), made.json());
        assert_eq!(
            app.post("/v1/sources", &json!({"path": "/b"})).await.status,
            201
        );
    }
}

#[tokio::test]
async fn a_short_outage_causes_no_error() {
    for (app, proxy) in behind_a_door(&[]).await {
        let made = app.post("/v1/sources", &json!({"path": "/a"})).await;
        let path = made.header("location").to_owned();
        for round in 0..5 {
            // Every open connection breaks, as when the server restarts.
            proxy.set(Door::Shut);
            proxy.set(Door::Open);
            let reply = app.get(&path).await;
            assert_eq!(reply.status, 200, "round {round}: {}", reply.text);
            let written = app
                .post("/v1/sources", &json!({"path": format!("/{round}")}))
                .await;

            assert_eq!(written.status, 201, "round {round}: {}", written.text);
        }
    }
}

/// Connections stay open but transfer nothing, as behind a firewall that dropped its state.
#[tokio::test]
async fn an_unresponsive_database_blocks_neither_requests_nor_jobs_nor_shutdown() {
    let settings = [
        ("DATABASE__ACQUIRE_TIMEOUT", "1"),
        ("TESTING__PROBE_JOBS", "true"),
        ("SERVER__SHUTDOWN_GRACE", "0"),
    ];
    for (app, proxy) in behind_a_door(&settings).await {
        let path = app
            .post("/v1/sources", &json!({"path": "/a"}))
            .await
            .header("location")
            .to_owned();

        proxy.set(Door::BlackHole);
        let began = Instant::now();
        app.get("/health/ready")
            .await
            .assert_problem(503, "database_unavailable");
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );

        app.get(&path)
            .await
            .assert_problem(503, "database_unavailable");
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );

        proxy.set(Door::Open);
        let began = Instant::now();
        while app.get(&path).await.status != 200 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "it did not come back"
            );
        }

        let queued = app.post("/v1/testing/jobs", &json!({})).await;
        let job = app
            .get(&format!("{}?wait=30", queued.header("location")))
            .await
            .json();

        assert_eq!(
            job["state"], "succeeded",
            "the workers did not come back: {job}"
        );

        proxy.set(Door::BlackHole);
        let began = Instant::now();
        app.finish().await;
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn an_unreachable_database_at_start_is_named_without_its_password() {
    let address = crate::support::binary::free_address();
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://me:s3cret@{address}/memoir");
        let config = load(&url, &[("DATABASE__ACQUIRE_TIMEOUT", "1")]);
        let Err(error) = Store::connect(&config.database).await else {
            panic!("connected to nothing")
        };
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        let text = error.to_string();

        assert!(
            text.contains(&address.to_string()) && !text.contains("s3cret"),
            "{text}"
        );
    }
}
