//! The composition root: builds a running service from the settings. The binary and the tests use
//! the same code.

mod info;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
use crate::base::metrics as names;
use crate::categories::samples::SampleCache;
use crate::categories::{Categories, Taxonomy};
use crate::config::{Config, ConfigurationError, Violation, Violations};
use crate::connect::openai::OpenAi;
use crate::contextual_helpers::ContextualHelpers;
use crate::conversation::Conversation;
use crate::erasure::Erasures;
use crate::http::{self, AppState, BodyBudget, HttpSettings, Runs};
use crate::ingestion::{BalanceWork, Ingestion, IngestionSettings};
use crate::jobs::{Jobs, Runner, Work};
use crate::keys::Keys;
use crate::llm::Llm;
use crate::memory_retrieval::{MemoryPolicies, MemoryRetrieval};
#[cfg(feature = "testing")]
use crate::probe::Probe;
use crate::queries::{self, Queries, QueryWork};
use crate::retrieval::Retrieval;
use crate::search::Search;
use crate::sources::Sources;
use crate::sources::retrieval::DocumentRetrieval;
use crate::spaces::Spaces;
use crate::store::{Store, StoreError};
use crate::telemetry::Metrics;
use crate::workbench::{self, Workbench};

/// How often samples are merged into their histograms.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// How long the result of a query that ran as a job, or with an idempotency key, can be read again,
/// and how often expired ones are deleted.
const RESULT_KEEP_SECONDS: i64 = 60 * 60;
/// Longer than an index in memory is used without being updated, see `search/cache.rs`.
const SEARCH_CHANGES_KEEP_SECONDS: i64 = 48 * 60 * 60;
const FORGETTING: Duration = Duration::from_mins(5);
/// How often expired rows are deleted.
const PRUNING: Duration = Duration::from_hours(1);
/// Soon: until an interrupted erasure is completed, what is stored for its subject goes with it.
const RESUMING: Duration = Duration::from_mins(1);

/// The service, ready to run.
pub struct App {
    config: Config,
    state: AppState,
    /// What the embedded model knows about categories, for filing and for queries.
    samples: SampleCache,
    metrics: Metrics,
    /// What jobs wait for before the first one runs.
    turn: BoxFuture<'static, ()>,
}

/// Why the service cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The settings conflict with the data in the database.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What ingestions take from several sections of the settings.
fn ingestion_settings(config: &Config, taxonomy: &Taxonomy) -> IngestionSettings {
    IngestionSettings {
        ingestion: config.ingestion.clone(),
        taxonomy: taxonomy.clone(),
        max_token_budget: config.query.max_token_budget,
        max_concurrency: usize::try_from(config.llm.max_concurrency).unwrap_or(usize::MAX),
        retrieval_tokens: config.vector.chunk_tokens,
        retrieval_overlap: config.vector.overlap_tokens,
    }
}

impl App {
    /// Connects to the database, brings its schema up to date, and assembles the parts.
    ///
    /// # Errors
    /// The database cannot be used, or contains chunks that conflict with the settings.
    pub async fn build(config: Config, clock: Arc<dyn Clock>) -> Result<Self, BuildError> {
        #[cfg(feature = "testing")]
        {
            crate::base::fail_point::arm(&config.testing.fail_point);
            crate::base::clock::set_ahead(config.testing.clock_ahead_ms);
        }

        let metrics = Metrics::start();
        let store = Store::connect(&config.database).await?;
        let migrated = store.migrate().await?;

        if !migrated.applied.is_empty() {
            tracing::info!(
                engine = store.engine().into_str(),
                migrations = migrated.applied.len(),
                "schema migrated"
            );
        }

        check_depth(&config, &store).await?;
        metrics::gauge!(
            names::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION"), "engine" => store.engine().into_str()
        )
        .set(1.0);

        let renderer = metrics.clone();
        let settings = HttpSettings {
            max_body_bytes: usize::try_from(config.limits.max_body_bytes).unwrap_or(usize::MAX),
            ingestion_root: config.ingestion.root().map(Path::to_path_buf),
            body_timeout: Duration::from_secs(config.server.body_timeout),
            cors_origins: config.server.cors_origins.clone(),
            mcp: config.mcp,
            #[cfg(feature = "testing")]
            testing: config.testing.clone(),
            info_json: info::render(&config, &store, &[]),
            info_with_local_models: OnceLock::new(),
            render_metrics: Box::new(move || renderer.render()),
        };

        let llm = Llm::new(
            config.llm.clone(),
            config.audit,
            &config.telemetry.otlp_endpoint,
            store.clone(),
            Arc::clone(&clock),
        );

        let jobs = Jobs::new(store.clone(), config.jobs.clone(), config.audit);
        let sources = Sources::new(store.clone());
        let taxonomy = Taxonomy::new(&config.taxonomy);
        let ingestion = ingestion_settings(&config, &taxonomy);
        let samples = SampleCache::new(store.clone());
        check_embedding_model(&config, &llm)?;
        let search = Search::new(store.clone(), llm.clone(), config.vector.clone());
        if let Err(error) = search.queue_reembedding(&jobs, clock.now()).await {
            tracing::warn!(%error, "cannot queue the job that changes the embedding model");
        }
        if let Err(error) = search.queue_reindexing(&jobs, clock.now()).await {
            tracing::warn!(%error, "cannot queue the job that rewrites search terms");
        }

        let policies = MemoryPolicies::new(store.clone());
        let conversation = Conversation::new(
            store.clone(),
            llm.clone(),
            search.clone(),
            jobs.clone(),
            policies.clone(),
            config.memory,
        );
        let state = AppState {
            keys: Keys::load(store.clone(), Arc::clone(&clock), &config.auth).await?,
            memory: MemoryRetrieval::new(
                store.clone(),
                search.clone(),
                policies.clone(),
                config.memory,
            ),
            policies,
            spaces: Spaces::new(store.clone(), llm.clone()),
            ingestion: Ingestion::new(
                store.clone(),
                jobs.clone(),
                sources.clone(),
                llm.clone(),
                search.clone(),
                ingestion,
            ),
            workbench: Workbench::new(
                workbench::Areas {
                    store: store.clone(),
                    llm: llm.clone(),
                    search: search.clone(),
                    sources: sources.clone(),
                    conversation: conversation.clone(),
                },
                config.workbench.clone(),
            ),
            erasures: Erasures::new(
                store.clone(),
                jobs.clone(),
                llm.clone(),
                conversation.clone(),
            ),
            openai: OpenAi::new(conversation.clone(), llm.clone()),
            conversation,
            documents: DocumentRetrieval::new(store.clone(), search.clone()),
            queries: Queries::new(
                &config,
                store.clone(),
                llm.clone(),
                search.clone(),
                samples.clone(),
            ),
            retrieval: Retrieval::new(store.clone(), search.clone()),
            search,
            categories: Categories::new(store.clone(), taxonomy),
            helpers: ContextualHelpers::new(store.clone(), llm.clone()),
            llm,
            sources,
            jobs,
            store,
            clock,
            settings: Arc::new(settings),
            body_budget: BodyBudget::new(
                usize::try_from(config.limits.body_memory).unwrap_or(usize::MAX),
            ),
            runs: Runs::default(),
            in_flight: Arc::default(),
            stop: CancellationToken::new(),
        };

        Ok(Self {
            config,
            state,
            samples,
            metrics,
            turn: Box::pin(std::future::ready(())),
        })
    }

    /// Runs jobs only once `turn` has ended: of several processes with one database, those whose turn does not come
    /// serve the API only.
    #[must_use]
    pub fn running_jobs_after(mut self, turn: impl Future<Output = ()> + Send + 'static) -> Self {
        self.turn = Box::pin(turn);
        self
    }

    /// Serves requests and runs jobs until `stop` is cancelled, then lets both finish and closes
    /// the database.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let runner = self.runner();
        let Self {
            config,
            mut state,
            metrics,
            turn,
            ..
        } = self;

        state.stop = stop.clone();
        let router = http::router(state.clone());

        // While jobs and open requests finish, the API keeps answering but is not ready, so that
        // load balancers can see it.
        let closing = CancellationToken::new();
        let jobs = async {
            tokio::select! {
                () = turn => runner.run(stop.clone(), grace(&config)).await,
                () = stop.cancelled() => {}
            }
        };
        let work = async {
            tokio::join!(jobs, requests_finished(&state, &stop, grace(&config)));
            closing.cancel();
        };

        let port = listener.local_addr().map_or(0, |address| address.port());
        let serving = http::serve::run(
            listener,
            router,
            &config.server,
            stop.clone(),
            closing.clone(),
        );

        tokio::select! {
            _ = futures_util::future::join(serving, work) => {}
            () = upkeep(&metrics) => {}
            () = prune(&state) => {}
            () = forget(&state) => {}
            () = resume_erasures(&state) => {}
            () = compare_in_database(&state) => {}
            () = info::notice_local_models(&config, &state, port) => {}
        }

        close(&state).await;
    }

    /// Runs jobs without serving the API, until `stop` is cancelled.
    pub async fn work(self, stop: CancellationToken) {
        tokio::select! {
            () = self.runner().run(stop, grace(&self.config)) => {}
            () = upkeep(&self.metrics) => {}
            () = prune(&self.state) => {}
            () = forget(&self.state) => {}
            () = resume_erasures(&self.state) => {}
            () = compare_in_database(&self.state) => {}
        }
        close(&self.state).await;
    }

    /// The only list of job kinds.
    fn runner(&self) -> Runner {
        let work: Vec<Arc<dyn Work>> = vec![
            Arc::new(
                self.state
                    .ingestion
                    .work(self.state.helpers.clone(), self.samples.clone()),
            ),
            Arc::new(QueryWork {
                queries: self.state.queries.clone(),
            }),
            Arc::new(BalanceWork::new(
                self.state.store.clone(),
                self.state.categories.clone(),
            )),
            self.state.search.work(),
            self.state.search.reindex_work(),
        ];

        let work = work.into_iter().chain(self.state.conversation.work());
        let work: Vec<Arc<dyn Work>> = work.collect();
        #[cfg(feature = "testing")]
        let work = self.with_probes(work);

        let recovered = self.state.llm.recovered();
        Runner::new(
            self.state.jobs.clone(),
            Arc::clone(&self.state.clock),
            work,
            recovered,
        )
    }

    #[cfg(feature = "testing")]
    fn with_probes(&self, mut work: Vec<Arc<dyn Work>>) -> Vec<Arc<dyn Work>> {
        if self.config.testing.probe_jobs {
            work.push(Arc::new(Probe {
                store: self.state.store.clone(),
                sources: self.state.sources.clone(),
                llm: self.state.llm.clone(),
                log: self.config.testing.probe_log.clone(),
            }));
        }

        work
    }
}

/// Chunks belong to leaves; with another depth, their categories would no longer be leaves.
async fn check_depth(config: &Config, store: &Store) -> Result<(), BuildError> {
    let depth = config.taxonomy.hierarchy_depth;
    let mut violations = Violations::default();
    for (space, stored) in store
        .list_other_depths(i64::try_from(depth).unwrap_or(i64::MAX))
        .await?
    {
        violations.add(
            Violation::new("taxonomy.hierarchy_depth", depth.to_string())
                .allowed(&format!(
                    "{stored}, because the space {space:?} contains chunks filed {stored} \
                     levels deep. To change the depth, start with a new database, or delete \
                     the sources of that space and ingest them again"
                ))
                .example(&format!("hierarchy_depth = {stored}")),
        );
    }

    Ok(violations.into_result()?)
}

/// An unusable model would fail every ingestion.
fn check_embedding_model(config: &Config, llm: &Llm) -> Result<(), BuildError> {
    let mut violations = Violations::default();
    if let Err(error) = llm.check_model(&config.vector.model) {
        violations.add(
            Violation::new("vector.model", config.vector.model.clone())
                .allowed(&format!("a model of a configured provider: {error}"))
                .example(r#"model = "local:embedded""#),
        );
    }

    Ok(violations.into_result()?)
}

/// Waits for the stop, and then until no request is in progress or the time is up.
async fn requests_finished(state: &AppState, stop: &CancellationToken, grace: Duration) {
    stop.cancelled().await;
    let idle = async {
        while state.in_flight.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };

    let _ = tokio::time::timeout(grace, idle).await;
}

/// Writes the last model calls and closes the database, without waiting if it is unreachable.
async fn close(state: &AppState) {
    let _ = tokio::time::timeout(Duration::from_secs(2), state.erasures.close()).await;
    let _ = tokio::time::timeout(Duration::from_secs(2), state.runs.close()).await;
    let _ = tokio::time::timeout(Duration::from_secs(2), state.queries.receipts().close()).await;
    let _ = tokio::time::timeout(Duration::from_secs(2), state.openai.close()).await;
    let _ = tokio::time::timeout(Duration::from_secs(2), state.llm.close()).await;
    let _ = tokio::time::timeout(Duration::from_secs(2), state.store.close()).await;
}

fn grace(config: &Config) -> Duration {
    Duration::from_secs(config.server.shutdown_grace)
}

/// Prepares vector comparison in the database; never ends.
async fn compare_in_database(state: &AppState) {
    state.search.complete_pgvector().await;
    std::future::pending::<()>().await;
}

async fn upkeep(metrics: &Metrics) {
    loop {
        tokio::time::sleep(METRICS_UPKEEP).await;
        metrics.upkeep();
    }
}

/// Deletes expired rows from time to time.
async fn prune(state: &AppState) {
    loop {
        let now = state.clock.now();
        let before = now.minus_seconds(http::IDEMPOTENCY_KEEP_SECONDS);
        if let Err(error) = state.store.remove_idempotency_keys(before).await {
            tracing::warn!(%error, "cannot delete expired idempotency keys");
        }

        if let Err(error) = state.store.remove_response_uses(before).await {
            tracing::warn!(%error, "cannot delete notes about expired responses");
        }

        match state.jobs.prune(now).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "old jobs deleted"),
            Err(error) => tracing::warn!(%error, "cannot delete old jobs"),
        }

        if let Err(error) = state.keys.prune(now).await {
            tracing::warn!(%error, "cannot delete old request counts of API keys");
        }

        let before = now.minus_seconds(SEARCH_CHANGES_KEEP_SECONDS);
        if let Err(error) = state.store.remove_search_changes(before).await {
            tracing::warn!(%error, "cannot delete old changes of search indexes");
        }

        match state.queries.receipts().prune(now).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "old receipts deleted"),
            Err(error) => tracing::warn!(%error, "cannot delete old receipts"),
        }

        tokio::time::sleep(PRUNING).await;
    }
}

/// Completes interrupted erasures.
async fn resume_erasures(state: &AppState) {
    loop {
        state.erasures.resume(state.clock.now()).await;
        tokio::time::sleep(RESUMING).await;
    }
}

/// Clears the results of queries that ran as jobs or with an idempotency key, one hour after they
/// ended, so that chunk text is stored in one place only.
async fn forget(state: &AppState) {
    loop {
        let before = state.clock.now().minus_seconds(RESULT_KEEP_SECONDS);
        if let Err(error) = state
            .store
            .clear_query_results(queries::KIND, http::ANSWERED, before)
            .await
        {
            tracing::warn!(%error, "cannot delete query results");
        }
        tokio::time::sleep(FORGETTING).await;
    }
}
