//! The retrieval policy over HTTP: settings, versions, and trials.

mod examples;
mod processes;
mod retrieving;
mod settings;
mod trying;
