//! The prompt workbench over HTTP.

mod command;
mod sending;
mod workspace;
