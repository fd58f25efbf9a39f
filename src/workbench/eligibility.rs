//! The eligibility pool: the sources that may be searched in this run.

use std::collections::{HashMap, HashSet};

use memoir_text::field_error::FieldError;

use super::WorkbenchError;
use super::stage::Tools;
use crate::base::ids::SourceId;
use crate::model::scope::{QueryScope, ScopeInput};
use crate::model::source::Source;

/// Maximum number of sources that a request turns off.
pub const MAX_OFF: usize = 10_000;

/// The sources of this run.
#[derive(Debug, Default)]
pub struct Pool {
    pub scope: QueryScope,
    /// The sources that the request turns off.
    pub off: Vec<Source>,
    off_ids: HashSet<SourceId>,
    /// The version of each source that is left; `None` if nothing was turned off.
    pub groups: Option<HashMap<String, i64>>,
}

impl Pool {
    /// Whether nothing can be found.
    pub fn is_empty(&self) -> bool {
        self.groups.as_ref().is_some_and(HashMap::is_empty)
    }

    /// Whether the request turns this source off.
    pub fn is_off(&self, id: &SourceId) -> bool {
        self.off_ids.contains(id)
    }
}

/// Checks the scope of a request, without reading anything.
///
/// # Errors
/// [`WorkbenchError::Invalid`].
pub fn check(
    scope: ScopeInput,
    off: &[String],
) -> Result<(QueryScope, Vec<SourceId>), WorkbenchError> {
    let mut errors = Vec::new();
    let scope = scope.resolve("", &mut errors);
    if off.len() > MAX_OFF {
        let rule = format!("must have at most {MAX_OFF} entries");
        errors.push(FieldError::new("off_source_ids", rule));
    }

    let mut ids = Vec::new();
    for (place, id) in off.iter().enumerate() {
        match id.parse() {
            Ok(id) => ids.push(id),
            Err(_) => errors.push(FieldError::new(
                format!("off_source_ids[{place}]"),
                "must be the id of a source",
            )),
        }
    }

    if errors.is_empty() {
        Ok((scope, ids))
    } else {
        Err(WorkbenchError::Invalid(errors))
    }
}

/// The pool of a run: what the scope names, without what is turned off.
///
/// # Errors
/// The store's.
pub async fn pool(
    tools: &Tools<'_>,
    scope: QueryScope,
    off: Vec<SourceId>,
) -> Result<Pool, WorkbenchError> {
    if off.is_empty() {
        return Ok(Pool {
            scope,
            ..Pool::default()
        });
    }

    let (mut sources, eligible) = tokio::try_join!(
        tools.store.list_sources_by_id(&tools.call().space, &off),
        tools.store.list_sources_in(&tools.call().space, &scope)
    )?;
    // A source of another user is treated as not found.
    let is_own = |source: &Source| {
        scope
            .user_id
            .as_ref()
            .is_none_or(|user| source.user_id == *user)
    };
    sources.retain(is_own);
    let turned_off: HashSet<&str> = off.iter().map(SourceId::as_str).collect();
    let left = eligible
        .into_iter()
        .filter(|group| !turned_off.contains(group.id.as_str()))
        .filter_map(|group| Some((group.id, group.version_id?)));
    let groups = Some(left.collect());

    Ok(Pool {
        scope,
        groups,
        off: sources,
        off_ids: off.into_iter().collect(),
    })
}
