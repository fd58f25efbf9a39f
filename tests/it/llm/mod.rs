//! The door to models: what is sent, what comes back, what is done about everything that goes
//! wrong.

mod answers;
mod caps;
mod modes;
mod routes;
mod spans;
mod transport;
mod wire;
