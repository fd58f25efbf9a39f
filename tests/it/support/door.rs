//! Model calls to a scripted provider: everything is real except the model.

use std::sync::Arc;

use memoir::base::clock::{Clock as _, SystemClock};
use memoir::base::ids::Space;
use memoir::llm::tasks::classify::{Classify, ClassifyOutput};
use memoir::llm::tasks::select::Select;
use memoir::llm::{Answered, Hint, Llm, LlmError, Session};
use memoir::model::call::CallContext;
use memoir::scripted_model::{OutputMode, ScriptedModel};
use memoir::store::Store;

use super::app::load;
use super::database::TestDatabase;

/// A call in the default space that no key pays for.
pub fn call() -> CallContext {
    call_in(Space::default())
}

/// A call in a space that no key pays for.
pub fn call_in(space: Space) -> CallContext {
    CallContext::new(space, SystemClock.now())
}

pub struct Door {
    pub llm: Llm,
    pub model: ScriptedModel,
    pub store: Store,
    _database: TestDatabase,
}

/// Waits that are short enough for a test.
const QUICK: &[(&str, &str)] = &[
    ("LLM__TRANSPORT__BACKOFF_MS", "5"),
    ("LLM__TRANSPORT__BACKOFF_CAP_MS", "20"),
    ("LLM__TRANSPORT__READ_TIMEOUT", "10"),
    ("LLM__TRANSPORT__TOTAL_TIMEOUT", "30"),
    ("LLM__MODEL", "openai_stub:m"),
];

impl Door {
    pub async fn open() -> Self {
        Self::with(&[]).await
    }

    /// With providers `openai_stub`, `anthropic_stub` and `gemini_stub`, all at one scripted
    /// server.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(TestDatabase::sqlite(), settings).await
    }

    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let model = ScriptedModel::local().await.unwrap();
        let urls = [
            model.openai_url(),
            model.anthropic_url(),
            model.gemini_url(),
        ];

        let mut all = QUICK.to_vec();
        let names = [
            ("OPENAI_STUB", "openai"),
            ("ANTHROPIC_STUB", "anthropic"),
            ("GEMINI_STUB", "gemini"),
        ];

        let entries: Vec<(String, String)> = names
            .iter()
            .zip(&urls)
            .flat_map(|((name, kind), url)| {
                let key = |field: &str| format!("LLM__PROVIDERS__{name}__{field}");
                [
                    (key("KIND"), (*kind).to_owned()),
                    (key("BASE_URL"), url.clone()),
                    (key("API_KEY"), "sk-test".to_owned()),
                ]
            })
            .collect();

        all.extend(
            entries
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );

        all.extend_from_slice(settings);
        let config = load(&database.url, &all);
        let store = Store::connect(&config.database).await.unwrap();
        store.migrate().await.unwrap();
        let llm = Llm::new(
            config.llm,
            config.audit,
            &config.telemetry.otlp_endpoint,
            store.clone(),
            Arc::new(SystemClock),
        );

        Self {
            llm,
            model,
            store,
            _database: database,
        }
    }

    #[expect(
        clippy::unused_self,
        reason = "a test reads better with a session of this door"
    )]
    pub fn session(&self) -> Session {
        Session::of_caller(call())
    }

    /// Asks the model `m` of a provider to classify [`five_chunks`].
    pub async fn ask(&self, provider: &str) -> Result<Answered<ClassifyOutput>, LlmError> {
        let session = self.session().with_model(Some(format!("{provider}:m")));
        self.llm.ask(&session, five_chunks()).await
    }
}

/// `structured_output` settings for all three stubs.
pub fn in_mode(mode: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("LLM__PROVIDERS__OPENAI_STUB__STRUCTURED_OUTPUT", mode),
        ("LLM__PROVIDERS__ANTHROPIC_STUB__STRUCTURED_OUTPUT", mode),
        ("LLM__PROVIDERS__GEMINI_STUB__STRUCTURED_OUTPUT", mode),
    ]
}

pub const MODES: [(&str, OutputMode); 3] = [
    ("native", OutputMode::Native),
    ("tool", OutputMode::Tool),
    ("prompted", OutputMode::Prompted),
];

/// Five chunks under the root; new categories are allowed.
pub fn five_chunks() -> Classify {
    chunks(
        &["one", "two", "three", "four", "five"],
        &["Alpha", "Beta"],
        true,
    )
}

pub fn chunks(texts: &[&str], categories: &[&str], may_create: bool) -> Classify {
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
            .zip(texts)
            .map(|(id, text)| (id, (*text).into()))
            .collect(),
    }
}

pub fn choice(options: &[&str], at_most: usize) -> Select {
    Select {
        contextual_helper: None,
        query: "What about alpha?".into(),
        level: 1,
        depth: 3,
        options: options.iter().map(ToString::to_string).collect(),
        hint: Hint::default(),
        at_most,
    }
}
