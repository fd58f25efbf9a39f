//! `memoir doc`: prints one version of a source, selected by name, topic and time.

use serde_json::{Map, Value, json};

use super::client::{Connection, post_once, pretty};
use super::{CommandError, print, tell};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir doc plan.md > plan.md                           the latest version, from the memoir running on this machine
  memoir doc plan.md --as-of 2026-01-31T12:00:00Z        the version that was current at that time
  memoir doc plan.md --strategy earliest --local         the first version, without a running memoir
  memoir doc --topic 'memory design' --tag docs --strategy score   by topic, without a name
  memoir doc --query 'refund policy' --strategy score    the source whose text matches best
  memoir doc plan.md --json | jq .metadata               with its metadata

Writes the text to stdout, byte for byte. A name, a tag or a time that matches nothing is an error; with --relax it is
ignored, with a note on stderr.";

#[derive(clap::Args)]
pub struct Arguments {
    /// The file name
    #[arg(value_name = "FILENAME")]
    filename: Option<String>,
    /// What the source is about
    #[arg(long, value_name = "TEXT")]
    topic: Option<String>,
    /// Notes about the source
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Where the source comes from
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// A tag that the source must have; if repeated, it must have all of these tags
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// A search query, instead of the name or the topic
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Which of the matching versions to print: `latest` (the default), `earliest`, `longest`, or
    /// `score` for the best match
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Print the version that was current at this time, e.g. 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// The end user who owns the source; by default, `default`
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Maximum number of versions to score; by default, 50
    #[arg(short, value_name = "COUNT")]
    k: Option<i64>,
    /// Ignore a name, a tag or a time that matches nothing, instead of failing
    #[arg(long)]
    relax: bool,
    /// With --json: show the candidates
    #[arg(long, requires = "json")]
    explain: bool,
    /// Print the version and its metadata as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn run(arguments: &Arguments, origin: &Origin) -> Result<(), CommandError> {
    let found = post_once(
        &arguments.connection,
        origin,
        "/v1/documents/retrieve",
        &arguments.request(),
    )?;

    if arguments.json {
        print(&pretty(&found));
        return Ok(());
    }

    print(found["content"].as_str().unwrap_or_default());
    for relaxed in found["relaxed"].as_array().into_iter().flatten() {
        let said = |field: &str| relaxed[field].as_str().unwrap_or_default();
        tell(&format!(
            "note: ignored {}: {}",
            said("filter"),
            said("reason")
        ));
    }

    for warning in found["warnings"].as_array().into_iter().flatten() {
        tell(&format!(
            "note: {}",
            warning["message"].as_str().unwrap_or_default()
        ));
    }

    Ok(())
}

impl Arguments {
    fn request(&self) -> Value {
        let meta = json!({
            "filename": self.filename, "topic": self.topic, "note": self.note, "provider": self.provider,
            "tags": self.tags, "query": self.query,
        });

        let mut request = Map::new();
        request.insert("meta".to_owned(), meta);
        for (name, value) in [
            (
                "strategy",
                self.strategy.as_ref().map(|strategy| json!(strategy)),
            ),
            ("as_of", self.as_of.as_ref().map(|moment| json!(moment))),
            ("user_id", self.user.as_ref().map(|user| json!(user))),
            ("k", self.k.map(|k| json!(k))),
            ("strict", (!self.relax).then(|| json!(true))),
            ("explain", self.explain.then(|| json!(true))),
        ] {
            if let Some(value) = value {
                request.insert(name.to_owned(), value);
            }
        }

        Value::Object(request)
    }
}
