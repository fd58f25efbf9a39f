//! Rows of `usage_days`: the sums of model calls by day.

use std::collections::BTreeMap;

use super::dialect::BindAll as _;
use super::journal::CallPart;
use super::llm_calls::Row;
use super::rows::{broken, get, row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::ids::Space;
use crate::model::llm_call::{Spent, UsageDay};

/// Which days and calls to include.
#[derive(Debug, Clone, Default)]
pub struct UsageFilter {
    /// First day, `YYYY-MM-DD`.
    pub from: String,
    /// Last day.
    pub to: String,
    pub stage: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
}

/// The key of a row: day, stage, provider, model.
pub type UsagePlace = [String; 4];

impl Store {
    /// What a space has spent on a day.
    pub async fn find_spent_on(&self, space: &Space, day: &str) -> Result<Spent, StoreError> {
        let dialect = self.dialect();
        let sql = format!(
            "SELECT {} AS calls, {} AS tokens_prompt, {} AS tokens_completion, COALESCE(SUM(cost_usd), 0.0) AS cost_usd \
             FROM usage_days WHERE space = ? AND day = ?",
            dialect.whole_sum("calls"),
            dialect.whole_sum("tokens_prompt"),
            dialect.whole_sum("tokens_completion"),
        );

        let found = self.read_first("find_spent_on", || {
            self.composed(&sql).bind(space.as_str()).bind(day)
        });
        Ok(found.await?.unwrap_or_default())
    }

    /// The ledger by day, newest first, then by stage, provider and model; one more than `limit`
    /// shows that there is another page.
    pub async fn list_usage_days(
        &self,
        space: &Space,
        filter: &UsageFilter,
        after: Option<&UsagePlace>,
        limit: usize,
    ) -> Result<Vec<UsageDay>, StoreError> {
        let (mut sql, mut values) = filter.apply(
            "SELECT day, stage, provider, model, calls, tokens_prompt, tokens_completion, tokens_cached, cost_usd",
            space,
        );

        if let Some([day, stage, provider, model]) = after {
            sql.push_str(
                " AND day <= ? AND (day < ? OR stage > ? OR (stage = ? AND (provider > ? OR (provider = ? AND model > ?))))",
            );
            values.extend([day, day, stage, stage, provider, provider, model].map(Clone::clone));
        }

        sql.push_str(" ORDER BY day DESC, stage, provider, model LIMIT ?");
        self.read_all("list_usage_days", || {
            let query = self.composed(&sql);
            let query = query.bind_all(values.iter().cloned());
            query.bind(row_limit(limit))
        })
        .await
    }

    /// The sum over everything that the filter matches; its text fields are empty.
    pub async fn find_usage_total(
        &self,
        space: &Space,
        filter: &UsageFilter,
    ) -> Result<UsageDay, StoreError> {
        let sum = |column| format!("{} AS {column}", self.dialect().whole_sum(column));
        let columns = [
            "calls",
            "tokens_prompt",
            "tokens_completion",
            "tokens_cached",
        ]
        .map(sum)
        .join(", ");

        let select = format!(
            "SELECT '' AS day, '' AS stage, '' AS provider, '' AS model, {columns}, \
             COALESCE(SUM(cost_usd), 0.0) AS cost_usd"
        );
        let (sql, values) = filter.apply(&select, space);
        let total = self.read_first("find_usage_total", || {
            self.composed(&sql).bind_all(values.iter().cloned())
        });
        total.await?.ok_or_else(|| broken("a sum without a row"))
    }
}

impl UsageFilter {
    /// The statement with its conditions, and their values.
    fn apply(&self, select: &str, space: &Space) -> (String, Vec<String>) {
        let mut sql = format!("{select} FROM usage_days WHERE space = ? AND day >= ? AND day <= ?");
        let mut values = vec![space.to_string(), self.from.clone(), self.to.clone()];
        for (column, value) in [
            ("stage", &self.stage),
            ("provider", &self.provider),
            ("model", &self.model),
        ] {
            if let Some(value) = value {
                sql = format!("{sql} AND {column} = ?");
                values.push(value.clone());
            }
        }

        (sql, values)
    }
}

impl Tx {
    /// Adds calls to their days.
    pub(super) async fn add_usages(&mut self, rows: &[Row<'_>]) -> Result<(), StoreError> {
        let counted = rows.iter().filter(|row| row.3 != CallPart::Row);
        let rows: Vec<Row<'_>> = counted.copied().collect();
        for ((space, day, stage, provider, model), sum) in sums(&rows) {
            self.add_usage(
                space,
                &UsageDay {
                    day,
                    stage,
                    provider,
                    model,
                    ..sum
                },
            )
            .await?;
        }

        for ((key_id, day), spent) in key_sums(&rows) {
            self.add_key_day(key_id, &day, spent).await?;
        }

        Ok(())
    }

    async fn add_usage(&mut self, space: &Space, sum: &UsageDay) -> Result<(), StoreError> {
        let insert = "INSERT INTO usage_days (space, day, stage, provider, model, calls, tokens_prompt, tokens_completion, \
                      tokens_cached, cost_usd) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let columns = [
            "calls",
            "tokens_prompt",
            "tokens_completion",
            "tokens_cached",
            "cost_usd",
        ];

        let insert =
            self.dialect()
                .insert_or_add(insert, "space, day, stage, provider, model", &columns);

        let insert = insert
            .bind(space.as_str().to_owned())
            .bind(sum.day.clone())
            .bind(sum.stage.clone())
            .bind(sum.provider.clone())
            .bind(sum.model.clone())
            .bind(sum.calls)
            .bind(sum.tokens_prompt);

        self.execute(
            insert
                .bind(sum.tokens_completion)
                .bind(sum.tokens_cached)
                .bind(sum.cost_usd),
        )
        .await
        .map(|_| ())
    }
}

type UsageKey<'a> = (&'a Space, String, String, String, String);

/// In key order, so that two writers lock their rows in the same order.
fn sums<'a>(rows: &[Row<'a>]) -> BTreeMap<UsageKey<'a>, UsageDay> {
    let mut sums: BTreeMap<UsageKey<'a>, UsageDay> = BTreeMap::new();
    for (space, _, call, _) in rows {
        let key = (
            *space,
            call.timestamp.day(),
            call.stage.clone(),
            call.provider.clone(),
            call.model.clone(),
        );

        let sum = sums.entry(key).or_insert_with(|| UsageDay {
            day: String::new(),
            stage: String::new(),
            provider: String::new(),
            model: String::new(),
            calls: 0,
            tokens_prompt: 0,
            tokens_completion: 0,
            tokens_cached: 0,
            cost_usd: 0.0,
        });

        sum.calls += 1;
        sum.tokens_prompt = sum.tokens_prompt.saturating_add(call.tokens_prompt);
        sum.tokens_completion = sum.tokens_completion.saturating_add(call.tokens_completion);
        sum.tokens_cached = sum.tokens_cached.saturating_add(call.tokens_cached);

        sum.cost_usd += call.cost_usd.unwrap_or(0.0);
    }

    sums
}

/// What each key pays, in row order.
fn key_sums<'a>(rows: &[Row<'a>]) -> BTreeMap<(&'a str, String), Spent> {
    let mut sums: BTreeMap<(&'a str, String), Spent> = BTreeMap::new();
    for (_, _, call, _) in rows {
        if let Some(key_id) = &call.key_id {
            let sum = sums
                .entry((key_id.as_str(), call.timestamp.day()))
                .or_default();
            *sum = sum.plus(call.spent());
        }
    }

    sums
}

row! {
    Spent as "" { calls, usd = "cost_usd" }
    from row {
        tokens: get::<i64>(row, "tokens_prompt")?.saturating_add(get(row, "tokens_completion")?),
    }
}

row! {
    UsageDay as "" {
        day, stage, provider, model, calls, tokens_prompt, tokens_completion, tokens_cached, cost_usd,
    }
}
