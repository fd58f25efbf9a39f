//! `memoir config`: prints or checks the settings.

use super::{CommandError, print, tell};
use crate::config::{Config, DEFAULT_TOML, Origin};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Print the effective settings as TOML, with secrets masked
    #[command(
        after_help = "Examples:\n  memoir config print\n  memoir config print --defaults > memoir.toml"
    )]
    Print {
        /// Print the compiled-in defaults with their comments instead
        #[arg(long)]
        defaults: bool,
    },
    /// Check the settings; exit with code 2 if any is invalid
    #[command(after_help = "Examples:\n  memoir --config memoir.toml config check")]
    Check,
}

pub fn run(command: &Command, origin: &Origin) -> Result<(), CommandError> {
    match command {
        Command::Print { defaults: true } => print(DEFAULT_TOML),
        Command::Print { defaults: false } => print(&Config::load(origin)?.to_toml()),
        Command::Check => {
            Config::load(origin)?;
            tell("the settings are valid");
        }
    }
    Ok(())
}
