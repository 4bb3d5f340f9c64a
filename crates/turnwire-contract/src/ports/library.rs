//! Where files are kept that people have handed in, and the collections they are searched in.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde::{
    Deserialize, Serialize,
    de::{IntoDeserializer, value::StrDeserializer},
};
use serde_json::{Map, Value};

use crate::{CollectionId, FileId, TenantId, Timestamp};

/// Keeps files, and finds passages in them.
///
/// Promises an implementation makes:
///
/// * when [`add_file`](Self::add_file) returns `Ok`, [`content`](Self::content) returns the very
///   same bytes until the file is removed;
/// * a file can be found in a collection from the moment [`attach`](Self::attach) returns `Ok`
///   until it is detached or removed, or the collection is removed; removing a collection
///   leaves its files alone;
/// * a file that cannot be read as text can be kept but not attached: it is
///   [refused](LibraryError::Refused) with a reason its owner understands;
/// * passages come best first, with scores between 0 and 1, and only those that share something
///   with the question and pass its filter;
/// * lists come newest first;
/// * what belongs to one tenant does not exist for another.
#[async_trait]
pub trait Library: Send + Sync {
    /// Keeps a file; refused if there is one of that id.
    async fn add_file(
        &self,
        tenant: &TenantId,
        file: FileRecord,
        content: Arc<[u8]>,
    ) -> Result<(), LibraryError>;

    /// One file, without its content.
    async fn file(&self, tenant: &TenantId, file_id: &FileId) -> Result<FileRecord, LibraryError>;

    /// All files.
    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>, LibraryError>;

    /// What is in a file.
    async fn content(&self, tenant: &TenantId, file_id: &FileId)
    -> Result<Arc<[u8]>, LibraryError>;

    /// Forgets a file, also in all collections it is attached to.
    async fn remove_file(&self, tenant: &TenantId, file_id: &FileId) -> Result<(), LibraryError>;

    /// Opens a collection; refused if there is one of that id.
    async fn open_collection(
        &self,
        tenant: &TenantId,
        collection: CollectionRecord,
    ) -> Result<(), LibraryError>;

    /// One collection.
    async fn collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<CollectionRecord, LibraryError>;

    /// All collections.
    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>, LibraryError>;

    /// Replaces a collection's name and the client's notes on it.
    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        name: String,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), LibraryError>;

    /// Forgets a collection. Its files stay.
    async fn remove_collection(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<(), LibraryError>;

    /// Makes a file findable in a collection. Attaching it again replaces its attributes.
    async fn attach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        attachment: Attachment,
    ) -> Result<(), LibraryError>;

    /// One file of a collection.
    async fn attachment(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment, LibraryError>;

    /// All files of a collection.
    async fn attachments(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
    ) -> Result<Vec<Attachment>, LibraryError>;

    /// Takes a file out of a collection. The file stays.
    async fn detach(
        &self,
        tenant: &TenantId,
        collection_id: &CollectionId,
        file_id: &FileId,
    ) -> Result<(), LibraryError>;

    /// The passages in `collections` that answer `query` best.
    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<Vec<Passage>, LibraryError>;
}

/// A file as it is kept, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its id.
    pub id: FileId,
    /// Its name, as its owner gave it. Nothing is ever looked up by it.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// What its owner handed it in for, in the owner's words.
    pub purpose: String,
    /// When it was handed in.
    pub created_at: Timestamp,
}

/// A collection as it is kept, without its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRecord {
    /// Its id.
    pub id: CollectionId,
    /// Its name, for people; may be empty.
    pub name: String,
    /// When it was opened.
    pub created_at: Timestamp,
    /// The client's own notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// A file in a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// The file.
    pub file_id: FileId,
    /// When it was attached.
    pub created_at: Timestamp,
    /// What a question can be narrowed by: texts, numbers and truths.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The question, in plain words.
    pub text: String,
    /// How many passages are wanted at most.
    pub most: usize,
    /// Which files are looked at; all of them if not set.
    pub filter: Option<Filter>,
}

impl Query {
    /// Looks for `text` in all files.
    pub fn new(text: impl Into<String>, most: usize) -> Self {
        Self { text: text.into(), most, filter: None }
    }
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The file it stands in.
    pub file_id: FileId,
    /// That file's name.
    pub file_name: String,
    /// How well it answers the question: between 0 and 1, more is better.
    pub score: f64,
    /// What it says.
    pub text: String,
    /// The attributes of that file in its collection.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// Which files a question is about, by their attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// One attribute, compared with a value.
    Compare {
        /// Which attribute. A file that does not have it does not pass.
        key: String,
        /// How.
        comparison: Comparison,
        /// With what; a list for [`Comparison::In`] and [`Comparison::NotIn`].
        value: Value,
    },
    /// All of these.
    All(Vec<Filter>),
    /// At least one of these.
    Any(Vec<Filter>),
}

impl Filter {
    /// Reads a filter as clients write it: a comparison such as `{"type": "eq", "key": "year",
    /// "value": 2024}`, or several filters joined with `{"type": "and", "filters": […]}` or `or`.
    ///
    /// What is not understood is a mistake: without it, files would be shown that the client
    /// wanted to leave out. `path` is where the filter stands, and the mistake tells its place
    /// from there.
    pub fn read(written: &Value, path: &str) -> Result<Self, FilterMistake> {
        let Value::Object(fields) = written else {
            return Err(FilterMistake::new(path, "must be an object"));
        };
        let field = |name: &str| (fields.get(name), format!("{path}.{name}"));
        let (kind, at) = field("type");
        match kind.and_then(Value::as_str) {
            Some("and") => Ok(Self::All(read_joined(field("filters"))?)),
            Some("or") => Ok(Self::Any(read_joined(field("filters"))?)),
            Some(word) => Self::read_comparison(Comparison::of(word, at)?, field),
            None => Err(FilterMistake::new(at, KINDS)),
        }
    }

    fn read_comparison<'a>(
        comparison: Comparison,
        field: impl Fn(&str) -> (Option<&'a Value>, String),
    ) -> Result<Self, FilterMistake> {
        let (Some(Value::String(key)), _) = field("key") else {
            return Err(FilterMistake::new(field("key").1, "must be the name of an attribute"));
        };
        let (value, at) = field("value");
        let value = value.filter(|value| comparison.fits(value)).ok_or_else(|| {
            let wanted = "must be a text, a number, `true` or `false`; for `in` and `nin` a list \
                          of those";
            FilterMistake::new(at, wanted)
        })?;
        Ok(Self::Compare { key: key.clone(), comparison, value: value.clone() })
    }

    /// Whether a file with these attributes passes.
    pub fn passes(&self, attributes: &Map<String, Value>) -> bool {
        match self {
            Self::Compare { key, comparison, value } => {
                attributes.get(key).is_some_and(|found| comparison.holds(found, value))
            }
            Self::All(filters) => filters.iter().all(|filter| filter.passes(attributes)),
            Self::Any(filters) => filters.iter().any(|filter| filter.passes(attributes)),
        }
    }
}

fn read_joined((joined, at): (Option<&Value>, String)) -> Result<Vec<Filter>, FilterMistake> {
    match joined {
        Some(Value::Array(filters)) if !filters.is_empty() => {
            let each = filters.iter().enumerate();
            each.map(|(n, filter)| Filter::read(filter, &format!("{at}[{n}]"))).collect()
        }
        _ => Err(FilterMistake::new(at, "must be a list of at least one filter")),
    }
}

/// What a filter's `type` may be.
const KINDS: &str = "must be one of `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, `nin`, `and`, `or`";

/// What is wrong with a filter, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {wanted}")]
pub struct FilterMistake {
    /// Where, such as `filters.filters[0].key`.
    pub path: String,
    /// What must be there, as the end of a sentence without its full stop.
    pub wanted: &'static str,
}

impl FilterMistake {
    fn new(path: impl Into<String>, wanted: &'static str) -> Self {
        Self { path: path.into(), wanted }
    }
}

/// How an attribute is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// The same.
    #[serde(rename = "eq")]
    Equal,
    /// Not the same.
    #[serde(rename = "ne")]
    NotEqual,
    /// More.
    #[serde(rename = "gt")]
    Greater,
    /// More, or the same.
    #[serde(rename = "gte")]
    GreaterOrEqual,
    /// Less.
    #[serde(rename = "lt")]
    Less,
    /// Less, or the same.
    #[serde(rename = "lte")]
    LessOrEqual,
    /// One of the list.
    #[serde(rename = "in")]
    In,
    /// None of the list.
    #[serde(rename = "nin")]
    NotIn,
}

impl Comparison {
    /// The comparison of this word, which stands at `path`.
    fn of(word: &str, path: String) -> Result<Self, FilterMistake> {
        let word: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
        Self::deserialize(word).map_err(|_| FilterMistake::new(path, KINDS))
    }

    /// Whether a comparison with this value makes sense.
    fn fits(self, value: &Value) -> bool {
        let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
        match self {
            Self::In | Self::NotIn => value.as_array().is_some_and(|all| all.iter().all(is_plain)),
            Self::Equal
            | Self::NotEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::Less
            | Self::LessOrEqual => is_plain(value),
        }
    }

    fn holds(self, found: &Value, wanted: &Value) -> bool {
        let order = compare(found, wanted);
        let listed = || wanted.as_array().map(|list| list.iter().any(|one| same(found, one)));
        match self {
            Self::Equal => same(found, wanted),
            Self::NotEqual => !same(found, wanted),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::In => listed() == Some(true),
            Self::NotIn => listed() == Some(false),
        }
    }
}

/// 1 and 1.0 are the same to whoever wrote the filter.
fn same(one: &Value, other: &Value) -> bool {
    one == other || compare(one, other) == Some(Ordering::Equal)
}

fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64()?.partial_cmp(&other.as_f64()?),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

/// Why the library did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// There is one already.
    #[error("there is already a {0}")]
    Exists(String),
    /// There is no such thing for this tenant.
    #[error("there is no {0}")]
    NotFound(String),
    /// It cannot be done with this file; the reason is for its owner.
    #[error("{0}")]
    Refused(String),
    /// The library is away; try again.
    #[error("the library is not available: {0}")]
    Unavailable(String),
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;
