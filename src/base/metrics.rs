//! The name and meaning of every metric.
//!
//! Names follow Prometheus conventions: a prefix, a base unit, `_total` for counters. Spaces, users
//! and ids are never labels.

/// Seconds from the arrival of a request to its response; labels `method`, `route`, `status`.
pub const HTTP_REQUEST_DURATION_SECONDS: &str = "memoir_http_request_duration_seconds";

/// Open connections.
pub const HTTP_CONNECTIONS: &str = "memoir_http_connections";

/// Connections or requests rejected because every connection had a request in progress.
pub const HTTP_CONNECTIONS_REFUSED_TOTAL: &str = "memoir_http_connections_refused_total";

/// Idle connections closed in favour of new ones.
pub const HTTP_CONNECTIONS_EVICTED_TOTAL: &str = "memoir_http_connections_evicted_total";

/// Panics caught in request handlers.
pub const HTTP_PANICS_TOTAL: &str = "memoir_http_panics_total";

/// Store operations retried after a lost connection or a conflict; label `operation`.
pub const STORE_RETRIES_TOTAL: &str = "memoir_store_retries_total";

/// Store operations abandoned because the database was unreachable; label `operation`.
pub const STORE_UNAVAILABLE_TOTAL: &str = "memoir_store_unavailable_total";

/// Flushes of SQLite's log to disk; concurrent commits share one.
pub const STORE_FLUSHES_TOTAL: &str = "memoir_store_flushes_total";

/// Unfinished jobs by state; label `state`.
pub const JOBS_QUEUE_DEPTH: &str = "memoir_jobs_queue_depth";

/// Seconds since the oldest queued job was queued; 0 if none is queued.
pub const JOBS_OLDEST_QUEUED_SECONDS: &str = "memoir_jobs_oldest_queued_seconds";

/// Jobs that ended; labels `kind`, `outcome`.
pub const JOBS_FINISHED_TOTAL: &str = "memoir_jobs_finished_total";

/// Jobs queued again after an error; label `kind`.
pub const JOBS_RETRIED_TOTAL: &str = "memoir_jobs_retried_total";

/// Jobs taken over from a process that died or froze; label `kind`.
pub const JOBS_RESCUED_TOTAL: &str = "memoir_jobs_rescued_total";

/// Jobs that failed permanently; label `kind`.
pub const JOBS_FAILED_TOTAL: &str = "memoir_jobs_failed_total";

/// Model calls; labels `provider`, `stage`, `outcome`.
pub const LLM_CALLS_TOTAL: &str = "memoir_llm_calls_total";

/// Seconds from a model call to its reply; labels `provider`, `stage`.
pub const LLM_REQUEST_DURATION_SECONDS: &str = "memoir_llm_request_duration_seconds";

/// Tokens; labels `provider`, `stage`, `direction` (`sent`, `received`, `cached`).
pub const LLM_TOKENS_TOTAL: &str = "memoir_llm_tokens_total";

/// Model calls sent to the fallback model; label `stage`.
pub const LLM_FALLBACKS_TOTAL: &str = "memoir_llm_fallbacks_total";

/// Requests retried because the provider was busy or unreachable; labels `provider`, `reason`.
pub const LLM_RETRIES_TOTAL: &str = "memoir_llm_retries_total";

/// Queries that ended; labels `strategy`, `outcome` (`succeeded`, or the code of the problem).
pub const QUERIES_FINISHED_TOTAL: &str = "memoir_queries_finished_total";

/// Seconds that a query took without its model calls; label `strategy`.
pub const QUERY_OWN_DURATION_SECONDS: &str = "memoir_query_own_duration_seconds";

/// Lines of the log that could not be written.
pub const LOG_LINES_LOST_TOTAL: &str = "memoir_log_lines_lost_total";

/// Always 1; labels `version`, `engine`.
pub const BUILD_INFO: &str = "memoir_build_info";

/// Name and help text of each metric, for the exporter.
pub const ALL: &[(&str, &str)] = &[
    (
        HTTP_REQUEST_DURATION_SECONDS,
        "Seconds from the arrival of a request to its response.",
    ),
    (HTTP_CONNECTIONS, "Open connections."),
    (
        HTTP_CONNECTIONS_REFUSED_TOTAL,
        "Connections or requests rejected at the connection limit.",
    ),
    (
        HTTP_CONNECTIONS_EVICTED_TOTAL,
        "Idle connections closed to make room for new ones.",
    ),
    (HTTP_PANICS_TOTAL, "Panics caught in request handlers."),
    (
        STORE_RETRIES_TOTAL,
        "Store operations retried after a lost connection or a conflict.",
    ),
    (
        STORE_UNAVAILABLE_TOTAL,
        "Store operations abandoned because the database was unreachable.",
    ),
    (
        STORE_FLUSHES_TOTAL,
        "Flushes of SQLite's write-ahead log to disk; concurrent commits share one.",
    ),
    (JOBS_QUEUE_DEPTH, "Unfinished jobs by state."),
    (
        JOBS_OLDEST_QUEUED_SECONDS,
        "Seconds since the oldest queued job was queued.",
    ),
    (JOBS_FINISHED_TOTAL, "Jobs that ended."),
    (JOBS_RETRIED_TOTAL, "Jobs queued again after an error."),
    (
        JOBS_RESCUED_TOTAL,
        "Jobs taken over from a process that died or froze.",
    ),
    (JOBS_FAILED_TOTAL, "Jobs that failed permanently."),
    (LLM_CALLS_TOTAL, "Attempts of model calls."),
    (
        LLM_REQUEST_DURATION_SECONDS,
        "Seconds from a model request to its response.",
    ),
    (LLM_TOKENS_TOTAL, "Tokens sent to and received from models."),
    (LLM_FALLBACKS_TOTAL, "Calls sent to the fallback model."),
    (LLM_RETRIES_TOTAL, "Model requests retried."),
    (QUERIES_FINISHED_TOTAL, "Queries that ended."),
    (
        RETRIEVAL_DURATION_SECONDS,
        "Seconds that a memory retrieval took.",
    ),
    (
        RETRIEVAL_RESULTS_TOTAL,
        "Memories that memory retrievals returned.",
    ),
    (
        RETRIEVAL_TOKENS_TOTAL,
        "Tokens of the memories that memory retrievals returned.",
    ),
    (
        RETRIEVAL_DEDUPLICATED_TOTAL,
        "Memories that memory retrievals checked for duplicates.",
    ),
    (
        RETRIEVAL_CACHE_TOTAL,
        "Memory retrievals, by cache hit or miss.",
    ),
    (
        QUERY_OWN_DURATION_SECONDS,
        "Seconds that a query took, not counting its model calls.",
    ),
    (
        LOG_LINES_LOST_TOTAL,
        "Lines of the log that could not be written.",
    ),
    (
        BUILD_INFO,
        "Always 1; the labels give the version and the database engine.",
    ),
];

/// Seconds that a memory retrieval took.
pub const RETRIEVAL_DURATION_SECONDS: &str = "memoir_retrieval_duration_seconds";

/// Memories that memory retrievals returned.
pub const RETRIEVAL_RESULTS_TOTAL: &str = "memoir_retrieval_results_total";

/// Tokens of the memories that memory retrievals returned.
pub const RETRIEVAL_TOKENS_TOTAL: &str = "memoir_retrieval_tokens_total";

/// Memories that the deduplication of a retrieval saw; label `outcome` (`kept`, `duplicate`).
pub const RETRIEVAL_DEDUPLICATED_TOTAL: &str = "memoir_retrieval_deduplicated_total";

/// Retrievals that looked into the cache; label `outcome` (`hit`, `miss`).
pub const RETRIEVAL_CACHE_TOTAL: &str = "memoir_retrieval_cache_total";
