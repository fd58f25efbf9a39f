//! The ledger: model calls and their cost by day, stage and model.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::{Timestamp, is_day};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::QueryParams;
use crate::http::page::{Page, list_query};
use crate::llm::Llm;
use crate::model::llm_call::UsageDay;
use crate::store::{UsageFilter, UsagePlace};

/// Number of days to list if `from` is omitted.
const DEFAULT_DAYS: i64 = 30;
const DAY_SECONDS: i64 = 86_400;

list_query! {
    /// Filters and pagination of the ledger.
    ListUsageQuery {
        /// First day, in UTC; 30 days before the last day if omitted.
        #[param(format = Date)]
        from: Option<String>,
        /// Last day, in UTC; today if omitted.
        #[param(format = Date)]
        to: Option<String>,
        /// Only this stage.
        stage: Option<String>,
        /// Only this provider.
        provider: Option<String>,
        /// Only this model; give the name without its provider.
        model: Option<String>,
    }
}

/// A page of the recorded usage, newest day first.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageListResponse {
    pub items: Vec<UsageDay>,
    /// Totals of all matching entries, across all pages.
    pub totals: UsageTotalsResponse,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Totals.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageTotalsResponse {
    /// Number of attempted calls, including failed ones.
    pub calls: i64,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// The part of `tokens_prompt` that providers served from their caches.
    pub tokens_cached: i64,
    /// Cost in US dollars, based on the configured prices; calls without a known price count as 0.
    pub cost_usd: f64,
}

/// List usage
///
/// Returns the calls, tokens and cost of this space by day, stage and model, newest day first, and
/// their totals.
#[utoipa::path(
    get, path = "/v1/usage", tag = "models", operation_id = "list_usage", params(ListUsageQuery),
    responses((status = 200, description = "A page of the recorded usage.", body = UsageListResponse))
)]
pub async fn list_usage(
    caller: Caller,
    State(llm): State<Llm>,
    QueryParams(parameters): QueryParams<ListUsageQuery>,
) -> Result<Json<UsageListResponse>, ApiError> {
    let to = day("to", parameters.to)?.unwrap_or_else(|| caller.call.now.day());
    let start = Timestamp::parse_rfc3339(&format!("{to}T00:00:00Z")).unwrap_or(caller.call.now);
    let from = day("from", parameters.from)?
        .unwrap_or_else(|| start.minus_seconds(DEFAULT_DAYS * DAY_SECONDS).day());
    if from > to {
        return Err(ApiError::invalid_field(
            "from",
            "must not be later than `to`",
        ));
    }

    let fingerprint = format!(
        "{}|{from}|{to}|{:?}|{:?}|{:?}",
        caller.call.space, parameters.stage, parameters.provider, parameters.model
    );

    let page = Page::new(parameters.limit, parameters.cursor, fingerprint)?;
    let after: Option<UsagePlace> = page.after_texts()?;
    let filter = UsageFilter {
        from,
        to,
        stage: parameters.stage,
        provider: parameters.provider,
        model: parameters.model,
    };

    let (found, total) = llm
        .usage(&caller.call, &filter, after.as_ref(), page.rows())
        .await?;
    let place = |row: &UsageDay| {
        [
            row.day.clone(),
            row.stage.clone(),
            row.provider.clone(),
            row.model.clone(),
        ]
    };

    let (items, next_cursor) = page.cut(found, place);
    let totals = UsageTotalsResponse {
        calls: total.calls,
        tokens_prompt: total.tokens_prompt,
        tokens_completion: total.tokens_completion,
        tokens_cached: total.tokens_cached,
        cost_usd: total.cost_usd,
    };

    Ok(Json(UsageListResponse {
        items,
        totals,
        next_cursor,
    }))
}

/// Parses and checks a day.
fn day(field: &str, given: Option<String>) -> Result<Option<String>, ApiError> {
    let Some(given) = given else { return Ok(None) };
    if is_day(&given) {
        Ok(Some(given))
    } else {
        Err(ApiError::invalid_field(
            field,
            "must be a date such as 2026-11-15",
        ))
    }
}
