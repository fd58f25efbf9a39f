//! All integration tests, in one binary: the real application, real databases, real HTTP.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected should stop there"
)]
#![expect(
    clippy::print_stderr,
    reason = "seeds and counts are shown when a test fails, or with --nocapture"
)]

mod api;
mod architecture;
mod audit;
mod care;
mod cli;
mod config;
mod connect;
mod conversation;
mod databases;
mod erasure;
mod hard_texts;
mod ingestion;
mod jobs;
mod llm;
mod log_faults;
mod logs;
mod migrations;
mod openai;
mod openapi;
mod policies;
mod queries;
mod retrieval;
mod scripted_model;
mod search;
mod store_faults;
mod store_full;
mod store_story;
mod support;
mod workbench;
