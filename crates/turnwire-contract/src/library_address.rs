//! Addresses of stored files in items and results.

use std::fmt;

use crate::FileId;

/// URL of a file in the library. Conversations store this URL instead of the content. The content
/// is read each time the model is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryAddress {
    /// ID of the file.
    pub file_id: FileId,
    /// Media type, such as `image/png`.
    pub media_type: String,
}

impl LibraryAddress {
    const SCHEME: &'static str = "turnwire-file:";

    /// Parses `url` if it names a file in the library.
    pub fn of(url: &str) -> Option<Self> {
        let (file_id, media_type) = url.strip_prefix(Self::SCHEME)?.split_once(';')?;
        Some(Self { file_id: FileId::from(file_id), media_type: media_type.to_owned() })
    }
}

impl fmt::Display for LibraryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{};{}", Self::SCHEME, self.file_id, self.media_type)
    }
}
