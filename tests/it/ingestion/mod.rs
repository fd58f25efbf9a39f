//! Texts come in: cut, described, filed and written, whatever the model, the database or the power
//! does.

mod categories;
mod command;
mod faults;
mod filing;
mod helpers;
mod kills;
mod meanwhile;
mod second_look;
mod server_files;
mod sums;
mod text;
mod writing;
