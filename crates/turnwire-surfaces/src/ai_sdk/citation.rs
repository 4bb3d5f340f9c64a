//! What a text cites, in the words of the AI SDK.
//!
//! Every version gets a source as a chunk of its own. Version 7 also wants to know which text cites
//! it, at the end of that text; the others ignore that.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::Annotation;
use utoipa::ToSchema;

use crate::clean::clean;

/// Media type of a cited file whose type is not known.
const UNKNOWN_MEDIA: &str = "application/octet-stream";

/// A place in a text and the source that it cites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UiCitation)]
pub struct Citation {
    /// The source.
    pub source: Source,
    /// Where the citation starts in the text, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_index: Option<u64>,
    /// Where the citation ends in the text, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_index: Option<u64>,
}

/// A web page or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "sourceType", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[schema(as = UiSource)]
pub enum Source {
    /// A web page.
    Url {
        /// Always `source`.
        r#type: &'static str,
        /// ID of the source, unique in the run.
        id: String,
        /// URL of the page.
        url: String,
        /// Title of the page.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A file.
    Document {
        /// Always `source`.
        r#type: &'static str,
        /// ID of the source, unique in the run.
        id: String,
        /// Media type of the file.
        media_type: String,
        /// Title of the file.
        title: String,
        /// Name of the file.
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
    },
}

impl Citation {
    /// Reads a citation; `None` if it names neither a page nor a file.
    pub(super) fn read(annotation: &Annotation, id: String) -> Option<Self> {
        let place = |name: &str| annotation.source.get(name).and_then(Value::as_u64);
        Some(Self {
            source: Source::read(&annotation.source, id)?,
            start_index: place("start_index"),
            end_index: place("end_index"),
        })
    }
}

impl Source {
    fn read(source: &Value, id: String) -> Option<Self> {
        let field = |name: &str| {
            let text = source.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(|text| clean(text).into_owned())
        };
        let r#type = "source";
        if let Some(url) = field("url") {
            return Some(Self::Url { r#type, id, url, title: field("title") });
        }
        let (media_type, filename) = (UNKNOWN_MEDIA.to_owned(), field("filename"));
        let title = filename.clone().or_else(|| field("file_id"))?;
        Some(Self::Document { r#type, id, media_type, title, filename })
    }
}
