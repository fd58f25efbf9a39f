//! What a task gives a model besides its prompt. Most models read only the prompt; a model that
//! declares it ([`super::Capabilities`]) also uses what is known of the contents of categories.

use std::collections::BTreeMap;
use std::sync::Arc;

use memoir_embedded_model::CategoryContents;

/// What the categories of a task contain; empty by default.
#[derive(Debug, Clone, Default)]
pub struct Hint {
    contents: Arc<[CategoryContents]>,
    filed_in: Arc<BTreeMap<i64, usize>>,
    outlined_names: Arc<BTreeMap<i64, String>>,
    is_short_text: bool,
    found: Arc<[f32]>,
}

impl Hint {
    /// How well the best chunks in each category match the query, 0 to 1, in the order of the
    /// options.
    pub fn found(found: Arc<[f32]>) -> Self {
        Self {
            found,
            ..Self::default()
        }
    }

    /// Samples of the chunks in each category, in the order of the options.
    pub fn samples(contents: Arc<[CategoryContents]>) -> Self {
        Self {
            contents,
            ..Self::default()
        }
    }

    /// Samples for chunks that are already filed, with the position of each chunk's category in the
    /// options. The model leaves a chunk there unless another category is clearly better.
    pub fn second_look(
        contents: Arc<[CategoryContents]>,
        filed_in: Arc<BTreeMap<i64, usize>>,
    ) -> Self {
        Self {
            contents,
            filed_in,
            ..Self::default()
        }
    }

    /// Adds the names that the outline of the source gives the chunks on this level.
    #[must_use]
    pub fn with_outlined_names(self, names: BTreeMap<i64, String>) -> Self {
        Self {
            outlined_names: Arc::new(names),
            ..self
        }
    }

    /// Says whether the chunks are of a short text, which shares its leaf with others on its subject.
    #[must_use]
    pub fn of_short_text(self, is_short_text: bool) -> Self {
        Self {
            is_short_text,
            ..self
        }
    }

    /// Whether the chunks are a short text.
    pub(super) fn is_short_text(&self) -> bool {
        self.is_short_text
    }

    /// The name that the outline of the source gives a chunk.
    pub(super) fn outlined_name(&self, chunk: i64) -> Option<&str> {
        self.outlined_names.get(&chunk).map(String::as_str)
    }

    /// Empty, or one entry per option.
    pub(super) fn found_in(&self) -> &[f32] {
        &self.found
    }

    /// Empty, or one entry per option.
    pub(super) fn contents(&self) -> &[CategoryContents] {
        &self.contents
    }

    /// The position of a chunk's category in the options, if the chunk is already filed.
    pub(super) fn filed_in(&self, chunk: i64) -> Option<usize> {
        self.filed_in.get(&chunk).copied()
    }

    pub(super) fn is_second_look(&self) -> bool {
        !self.filed_in.is_empty()
    }
}
