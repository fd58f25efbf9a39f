//! A library for queries: sources, versions, categories and chunks, stored without a model, and an
//! application on it with a scripted model.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

use memoir::base::clock::Timestamp;
use memoir::base::ids::{SourceId, Space};
use memoir::model::category::{NamedBy, NewCategory};
use memoir::model::chunk::NewChunk;
use memoir::model::contextual_helper::{HelperOrigin, NewHelper};
use memoir::model::source::{Source, SourceKind};
use memoir::model::source_version::VersionFacts;
use memoir::scripted_model::{Reply as ModelReply, ScriptedModel, Seen};
use memoir::store::{NewVersion, Store, Tx};
use memoir_text::hash::sha256_hex;
use memoir_text::text::{char_count, name_key};
use memoir_text::tokens::TokenCounter;
use serde_json::{Value, json};

use super::app::{Reply, TestApp, load};
use super::database::TestDatabase;

/// 2026-01-01T00:00:00Z; each write is one second after the previous one.
const START: i64 = 1_767_225_600_000_000;

pub struct Library {
    pub store: Store,
    pub space: Space,
    clock: AtomicI64,
}

/// A chunk and its category.
pub type Filed<'t> = (&'t [&'t str], &'t str);

impl Library {
    pub async fn at(url: &str) -> Self {
        let store = Store::connect(&load(url, &[]).database).await.unwrap();
        Self {
            store,
            space: Space::default(),
            clock: AtomicI64::new(START),
        }
    }

    /// The time of the last write.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(Ordering::SeqCst))
    }

    fn tick(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.fetch_add(1_000_000, Ordering::SeqCst) + 1_000_000)
    }

    /// A new source of the default user, with its first version.
    pub async fn add(&self, path: &str, chunks: &[Filed<'_>]) -> SourceId {
        self.add_of("default", &[], path, chunks).await
    }

    pub async fn add_of(
        &self,
        user_id: &str,
        tags: &[&str],
        path: &str,
        chunks: &[Filed<'_>],
    ) -> SourceId {
        let now = self.tick();
        let mut all = vec!["file_ingest".to_owned()];
        all.extend(tags.iter().map(ToString::to_string));
        let source = Source {
            id: SourceId::new(),
            user_id: user_id.to_owned(),
            filename: path.rsplit('/').next().unwrap().to_owned(),
            path: path.to_owned(),
            kind: SourceKind::FileIngest,
            file_type: "txt".to_owned(),
            eligible: true,
            tags: all,
            latest_version: 0,
            created_at: now,
            updated_at: now,
        };

        let mut tx = self.store.begin().await.unwrap();
        tx.lock_chunks(&self.space).await.unwrap();
        tx.add_source(&self.space, &source).await.unwrap();
        self.write_version(&mut tx, &source.id, 1, chunks, now)
            .await;
        tx.commit().await.unwrap();

        source.id
    }

    /// The next version of a source; without chunks it shares those of the version before.
    pub async fn add_version(&self, source_id: &SourceId, version: i64, chunks: &[Filed<'_>]) {
        let now = self.tick();
        let mut tx = self.store.begin().await.unwrap();
        tx.lock_chunks(&self.space).await.unwrap();
        self.write_version(&mut tx, source_id, version, chunks, now)
            .await;

        tx.commit().await.unwrap();
    }

    async fn write_version(
        &self,
        tx: &mut Tx,
        source_id: &SourceId,
        version: i64,
        chunks: &[Filed<'_>],
        now: Timestamp,
    ) {
        let text: String = chunks.iter().map(|(_, text)| *text).collect();
        let before = tx
            .find_current_content(&self.space, source_id)
            .await
            .unwrap();

        let shared = before.filter(|_| chunks.is_empty());
        let facts = facts(&text);
        let new = NewVersion {
            source_id,
            version,
            content: &text,
            facts: &facts,
            content_version_id: shared,
        };

        let id = tx.add_source_version(&self.space, new, now).await.unwrap();
        let content = shared.unwrap_or(id);
        if let Some(before) = before.filter(|before| *before != content) {
            let counts = tx.count_version_chunks(&self.space, before).await.unwrap();
            let gone = counts
                .into_iter()
                .map(|(leaf, count)| (leaf, -count))
                .collect();

            tx.add_chunk_counts(&self.space, &gone).await.unwrap();
        }

        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        let mut rows = Vec::new();
        let mut start = 0;

        for (ordinal, (path, text)) in (1..).zip(chunks) {
            let category_id = self.leaf(tx, path, now).await;
            *counts.entry(category_id).or_default() += 1;
            let end = start + i64::try_from(char_count(text)).unwrap();
            let token_count = tokens(text);
            let tokenizer = TokenCounter::for_model(None).name();

            rows.push(NewChunk {
                tokenizer,
                subject: None,
                heading: None,
                ordinal,
                text,
                token_count,
                start_char: start,
                end_char: end,
                category_id,
            });

            start = end;
        }

        tx.add_chunks(&self.space, source_id, id, &rows, now)
            .await
            .unwrap();
        tx.add_chunk_counts(&self.space, &counts).await.unwrap();
        tx.update_latest_version(&self.space, source_id, version, content, now)
            .await
            .unwrap();
    }

    /// Creates a category and its ancestors; returns its id.
    pub async fn category(&self, path: &[&str]) -> i64 {
        let now = self.tick();
        let mut tx = self.store.begin().await.unwrap();
        tx.lock_chunks(&self.space).await.unwrap();
        let id = self.leaf(&mut tx, path, now).await;
        tx.commit().await.unwrap();

        id
    }

    async fn leaf(&self, tx: &mut Tx, path: &[&str], now: Timestamp) -> i64 {
        let mut parent = 0;
        for (level, name) in (1..).zip(path) {
            let key = name_key(name);
            let here = |all: Vec<memoir::model::category::Category>| {
                all.into_iter().find(|c| name_key(&c.name) == key)
            };
            let found = here(tx.list_children(&self.space, &[parent]).await.unwrap());

            if found.is_none() {
                let parent_id = Some(parent).filter(|parent| *parent != 0);
                let new = NewCategory {
                    parent_id,
                    level,
                    name: (*name).to_owned(),
                    name_key: key.clone(),
                    named_by: NamedBy::Embedded,
                };

                tx.add_categories(&self.space, &[new], now).await.unwrap();
            }

            let children = tx.list_children(&self.space, &[parent]).await.unwrap();
            parent = found.or_else(|| here(children)).unwrap().id;
        }

        parent
    }

    /// Stores the helper of a source.
    pub async fn describe(&self, source_id: &SourceId, text: &str) {
        let helper = NewHelper {
            text: text.to_owned(),
            origin: HelperOrigin::User,
            author: None,
            date: None,
            topic: None,
            description: None,
            token_count: 1,
            tokens_prompt: 0,
            tokens_completion: 0,
        };

        let mut tx = self.store.begin().await.unwrap();
        tx.add_helper(&self.space, source_id, &helper, self.tick())
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
}

fn tokens(text: &str) -> i64 {
    i64::try_from(TokenCounter::for_model(None).count(text)).unwrap()
}

fn facts(text: &str) -> VersionFacts {
    VersionFacts {
        sha256: sha256_hex(text.as_bytes()),
        settings_key: "test".to_owned(),
        size_bytes: i64::try_from(text.len()).unwrap(),
        mtime: None,
        char_count: i64::try_from(char_count(text)).unwrap(),
        token_count: tokens(text),
        provider: None,
        topic: None,
        note: None,
        metadata: json!({}),
        job_id: None,
    }
}

/// An application over a library, with a scripted model.
pub struct Desk {
    pub app: TestApp,
    pub model: ScriptedModel,
    pub library: Library,
}

impl Desk {
    pub async fn open() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(TestDatabase::sqlite(), settings).await
    }

    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let model = ScriptedModel::local().await.unwrap();
        let url = model.openai_url();
        let mut all = vec![
            ("LLM__TRANSPORT__BACKOFF_MS", "5"),
            ("LLM__TRANSPORT__BACKOFF_CAP_MS", "20"),
            ("LLM__MODEL", "stub:gpt-4o"),
            ("LLM__PROVIDERS__STUB__KIND", "openai"),
            ("LLM__PROVIDERS__STUB__BASE_URL", &url),
            ("LLM__PROVIDERS__STUB__API_KEY", "sk-test"),
            ("INGESTION__CHUNK_MIN_TOKENS", "10"),
            // Most tests are about walks; the library has no index to search.
            ("QUERY__STRATEGY", "one_shot"),
        ];

        all.extend_from_slice(settings);
        let app = TestApp::on(database, &all).await;
        let library = Library::at(&app.database.url).await;
        Self {
            app,
            model,
            library,
        }
    }

    pub async fn ask(&self, body: Value) -> Reply {
        self.app.post("/v1/queries", &body).await
    }

    /// Runs a query, and expects success.
    #[track_caller]
    pub fn answered(reply: &Reply) -> Value {
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        reply.json()
    }

    pub async fn ask_well(&self, body: Value) -> Value {
        Self::answered(&self.ask(body).await)
    }

    /// The requests of one stage.
    pub fn seen(&self, stage: &str) -> Vec<Seen> {
        self.model
            .requests()
            .into_iter()
            .filter(|seen| seen.stage == stage)
            .collect()
    }

    pub async fn close(self) {
        self.library.store.close().await;
        self.app.finish().await;
    }
}

/// A model with fixed choices: for each level the options (all if none is named), best first.
pub fn choosing(
    choices: &'static [(&'static str, &'static [&'static str])],
) -> impl Fn(&Seen) -> ModelReply {
    move |seen: &Seen| {
        let level = seen
            .user
            .lines()
            .find_map(|line| line.strip_prefix("level: "))
            .unwrap_or_default();

        let chosen = choices
            .iter()
            .find(|(wanted, _)| seen.stage == "select" && level.starts_with(wanted));
        let Some((_, chosen)) = chosen else {
            return ModelReply::sensible(seen);
        };
        let most = seen
            .user
            .lines()
            .find_map(|line| line.strip_prefix("select: at most "))
            .unwrap();

        let options = seen
            .user
            .lines()
            .filter(|line| line.starts_with("- "))
            .count();

        let best = most.parse::<usize>().unwrap().min(options);
        let selections: Vec<Value> = chosen
            .iter()
            .enumerate()
            .map(|(place, name)| json!({"category": name, "ranked_relevance": best - place}))
            .collect();

        ModelReply::json(json!({"selections": selections}))
    }
}
