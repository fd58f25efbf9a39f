//! Pagination of `auto`: the cursor carries the chunks that did not fit, best first, so the next
//! page neither searches nor calls a model to choose.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::queries::QueryError;
use crate::queries::input::QuerySettings;
use crate::queries::page::fingerprint;

/// Maximum chunks that a cursor carries.
pub const MAX_CARRIED: usize = 200;

/// The rest of a ranking.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankedCursor {
    /// Each with its relevance in thousandths.
    pub rest: Vec<(i64, u32)>,
    /// Chunks returned so far.
    pub returned: i64,
    pub tier: String,
    pub evidence: f64,
    /// A cursor belongs to its query.
    of: String,
}

impl RankedCursor {
    pub fn new(
        ask: &QuerySettings,
        rest: Vec<(i64, u32)>,
        returned: i64,
        (tier, evidence): (&str, f64),
    ) -> Self {
        Self {
            rest,
            returned,
            tier: tier.to_owned(),
            evidence,
            of: fingerprint(ask),
        }
    }

    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads a cursor of the same query. It may be forged: the chunks it names are read within the
    /// scope of the query.
    ///
    /// # Errors
    /// [`QueryError::Cursor`].
    pub fn decode(text: &str, ask: &QuerySettings) -> Result<Self, QueryError> {
        let not_ours = || QueryError::Cursor("the cursor is invalid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| not_ours())?;
        let cursor: Self = serde_json::from_slice(&bytes).map_err(|_| not_ours())?;
        if cursor.of != fingerprint(ask) {
            return Err(QueryError::Cursor("the cursor belongs to another query"));
        }

        let known = ["search", "pick", "walk"].contains(&cursor.tier.as_str());
        let fine = known
            && cursor.evidence.is_finite()
            && (0..=1_000_000).contains(&cursor.returned)
            && (1..=MAX_CARRIED).contains(&cursor.rest.len())
            && cursor.rest.iter().all(|(_, share)| *share <= 1000);
        if fine { Ok(cursor) } else { Err(not_ours()) }
    }
}
