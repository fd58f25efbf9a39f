//! Administration of keys and spaces. An admin of one space sees and changes only that space.

pub mod keys;
pub mod memory_settings;
pub mod spaces;
