//! A file uploaded as a form: `file`, and `metadata` with the fields of the JSON form.

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use futures_util::stream;
use memoir_text::text::basename;

use super::CreateIngestionRequest;
use crate::base::problems;
use crate::http::error::ApiError;
use crate::http::extract;
use crate::model::source::TEXT_TYPES;

/// Parses a form that has been received in full.
pub async fn read(headers: &HeaderMap, bytes: Bytes) -> Result<CreateIngestionRequest, ApiError> {
    let named = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();

    let boundary = multer::parse_boundary(named).map_err(|error| broken(&error))?;
    let whole = stream::once(async { Ok::<_, std::convert::Infallible>(bytes) });
    let mut form = multer::Multipart::new(whole, boundary);
    let mut file: Option<(Option<String>, Bytes)> = None;
    let mut metadata: Option<Bytes> = None;

    while let Some(field) = form.next_field().await.map_err(|error| broken(&error))? {
        let name = field.name().unwrap_or_default().to_owned();
        let filename = field.file_name().map(str::to_owned);
        let content = field.bytes().await.map_err(|error| broken(&error))?;

        let twice = match name.as_str() {
            "file" => file.replace((filename, content)).is_some(),
            "metadata" => metadata.replace(content).is_some(),
            _ => {
                return Err(ApiError::invalid_field(
                    name,
                    "unknown field; a form has only the fields `file` and `metadata`",
                ));
            }
        };

        if twice {
            return Err(ApiError::invalid_field(name, "must appear only once"));
        }
    }

    let Some((filename, content)) = file else {
        return Err(ApiError::invalid_field("file", "missing field `file`"));
    };
    let mut request: CreateIngestionRequest = match metadata {
        Some(metadata) => extract::parse(&metadata).map_err(|error| {
            if error.errors.is_empty() {
                ApiError::invalid_field("metadata", error.detail.as_str())
            } else {
                error
            }
        })?,
        None => CreateIngestionRequest::default(),
    };

    if request.text.is_some() {
        return Err(ApiError::invalid_field(
            "metadata.text",
            "must not be set: the text is in the part `file`",
        ));
    }

    request.filename = request.filename.or(filename);
    let name = request
        .filename
        .as_deref()
        .or(request.path.as_deref())
        .map(basename);

    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(ApiError::invalid_field(
            "filename",
            "must be set in the part `file` or in `metadata`",
        ));
    };

    check_type(name)?;
    let text = String::from_utf8(content.into())
        .map_err(|_| ApiError::invalid_field("file", "must be UTF-8 text"))?;
    request.text = Some(text);
    Ok(request)
}

/// Whether the file extension is supported.
pub fn check_type(name: &str) -> Result<(), ApiError> {
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    if extension.is_some_and(|extension| TEXT_TYPES.contains(&extension.as_str())) {
        return Ok(());
    }

    let types: Vec<String> = TEXT_TYPES.iter().map(|kind| format!(".{kind}")).collect();
    Err(ApiError::new(
        problems::UNSUPPORTED_FILE_TYPE,
        format!(
            "the file type of {name:?} is not supported; supported types: {}",
            types.join(", ")
        ),
    )
    .with("supported", types))
}

fn broken(error: &multer::Error) -> ApiError {
    ApiError::malformed(format!("the form cannot be parsed: {error}")).fix(
        "Send multipart/form-data with a boundary, a part named file, and optionally a part \
             named metadata.",
    )
}
