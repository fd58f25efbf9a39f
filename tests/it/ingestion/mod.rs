//! Texts come in: cut, described, filed and written, whatever the model, the database or the power does.

mod cancels;
mod categories;
mod command;
mod faults;
mod filing;
mod helpers;
mod kills;
mod text;
mod writing;
