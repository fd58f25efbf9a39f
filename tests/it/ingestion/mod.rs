//! Texts come in: cut, described, filed and written, whatever the model, the database or the power does.

mod filing;
mod helpers;
mod text;
