//! Writes down what each surface shows of a journal, for people to read and tests to compare.

use std::{fmt::Write, sync::Arc};

use turnwire_contract::Recorded;
use turnwire_surfaces::{
    CallbackFrame, Callbacks, ChatEvents, ChatFrame, MessageFrame, Messages, Projection, Told,
    Transcript, TranscriptFrame,
};

type Journal = [Arc<Recorded>];
type WriteDown = fn(&Journal) -> String;

/// Every surface: the name of its golden file, and how it is written down.
pub const ALL: [(&str, WriteDown); 6] = [
    ("events.jsonl", events),
    ("callbacks.txt", callbacks),
    ("fallback.txt", fallback),
    ("on_event.jsonl", on_event),
    ("messages.txt", messages),
    ("transcript.txt", transcript),
];

/// What happened.
pub fn events(journal: &Journal) -> String {
    let line = |recorded: &Arc<Recorded>| {
        serde_json::to_string(recorded.as_ref()).expect("an event is JSON") + "\n"
    };
    journal.iter().map(line).collect()
}

/// `on_token`, `on_tool_start`, `on_tool_end`, all given.
pub fn callbacks(journal: &Journal) -> String {
    called(journal, Told { start: true, end: true })
}

/// `on_token` alone: the bracketed fallback.
pub fn fallback(journal: &Journal) -> String {
    called(journal, Told::default())
}

fn called(journal: &Journal, told: Told) -> String {
    let line = |frame| match frame {
        CallbackFrame::Token(text) => format!("on_token({text:?})\n"),
        CallbackFrame::ToolStart { name } => format!("on_tool_start({name:?})\n"),
        CallbackFrame::ToolEnd { name, summary } => format!("on_tool_end({name:?}, {summary:?})\n"),
    };
    frames(journal, Callbacks::new(told)).into_iter().map(line).collect()
}

/// `on_event`.
pub fn on_event(journal: &Journal) -> String {
    let frames = frames(journal, ChatEvents::new());
    let line = |frame: &ChatFrame| format!("{} {}", frame.event_type(), frame.data());
    frames.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// The message manager.
pub fn messages(journal: &Journal) -> String {
    let mut out = String::new();
    let mut projection = Messages::new();
    for recorded in journal {
        for frame in projection.project(recorded) {
            write_message_frame(&mut out, &projection, &frame);
        }
    }
    out.push_str("--- at the end\n");
    for message in projection.messages() {
        let _ = writeln!(out, "{}", brief(&format!("{message:?}")));
    }
    out
}

fn write_message_frame(out: &mut String, messages: &Messages, frame: &MessageFrame) {
    let _ = match frame {
        MessageFrame::AssistantMessageAdded { .. } => writeln!(out, "on_assistant_message_added()"),
        MessageFrame::ContentUpdated { message, chunk } => {
            let accumulated = messages.accumulated(*message);
            writeln!(out, "on_assistant_content_updated({chunk:?}, {accumulated:?})")
        }
        MessageFrame::ToolBlockUpdated { .. } => {
            let update = messages.update(frame);
            writeln!(out, "on_tool_block_updated({})", brief(&format!("{update:?}")))
        }
        MessageFrame::MessagesChanged { structural } => {
            writeln!(out, "on_messages_change() structural={structural}")
        }
    };
}

/// The terminal, without colours and redrawing.
pub fn transcript(journal: &Journal) -> String {
    let frames = frames(journal, Transcript::new());
    let mut out = String::new();
    for frame in frames {
        if let TranscriptFrame::Text(text) = &frame {
            let _ = writeln!(out, "stdout {text:?}");
        } else if let Some(line) = frame.plain_line() {
            let _ = writeln!(out, "stderr {line}");
        }
    }
    out
}

/// All frames of a journal.
pub fn frames<P: Projection>(journal: &Journal, mut projection: P) -> Vec<P::Frame> {
    journal.iter().flat_map(|recorded| projection.project(recorded)).collect()
}

/// Long values are cut: the goldens are for reading, and other tests compare whole values.
fn brief(text: &str) -> String {
    const MOST: usize = 900;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} bytes)", text.split_at(end).0, text.len()),
        None => text.to_owned(),
    }
}
