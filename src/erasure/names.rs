//! The names of categories after texts were deleted. A category without a chunk goes with its names.
//! A category that has others keeps its name as far as their texts explain it: a word that only
//! deleted texts contain is replaced, and no former name with such a word is kept. Names that a user gave
//! stay.

use std::collections::{BTreeSet, HashSet};

use memoir_embedded_model::EmbeddedModel;
use memoir_index::terms;

use super::{Erasures, Running};
use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::model::call::CallContext;
use crate::model::category::NamedBy;
use crate::model::erasure::{Pending, RowCounts};
use crate::store::{NamedCategory, StoreError, Tx};

/// Texts of a category from which a new name is taken, and characters of each.
const TEXTS: usize = 40;
const CHARS: usize = 400;
/// Numbers that are tried after a name that is taken.
const NUMBERS: usize = 1000;
/// Words that a shortened name does not begin or end with.
const JOINTS: [&str; 10] = [
    "a", "an", "and", "at", "for", "in", "of", "on", "the", "with",
];

/// The categories on the way to the chunks of a source, before it is deleted.
pub struct Names {
    /// Receipts and responses from before this time do not note what they use.
    pub uses_since: Timestamp,
    /// With the stems of their names that the source contains.
    categories: Vec<(NamedCategory, BTreeSet<String>)>,
}

/// The remaining texts of a category.
struct Remaining {
    /// Stems that none of them contains.
    unexplained: BTreeSet<String>,
    beginnings: Vec<String>,
    /// Their sources.
    sources: HashSet<SourceId>,
}

impl Names {
    /// Adds what is left to do about the names, after these categories were deleted.
    pub fn add_to(&self, pending: &mut Pending, removed: &[i64]) {
        for (category, stems) in self
            .categories
            .iter()
            .filter(|(_, stems)| !stems.is_empty())
        {
            if removed.contains(&category.id) {
                pending.note_names(category, stems);
            } else if !pending.doubtful.iter().any(|(id, _)| *id == category.id) {
                let stems = stems.iter().cloned().collect();
                pending.doubtful.push((category.id, stems));
            } else if let Some((_, known)) = pending
                .doubtful
                .iter_mut()
                .find(|(id, _)| *id == category.id)
            {
                let all: BTreeSet<String> = known.iter().chain(stems).cloned().collect();
                *known = all.into_iter().collect();
            }
        }

        pending.doubtful.retain(|(id, _)| !removed.contains(id));
    }
}

impl Pending {
    /// Notes the names of a category that contain one of these stems.
    fn note_names(&mut self, category: &NamedCategory, stems: &BTreeSet<String>) {
        let names = all_names(category);
        let names = names.filter(|name| contains_any(name, stems));
        self.names.extend(names.cloned());
        let since = category.created_at.as_micros();
        self.names_since = Some(self.names_since.map_or(since, |known| known.min(since)));
    }
}

impl Erasures {
    /// Reads which names the texts of a source may explain.
    pub(super) async fn names_of(
        &self,
        call: &CallContext,
        id: &SourceId,
    ) -> Result<Names, StoreError> {
        let categories = self.store.list_source_categories(&call.space, id).await?;
        let wanted: BTreeSet<String> = categories
            .iter()
            .flat_map(|category| all_names(category).flat_map(|name| EmbeddedModel::stems(name)))
            .collect();
        let mut missing = wanted.clone();
        for text in self.store.list_source_descriptions(&call.space, id).await? {
            remove_stems(&mut missing, &text);
        }

        let mut after = 0;
        while !missing.is_empty() {
            let texts = self.store.list_source_texts(&call.space, id, after).await?;
            let Some((last, _)) = texts.last() else {
                break;
            };
            after = *last;
            for (_, text) in &texts {
                remove_stems(&mut missing, text);
            }
        }

        let categories = categories.into_iter().map(|category| {
            let stems = all_names(&category).flat_map(|name| EmbeddedModel::stems(name));
            let stems = stems.filter(|stem| !missing.contains(stem)).collect();
            (category, stems)
        });
        Ok(Names {
            uses_since: self.store.find_text_uses_since().await?,
            categories: categories.collect(),
        })
    }

    /// Renames the categories whose names only deleted texts explain.
    pub(super) async fn settle_names(&self, running: &mut Running) -> Result<(), StoreError> {
        let call = running.call.clone();
        while let Some((id, stems)) = running.pending().doubtful.last().cloned() {
            let stems: BTreeSet<String> = stems.into_iter().collect();
            if let Some(category) = self.store.list_named(&call.space, &[id]).await?.pop() {
                let remaining = self.remaining(&call, id, stems).await?;
                if !remaining.unexplained.is_empty() {
                    self.note_and_rename(running, category, &remaining).await?;
                }
            }
            running.pending().doubtful.pop();
        }

        let mut names = std::mem::take(&mut running.pending().names);
        names.sort();
        names.dedup();
        for name in names {
            if !name.is_empty() && !self.store.has_category_named(&call.space, &name).await? {
                running.pending().names.push(name);
            }
        }

        Ok(())
    }

    /// The former names are stored with the erasure first: after an interruption, nothing else knows
    /// them.
    async fn note_and_rename(
        &self,
        running: &mut Running,
        category: NamedCategory,
        remaining: &Remaining,
    ) -> Result<(), StoreError> {
        let mut gone = category.clone();
        if gone.named_by == NamedBy::User {
            gone.name.clear();
        }
        running.pending().note_names(&gone, &remaining.unexplained);
        self.store.update_erasure(&running.erasure).await?;

        let call = running.call.clone();
        let counts = self.rename(&call, &category, remaining).await?;
        running.add(&counts);
        Ok(())
    }

    /// Which of these stems no remaining text below a category contains, and the beginnings of some.
    async fn remaining(
        &self,
        call: &CallContext,
        id: i64,
        stems: BTreeSet<String>,
    ) -> Result<Remaining, StoreError> {
        let mut remaining = Remaining {
            unexplained: stems,
            beginnings: Vec::new(),
            sources: HashSet::new(),
        };
        let present = self.leaves_below(call, id).await?;
        for leaf in &present {
            self.read_texts(call, (*leaf, false), &mut remaining)
                .await?;
        }

        // A closed category has only texts that were there before, and `as_of` shows its name with them.
        if !remaining.unexplained.is_empty() {
            for leaf in self.leaves_ever_below(call, id).await? {
                self.read_texts(call, (leaf, true), &mut remaining).await?;
                if !present.contains(&leaf) {
                    self.read_texts(call, (leaf, false), &mut remaining).await?;
                }
            }
        }

        Ok(remaining)
    }

    /// Reads the texts that are in a leaf, or that were, as long as a stem is unexplained.
    async fn read_texts(
        &self,
        call: &CallContext,
        (leaf, were): (i64, bool),
        remaining: &mut Remaining,
    ) -> Result<(), StoreError> {
        let (store, space) = (&self.store, &call.space);
        let mut after = 0;
        while !remaining.unexplained.is_empty() {
            let texts = if were {
                store.list_former_texts(space, leaf, after).await?
            } else {
                store.list_filed_texts(space, leaf, after).await?
            };
            let Some((last, ..)) = texts.last() else {
                break;
            };
            after = *last;
            for (_, source, text) in &texts {
                remaining.add(text);
                if remaining.sources.insert(source.clone()) {
                    for text in store.list_source_descriptions(space, source).await? {
                        remove_stems(&mut remaining.unexplained, &text);
                    }
                }
            }
        }

        Ok(())
    }

    /// The leaves that are or were below a category, level by level; only a closed one may be none.
    async fn leaves_ever_below(&self, call: &CallContext, id: i64) -> Result<Vec<i64>, StoreError> {
        let (mut leaves, mut level) = (Vec::new(), vec![id]);
        while !level.is_empty() {
            let below = self.store.list_ever_below(&call.space, &level).await?;
            let parents: HashSet<i64> = below.iter().map(|(_, parent)| *parent).collect();
            leaves.extend(level.iter().filter(|id| !parents.contains(id)));
            let below: BTreeSet<i64> = below.into_iter().map(|(id, _)| id).collect();
            level = below.into_iter().collect();
        }

        Ok(leaves)
    }

    async fn leaves_below(&self, call: &CallContext, id: i64) -> Result<Vec<i64>, StoreError> {
        let (mut leaves, mut level) = (Vec::new(), vec![id]);
        while !level.is_empty() {
            let below = self.store.list_options(&call.space, &level).await?;
            let parents: HashSet<i64> = below.iter().map(|child| child.parent_id).collect();
            leaves.extend(level.iter().filter(|id| !parents.contains(id)));
            level = below.iter().map(|child| child.id).collect();
        }

        Ok(leaves)
    }

    /// Gives a category a name that its remaining texts explain, or only forgets its former names if
    /// its present one may stay.
    async fn rename(
        &self,
        call: &CallContext,
        category: &NamedCategory,
        remaining: &Remaining,
    ) -> Result<RowCounts, StoreError> {
        let keeps = category.named_by == NamedBy::User
            || !contains_any(&category.name, &remaining.unexplained);
        let candidates = if keeps {
            Vec::new()
        } else {
            candidates(&category.name, remaining)
        };

        self.store
            .retry("rename_erased", || async {
                let mut counts = RowCounts::new();
                let mut tx = self.store.begin().await?;
                tx.lock_chunks(&call.space).await?;
                self.forget_terms(&mut tx, call, category, remaining)
                    .await?;
                for name in &candidates {
                    if tx
                        .replace_name(&call.space, category.id, name, &mut counts)
                        .await?
                    {
                        break;
                    }
                }

                let is_gone = |name: &str| contains_any(name, &remaining.unexplained);
                tx.forget_former_names(&call.space, category.id, is_gone, &mut counts)
                    .await?;
                tx.commit().await?;
                Ok(counts)
            })
            .await
    }
}

impl Erasures {
    /// Removes the unexplained words of a category's names from the words about its sources, by which
    /// searches find them.
    async fn forget_terms(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        category: &NamedCategory,
        remaining: &Remaining,
    ) -> Result<(), StoreError> {
        let words = all_names(category).flat_map(|name| name.split_whitespace());
        let words = words.filter(|word| contains_any(word, &remaining.unexplained));
        let gone: HashSet<String> = words
            .flat_map(|word| tokens_of(&terms::of_chunk(word).tokens))
            .collect();
        let mut changed = false;
        for source in &remaining.sources {
            for entry in tx.list_source_entries(&call.space, source).await? {
                let Some(tokens) = without(&entry.tokens, &gone) else {
                    continue;
                };
                tx.replace_entry(&call.space, &entry, &tokens).await?;
                changed = true;
            }
        }

        if changed {
            tx.count_chunk_reset(&call.space).await?;
        }

        Ok(())
    }
}

/// The tokens of an entry, see `terms::ChunkTerms`.
fn tokens_of(tokens: &str) -> Vec<String> {
    let each = tokens.split([';', ' ']).filter(|token| !token.is_empty());
    each.map(ToOwned::to_owned).collect()
}

/// The tokens of an entry without these; `None` if it has none of them.
fn without(tokens: &str, gone: &HashSet<String>) -> Option<String> {
    if !tokens_of(tokens).iter().any(|token| gone.contains(token)) {
        return None;
    }

    let group = |group: &str| {
        let kept = group.split(' ').filter(|token| !gone.contains(*token));
        kept.collect::<Vec<_>>().join(" ")
    };
    Some(tokens.split(';').map(group).collect::<Vec<_>>().join(";"))
}

impl Remaining {
    fn add(&mut self, text: &str) {
        remove_stems(&mut self.unexplained, text);
        if self.beginnings.len() < TEXTS {
            self.beginnings.push(text.chars().take(CHARS).collect());
        }
    }
}

/// Names for a category whose own name contains unexplained words, best first: its name without those
/// words, names from its texts, and a name that any category can have, with numbers.
fn candidates(name: &str, remaining: &Remaining) -> Vec<String> {
    let texts: Vec<&str> = remaining.beginnings.iter().map(String::as_str).collect();
    let mut found: Vec<String> = shortened(name, &remaining.unexplained)
        .into_iter()
        .collect();
    found.extend(EmbeddedModel::names_for(&texts));
    let last = found.last().cloned().unwrap_or_default();
    found.extend((2..NUMBERS).map(|number| format!("{last} {number}")));
    found
}

/// A name without the words that have one of these stems, if the rest tells something.
fn shortened(name: &str, stems: &BTreeSet<String>) -> Option<String> {
    let words = name.split_whitespace();
    let mut words: Vec<&str> = words.filter(|word| !contains_any(word, stems)).collect();
    let is_joint = |word: &&str| JOINTS.contains(&word.to_lowercase().as_str());
    while words.last().is_some_and(is_joint) {
        words.pop();
    }
    let first = words.iter().position(|word| !is_joint(word))?;
    let rest = words[first..].join(" ");
    let mut letters = rest.trim_matches(|c: char| !c.is_alphanumeric()).chars();
    let begin = letters.next()?;
    let rest: String = begin.to_uppercase().chain(letters).collect();
    (!EmbeddedModel::stems(&rest).is_empty()).then_some(rest)
}

fn all_names(category: &NamedCategory) -> impl Iterator<Item = &String> {
    std::iter::once(&category.name).chain(&category.former)
}

fn contains_any(name: &str, stems: &BTreeSet<String>) -> bool {
    let own = EmbeddedModel::stems(name);
    own.iter().any(|stem| stems.contains(stem))
}

fn remove_stems(missing: &mut BTreeSet<String>, text: &str) {
    if missing.is_empty() {
        return;
    }

    let stems = EmbeddedModel::stems(text);
    missing.retain(|stem| !stems.contains(stem));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_the_words_that_nothing_explains() {
        let stems = |words: &str| EmbeddedModel::stems(words).into_iter().collect();
        let short = |name: &str, gone: &str| shortened(name, &stems(gone));
        assert_eq!(
            short("Harbour of Zanzibar", "Zanzibar").as_deref(),
            Some("Harbour")
        );
        assert_eq!(
            short("Zanzibar trade", "Zanzibar").as_deref(),
            Some("Trade")
        );
        assert_eq!(short("Zanzibar", "Zanzibar"), None);
    }

    #[test]
    fn tokens_keep_their_groups() {
        let gone = HashSet::from(["lamp".to_owned()]);
        assert_eq!(
            without("oil quay;;lamp sea", &gone).as_deref(),
            Some("oil quay;;sea")
        );
        assert_eq!(without("oil quay;;sea", &gone), None);
    }
}
