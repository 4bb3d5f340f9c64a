//! The parts of messages and tool outputs: text, images and files.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use turnwire_contract::{Content, Image, LibraryAddress};

use super::resolved::{FoundFile, ResolvedReferences};
use crate::{
    client_error::{ClientError, shown},
    field_tracker::FieldTracker,
    fields::{Fields, placed},
};

/// Reads an array of images and files in the field `path`. Fields that have no effect are refused:
/// a chat has no place to report them.
pub fn read_attachments(
    list: &[Value],
    path: &str,
    references_found: &ResolvedReferences,
) -> Result<Vec<Content>, ClientError> {
    let unread = FieldTracker::within(&references_found.limits);
    let read = |(path, part): (String, &Value)| {
        let part = Fields::of(part, &path, &unread)?;
        let content = match part.needed_text("type")? {
            "input_image" => read_image(&part, references_found)?,
            "input_file" => read_file(&part, references_found)?,
            other => return Err(unsupported(&part, other)),
        };
        part.refuse_others(&[])?;
        Ok(content)
    };
    placed(list, path).map(read).collect()
}

/// The content of a message: a string, or an array of parts.
pub(super) fn read_content(
    message: &Fields<'_>,
    references_found: &ResolvedReferences,
) -> Result<Vec<Content>, ClientError> {
    match needed(message, "content")? {
        Value::String(text) => Ok(vec![Content::text(text)]),
        Value::Array(parts) => placed(parts, &message.path_of("content"))
            .map(|(path, part)| read_part(&message.inner(part, &path)?, references_found))
            .collect(),
        other => Err(not_content(message, "content", other)),
    }
}

/// The output of a function: a string, or an array of parts. Texts are joined by line breaks.
pub(super) fn read_output(
    item: &Fields<'_>,
    references_found: &ResolvedReferences,
) -> Result<(String, Vec<Image>), ClientError> {
    let parts = match needed(item, "output")? {
        Value::String(text) => return Ok((text.clone(), Vec::new())),
        Value::Array(parts) => parts,
        other => return Err(not_content(item, "output", other)),
    };
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for (path, part) in placed(parts, &item.path_of("output")) {
        let part = item.inner(part, &path)?;
        match read_part(&part, references_found)? {
            Content::Text { text } | Content::Refusal { text } => texts.push(text),
            Content::Image { url, detail } => {
                if detail.is_some() {
                    part.report("detail");
                }
                images.push(carried_image(&url, &path)?);
            }
            Content::File { name, url } => {
                texts.push(words_of_file(&name, &url, references_found, &path)?);
            }
        }
    }
    Ok((texts.join("\n"), images))
}

fn needed<'a>(item: &Fields<'a>, name: &str) -> Result<&'a Value, ClientError> {
    item.value(name).ok_or_else(|| ClientError::missing(item.path_of(name)))
}

fn not_content(item: &Fields<'_>, name: &str, value: &Value) -> ClientError {
    ClientError::wrong_type(item.path_of(name), "a string or a list of parts", value)
}

fn read_part(
    part: &Fields<'_>,
    references_found: &ResolvedReferences,
) -> Result<Content, ClientError> {
    match part.needed_text("type")? {
        "input_text" | "output_text" | "text" => Ok(Content::text(part.needed_text("text")?)),
        "refusal" => Ok(Content::Refusal { text: part.needed_text("refusal")?.to_owned() }),
        "input_image" => read_image(part, references_found),
        "input_file" => read_file(part, references_found),
        other => Err(unsupported(part, other)),
    }
}

fn unsupported(part: &Fields<'_>, kind: &str) -> ClientError {
    let message = format!("Parts of the type `{}` are not supported.", shown(kind));
    ClientError::new("unsupported_content", part.path_of("type"), message)
}

fn read_image(
    part: &Fields<'_>,
    references_found: &ResolvedReferences,
) -> Result<Content, ClientError> {
    let detail = part.word("detail", &["auto", "low", "high", "original"])?.map(str::to_owned);
    if let Some(url) = part.text("image_url")? {
        let is_picture = |carried: DataUrl<'_>| carried.media_type.starts_with("image/");
        if !is_web_address(url) && !carried(url).is_some_and(is_picture) {
            let path = part.path_of("image_url");
            let message =
                format!("`{path}` must be an http address or a base64 data URL of a picture.");
            return Err(ClientError::invalid(path, message));
        }
        return Ok(Content::Image { url: url.to_owned(), detail });
    }
    match part.text("file_id")? {
        Some(id) => {
            Ok(Content::Image { url: found(part, id, references_found)?.url.clone(), detail })
        }
        None => Err(ClientError::missing(part.path_of("image_url"))),
    }
}

fn read_file(
    part: &Fields<'_>,
    references_found: &ResolvedReferences,
) -> Result<Content, ClientError> {
    let name = part.owned_text("filename")?;
    if let Some(data) = part.text("file_data")? {
        let name = name.unwrap_or_else(|| "file".to_owned());
        let Some(url) = data_url_of(data, &name) else {
            let path = part.path_of("file_data");
            let message = format!("`{path}` must be base64, or a base64 data URL.");
            return Err(ClientError::invalid(path, message));
        };
        return Ok(Content::File { name, url });
    }
    if let Some(url) = part.text("file_url")? {
        if !is_web_address(url) {
            let path = part.path_of("file_url");
            let message = format!("`{path}` must be an http address.");
            return Err(ClientError::invalid(path, message));
        }
        let name = name.unwrap_or_else(|| last_segment(url).to_owned());
        return Ok(Content::File { name, url: url.to_owned() });
    }
    let Some(id) = part.text("file_id")? else {
        return Err(ClientError::missing(part.path_of("file_data")));
    };
    let file = found(part, id, references_found)?;
    Ok(Content::File { name: name.unwrap_or_else(|| file.name.clone()), url: file.url.clone() })
}

fn found<'a>(
    part: &Fields<'_>,
    id: &str,
    references_found: &'a ResolvedReferences,
) -> Result<&'a FoundFile, ClientError> {
    references_found.files.get(id).ok_or_else(|| {
        let message = format!("There is no file `{}`.", shown(id));
        ClientError::not_found("file_not_found", part.path_of("file_id"), message)
    })
}

/// The content of a `data:` URL.
#[derive(Clone, Copy)]
struct DataUrl<'a> {
    media_type: &'a str,
    base64: &'a str,
}

fn carried(url: &str) -> Option<DataUrl<'_>> {
    let (meta, base64) = url.strip_prefix("data:")?.split_once(',')?;
    let meta = meta.strip_suffix(";base64")?;
    let media_type = meta.split(';').next().unwrap_or_default();
    BASE64_STANDARD.decode(base64).is_ok().then_some(DataUrl { media_type, base64 })
}

/// A `data:` URL for base64 content, with the media type by file extension.
fn data_url_of(data: &str, name: &str) -> Option<String> {
    if data.starts_with("data:") {
        return carried(data).map(|_| data.to_owned());
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let media_type = match extension.as_deref() {
        Some("pdf") => "application/pdf",
        Some("json") => "application/json",
        Some("txt") => "text/plain",
        Some("md") => "text/markdown",
        Some("csv") => "text/csv",
        Some("html" | "htm") => "text/html",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    };
    let url = format!("data:{media_type};base64,{data}");
    carried(&url).is_some().then_some(url)
}

fn carried_image(url: &str, path: &str) -> Result<Image, ClientError> {
    if let Some(LibraryAddress { media_type, .. }) = LibraryAddress::of(url)
        && media_type.starts_with("image/")
    {
        return Ok(Image { media_type, base64: url.to_owned() });
    }
    let Some(DataUrl { media_type, base64 }) = carried(url) else {
        let message = "A picture in the output of a tool must come as a base64 data URL.";
        return Err(ClientError::invalid(format!("{path}.image_url"), message));
    };
    Ok(Image { media_type: media_type.to_owned(), base64: base64.to_owned() })
}

fn words_of_file(
    name: &str,
    url: &str,
    references_found: &ResolvedReferences,
    path: &str,
) -> Result<String, ClientError> {
    let is_text = |carried: &DataUrl<'_>| {
        carried.media_type.starts_with("text/") || carried.media_type == "application/json"
    };
    let words = match LibraryAddress::of(url) {
        Some(kept) => {
            references_found.files.get(kept.file_id.as_str()).and_then(|file| file.text.clone())
        }
        None => carried(url)
            .filter(is_text)
            .and_then(|carried| BASE64_STANDARD.decode(carried.base64).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok()),
    };
    words.map(|words| format!("{name}:\n{words}")).ok_or_else(|| {
        let message = "A file in the output of a tool must be a text of at most 1 MiB: uploaded, \
                       or as a base64 data URL.";
        ClientError::invalid(path, message)
    })
}

/// Whether it is an HTTP URL. The provider fetches it; the gateway never does.
pub(super) fn is_web_address(url: &str) -> bool {
    let begins = |scheme: &str| {
        url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
            && url.len() > scheme.len()
    };
    begins("https://") || begins("http://")
}

fn last_segment(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, path) = path.split_once("://").unwrap_or_default();
    match path.split_once('/').map(|(_, path)| path.rsplit('/').next().unwrap_or_default()) {
        None | Some("") => "file",
        Some(segment) => segment,
    }
}
