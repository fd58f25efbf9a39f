//! Whole spaces, for operators: list and count.

use crate::base::ids::Space;
use crate::llm::Llm;
use crate::model::llm_call::UsageDay;
use crate::store::{SpaceSize, Store, StoreError};

/// Entry point of spaces; cheap to clone.
#[derive(Clone)]
pub struct Spaces {
    store: Store,
    llm: Llm,
}

/// The counts of a space.
#[derive(Debug)]
pub struct Measured {
    pub size: SpaceSize,
    /// Its model usage; the text fields are empty.
    pub usage: UsageDay,
}

impl Spaces {
    #[must_use]
    pub fn new(store: Store, llm: Llm) -> Self {
        Self { store, llm }
    }

    /// Names of spaces with data, after the given one.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.list_spaces(after, limit).await
    }

    /// Whether a space has any data.
    ///
    /// # Errors
    /// The store's.
    pub async fn exists(&self, space: &Space) -> Result<bool, StoreError> {
        self.store.has_space(space).await
    }

    /// # Errors
    /// The store's.
    pub async fn measure(&self, space: &Space) -> Result<Measured, StoreError> {
        self.llm.flush().await?;
        let size = self.store.find_space_size(space).await?;
        Ok(Measured {
            size,
            usage: self.store.find_space_usage(space).await?,
        })
    }
}
