//! `memoir mcp install`: the settings that make an agent start `memoir mcp`. A key is never among them: it comes from
//! the environment.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::settings_file::{self, Change, Member, Table};
use crate::cli::{CommandError, print, tell};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir mcp install claude-code                 print the settings, and the file that they belong to
  memoir mcp install codex --write               write them; the former file is kept as .bak
  memoir mcp install zed --user ann --server http://127.0.0.1:8080

An API key is never written: set MEMOIR_KEY where the agent runs.";

/// Variables that memoir reads: their names, never their values.
const HANDED_ON: [&str; 4] = [
    "MEMOIR_KEY",
    "MEMOIR_SERVER",
    "MEMOIR_CONFIG",
    "XDG_DATA_HOME",
];

#[derive(clap::Args)]
pub struct Installation {
    /// The agent
    #[arg(value_enum)]
    agent: Agent,
    /// Change the agent's settings file, instead of printing what belongs there
    #[arg(long)]
    write: bool,
    /// The settings file; by default, the one that the agent reads
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// URL of the memoir to use; by default, the one on this machine, or a store of its own
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The space to work in
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// The end user whose memory it is
    #[arg(long, value_name = "ID")]
    user: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Agent {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Zed,
    Codex,
}

pub fn run(installation: &Installation, origin: &Origin) -> Result<(), CommandError> {
    let agent = installation.agent;
    let file = match &installation.file {
        Some(file) => file.clone(),
        None => agent
            .file(origin)
            .context("cannot find the home folder: set HOME, or name the file with --file")?,
    };
    let command = this_program()?;
    let arguments = installation.arguments();
    if installation.write {
        settings_file::write(&file, agent.change(&command, &arguments).as_ref())?;
        tell(agent.next());
    } else {
        let settings = agent.change(&command, &arguments).apply("")?;
        print(&settings);
        tell(&format!(
            "These settings belong into {}; --write puts them there.",
            file.display()
        ));
    }

    Ok(())
}

/// The path of this program: an agent with windows has no `PATH` of a shell.
pub fn this_program() -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let program = program.into_os_string().into_string();
    program
        .ok()
        .context("the path of this program must be UTF-8")
}

impl Installation {
    fn arguments(&self) -> Vec<String> {
        let options = [
            ("--server", &self.server),
            ("--space", &self.space),
            ("--user", &self.user),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let given = given.flat_map(|(name, value)| [name.to_owned(), value.clone()]);
        std::iter::once("mcp".to_owned()).chain(given).collect()
    }
}

impl Agent {
    /// The file that the agent reads: of the current folder, where it reads one there, or of the user.
    fn file(self, origin: &Origin) -> Option<PathBuf> {
        let variable = |name: &str| origin.environment.get(name).map(PathBuf::from);
        let home = || variable("HOME").filter(|home| home.is_absolute());
        let settings = || {
            variable("XDG_CONFIG_HOME")
                .filter(|path| path.is_absolute())
                .or_else(|| Some(home()?.join(".config")))
        };
        Some(match self {
            Self::ClaudeCode => PathBuf::from(".mcp.json"),
            Self::ClaudeDesktop if cfg!(target_os = "macos") => {
                home()?.join("Library/Application Support/Claude/claude_desktop_config.json")
            }
            Self::ClaudeDesktop => settings()?.join("Claude/claude_desktop_config.json"),
            Self::Cursor => home()?.join(".cursor/mcp.json"),
            Self::Vscode => PathBuf::from(".vscode/mcp.json"),
            Self::Zed => settings()?.join("zed/settings.json"),
            Self::Codex => variable("CODEX_HOME")
                .or_else(|| Some(home()?.join(".codex")))?
                .join("config.toml"),
        })
    }

    fn change(self, command: &str, arguments: &[String]) -> Box<dyn Change> {
        let member = |within, value: Value| {
            Box::new(Member {
                within,
                name: "memoir",
                value,
            })
        };
        match self {
            Self::ClaudeCode | Self::Vscode => {
                let within = if self == Self::Vscode {
                    "servers"
                } else {
                    "mcpServers"
                };
                member(
                    within,
                    json!({"type": "stdio", "command": command, "args": arguments}),
                )
            }
            Self::ClaudeDesktop | Self::Cursor => {
                member("mcpServers", json!({"command": command, "args": arguments}))
            }
            Self::Zed => member(
                "context_servers",
                json!({"command": command, "args": arguments, "env": {}}),
            ),
            Self::Codex => Box::new(Table {
                within: "mcp_servers",
                name: "memoir",
                values: vec![
                    ("command", command.into()),
                    ("args", arguments.iter().collect()),
                    // Codex hands on the variables that are named, and few others.
                    ("env_vars", HANDED_ON.into_iter().collect()),
                ],
            }),
        }
    }

    /// What is left to do.
    fn next(self) -> &'static str {
        match self {
            Self::ClaudeCode => {
                "Start claude in this folder, and allow the server memoir when it asks."
            }
            Self::ClaudeDesktop => "Restart Claude Desktop.",
            Self::Cursor => "Restart Cursor, and look at Settings > MCP.",
            Self::Vscode => "Open this folder in VS Code, and start the server memoir.",
            Self::Zed => "Zed starts the server by itself.",
            Self::Codex => "Start codex; /mcp shows the server.",
        }
    }
}
