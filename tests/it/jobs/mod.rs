//! The job engine under load and with failures: no job is lost, and no step is done twice.

mod engine;
mod kills;
mod lanes;
mod order;
mod outages;
mod process_deaths;
mod processes;
mod providers;
