//! `memoir eval`: asks questions with known answers, and shows how many are answered correctly and
//! what that costs, by strategy and model.

mod cases;

use std::fmt::Write as _;
use std::path::PathBuf;

use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::{Client, Connection, Refused, pretty};
use super::{CommandError, print, runtime};
use crate::config::Origin;
use cases::Case;

pub const EXAMPLES: &str = "\
Examples:
  memoir eval questions.jsonl                            the default strategy and model, compared with a search
  memoir eval --strategy auto --strategy one_shot F      compare strategies
  memoir eval --model openai:gpt-4o-mini --model local F compare models; every question is paid for
  memoir eval --retrieve -k 10 F                         evidence only, without answers
  memoir eval --json F | jq '.runs[].items[]'            every question with its result

Every line of FILE is a question as JSON:
  {\"question\": \"When do we ship?\", \"source\": \"plan.md\", \"quote\": \"ship on 2 May\", \"answer\": \"2 May\"}
  source   the file that contains the evidence: the end of its path; sources: several files
  quote    words of the chunk that is the evidence
  answer   a text that the answer must contain, or a list of alternatives
  found    false: nothing stored answers this question

The result has one line per strategy and model, with these columns:
  evidence@k   the share of the evidence in the first k chunks
  evidence     the share of the evidence in all chunks
  answer       the share of right answers
  found        the share of questions for which something, or nothing, was found as expected";

/// Number of questions that are asked at the same time.
const AT_ONCE: usize = 4;

#[derive(clap::Args)]
pub struct Arguments {
    /// The questions, as JSON Lines
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How to find chunks, as in memoir ask; can be repeated
    #[arg(long = "strategy", value_name = "NAME")]
    strategies: Vec<String>,
    /// The model for every stage, as provider:model; can be repeated
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// The k of evidence@k: how many chunks it counts
    #[arg(short, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=200))]
    k: u64,
    /// Maximum tokens of the final prompt; by default, `query.max_token_budget`
    #[arg(long, value_name = "TOKENS")]
    budget: Option<i64>,
    /// Only sources of this end user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Measure the evidence only, without answers
    #[arg(long)]
    retrieve: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// All questions with one strategy and one model.
#[derive(Serialize)]
struct Run {
    strategy: String,
    /// The model that answered, or the one requested.
    model: String,
    questions: usize,
    evidence_at_k: Option<f64>,
    evidence: Option<f64>,
    answered: Option<f64>,
    found: Option<f64>,
    failed: usize,
    calls: i64,
    tokens_sent: i64,
    tokens_received: i64,
    cost_usd: f64,
    p50_ms: f64,
    items: Vec<Item>,
}

/// One question.
#[derive(Serialize)]
struct Item {
    question: String,
    evidence_at_k: Option<f64>,
    evidence: Option<f64>,
    answered: Option<bool>,
    /// Whether `found` is as expected.
    found_as_expected: Option<bool>,
    found: Option<bool>,
    confidence: Option<String>,
    answer: Option<String>,
    calls: i64,
    tokens_sent: i64,
    tokens_received: i64,
    cost_usd: f64,
    elapsed_ms: f64,
    /// Why it has no result.
    error: Option<String>,
    #[serde(skip)]
    model: Option<String>,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let cases = cases::read(&arguments.file)?;
    let runs = runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let measured = arguments.measure(&client, &cases).await;
        client.close().await;
        measured.map_err(CommandError::from)
    })?;

    let failed = runs.iter().any(|run| run.failed == run.questions);
    print(&if arguments.json {
        pretty(&json!({"k": arguments.k, "runs": runs}))
    } else {
        table(arguments.k, &runs)
    });

    if failed {
        let reason = runs
            .iter()
            .flat_map(|run| &run.items)
            .find_map(|item| item.error.clone());
        return Err(anyhow::anyhow!(reason.unwrap_or_default()).into());
    }

    Ok(())
}

impl Arguments {
    async fn measure(&self, client: &Client, cases: &[Case]) -> anyhow::Result<Vec<Run>> {
        let mut runs = vec![self.run(client, cases, Way::Search).await?];
        let strategies = or_default(&self.strategies);
        let models = or_default(&self.models);
        for strategy in &strategies {
            for model in &models {
                let way = Way::Query(*strategy, *model);
                runs.push(self.run(client, cases, way).await?);
            }
        }

        Ok(runs)
    }

    async fn run(&self, client: &Client, cases: &[Case], way: Way<'_>) -> anyhow::Result<Run> {
        let asking = futures_util::stream::iter(cases)
            .map(|case| self.ask(client, case, way))
            .buffered(AT_ONCE);
        let items: Vec<anyhow::Result<Item>> = asking.collect().await;
        let items: Vec<Item> = items.into_iter().collect::<anyhow::Result<_>>()?;
        Ok(Run::of(way, items))
    }

    async fn ask(&self, client: &Client, case: &Case, way: Way<'_>) -> anyhow::Result<Item> {
        let (path, body) = match way {
            Way::Search => ("/v1/search", self.search(case)),
            Way::Query(strategy, model) => ("/v1/queries", self.query(case, strategy, model)),
        };

        match client.post(path, &body).await {
            Ok(result) => Ok(self.judge(case, way, &result)),
            Err(error) => match error.downcast_ref::<Refused>() {
                Some(refused) => Ok(Item::failed(case, refused)),
                None => Err(error),
            },
        }
    }

    fn search(&self, case: &Case) -> Value {
        let mut body = json!({"query": case.question, "k": self.k.max(20)});
        if let Some(user) = &self.user {
            body["filters"] = json!({"user_id": user});
        }
        body
    }

    fn query(&self, case: &Case, strategy: Option<&str>, model: Option<&str>) -> Value {
        // A recalled result would have cost nothing.
        let mut body = json!({"query": case.question, "reuse": false});
        let given = [
            ("strategy", strategy.map(Value::from)),
            ("model", model.map(Value::from)),
            ("max_token_budget", self.budget.map(Value::from)),
            ("user_id", self.user.clone().map(Value::from)),
            ("mode", self.retrieve.then(|| "retrieve".into())),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        body
    }

    fn judge(&self, case: &Case, way: Way<'_>, result: &Value) -> Item {
        let list = |name: &str| result[name].as_array().cloned().unwrap_or_default();
        let is_query = matches!(way, Way::Query(..));
        let chunks = list(if is_query { "chunks" } else { "items" });
        let first = usize::try_from(self.k)
            .unwrap_or(usize::MAX)
            .min(chunks.len());
        let calls = list("responses");
        let sum = |name: &str| calls.iter().filter_map(|call| call[name].as_i64()).sum();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let answers = is_query && !self.retrieve;
        let found = result["found"].as_bool().filter(|_| is_query);
        let answering = calls.last().unwrap_or(&Value::Null);

        Item {
            question: case.question.clone(),
            evidence_at_k: case.recall(&chunks[..first]).filter(|_| case.found),
            evidence: case.recall(&chunks).filter(|_| case.found),
            answered: case
                .is_answered(result["answer"].as_str())
                .filter(|_| answers && case.found),
            found_as_expected: found.map(|found| found == case.found),
            found,
            confidence: text(&result["confidence"]),
            answer: text(&result["answer"]),
            calls: i64::try_from(calls.len()).unwrap_or(i64::MAX),
            tokens_sent: sum("tokens_prompt"),
            tokens_received: sum("tokens_completion"),
            cost_usd: calls
                .iter()
                .filter_map(|call| call["cost_usd"].as_f64())
                .sum::<f64>()
                + 0.0,
            elapsed_ms: result["elapsed_ms"]
                .as_f64()
                .or_else(|| result["timings"]["total_ms"].as_f64())
                .unwrap_or_default(),
            error: None,
            model: text(&answering["provider"])
                .zip(text(&answering["model"]))
                .map(|(provider, model)| format!("{provider}:{model}")),
        }
    }
}

/// How a question is asked.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// A search, for comparison.
    Search,
    /// A query with a strategy and a model, or the defaults.
    Query(Option<&'a str>, Option<&'a str>),
}

fn or_default(given: &[String]) -> Vec<Option<&str>> {
    if given.is_empty() {
        return vec![None];
    }

    given.iter().map(|one| Some(one.as_str())).collect()
}

impl Item {
    fn failed(case: &Case, refused: &Refused) -> Self {
        Self {
            question: case.question.clone(),
            evidence_at_k: None,
            evidence: None,
            answered: None,
            found_as_expected: None,
            found: None,
            confidence: None,
            answer: None,
            calls: 0,
            tokens_sent: 0,
            tokens_received: 0,
            cost_usd: 0.0,
            elapsed_ms: 0.0,
            error: Some(refused.to_string()),
            model: None,
        }
    }
}

impl Run {
    fn of(way: Way<'_>, items: Vec<Item>) -> Self {
        let (strategy, model) = match way {
            Way::Search => ("search", Some("-")),
            Way::Query(strategy, model) => (strategy.unwrap_or("default"), model),
        };
        let answered_by = items.iter().find_map(|item| item.model.clone());
        let share = |yes: Option<bool>| yes.map(|yes| f64::from(u8::from(yes)));
        let mut times: Vec<f64> = items
            .iter()
            .filter(|item| item.error.is_none())
            .map(|item| item.elapsed_ms)
            .collect();
        times.sort_by(f64::total_cmp);

        Self {
            strategy: strategy.to_owned(),
            model: model
                .map(str::to_owned)
                .or(answered_by)
                .unwrap_or_else(|| "default".to_owned()),
            questions: items.len(),
            evidence_at_k: mean(items.iter().map(|item| item.evidence_at_k)),
            evidence: mean(items.iter().map(|item| item.evidence)),
            answered: mean(items.iter().map(|item| share(item.answered))),
            found: mean(items.iter().map(|item| share(item.found_as_expected))),
            failed: items.iter().filter(|item| item.error.is_some()).count(),
            calls: items.iter().map(|item| item.calls).sum(),
            tokens_sent: items.iter().map(|item| item.tokens_sent).sum(),
            tokens_received: items.iter().map(|item| item.tokens_received).sum(),
            // The sum of nothing is -0.0.
            cost_usd: items.iter().map(|item| item.cost_usd).sum::<f64>() + 0.0,
            p50_ms: times.get(times.len() / 2).copied().unwrap_or_default(),
            items,
        }
    }
}

/// The mean of those that are known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values.flatten() {
        sum += value;
        count += 1.0;
    }

    (count > 0.0).then(|| sum / count)
}

fn table(k: u64, runs: &[Run]) -> String {
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.3}"));
    let names = [
        "strategy",
        "model",
        "questions",
        "evidence@",
        "evidence",
        "answer",
        "found",
        "failed",
        "calls",
        "sent",
        "received",
        "usd",
        "p50",
    ];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    rows[0][3].push_str(&k.to_string());
    rows.extend(runs.iter().map(|run| {
        vec![
            run.strategy.clone(),
            run.model.clone(),
            run.questions.to_string(),
            share(run.evidence_at_k),
            share(run.evidence),
            share(run.answered),
            share(run.found),
            run.failed.to_string(),
            run.calls.to_string(),
            run.tokens_sent.to_string(),
            run.tokens_received.to_string(),
            format!("{:.4}", run.cost_usd),
            format!("{:.0} ms", run.p50_ms),
        ]
    }));

    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }

    text
}
