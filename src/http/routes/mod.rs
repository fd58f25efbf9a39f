//! Handlers and their wire types: one file per first segment of the path.

pub mod admin;
pub mod categories;
pub mod chunks;
pub mod context;
pub mod docs;
pub mod documents;
pub mod health;
pub mod info;
pub mod ingestions;
pub mod jobs;
pub mod lexicon;
pub mod manifest;
pub mod memories;
pub mod metrics;
pub mod models;
pub mod queries;
pub mod search;
pub mod sources;
#[cfg(feature = "testing")]
pub mod testing;
pub mod threads;
pub mod tokens;
pub mod usage;
pub mod users;
pub mod vocabulary;
pub mod web;
