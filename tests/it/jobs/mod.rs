//! The job engine under load and under fire: nothing is lost, nothing is done twice.

mod engine;
mod kills;
mod losses;
mod order;
mod outages;
mod processes;
mod providers;
