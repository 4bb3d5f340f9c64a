//! Parses an answer that is a JSON object while it is streamed.

use serde_json::Value;
use turnwire_contract::{Finish, ModelError, ModelPart};

use crate::json_text::{TextStart, start_of_text, unescaped, whole_part};

/// Key of the call in an answer. Regular calls of the model are numbered from 0.
const KEY: u32 = u32::MAX;

type Part = Result<ModelPart, ModelError>;

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct AnswerReader {
    written: String,
    /// Number of bytes of the answer's text that have been passed on.
    n_told: usize,
    shape: Shape,
    has_called: bool,
}

/// Form of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Shape {
    /// Not known yet.
    #[default]
    Open,
    /// An object that starts at this byte.
    Object(usize),
    /// An object that starts at `begin` with an answer, which has been passed on up to `n_read`.
    Answer { begin: usize, n_read: usize },
    /// Plain text: the server did not enforce the schema.
    Words,
}

impl AnswerReader {
    /// Returns the parts that follow from the next part.
    pub(super) fn take(&mut self, part: Part) -> Vec<Part> {
        match part {
            Ok(ModelPart::Text(text)) => {
                self.written.push_str(&text);
                self.look();
                self.new_parts()
            }
            Ok(ModelPart::Finished(finish)) => self.finish(finish),
            other => vec![other],
        }
    }

    /// Detects the form of the answer from its beginning. Some models wrap their JSON.
    fn look(&mut self) {
        if self.shape != Shape::Open {
            return;
        }
        let rest = self.written.trim_start();
        let inner = rest
            .strip_prefix("```")
            .map_or(rest, |rest| rest.strip_prefix("json").unwrap_or(rest).trim_start());
        let may_be_wrapped = "```json".starts_with(rest.trim_end());
        match inner.chars().next() {
            Some('{') => self.shape = Shape::Object(self.written.len() - inner.len()),
            _ if may_be_wrapped => {}
            Some(_) => self.shape = Shape::Words,
            None => {}
        }
    }

    /// Returns the parts that are known so far.
    fn new_parts(&mut self) -> Vec<Part> {
        match self.shape {
            Shape::Open => Vec::new(),
            Shape::Words => {
                let words = self.written.split_at_checked(self.n_told).map(|(_, new)| new);
                let words = words.unwrap_or_default().to_owned();
                self.tell(&words)
            }
            Shape::Object(begin) => {
                let object = self.written.get(begin..).unwrap_or_default();
                if let TextStart::At(start) = start_of_text(object, "answer") {
                    self.shape = Shape::Answer { begin, n_read: begin + start };
                    return self.new_parts();
                }
                named_tool(object).and_then(|tool| self.call(tool)).into_iter().collect()
            }
            Shape::Answer { begin, n_read } => {
                let rest = self.written.get(n_read..).unwrap_or_default();
                let (whole, _) = whole_part(rest);
                let words = unescaped(rest.get(..whole).unwrap_or_default());
                self.shape = Shape::Answer { begin, n_read: n_read + whole };
                self.tell(&words)
            }
        }
    }

    fn tell_up_to(&mut self, answer: &str) -> Vec<Part> {
        let new = answer.split_at_checked(self.n_told).map_or("", |(_, new)| new).to_owned();
        self.tell(&new)
    }

    fn tell(&mut self, words: &str) -> Vec<Part> {
        if words.is_empty() {
            return Vec::new();
        }
        self.n_told += words.len();
        vec![Ok(ModelPart::Text(words.to_owned()))]
    }

    fn call(&mut self, name: String) -> Option<Part> {
        let is_new = !std::mem::replace(&mut self.has_called, true);
        is_new.then_some(Ok(ModelPart::CallStarted { key: KEY, id: None, name }))
    }

    /// Handles the end of the answer.
    fn finish(&mut self, finish: Finish) -> Vec<Part> {
        let mut parts = self.last_words();
        let finish = match finish {
            Finish::Answered if self.has_called => Finish::CalledTools,
            other => other,
        };
        parts.push(Ok(ModelPart::Finished(finish)));
        parts
    }

    fn last_words(&mut self) -> Vec<Part> {
        let (Shape::Object(begin) | Shape::Answer { begin, .. }) = self.shape else {
            self.shape = Shape::Words;
            return self.new_parts();
        };
        let object = self.written.get(begin..).unwrap_or_default();
        // Text after the object, such as the end of a code fence, is ignored.
        let mut objects = serde_json::Deserializer::from_str(object).into_iter::<Value>();
        let Some(Ok(Value::Object(mut object))) = objects.next() else {
            return self.broken();
        };
        if !object.contains_key("answer") && !object.contains_key("tool") {
            return self.broken();
        }
        let mut parts = match object.shift_remove("answer") {
            Some(Value::String(answer)) => self.tell_up_to(&answer),
            // An answer with the client's schema is passed on as JSON.
            Some(answer) => self.tell_up_to(&answer.to_string()),
            None => Vec::new(),
        };
        if let Some(Value::String(tool)) = object.shift_remove("tool") {
            parts.extend(self.call(tool));
            let arguments = object.shift_remove("arguments").unwrap_or_default();
            let text = if arguments.is_null() { "{}".to_owned() } else { arguments.to_string() };
            parts.push(Ok(ModelPart::CallArguments { key: KEY, text }));
        }
        parts
    }

    /// Handles an object that is incomplete or of neither form. An incomplete call is left as it
    /// is, so that the engine treats it as cut off; otherwise the text is shown.
    fn broken(&mut self) -> Vec<Part> {
        if self.n_told > 0 {
            return Vec::new();
        }
        if self.has_called {
            let (_, arguments) = self.written.split_once("\"arguments\"").unwrap_or_default();
            let text = arguments.trim_start_matches([' ', '\n', '\t', '\r', ':']).to_owned();
            return vec![Ok(ModelPart::CallArguments { key: KEY, text })];
        }
        self.shape = Shape::Words;
        self.new_parts()
    }
}

/// The tool of an object that has its name and what follows it.
fn named_tool(object: &str) -> Option<String> {
    let TextStart::At(start) = start_of_text(object, "tool") else { return None };
    let rest = object.get(start..)?;
    let (whole, ends) = whole_part(rest);
    let (name, behind) = rest.split_at_checked(whole)?;
    let next = behind.strip_prefix('"')?.trim_start().strip_prefix(',')?.trim_start();
    (ends && next.starts_with("\"arguments\"")).then(|| unescaped(name))
}
