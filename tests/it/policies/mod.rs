//! The retrieval policy over HTTP: settings, versions, and trials.

mod settings;
mod trying;
