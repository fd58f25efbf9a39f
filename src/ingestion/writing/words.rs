//! Writes the words about a source, by which searches find its chunks too.

use memoir_index::OwnerKind;
use memoir_index::terms::TERMS_VERSION;

use super::super::write_error::{During as _, WriteError};
use super::{Draft, Writer, Written};
use crate::model::call::CallContext;
use crate::model::source::Source;
use crate::search::source_words::SourceWords;
use crate::store::{NewEntry, Tx};

impl Writer<'_> {
    /// Writes the words about the source as an entry of its own.
    pub(super) async fn write_words(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        source: &Source,
        written: &Written,
        call: &CallContext,
    ) -> Result<(), WriteError> {
        let words = SourceWords {
            source,
            said: &draft.words,
            helper: &draft.helper_words,
            paths: &draft.paths,
        };
        let prepared = draft.searched.as_ref().map(|searched| &searched.prepared);
        let terms = words.terms(prepared.and_then(|prepared| prepared.tokens_of_only()));
        let entry = NewEntry {
            owner_id: written.version_id,
            group_id: source.id.as_str(),
            version_id: written.version_id,
            length: i64::from(terms.length),
            tokens: &terms.tokens,
        };

        let space = &call.space;
        tx.settle_terms_version(space, TERMS_VERSION, call.now)
            .await
            .during("note the version of keywords", "settings")?;
        tx.add_entries(space, OwnerKind::Source, &[entry], call.now)
            .await
            .during("add keywords", "search_entries")
    }
}
