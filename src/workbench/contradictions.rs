//! What contradicts each other in a prompt, by rule: statements of the condensed context, the injected
//! files and the conversation. An injected file counts more than everything, otherwise what is newer
//! counts more. Both sides are listed, and the weaker one is marked where it stands.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use memoir_index::terms;
use memoir_text::framing::unfenced;

use super::WorkbenchError;
use super::claims::Claims;
use super::condenser::{CitedFact, CitedPlace, CondensedContext};
use super::conflict::{Conflict, ConflictSide, FILES};
use super::files::InjectedFile;
use super::history::History;
use super::stage::Tools;
use crate::base::clock::Timestamp;

const BY_FILES: &str = "contradicted by ❖ FILES, which counts";
const BY_CHAT: &str = "contradicted by the chat, which is newer";

/// How early a fact gives way if the prompt is over its ceiling; later ones go first. What only
/// another fact contradicts goes first of all.
pub fn gives_way(fact: &CitedFact) -> u8 {
    match fact.conflict.as_deref() {
        None => 0,
        Some(BY_FILES | BY_CHAT) => 1,
        Some(_) => 2,
    }
}

/// Said where the file names and headings do not show that both are about the same.
const PERHAPS: &str = "perhaps of something else";

/// What the statements are compared with.
pub struct Known<'a> {
    pub files: &'a [InjectedFile],
    /// When the source of each cited chunk last changed.
    pub changed_at: &'a HashMap<i64, Timestamp>,
}

/// A fact or a constraint of the context.
struct Stated<'t> {
    /// How the prompt calls it: the id of a fact, or what it cites.
    name: String,
    text: &'t str,
    place: Option<CitedPlace>,
    changed_at: Option<Timestamp>,
    claims: Claims,
    conflict: Option<String>,
}

impl Stated<'_> {
    fn side(&self) -> ConflictSide {
        let id = self.place.as_ref().map(|place| place.chunk_id.to_string());
        ConflictSide::new("chunk", id.unwrap_or_default(), self.text, self.changed_at)
    }

    fn path(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.path.as_str())
    }

    /// The words of its file name and headings.
    fn subject(&self) -> HashSet<String> {
        let place = self.place.as_ref();
        let heading = place.and_then(|place| place.heading.as_deref());
        subject(self.path().unwrap_or_default(), heading.unwrap_or_default())
    }
}

/// When the source of each cited chunk last changed.
///
/// # Errors
/// The store's.
pub async fn changed_at(
    tools: &Tools<'_>,
    context: &CondensedContext,
) -> Result<HashMap<i64, Timestamp>, WorkbenchError> {
    let mut chunks: Vec<i64> = context.places().map(|place| place.chunk_id).collect();
    chunks.sort_unstable();
    chunks.dedup();
    if chunks.is_empty() {
        return Ok(HashMap::new());
    }

    let mut ids: Vec<_> = context
        .places()
        .map(|place| place.source_id.clone())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let space = &tools.call().space;
    let states = tools.store.list_source_states(space, &ids).await?;
    let changed = context.places().filter_map(|place| {
        let state = states.get(&place.source_id)?;
        Some((place.chunk_id, state.changed_at))
    });
    Ok(changed.collect())
}

/// Finds the contradictions, and marks the weaker sides.
pub fn find(
    context: &mut CondensedContext,
    history: &mut History,
    known: &Known<'_>,
) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    let mut all = stated(context, known);
    for one in &mut all {
        conflicts.extend(against_files(one, known.files));
    }
    among_each_other(&mut all, &mut conflicts);
    with_the_chat(&mut all, history, known.files, &mut conflicts);

    let marks: Vec<Option<String>> = all.into_iter().map(|one| one.conflict).collect();
    let mut marks = marks.into_iter();
    for fact in &mut context.facts {
        fact.conflict = marks.next().flatten();
    }
    for one in &mut context.constraints {
        one.conflict = marks.next().flatten();
    }
    conflicts
}

/// The facts, then the constraints.
fn stated<'t>(context: &'t CondensedContext, known: &Known<'_>) -> Vec<Stated<'t>> {
    let one = |name: String, text: &'t str, places: &[CitedPlace]| {
        let place = places.first().cloned();
        // Code claims nothing.
        let text = if unfenced(text).is_some() { "" } else { text };
        Stated {
            name,
            claims: Claims::new(text),
            text,
            changed_at: place
                .as_ref()
                .and_then(|place| known.changed_at.get(&place.chunk_id).copied()),
            place,
            conflict: None,
        }
    };
    let facts = context.facts.iter();
    let facts = facts.map(|fact| one(fact.id.clone(), &fact.text, &fact.places));
    let constraints = context.constraints.iter().map(|constraint| {
        let cited = constraint.citations.first();
        let name = cited.map_or_else(|| "a constraint".to_owned(), |id| format!("chunk {id}"));
        one(name, &constraint.text, &constraint.places)
    });
    facts.chain(constraints).collect()
}

fn against_files(one: &mut Stated<'_>, files: &[InjectedFile]) -> Option<Conflict> {
    let (file, claim) = files
        .iter()
        .find_map(|file| Some((file, file.claims.contradicted_by_any(&one.claims)?)))?;
    let is_certain = !speak_of_different_things(&one.subject(), &subject(&file.path, ""));
    one.conflict = Some(if is_certain {
        BY_FILES.to_owned()
    } else {
        format!("{FILES} say otherwise, {PERHAPS}")
    });
    Some(Conflict {
        sides: vec![one.side(), ConflictSide::of_file(file, claim)],
        winner: FILES.to_owned(),
        reason: reason("an injected file wins in this run", is_certain),
    })
}

/// Statements of different sources; those of one source are its own affair.
fn among_each_other(all: &mut [Stated<'_>], conflicts: &mut Vec<Conflict>) {
    for later in 1..all.len() {
        for earlier in 0..later {
            let (first, second) = (&all[earlier], &all[later]);
            let is_settled = first.conflict.is_some() || second.conflict.is_some();
            if is_settled
                || first.path() == second.path()
                || first.claims.contradicted_by_any(&second.claims).is_none()
            {
                continue;
            }

            // Statements are ordered by how well they fit.
            let (weaker, stronger, why) = match first.changed_at.cmp(&second.changed_at) {
                std::cmp::Ordering::Less => (earlier, later, "newer"),
                std::cmp::Ordering::Equal => (later, earlier, "a better match"),
                std::cmp::Ordering::Greater => (later, earlier, "newer"),
            };
            let is_certain = !speak_of_different_things(&first.subject(), &second.subject());
            conflicts.push(Conflict {
                sides: vec![all[weaker].side(), all[stronger].side()],
                winner: "chunk".to_owned(),
                reason: reason(&format!("the second one is {why}"), is_certain),
            });
            let name = &all[stronger].name;
            all[weaker].conflict = Some(if is_certain {
                format!("contradicted by {name}, which is {why}")
            } else {
                format!("{name}, which is {why}, says otherwise, {PERHAPS}")
            });
        }
    }
}

/// The words of a file name and of headings.
fn subject(path: &str, heading: &str) -> HashSet<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let words = terms::of_query(&format!("{} {heading}", name.replace(['-', '_'], " ")));
    words.into_iter().map(|one| one.term).collect()
}

/// Whether each of two subjects has words that the other lacks: two recipes bake for other times,
/// and do not contradict each other.
fn speak_of_different_things(one: &HashSet<String>, other: &HashSet<String>) -> bool {
    !one.is_subset(other) && !other.is_subset(one)
}

fn reason(why: &str, is_certain: bool) -> String {
    if is_certain {
        why.to_owned()
    } else {
        format!("{why}; {PERHAPS}")
    }
}

/// What the user said, newest first: what was corrected later does not count. An answer of a model
/// does not outrank a source.
fn with_the_chat(
    all: &mut [Stated<'_>],
    history: &mut History,
    files: &[InjectedFile],
    conflicts: &mut Vec<Conflict>,
) {
    let mut all_said = history.statements();
    all_said.reverse();
    all_said.sort_by_key(|said| Reverse(said.said_at));
    let mut later: Vec<Claims> = Vec::new();
    for said in all_said {
        let claims = Claims::new(&said.text);
        let by_file = files
            .iter()
            .find_map(|file| Some((file, file.claims.contradicted_by_any(&claims)?)));
        if let Some((file, claim)) = by_file {
            conflicts.push(Conflict {
                sides: vec![
                    ConflictSide::of_statement(&said),
                    ConflictSide::of_file(file, claim),
                ],
                winner: FILES.to_owned(),
                reason: "an injected file wins in this run".to_owned(),
            });
            history.mark(&said.memory_id, BY_FILES);
            continue;
        }

        let is_corrected = later
            .iter()
            .any(|one| one.contradicted_by_any(&claims).is_some());
        if is_corrected {
            continue;
        }

        for one in all.iter_mut().filter(|one| one.conflict.is_none()) {
            if claims.contradicted_by_any(&one.claims).is_none() {
                continue;
            }

            let is_newer = one.changed_at.is_none_or(|changed| said.said_at > changed);
            let (winner, reason) = if is_newer && said.by_user {
                one.conflict = Some(BY_CHAT.to_owned());
                ("chat", "the chat is newer than the file")
            } else if is_newer {
                history.mark(&said.memory_id, &format!("contradicted by {}", one.name));
                ("chunk", "only the user outranks a file")
            } else {
                let by = format!("contradicted by {}, which is newer", one.name);
                history.mark(&said.memory_id, &by);
                ("chunk", "the file is newer than the chat")
            };
            conflicts.push(Conflict {
                sides: vec![one.side(), ConflictSide::of_statement(&said)],
                winner: winner.to_owned(),
                reason: reason.to_owned(),
            });
        }
        if said.by_user {
            later.push(claims);
        }
    }
}
