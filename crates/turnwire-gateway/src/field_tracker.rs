//! Tracks the fields of a request that were not read.
//!
//! A field that is not read is ignored. So each object of a request registers its fields here when
//! it is opened, and each field that is read is removed. The remaining fields are refused as a
//! mistake of the client, or reported as ignored. The reader of a field needs no list of all the
//! others.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
};

use serde_json::{Map, Value};

use crate::{
    client_error::{ClientError, join, shown},
    limits::RequestLimits,
};

/// Maximum number of reported fields.
const MAX_REPORTED: usize = 64;

/// The unread fields of a request, and its limits.
#[derive(Debug, Default)]
pub(crate) struct FieldTracker {
    notes: RefCell<FieldSets>,
    limits: RequestLimits,
}

#[derive(Debug, Default)]
struct FieldSets {
    /// Paths of the opened objects.
    opened: HashSet<String>,
    /// Unread fields: the path of the object, and the name.
    unread: BTreeSet<(String, String)>,
    /// Fields that were asked for, whether present or not.
    wanted: BTreeSet<(String, String)>,
    /// Fields that were read and are ignored.
    reported: BTreeSet<(String, String)>,
}

impl FieldTracker {
    /// An empty set, for a request within these limits.
    pub(crate) fn within(limits: &RequestLimits) -> Self {
        Self { limits: limits.clone(), ..Self::default() }
    }

    pub(crate) fn limits(&self) -> &RequestLimits {
        &self.limits
    }

    /// Registers the fields of the object at `path`, once.
    pub(crate) fn open(&self, path: &str, object: &Map<String, Value>) {
        let mut notes = self.notes.borrow_mut();
        if notes.opened.insert(path.to_owned()) {
            let fields = object.iter().filter(|(_, value)| !is_nothing(value));
            notes.unread.extend(fields.map(|(name, _)| (path.to_owned(), name.clone())));
        }
    }

    /// Marks the field `name` of the object at `path` as read.
    pub(crate) fn read(&self, path: &str, name: &str) {
        let mut notes = self.notes.borrow_mut();
        let field = (path.to_owned(), name.to_owned());
        notes.unread.remove(&field);
        notes.wanted.insert(field);
    }

    /// Reports the field `name` of the object at `path` as ignored. An empty name means the whole
    /// object.
    pub(crate) fn report(&self, path: &str, name: &str) {
        self.notes.borrow_mut().reported.insert((path.to_owned(), name.to_owned()));
    }

    /// Refuses the unread fields of the object at `path`, except those in `reported`.
    pub(crate) fn refuse(&self, path: &str, reported: &[&str]) -> Result<(), ClientError> {
        let notes = self.notes.borrow();
        let here = |fields: &'_ BTreeSet<(String, String)>| -> Vec<String> {
            let fields = fields.iter().filter(|(of, _)| of == path);
            fields.map(|(_, name)| name.clone()).collect()
        };
        let unknown = here(&notes.unread).into_iter().find(|name| !reported.contains(&&**name));
        let Some(name) = unknown else { return Ok(()) };
        let known = here(&notes.wanted);
        let known = known.iter().map(String::as_str).chain(reported.iter().copied());
        Err(ClientError::unknown(path, &name, known))
    }

    /// The ignored fields, for the client. Indexes of input items are removed, so that a long
    /// history is reported once.
    pub(crate) fn left(self) -> Vec<String> {
        let FieldSets { mut unread, mut reported, .. } = self.notes.into_inner();
        unread.append(&mut reported);
        let mut left: Vec<String> = Vec::new();
        for (path, name) in unread {
            let field = without_places(&join(&path, &shown(&name)));
            if left.len() < MAX_REPORTED && !left.contains(&field) {
                left.push(field);
            }
        }
        left
    }
}

/// Whether a field is equivalent to an absent one.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// `input[3].content[0].detail` as `input[].content[].detail`.
fn without_places(field: &str) -> String {
    if !["input[", "items[", "messages["].iter().any(|list| field.starts_with(list)) {
        return field.to_owned();
    }
    let mut short = String::with_capacity(field.len());
    let mut in_place = false;
    for c in field.chars() {
        in_place = (in_place || c == '[') && c != ']';
        if !in_place || c == '[' {
            short.push(c);
        }
    }
    short
}

#[cfg(test)]
#[path = "field_tracker_tests.rs"]
mod tests;
