//! Pagination of `auto`: the cursor carries the chunks that did not fit, best first, so the next
//! page neither searches nor calls a model to choose.

use serde::{Deserialize, Serialize};

use crate::queries::QueryError;
use crate::queries::cursor::{INVALID, check_query, decode, encode, fingerprint};
use crate::queries::input::QuerySettings;

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
        settings: &QuerySettings,
        rest: Vec<(i64, u32)>,
        returned: i64,
        (tier, evidence): (&str, f64),
    ) -> Self {
        Self {
            rest,
            returned,
            tier: tier.to_owned(),
            evidence,
            of: fingerprint(settings),
        }
    }

    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads a cursor of the same query. It may be forged: the chunks it names are read within the
    /// scope of the query.
    ///
    /// # Errors
    /// [`QueryError::Cursor`].
    pub fn decode(text: &str, settings: &QuerySettings) -> Result<Self, QueryError> {
        let cursor: Self = decode(text)?;
        check_query(&cursor.of, settings)?;

        let known = ["search", "pick", "walk"].contains(&cursor.tier.as_str());
        let fine = known
            && cursor.evidence.is_finite()
            && (0..=1_000_000).contains(&cursor.returned)
            && (1..=MAX_CARRIED).contains(&cursor.rest.len())
            && cursor.rest.iter().all(|(_, share)| *share <= 1000);
        if fine { Ok(cursor) } else { Err(INVALID) }
    }
}
