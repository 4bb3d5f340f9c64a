//! A question of a tool as a form: one line per field of its schema.
//!
//! MCP allows flat objects only: texts, numbers, booleans and choices. Whatever else a schema has
//! is asked for as JSON. The server checks the result against the schema.

use std::fmt::Write;

use serde_json::{Map, Value};
use turnwire_contract::Reply;
use turnwire_surfaces::visible;

const DECLINE: &str = "/decline";
const DISMISS: &str = "/cancel";
const YES_OR_NO: &str = "  [y]es, [n]o: ";

/// A question, and what was answered so far.
#[derive(Debug)]
pub(super) struct Form {
    message: String,
    fields: Vec<Field>,
    content: Map<String, Value>,
    /// Index of the field that is asked for.
    current: usize,
}

#[derive(Debug)]
struct Field {
    name: String,
    /// What the person reads: the title or the name.
    title: String,
    description: String,
    kind: Kind,
    is_required: bool,
    default: Option<Value>,
}

#[derive(Debug)]
enum Kind {
    Text,
    Boolean,
    Number,
    Choice(Vec<Value>),
    Json,
}

/// What follows a line.
#[derive(Debug)]
pub(super) enum FormStep {
    /// The next field, or the same again.
    Ask(String),
    Done(Reply),
}

impl Form {
    pub(super) fn new(message: &str, schema: &Value) -> Self {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().map(|(name, schema)| {
            let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
            Field {
                title: if text("title").is_empty() { name.clone() } else { text("title").into() },
                description: text("description").to_owned(),
                kind: Kind::of(schema),
                is_required: required.contains(&name.as_str()),
                default: schema.get("default").cloned(),
                name: name.clone(),
            }
        });
        let fields = fields.collect();
        Self { message: message.to_owned(), fields, content: Map::new(), current: 0 }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The first line of the form.
    pub(super) fn begin(&self) -> String {
        match self.fields.first() {
            Some(field) => format!("  {DECLINE} declines, {DISMISS} dismisses\n{}", field.prompt()),
            None => YES_OR_NO.to_owned(),
        }
    }

    pub(super) fn begin_again(&mut self) -> String {
        self.content = Map::new();
        self.current = 0;
        self.begin()
    }

    /// Reads a line; `None` if the terminal is closed.
    pub(super) fn read(&mut self, line: Option<&str>) -> FormStep {
        let Some(line) = line.map(str::trim) else { return FormStep::Done(Reply::Cancelled) };
        let Some(field) = self.fields.get(self.current) else {
            return match line.to_lowercase().as_str() {
                "y" | "yes" => self.accepted(),
                "n" | "no" | DECLINE => FormStep::Done(Reply::Declined),
                DISMISS => FormStep::Done(Reply::Cancelled),
                _ => FormStep::Ask(YES_OR_NO.to_owned()),
            };
        };
        match line {
            DECLINE => return FormStep::Done(Reply::Declined),
            DISMISS => return FormStep::Done(Reply::Cancelled),
            _ => {}
        }
        match field.value(line) {
            Ok(value) => {
                if let Some(value) = value {
                    self.content.insert(field.name.clone(), value);
                }
                self.current += 1;
            }
            Err(why) => return FormStep::Ask(format!("  {why}\n{}", field.prompt())),
        }
        match self.fields.get(self.current) {
            Some(next) => FormStep::Ask(next.prompt()),
            None => self.accepted(),
        }
    }

    fn accepted(&mut self) -> FormStep {
        FormStep::Done(Reply::Accepted { content: std::mem::take(&mut self.content) })
    }
}

impl Kind {
    fn of(schema: &Value) -> Self {
        if let Some(Value::Array(choices)) = schema.get("enum") {
            return Self::Choice(choices.clone());
        }
        if let Some(Value::Array(choices)) = schema.get("oneOf") {
            let values = choices.iter().filter_map(|choice| choice.get("const").cloned());
            return Self::Choice(values.collect());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("boolean") => Self::Boolean,
            Some("number" | "integer") => Self::Number,
            _ => Self::Json,
        }
    }
}

impl Field {
    fn prompt(&self) -> String {
        let mut prompt = format!("  {}", self.title);
        if !self.description.is_empty() && self.description != self.title {
            let _ = write!(prompt, " ({})", self.description);
        }
        match &self.kind {
            Kind::Boolean => prompt.push_str(" [y/n]"),
            Kind::Choice(choices) => {
                for (index, choice) in choices.iter().enumerate() {
                    let _ = write!(prompt, "\n    {}. {}", index + 1, plain(choice));
                }
                prompt.push_str("\n  number or value");
            }
            Kind::Json => prompt.push_str(" as JSON"),
            Kind::Text | Kind::Number => {}
        }
        match &self.default {
            Some(default) => {
                let _ = write!(prompt, " [{}]", plain(default));
            }
            None if !self.is_required => prompt.push_str(" (may be left empty)"),
            None => {}
        }
        // The schema comes from the tool's server.
        format!("{}: ", visible::exact(&prompt).replace('\r', " "))
    }

    /// The value of a line; nothing if the field is left out.
    fn value(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if !self.is_required => Ok(None),
                None if matches!(self.kind, Kind::Text) => Ok(Some(Value::from(""))),
                None => Err("this is needed".to_owned()),
            };
        }
        match &self.kind {
            Kind::Text => Ok(Some(Value::from(line))),
            Kind::Boolean => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Some(Value::from(true))),
                "n" | "no" | "false" => Ok(Some(Value::from(false))),
                _ => Err("y or n".to_owned()),
            },
            Kind::Number => match serde_json::from_str::<Value>(line) {
                Ok(number @ Value::Number(_)) => Ok(Some(number)),
                _ => Err("that is not a number".to_owned()),
            },
            Kind::Choice(choices) => {
                let named = choices.iter().find(|choice| plain(choice) == line);
                let counted =
                    line.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
                let chosen = named.or(counted).cloned();
                chosen.map(Some).ok_or_else(|| "that is not one of them".to_owned())
            }
            Kind::Json => serde_json::from_str(line)
                .map(Some)
                .map_err(|error| format!("that is not JSON: {error}")),
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
