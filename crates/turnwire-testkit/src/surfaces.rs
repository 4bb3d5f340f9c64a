//! Renders a journal for each surface, for golden files.

use std::{fmt::Write, sync::Arc};

use turnwire_contract::RecordedEvent;
use turnwire_surfaces::{
    AgUi, AgUiFrame, AiSdk, AiSdkFrame, CallbackFrame, Callbacks, ChatCompletions, ChatEvents,
    ChatFrame, ChatStream, ChatStreamFrame, ChatStreamOptions, CompletionOptions, FrameAt,
    MessageFrame, Messages, Profile, Projection, Responses, RunSnapshot, ToolCallbacks, Transcript,
    TranscriptFrame, WithCursors, WsChat, WsOptions,
    ag_ui::ProtocolVersion,
    ai_sdk::{Dialect, Span},
    wire_json, wire_json_pretty,
};

type RecordedEvents = [Arc<RecordedEvent>];
type WriteDown = fn(&RecordedEvents) -> String;

/// Every surface: the name of its golden file, and its renderer.
pub const ALL: [(&str, WriteDown); 18] = [
    ("events.jsonl", events),
    ("callbacks.txt", callbacks),
    ("fallback.txt", fallback),
    ("on_event.jsonl", on_event),
    ("messages.txt", messages),
    ("transcript.txt", transcript),
    ("responses.jsonl", responses),
    ("responses_extended.jsonl", responses_extended),
    ("ws_chat.jsonl", ws_chat),
    ("ws_chat_asked.jsonl", ws_chat_asked),
    ("chat_stream.txt", chat_stream),
    ("chat_completions.txt", chat_completions),
    ("ag_ui.txt", ag_ui),
    ("ag_ui_before_1.txt", ag_ui_before_1),
    ("snapshot.json", snapshot),
    ("ai_sdk_5.txt", |journal| ui_messages(journal, Dialect::V5)),
    ("ai_sdk_6.txt", |journal| ui_messages(journal, Dialect::V6)),
    ("ai_sdk_7.txt", |journal| ui_messages(journal, Dialect::V7)),
];

/// Options of a chat socket client that requests everything.
pub const ASKED: WsOptions = WsOptions {
    chunks: true,
    progress: true,
    tools: true,
    approvals: true,
    inputs: true,
    output: true,
    resume: true,
};

pub fn events(journal: &RecordedEvents) -> String {
    journal.iter().map(|recorded| wire_json(recorded.as_ref()) + "\n").collect()
}

/// Renders the callbacks `on_token`, `on_tool_start` and `on_tool_end`.
pub fn callbacks(journal: &RecordedEvents) -> String {
    called(journal, ToolCallbacks { start: true, end: true })
}

/// Renders `on_token` alone: the bracketed fallback.
pub fn fallback(journal: &RecordedEvents) -> String {
    called(journal, ToolCallbacks::default())
}

fn called(journal: &RecordedEvents, told: ToolCallbacks) -> String {
    let line = |frame| match frame {
        CallbackFrame::Token(text) => format!("on_token({text:?})\n"),
        CallbackFrame::ToolStart { name } => format!("on_tool_start({name:?})\n"),
        CallbackFrame::ToolEnd { name, summary } => format!("on_tool_end({name:?}, {summary:?})\n"),
    };
    frames(journal, Callbacks::new(told)).into_iter().map(line).collect()
}

/// Renders the callback `on_event`.
pub fn on_event(journal: &RecordedEvents) -> String {
    let frames = frames(journal, ChatEvents::new());
    let line = |frame: &ChatFrame| format!("{} {}", frame.event_type(), frame.data());
    frames.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Renders the message manager.
pub fn messages(journal: &RecordedEvents) -> String {
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

/// Renders the terminal output, without colours and redrawing.
pub fn transcript(journal: &RecordedEvents) -> String {
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

/// Renders `/v1/responses` for clients with official event names only.
pub fn responses(journal: &RecordedEvents) -> String {
    responded(journal, Profile::Strict)
}

/// Renders `/v1/responses` with extensions.
pub fn responses_extended(journal: &RecordedEvents) -> String {
    responded(journal, Profile::Extended)
}

fn responded(journal: &RecordedEvents, profile: Profile) -> String {
    let frames = frames(journal, Responses::new(profile));
    frames.iter().map(|frame| wire_json(frame) + "\n").collect()
}

/// Renders `/ws/chat` without options.
pub fn ws_chat(journal: &RecordedEvents) -> String {
    on_socket(journal, WsOptions::default())
}

/// Renders `/ws/chat` with all options.
pub fn ws_chat_asked(journal: &RecordedEvents) -> String {
    on_socket(journal, ASKED)
}

fn on_socket(journal: &RecordedEvents, options: WsOptions) -> String {
    let frames = frames(journal, WsChat::new(options));
    frames.iter().map(|placed| options.wire_text(placed) + "\n").collect()
}

/// Renders `/chat/stream` with tokens, approvals and inputs. Without these options a client gets
/// the same stream without those lines, with the same ids.
pub fn chat_stream(journal: &RecordedEvents) -> String {
    let options = ChatStreamOptions { tokens: true, approvals: true, inputs: true };
    let frames = frames(journal, WithCursors::new(ChatStream::new(options)));
    let run_id = journal.first().map_or("", |recorded| recorded.run_id.as_str());
    let block = |placed: &FrameAt<ChatStreamFrame>| {
        format!("id: {run_id}:{}\ndata: {}\n\n", placed.cursor, placed.frame.data())
    };
    frames.iter().map(block).collect()
}

/// Renders `/v1/chat/completions`: the stream with usage, then the answer without a stream.
pub fn chat_completions(journal: &RecordedEvents) -> String {
    let options = CompletionOptions { include_usage: true, ..CompletionOptions::default() };
    let mut projection = ChatCompletions::new(options);
    let mut out = String::new();
    for frame in journal.iter().flat_map(|recorded| projection.project(recorded)) {
        // Writing to a string cannot fail.
        let _ = write!(out, "data: {}\n\n", frame.data());
    }
    let answer = match projection.completion() {
        Ok(completion) => wire_json_pretty(&completion),
        Err(failure) => wire_json_pretty(&failure),
    };
    out + &answer + "\n"
}

/// Renders `/ag-ui` for a client of AG-UI 1.0, as `GET /ag-ui/runs/{id}` replays it.
pub fn ag_ui(journal: &RecordedEvents) -> String {
    ag_ui_frames(journal, ProtocolVersion::V1).iter().map(ag_ui_text).collect()
}

/// Renders `/ag-ui` for a client of an earlier version.
pub fn ag_ui_before_1(journal: &RecordedEvents) -> String {
    ag_ui_frames(journal, ProtocolVersion::Before1).iter().map(ag_ui_text).collect()
}

/// Returns the frames of `/ag-ui`.
pub fn ag_ui_frames(journal: &RecordedEvents, version: ProtocolVersion) -> Vec<AgUiFrame> {
    frames(journal, AgUi::for_version(version))
}

/// Returns a frame of `/ag-ui` as a server-sent event.
pub fn ag_ui_text(frame: &AgUiFrame) -> String {
    format!("id: {}\ndata: {}\n\n", frame.number, frame.data())
}

/// Renders `GET /v1/runs/{id}` after the end of the run.
pub fn snapshot(journal: &RecordedEvents) -> String {
    let snapshot = RunSnapshot::of(journal.iter().map(AsRef::as_ref));
    wire_json_pretty(&snapshot) + "\n"
}

/// Renders the streams of `/ai-sdk/chat`, one for each segment.
pub fn ui_messages(journal: &RecordedEvents, dialect: Dialect) -> String {
    let segments = (0..).map(|segment| ui_stream(journal, dialect, Span::only(segment)));
    segments.take_while(|stream| !stream.is_empty()).flatten().collect()
}

/// Renders one stream of `/ai-sdk/chat`, frame by frame.
pub fn ui_stream(journal: &RecordedEvents, dialect: Dialect, span: Span) -> Vec<String> {
    let frames = frames(journal, AiSdk::new(dialect, span));
    let chunks = frames.into_iter().filter_map(|frame| match frame {
        AiSdkFrame::Chunk(chunk) => Some(chunk),
        AiSdkFrame::AwaitsPeople(_) => None,
    });
    let block = |data: &str| format!("data: {data}\n\n");
    let blocks = chunks.flat_map(|chunk| {
        let done = chunk.is_last().then(|| block("[DONE]"));
        std::iter::once(block(&chunk.data())).chain(done)
    });
    blocks.collect()
}

pub fn frames<P: Projection>(journal: &RecordedEvents, mut projection: P) -> Vec<P::Frame> {
    journal.iter().flat_map(|recorded| projection.project(recorded)).collect()
}

/// Shortens long values for readability. Other tests compare whole values.
fn brief(text: &str) -> String {
    const MAX_CHARS: usize = 900;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", text.split_at(end).0, text.len()),
        None => text.to_owned(),
    }
}
