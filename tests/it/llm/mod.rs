//! Model calls: requests, responses, and the handling of all errors.

mod answers;
mod caps;
mod local_models;
mod modes;
mod routes;
mod spans;
mod streams;
mod transport;
mod wire;
