//! The job engine under load and with failures: no job is lost, and no step is done twice.

mod engine;
mod kills;
mod lanes;
mod losses;
mod order;
mod outages;
mod processes;
mod providers;
