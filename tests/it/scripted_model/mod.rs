//! The stand-in for providers is tested too: what rests on it is worth no more than it is.

mod common;
mod connections;
mod control;
mod faults;
mod protocols;
