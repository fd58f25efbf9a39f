//! The prompt workbench over HTTP.

mod workspace;
