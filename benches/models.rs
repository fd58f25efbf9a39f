//! Every task on a real model, in every output mode, for manual review: shows what fails with small
//! models.
//!
//! `scripts/eval --model http://127.0.0.1:8081/v1 [NAME]` runs it on a server with OpenAI's
//! protocol.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it prints what it sees, and stops where it fails"
)]

mod environment;
mod settings;

use std::sync::Arc;

use memoir::base::clock::{Clock as _, SystemClock};
use memoir::base::ids::Space;
use memoir::llm::tasks::answer::{Answer, Evidence};
use memoir::llm::tasks::classify::Classify;
use memoir::llm::tasks::helper::Helper;
use memoir::llm::tasks::select::Select;
use memoir::llm::tasks::summarize::{Summarize, SummarizeChunk};
use memoir::llm::{Hint, Llm, Session, Task};
use memoir::model::call::CallContext;
use memoir::store::Store;

use environment::variable;
use settings::settings;

const TEXTS: [&str; 5] = [
    "The striker scored twice in the second half and the home side won the cup final three to one.",
    "Whisk the eggs with the sugar, fold in the flour and bake the cake for forty minutes at 180 degrees.",
    "The central bank raised its key interest rate by a quarter point to slow inflation.",
    "The probe entered orbit around Mars in February and sent back its first photographs of the surface.",
    "Goalkeepers must not touch a deliberate back-pass with their hands, or the referee awards a free kick.",
];

async fn attempt<T: Task>(llm: &Llm, model: &str, mode: &str, task: T)
where
    T::Output: std::fmt::Debug,
{
    let session = Session::of_caller(CallContext::new(Space::default(), SystemClock.now()))
        .with_model(Some(model.to_owned()));
    let answer = llm.ask(&session, task).await;
    let calls = session.calls();
    let outcomes: Vec<String> = calls
        .iter()
        .map(|call| format!("{}/{} {:.0} ms", call.mode, call.outcome, call.latency_ms))
        .collect();

    let shown = match answer {
        Ok(answered) => serde_json::to_string(&answered.value).unwrap(),
        Err(error) => format!("ERROR {error}"),
    };

    println!(
        "{mode:8} {:9} [{}]\n         {shown}",
        T::STAGE,
        outcomes.join(", ")
    );
}

fn classify(categories: &[&str], may_create: bool) -> Classify {
    Classify {
        helpers: Vec::new(),
        contextual_helper: None,
        is_title: false,
        free_names: false,
        level: 1,
        depth: 3,
        parent: [].into(),
        categories: categories.iter().map(ToString::to_string).collect(),
        may_create,
        hint: Hint::default(),
        chunks: (1..)
            .zip(TEXTS)
            .map(|(id, text)| (id, text.into()))
            .collect(),
    }
}

async fn open(url: &str, mode: &str, folder: &std::path::Path) -> Llm {
    let config = settings(
        &format!("sqlite://{}/{mode}.db", folder.display()),
        &[
            ("LLM__PROVIDERS__REAL__BASE_URL", url),
            ("LLM__PROVIDERS__REAL__STRUCTURED_OUTPUT", mode),
            ("LLM__TRANSPORT__READ_TIMEOUT", "600"),
            ("LLM__TRANSPORT__TOTAL_TIMEOUT", "600"),
            ("LLM__MAX_OUTPUT_TOKENS", "600"),
        ],
    );
    let store = Store::connect(&config.database).await.unwrap();
    store.migrate().await.unwrap();
    Llm::new(config.llm, config.audit, "", store, Arc::new(SystemClock))
}

#[tokio::main]
async fn main() {
    let Some(url) = variable("MEMOIR_REAL_MODEL") else {
        println!(
            "set MEMOIR_REAL_MODEL to the address of a server, such as http://127.0.0.1:8081/v1"
        );
        return;
    };

    let model = format!(
        "real:{}",
        variable("MEMOIR_REAL_NAME").as_deref().unwrap_or("any")
    );

    let folder = tempfile::tempdir().unwrap();
    let options = ["Cooking", "Finance", "Space", "Sports"];
    for mode in ["native", "tool", "prompted"] {
        let llm = &open(&url, mode, folder.path()).await;
        attempt(llm, &model, mode, classify(&[], true)).await;
        attempt(llm, &model, mode, classify(&options, true)).await;
        attempt(llm, &model, mode, classify(&options, false)).await;
        let select = Select {
            contextual_helper: None,
            query: "How are interest rates and inflation connected?".into(),
            level: 1,
            depth: 3,
            options: options.map(String::from).into(),
            hint: Hint::default(),
            at_most: 2,
        };

        attempt(llm, &model, mode, select).await;
        let summarize = |(chunk_id, text): (i64, &&str)| SummarizeChunk {
            chunk_id,
            text: (**text).into(),
            target_chars: 60,
        };

        let chunks = (11..).zip(&TEXTS[..2]).map(summarize).collect();
        attempt(
            llm,
            &model,
            mode,
            Summarize {
                chunks,
                retries: 1,
                note_room: None,
            },
        )
        .await;
        let evidence = |(chunk_id, text): (i64, &&str)| Evidence {
            chunk_id,
            path: "News".into(),
            about: "".into(),
            text: (**text).into(),
        };

        let chunks = (21..).zip(&TEXTS).map(evidence).collect();
        let query = "By how much did the central bank raise its rate?".into();
        attempt(
            llm,
            &model,
            mode,
            Answer {
                query,
                contextual_helpers: Vec::new(),
                chunks,
                note_room: None,
            },
        )
        .await;

        let letter = "From: Ada Lovelace\nDate: 10 July 1843\nSubject: The engine\n\nMy dear Babbage, I have finished the notes \
                      on the Analytical Engine and the table for the Bernoulli numbers.";
        let chunks = vec![(1, letter.into())];
        let helper = Helper {
            filename: "letter.txt".into(),
            title: None,
            metadata: Vec::new(),
            chunks,
        };

        attempt(llm, &model, mode, helper).await;
    }
}
