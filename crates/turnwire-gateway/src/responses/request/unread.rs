//! What of a request nobody has read.
//!
//! Whatever is in a request and is not looked at is dropped, whoever wrote it. So each object of a
//! request notes its fields here when it is opened, and each field that is looked at is crossed
//! out. What is left in the end is refused, as a mistake of the client, or reported to it; the
//! reader of a field needs no list of all the others.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
};

use serde_json::{Map, Value};

use super::error::{ClientError, join, shown};
use crate::limits::RequestLimits;

/// How many fields are reported. A request with more of them knows what is wrong.
const MAX_REPORTED: usize = 64;

/// The fields of a request that have not been read yet, and how much of it may be read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    notes: RefCell<Notes>,
    limits: RequestLimits,
}

#[derive(Debug, Default)]
struct Notes {
    /// Paths of objects.
    opened: HashSet<String>,
    /// Fields that have not been looked at: the path of the object, and the name.
    unread: BTreeSet<(String, String)>,
    /// Fields that somebody wanted to look at, whether they were there or not.
    wanted: BTreeSet<(String, String)>,
    /// What was looked at and is not heeded.
    reported: BTreeSet<(String, String)>,
}

impl Unread {
    /// Nothing yet, of a request within these limits.
    pub(super) fn within(limits: &RequestLimits) -> Self {
        Self { limits: limits.clone(), ..Self::default() }
    }

    /// How much the request may bring.
    pub(super) fn limits(&self) -> &RequestLimits {
        &self.limits
    }

    /// Notes the fields of the object at `path`, once.
    pub(super) fn open(&self, path: &str, object: &Map<String, Value>) {
        let mut notes = self.notes.borrow_mut();
        if notes.opened.insert(path.to_owned()) {
            let fields = object.iter().filter(|(_, value)| !is_nothing(value));
            notes.unread.extend(fields.map(|(name, _)| (path.to_owned(), name.clone())));
        }
    }

    /// Crosses out the field `name` of the object at `path`.
    pub(super) fn read(&self, path: &str, name: &str) {
        let mut notes = self.notes.borrow_mut();
        let field = (path.to_owned(), name.to_owned());
        notes.unread.remove(&field);
        notes.wanted.insert(field);
    }

    /// Adds something that was read and is not heeded: the field `name` of the object at `path`, or
    /// all of it if there is no name.
    pub(super) fn report(&self, path: &str, name: &str) {
        self.notes.borrow_mut().reported.insert((path.to_owned(), name.to_owned()));
    }

    /// Refuses the fields of the object at `path` that nobody knows. Those named `reported` are
    /// left for the report.
    pub(super) fn refuse(&self, path: &str, reported: &[&str]) -> Result<(), ClientError> {
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

    /// What is left, for the client to be told. Items of the input are not told apart, so that a
    /// long history is reported once.
    pub(super) fn left(self) -> Vec<String> {
        let Notes { mut unread, mut reported, .. } = self.notes.into_inner();
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

/// Whether a field says as much as one that is not there.
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
    if !field.starts_with("input[") && !field.starts_with("items[") {
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
#[path = "unread_tests.rs"]
mod tests;
