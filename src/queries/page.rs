//! Pagination of chunks. The cursor carries the paths, so the next page needs no walk.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memoir_text::hash::sha256_hex;
use serde::{Deserialize, Serialize};

use super::QueryError;
use super::input::QuerySettings;
use super::traversal::Path;
use crate::base::clock::Timestamp;

/// A path by its ids, with the rank and the best rank on each level.
type Way = (Vec<i64>, Vec<(i64, i64)>);

/// The paths of a walk, and the last chunk returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cursor {
    paths: Vec<Way>,
    pub after: Place,
    /// A cursor belongs to its query.
    of: String,
}

/// The last chunk of a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// The index of its path.
    pub path: usize,
    pub created_at: i64,
    pub id: i64,
    /// How many chunks of this path were returned so far.
    pub taken: usize,
    /// How many chunks of all paths were returned so far.
    #[serde(default)]
    pub returned: usize,
}

impl Place {
    pub fn chunk(&self) -> (Timestamp, i64) {
        (Timestamp::from_micros(self.created_at), self.id)
    }
}

impl Cursor {
    pub fn new(ask: &QuerySettings, paths: &[Path], after: Place) -> Self {
        let paths = paths
            .iter()
            .map(|path| (path.ids.clone(), path.ranks.clone()))
            .collect();
        Self {
            paths,
            after,
            of: fingerprint(ask),
        }
    }

    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a cursor of the same query.
    ///
    /// # Errors
    /// [`QueryError::Cursor`].
    pub fn decode(text: &str, ask: &QuerySettings, depth: usize) -> Result<Self, QueryError> {
        let not_ours = || QueryError::Cursor("the cursor is invalid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| not_ours())?;
        let cursor: Self = serde_json::from_slice(&bytes).map_err(|_| not_ours())?;
        if cursor.of != fingerprint(ask) {
            return Err(QueryError::Cursor("the cursor belongs to another query"));
        }

        // A forged cursor may name any category of the space, but must be consistent.
        let whole = |(ids, ranks): &Way| ids.len() == depth && ranks.len() == depth;
        let fine = cursor.paths.iter().all(whole)
            && cursor.after.path < cursor.paths.len()
            && cursor.paths.len() <= 500;
        if fine { Ok(cursor) } else { Err(not_ours()) }
    }

    pub fn leaves(&self) -> Vec<i64> {
        self.paths
            .iter()
            .filter_map(|(ids, _)| ids.last().copied())
            .collect()
    }

    /// The paths, once their names are known.
    pub fn paths(&self, names: impl Fn(i64) -> Option<Vec<String>>) -> Vec<Path> {
        let path = |(ids, ranks): &Way| Path {
            names: ids.last().and_then(|leaf| names(*leaf)).unwrap_or_default(),
            ids: ids.clone(),
            ranks: ranks.clone(),
        };
        self.paths.iter().map(path).collect()
    }
}

/// Everything that decides which chunks a query finds, and in which order.
pub fn fingerprint(ask: &QuerySettings) -> String {
    let said = serde_json::json!([
        ask.query,
        ask.source_ids,
        ask.tags,
        ask.user_id,
        ask.as_of,
        ask.version_scope,
        ask.per_path_limit,
        ask.strategy,
        ask.n,
        ask.n2,
        ask.per_level_max,
    ]);
    sha256_hex(said.to_string().as_bytes())[..16].to_owned()
}
