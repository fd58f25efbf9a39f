//! The files (A1) that the caller injects. A FULL file is in the prompt byte for byte; of a PACK
//! file, the headings and leading paragraphs, as far as they fit.

use memoir_text::field_error::FieldError;
use memoir_text::framing;
use memoir_text::headings::headings;
use memoir_text::tokens::TokenCounter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::WorkbenchError;
use super::claims::Claims;
use super::word_overlap::Compared;
use super::workspace::Workspace;
use crate::base::clock::Timestamp;
use crate::model::call::CallContext;
use crate::model::source::Source;
use crate::sources::{SourceError, Sources};
use crate::store::{SourceFilter, SourcePage};

/// Maximum number of injected files.
pub const MAX_FILES: usize = 50;

/// How much of a file is injected. `full` (the default): all of it, byte for byte; `pack`: its
/// headings, then its leading paragraphs, within `pack_tokens`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileMode {
    /// All of it, byte for byte.
    #[default]
    Full,
    /// Its headings, then its leading paragraphs, within `pack_tokens`.
    Pack,
}

impl FileMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Pack => "PACK",
        }
    }
}

/// A file to inject, by the id or the path of its source. If the request names an end user, only
/// their sources are found.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PromptFile {
    /// The id of the source; required unless `path` is given.
    pub source_id: Option<String>,
    /// The path of the source, instead of `source_id`.
    pub path: Option<String>,
    /// The version number; the latest if omitted.
    pub version: Option<i64>,
    pub mode: FileMode,
}

/// An injected file.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct InjectedFile {
    pub source_id: String,
    pub filename: String,
    pub path: String,
    pub version: i64,
    pub sha256: String,
    pub mode: FileMode,
    /// Tokens of what is injected.
    pub tokens: usize,
    /// What is injected.
    pub text: String,
    #[serde(skip)]
    #[schema(ignore)]
    pub mtime: Timestamp,
    #[serde(skip)]
    #[schema(ignore)]
    pub compared: Compared,
    #[serde(skip)]
    #[schema(ignore)]
    pub claims: Claims,
}

impl InjectedFile {
    /// The file in the prompt: fenced, between two lines that name it.
    #[must_use]
    pub fn framed(&self) -> String {
        let (path, text) = (framing::name(&self.path), framing::fenced(&self.text));
        let (version, mode, sha256) = (self.version, self.mode.as_str(), &self.sha256);
        format!(
            "File: {path} (version {version}, {mode}, sha256 {sha256})\n{text}\nEnd of file: {path}"
        )
    }
}

/// How much of a file may be injected.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub pack_tokens: usize,
    pub ceiling_tokens: usize,
}

impl Limits {
    #[must_use]
    pub fn of(workspace: &Workspace) -> Self {
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            pack_tokens: whole(workspace.settings.pack_tokens),
            ceiling_tokens: whole(workspace.ceilings.tokens),
        }
    }
}

/// Whose files may be injected.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub call: &'a CallContext,
    /// Only files of this end user; those of all users if `None`.
    pub user_id: Option<&'a str>,
}

/// Reads the files in their order.
///
/// # Errors
/// [`WorkbenchError::Invalid`], that of a source that is not found, or the store's.
pub async fn inject(
    sources: &Sources,
    owner: Owner<'_>,
    wanted: &[PromptFile],
    limits: Limits,
    counter: TokenCounter,
) -> Result<Vec<InjectedFile>, WorkbenchError> {
    check(wanted)?;
    let call = owner.call;
    let mut files: Vec<InjectedFile> = Vec::with_capacity(wanted.len());
    for file in wanted {
        let source = find(sources, owner, file).await?;
        let id = source.id.as_str();
        let found = sources
            .version_as_of(call, id, file.version, None)
            .await?
            .ok_or_else(|| WorkbenchError::NoText(source.path.clone()))?;
        if files
            .iter()
            .any(|one| one.source_id == id && one.version == found.version)
        {
            continue;
        }

        let content = sources.content(call, id, found.version).await?;
        let (mode, text, tokens) = match file.mode {
            FileMode::Full => {
                let tokens = counter.count(&content);
                (FileMode::Full, content, tokens)
            }
            FileMode::Pack => {
                let content = framing::body(&content);
                let (text, tokens) = pack(&content, limits.pack_tokens, counter);
                (FileMode::Pack, text, tokens)
            }
        };
        // A file over the ceiling is refused, so nothing is compared with it.
        let (compared, claims) = if tokens <= limits.ceiling_tokens {
            (Compared::new(&text), Claims::new(&text))
        } else {
            Default::default()
        };
        files.push(InjectedFile {
            source_id: id.to_owned(),
            filename: source.filename,
            path: source.path,
            version: found.version,
            sha256: found.facts.sha256,
            mode,
            tokens,
            compared,
            claims,
            text,
            mtime: found.facts.mtime.unwrap_or(found.ingested_at),
        });
    }

    Ok(files)
}

fn check(wanted: &[PromptFile]) -> Result<(), WorkbenchError> {
    let mut errors = Vec::new();
    if wanted.len() > MAX_FILES {
        let rule = format!("must have at most {MAX_FILES} entries");
        errors.push(FieldError::new("files", rule));
    }
    for (place, file) in wanted.iter().enumerate() {
        if file.source_id.is_some() == file.path.is_some() {
            errors.push(FieldError::new(
                format!("files[{place}]"),
                "must have either source_id or path",
            ));
        }
    }

    if errors.is_empty() {
        Ok(())
    } else {
        Err(WorkbenchError::Invalid(errors))
    }
}

async fn find(
    sources: &Sources,
    owner: Owner<'_>,
    file: &PromptFile,
) -> Result<Source, WorkbenchError> {
    if let Some(id) = &file.source_id {
        let found = sources.find(owner.call, id).await?;
        // A source of another user is treated as not found.
        return if owner.user_id.is_none_or(|user| found.user_id == user) {
            Ok(found)
        } else {
            Err(SourceError::NotFound(found.id.to_string()).into())
        };
    }

    let path = file.path.clone().unwrap_or_default();
    let filter = SourceFilter {
        path: Some(path.clone()),
        user_id: owner.user_id.map(str::to_owned),
        ..SourceFilter::default()
    };
    let page = SourcePage {
        limit: 1,
        ..SourcePage::default()
    };
    let found = sources.list(owner.call, &filter, &page).await?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| WorkbenchError::NoFile(path.chars().take(200).collect()))
}

/// The headings of a text, then its leading paragraphs, within so many tokens.
fn pack(text: &str, most: usize, counter: TokenCounter) -> (String, usize) {
    let whole = counter.count(text);
    if whole <= most {
        return (text.to_owned(), whole);
    }

    let mut packed = String::new();
    for heading in headings(text) {
        let line = format!("- {}\n", heading.text);
        if counter.count(&packed) + counter.count(&line) > most / 2 {
            break;
        }
        packed.push_str(&line);
    }

    for paragraph in text.split("\n\n").filter(|one| !one.trim().is_empty()) {
        let joint = if packed.is_empty() { "" } else { "\n" };
        let longer = format!("{packed}{joint}{}\n", paragraph.trim());
        if counter.count(&longer) > most {
            break;
        }
        packed = longer;
    }

    if packed.is_empty() {
        text[..counter.prefix(text, most)].clone_into(&mut packed);
    }
    let tokens = counter.count(&packed);
    (packed, tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_has_headings_and_leading_paragraphs_and_fits() {
        let counter = TokenCounter::for_model(None);
        let parts: Vec<String> = (1..=40)
            .map(|n| format!("# Part {n}\n\nThis is paragraph number {n} of the text.\n\n"))
            .collect();
        let text = parts.concat();
        let (packed, tokens) = pack(&text, 120, counter);
        assert!(tokens <= 120 && tokens > 60, "{tokens}");
        assert!(packed.starts_with("- Part 1\n- Part 2\n"), "{packed}");
        assert!(packed.contains("This is paragraph number 1 of the text."));
        assert!(!packed.contains("number 40"));
        assert_eq!(pack(&text, 120, counter).0, packed);
        assert_eq!(pack("Short.\n", 50, counter).0, "Short.\n");

        let line = "word ".repeat(500);
        assert!(pack(&line, 50, counter).1 <= 50);
    }
}
