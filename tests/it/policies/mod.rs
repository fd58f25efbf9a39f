//! The retrieval policy over HTTP: settings, versions, and trials.

mod retrieving;
mod settings;
mod trying;
