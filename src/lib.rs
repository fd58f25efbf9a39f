//! memoir: a memory service for LLM applications.
//!
//! The modules are listed from the lowest layer up; imports only point down
//! (`tests/it/architecture.rs` fails on any other import).

/// mimalloc is faster than the system's allocator, and keeps less memory after short-lived threads
/// and large texts. SQLite uses it too (feature `override`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time, ids, metric names; no input or output.
pub mod base;

/// Settings: defaults, file, environment, validated all at once.
pub mod config;

/// Logs and metrics, set up once.
pub mod telemetry;

/// The shared domain types as plain data.
pub mod model;

/// Every SQL statement, transaction and migration; three engines, one set of statements.
pub mod store;

/// Model calls: providers, validated answers, the ledger, the embedded model.
pub mod llm;

/// Background jobs: claimed by lease, fenced, resumed, never lost and never done twice.
pub mod jobs;

/// API keys: validation, limits, creation, revocation.
pub mod keys;

/// Whole spaces: list, count.
pub mod spaces;

/// Indexes and their search: by keyword, by meaning, or by both.
pub mod search;

/// How stored text is read: found, hydrated, selected, fitted to a budget.
pub mod retrieval;

/// Memory retrieval: the versions of the retrieval policy, and payloads made with them.
pub mod memory_retrieval;

/// Sources and their versions: register, read, tag; retrieve one version as of a time.
pub mod sources;

/// The hierarchy: its rules, its limits, its paths.
pub mod categories;

/// Contextual helpers: one versioned paragraph per source, generated or written by a user.
pub mod contextual_helpers;

/// Ingestion: splits a text, files its chunks in the hierarchy, and writes everything once.
pub mod ingestion;

/// Queries: walk the hierarchy, fit the chunks to a budget, answer, and store a receipt.
pub mod queries;

/// Conversations: threads, memories, the vocabulary, and contexts that explain themselves.
pub mod conversation;

/// Erasure: deletes something with everything that quotes it, and keeps a receipt without content.
pub mod erasure;

/// The prompt workbench: composes a prompt in a fixed order, with a reason for everything in it.
pub mod workbench;

/// Jobs that do what a test tells them to; only with `testing.probe_jobs`.
#[cfg(feature = "testing")]
pub mod probe;

/// A model server that follows a script, in place of a provider, for tests and benchmarks.
#[cfg(feature = "testing")]
pub use memoir_scripted_model as scripted_model;

/// Ways in for other programs: adapters over the same operations as the API.
pub mod connect;

/// The files of the web page and their headers; it uses only the public API.
pub mod web;

/// Routes, wire types, authentication, the error envelope, OpenAPI.
pub mod http;

/// Composition root: builds the application and serves it.
pub mod app;

/// The commands of the binary.
pub mod cli;
