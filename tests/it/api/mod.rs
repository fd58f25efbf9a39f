//! The HTTP API from outside; one file per route or concern.

mod auth;
mod bad_input;
mod body_memory;
mod connections;
mod docs;
mod headers;
mod health;
mod host;
mod idempotency;
mod info;
mod jobs;
mod keys;
mod origin;
mod redacting;
mod slow_bodies;
mod source_lists;
mod sources;
mod spaces;
mod tokens;
mod transport;
mod user_walls;
mod web;
