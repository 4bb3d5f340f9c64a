//! Assembles tool calls from the deltas of a stream.
//!
//! By the specification, each delta has an `index`, the first has ID and name, and the others have
//! arguments. Compatible servers omit the index, send the ID late, use index 0 for every call,
//! repeat the name in each delta, send the arguments as an object, or repeat the whole call at the
//! end; `fixtures/chat_completions` has a stream for each. Here every delta is assigned to its
//! call, and each call is reported once, with its name.

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::ModelPart;

/// A delta of a call, as sent by servers.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallDelta {
    pub(super) index: Option<i64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionDelta>,
    pub(super) custom: Option<FunctionDelta>,
    /// What the provider wants back with the call, such as a signature.
    pub(super) extra_content: Option<Box<Value>>,
}

/// The function in a delta, or the custom tool, whose arguments are in `input`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<String>,
    #[serde(default, alias = "input")]
    pub(super) arguments: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Calls {
    /// Names of the offered tools, as the server knows them, and their own. A name in this list is
    /// complete; any other may continue.
    offered: Vec<(String, String)>,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    index: Option<i64>,
    id: Option<String>,
    name: String,
    is_announced: bool,
    /// Whether the arguments are plain text.
    is_custom: bool,
    arguments: String,
    extra_content: Option<Value>,
}

impl Calls {
    /// Creates an empty list. `offered` are the names of the offered tools.
    pub(super) fn new(offered: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { offered: offered.into_iter().collect(), calls: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn add(&mut self, delta: CallDelta, parts: &mut Vec<ModelPart>) {
        let is_custom = delta.custom.is_some();
        let function = delta.function.or(delta.custom).unwrap_or_default();
        let piece = Piece {
            index: delta.index,
            id: delta.id.filter(|id| !id.is_empty()),
            name: function.name.filter(|name| !name.is_empty()),
            arguments: text_of(function.arguments),
        };
        let place = self.place_of(&piece).unwrap_or_else(|| self.open(&piece, parts));
        let Some(call) = self.calls.get_mut(place) else { return };
        let key = u32::try_from(place).unwrap_or(u32::MAX);

        call.is_custom |= is_custom;
        call.extra_content = delta.extra_content.map(|extra| *extra).or(call.extra_content.take());
        call.index = call.index.or(piece.index);
        if call.id.is_none() {
            call.id = piece.id;
        }
        if let Some(name) = piece.name
            && !call.is_announced
        {
            call.take_name(name);
        }
        if !piece.arguments.is_empty() && piece.arguments == call.arguments && call.is_whole() {
            return;
        }
        let name_is_whole = call.id.is_some() && is_complete(&self.offered, &call.name);
        if name_is_whole || !(call.name.is_empty() || piece.arguments.is_empty()) {
            call.announce(key, &self.offered, parts);
        }
        call.arguments.push_str(&piece.arguments);
        if call.is_announced {
            parts.push(ModelPart::CallArguments { key, text: piece.arguments });
        }
    }

    /// Reports calls that waited for more of their name or for an ID.
    pub(super) fn close(&mut self, parts: &mut Vec<ModelPart>) {
        for (key, call) in (0..).zip(&mut self.calls) {
            call.announce(key, &self.offered, parts);
        }
    }

    /// Returns what the provider wants back with its calls, by their places among the reported ones.
    pub(super) fn extra_contents(&self) -> Map<String, Value> {
        let reported = (0_usize..).zip(self.calls.iter().filter(|call| call.is_announced));
        let extra = |(n, call): (usize, &Call)| Some((n.to_string(), call.extra_content.clone()?));
        reported.filter_map(extra).collect()
    }

    /// Returns the reported function calls without arguments.
    pub(super) fn without_arguments(&self) -> impl Iterator<Item = u32> {
        let is_bare =
            |call: &Call| call.is_announced && !call.is_custom && call.arguments.trim().is_empty();
        (0..).zip(&self.calls).filter(move |(_, call)| is_bare(call)).map(|(key, _)| key)
    }

    fn open(&mut self, piece: &Piece, parts: &mut Vec<ModelPart>) -> usize {
        self.close_named(parts);
        self.calls.push(Call {
            index: piece.index,
            id: None,
            name: String::new(),
            is_announced: false,
            is_custom: false,
            arguments: String::new(),
            extra_content: None,
        });
        self.calls.len() - 1
    }

    /// A new call completes the names of the calls before it.
    fn close_named(&mut self, parts: &mut Vec<ModelPart>) {
        for (key, call) in (0..).zip(&mut self.calls) {
            if call.id.is_some() {
                call.announce(key, &self.offered, parts);
            }
        }
    }

    /// Returns the index of the call that a delta belongs to; `None` if it starts a new one.
    fn place_of(&self, piece: &Piece) -> Option<usize> {
        if piece.index.is_some() {
            let same_index = |call: &Call| call.index == piece.index;
            return match self.calls.iter().rposition(same_index) {
                Some(place) if self.calls.get(place)?.is_followed_by(piece) => None,
                Some(place) => Some(place),
                None => self.place_by_id(piece, |call| {
                    call.index.is_none() || call.arguments == piece.arguments
                }),
            };
        }
        if piece.id.is_some() {
            return self.place_by_id(piece, |_| true).or_else(|| {
                let last = self.calls.last()?;
                let is_late_id = last.id.is_none() && piece.name.is_none();
                is_late_id.then(|| self.calls.len() - 1)
            });
        }
        match (&piece.name, self.calls.last()) {
            (None, Some(_)) => Some(self.calls.len() - 1),
            (Some(_), Some(last)) if last.name.is_empty() => Some(self.calls.len() - 1),
            _ => None,
        }
    }

    fn place_by_id(&self, piece: &Piece, also: impl Fn(&Call) -> bool) -> Option<usize> {
        let id = piece.id.as_ref()?;
        self.calls.iter().rposition(|call| call.id.as_ref() == Some(id) && also(call))
    }
}

impl Call {
    /// Whether `piece` is another call with the same index, for servers that use index 0 for every
    /// call (`every_index_is_zero.sse`).
    fn is_followed_by(&self, piece: &Piece) -> bool {
        if piece.name.is_none() {
            return false;
        }
        match (&self.id, &piece.id) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => self.is_whole() && self.arguments != piece.arguments,
        }
    }

    /// Whether the arguments are complete, so that further arguments are a repetition. Always false
    /// for plain text.
    fn is_whole(&self) -> bool {
        !self.is_custom && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    fn take_name(&mut self, name: String) {
        if name.starts_with(&self.name) {
            // The delta repeats the name, possibly with more of it.
            self.name = name;
        } else {
            self.name.push_str(&name);
        }
    }

    fn announce(&mut self, key: u32, offered: &[(String, String)], parts: &mut Vec<ModelPart>) {
        if self.is_announced || self.name.is_empty() {
            return;
        }
        self.is_announced = true;
        let known = offered.iter().find(|(written, _)| *written == self.name);
        let name = known.map_or(&self.name, |(_, own)| own).clone();
        parts.push(ModelPart::CallStarted { key, id: self.id.clone(), name });
        if !self.arguments.is_empty() {
            parts.push(ModelPart::CallArguments { key, text: self.arguments.clone() });
        }
    }
}

/// A delta without its empty fields.
#[derive(Debug)]
struct Piece {
    index: Option<i64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
}

/// Whether `name` is offered and not a prefix of another offered name.
fn is_complete(offered: &[(String, String)], name: &str) -> bool {
    let mut candidates = offered.iter().filter(|(offer, _)| offer.starts_with(name));
    candidates.next().is_some_and(|(offer, _)| offer == name) && candidates.next().is_none()
}

fn text_of(arguments: Option<Value>) -> String {
    match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
