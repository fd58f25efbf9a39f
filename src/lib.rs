//! memoir: a memory service for LLM applications.
//!
//! The modules are listed floor by floor, lowest first; imports only point down
//! (`tests/it/architecture.rs` holds the table and fails on any other arrow).

/// Short-lived threads and large texts leave less behind than with the system's, and it is quicker.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time, ids, tokens, text rules, metric names; no input or output.
pub mod base;

/// Settings: defaults, file, environment, validated all at once.
pub mod config;

/// Logs and metrics, set up once.
pub mod telemetry;

/// The shared nouns as plain data.
pub mod model;

/// The embedded model: a pure computation that needs no key and no network.
pub mod embedded_model;

/// Every SQL statement, transaction and migration; three engines, one set of statements.
pub mod store;

/// Everything that is asked of a model: providers, checked answers, the ledger.
pub mod llm;

/// Background work: claimed by lease, fenced, resumed, never lost and never done twice.
pub mod jobs;

/// API keys: known, limited, made, revoked.
pub mod keys;

/// Whole spaces: listed, measured, removed.
pub mod spaces;

/// Search beside the hierarchy: by words, by meaning, or by both.
pub mod search;

/// Sources and their versions: register, read, tag, remove; retrieve one version as of a moment.
pub mod sources;

/// The hierarchy: its rules, its limits, its paths.
pub mod categories;

/// One versioned paragraph for each source, generated or confirmed by its user.
pub mod contextual_helpers;

/// Text in, cut, described, filed under the hierarchy, written once.
pub mod ingestion;

/// A question in, walked down the hierarchy, fitted to its budget, answered, with a receipt.
pub mod queries;

/// Work that does what a test tells it to; only with `testing.probe_jobs`.
pub mod probe;

/// A model server that answers by a script, for tests and benchmarks.
pub mod scripted_model;

/// The page's files and their headers; it speaks only the public API.
pub mod web;

/// Routes, wire types, authentication, the error envelope, OpenAPI.
pub mod http;

/// Composition root: builds the application and serves it.
pub mod app;

/// The commands of the binary.
pub mod cli;
