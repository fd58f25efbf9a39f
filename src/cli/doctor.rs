//! `memoir doctor`: looks for problems and suggests fixes. Changes nothing.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use super::{CommandError, guidance, print, runtime};
use crate::base::clock::{Clock as _, SystemClock};
use crate::base::ids::{Space, new_uuid};
use crate::config::{Config, Origin};
use crate::llm::{Llm, Session};
use crate::model::call::CallContext;
use crate::store::{SCHEMA_VERSION, Store};

pub const EXAMPLES: &str = "\
Examples:
  memoir doctor
  memoir doctor --probe-llm                       also send one tiny request to each configured model
  DATABASE_URL=postgres://memoir:PASSWORD@localhost/memoir memoir doctor";

#[derive(clap::Args)]
pub struct Arguments {
    /// Send one tiny request to each configured model, which may cost a few tokens
    #[arg(long)]
    probe_llm: bool,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let config = Config::load(origin)?;
    print(&format!(
        "ok    settings: listening on {}, {} API keys\n",
        config.server.listen,
        config.auth.keys.len()
    ));

    check_address(config.server.listen);
    let runtime = runtime()?;
    let database = runtime.block_on(check_database(&config))?;
    let models = runtime.block_on(check_models(&config, arguments.probe_llm))?;
    if database && models {
        return Ok(());
    }

    Err(anyhow::anyhow!("there are problems; see the lines above").into())
}

async fn check_database(config: &Config) -> Result<bool, CommandError> {
    let place = config.database.url.to_string();
    if let Some(file) = config
        .database
        .url
        .sqlite_file()
        .filter(|file| !file.exists())
    {
        return Ok(check_folder(file));
    }
    let store = match Store::connect(&config.database).await {
        Ok(store) => store,
        Err(error) => {
            print(&format!(
                "FAIL  database: {error}\n      {}\n",
                guidance(&error)
            ));
            return Ok(false);
        }
    };

    print(&format!("ok    database: {place} responds\n"));
    let version = store.schema_version().await?;
    let mut sound = true;

    match version {
        SCHEMA_VERSION => print(&format!("ok    schema: version {version}\n")),
        older if older < SCHEMA_VERSION => {
            print(&format!(
                "note  schema: version {older}; memoir migrates it to {SCHEMA_VERSION} at \
                 its next start\n"
            ));
            store.close().await;
            return Ok(true);
        }
        newer => {
            sound = false;
            print(&format!(
                "FAIL  schema: version {newer} is newer than this memoir supports \
                 ({SCHEMA_VERSION})\n"
            ));
            print("      Start the memoir version that created it, or a later one.\n");
        }
    }

    for missing in store.find_missing().await? {
        sound = false;
        print(&format!(
            "FAIL  schema: {missing} is missing; it may have been dropped\n"
        ));
        print("      Restore it from a backup, or create it as in migrations/.\n");
    }

    store.close().await;
    Ok(sound)
}

/// Reports which models are available, and probes them if requested. Nothing is written to the
/// ledger, because that would change the database.
async fn check_models(config: &Config, probe: bool) -> Result<bool, CommandError> {
    let names = [&config.llm.model, &config.llm.fallback_model]
        .into_iter()
        .chain(config.llm.models.values());
    let mut models: Vec<&String> = names.filter(|name| !name.is_empty()).collect();
    models.dedup();

    if !probe {
        print(&format!(
            "ok    model: {} (memoir doctor --probe-llm tests it)\n",
            config.llm.model
        ));
        return Ok(true);
    }

    let folder = std::env::temp_dir().join(format!("memoir-doctor-{}", new_uuid()));
    std::fs::create_dir(&folder).map_err(anyhow::Error::from)?;
    let asked = ask_all(config, &folder, &models).await;
    let _ = std::fs::remove_dir_all(&folder);

    asked
}

async fn ask_all(config: &Config, folder: &Path, models: &[&String]) -> Result<bool, CommandError> {
    let url = format!("sqlite://{}/ledger.db", folder.display());
    let environment = HashMap::from([("DATABASE_URL".to_owned(), url)]);
    let throwaway = Config::load(&Origin {
        file: None,
        environment,
    })?;

    let store = Store::connect(&throwaway.database).await?;
    store.migrate().await?;
    let llm = Llm::new(
        config.llm.clone(),
        config.audit,
        "",
        store.clone(),
        Arc::new(SystemClock),
    );
    let mut sound = true;

    for model in models {
        let call = CallContext::new(Space::default(), SystemClock.now());
        let session = Session::of_caller(call).with_model(Some((*model).clone()));
        let failed = match llm.probe(session).await {
            Ok(result) => result.error,
            Err(error) => Some(error),
        };

        match failed {
            None => print(&format!("ok    model: {model} responds\n")),
            Some(error) => {
                sound = false;
                print(&format!(
                    "FAIL  model: {error}\n      {}\n",
                    error.remediation()
                ));
            }
        }
    }

    llm.close().await;
    store.close().await;
    Ok(sound)
}

/// A SQLite file that does not exist yet: connecting would create it, so only its folder is
/// checked.
fn check_folder(file: &Path) -> bool {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));

    if tempfile_in(folder) {
        print(&format!(
            "ok    database: {} does not exist yet; memoir creates it at its first start\n",
            file.display()
        ));
        return true;
    }

    print(&format!(
        "FAIL  database: {} cannot be created\n",
        file.display()
    ));

    print("      Check that its folder exists and is writable.\n");
    false
}

/// Whether a file can be created in a folder.
fn tempfile_in(folder: &Path) -> bool {
    let probe = folder.join(format!(".memoir-doctor-{}", std::process::id()));
    let made = std::fs::File::create_new(&probe).is_ok();
    let _ = std::fs::remove_file(&probe);
    made
}

/// Whether the address is free. If memoir already runs there, that is fine.
fn check_address(address: SocketAddr) {
    match TcpListener::bind(address) {
        Ok(_) => print(&format!("ok    address: {address} is free\n")),
        Err(error) => print(&format!(
            "note  address: {address} is not available ({error}); is memoir already running?\n"
        )),
    }
}
