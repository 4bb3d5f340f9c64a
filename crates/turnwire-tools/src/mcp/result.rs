//! Converts a tool result, with size limits.

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;
use turnwire_contract::{Image, ToolError, ToolOutput, json_size};

/// Message for a failure without text.
const NO_ERROR_TEXT: &str = "the tool failed without a message";

/// Maximum size of the text and structured content of a result.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of images, and the maximum size of each in base64.
const MAX_IMAGES: usize = 16;
const MAX_IMAGE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum length of a media type.
const MAX_MEDIA_TYPE_BYTES: usize = 255;

/// Text that replaces the rest of a text that is too long.
const TEXT_TRUNCATED: &str = "[The rest is left out: a result may have 16 MiB of text.]";

/// Returns the result, or an error if `isError` is set.
pub(super) fn convert(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let mut converted = ConvertedResult::default();
    for block in result.content {
        converted.add(block);
    }
    let structured = result.structured_content.filter(|data| converted.has_capacity_for(data));
    let ConvertedResult { mut text, images, .. } = converted.finish();
    let failed = result.is_error == Some(true);
    let is_empty = if failed { text.trim().is_empty() } else { text.is_empty() };
    if is_empty && let Some(data) = &structured {
        text = data.to_string();
    }
    if failed {
        let message = if text.trim().is_empty() { NO_ERROR_TEXT.to_owned() } else { text };
        return Err(ToolError::Failed(message));
    }
    Ok(ToolOutput { structured, images, ..ToolOutput::text(text) })
}

/// Truncates a text to the limit.
pub(super) fn limited(text: &str) -> String {
    let mut converted = ConvertedResult::default();
    converted.add_line(text);
    converted.finish().text
}

/// The converted part of a result.
#[derive(Default)]
struct ConvertedResult {
    text: String,
    images: Vec<Image>,
    has_lines: bool,
    is_full: bool,
    omitted_images: usize,
    data_omitted: bool,
}

impl ConvertedResult {
    fn add(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.add_line(&text.text),
            ContentBlock::Image(image) => self.add_image(image.mime_type, image.data),
            ContentBlock::Audio(audio) => self.add_line(&omitted("sound", &audio.mime_type)),
            ContentBlock::ResourceLink(link) => self.add_line(&link_to(&link)),
            ContentBlock::Resource(embedded) => self.add_resource(embedded.resource),
            _ => self.add_line("[content of an unsupported type]"),
        }
    }

    fn add_resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.add_line(&format!("{uri}:\n{text}"));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                if media_type.starts_with("image/") {
                    self.add_line(&uri);
                    self.add_image(media_type, blob);
                } else {
                    self.add_line(&format!("{uri}: {}", omitted("data", &media_type)));
                }
            }
            _ => self.add_line(&omitted("data", "unknown")),
        }
    }

    /// Appends a line, up to the limit.
    fn add_line(&mut self, line: &str) {
        if self.is_full {
            return;
        }
        if self.has_lines {
            self.text.push('\n');
        }
        self.has_lines = true;
        let remaining = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        let (start, rest) = line.split_at(line.floor_char_boundary(remaining));
        self.text.push_str(start);
        self.is_full = !rest.is_empty();
    }

    fn add_image(&mut self, media_type: String, base64: String) {
        let fits = base64.len() <= MAX_IMAGE_BYTES && media_type.len() <= MAX_MEDIA_TYPE_BYTES;
        if fits && self.images.len() < MAX_IMAGES {
            self.images.push(Image { media_type, base64 });
        } else {
            self.omitted_images += 1;
        }
    }

    /// Whether the structured content fits besides the text.
    fn has_capacity_for(&mut self, data: &Value) -> bool {
        let remaining = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        let fits = json_size(data, remaining).is_some();
        self.data_omitted |= !fits;
        fits
    }

    /// Appends a note about what was omitted.
    fn finish(mut self) -> Self {
        let images = match self.omitted_images {
            0 => None,
            1 => Some("[One picture is left out".to_owned()),
            more => Some(format!("[{more} pictures are left out")),
        };
        let images = images.map(|images| {
            format!("{images}: a result may have {MAX_IMAGES}, each of 4 MiB in base64.]")
        });
        let data = "[The data is left out: a result may have 16 MiB of text and data.]";
        let notes = [
            self.is_full.then(|| TEXT_TRUNCATED.to_owned()),
            images,
            self.data_omitted.then(|| data.to_owned()),
        ];
        for note in notes.into_iter().flatten() {
            if self.has_lines {
                self.text.push('\n');
            }
            self.has_lines = true;
            self.text.push_str(&note);
        }
        self
    }
}

fn omitted(what: &str, media_type: &str) -> String {
    format!("[{what} of type {media_type}, not shown]")
}

fn link_to(link: &Resource) -> String {
    let name = link.title.as_ref().unwrap_or(&link.name);
    match &link.description {
        Some(description) => format!("{name}: {} ({description})", link.uri),
        None => format!("{name}: {}", link.uri),
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
