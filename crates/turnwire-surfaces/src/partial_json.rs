//! An incremental parser for tool arguments that are still being generated.
//!
//! [`PartialJson`] is a tokenizer that continues where it stopped: the cost of a chunk is linear in
//! its length, however much came before. At any moment it has the top-level entries so far:
//! complete ones as they are, and of the current one as much as is certain. An unfinished string is
//! its decoded beginning, an unfinished number is shown if it is already a number, an unfinished
//! `tru` is omitted, open objects and arrays have what they contain so far.
//!
//! It is made for display and is lenient: junk before the first key is skipped, a second entry with
//! the same key replaces the first, a comma too many is ignored, an unknown literal is omitted. At
//! an error, and at its limits ([`MAX_DEPTH`], [`MAX_BYTES`], [`MAX_VALUES`], [`MAX_WORD`]), it
//! stops parsing and keeps what it has; it never panics. The result does not depend on how the text
//! was cut into pieces.
//!
//! The reasons for writing it by hand are in `docs/decisions/002-partial-json.md`.

use serde_json::{Map, Number, Value};

use crate::{chars::first_chars, unescape::Unescape};

/// Maximum nesting depth, including the outermost object.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of bytes that are parsed.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of values. A value of two bytes in the text needs many times that in memory.
pub const MAX_VALUES: usize = 200_000;
/// Maximum length of a number or a literal.
pub const MAX_WORD: usize = 1024;
/// Number of characters that [`PartialJson::raw_tail`] returns.
pub const TAIL_CHARS: usize = 30;
/// Number of top-level entries that [`PartialJson::scalars`] checks.
const MAX_LOOKED_AT: usize = 64;

/// The arguments of one call so far.
#[derive(Debug, Default)]
pub struct PartialJson {
    root: Object,
    /// The open objects and arrays inside the root, outermost first.
    inner: Vec<Level>,
    state: State,
    /// Whether parsing has stopped. The state is kept for reading.
    stopped: bool,
    /// The string or key being parsed.
    text: Unescape,
    /// The number or literal being parsed.
    word: String,
    tail: String,
    n_bytes: usize,
    n_values: usize,
}

/// A top-level entry, complete or not, borrowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry<'a> {
    /// A string, or its beginning.
    Text(&'a str),
    /// A number.
    Number(Number),
    /// A boolean.
    Bool(bool),
    /// Null.
    Null,
    /// An object or an array.
    Nested,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first brace.
    #[default]
    Before,
    /// Right after an opening brace.
    FirstKey,
    /// After a comma in an object.
    NextKey,
    /// Inside a key.
    Key,
    /// Between key and colon.
    Colon,
    /// After the colon.
    Value,
    /// Before the next element or the end of an array.
    Element,
    /// Inside a string value.
    Text,
    /// Inside a number or literal.
    Word,
    AfterValue,
    /// After the last brace.
    Done,
}

#[derive(Debug, Default)]
struct Object {
    entries: Map<String, Value>,
    /// The key whose value is being parsed.
    key: String,
}

#[derive(Debug)]
enum Level {
    Object(Object),
    Array(Vec<Value>),
}

impl PartialJson {
    /// A parser without input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of bytes received.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Whether the outermost object is closed.
    pub fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    /// Whether parsing has stopped at a limit or an error.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A copy of all entries so far.
    pub fn snapshot(&self) -> Map<String, Value> {
        let text = self.open_text().map(|text| Value::String(text.to_owned()));
        let mut open = text.or_else(|| self.open_word());
        for level in self.inner.iter().rev() {
            open = Some(level.with(open));
        }
        self.root.with(open)
    }

    /// The top-level entry `key`, if any of it is there.
    pub fn get(&self, key: &str) -> Option<Entry<'_>> {
        let open = if self.root.key == key { self.open_entry() } else { None };
        open.or_else(|| self.root.entries.get(key).map(Entry::of))
    }

    /// The first `max_chars` characters of the string `key`. The cost is linear in the result.
    pub fn str_prefix(&self, key: &str, max_chars: usize) -> Option<&str> {
        match self.get(key)? {
            Entry::Text(text) => Some(first_chars(text, max_chars).0),
            Entry::Number(_) | Entry::Bool(_) | Entry::Null | Entry::Nested => None,
        }
    }

    /// The top-level entries that are neither objects nor arrays, in order. Only the first 64
    /// entries are checked, to bound the cost of a label.
    pub fn scalars(&self) -> impl Iterator<Item = (&str, Entry<'_>)> {
        self.entries().take(MAX_LOOKED_AT).filter(|(_, entry)| *entry != Entry::Nested)
    }

    /// The first of [`Self::scalars`].
    pub fn first_scalar(&self) -> Option<(&str, Entry<'_>)> {
        self.scalars().next()
    }

    /// The last characters of the raw text, at most [`TAIL_CHARS`].
    pub fn raw_tail(&self) -> &str {
        let start = self.tail.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(at, _)| at);
        self.tail.get(start..).unwrap_or_default()
    }

    fn entries(&self) -> impl Iterator<Item = (&str, Entry<'_>)> {
        let open = self.open_entry().map(|entry| (self.root.key.as_str(), entry));
        let replaced = open.as_ref().is_some_and(|(key, _)| self.root.entries.contains_key(*key));
        let added = if replaced { None } else { open.clone() };
        let complete = self.root.entries.iter().map(move |(key, value)| match &open {
            Some((open_key, entry)) if open_key == key => (key.as_str(), entry.clone()),
            _ => (key.as_str(), Entry::of(value)),
        });
        complete.chain(added)
    }

    /// What is certain about the current top-level entry.
    fn open_entry(&self) -> Option<Entry<'_>> {
        if !self.inner.is_empty() {
            return Some(Entry::Nested);
        }
        if let Some(text) = self.open_text() {
            return Some(Entry::Text(text));
        }
        match self.open_word()? {
            Value::Number(number) => Some(Entry::Number(number)),
            Value::Bool(answer) => Some(Entry::Bool(answer)),
            Value::Null => Some(Entry::Null),
            Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The beginning of the string being parsed.
    fn open_text(&self) -> Option<&str> {
        (self.state == State::Text).then(|| self.text.text())
    }

    /// The number or literal being parsed, if it is valid already.
    fn open_word(&self) -> Option<Value> {
        if self.state == State::Word { value_of(&self.word) } else { None }
    }
}

impl PartialJson {
    /// Parses the next chunk.
    pub fn push(&mut self, chunk: &str) {
        self.remember_tail(chunk);
        let room = MAX_BYTES.saturating_sub(self.n_bytes);
        self.n_bytes += chunk.len();
        let (mut rest, beyond) = chunk.split_at(chunk.floor_char_boundary(room));
        while !rest.is_empty() && !self.stopped {
            rest = self.step(rest);
        }
        self.stopped |= !beyond.is_empty();
    }

    /// Parses at least one character of `rest` and returns what is left.
    fn step<'a>(&mut self, rest: &'a str) -> &'a str {
        match self.state {
            State::Before => {
                let Some((_, after)) = rest.split_once('{') else { return "" };
                self.state = State::FirstKey;
                after
            }
            State::Key | State::Text => {
                let Some(after) = self.text.push(rest) else { return "" };
                self.close_text();
                after
            }
            State::Word => self.read_word(rest),
            State::Done => "",
            State::FirstKey
            | State::NextKey
            | State::Colon
            | State::Value
            | State::Element
            | State::AfterValue => {
                let mut following = rest.chars();
                if let Some(mark) = following.next().filter(|mark| !mark.is_whitespace()) {
                    self.read_mark(mark);
                }
                following.as_str()
            }
        }
    }

    /// Parses one character that is neither space nor inside a string, number or literal.
    fn read_mark(&mut self, mark: char) {
        match (self.state, mark) {
            (State::FirstKey | State::NextKey, '"') => self.state = State::Key,
            (State::FirstKey | State::NextKey | State::AfterValue, '}')
            | (State::Element | State::AfterValue, ']') => self.close(mark),
            // Junk before the first key, such as one brace too many.
            (State::FirstKey, _) if self.inner.is_empty() => {}
            (State::Colon, ':') => self.state = State::Value,
            (State::Value | State::Element, '"') => self.state = State::Text,
            (State::Value | State::Element, '{') => {
                self.open(Level::Object(Object::default()), State::FirstKey);
            }
            (State::Value | State::Element, '[') => {
                self.open(Level::Array(Vec::new()), State::Element);
            }
            (State::Value | State::Element, letter) if is_in_word(letter) => {
                self.word.clear();
                self.word.push(letter);
                self.state = State::Word;
            }
            (State::AfterValue, ',') => {
                self.state = match self.inner.last() {
                    Some(Level::Array(_)) => State::Element,
                    Some(Level::Object(_)) | None => State::NextKey,
                };
            }
            _ => self.stopped = true,
        }
    }

    fn close_text(&mut self) {
        let text = self.text.take();
        if self.state == State::Text {
            self.insert(Value::String(text));
            return;
        }
        match self.inner.last_mut() {
            Some(Level::Object(object)) => object.key = text,
            Some(Level::Array(_)) | None => self.root.key = text,
        }
        self.state = State::Colon;
    }

    fn read_word<'a>(&mut self, rest: &'a str) -> &'a str {
        let end = rest.find(|letter| !is_in_word(letter)).unwrap_or(rest.len());
        let (more, after) = rest.split_at(end);
        let room = MAX_WORD.saturating_sub(self.word.len());
        self.word.push_str(more.get(..room).unwrap_or(more));
        if more.len() > room {
            self.stopped = true;
        } else if !after.is_empty() {
            match value_of(&self.word) {
                Some(value) => self.insert(value),
                None => self.state = State::AfterValue,
            }
        }
        after
    }

    fn open(&mut self, level: Level, state: State) {
        if self.inner.len() + 1 == MAX_DEPTH {
            self.stopped = true;
            return;
        }
        self.inner.push(level);
        self.state = state;
    }

    fn close(&mut self, mark: char) {
        match (self.inner.pop(), mark) {
            (Some(Level::Object(object)), '}') => self.insert(Value::Object(object.entries)),
            (Some(Level::Array(elements)), ']') => self.insert(Value::Array(elements)),
            (None, '}') => self.state = State::Done,
            (level, _) => {
                self.inner.extend(level);
                self.stopped = true;
            }
        }
    }

    fn insert(&mut self, value: Value) {
        self.n_values += 1;
        match self.inner.last_mut() {
            Some(Level::Array(elements)) => elements.push(value),
            Some(Level::Object(object)) => object.insert(value),
            None => self.root.insert(value),
        }
        self.state = State::AfterValue;
        self.stopped |= self.n_values == MAX_VALUES;
    }

    /// Keeps a little more than is shown, so that characters are not dropped with every chunk.
    fn remember_tail(&mut self, chunk: &str) {
        const TAIL_BYTES: usize = TAIL_CHARS * 4;
        self.tail.push_str(end_of(chunk, TAIL_BYTES));
        if self.tail.len() > 8 * TAIL_BYTES {
            self.tail = end_of(&self.tail, TAIL_BYTES).to_owned();
        }
    }
}

impl Object {
    fn insert(&mut self, value: Value) {
        self.entries.insert(std::mem::take(&mut self.key), value);
    }

    fn with(&self, open: Option<Value>) -> Map<String, Value> {
        let mut entries = self.entries.clone();
        if let Some(value) = open {
            entries.insert(self.key.clone(), value);
        }
        entries
    }
}

impl Level {
    fn with(&self, open: Option<Value>) -> Value {
        match self {
            Self::Object(object) => Value::Object(object.with(open)),
            Self::Array(elements) => Value::Array(elements.iter().cloned().chain(open).collect()),
        }
    }
}

impl<'a> Entry<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Number(number) => Self::Number(number.clone()),
            Value::Bool(answer) => Self::Bool(*answer),
            Value::Null => Self::Null,
            Value::Array(_) | Value::Object(_) => Self::Nested,
        }
    }
}

/// The value of a number or literal; `None` if it is not valid yet.
fn value_of(word: &str) -> Option<Value> {
    serde_json::from_str(word).ok()
}

fn is_in_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.' | '_')
}

fn end_of(text: &str, most_bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most_bytes));
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
#[path = "partial_json_tests.rs"]
mod tests;
