//! How stored text is read: find → hydrate → select → fit → render.
//!
//! A finder returns the numbers of chunks or memories with scores, best first: a search
//! (`find_memories`, `search::Search`), a walk, the stages of a context, or a record. `hydrate` turns
//! numbers into texts with name, path, heading and date. What comes out of it is an `item`, which
//! steps keep or drop with a reason (`select`), within a budget of tokens (`fit`). Queries, contexts,
//! memory payloads, older turns, prompts and the search itself (`search`) are lists of such steps;
//! each renders what is left in its own way.

mod carrying;
mod find_memories;
pub mod fit;
mod hydrate;
mod item;
mod quoted;
mod search;
mod search_input;
pub mod select;
mod uses;

use crate::search::Search;
use crate::store::Store;

pub use carrying::carrying_sentence;
pub use find_memories::{FoundMemories, MemoryItem};
pub use hydrate::{Stored, hydrate};
pub use item::{Decision, Item};
pub use search::Results;
pub use search_input::SearchInput;

/// Entry point of retrieval; cheap to clone.
#[derive(Clone)]
pub struct Retrieval {
    store: Store,
    search: Search,
}

impl Retrieval {
    #[must_use]
    pub fn new(store: Store, search: Search) -> Self {
        Self { store, search }
    }
}
