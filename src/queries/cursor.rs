//! Pagination of chunks. The cursor carries the paths, so the next page needs no walk.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memoir_text::hash::sha256_hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::QueryError;
use super::auto::cursor::RankedCursor;
use super::input::QuerySettings;
use super::traversal::Path;
use crate::base::clock::Timestamp;
use crate::config::query::StrategyName;

/// A path by its ids, with the rank and the best rank on each level.
type Way = (Vec<i64>, Vec<(i64, i64)>);

/// The paths of a walk, and the last chunk returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeafCursor {
    paths: Vec<Way>,
    pub after: LeafPlace,
    /// A cursor belongs to its query.
    of: String,
}

/// The last chunk of a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeafPlace {
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

impl LeafPlace {
    pub fn chunk(&self) -> (Timestamp, i64) {
        (Timestamp::from_micros(self.created_at), self.id)
    }
}

impl LeafCursor {
    pub fn new(settings: &QuerySettings, paths: &[Path], after: LeafPlace) -> Self {
        let paths = paths
            .iter()
            .map(|path| (path.ids.clone(), path.ranks.clone()))
            .collect();
        Self {
            paths,
            after,
            of: fingerprint(settings),
        }
    }

    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads a cursor of the same query.
    ///
    /// # Errors
    /// [`QueryError::Cursor`].
    pub fn decode(text: &str, settings: &QuerySettings, depth: usize) -> Result<Self, QueryError> {
        let cursor: Self = decode(text)?;
        check_query(&cursor.of, settings)?;

        // A forged cursor may name any category of the space, but must be consistent.
        let whole = |(ids, ranks): &Way| ids.len() == depth && ranks.len() == depth;
        let fine = cursor.paths.iter().all(whole)
            && cursor.after.path < cursor.paths.len()
            && cursor.paths.len() <= 500;
        if fine { Ok(cursor) } else { Err(INVALID) }
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
            chunk_ids: Vec::new(),
        };
        self.paths.iter().map(path).collect()
    }
}

/// The page from which a query goes on.
#[derive(Debug)]
pub enum Page {
    Leaves(LeafCursor),
    Ranked(RankedCursor),
}

impl Page {
    /// The page of a query, if it has a cursor.
    ///
    /// # Errors
    /// [`QueryError::Cursor`].
    pub fn of(settings: &QuerySettings, depth: usize) -> Result<Option<Self>, QueryError> {
        let Some(text) = &settings.cursor else {
            return Ok(None);
        };

        Ok(Some(if settings.strategy == StrategyName::Auto {
            Self::Ranked(RankedCursor::decode(text, settings)?)
        } else {
            Self::Leaves(LeafCursor::decode(text, settings, depth)?)
        }))
    }

    /// How many chunks were returned before.
    pub fn returned(&self) -> i64 {
        match self {
            Self::Leaves(cursor) => i64::try_from(cursor.after.returned).unwrap_or(0),
            Self::Ranked(cursor) => cursor.returned,
        }
    }
}

pub const INVALID: QueryError = QueryError::Cursor("the cursor is invalid");

pub fn encode(cursor: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

/// Reads a cursor, which may be forged.
///
/// # Errors
/// [`QueryError::Cursor`].
pub fn decode<C: DeserializeOwned>(text: &str) -> Result<C, QueryError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| INVALID)?;
    serde_json::from_slice(&bytes).map_err(|_| INVALID)
}

/// A cursor belongs to its query.
///
/// # Errors
/// [`QueryError::Cursor`].
pub fn check_query(of: &str, settings: &QuerySettings) -> Result<(), QueryError> {
    if of == fingerprint(settings) {
        Ok(())
    } else {
        Err(QueryError::Cursor("the cursor belongs to another query"))
    }
}

/// Everything that decides which chunks a query finds, and in which order.
pub fn fingerprint(settings: &QuerySettings) -> String {
    let said = serde_json::json!([
        settings.query,
        settings.source_ids,
        settings.tags,
        settings.user_id,
        settings.searched,
        settings.as_of,
        settings.version_scope,
        settings.per_path_limit,
        settings.strategy,
        settings.n,
        settings.n2,
        settings.per_level_max,
    ]);
    sha256_hex(said.to_string().as_bytes())[..16].to_owned()
}
