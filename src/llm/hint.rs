//! What a task tells a model besides its frame. Most models read the frame alone; one that declares
//! it ([`super::Capabilities`]) also goes by what lies in the categories on offer.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::category::CategoryContents;

/// What lies in the categories of a task. The default says nothing.
#[derive(Debug, Clone, Default)]
pub struct Hint {
    contents: Arc<[CategoryContents]>,
    filed_in: Arc<BTreeMap<i64, usize>>,
}

impl Hint {
    /// Samples of the chunks in each category on offer, in the order of the offer.
    pub fn samples(contents: Arc<[CategoryContents]>) -> Self {
        Self {
            contents,
            filed_in: Arc::default(),
        }
    }

    /// The same for chunks that are filed already: for each of them the place of its category in
    /// the offer. The model leaves them there unless another category is clearly better.
    pub fn second_look(
        contents: Arc<[CategoryContents]>,
        filed_in: Arc<BTreeMap<i64, usize>>,
    ) -> Self {
        Self { contents, filed_in }
    }

    /// Empty, or one for each category on offer.
    pub(super) fn contents(&self) -> &[CategoryContents] {
        &self.contents
    }

    /// The place of a chunk's category in the offer, if the chunk is filed already.
    pub(super) fn filed_in(&self, chunk: i64) -> Option<usize> {
        self.filed_in.get(&chunk).copied()
    }

    pub(super) fn is_second_look(&self) -> bool {
        !self.filed_in.is_empty()
    }
}
