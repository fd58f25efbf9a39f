//! Search in memory: which entries fit a query, and in which order. Pure functions and snapshots:
//! no database, no clock, nothing asynchronous.
//!
//! `terms` turns text into terms (`stem`), `keywords` scores terms, `vectors` compares meanings,
//! `fusion` combines the two, `fields` adds what is said about a source, `neighbours` a share of the
//! chunks before and after; `rank` defines queries and hits, `raise` moves some of these up. [`Index`] holds the entries of a space.
//!
//! The service fills an [`Index`] with rows and searches it. It searches the database with the same
//! `terms`, `keywords`, `vectors`, `fusion`, `fields` and `rank`, so that the order is the same;
//! `highlight` marks the words of a query.

mod entry;
pub mod fields;
pub mod fusion;
pub mod highlight;
mod index;
pub mod keywords;
mod neighbours;
pub mod raise;
pub mod rank;
mod stem;
pub mod terms;
mod vector_bytes;
pub mod vectors;

pub use entry::{EntryRow, Owner, OwnerKind, SearchGroup, SearchSize, VectorRow};
pub use index::{Filter, Index, Merged, Segment, VectorModel, key_of};
pub use rank::{Hit, Kind, PreparedQuery};
