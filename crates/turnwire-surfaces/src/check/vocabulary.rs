//! The official events, and what each of them is about.
//!
//! 59 types that official clients know, two more of Open Responses, those of our extended profile,
//! and two that are sent in practice and documented nowhere. Everything else belongs to other
//! vendors, and is not checked.

use serde_json::Value;

use crate::responses::ResponseEvent;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The response as a whole.
    Response(Phase),
    Error,
    ItemAdded,
    /// The final state of an item.
    ItemDone,
    /// A new part of an item.
    PartAdded(List),
    /// The final state of a part.
    PartDone(List),
    Delta(Text),
    /// A complete text.
    Whole(Text),
    /// A source of a text.
    Annotation,
    /// The lifecycle of a call, for items of this kind.
    Life(&'static str, Step),
    /// Something else about an item.
    Item,
    /// Another official event.
    Loose,
    /// An event of our extended profile.
    Own,
    Unknown,
}

/// Status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Created,
    Queued,
    InProgress,
    Completed,
    Failed,
    Incomplete,
}

/// The field of an item that has its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum List {
    Content,
    Summary,
}

impl List {
    /// The field with the index of a part.
    pub(super) fn index(self) -> &'static str {
        match self {
            Self::Content => "content_index",
            Self::Summary => "summary_index",
        }
    }

    /// The field of the item that has the parts.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Summary => "summary",
        }
    }
}

/// A text that is streamed in deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// The text of a part: its list, its type (`None` if several are in use), and the field of the
    /// complete text.
    OfPart(List, Option<&'static str>, &'static str),
    /// The text of the item itself: its type, and the field of the complete text, which has the
    /// same name in the item.
    OfItem(&'static str, &'static str),
}

/// A step in the lifecycle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Begun,
    GoesOn,
    Worked,
    Failed,
}

/// What an event of this type is about.
pub(super) fn subject_of(kind: &str) -> Subject {
    use List::{Content, Summary};

    let words: Vec<&str> = kind.split('.').collect();
    match words.as_slice() {
        ["error"] => Subject::Error,
        ["response", phase] => phase_of(phase).map_or(Subject::Unknown, Subject::Response),
        ["response", "output_item", "added"] => Subject::ItemAdded,
        ["response", "output_item", "done"] => Subject::ItemDone,
        // One family of servers sends the second for a reasoning part.
        ["response", "content_part" | "reasoning_part", "added"] => Subject::PartAdded(Content),
        ["response", "content_part" | "reasoning_part", "done"] => Subject::PartDone(Content),
        ["response", "reasoning_summary_part", "added"] => Subject::PartAdded(Summary),
        ["response", "reasoning_summary_part", "done"] => Subject::PartDone(Summary),
        ["response", "output_text", "annotation", "added"] => Subject::Annotation,
        ["response", text, "delta"] if text_of(text).is_some() => {
            text_of(text).map_or(Subject::Unknown, Subject::Delta)
        }
        ["response", text, "done"] if text_of(text).is_some() => {
            text_of(text).map_or(Subject::Unknown, Subject::Whole)
        }
        ["response", call, step] if life_of(call, step).is_some() => {
            life_of(call, step).unwrap_or(Subject::Unknown)
        }
        ["response", "shell_call_output_content", "delta" | "done"]
        | ["response", "image_generation_call", "partial_image"]
        | ["response", "compaction", "compacting"] => Subject::Item,
        // These have no item, or its index without its ID.
        ["keepalive"]
        | ["response", "shell_call_command", "added" | "delta" | "done"]
        | ["response", "audio", "delta" | "done"]
        | ["response", "audio", "transcript", "delta" | "done"] => Subject::Loose,
        _ if ResponseEvent::TYPES_EXTENDED.contains(&kind) => Subject::Own,
        _ => Subject::Unknown,
    }
}

fn phase_of(word: &str) -> Option<Phase> {
    Some(match word {
        "created" => Phase::Created,
        "queued" => Phase::Queued,
        "in_progress" => Phase::InProgress,
        "completed" => Phase::Completed,
        "failed" => Phase::Failed,
        "incomplete" => Phase::Incomplete,
        _ => return None,
    })
}

fn text_of(word: &str) -> Option<Text> {
    use List::{Content, Summary};

    Some(match word {
        "output_text" => Text::OfPart(Content, Some("output_text"), "text"),
        "refusal" => Text::OfPart(Content, Some("refusal"), "refusal"),
        "reasoning_text" | "reasoning" => Text::OfPart(Content, None, "text"),
        "reasoning_summary_text" => Text::OfPart(Summary, Some("summary_text"), "text"),
        "function_call_arguments" => Text::OfItem("function_call", "arguments"),
        "mcp_call_arguments" => Text::OfItem("mcp_call", "arguments"),
        "custom_tool_call_input" => Text::OfItem("custom_tool_call", "input"),
        "code_interpreter_call_code" => Text::OfItem("code_interpreter_call", "code"),
        _ => return None,
    })
}

/// The kinds of calls with lifecycle events, and the name of the step between start and end.
const LIVES: [(&str, &str); 6] = [
    ("mcp_call", ""),
    ("mcp_list_tools", ""),
    ("web_search_call", "searching"),
    ("file_search_call", "searching"),
    ("code_interpreter_call", "interpreting"),
    ("image_generation_call", "generating"),
];

/// Whether items of this kind have lifecycle events.
pub(super) fn has_life(kind: &str) -> bool {
    LIVES.iter().any(|(name, _)| *name == kind)
}

fn life_of(call: &str, step: &str) -> Option<Subject> {
    let (kind, between) = LIVES.iter().find(|(name, _)| *name == call)?;
    // Searches have no official event for a failure; our extended profile has one.
    let may_fail = kind.starts_with("mcp_") || kind.ends_with("search_call");
    let step = match step {
        "in_progress" => Step::Begun,
        "completed" => Step::Worked,
        "failed" if may_fail => Step::Failed,
        _ if !between.is_empty() && step == *between => Step::GoesOn,
        _ => return None,
    };
    Some(Subject::Life(kind, step))
}

/// Required type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Want {
    Text,
    Number,
    Object,
}

impl Want {
    pub(super) fn is_met_by(self, value: Option<&Value>) -> bool {
        match self {
            Self::Text => value.is_some_and(Value::is_string),
            Self::Number => value.is_some_and(Value::is_u64),
            Self::Object => value.is_some_and(Value::is_object),
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Number => "a number from 0",
            Self::Object => "an object",
        }
    }
}

/// The fields that are needed to interpret an event. Fields that clients can do without, such as
/// `logprobs`, are not required.
pub(super) fn wanted(subject: Subject) -> Vec<(&'static str, Want)> {
    const ITEM: [(&str, Want); 2] = [("item_id", Want::Text), ("output_index", Want::Number)];
    let with = |more: &[(&'static str, Want)]| [&ITEM[..], more].concat();
    match subject {
        Subject::Response(_) => vec![("response", Want::Object)],
        Subject::ItemAdded | Subject::ItemDone => {
            vec![("output_index", Want::Number), ("item", Want::Object)]
        }
        Subject::PartAdded(list) | Subject::PartDone(list) => {
            with(&[(list.index(), Want::Number), ("part", Want::Object)])
        }
        Subject::Delta(Text::OfPart(list, ..)) => {
            with(&[(list.index(), Want::Number), ("delta", Want::Text)])
        }
        Subject::Whole(Text::OfPart(list, _, field)) => {
            with(&[(list.index(), Want::Number), (field, Want::Text)])
        }
        Subject::Delta(Text::OfItem(..)) => with(&[("delta", Want::Text)]),
        Subject::Whole(Text::OfItem(_, field)) => with(&[(field, Want::Text)]),
        Subject::Annotation => {
            with(&[("content_index", Want::Number), ("annotation_index", Want::Number)])
        }
        Subject::Life(..) | Subject::Item => with(&[]),
        Subject::Error | Subject::Loose | Subject::Own | Subject::Unknown => Vec::new(),
    }
}
