//! The retrieval policy over HTTP: settings, versions, and trials.

mod processes;
mod retrieving;
mod settings;
mod trying;
