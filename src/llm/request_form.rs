//! The form of a request: its instruction, schema and parameters in an output mode, without what the
//! model rejects.

use serde_json::{Value, json};

use super::profile::{Learnt, Parameter};
use super::provider::{Mode, Parameters};
use super::task::Task;
use super::{Llm, schema};

/// Any number, as long as it never changes.
const SEED: u64 = 7;

impl Llm {
    /// The instruction as it will be sent in the current output mode, which may include the schema.
    pub fn instruction<T: Task>(&self, wished: Option<&str>, task: &T) -> String {
        let model = wished.unwrap_or_else(|| self.model_of(T::STAGE));
        let Ok(target) = self.target(model) else {
            return T::SYSTEM.to_owned();
        };
        let learnt = target.profile.learnt(&target.model);

        match target.profile.mode(&learnt) {
            Mode::Prompted => system_in::<T>(Mode::Prompted, &self.schema_for(task, &learnt)),
            _ => T::SYSTEM.to_owned(),
        }
    }

    /// The schema of a task's answers, with the limits that the model supports.
    pub(super) fn schema_for<T: Task>(&self, task: &T, learnt: &Learnt) -> Value {
        if let Some(mut own) = task.own_schema().filter(|_| !learnt.plain_schema) {
            if learnt.bounded {
                bound(task, &mut own);
            }

            return own;
        }

        let mut schema = self.forms::<T>().schema.clone();
        if !learnt.plain_schema {
            task.narrow(&mut schema);
            if learnt.bounded {
                bound(task, &mut schema);
            }
        }

        schema
    }

    /// The parameters of a request, and their form in the record.
    pub(super) fn parameters(&self, deterministic: bool, learnt: &Learnt) -> (Parameters, Value) {
        let takes = |parameter| !learnt.refused.contains(&parameter);
        let settings = self.settings();
        let wanted = if deterministic {
            0.0
        } else {
            settings.temperature
        };

        let max = takes(Parameter::MaxTokens) || takes(Parameter::MaxCompletionTokens);
        let parameters = Parameters {
            temperature: takes(Parameter::Temperature).then_some(wanted),
            seed: (deterministic && takes(Parameter::Seed)).then_some(SEED),
            max_output_tokens: max.then_some(settings.max_output_tokens),
            new_name_for_max: !takes(Parameter::MaxTokens),
            stream_usage: takes(Parameter::StreamOptions),
        };

        let shown = |sent: Option<Value>| sent.unwrap_or_else(|| "unsupported".into());
        let mut params = json!({
            "temperature": shown(parameters.temperature.map(Value::from)),
            "max_output_tokens": shown(parameters.max_output_tokens.map(Value::from)),
        });

        if deterministic {
            params["seed"] = shown(parameters.seed.map(Value::from));
        }

        (parameters, params)
    }
}

/// The mode for a task: one with its own tool does not use a better one.
pub(super) fn suited<T: Task>(mode: Mode) -> Mode {
    match mode {
        Mode::Embedded => mode,
        _ if T::FREE_TEXT => Mode::Text,
        Mode::Native if T::TOOL.is_some() => Mode::Tool,
        mode => mode,
    }
}

pub(super) fn system_in<T: Task>(mode: Mode, schema: &Value) -> String {
    match mode {
        Mode::Prompted => prompted(T::SYSTEM, schema),
        _ => T::SYSTEM.to_owned(),
    }
}

/// The instruction for a model that supports neither schemas nor tools.
fn prompted(system: &str, schema: &Value) -> String {
    let form = schema::form(schema);
    format!(
        "{system}\n\nAnswer with one JSON object of the form {form}, which keeps to this JSON schema: {schema}\n\
         Write the JSON only: no explanation, no Markdown, no code fence, and not the schema itself."
    )
}

/// How the note about a wrong answer begins.
pub(super) const NOT_USED: &str = "The previous answer could not be used";

pub(super) fn repair_note(faults: &[String]) -> String {
    let listed: String = faults
        .iter()
        .fold(String::new(), |text, fault| format!("{text}- {fault}\n"));
    format!("\n\n{NOT_USED}:\n{listed}Answer again, complete and correct.")
}

/// Limits lists and texts, for models that write endlessly.
fn bound<T: Task>(task: &T, schema: &mut Value) {
    task.bound(schema);
    schema::limit_rest(schema);
}
