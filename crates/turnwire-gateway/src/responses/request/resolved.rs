//! Items and files that an input refers to.

use std::collections::HashMap;

use turnwire_contract::Item;

use crate::limits::RequestLimits;

/// Items and files that the input refers to, looked up beforehand; see
/// [`references`](super::references).
#[derive(Debug, Clone, Default)]
pub struct ResolvedReferences {
    /// Items by ID. A hosted call is two items: the call and its result.
    pub items: HashMap<String, Vec<Item>>,
    /// Files by ID.
    pub files: HashMap<String, FoundFile>,
    /// The limits of the input.
    pub limits: RequestLimits,
}

/// A file that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    pub name: String,
    /// Its address in the library.
    pub url: String,
    /// Its text, if it is needed at once: in the output of a tool.
    pub text: Option<String>,
}
