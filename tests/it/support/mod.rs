//! What tests share: an application of their own, a database of their own, a clock they can move.

pub mod app;
pub mod binary;
pub mod client;
pub mod clock;
pub mod database;
pub mod door;
pub mod ingest;
pub mod library;
pub mod postgres;
pub mod probes;
pub mod proxy;
