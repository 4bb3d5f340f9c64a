//! What is asked of a reader, and what it answers.

use serde::{Deserialize, Serialize};
use turnwire_contract::{Chunking, ExtractionFailure, NewChunk};

use super::{finding::Matches, text};

/// Maximum number of characters of a text that is looked for.
pub(crate) const MAX_PATTERN: usize = 1_000;

/// Maximum size of the address space for a text and for a PDF.
const MEMORY: u64 = 256 * 1024 * 1024;
const MEMORY_FOR_PDF: u64 = 1024 * 1024 * 1024;

/// Maximum CPU time.
const CPU_SECONDS: u64 = 5;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// The chunks of a file.
    File {
        /// Name of the file.
        name: String,
        /// How to split the text.
        chunking: Chunking,
    },
    /// The text of a web page.
    Page {
        /// URL of the page.
        url: String,
        /// Media type, as the server of the page says.
        content_type: Option<String>,
        /// Text to find in the page.
        pattern: Option<String>,
        /// Maximum number of characters to return.
        most: usize,
    },
}

impl Task {
    /// Names the document for people.
    pub(super) fn subject(&self) -> String {
        match self {
            Self::File { name, .. } => format!("`{name}`"),
            Self::Page { .. } => "the page".to_owned(),
        }
    }
}

/// What a child may use. It sets these limits for itself before it reads the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum size of the address space in bytes.
    pub memory: u64,
    /// Maximum CPU time in seconds.
    pub cpu_seconds: u64,
}

impl Limits {
    pub(super) fn for_content(content: &[u8]) -> Self {
        let memory = if text::is_pdf(content) { MEMORY_FOR_PDF } else { MEMORY };
        Self { memory, cpu_seconds: CPU_SECONDS }
    }
}

/// The first line that a child reads. The bytes of the document follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) task: Task,
    /// Number of bytes of the document.
    pub(super) bytes: usize,
    pub(super) limits: Limits,
}

/// What a reader found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Chunks(Vec<NewChunk>),
    Page(PageText),
}

/// The text of a web page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageText {
    /// Title; may be empty.
    pub(crate) title: String,
    /// The first characters of the text.
    pub(crate) text: String,
    /// Number of characters of the whole text.
    pub(crate) n_characters: usize,
    /// Where the pattern is; none without a pattern.
    pub(crate) matches: Matches,
}

/// Why a document has no text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unread {
    pub(crate) why: ExtractionFailure,
    pub(crate) reason: String,
}

pub(super) fn invalid(reason: String) -> Unread {
    Unread { why: ExtractionFailure::Invalid, reason }
}

/// It is not the fault of the document.
pub(super) fn broke() -> Unread {
    let reason = "documents cannot be read now".to_owned();
    Unread { why: ExtractionFailure::Broke, reason }
}
