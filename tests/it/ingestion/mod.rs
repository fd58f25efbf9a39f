//! Ingestion: texts are split, filed and written, whatever fails: the model, the database or the
//! power.

mod batch;
mod categories;
mod command;
mod concurrency;
mod faults;
mod filing;
mod free_names;
mod helpers;
mod kills;
mod limits;
mod names;
mod renames;
mod second_look;
mod server_files;
mod shared_calls;
mod short_texts;
mod sums;
mod text;
mod writing;
