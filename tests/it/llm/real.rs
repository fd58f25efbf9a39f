//! Every task against a real model, in every output mode. Run by hand: it needs a server and minutes.
//!
//! `MEMOIR_REAL_MODEL=http://127.0.0.1:8081/v1 cargo test --test it real_model -- --ignored --nocapture`

use memoir::llm::tasks::answer::{Answer, Evidence};
use memoir::llm::tasks::helper::Helper;
use memoir::llm::tasks::summarize::{Summarize, SummarizeChunk};
use memoir::llm::{Llm, Session, Task};

use crate::support::database::variable;
use crate::support::door::{Door, MODES, choice, in_mode, passages};

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
    let session = Session::of_caller(memoir::base::ids::Space::default()).with_model(Some(model.to_owned()));
    let answer = llm.ask(&session, task).await;
    let calls = session.calls();
    let outcomes: Vec<String> =
        calls.iter().map(|call| format!("{}/{} {:.0} ms", call.mode, call.outcome, call.latency_ms)).collect();
    let shown = match answer {
        Ok(answered) => serde_json::to_string(&answered.value).unwrap(),
        Err(error) => format!("ERROR {error}"),
    };
    eprintln!("{mode:8} {:9} [{}]\n         {shown}", T::STAGE, outcomes.join(", "));
}

#[tokio::test]
#[ignore = "needs a real model server"]
async fn real_model_does_every_task_in_every_mode() {
    let url = variable("MEMOIR_REAL_MODEL").expect("set MEMOIR_REAL_MODEL to an OpenAI-compatible address");
    for (mode, _) in MODES {
        let setting = in_mode(mode)[0].1;
        let door = Door::with(&[
            ("LLM__PROVIDERS__REAL__BASE_URL", &url),
            ("LLM__PROVIDERS__REAL__STRUCTURED_OUTPUT", setting),
            ("LLM__TRANSPORT__READ_TIMEOUT", "300"),
            ("LLM__TRANSPORT__TOTAL_TIMEOUT", "600"),
            ("LLM__MAX_OUTPUT_TOKENS", "600"),
        ])
        .await;
        let (llm, model) = (&door.llm, "real:any");
        attempt(llm, model, mode, passages(&TEXTS, &[], true)).await;
        attempt(llm, model, mode, passages(&TEXTS, &["Cooking", "Finance", "Space", "Sports"], true)).await;
        attempt(llm, model, mode, passages(&TEXTS, &["Cooking", "Finance", "Space", "Sports"], false)).await;
        attempt(llm, model, mode, choice(&["Cooking", "Finance", "Space", "Sports"], 2)).await;
        let summarize =
            |(chunk_id, text): (i64, &&str)| SummarizeChunk { chunk_id, text: (**text).into(), target_chars: 60 };
        let chunks = (11..).zip(&TEXTS[..2]).map(summarize).collect();
        attempt(llm, model, mode, Summarize { chunks, retries: 1 }).await;
        let evidence =
            |(chunk_id, text): (i64, &&str)| Evidence { chunk_id, path: "News".into(), text: (**text).into() };
        let chunks = (21..).zip(&TEXTS).map(evidence).collect();
        let query = "By how much did the central bank raise its rate?".into();
        attempt(llm, model, mode, Answer { query, contextual_helpers: Vec::new(), chunks }).await;
        let letter = "From: Ada Lovelace\nDate: 10 July 1843\nSubject: The engine\n\nMy dear Babbage, I have finished the notes \
                      on the Analytical Engine and the table for the Bernoulli numbers.";
        let chunks = vec![(1, letter.into())];
        attempt(llm, model, mode, Helper { filename: "letter.txt".into(), title: None, metadata: Vec::new(), chunks })
            .await;
    }
}
