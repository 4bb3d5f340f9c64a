//! JSON values that count how often they are looked at.
//!
//! The validator has no budget and cannot be cancelled, but it sees the arguments only through the
//! methods of [`Json`]. Each of them counts what it costs. When the budget, the time or the stack
//! is used up, the validation is unwound, which releases what it holds.

use std::{
    borrow::Cow,
    cell::Cell,
    collections::HashSet,
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    time::Instant,
};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object},
};
use serde_json::{Map, Number, Value, map};
use tracing::error;

/// Cost of an error, which keeps the path and names that the schema chose.
const ERROR_UNITS: usize = 1_000;

/// The time is looked at when this many units are used. Between two of them a validator may visit
/// thousands of schemas that do not look at the value.
const UNITS_PER_LOOK: usize = 64;

/// Stack that a validation may use. A thread has 2 MiB.
const MAX_STACK: usize = 512 * 1024;

/// What a validation may cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// One look at a value, or one byte of a string that is read.
    pub(super) units: usize,
    /// Maximum length of a string that is read.
    pub(super) text: usize,
    pub(super) deadline: Option<Instant>,
}

impl Budget {
    pub(super) const UNLIMITED: Self = Self { units: usize::MAX, text: usize::MAX, deadline: None };
}

#[derive(Clone, Copy)]
struct Meter {
    left: usize,
    text: usize,
    deadline: Option<Instant>,
    /// Address of a variable at the start.
    stack: usize,
}

/// The payload of an unwinding that is not a panic.
struct RanOut;

thread_local! {
    /// Nothing may be looked at outside of [`within`].
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Does `work`, which looks at metered values. Returns `None` if the budget does not suffice, or if
/// the validator panics.
pub(super) fn within<T>(budget: Budget, work: impl FnOnce() -> T) -> Option<T> {
    let start = 0_u8;
    let stack = ptr::from_ref(&start).addr();
    let Budget { units: left, text, deadline } = budget;
    let meter = Meter { left, text, deadline, stack };
    let outer = METER.replace(Some(meter));
    let result = catch_unwind(AssertUnwindSafe(work));
    METER.set(outer);
    result
        .inspect_err(|cause| {
            if !cause.is::<RanOut>() {
                error!("the validator of schemas panicked");
            }
        })
        .ok()
}

fn spend(units: usize) {
    let Some(meter) = METER.get() else { return };
    let left = meter.left.checked_sub(units);
    let here = ptr::from_ref(&left).addr();
    let Some(left) = left.filter(|_| meter.stack.abs_diff(here) < MAX_STACK) else {
        resume_unwind(Box::new(RanOut));
    };
    let is_time_to_look = left / UNITS_PER_LOOK != meter.left / UNITS_PER_LOOK;
    if is_time_to_look && meter.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        resume_unwind(Box::new(RanOut));
    }
    METER.set(Some(Meter { left, ..meter }));
}

/// Spends what reading a string costs: a regular expression is applied to it, or it is compared.
fn spend_on(text: &str) {
    if METER.get().is_some_and(|meter| text.len() > meter.text) {
        resume_unwind(Box::new(RanOut));
    }
    spend(1 + text.len());
}

/// The representation of arguments for the validator.
pub(super) struct Metered;

#[derive(Clone, Copy)]
pub(super) struct MeteredValue<'a>(pub(super) &'a Value);

pub(super) struct MeteredObject<'a>(&'a Map<String, Value>);

pub(super) struct MeteredArray<'a>(&'a [Value]);

pub(super) struct Members<'a>(map::Iter<'a>);

pub(super) struct Elements<'a>(std::slice::Iter<'a, Value>);

impl Json for Metered {
    type Node<'a> = MeteredValue<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(MeteredValue<'_>) -> T,
    ) -> T {
        *buffer = Value::String(string.to_owned());
        f(MeteredValue(buffer))
    }
}

impl<'a> Node<'a, Metered> for MeteredValue<'a> {
    type Object = MeteredObject<'a>;
    type Array = MeteredArray<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<MeteredObject<'a>> {
        spend(1);
        self.0.as_object().map(MeteredObject)
    }

    fn as_array(&self) -> Option<MeteredArray<'a>> {
        spend(1);
        self.0.as_array().map(|items| MeteredArray(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        spend_on(text.unwrap_or_default());
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        spend(1);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        spend(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        spend(1);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        spend(1);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        let text = self.0.as_str()?;
        spend(1 + text.len() / 64);
        u64::try_from(text.chars().count()).ok()
    }

    fn equals_value(&self, expected: &Value) -> bool {
        equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        spend(ERROR_UNITS);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        spend(1);
        Some(NodeIdentity::new(ptr::from_ref(self.0).addr()))
    }
}

impl<'a> Object<'a, Metered> for MeteredObject<'a> {
    type Node = MeteredValue<'a>;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<MeteredValue<'a>> {
        spend(1);
        self.0.get(key.as_str()).map(MeteredValue)
    }

    fn members(&self) -> Members<'a> {
        Members(self.0.iter())
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, MeteredValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        spend_on(name);
        Some((name.as_str(), MeteredValue(value)))
    }
}

impl<'a> Array<'a, Metered> for MeteredArray<'a> {
    type Node = MeteredValue<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> Elements<'a> {
        Elements(self.0.iter())
    }

    /// The validator's own hash of arrays does not see where one begins, so that somebody can
    /// choose thousands of them with one hash, and each is compared with all.
    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.0.iter().all(|item| {
            let mut text = String::new();
            write_canonical(item, &mut text);
            seen.insert(text)
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = MeteredValue<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.0.next()?;
        spend(1);
        Some(MeteredValue(value))
    }
}

fn equal(value: &Value, expected: &Value) -> bool {
    spend(1);
    match (value, expected) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| equal(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .all(|(name, ours)| theirs.get(name).is_some_and(|theirs| equal(ours, theirs)))
        }
        (ours, theirs) => jsonschema::json::cmp::equal(ours, theirs),
    }
}

/// Writes `value` so that equal values have the same text: members in order, and numbers by what
/// they are worth.
fn write_canonical(value: &Value, text: &mut String) {
    spend(1);
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                write_string(name, text);
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::String(string) => write_string(string, text),
        Value::Number(number) => text.push_str(&canonical_number(number)),
        Value::Null => text.push('n'),
        Value::Bool(is_true) => text.push(if *is_true { 't' } else { 'f' }),
    }
}

fn write_string(string: &str, text: &mut String) {
    spend(1 + string.len() / 8);
    // The length says where it ends.
    let _ = write!(text, "{}\"", string.len());
    text.push_str(string);
}

/// `1` and `1.0` are the same number.
fn canonical_number(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        // Every float is written in full, so one without a fraction reads like an integer.
        Some(0.0) => "0".to_owned(),
        Some(float) => format!("{float}"),
        None => number.to_string(),
    }
}

#[cfg(test)]
#[path = "metered_tests.rs"]
mod tests;
