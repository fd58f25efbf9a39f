//! The HTTP layer: every route on one screen.
//!
//! A handler reads its arguments with the extractors of `extract` and `auth`, calls one area, and
//! converts the result to a wire type defined next to it. Errors become problem documents in
//! `error`.

mod admission;
mod auth;
mod body;
mod body_budget;
mod error;
mod etag;
mod event_stream;
mod extract;
mod host;
mod idempotency;
mod middleware;
pub mod openapi;
mod origin;
mod page;
mod roles;
mod routes;
pub mod serve;
mod state;
mod trace;
mod wait;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use body_budget::BodyBudget;
pub use idempotency::{KEEP_SECONDS as IDEMPOTENCY_KEEP_SECONDS, Runs};
pub use routes::info::{AuthInfo, DatabaseInfo, InfoResponse, LimitsInfo, LlmInfo, LocalModelInfo};
pub use routes::queries::ANSWERED;
pub use state::{AppState, HttpSettings};

use routes::{
    admin, categories, chunks, context, docs, documents, erasures, exports, health, info,
    ingestions, jobs, lexicon, manifest, memories, memory, metrics, models, openai, policies,
    prompt_sending, prompts, queries, runs, search, sources, threads, tokens, usage, users,
    vocabulary, web, workspace,
};

/// Every route in the OpenAPI document.
fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::base())
        // For operators: no key required.
        .routes(routes!(health::get_live))
        .routes(routes!(health::get_ready))
        .routes(routes!(docs::get_openapi))
        .routes(routes!(web::get_page))
        .routes(routes!(docs::get_docs))
        .routes(routes!(metrics::get_metrics))
        // For admins: keys and spaces.
        .routes(routes!(admin::keys::create_key, admin::keys::list_keys))
        .routes(routes!(
            admin::keys::get_key,
            admin::keys::update_key,
            admin::keys::revoke_key
        ))
        .routes(routes!(admin::spaces::list_spaces))
        .routes(routes!(
            admin::spaces::get_space,
            admin::spaces::delete_space
        ))
        // How memories are selected.
        .routes(routes!(
            admin::memory_settings::get_memory_settings,
            admin::memory_settings::update_memory_settings,
            admin::memory_settings::patch_memory_settings
        ))
        .routes(routes!(memory::retrieve_memory))
        .routes(routes!(memory::get_memory_metrics))
        .routes(routes!(policies::list_policies))
        .routes(routes!(policies::list_policy_versions))
        .routes(routes!(policies::try_policy))
        // Information about this installation.
        .routes(routes!(info::get_info))
        .routes(routes!(tokens::count_tokens))
        .routes(routes!(models::list_models))
        .routes(routes!(models::probe_model))
        .routes(routes!(usage::list_usage))
        // Sources.
        .routes(routes!(sources::create_source, sources::list_sources))
        .routes(routes!(
            sources::get_source,
            sources::update_source,
            sources::delete_source
        ))
        .routes(routes!(sources::list_source_versions))
        .routes(routes!(sources::get_source_version))
        .routes(routes!(sources::get_source_content))
        .routes(routes!(sources::list_source_chunks))
        .routes(routes!(sources::get_helper, sources::update_helper))
        .routes(routes!(sources::list_helpers))
        .routes(routes!(sources::preview_helper))
        .routes(routes!(sources::regenerate_helper))
        .routes(routes!(sources::diff_source_versions))
        .routes(routes!(documents::retrieve_document))
        .routes(routes!(manifest::get_manifest))
        // Ingestion, and where chunks are filed.
        .routes(routes!(ingestions::create_ingestion))
        .routes(routes!(ingestions::create_ingestion_batch))
        .routes(routes!(
            categories::create_category,
            categories::list_categories
        ))
        .routes(routes!(categories::get_category_tree))
        .routes(routes!(
            categories::get_category,
            categories::rename_category,
            categories::delete_category
        ))
        .routes(routes!(categories::merge_category))
        .routes(routes!(categories::move_category))
        .routes(routes!(categories::split_category))
        .routes(routes!(categories::review_categories))
        .routes(routes!(categories::list_category_changes))
        .routes(routes!(categories::undo_change))
        .routes(routes!(categories::list_category_chunks))
        .routes(routes!(chunks::get_chunk, chunks::move_chunk))
        // Queries.
        .routes(routes!(queries::create_query, queries::list_queries))
        .routes(routes!(queries::estimate_query))
        .routes(routes!(queries::get_query))
        .routes(routes!(queries::replay_query))
        // Search without a walk.
        .routes(routes!(search::search))
        // Conversations.
        .routes(routes!(threads::create_thread, threads::list_threads))
        .routes(routes!(
            threads::get_thread,
            threads::update_thread,
            threads::delete_thread
        ))
        .routes(routes!(threads::create_messages, threads::list_messages))
        .routes(routes!(threads::create_messages_by_name))
        .routes(routes!(threads::list_receipts))
        .routes(routes!(threads::get_window))
        .routes(routes!(threads::select_episodic))
        .routes(routes!(threads::create_summary))
        .routes(routes!(lexicon::get_lexicon, lexicon::update_lexicon))
        .routes(routes!(memories::create_memory, memories::list_memories))
        .routes(routes!(
            memories::get_memory,
            memories::update_memory,
            memories::delete_memory
        ))
        .routes(routes!(memories::enrich_memory))
        .routes(routes!(context::create_context))
        .routes(routes!(context::analyze_context))
        .routes(routes!(
            vocabulary::get_vocabulary,
            vocabulary::update_vocabulary
        ))
        .routes(routes!(vocabulary::choose_preset))
        .routes(routes!(vocabulary::list_suggestions))
        .routes(routes!(vocabulary::approve_suggestion))
        .routes(routes!(users::delete_user))
        // What was deleted.
        .routes(routes!(erasures::list_erasures))
        .routes(routes!(erasures::get_erasure))
        // The prompt workbench.
        .routes(routes!(
            workspace::get_workspace,
            workspace::update_workspace
        ))
        .routes(routes!(prompts::compose_prompt))
        .routes(routes!(prompt_sending::estimate_prompt))
        .routes(routes!(prompt_sending::send_prompt))
        .routes(routes!(exports::create_export))
        .routes(routes!(runs::cancel_run))
        // Background jobs.
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::cancel_jobs))
        .routes(routes!(jobs::retry_jobs))
        .routes(routes!(jobs::get_job))
        .routes(routes!(jobs::watch_job))
        .routes(routes!(jobs::cancel_job))
        .routes(routes!(jobs::retry_job))
        .routes(routes!(jobs::update_job_helper))
        .routes(routes!(jobs::confirm_job_helper))
}

/// OpenAI's protocol. Many clients can set only the address, so a path can name user and thread.
fn openai_routes(mut router: Router<AppState>) -> Router<AppState> {
    for prefix in ["/openai/v1", "/openai/u/{user}/t/{thread}/v1"] {
        router = router
            .route(&format!("{prefix}/models"), get(openai::list_models))
            .route(
                &format!("{prefix}/chat/completions"),
                post(openai::create_chat_completion),
            )
            .route(
                &format!("{prefix}/responses"),
                post(openai::create_response),
            )
            .route(
                &format!("{prefix}/embeddings"),
                post(openai::create_embeddings),
            );
    }

    router
}

/// The whole service, ready to be served.
pub fn router(state: AppState) -> Router {
    let (router, _) = api().split_for_parts();
    let router = openai_routes(router);
    #[cfg(feature = "testing")]
    let router = routes::testing::add_to(router, &state);

    // A stream would be delayed until a block is full.
    let compressible = SizeAbove::new(1024)
        .and(NotForContentType::SSE)
        .and(middleware::NotProblem);
    let router = router
        .route("/assets/{file}", get(web::get_page_file))
        .route("/docs/", get(docs::redirect_to_docs))
        .fallback(middleware::unknown_route)
        .method_not_allowed_fallback(middleware::wrong_method)
        .with_state(state.clone());
    let mut router = routes::mcp::add_to(router, &state)
        .layer(CatchPanicLayer::custom(middleware::after_panic))
        .layer(CompressionLayer::new().compress_when(compressible));

    if let Some(cors) = state.cors() {
        router = router.layer(cors);
    }

    router
        .layer(from_fn_with_state(state.clone(), origin::check))
        .layer(from_fn(host::check_form))
        .layer(from_fn(admission::admit))
        .layer(from_fn_with_state(state, middleware::envelope))
}
