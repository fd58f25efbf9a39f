//! The words about a source: its name, what is said about it, and what it is filed under. Searches
//! find its chunks by these words too.

use super::super::request::name_words;
use super::super::write_error::{During as _, WriteError};
use super::{Draft, Writer, Written};
use crate::base::clock::Timestamp;
use crate::model::search::OwnerKind;
use crate::model::source::Source;
use crate::search::terms;
use crate::store::{NewEntry, Tx};

impl Writer<'_> {
    /// Writes the words about the source as an entry of its own.
    pub(super) async fn write_words(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        source: &Source,
        written: &Written,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let said = format!("{} {}", name_words(source), draft.words);
        let filed = shared_path(&draft.paths).join(" ");
        let derived = format!("{} {filed}", draft.helper_words);
        // A helper and categories repeat words of a short text, which count there already.
        let prepared = draft.searched.as_ref().map(|searched| &searched.prepared);
        let own = prepared.and_then(|prepared| prepared.tokens_of_only());
        let terms = terms::of_source(&said, &derived, own.unwrap_or_default());
        let entry = NewEntry {
            owner_id: written.version_id,
            group_id: source.id.as_str(),
            version_id: written.version_id,
            length: i64::from(terms.length),
            tokens: &terms.tokens,
        };

        tx.add_entries(self.context.space(), OwnerKind::Source, &[entry], now)
            .await
            .during("add keywords", "search_entries")
    }
}

/// The categories, from level 1 down, that all chunks are filed under: for a short text the whole
/// path, for a long one what it is about as a whole.
fn shared_path(paths: &[Vec<String>]) -> &[String] {
    let Some((first, others)) = paths.split_first() else {
        return &[];
    };
    let shared = |other: &Vec<String>| {
        let pairs = first.iter().zip(other);
        pairs.take_while(|(one, two)| one == two).count()
    };
    let levels = others.iter().map(shared).min().unwrap_or(first.len());

    &first[..levels]
}

#[cfg(test)]
mod tests {
    use super::shared_path;

    #[test]
    fn the_levels_that_all_chunks_share() {
        let path = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let one = path(&["Home", "Heating", "Boiler"]);
        let two = path(&["Home", "Heating", "Stove"]);
        let far = path(&["Law", "Heating", "Boiler"]);

        assert_eq!(shared_path(std::slice::from_ref(&one)), one);
        assert_eq!(shared_path(&[one.clone(), two.clone()]), &one[..2]);
        assert!(shared_path(&[one, two, far]).is_empty());
        assert!(shared_path(&[]).is_empty());
    }
}
