//! `memoir doctor`: looks for what is wrong and says what to do. Changes nothing.

use super::{CommandError, guidance, print, runtime};
use crate::config::{Config, Origin};
use crate::store::{SCHEMA_VERSION, Store};

pub const EXAMPLES: &str = "\
Examples:
  memoir doctor
  DATABASE_URL=postgres://memoir:PASSWORD@localhost/memoir memoir doctor";

pub fn run(origin: &Origin) -> Result<(), CommandError> {
    let config = Config::load(origin)?;
    print(&format!("ok    settings: listening on {}, {} API keys\n", config.server.listen, config.auth.keys.len()));
    if runtime()?.block_on(check_database(&config))? {
        return Ok(());
    }
    Err(anyhow::anyhow!("something needs attention; see the lines above").into())
}

async fn check_database(config: &Config) -> Result<bool, CommandError> {
    let place = config.database.url.to_string();
    if let Some(path) = missing_file(config) {
        print(&format!("ok    database: {path} is not there yet; memoir makes it at its first start\n"));
        return Ok(true);
    }
    let store = match Store::connect(&config.database).await {
        Ok(store) => store,
        Err(error) => {
            print(&format!("FAIL  database: {error}\n      {}\n", guidance(&error)));
            return Ok(false);
        }
    };
    print(&format!("ok    database: {place} answers\n"));
    let version = store.schema_version().await?;
    let mut sound = true;
    match version {
        SCHEMA_VERSION => print(&format!("ok    schema: version {version}\n")),
        older if older < SCHEMA_VERSION => {
            print(&format!("note  schema: version {older}; memoir brings it to {SCHEMA_VERSION} at its next start\n"));
            store.close().await;
            return Ok(true);
        }
        newer => {
            sound = false;
            print(&format!("FAIL  schema: version {newer}, newer than this memoir knows ({SCHEMA_VERSION})\n"));
            print("      Start the memoir that made it, or a later one.\n");
        }
    }
    for missing in store.find_missing().await? {
        sound = false;
        print(&format!("FAIL  schema: {missing} is missing; someone dropped it\n"));
        print("      Restore it from a backup, or create it as in migrations/.\n");
    }
    store.close().await;
    Ok(sound)
}

/// A SQLite file that does not exist yet: connecting would make it.
fn missing_file(config: &Config) -> Option<String> {
    let url = config.database.url.expose().strip_prefix("sqlite:")?;
    let path = url.trim_start_matches("//").split('?').next().unwrap_or_default();
    (path != ":memory:" && !std::path::Path::new(path).exists()).then(|| path.to_owned())
}
