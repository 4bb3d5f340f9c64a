//! Tracks the fields of a request that were not read.
//!
//! A field that is not read is ignored. So each object of a request registers its fields here when
//! it is opened, and each field that is read is removed. The remaining fields are refused as a
//! mistake of the client, or reported as ignored. The reader of a field needs no list of all the
//! others.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
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
    /// The opened objects, by path.
    objects: HashMap<String, ObjectFields>,
    /// Fields that were read and are ignored: the path of the object, and the name.
    reported: BTreeSet<(String, String)>,
}

/// The fields of one object.
#[derive(Debug, Default)]
struct ObjectFields {
    is_open: bool,
    unread: Vec<String>,
    /// Fields that were asked for while others were unread, whether present or not.
    wanted: Vec<String>,
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
        let fields = notes.object(path);
        if !fields.is_open {
            let present = object.iter().filter(|(_, value)| !is_nothing(value));
            fields.unread.extend(present.map(|(name, _)| name.clone()));
            fields.is_open = true;
        }
    }

    /// Marks the field `name` of the object at `path` as read.
    pub(crate) fn read(&self, path: &str, name: &str) {
        let mut notes = self.notes.borrow_mut();
        let fields = notes.object(path);
        fields.unread.retain(|unread| unread != name);
        if !fields.unread.is_empty() {
            fields.wanted.push(name.to_owned());
        }
    }

    /// Marks all fields of the object at `path` as read.
    pub(crate) fn read_all(&self, path: &str) {
        self.notes.borrow_mut().object(path).unread.clear();
    }

    /// Reports the field `name` of the object at `path` as ignored. An empty name means the whole
    /// object.
    pub(crate) fn report(&self, path: &str, name: &str) {
        self.notes.borrow_mut().reported.insert((path.to_owned(), name.to_owned()));
    }

    /// Refuses the unread fields of the object at `path`, except those in `reported`.
    pub(crate) fn refuse(&self, path: &str, reported: &[&str]) -> Result<(), ClientError> {
        let notes = self.notes.borrow();
        let Some(fields) = notes.objects.get(path) else { return Ok(()) };
        let unknown = fields.unread.iter().filter(|name| !reported.contains(&name.as_str())).min();
        let Some(name) = unknown else { return Ok(()) };
        let known = fields.wanted.iter().map(String::as_str).chain(reported.iter().copied());
        Err(ClientError::unknown(path, name, known))
    }

    /// The ignored fields, for the client. Indexes of input items are removed, so that a long
    /// history is reported once.
    pub(crate) fn left(self) -> Vec<String> {
        let FieldSets { objects, mut reported } = self.notes.into_inner();
        for (path, fields) in objects {
            reported.extend(fields.unread.into_iter().map(|name| (path.clone(), name)));
        }
        let mut left: Vec<String> = Vec::new();
        for (path, name) in reported {
            let field = without_places(&join(&path, &shown(&name)));
            if left.len() < MAX_REPORTED && !left.contains(&field) {
                left.push(field);
            }
        }
        left
    }
}

impl FieldSets {
    fn object(&mut self, path: &str) -> &mut ObjectFields {
        self.objects.entry(path.to_owned()).or_default()
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
