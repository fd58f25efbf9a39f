//! The HTTP API from outside; one file per route or concern.

mod auth;
mod bad_input;
mod docs;
mod headers;
mod health;
mod idempotency;
mod info;
mod jobs;
mod keys;
mod sources;
mod spaces;
mod tokens;
mod transport;
mod web;
