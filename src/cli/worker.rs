//! `memoir worker`: runs jobs without serving the API, to add capacity to one database.

use std::sync::Arc;

use super::CommandError;
use super::serve::stop_on_signal;
use crate::app::App;
use crate::base::clock::SystemClock;
use crate::config::Config;

pub const EXAMPLES: &str = "\
Shares the jobs with all other processes on the same database. `memoir serve` runs jobs too, unless jobs.workers is 0.

Examples:
  DATABASE_URL=postgres://memoir:PASSWORD@localhost/memoir memoir worker
  MEMOIR__JOBS__WORKERS=8 memoir worker";

pub async fn run(config: Config) -> Result<(), CommandError> {
    let stop = stop_on_signal()?;
    let workers = config.jobs.workers;
    let app = App::build(config, Arc::new(SystemClock)).await?;
    tracing::info!(workers, "memoir is ready to work");
    Box::pin(app.work(stop)).await;
    tracing::info!("memoir has stopped");

    Ok(())
}
