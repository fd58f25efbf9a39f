//! What admins do: keys and whole spaces. An admin of one space sees and changes that space only.

pub mod keys;
pub mod spaces;
