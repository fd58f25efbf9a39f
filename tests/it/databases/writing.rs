//! Writes a folder of stored databases with this build.

use serde_json::{Value, json};

use super::{SETTINGS, content, stored};
use crate::support::database::{TestDatabase, variable};
use crate::support::ingest::Ingest;

/// `scripts/lib/write-databases NAME` runs this; it must be the build of a release, because later
/// builds have to open what it wrote.
#[tokio::test]
#[ignore = "writes files of the repository"]
async fn write_databases() {
    let name = variable("MEMOIR_DATABASES_NAME").expect("the name of the new folder");
    let folder = stored::folder().join(name);
    std::fs::create_dir(&folder).unwrap();

    let databases = TestDatabase::each().await;
    assert_eq!(databases.len(), 3, "every engine must be available");
    for database in databases {
        let ingest = Ingest::on(database, &SETTINGS).await;
        let mut known = content::write(&ingest).await;

        // Without workers, what is queued now is still queued in the file.
        let settings = [&SETTINGS[..], &[("JOBS__WORKERS", "0")]].concat();
        let ingest = ingest.restart(&settings).await;
        known["queued"] = content::queue(&ingest.app, &known).await;
        let mut answers = json!({});
        for space in ["default", "second"] {
            answers[space] = content::read(&ingest.app, space).await;
        }
        known["answers"] = answers;

        let database = std::sync::Arc::clone(&ingest.app.database);
        ingest.app.finish().await;
        stored::save(&database, &folder).await;
        let path = stored::answers(&folder, database.engine);
        std::fs::write(path, pretty(&known)).unwrap();
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}
