//! Reads the fields of a JSON object, and reports the exact path of an invalid one.
//!
//! Every reader treats `null` as absent, as official clients send it. [`FieldTracker`] tracks
//! fields that are never read.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::{
    client_error::{ClientError, join, shown},
    field_tracker::FieldTracker,
    limits::RequestLimits,
};

/// An object in a request, and its path.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    unread: &'a FieldTracker,
}

impl<'a> Fields<'a> {
    pub(crate) fn of_body(map: &'a Map<String, Value>, unread: &'a FieldTracker) -> Self {
        unread.open("", map);
        Self { map, path: String::new(), unread }
    }

    /// The object `value` at `path`.
    pub(crate) fn of(
        value: &'a Value,
        path: &str,
        unread: &'a FieldTracker,
    ) -> Result<Self, ClientError> {
        match value {
            Value::Object(map) => {
                unread.open(path, map);
                Ok(Self { map, path: path.to_owned(), unread })
            }
            other => Err(ClientError::wrong_type(path, "an object", other)),
        }
    }

    /// An object inside this one.
    pub(crate) fn inner(&self, value: &'a Value, path: &str) -> Result<Self, ClientError> {
        Self::of(value, path, self.unread)
    }

    /// Marks fields as read that have no effect here and need not be reported, such as IDs and
    /// states of finished items.
    pub(crate) fn pass_over(&self, names: &[&str]) {
        for name in names {
            self.unread.read(&self.path, name);
        }
    }

    /// Reports the field `name` as ignored.
    pub(crate) fn report(&self, name: &str) {
        self.unread.report(&self.path, name);
    }

    /// Refuses unread fields, except those in `reported`.
    pub(crate) fn refuse_others(&self, reported: &[&str]) -> Result<(), ClientError> {
        self.unread.refuse(&self.path, reported)
    }

    pub(crate) fn limits(&self) -> &'a RequestLimits {
        self.unread.limits()
    }

    /// Path of this object.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Path of its field `name`.
    pub(crate) fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// The raw object. Does not mark its fields as read.
    pub(crate) fn as_written(&self) -> &'a Map<String, Value> {
        self.map
    }

    /// The raw object. Marks all fields as read.
    pub(crate) fn all(&self) -> &'a Map<String, Value> {
        self.unread.read_all(&self.path);
        self.map
    }

    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.unread.read(&self.path, name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ClientError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(ClientError::wrong_type(self.path_of(name), "a string", other)),
        }
    }

    pub(crate) fn needed_text(&self, name: &str) -> Result<&'a str, ClientError> {
        self.text(name)?.ok_or_else(|| ClientError::missing(self.path_of(name)))
    }

    /// A required string that is not empty.
    pub(crate) fn needed_name(&self, name: &str) -> Result<&'a str, ClientError> {
        let text = self.needed_text(name)?;
        if text.is_empty() {
            let message = format!("`{}` must not be empty.", self.path_of(name));
            return Err(ClientError::invalid(self.path_of(name), message));
        }
        Ok(text)
    }

    pub(crate) fn owned_text(&self, name: &str) -> Result<Option<String>, ClientError> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ClientError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(ClientError::wrong_type(self.path_of(name), "a boolean", other)),
        }
    }

    /// A number in `range`.
    pub(crate) fn number(
        &self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ClientError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let path = self.path_of(name);
        let Some(number) = value.as_f64() else {
            return Err(ClientError::wrong_type(path, "a number", value));
        };
        if range.contains(&number) {
            return Ok(Some(number));
        }
        let (least, most) = range.into_inner();
        let message = format!("`{path}` must be between {least} and {most}, not {number}.");
        Err(ClientError::invalid(path, message))
    }

    /// An integer in `range`.
    pub(crate) fn whole(
        &self,
        name: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ClientError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let path = self.path_of(name);
        if !value.is_number() {
            return Err(ClientError::wrong_type(path, "a whole number", value));
        }
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return Ok(Some(number));
        }
        let (least, most) = range.into_inner();
        let message =
            format!("`{path}` must be a whole number between {least} and {most}, not {value}.");
        Err(ClientError::invalid(path, message))
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Self>, ClientError> {
        self.value(name).map(|value| self.inner(value, &self.path_of(name))).transpose()
    }

    /// An array, with the path of each entry.
    pub(crate) fn list(&self, name: &str) -> Result<Option<Vec<(String, &'a Value)>>, ClientError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let path = self.path_of(name);
        match value {
            Value::Array(list) => Ok(Some(placed(list, &path).collect())),
            other => Err(ClientError::wrong_type(path, "a list", other)),
        }
    }

    /// An array of strings.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ClientError> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let text = |(path, value): (String, &Value)| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(ClientError::wrong_type(path, "a string", other)),
        };
        list.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// One of the strings in `known`.
    pub(crate) fn word(
        &self,
        name: &str,
        known: &[&'static str],
    ) -> Result<Option<&'static str>, ClientError> {
        self.text(name)?.map(|text| known_word(text, &self.path_of(name), known)).transpose()
    }
}

/// The entries of an array, with their paths.
pub(crate) fn placed<'a>(
    list: &'a [Value],
    path: &str,
) -> impl Iterator<Item = (String, &'a Value)> {
    list.iter().enumerate().map(move |(n, value)| (format!("{path}[{n}]"), value))
}

/// `text`, if it is in `known`.
pub(crate) fn known_word(
    text: &str,
    path: &str,
    known: &[&'static str],
) -> Result<&'static str, ClientError> {
    known.iter().find(|word| **word == text).copied().ok_or_else(|| {
        let words = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let message = format!("`{path}` is `{}`; it must be one of {words}.", shown(text));
        ClientError::invalid(path, message)
    })
}
