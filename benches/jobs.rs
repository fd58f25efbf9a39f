//! How fast jobs are queued, claimed and completed, and how fast claiming is with a long queue.
//!
//! `scripts/bench jobs` runs it on SQLite and on a PostgreSQL with fsync.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it fails"
)]

mod databases;
mod environment;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt as _};
use memoir::base::clock::{Clock as _, SystemClock};
use memoir::base::ids::Space;
use memoir::jobs::{JobContext, JobError, Jobs, Outcome, Runner, Work};
use memoir::model::call::CallContext;
use memoir::model::job::{Lane, NewJob};
use memoir::store::Store;
use tokio_util::sync::CancellationToken;

use databases::on_each;
use settings::settings;

const QUEUED: usize = 100_000;
const CLAIMS: usize = 1_000;
const DRAINED: usize = 10_000;

/// Work that only counts.
struct Nothing(Arc<AtomicUsize>);

impl Work for Nothing {
    fn kind(&self) -> &'static str {
        "nothing"
    }

    fn run(&self, _: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        async { Ok(Outcome::Done(serde_json::json!({}))) }.boxed()
    }
}

#[tokio::main]
async fn main() {
    on_each("jobs", bench).await;
}

async fn bench(database: &str) {
    let config = settings(
        database,
        &[("JOBS__WORKERS", "8"), ("JOBS__MAX_QUEUED", "1000000")],
    );
    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    let jobs = Jobs::new(store.clone(), config.jobs.clone(), config.audit);
    println!("{}:", store.engine().into_str());

    // One job per transaction, as with requests.
    let began = Instant::now();
    let single = 2_000;
    let mut queueing = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, jobs) = (store.clone(), jobs.clone());
        queueing.spawn(async move { queue(&store, &jobs, single / 8, 1).await });
    }

    queueing.join_all().await;
    println!(
        "  queued one by one, 8 at once: {:.0}/s",
        rate(single, began)
    );

    let began = Instant::now();
    queue(&store, &jobs, QUEUED - single, 500).await;
    println!(
        "  queued 500 per transaction: {:.0}/s",
        rate(QUEUED - single, began)
    );

    let mut times = Vec::with_capacity(CLAIMS);
    for _ in 0..CLAIMS {
        let began = Instant::now();
        let claimed = store
            .claim_jobs(
                &["nothing"],
                "bench",
                Duration::from_mins(1),
                1,
                SystemClock.now(),
            )
            .await
            .unwrap();

        times.push(began.elapsed());
        assert_eq!(claimed.len(), 1);
    }

    times.sort();
    let at = |percent: usize| times[CLAIMS * percent / 100].as_secs_f64() * 1000.0;
    println!(
        "  claim with {QUEUED} queued: p50 {:.2} ms, p99 {:.2} ms",
        at(50),
        at(99)
    );

    let done = Arc::new(AtomicUsize::new(0));
    let stop = CancellationToken::new();

    // No job here waits for a provider.
    let recovered = tokio::sync::watch::Sender::new(0).subscribe();
    let runner = Runner::new(
        jobs,
        Arc::new(SystemClock),
        vec![Arc::new(Nothing(Arc::clone(&done)))],
        recovered,
    );

    let began = Instant::now();
    #[expect(clippy::disallowed_methods, reason = "awaited below")]
    let running = tokio::spawn(runner.run(stop.clone(), Duration::from_secs(10)));
    while done.load(Ordering::SeqCst) < DRAINED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    println!(
        "  claimed and completed with empty work, 8 workers: {:.0}/s",
        rate(DRAINED, began)
    );

    stop.cancel();
    running.await.unwrap();
    store.close().await;
}

async fn queue(store: &Store, jobs: &Jobs, count: usize, at_once: usize) {
    let call = CallContext::new(Space::default(), SystemClock.now());
    let new = NewJob {
        kind: "nothing",
        lane: Lane::Requested,
        user_id: "default".to_owned(),
        source_id: None,
        request: serde_json::json!({"text": "x".repeat(1000)}).to_string(),
        max_attempts: 3,
        group_size: 1,
    };

    let mut left = count;
    while left > 0 {
        let mut tx = store.begin().await.unwrap();
        for _ in 0..left.min(at_once) {
            jobs.enqueue(&mut tx, &call, &new).await.unwrap();
        }

        tx.commit().await.unwrap();
        left -= left.min(at_once);
    }
}

fn rate(count: usize, began: Instant) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / began.elapsed().as_secs_f64()
}
