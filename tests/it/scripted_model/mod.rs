//! Tests of the scripted model, because many other tests depend on it.

mod common;
mod connections;
mod control;
mod faults;
mod protocols;
