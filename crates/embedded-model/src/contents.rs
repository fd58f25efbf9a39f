//! What categories contain, with what the model keeps about each text.

use std::sync::{Arc, OnceLock};

use super::select;

/// What a category contains, for the model, which otherwise knows little more than its name.
#[derive(Debug, Clone, Default)]
pub struct CategoryContents {
    /// The number of chunks.
    pub count: usize,
    /// The first 4 and the latest 12 chunks, cut to 600 characters.
    pub samples: Vec<Arc<str>>,
    /// More chunks, spread over everything below it.
    pub spread: Arc<[Arc<SampleText>]>,
}

/// A chunk as a sample of what its category contains, with what the model keeps about it: a walk
/// reads thousands of them for each question.
#[derive(Debug)]
pub struct SampleText {
    pub text: Arc<str>,
    gist: OnceLock<Box<Gist>>,
}

/// The words and the meaning of a text, as the model compares them.
#[derive(Debug)]
pub struct Gist {
    /// The hashes of its word stems, ascending, each once.
    pub stems: Vec<u64>,
    pub vector: Vec<f32>,
}

impl SampleText {
    #[must_use]
    pub fn new(text: Arc<str>) -> Self {
        Self {
            text,
            gist: OnceLock::new(),
        }
    }

    /// The gist of the text, which is computed once.
    pub(crate) fn gist(&self) -> &Gist {
        self.gist.get_or_init(|| Box::new(select::gist(&self.text)))
    }
}
