//! Shared by the tests: an application, a database and a clock for each test.

pub mod app;
pub mod binary;
pub mod client;
pub mod clock;
pub mod database;
pub mod dice;
pub mod door;
pub mod dump;
pub mod events;
pub mod ingest;
pub mod library;
pub mod postgres;
pub mod probes;
pub mod proxy;
pub mod small_disk;
