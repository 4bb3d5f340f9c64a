//! The surface of S0: `on_token`, and `on_tool_start` and `on_tool_end` if they are given.
//!
//! A host that gives neither sees tools as bracketed text among the tokens, byte for byte as in
//! earlier versions: a line break before the first tool of a turn and after its last one, and for
//! each tool `[Executing tool: …]` and `[Tool result: …]` on lines of their own. Each of them is
//! one token. A host that gives both sees nothing of tools in the tokens. A host that gives one
//! gets the other as text, including the line breaks.

use turnwire_contract::{CallId, Event, RecordedEvent, ToolOutcome, any_event};

use crate::{
    Projection,
    calls::{CallBook, CallEvent},
    clean::Cleaner,
    preview::{bracketed_result, result_summary},
};

/// The optional callbacks that were given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCallbacks {
    /// `on_tool_start`.
    pub start: bool,
    /// `on_tool_end`.
    pub end: bool,
}

/// The arguments of one callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackFrame {
    /// `on_token`.
    Token(String),
    /// `on_tool_start`.
    ToolStart {
        /// Name of the tool.
        name: String,
    },
    /// `on_tool_end`.
    ToolEnd {
        /// Name of the tool.
        name: String,
        /// Summary of the result on one line; never empty.
        summary: String,
    },
}

/// The projection of S0.
#[derive(Debug, Default)]
pub struct Callbacks {
    given: ToolCallbacks,
    book: CallBook,
    cleaner: Cleaner,
    /// Whether the line break before the tools of this turn was sent, and the one after was not.
    among_tools: bool,
}

impl Callbacks {
    /// Creates a projection for a host that gave these callbacks.
    pub fn new(given: ToolCallbacks) -> Self {
        Self { given, ..Self::default() }
    }

    fn token(&mut self, text: &str) -> Vec<CallbackFrame> {
        let text = self.cleaner.clean(text);
        if text.is_empty() { Vec::new() } else { vec![CallbackFrame::Token(text.into_owned())] }
    }

    fn begin_tool(&mut self, call_id: &CallId, frames: &mut Vec<CallbackFrame>) {
        let Some(call) = self.book.get(call_id) else { return };
        let name = call.tool.name.clone();
        if !self.among_tools {
            self.among_tools = true;
            self.break_line(frames);
        }
        frames.push(if self.given.start {
            CallbackFrame::ToolStart { name }
        } else {
            CallbackFrame::Token(format!("[Executing tool: {name}]\n"))
        });
    }

    fn end_tool(
        &mut self,
        call_id: &CallId,
        outcome: &ToolOutcome,
        frames: &mut Vec<CallbackFrame>,
    ) {
        let Some(call) = self.book.get(call_id) else { return };
        let name = call.tool.name.clone();
        frames.push(if self.given.end {
            CallbackFrame::ToolEnd { name, summary: result_summary(outcome) }
        } else {
            CallbackFrame::Token(format!("[Tool result: {}]\n", bracketed_result(outcome)))
        });
        if self.book.n_open() == 0 {
            self.leave_tools(frames);
        }
    }

    fn leave_tools(&mut self, frames: &mut Vec<CallbackFrame>) {
        if self.among_tools {
            self.among_tools = false;
            self.break_line(frames);
        }
    }

    fn break_line(&self, frames: &mut Vec<CallbackFrame>) {
        if !(self.given.start && self.given.end) {
            frames.push(CallbackFrame::Token("\n".to_owned()));
        }
    }
}

impl Projection for Callbacks {
    type Frame = CallbackFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<CallbackFrame> {
        let event = self.book.note(recorded);
        let mut frames = Vec::new();
        match &recorded.event {
            // A refusal is shown like any text, because the user has to see it.
            Event::TextAdded { text, .. } | Event::RefusalAdded { text, .. } => {
                return self.token(text);
            }
            Event::MessageStarted { .. } => self.cleaner.reset(),
            Event::ToolStarted { call_id, .. } => {
                if event == CallEvent::Began {
                    self.begin_tool(call_id, &mut frames);
                }
            }
            Event::ToolFinished { call_id, outcome, .. } => {
                if event == CallEvent::BeganAndEnded {
                    self.begin_tool(call_id, &mut frames);
                }
                if event != CallEvent::Neither {
                    self.end_tool(call_id, outcome, &mut frames);
                }
            }
            // Every call has ended by now; if one has not, it will not end any more.
            Event::TurnStarted { .. } | Event::RunFinished { .. } => self.leave_tools(&mut frames),
            any_event!(
                RunQueued RunStarted Unknown LogprobsAdded ToolTaskStarted RunTakenOver
                TurnRetried PartSkipped TurnAbandoned TurnFinished AnnotationAdded MessageFinished
                ReasoningAdded ReasoningFinished DiscoveryStarted ToolsDiscovered CallAnnounced
                ArgumentsAdded ArgumentsFinished ApprovalRequested ApprovalResolved ToolPhase
                ToolProgressed ToolOutputAdded InputRequested InputResolved ToolStayedSilent
                ToolRetried
            ) => {}
        }
        frames
    }
}

#[cfg(test)]
#[path = "callbacks_tests.rs"]
mod tests;
