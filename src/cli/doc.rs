//! `memoir doc`: one source, by its name, what it is about and a time, to stdout.

use serde_json::{Map, Value, json};

use super::client::{Connection, post_once, pretty};
use super::{CommandError, print, tell};
use crate::config::Origin;

pub const EXAMPLES: &str = "\
Examples:
  memoir doc plan.md > plan.md                           its latest version, of the memoir that runs on this machine
  memoir doc plan.md --as-of 2026-01-31T12:00:00Z        as it was then
  memoir doc plan.md --strategy earliest --local         its first version, without a running memoir
  memoir doc --topic 'memory design' --tag docs --strategy score   without its name, by what it is about
  memoir doc --query 'refund policy' --strategy score    the one whose words fit best
  memoir doc plan.md --strict --json | jq .metadata      nothing but that file, with all that is known of it

The document goes to stdout to the byte. What did not fit and was left out goes to stderr; with --strict it is an error.";

#[derive(clap::Args)]
pub struct Arguments {
    /// The file's name
    #[arg(value_name = "FILENAME")]
    filename: Option<String>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    topic: Option<String>,
    /// What else was said of it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Where it comes from
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// A tag that it carries; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// What to look for, instead of the name or the topic
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Which of the versions that fit: `latest`, `earliest`, `longest` or `score`
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// The newest version of this moment, with its offset
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// The end user whose source it is
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Most versions that are looked at more closely
    #[arg(short, value_name = "COUNT")]
    k: Option<i64>,
    /// Fail where a name, a tag or a time fits nothing, instead of leaving it out
    #[arg(long)]
    strict: bool,
    /// With --json: show what was looked at
    #[arg(long, requires = "json")]
    explain: bool,
    /// Print all that is known of it as JSON
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
            "note: {} was left out: {}",
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
            ("strict", self.strict.then(|| json!(true))),
            ("explain", self.explain.then(|| json!(true))),
        ] {
            if let Some(value) = value {
                request.insert(name.to_owned(), value);
            }
        }

        Value::Object(request)
    }
}
