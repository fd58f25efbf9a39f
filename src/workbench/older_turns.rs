//! The episodic layer of a run: older turns, held against the injected files and the sources that
//! are off. An injected file wins over what was said; otherwise what is newer wins.

use std::collections::{HashMap, HashSet};

use super::conflict::{Conflict, ConflictSide, FILES};
use super::eligibility::{self, Pool};
use super::files::{self, InjectedFile, PromptFile};
use super::stage::Tools;
use super::{Workbench, WorkbenchError};
use crate::base::user_id;
use crate::conversation::episodic::{self, DEFAULT_TOKENS, Episode, EpisodicInput};
use crate::llm::Session;
use crate::model::memory::Memory;
use crate::model::scope::ScopeInput;
use crate::model::source::Source;
use crate::retrieval::select::{drop_each, kept};
use crate::store::SourceState;

/// The step that compares older turns with files.
const STEP: &str = "files";
const OFF: &str = "source file is OFF";
const DUPLICATE: &str = "duplicate of ❖ FILES";
const CONFLICT: &str = "conflicts with ❖ FILES";
const SUPERSEDED: &str = "superseded by newer file";

/// Whose older turns are wanted, and for what.
pub struct TurnsOf<'a> {
    pub thread_id: &'a str,
    pub user_id: Option<&'a str>,
    pub input: EpisodicInput,
    pub max_tokens: Option<usize>,
}

/// Older turns, best first, and what contradicts them.
#[derive(Debug, Default)]
pub struct OlderTurns {
    pub episodes: Vec<Episode>,
    pub conflicts: Vec<Conflict>,
}

impl Workbench {
    /// Selects older turns as a run with these files would.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`], a thread or file that is not found, the embedding model's, or the
    /// store's.
    pub async fn select_older_turns(
        &self,
        session: &Session,
        turns: &TurnsOf<'_>,
        files: &[PromptFile],
        off: &[String],
    ) -> Result<OlderTurns, WorkbenchError> {
        let call = session.call();
        let scope = ScopeInput {
            user_id: turns.user_id.map(str::to_owned),
            ..ScopeInput::default()
        };
        let (scope, off) = eligibility::check(scope, off)?;
        let tools = self.tools(session, None);
        let injected = if files.is_empty() {
            Vec::new()
        } else {
            let workspace = self.workspaces.current(call).await?.workspace;
            let limits = files::Limits::of(&workspace);
            let owner = files::Owner {
                call,
                user_id: turns.user_id,
            };
            files::inject(tools.sources, owner, files, limits, tools.counter).await?
        };
        let pool = eligibility::pool(&tools, scope, off).await?;

        let episodes = score(&tools, turns).await?;
        let older = choose(&tools, turns, episodes, &pool, &injected).await?;
        let used = kept(&older.episodes).map(|one| one.found.id.to_string());
        let used: Vec<String> = used.collect();
        self.conversation.count_uses(call, &used).await;
        Ok(older)
    }
}

/// The older turns with their scores.
///
/// # Errors
/// The thread is not found, the embedding model's, or the store's.
pub async fn score(tools: &Tools<'_>, turns: &TurnsOf<'_>) -> Result<Vec<Episode>, WorkbenchError> {
    let (session, conversation) = (tools.session, tools.conversation);
    let (thread_id, user_id) = (turns.thread_id, turns.user_id);
    let scored =
        conversation.score_episodes(session, thread_id, user_id, &turns.input, tools.call().now);
    Ok(scored.await?)
}

/// Decides which older turns are kept.
///
/// # Errors
/// The store's.
pub async fn choose(
    tools: &Tools<'_>,
    turns: &TurnsOf<'_>,
    mut episodes: Vec<Episode>,
    pool: &Pool,
    files: &[InjectedFile],
) -> Result<OlderTurns, WorkbenchError> {
    let hinted = Hinted::read(tools, pool, &episodes, files).await?;
    let mut conflicts = Vec::new();
    drop_each(&mut episodes, STEP, |one| {
        hinted.is_off(&one.found).then_some(OFF)
    });
    drop_each(&mut episodes, STEP, |one| {
        if let Some((reason, conflict)) = against_files(&one.found, files) {
            conflicts.extend(conflict);
            return Some(reason);
        }

        conflicts.push(hinted.superseding(&one.found, files)?);
        Some(SUPERSEDED)
    });
    episodic::choose(&mut episodes, turns.max_tokens.unwrap_or(DEFAULT_TOKENS));
    Ok(OlderTurns {
        episodes,
        conflicts,
    })
}

/// Why an injected file drops what was said: it says the same, or something else.
fn against_files(
    memory: &Memory,
    files: &[InjectedFile],
) -> Option<(&'static str, Option<Conflict>)> {
    let same = |file: &InjectedFile| file.compared.contains(&memory.content);
    if files.iter().any(same) {
        return Some((DUPLICATE, None));
    }

    files.iter().find_map(|file| {
        let (text, reason) = if speaks_of_another_version(memory, file) {
            (
                file.text.as_str(),
                "the chat is about another version of the file",
            )
        } else {
            let claim = file.claims.contradicted_by(&memory.content)?;
            (claim, "an injected file wins in this run")
        };
        let side = ConflictSide::of_file(file, text);
        Some((CONFLICT, Some(conflict(memory, side, FILES, reason))))
    })
}

/// Whether the hints of a message name this file, but not this version of it.
fn speaks_of_another_version(memory: &Memory, file: &InjectedFile) -> bool {
    let hint = &memory.file;
    hint.path.as_deref() == Some(file.path.as_str())
        && match (&hint.sha256, hint.mtime) {
            (Some(sha256), _) => *sha256 != file.sha256,
            (None, Some(mtime)) => mtime < file.mtime,
            (None, None) => false,
        }
}

/// The sources that the hints of messages point to.
#[derive(Default)]
struct Hinted {
    /// Paths and hashes of sources that are off and not injected.
    off_paths: HashSet<String>,
    off_hashes: HashSet<String>,
    /// Sources that are on, by path.
    on: HashMap<String, (Source, SourceState)>,
}

impl Hinted {
    async fn read(
        tools: &Tools<'_>,
        pool: &Pool,
        episodes: &[Episode],
        files: &[InjectedFile],
    ) -> Result<Self, WorkbenchError> {
        let memories = episodes.iter().map(|episode| &episode.found);
        let memories: Vec<&Memory> = memories
            .filter(|memory| memory.file.path.is_some() || memory.file.sha256.is_some())
            .collect();
        if memories.is_empty() {
            return Ok(Self::default());
        }

        let mut sources = tools
            .store
            .list_sources_at(&tools.call().space, &places(&memories))
            .await?;
        sources.extend(pool.off.iter().cloned());
        let ids: Vec<_> = sources.iter().map(|source| source.id.clone()).collect();
        let states = tools
            .store
            .list_source_states(&tools.call().space, &ids)
            .await?;

        let mut hinted = Self::default();
        for source in sources {
            let is_injected = files.iter().any(|one| one.source_id == source.id.as_str());
            let state = states.get(&source.id).cloned();
            if is_injected {
                continue;
            }
            if !source.eligible || pool.is_off(&source.id) {
                hinted.off_hashes.extend(state.map(|state| state.sha256));
                hinted.off_paths.insert(source.path);
            } else if let Some(state) = state {
                hinted.on.insert(source.path.clone(), (source, state));
            }
        }
        Ok(hinted)
    }

    fn is_off(&self, memory: &Memory) -> bool {
        let (path, sha256) = (&memory.file.path, &memory.file.sha256);
        path.as_ref()
            .is_some_and(|one| self.off_paths.contains(one))
            || sha256
                .as_ref()
                .is_some_and(|one| self.off_hashes.contains(one))
    }

    /// A newer version of the file that a message speaks about, unless the file is injected: then it
    /// was compared already.
    fn superseding(&self, memory: &Memory, files: &[InjectedFile]) -> Option<Conflict> {
        let (path, sha256) = (memory.file.path.as_ref()?, memory.file.sha256.as_ref()?);
        let (source, state) = self.on.get(path)?;
        let is_injected = files.iter().any(|file| file.path == *path);
        if is_injected || state.sha256 == *sha256 || state.changed_at <= memory.created_at {
            return None;
        }

        let (id, changed_at) = (source.id.to_string(), Some(state.changed_at));
        let side = ConflictSide::new("file", id, &source.path, changed_at);
        let reason = "the file has changed since the chat";
        Some(conflict(memory, side, "file", reason))
    }
}

/// Where the hinted files are: among the sources of the user, or of the space.
fn places(memories: &[&Memory]) -> Vec<(String, String)> {
    let paths = memories.iter().filter_map(|memory| {
        let path = memory.file.path.clone()?;
        Some([
            (memory.user_id.clone(), path.clone()),
            (user_id::DEFAULT.to_owned(), path),
        ])
    });
    let mut places: Vec<(String, String)> = paths.flatten().collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn conflict(memory: &Memory, other: ConflictSide, winner: &str, reason: &str) -> Conflict {
    let (id, said_at) = (memory.id.to_string(), Some(memory.created_at));
    let said = ConflictSide::new("chat", id, &memory.content, said_at);
    Conflict {
        sides: vec![said, other],
        winner: winner.to_owned(),
        reason: reason.to_owned(),
    }
}
