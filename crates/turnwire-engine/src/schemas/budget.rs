//! What a schema from outside would cost, seen in one pass before it is compiled.
//!
//! Work that depends on the arguments is counted while they are validated. Here is what does not:
//! how much text there is, how deep a validator recurses, how often one place of the arguments is
//! visited, and how often a part is compiled.

use std::{collections::HashMap, ptr};

use serde_json::{Map, Value};
use turnwire_contract::json_size;

use crate::depth::is_too_deep;

/// Maximum size of a schema.
const MAX_BYTES: usize = 64 * 1024;

/// Maximum number of `$ref` that lead from one to the next at one place of the arguments.
const MAX_CHAIN: usize = 64;

/// Maximum number of schemas inside each other that look at one place of the arguments.
const MAX_STEPS: usize = 256;

/// Maximum number of schemas that look at one place of the arguments.
const MAX_EXPANSIONS: usize = 10_000;

/// Maximum number of schemas that are compiled for one.
const MAX_COMPILED: usize = 10_000;

/// Maximum number of regular expressions.
const MAX_PATTERNS: usize = 64;

/// Maximum length of a regular expression.
const MAX_PATTERN_BYTES: usize = 1_024;

/// Keywords whose schemas look at the same place of the arguments.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// Keywords whose schemas are compiled once more for an `unevaluated…` beside them.
const EVALUATING: [&str; 8] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "patternProperties",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords that name a schema, or refer to one by such a name.
const NAMING: [&str; 7] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$schema",
];

/// Why a schema is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SchemaTooComplex {
    /// It is too long.
    #[error("the schema has more than {MAX_BYTES} bytes")]
    Bytes,
    /// It is nested too deeply.
    #[error("the schema is nested more than 64 levels deep")]
    Depth,
    /// References lead to references.
    #[error("the schema has more than {MAX_CHAIN} `$ref` in a row")]
    Chain,
    /// Schemas at one place are nested too deeply, counting what references lead to.
    #[error("the schema applies more than {MAX_STEPS} schemas inside each other to one value")]
    Steps,
    /// The alternatives and parts at one place, with their references, are too many.
    #[error("the schema applies more than {MAX_EXPANSIONS} schemas to one value")]
    Expansions,
}

/// The cost of a schema that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaCost {
    pub(super) bytes: usize,
    pub(super) patterns: usize,
    /// How many schemas are compiled; `None` if this cannot be told, or is too much.
    pub(super) compiled: Option<usize>,
}

/// Checks whether the server can work with `schema`, in time and memory proportional to its size.
pub fn check_schema(schema: &Value) -> Result<(), SchemaTooComplex> {
    // Most schemas are small and refer to nothing: they apply no more than they have bytes for.
    if bytes_of(schema)? <= MAX_EXPANSIONS && !is_too_deep(schema) && !refers(schema) {
        return Ok(());
    }
    cost_of(schema).map(drop)
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the cost of `schema`.
pub(super) fn cost_of(schema: &Value) -> Result<SchemaCost, SchemaTooComplex> {
    let bytes = bytes_of(schema)?;
    if is_too_deep(schema) {
        return Err(SchemaTooComplex::Depth);
    }
    let mut parts = Parts::default();
    let root = parts.read(schema, Role::Schema, true);
    parts.resolve(schema);
    for part in 0..parts.all.len() {
        parts.reach(part, 0, 0)?;
    }
    let is_readable = !parts.has_names && parts.patterns <= MAX_PATTERNS;
    let compiled = match root {
        Some(root) if parts.has_unevaluated => parts.compiled(root),
        _ => Some(parts.all.len()),
    };
    let compiled = compiled.filter(|n| is_readable && *n <= MAX_COMPILED);
    Ok(SchemaCost { bytes, patterns: parts.patterns, compiled })
}

/// Returns the size of `schema`.
pub(super) fn bytes_of(schema: &Value) -> Result<usize, SchemaTooComplex> {
    json_size(schema, MAX_BYTES).ok_or(SchemaTooComplex::Bytes)
}

/// What the members of an object, or the items of an array, are.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Its members are keywords.
    Schema,
    /// Its members are schemas for the same place of the arguments.
    InPlace,
    /// Its items are no schemas.
    Data,
}

/// An object or array of the schema. Any of them may be the target of a reference.
#[derive(Default)]
struct Part<'a> {
    /// Parts for the same place of the arguments.
    in_place: Vec<usize>,
    /// Parts for places inside, and everything else.
    inside: Vec<usize>,
    /// Those of both that an `unevaluated…` compiles once more.
    evaluating: Vec<usize>,
    reference: Option<&'a str>,
    target: Option<usize>,
    /// Schemas that are only `true` or `false`.
    n_booleans: usize,
    is_unevaluated: bool,
    reached: State<Reach>,
    compiled: State<usize>,
    compiled_again: State<usize>,
}

#[derive(Default, Clone, Copy)]
enum State<T> {
    #[default]
    New,
    Open,
    Done(T),
}

/// What is applied to one place of the arguments from a part on.
#[derive(Clone, Copy)]
struct Reach {
    expansions: usize,
    chain: usize,
    steps: usize,
}

impl Reach {
    /// Returns it if it is within the limits for a part that is reached after `chain` and `steps`.
    fn checked(self, chain: usize, steps: usize) -> Result<Self, SchemaTooComplex> {
        if chain + self.chain > MAX_CHAIN {
            return Err(SchemaTooComplex::Chain);
        }
        if steps + self.steps > MAX_STEPS {
            return Err(SchemaTooComplex::Steps);
        }
        if self.expansions > MAX_EXPANSIONS {
            return Err(SchemaTooComplex::Expansions);
        }
        Ok(self)
    }
}

#[derive(Default)]
struct Parts<'a> {
    all: Vec<Part<'a>>,
    by_address: HashMap<usize, usize>,
    patterns: usize,
    has_unevaluated: bool,
    /// Whether the validator may follow references that are not followed here.
    has_names: bool,
}

impl<'a> Parts<'a> {
    /// Adds `value` and everything in it. Values other than objects and arrays are no parts.
    fn read(&mut self, value: &'a Value, role: Role, is_root: bool) -> Option<usize> {
        let part = match value {
            Value::Object(members) => self.read_object(members, role, is_root),
            Value::Array(items) => {
                let is_schemas = role != Role::Data;
                let n_booleans = items.iter().filter(|item| item.is_boolean()).count();
                let items: Vec<usize> =
                    items.iter().filter_map(|item| self.read(item, Role::Schema, false)).collect();
                if is_schemas {
                    Part { in_place: items, n_booleans, ..Part::default() }
                } else {
                    Part { inside: items, ..Part::default() }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        let index = self.all.len();
        self.by_address.insert(ptr::from_ref(value).addr(), index);
        self.all.push(part);
        Some(index)
    }

    fn read_object(
        &mut self,
        members: &'a Map<String, Value>,
        role: Role,
        is_root: bool,
    ) -> Part<'a> {
        let mut part = Part::default();
        for (name, value) in members {
            let name = name.as_str();
            self.note_keyword(name, value, is_root);
            match (name, value) {
                ("$ref", Value::String(reference)) => part.reference = Some(reference),
                ("unevaluatedItems" | "unevaluatedProperties", _) => {
                    part.is_unevaluated = true;
                    self.has_unevaluated = true;
                }
                _ => {}
            }
            let is_in_place = role == Role::InPlace || IN_PLACE.contains(&name);
            let role = match name {
                "dependencies" | "dependentSchemas" => Role::InPlace,
                "const" | "default" | "enum" | "examples" => Role::Data,
                _ => Role::Schema,
            };
            let Some(inner) = self.read(value, role, false) else {
                part.n_booleans += usize::from(is_in_place);
                continue;
            };
            if is_in_place {
                part.in_place.push(inner);
            } else {
                part.inside.push(inner);
            }
            if EVALUATING.contains(&name) {
                part.evaluating.push(inner);
            }
        }
        part
    }

    fn note_keyword(&mut self, name: &str, value: &Value, is_root: bool) {
        let is_named = |text: &str| match name {
            // The draft is known, and references to parts of the document need no name.
            "$schema" => !is_root || text.contains("draft-03") || text.contains("draft-04"),
            "$id" => !is_root || text.contains('#'),
            name => NAMING.contains(&name),
        };
        match (name, value) {
            ("pattern", Value::String(pattern)) => self.note_pattern(pattern),
            ("patternProperties", Value::Object(members)) => {
                members.keys().for_each(|pattern| self.note_pattern(pattern));
            }
            (_, Value::String(text)) if is_named(text) => self.has_names = true,
            ("$recursiveAnchor", Value::Bool(_)) => self.has_names = true,
            _ => {}
        }
    }

    fn note_pattern(&mut self, pattern: &str) {
        self.patterns += 1;
        self.has_names |= pattern.len() > MAX_PATTERN_BYTES;
    }

    /// Finds the targets of references. Those that are names or lead elsewhere are not followed.
    fn resolve(&mut self, root: &'a Value) {
        for index in 0..self.all.len() {
            let Some(reference) = self.all.get(index).and_then(|part| part.reference) else {
                continue;
            };
            let pointer = reference.strip_prefix('#').filter(|path| !path.contains('%'));
            let target = pointer.and_then(|path| root.pointer(path));
            self.has_names |= target.is_none();
            let address = target.map(|target| ptr::from_ref(target).addr());
            let target = address.and_then(|address| self.by_address.get(&address)).copied();
            if let Some(part) = self.all.get_mut(index) {
                part.target = target;
            }
        }
    }

    /// Returns what a part applies to one place of the arguments. Memory makes it linear: a part is
    /// looked at once.
    fn reach(
        &mut self,
        index: usize,
        chain: usize,
        steps: usize,
    ) -> Result<Reach, SchemaTooComplex> {
        let mut reach = Reach { expansions: 1, chain: 0, steps: 0 };
        let Some(part) = self.all.get_mut(index) else { return Ok(reach) };
        match part.reached {
            // It leads back to itself. The validator stops there, too.
            State::Open => return Ok(reach),
            State::Done(reach) => return reach.checked(chain, steps),
            State::New => part.reached = State::Open,
        }
        reach.expansions += part.n_booleans;
        let (inner, target) = (part.in_place.clone(), part.target);
        let inner = inner.into_iter().map(|inner| (inner, 0));
        reach.checked(chain, steps)?;
        for (inner, link) in inner.chain(target.map(|target| (target, 1))) {
            let below = self.reach(inner, chain + link, steps + 1)?;
            reach.expansions = reach.expansions.saturating_add(below.expansions);
            reach.chain = reach.chain.max(below.chain + link);
            reach.steps = reach.steps.max(below.steps + 1);
        }
        if let Some(part) = self.all.get_mut(index) {
            part.reached = State::Done(reach);
        }
        reach.checked(chain, steps)
    }

    /// Returns how many schemas are compiled for a part: those in it, and all that look at the same
    /// place once more for each `unevaluated…`. `None` if one leads back to itself.
    fn compiled(&mut self, index: usize) -> Option<usize> {
        let part = self.all.get_mut(index)?;
        match part.compiled {
            State::Open => return None,
            State::Done(n) => return Some(n),
            State::New => part.compiled = State::Open,
        }
        let inside = [part.in_place.clone(), part.inside.clone()].concat();
        let mut n = 1 + part.n_booleans;
        if part.is_unevaluated {
            n = n.saturating_add(self.compiled_again(index)?);
        }
        for inner in inside {
            n = n.saturating_add(self.compiled(inner)?);
        }
        self.all.get_mut(index)?.compiled = State::Done(n);
        Some(n)
    }

    /// Returns how many schemas an `unevaluated…` compiles to know what a part evaluates.
    fn compiled_again(&mut self, index: usize) -> Option<usize> {
        let part = self.all.get_mut(index)?;
        match part.compiled_again {
            State::Open => return None,
            State::Done(n) => return Some(n),
            State::New => part.compiled_again = State::Open,
        }
        let (in_place, evaluating, target) =
            (part.in_place.clone(), part.evaluating.clone(), part.target);
        let mut n = 1 + part.n_booleans;
        for inner in evaluating.iter().chain(&in_place) {
            n = n.saturating_add(self.compiled(*inner)?);
        }
        for inner in in_place.into_iter().chain(target) {
            n = n.saturating_add(self.compiled_again(inner)?);
        }
        self.all.get_mut(index)?.compiled_again = State::Done(n);
        Some(n)
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
