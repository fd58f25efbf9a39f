//! `memoir migrate`: migrates the schema and exits.

use super::{CommandError, print};
use crate::config::Config;
use crate::store::{SCHEMA_VERSION, Store};

pub const EXAMPLES: &str = "\
`memoir serve` also migrates when it starts; use this command to migrate as another user or at another time.

Examples:
  memoir migrate
  DATABASE_URL=postgres://owner:PASSWORD@localhost/memoir memoir migrate";

pub async fn run(config: Config) -> Result<(), CommandError> {
    let store = Store::connect(&config.database).await?;
    let migrated = store.migrate().await?;
    for name in &migrated.applied {
        print(&format!("applied {name}\n"));
    }

    print(&format!("schema version {SCHEMA_VERSION}\n"));
    store.close().await;
    Ok(())
}
