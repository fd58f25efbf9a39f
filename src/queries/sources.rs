//! The contextual helpers of the sources that a query reads.

use std::sync::Arc;

use memoir_text::text::one_line;

use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::query::SourceHelper;
use crate::model::scope::QueryScope;
use crate::store::{Store, StoreError};

/// Maximum sources whose helpers are shown to the model that selects categories.
const MAX_DESCRIBED: usize = 3;

/// The helpers shown to the selecting model, if the query names a few sources.
pub async fn described(
    store: &Store,
    space: &Space,
    scope: &QueryScope,
) -> Result<Option<Arc<str>>, StoreError> {
    if scope.source_ids.is_empty() || scope.source_ids.len() > MAX_DESCRIBED {
        return Ok(None);
    }

    let mut ids = scope.source_ids.clone();
    if let Some(user) = &scope.user_id {
        let sources = store.list_sources_by_id(space, &ids).await?;
        let is_own = |id: &SourceId| {
            let mut sources = sources.iter();
            sources.any(|one| one.id == *id && one.user_id == *user)
        };
        ids.retain(is_own);
    }

    let helpers = helpers(store, space, &ids, scope.as_of).await?;
    let of = |id: &SourceId| helpers.iter().find(|helper| helper.source_id == *id);
    let texts: Vec<String> = ids
        .iter()
        .filter_map(of)
        .map(|helper| one_line(&helper.text))
        .collect();

    Ok((!texts.is_empty()).then(|| texts.join(" ").into()))
}

/// The helpers of sources, current or as of a time.
pub async fn helpers(
    store: &Store,
    space: &Space,
    ids: &[SourceId],
    as_of: Option<Timestamp>,
) -> Result<Vec<SourceHelper>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }

    store.list_source_helpers(space, ids, as_of).await
}
