//! The commands. Data goes to stdout, messages go to stderr; a configuration error exits with 2. If
//! data cannot be written, a command exits with 1, unless its reader has closed the pipe.

mod ask;
mod categories;
mod chat;
mod client;
mod config;
mod context;
mod doc;
mod doctor;
mod eval;
mod events;
mod healthcheck;
mod hook;
mod ingest;
mod list;
mod mcp;
mod migrate;
mod openapi;
mod prompt;
mod rm;
#[cfg(feature = "testing")]
mod scripted_model;
mod search;
mod serve;
mod settings_file;
mod show;
mod tree;
mod wording;
mod worker;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};

use crate::app::BuildError;
use crate::config::{Config, ConfigurationError, Origin};
use crate::store::StoreError;

const EXAMPLES: &str = "\
Examples:
  memoir                                          serve on http://127.0.0.1:8080, data in ./memoir.db
  memoir ingest docs/                             ingest files (add --local if memoir is not running)
  memoir ask 'What did we decide?'                run a query (add --local if memoir is not running)
  memoir doc plan.md --as-of 2026-01-31T12:00:00Z  print an earlier version of a source
  memoir search 'refunds'                         search by keyword and meaning, without a walk
  memoir chat import _chat.txt --user U-123       import a conversation (ChatGPT, Claude, WhatsApp, JSON Lines)
  memoir mcp install claude-code --write           give an agent this memory (also: hook install)
  memoir tree                                     the category hierarchy (also: list, show, rm)
  memoir --config memoir.toml serve               serve with your own settings
  DATABASE_URL=postgres://me@db/memoir memoir     serve with PostgreSQL
  memoir config print                             print the effective settings, with secrets masked
  memoir doctor                                   look for problems and suggest fixes

Settings come from the compiled-in defaults (memoir config print --defaults), then the file, then the
environment (MEMOIR__SECTION__KEY, DATABASE_URL).";

/// Why data could not be written to stdout.
static WRITE_FAILURE: OnceLock<std::io::Error> = OnceLock::new();

/// A memory service for LLM applications.
#[derive(Parser)]
#[command(name = "memoir", version, after_help = EXAMPLES)]
struct Arguments {
    /// A configuration file: TOML, YAML or JSON (or set `MEMOIR_CONFIG`)
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (the default)
    #[command(after_help = serve::EXAMPLES)]
    Serve,
    /// Ingest files
    #[command(after_help = ingest::EXAMPLES)]
    Ingest(ingest::Arguments),
    /// Run a query
    #[command(after_help = ask::EXAMPLES)]
    Ask(ask::Arguments),
    /// Compose a prompt for a task, and optionally send it
    #[command(after_help = prompt::EXAMPLES)]
    Prompt(prompt::Arguments),
    /// Ask questions with known answers, and report how many are right and what they cost
    #[command(after_help = eval::EXAMPLES)]
    Eval(eval::Arguments),
    /// Print one version of a source, selected by name, topic and time
    #[command(after_help = doc::EXAMPLES)]
    Doc(doc::Arguments),
    /// Search chunks, sources or memories
    #[command(after_help = search::EXAMPLES)]
    Search(search::Arguments),
    /// Print the memories that matter for a question
    #[command(after_help = context::EXAMPLES)]
    Context(context::Arguments),
    /// Import conversations
    #[command(subcommand)]
    Chat(chat::Command),
    /// List the sources
    #[command(after_help = list::EXAMPLES)]
    List(list::Arguments),
    /// Print the category hierarchy
    #[command(after_help = tree::EXAMPLES)]
    Tree(tree::Arguments),
    /// Move chunks, merge, move, rename and remove categories, and undo it
    #[command(after_help = categories::EXAMPLES)]
    Categories(categories::Arguments),
    /// Print a chunk and where it comes from
    #[command(after_help = show::EXAMPLES)]
    Show(show::Arguments),
    /// Delete a source with all its versions
    #[command(after_help = rm::EXAMPLES)]
    Rm(rm::Arguments),
    /// Serve agents over the Model Context Protocol, on standard input and output
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(mcp::Arguments),
    /// Store and recall the conversations of an agent, as its hooks
    #[command(subcommand)]
    Hook(hook::Command),
    /// Run background jobs without serving the API
    #[command(after_help = worker::EXAMPLES)]
    Worker,
    /// Migrate the schema of the database and exit
    #[command(after_help = migrate::EXAMPLES)]
    Migrate,
    /// Print the OpenAPI document
    #[command(after_help = openapi::EXAMPLES)]
    Openapi(openapi::Arguments),
    /// Print or check the settings
    #[command(subcommand)]
    Config(config::Command),
    /// Check whether a running memoir is ready; exit with code 0 if it is
    #[command(after_help = healthcheck::EXAMPLES)]
    Healthcheck(healthcheck::Arguments),
    /// Look for problems: settings, database, schema, models
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Arguments),
    /// Serve a scripted model, for tests and benchmarks
    #[cfg(feature = "testing")]
    #[command(hide = true, after_help = scripted_model::EXAMPLES)]
    ScriptedModel(scripted_model::Arguments),
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// Exit code 2.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Exit code 2: the configured database cannot be used.
    #[error("{error}\n  {}", guidance(.error))]
    Start { error: StoreError },
    /// Exit code 1.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl From<BuildError> for CommandError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Configuration(error) => Self::Configuration(error),
            BuildError::Store(error) => Self::Start { error },
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Start { error }
    }
}

/// Runs the command given by the arguments.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && hook::is_meant(std::env::args_os()) => {
            hook::log_misuse(&Origin::of_process(None), &error.to_string());
            return ExitCode::SUCCESS;
        }
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            note_failure(help.print().and_then(|()| std::io::stdout().flush()));
            return ExitCode::from(report_failure());
        }
    };
    let origin = Origin::of_process(arguments.config.as_deref());
    let outcome = match arguments.command.unwrap_or(Command::Serve) {
        Command::Serve => with_config(&origin, serve::run),
        Command::Worker => with_config(&origin, worker::run),
        Command::Ingest(arguments) => ingest::run(&arguments, &origin),
        Command::Ask(arguments) => ask::run(&arguments, &origin),
        Command::Prompt(arguments) => prompt::run(&arguments, &origin),
        Command::Eval(arguments) => eval::run(&arguments, &origin),
        Command::Doc(arguments) => doc::run(&arguments, &origin),
        Command::Search(arguments) => search::run(&arguments, &origin),
        Command::Context(arguments) => context::run(&arguments, &origin),
        Command::Chat(command) => chat::run(&command, &origin),
        Command::List(arguments) => list::run(&arguments, &origin),
        Command::Tree(arguments) => tree::run(&arguments, &origin),
        Command::Categories(arguments) => categories::run(&arguments, &origin),
        Command::Show(arguments) => show::run(&arguments, &origin),
        Command::Rm(arguments) => rm::run(&arguments, &origin),
        Command::Mcp(arguments) => mcp::run(&arguments, &origin),
        Command::Hook(command) => hook::run(&command, &origin),
        Command::Migrate => with_config(&origin, migrate::run),
        Command::Openapi(arguments) => openapi::run(&arguments),
        Command::Config(command) => config::run(&command, &origin),
        Command::Healthcheck(arguments) => healthcheck::run(&arguments, &origin),
        Command::Doctor(arguments) => doctor::run(&arguments, &origin),
        #[cfg(feature = "testing")]
        Command::ScriptedModel(arguments) => scripted_model::run(&arguments),
    };

    crate::telemetry::flush_log();
    let code = match outcome {
        Ok(()) => 0,
        Err(error) => {
            tell(&error.to_string());
            if matches!(error, CommandError::Other(_)) {
                1
            } else {
                2
            }
        }
    };
    ExitCode::from(code.max(report_failure()))
}

/// Loads the settings, starts logging, and runs an asynchronous command.
fn with_config<F>(origin: &Origin, command: impl FnOnce(Config) -> F) -> Result<(), CommandError>
where
    F: Future<Output = Result<(), CommandError>>,
{
    let config = Config::load(origin)?;
    crate::telemetry::start_logging(&config.telemetry);
    let runtime = runtime()?;
    let outcome = runtime.block_on(command(config));

    // A computation whose client is gone is not worth waiting for.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    outcome
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| CommandError::Other(error.into()))
}

/// A number with its noun.
fn counted(count: i64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Writes data to stdout. After a failure nothing more is written, so that no part is missing in the
/// middle, and [`run`] reports it.
fn print(text: &str) {
    if WRITE_FAILURE.get().is_some() {
        return;
    }

    let mut out = std::io::stdout().lock();
    note_failure(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

fn note_failure(written: std::io::Result<()>) {
    if let Err(error) = written {
        let _ = WRITE_FAILURE.set(error);
    }
}

/// Reports that data could not be written, and returns the exit code for it; a closed pipe is not an
/// error.
fn report_failure() -> u8 {
    match WRITE_FAILURE.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            tell(&format!("cannot write to standard output: {error}"));
            1
        }
        _ => 0,
    }
}

/// Writes a line to stderr.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// What to try if the database cannot be used.
fn guidance(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable { .. } => {
            "Check that the database is running, that database.url (or DATABASE_URL) has the \
             right host, port, user and database name, and that no firewall blocks the \
             connection."
        }
        StoreError::CannotOpen { place, .. } if place.starts_with("sqlite") => {
            "Check that the file's folder exists and is writable."
        }
        StoreError::CannotOpen { .. } => {
            "Check that the user, the password and the database name are correct."
        }
        StoreError::NotADatabase { .. } => {
            "Set database.url (or DATABASE_URL) to another file, which is created if it does \
             not exist. If this file was a database, restore it from a backup."
        }
        StoreError::Full { .. } => "Free disk space for the database.",
        _ => "Run memoir doctor for a diagnosis.",
    }
}
