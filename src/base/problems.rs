//! Every kind of problem that memoir reports: code, title, HTTP status and remedy, defined once.
//!
//! Routes, jobs and model calls refer to a kind by its constant. A remedy can be replaced by a more
//! specific one where the problem occurs.

/// A kind of problem. Its code never changes, because clients branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemKind {
    pub code: &'static str,
    pub title: &'static str,
    pub status: u16,
    /// What to do about it in general.
    pub remedy: &'static str,
}

/// Declares a constant for each kind, and the list of all of them.
macro_rules! problems {
    ($($name:ident = $status:literal $code:literal, $title:literal, $remedy:literal;)*) => {
        $(pub const $name: ProblemKind = ProblemKind {
            code: $code,
            title: $title,
            status: $status,
            remedy: $remedy,
        };)*

        /// All kinds, by status.
        pub const ALL: &[ProblemKind] = &[$($name),*];
    };
}

problems! {
    MALFORMED_REQUEST = 400 "malformed_request", "Malformed request",
        "Correct the syntax of the request; /docs shows an example of each request.";
    INVALID_CURSOR = 400 "invalid_cursor", "Invalid cursor",
        "Start again without a cursor, then send next_cursor unchanged and with the same filters.";
    MODEL_NOT_SUPPORTED = 400 "model_not_supported", "Model not supported",
        "Choose a model from GET /openai/v1/models.";
    UNSUPPORTED_PARAMETER = 400 "unsupported_parameter", "Unsupported parameter",
        "Omit the parameter and send the whole conversation.";
    UNAUTHORIZED = 401 "unauthorized", "Unauthorized",
        "Send a valid API key in the header Authorization: Bearer KEY.";
    FORBIDDEN = 403 "forbidden", "Forbidden",
        "Use a key whose role and space permit this.";
    CROSS_ORIGIN_REQUEST = 403 "cross_origin_request", "Cross-origin request",
        "Add the page's origin to server.cors_origins if it may use this service.";
    NOT_FOUND = 404 "not_found", "Not found",
        "Check the id, and check that the header X-Memoir-Space names the right space.";
    UNKNOWN_ROUTE = 404 "unknown_route", "Unknown route",
        "Look up the path in /docs or /openapi.json.";
    DOCUMENT_NOT_FOUND = 404 "document_not_found", "Source not found",
        "Check user_id and the header X-Memoir-Space, ingest the source (POST /v1/ingestions), or make it eligible (PATCH /v1/sources/{id}).";
    NO_CHUNKS_FOUND = 404 "no_chunks_found", "No chunks found",
        "Use the strategy auto, a wider strategy, or fewer filters; if the space is empty, ingest a text first.";
    METHOD_NOT_ALLOWED = 405 "method_not_allowed", "Method not allowed",
        "Use one of the methods in the Allow header.";
    BODY_TIMEOUT = 408 "body_timeout", "Request body timeout",
        "Send the body faster, or raise server.body_timeout and restart.";
    CONFLICT = 409 "conflict", "Conflict",
        "Use the existing resource, or choose another id or name.";
    SOURCE_EXISTS = 409 "source_exists", "Source already exists",
        "Use the existing source (context.source_id), or choose another path or user_id.";
    CATEGORY_EXISTS = 409 "category_exists", "Category already exists",
        "Use the existing category (context.category_id), or choose another name.";
    CATEGORY_NOT_EMPTY = 409 "category_not_empty", "Category not empty",
        "Name the category of the same level that gets them (DELETE /v1/categories/{id}?into=…), or keep the category.";
    CHANGE_CONFLICTS = 409 "change_conflicts", "Change conflicts",
        "Undo the later changes of these categories first, the latest one first (GET /v1/categories/changes), or make the change that you want.";
    WRONG_JOB_STATE = 409 "wrong_job_state", "Wrong job state",
        "Get the job to see its state. Only an unfinished job can be cancelled, only a failed or cancelled one retried.";
    NOTHING_TO_CONFIRM = 409 "nothing_to_confirm", "Nothing to confirm",
        "Send date, author, topic and description with PUT /v1/jobs/{id}/helper first and check the preview.";
    NO_TEXT = 409 "no_text", "Source has no text",
        "Ingest a text first: POST /v1/ingestions with the path or the source_id.";
    IDEMPOTENCY_KEY_IN_USE = 409 "idempotency_key_in_use", "Idempotency key in use",
        "Wait until the first request has ended, then repeat it with the same key and body to get its response.";
    KEY_OF_CONFIGURATION = 409 "key_of_configuration", "Key defined in the configuration",
        "Change or delete its entry in auth.keys and restart.";
    FIRST_KEY = 409 "first_key", "First key must be an admin key",
        "Create a key with the role \"admin\" and the space \"*\" first, then use it to create the others.";
    MEMORY_SUPERSEDED = 409 "memory_superseded", "Memory already superseded",
        "Supersede the memory that replaced it (context.superseded_by), or restore the old one first (PATCH /v1/memories/{id} with restore).";
    SUMMARY_IN_PROGRESS = 409 "summary_in_progress", "Summary in progress",
        "Wait for the time given in Retry-After, then list the summaries of the thread (GET /v1/memories?type=summary&thread_id=…).";
    REPLAY_DIVERGED = 409 "replay_diverged", "Replay diverged",
        "Replay with mode live, which calls the models again.";
    RUN_CANCELLED = 409 "run_cancelled", "Run cancelled",
        "Send the request again, with other settings if it took too long.";
    RUN_EXISTS = 409 "run_exists", "Run already exists",
        "Choose another run_id, or omit it.";
    ERASED = 410 "erased", "Erased",
        "It held text that has been deleted. Send the request again without the Idempotency-Key or with a new one, or ask the query again.";
    PRECONDITION_FAILED = 412 "precondition_failed", "Precondition failed",
        "Get the resource again and repeat the change with its new ETag.";
    BODY_TOO_LARGE = 413 "body_too_large", "Request body too large",
        "Send less data per request, or raise limits.max_body_bytes and restart.";
    URI_TOO_LONG = 414 "uri_too_long", "URI too long",
        "Send fewer or shorter query parameters.";
    UNSUPPORTED_MEDIA_TYPE = 415 "unsupported_media_type", "Unsupported media type",
        "Send the header Content-Type: application/json.";
    UNSUPPORTED_FILE_TYPE = 415 "unsupported_file_type", "Unsupported file type",
        "Convert the file to text, or send its text as JSON.";
    INVALID_REQUEST = 422 "invalid_request", "Invalid request",
        "Correct the fields listed in errors; /docs describes each field.";
    INVALID_DATE = 422 "invalid_date", "Invalid date",
        "Send a date such as 2025-01-31 or 2025-01-31T09:30:00, or the word unknown.";
    IDEMPOTENCY_KEY_REUSED = 422 "idempotency_key_reused", "Idempotency key reused",
        "Use a new key for each new request; reuse a key only with exactly the same body.";
    MAX_DEPTH = 422 "max_depth", "Maximum depth reached",
        "Choose a parent that is closer to level 1.";
    CATEGORY_LIMIT = 422 "category_limit", "Category limit reached",
        "Use an existing category, or raise the limit and restart: taxonomy.max_children, or with limits per level taxonomy.max_categories_default or, for this level, taxonomy.max_categories_per_level.";
    NOT_A_LEAF = 422 "not_a_leaf", "Not a leaf",
        "List the children of the category (GET /v1/categories?parent_id=…), level by level, until you reach a leaf.";
    BUDGET_EXCEEDED = 422 "budget_exceeded", "Budget exceeded",
        "Raise max_token_budget, lower per_path_limit, or change prompt_limiting_strategy or overflow.";
    BUDGET_TOO_SMALL = 422 "budget_too_small", "Budget too small",
        "Raise max_token_budget, or read fewer chunks (limit, per_path_limit).";
    CHARACTER_BUDGET_NOT_MET = 422 "character_budget_not_met", "Summaries too long",
        "Raise max_token_budget, raise query.summary_max_retries and restart, or choose a stronger model for the stage summarize.";
    FINAL_PROMPT_OVER_BUDGET = 422 "final_prompt_over_budget", "Final prompt over budget",
        "Raise max_token_budget, or read fewer chunks (limit, per_path_limit).";
    PROMPT_OVER_CEILING = 422 "prompt_over_ceiling", "Prompt over ceiling",
        "Inject fewer files, inject them with mode pack, shorten the task, or raise the ceilings of the workspace (PUT /v1/workspace).";
    UNKNOWN_MODEL = 422 "unknown_model", "Unknown model",
        "Name a model as provider:model; GET /v1/models lists the providers.";
    PROVIDER_NOT_CONFIGURED = 422 "provider_not_configured", "Provider not configured",
        "Configure the provider's key and restart, or choose another model.";
    QUEUE_FULL = 429 "queue_full", "Queue full",
        "Wait until some jobs have finished and send the request again, or raise jobs.max_queued and restart.";
    RATE_LIMITED = 429 "rate_limited", "Rate limited",
        "Wait for the time given in Retry-After, or ask an admin to raise limits.requests_per_minute of the key.";
    SPEND_CAP_REACHED = 429 "spend_cap_reached", "Spend cap reached",
        "Raise the cap named in context; if it is a setting, restart. A daily cap is reset at 00:00 UTC.";
    TOO_MANY_CONNECTIONS_FROM_ADDRESS = 429 "too_many_connections_from_address", "Too many connections from this address",
        "Try again shortly, reuse connections, or raise server.max_connections_per_peer and restart.";
    HEAD_TOO_LARGE = 431 "head_too_large", "Headers too large",
        "Send fewer or shorter headers and query parameters.";
    INTERNAL_ERROR = 500 "internal_error", "Internal error",
        "Try again. If the error persists, report it with the request id, which is also in the log.";
    DOCUMENT_CONTENT_MISSING = 500 "document_content_missing", "Source content missing",
        "Ingest its text again: POST /v1/ingestions with the path or the source_id.";
    WRITE_FAILED = 500 "write_failed", "Write failed",
        "Fix the problem reported in the job's error, then POST /v1/jobs/{id}/retry.";
    LLM_UNAVAILABLE = 502 "llm_unavailable", "Model unavailable",
        "Check that the provider is running and that its base_url is correct (POST /v1/models/probe), or set llm.fallback_model; then try again.";
    PROVIDER_AUTH = 502 "provider_auth", "Provider rejected the key",
        "Set a provider key that is valid and has access to this model, and restart.";
    MODEL_NOT_FOUND = 502 "model_not_found", "Model not found",
        "Check that the provider offers a model with this name; POST /v1/models/probe tests it.";
    PROVIDER_QUOTA = 502 "provider_quota", "Provider quota exhausted",
        "Add credit to the account at the provider; jobs wait in the meantime.";
    LLM_REJECTED = 502 "llm_rejected", "Model rejected the request",
        "Read the provider's message in the field detail; another model may accept the request.";
    LLM_INVALID_OUTPUT = 502 "llm_invalid_output", "Invalid model output",
        "Try again, raise llm.validation_retries and restart, or choose a stronger model.";
    LLM_OUTPUT_TRUNCATED = 502 "llm_output_truncated", "Model output cut off",
        "Raise llm.max_output_tokens and restart, or choose a model that can write longer output.";
    LLM_REFUSED = 502 "llm_refused", "Model refused to answer",
        "Choose another model, or change the text.";
    DATABASE_UNAVAILABLE = 503 "database_unavailable", "Database unavailable",
        "Try again shortly. If the error persists, check that the database is running and that database.url is correct (run memoir doctor).";
    DATABASE_BUSY = 503 "database_busy", "Database busy",
        "Try again shortly, with fewer concurrent requests.";
    OUTCOME_UNKNOWN = 503 "outcome_unknown", "Outcome unknown",
        "Check whether the change was made before you repeat the request. Requests with an Idempotency-Key are safe to retry.";
    STORAGE_FULL = 503 "storage_full", "Storage full",
        "Free disk space for the database; memoir then resumes automatically.";
    BODY_MEMORY_EXHAUSTED = 503 "body_memory_exhausted", "Body memory exhausted",
        "Try again shortly, send fewer large bodies at once, or raise limits.body_memory and restart.";
    TOO_MANY_CONNECTIONS = 503 "too_many_connections", "Too many connections",
        "Try again shortly, reuse connections, or raise server.max_connections and restart.";
    SHUTTING_DOWN = 503 "shutting_down", "Shutting down",
        "Send the request to another process, or try again after the restart.";
    WORKER_LOST = 503 "worker_lost", "Worker lost",
        "Find the cause in the log of the process that ran the job, then POST /v1/jobs/{id}/retry.";
    QUERY_TIMEOUT = 504 "query_timeout", "Query timed out",
        "Raise timeout_s, use a narrower strategy, or set wait to false.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ordered_by_status() {
        for (place, kind) in ALL.iter().enumerate() {
            assert!(
                ALL[place + 1..].iter().all(|other| other.code != kind.code),
                "{kind:?}"
            );
            assert!(
                kind.remedy.ends_with('.') && !kind.title.ends_with('.'),
                "{kind:?}"
            );
        }

        assert!(ALL.is_sorted_by_key(|kind| kind.status));
    }
}
