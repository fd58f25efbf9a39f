//! `memoir ingest`: ingests files and shows the progress.

mod batches;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use self::batches::Batches;
use super::client::{Client, Connection, Refused};
use super::{CommandError, counted, print, runtime, tell};
use crate::base::clock::Timestamp;
use crate::config::Origin;
use crate::model::job::WAITING_FOR_PROVIDER;
use crate::model::source::TEXT_TYPES;

pub const EXAMPLES: &str = "\
Examples:
  memoir ingest notes.md                           send a file to the memoir running on this machine
  memoir ingest --local docs/ --tag handbook       ingest every text file below docs/ without a running memoir
  memoir ingest 'reports/2025-*.txt' --json        print one line of JSON per file
  curl -s https://example.com/notes.md | memoir ingest - --title Notes   ingest the output of another program
  memoir ingest --server https://memoir.example.com --key $KEY --space team notes.md

Files must be .txt, .md, .json, .yml or .yaml, in UTF-8. A file whose content changed becomes a new version of its
source; one that did not change is left alone.";

/// Instead of a file: reads standard input, which becomes a new source each time.
const PIPED: &str = "-";
/// Number of jobs that are followed at a time.
const AT_ONCE: usize = 8;
/// Width of the progress bar in characters.
const WIDTH: i64 = 24;
/// Codes of the warnings that are shown with a file: the hierarchy is full where its text belongs.
const FULL_CODES: [&str; 2] = ["parent_full", "level_full"];
/// What such a warning says if chunks of the file could not be filed where they belong.
const FORCED: &str = "of this source had to be filed";
/// How often the progress bar is redrawn.
const LOOK: Duration = Duration::from_millis(300);

#[derive(clap::Args)]
pub struct Arguments {
    /// Files, folders (all text files below them), patterns such as 'docs/**/*.md', or - for
    /// standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// A tag for every source; can be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The title of the source; only for a single source
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// The end user who owns the sources; by default, `default`
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The model to use, as provider:model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// File the text again even if it has not changed
    #[arg(long)]
    force: bool,
    /// Print the result of each file as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let (files, unread) = find_files(&arguments.paths)?;
    for folder in &unread {
        tell(&format!("{folder}: cannot be read"));
    }

    if arguments.title.is_some() && files.len() > 1 {
        return Err(anyhow::anyhow!(
            "--title requires a single source, but there are {}",
            files.len()
        )
        .into());
    }

    // Read before anything waits for the service, so that Ctrl-C ends it at any time.
    let piped = if files.iter().any(|file| file == Path::new(PIPED)) {
        read_piped()?
    } else {
        String::new()
    };

    runtime()?.block_on(async {
        let client = Client::open(&arguments.connection, origin).await?;
        let outcome = tokio::select! {
            outcome = ingest_all(arguments, &client, &files, &piped, unread.len()) => outcome,
            _ = tokio::signal::ctrl_c() => {
                Bar::new(arguments.json).clear();
                let who = if client.is_inside() { "when memoir runs again" } else { "by the service" };
                Err(anyhow::anyhow!("stopped; files that were already sent will be filed {who}").into())
            }
        };

        client.close().await;
        outcome
    })
}

async fn ingest_all(
    arguments: &Arguments,
    client: &Client,
    files: &[PathBuf],
    piped: &str,
    unread: usize,
) -> Result<(), CommandError> {
    let bar = Bar::new(arguments.json);
    let read = |file: &Path| item(arguments, file, piped);
    let sent = stream::unfold(Batches::new(client, files, read), async |mut batches| {
        let sent = batches.send_next().await?;
        Some((sent, batches))
    });

    // The next batch is sent when fewer than `AT_ONCE` jobs of this one are unfinished.
    let results = sent
        .flat_map(stream::iter)
        .map(|(file, sent)| {
            let bar = &bar;
            async move {
                let finished = match sent {
                    Ok(job) => follow(client, file, job, bar).await,
                    Err(error) => Err(error),
                };
                (file, finished)
            }
        })
        .buffer_unordered(AT_ONCE);

    let mut results = std::pin::pin!(results);
    let mut failed = 0;
    while let Some((file, result)) = results.next().await {
        match result {
            Ok(job) => {
                failed += usize::from(job["state"] != "succeeded");
                bar.finish(file, &job);
            }
            Err(error) => {
                failed += 1;
                bar.fail(file, &error);
            }
        }
    }

    if failed > 0 {
        return Err(anyhow::anyhow!("{failed} of {} files were not filed", files.len()).into());
    }

    if unread > 0 {
        return Err(anyhow::anyhow!("{unread} folders cannot be read").into());
    }

    Ok(())
}

/// The request for one file.
fn item(arguments: &Arguments, file: &Path, piped: &str) -> anyhow::Result<Value> {
    let mut body = json!({"title": arguments.title, "tags": arguments.tags, "force": arguments.force, "if_changed": !arguments.force});
    if file == Path::new(PIPED) {
        body["text"] = piped.into();
    } else {
        let text = std::fs::read(file).context("cannot be read")?;
        body["text"] = String::from_utf8(text)
            .ok()
            .context("must be UTF-8 text")?
            .into();

        body["path"] = place(file)?
            .to_str()
            .context("the path must be UTF-8")?
            .into();

        let mtime = std::fs::metadata(file)
            .ok()
            .and_then(|facts| facts.modified().ok())
            .and_then(Timestamp::of_file);

        body["mtime"] = mtime.map(|moment| moment.to_string()).into();
    }

    if let Some(user) = &arguments.user {
        body["user_id"] = user.as_str().into();
    }

    if let Some(model) = &arguments.model {
        body["options"] = json!({"model": model});
    }

    Ok(body)
}

/// Shows the progress of a job. Returns it once it is over, waits for a helper, or waits for a
/// provider that needs attention.
async fn follow(client: &Client, file: &Path, mut job: Value, bar: &Bar) -> anyhow::Result<Value> {
    let id = job["id"].as_str().unwrap_or_default().to_owned();
    while matches!(job["state"].as_str(), Some("queued" | "running")) && !waits_for_somebody(&job) {
        bar.draw(file, &job);
        job = client
            .get(&format!(
                "/v1/jobs/{id}?details=false&wait={}",
                LOOK.as_secs_f64()
            ))
            .await?;
    }

    Ok(job)
}

/// The provider rejects the key, the account or the model, so the user has to act. The command
/// waits for an outage as for any other work.
fn waits_for_somebody(job: &Value) -> bool {
    job["phase"] == WAITING_FOR_PROVIDER && job["error"]["code"] != "llm_unavailable"
}

fn read_piped() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input must be UTF-8 text")?;
    Ok(text)
}

/// The canonical path of the file: as given, unless it has a detour.
pub(super) fn place(file: &Path) -> std::io::Result<PathBuf> {
    let detour = file.components().any(|part| part == Component::ParentDir);
    if detour {
        file.canonicalize()
    } else {
        std::path::absolute(file)
    }
}

/// Every file that the arguments match, each once, in order; and the folders that cannot be read.
fn find_files(paths: &[String]) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
    let mut found = BTreeSet::new();
    let mut unread = Vec::new();
    for path in paths {
        let named = Path::new(path);
        if path == PIPED {
            found.insert(named.to_path_buf());
        } else if named.is_dir() {
            add_folder(named, &mut found, &mut unread);
        } else if named.exists() {
            if !is_text(named) {
                bail!(
                    "the file type of {path} is not supported; supported types: .txt, .md, \
                     .json, .yml, .yaml"
                );
            }

            if !named.is_file() {
                bail!("{path} is not a regular file");
            }

            found.insert(named.to_path_buf());
        } else {
            let options = glob::MatchOptions {
                require_literal_leading_dot: true,
                ..glob::MatchOptions::new()
            };

            // `docs/**` alone would be folders.
            let pattern = if path.ends_with("**") {
                format!("{path}/*")
            } else {
                path.clone()
            };

            let matches = glob::glob_with(&pattern, options)
                .with_context(|| format!("{path} is neither a file nor a valid pattern"))?;
            let before = found.len();
            found.extend(
                matches
                    .filter_map(Result::ok)
                    .filter(|file| file.is_file() && !file.is_symlink() && is_text(file)),
            );

            if found.len() == before {
                bail!("there is no text file {path}");
            }
        }
    }

    if found.is_empty() && unread.is_empty() {
        bail!("there are no text files in {}", paths.join(", "));
    }

    // One file may be matched several times, or through circular links.
    let mut once: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for file in found {
        let real = file.canonicalize().unwrap_or_else(|_| file.clone());
        // Prefers the file to a link to it, and the direct path to one through links.
        let detour = |path: &Path| (path.is_symlink(), path.components().count());
        let kept = once.entry(real).or_insert_with(|| file.clone());
        if detour(&file) < detour(kept) {
            *kept = file;
        }
    }

    let files: BTreeSet<PathBuf> = once.into_values().collect();
    Ok((files.into_iter().collect(), unread))
}

/// Skips hidden files and folders; links, which could lead out of the folder; and everything that
/// is not a regular file, because reading it might never end.
fn add_folder(folder: &Path, found: &mut BTreeSet<PathBuf>, unread: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        unread.push(folder.display().to_string());
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }

        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            add_folder(&path, found, unread);
        } else if kind.is_file() && is_text(&path) {
            found.insert(path);
        }
    }
}

fn is_text(path: &Path) -> bool {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    TEXT_TYPES.contains(&extension.to_ascii_lowercase().as_str())
}

/// One line that is redrawn on a terminal; otherwise one line per file.
struct Bar {
    json: bool,
    live: bool,
    /// What was said about full places of the hierarchy.
    warned: RefCell<BTreeSet<String>>,
}

impl Bar {
    fn new(json: bool) -> Self {
        Self {
            json,
            live: std::io::stderr().is_terminal(),
            warned: RefCell::default(),
        }
    }

    fn draw(&self, file: &Path, job: &Value) {
        if !self.live {
            return;
        }

        let progress = &job["progress"];
        let number = |name: &str| progress[name].as_i64().unwrap_or(0);
        let (done, total) = (number("done"), number("total"));
        let filled = if total > 0 { done * WIDTH / total } else { 0 };
        let bar: String = (0..WIDTH)
            .map(|place| if place < filled { '#' } else { '.' })
            .collect();
        let phase = job["phase"].as_str().unwrap_or("queued");
        let line = format!(
            "\r\x1b[2K[{bar}] {} {phase}: {} of {} chunks, {} calls, {} tokens, {:.4} USD",
            shown(file),
            number("chunks_filed"),
            number("chunks"),
            number("llm_calls"),
            number("tokens"),
            progress["cost_usd"].as_f64().unwrap_or(0.0)
        );

        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn finish(&self, file: &Path, job: &Value) {
        self.clear();
        if self.json {
            let line = json!({"path": file, "job_id": job["id"], "state": job["state"], "result": job["result"],
                "warnings": job["warnings"], "error": job["error"]});
            print(&format!("{line}\n"));
            return;
        }

        let result = &job["result"];
        match job["state"].as_str() {
            Some("succeeded")
                if result["unchanged"] == true || !result["shares_chunks_of_version"].is_null() =>
            {
                print(&format!(
                    "{}: unchanged, version {}\n",
                    file.display(),
                    result["version"]
                ));
            }
            Some("succeeded") => {
                let number = |name: &str, one: &str, several: &str| {
                    counted(result[name].as_i64().unwrap_or(0), one, several)
                };
                print(&format!(
                    "{}: version {}, {}, {}, {}, {}, {:.4} USD\n",
                    file.display(),
                    result["version"],
                    number("chunks_written", "chunk", "chunks"),
                    number("categories_created", "new category", "new categories"),
                    number("llm_calls", "call", "calls"),
                    number("tokens", "token", "tokens"),
                    result["cost_usd"].as_f64().unwrap_or(0.0)
                ));
                self.warn(job);
            }
            Some("awaiting_helper") => tell(&format!(
                "{}: needs a helper: write it on the page, in the job {}",
                file.display(),
                job["id"].as_str().unwrap_or_default()
            )),
            Some("queued") => tell(&format!(
                "{}: {}\n  {}\n  The job {} stays in the queue.",
                file.display(),
                job["error"]["detail"].as_str().unwrap_or_default(),
                job["error"]["remediation"].as_str().unwrap_or_default(),
                job["id"].as_str().unwrap_or_default()
            )),
            _ => tell(&format!(
                "{}: {}\n  {}",
                file.display(),
                job["error"]["detail"]
                    .as_str()
                    .unwrap_or("it was cancelled"),
                job["error"]["remediation"].as_str().unwrap_or_default()
            )),
        }
    }

    /// Says where the hierarchy is full; what to do about a place once, however many files meet it.
    fn warn(&self, job: &Value) {
        for warning in job["warnings"].as_array().into_iter().flatten() {
            let full = warning["code"]
                .as_str()
                .is_some_and(|code| FULL_CODES.contains(&code));
            let message = warning["message"].as_str().unwrap_or_default();
            let place = message.split(';').next().unwrap_or_default().to_owned();
            if full && self.warned.borrow_mut().insert(place) {
                tell(&format!("  warning: {message}"));
            } else if full && message.contains(FORCED) {
                let told = message.split(". ").next().unwrap_or(message);
                tell(&format!("  warning: {told}"));
            }
        }
    }

    fn fail(&self, file: &Path, error: &anyhow::Error) {
        self.clear();
        if self.json {
            let problem = error
                .downcast_ref::<Refused>()
                .map(|refused| refused.problem.clone());
            let problem = problem.unwrap_or_else(|| json!({"detail": format!("{error:#}")}));
            print(&format!(
                "{}\n",
                json!({"path": file, "state": "failed", "error": problem})
            ));
        } else {
            tell(&format!("{}: {error:#}", file.display()));
        }
    }

    fn clear(&self) {
        if self.live {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[2K");
        }
    }
}

/// The end of a long path.
fn shown(file: &Path) -> String {
    let name = file.display().to_string();
    let length = name.chars().count();
    if length <= 40 {
        name
    } else {
        format!("…{}", name.chars().skip(length - 39).collect::<String>())
    }
}
