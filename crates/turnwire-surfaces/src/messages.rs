//! The surface of S4: a list of messages that keeps itself up to date.
//!
//! [`Messages`] holds the list, so that a consumer keeps no state: a frame says *where* something
//! changed and *what is new*, and the rest is borrowed from the list ([`Messages::accumulated`],
//! [`Messages::update`]). Nothing is copied whole per delta, so the cost of an answer or an
//! argument is linear in its size, however it is cut into pieces.
//!
//! Each turn of the model is one assistant message, added right before its first content. Each call
//! is one block with four stages that never go back: `start` once, `streaming` per piece of its
//! arguments, `running` while a tool runs or waits for the user, `end` once, and then nothing.
//! Whatever a cancel or a crash leaves open is closed here as well; only calls for the client stay
//! open, because this run does not know their end.

use std::collections::HashMap;

use turnwire_contract::{
    CallId, Completeness, Event, Finish, Item, ItemId, RecordedEvent, Role, RunOutcome, RunRequest,
    ToolOutcome, any_event,
};

use crate::{
    Projection,
    calls::CallBook,
    clean::Cleaner,
    earlier::{end_earlier_block, messages_of, words_of},
    message::{Message, MessageState, Stage, ToolBlock},
    words,
};

/// A change of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageFrame {
    /// A message of the model was added.
    AssistantMessageAdded {
        /// Index in the list.
        message: usize,
    },
    /// A message has grown; [`Messages::accumulated`] has its full text.
    ContentUpdated {
        /// Index in the list.
        message: usize,
        /// The new text only.
        chunk: String,
    },
    /// A call has changed; [`Messages::update`] has its full state.
    ToolBlockUpdated {
        /// Index of the message in the list.
        message: usize,
        /// Index of the block in the message.
        block: usize,
        /// Stage of the call.
        stage: Stage,
        /// The new part of the arguments, if they changed.
        parameters_chunk: Option<String>,
    },
    /// The list has changed.
    MessagesChanged {
        /// Whether more than the length of a text has changed: a message or block was added, or one
        /// has ended. Other changes may be batched.
        structural: bool,
    },
}

/// The state of a call, borrowed from the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolBlockUpdate<'a> {
    /// Index of the message in the list.
    pub message: usize,
    /// ID of the tool call.
    pub id: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// The arguments so far, as JSON text.
    pub parameters: &'a str,
    /// The new part of the arguments only.
    pub parameters_chunk: Option<&'a str>,
    /// The arguments so far, in short form; `None` if there is nothing to show.
    pub compact_params: Option<&'a str>,
    /// The complete result.
    pub result: Option<&'a str>,
    /// Whether the tool succeeded.
    pub success: Option<bool>,
    /// Error message.
    pub error: Option<&'a str>,
    /// Stage of the call.
    pub stage: Stage,
    /// What the tool is doing, in short form, while it is running.
    pub note: Option<&'a str>,
    /// The result, in short form.
    pub short_result: Option<&'a str>,
    /// Images that the tool returned, as `data:` URLs.
    pub images: &'a [String],
}

/// The projection of S4.
#[derive(Debug, Default)]
pub struct Messages {
    book: CallBook,
    list: Vec<Message>,
    /// Indexes of the block of a call: message, block.
    places: HashMap<CallId, (usize, usize)>,
    /// Number of messages before the run; no frames are sent about them.
    n_earlier: usize,
    /// Partial output is cleaned per call, because a control sequence may be split.
    output_cleaners: HashMap<CallId, Cleaner>,
    /// The message of the open turn.
    current: Option<usize>,
    content_cleaner: Cleaner,
    reasoning_cleaner: Cleaner,
}

impl Messages {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// A list that starts with the conversation before the run. No frames are sent about it.
    pub fn after(history: &[Item]) -> Self {
        let list = messages_of(history);
        Self { n_earlier: list.len(), list, ..Self::default() }
    }

    /// The current list.
    pub fn messages(&self) -> &[Message] {
        &self.list
    }

    /// The full text of a message so far; empty if there is no such message.
    pub fn accumulated(&self, message: usize) -> &str {
        self.list.get(message).map_or("", |message| &message.content)
    }

    /// The full state of the call that `frame` is about; `None` if it is about none.
    pub fn update<'a>(&'a self, frame: &'a MessageFrame) -> Option<ToolBlockUpdate<'a>> {
        let MessageFrame::ToolBlockUpdated { message, block, stage, parameters_chunk } = frame
        else {
            return None;
        };
        let block = self.list.get(*message)?.tool_blocks.get(*block)?;
        Some(ToolBlockUpdate {
            message: *message,
            id: block.id.as_str(),
            name: &block.tool.name,
            parameters: &block.parameters,
            parameters_chunk: parameters_chunk.as_deref(),
            compact_params: Some(block.compact_params.as_str()).filter(|label| !label.is_empty()),
            result: block.result.as_deref(),
            success: block.success,
            error: block.error.as_deref(),
            stage: *stage,
            note: Some(block.note.as_str()).filter(|note| !note.is_empty()),
            short_result: block.short_result.as_deref(),
            images: &block.images,
        })
    }
}

impl Messages {
    fn add_input(&mut self, request: &RunRequest) -> Vec<MessageFrame> {
        // Results that the client sends for its own calls belong to the messages that made them.
        for item in &request.input {
            end_earlier_block(&mut self.list, item);
        }
        let asked = request.input.iter().filter_map(spoken);
        self.list.extend(asked.enumerate().map(|(n_before, (role, content))| {
            let id = format!("input_{}", n_before + 1);
            Message { content, ..Message::new(id, role, MessageState::Complete) }
        }));
        if self.list.is_empty() { Vec::new() } else { vec![changed(true)] }
    }

    /// Index of the message of the open turn. Adds the message if there is none.
    fn open_message(&mut self, item_id: &ItemId, frames: &mut Vec<MessageFrame>) -> usize {
        if let Some(message) = self.current {
            return message;
        }
        let message = self.list.len();
        let id = item_id.as_str().to_owned();
        self.list.push(Message::new(id, Role::Assistant, MessageState::Streaming));
        self.current = Some(message);
        self.content_cleaner.reset();
        self.reasoning_cleaner.reset();
        frames.extend([MessageFrame::AssistantMessageAdded { message }, changed(true)]);
        message
    }

    fn add_content(&mut self, item_id: &ItemId, text: &str) -> Vec<MessageFrame> {
        let mut frames = Vec::with_capacity(2);
        let message = self.open_message(item_id, &mut frames);
        let chunk = self.content_cleaner.clean(text);
        if let Some(slot) = self.list.get_mut(message).filter(|_| !chunk.is_empty()) {
            slot.content.push_str(&chunk);
            let chunk = chunk.into_owned();
            frames.extend([MessageFrame::ContentUpdated { message, chunk }, changed(false)]);
        }
        frames
    }

    fn add_reasoning(&mut self, item_id: &ItemId, text: &str) -> Vec<MessageFrame> {
        let mut frames = Vec::with_capacity(1);
        let message = self.open_message(item_id, &mut frames);
        if let Some(slot) = self.list.get_mut(message) {
            slot.reasoning.push_str(&self.reasoning_cleaner.clean(text));
            frames.push(changed(false));
        }
        frames
    }

    /// Sets the final state of the message of the open turn, unless it has one.
    fn close_message(&mut self, state: MessageState) -> Vec<MessageFrame> {
        let slot = self.current.and_then(|message| self.list.get_mut(message));
        match slot {
            Some(slot) if slot.state == MessageState::Streaming => {
                slot.state = state;
                vec![changed(true)]
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn note_completeness(&mut self, completeness: Completeness) -> Vec<MessageFrame> {
        match completeness {
            Completeness::Complete => Vec::new(),
            Completeness::Cut => self.close_message(MessageState::Cut),
            Completeness::Superseded => self.close_message(MessageState::Superseded),
        }
    }

    fn abandon_turn(&mut self) -> Vec<MessageFrame> {
        let Some(message) = self.current.take() else { return Vec::new() };
        let reason = "the answer was withdrawn".to_owned();
        let mut frames = self.end_open_blocks(message, &ToolOutcome::Skipped { reason });
        if let Some(slot) = self.list.get_mut(message) {
            slot.state = MessageState::Superseded;
        }
        frames.push(changed(true));
        frames
    }

    fn finish(&mut self, outcome: &RunOutcome) -> Vec<MessageFrame> {
        let (state, left_open) = match outcome {
            RunOutcome::Completed => (MessageState::Complete, "the run was over"),
            RunOutcome::Incomplete { .. } => (MessageState::Cut, "the run reached a limit"),
            RunOutcome::Failed { .. } => (MessageState::Cut, "the run failed"),
            RunOutcome::Cancelled => (MessageState::Cut, "the run was cancelled"),
        };
        let left_open = ToolOutcome::Skipped { reason: left_open.to_owned() };
        let mut frames = Vec::new();
        for message in self.n_earlier..self.list.len() {
            frames.extend(self.end_open_blocks(message, &left_open));
        }
        self.close_message(state);
        frames.push(changed(true));
        frames
    }
}

impl Messages {
    fn add_block(&mut self, call_id: &CallId, item_id: &ItemId) -> Vec<MessageFrame> {
        let mut frames = Vec::with_capacity(2);
        let message = self.open_message(item_id, &mut frames);
        let Some(call) = self.book.get(call_id) else { return frames };
        let Some(slot) = self.list.get_mut(message) else { return frames };
        let block = slot.tool_blocks.len();
        slot.tool_blocks.push(ToolBlock::new(call_id.clone(), call.tool.clone()));
        self.places.insert(call_id.clone(), (message, block));
        frames.extend([updated((message, block), Stage::Start, None), changed(true)]);
        frames
    }

    fn add_parameters(&mut self, call_id: &CallId, text: &str) -> Vec<MessageFrame> {
        let label = self.book.get(call_id).map(|call| call.label().into_owned());
        let Some((place, block)) = self.open_block(call_id) else { return Vec::new() };
        if block.stage > Stage::Streaming {
            return Vec::new();
        }
        block.stage = Stage::Streaming;
        block.parameters.push_str(text);
        block.compact_params = label.unwrap_or_default();
        vec![updated(place, Stage::Streaming, Some(text.to_owned())), changed(false)]
    }

    /// Sets the complete arguments. From a provider that does not stream them this is the first
    /// piece.
    fn close_parameters(&mut self, call_id: &CallId, arguments: &str) -> Vec<MessageFrame> {
        let label = self.book.get(call_id).map(|call| call.label().into_owned());
        let Some((_, block)) = self.open_block(call_id) else { return Vec::new() };
        if block.parameters.is_empty() && !arguments.is_empty() {
            return self.add_parameters(call_id, arguments);
        }
        block.compact_params = label.unwrap_or_default();
        if block.parameters == arguments {
            return Vec::new();
        }
        arguments.clone_into(&mut block.parameters);
        vec![changed(false)]
    }

    fn work_on_block(&mut self, call_id: &CallId, recorded: &RecordedEvent) -> Vec<MessageFrame> {
        let Some(call) = self.book.get(call_id) else { return Vec::new() };
        let note = words::tool_note(call, &recorded.event, recorded.at);
        let label = call.label().into_owned();
        let output = if let Event::ToolOutputAdded { text, .. } = &recorded.event {
            let cleaner = self.output_cleaners.entry(call_id.clone()).or_default();
            Some(cleaner.clean(text).into_owned())
        } else {
            None
        };
        let Some((place, block)) = self.open_block(call_id) else { return Vec::new() };
        block.stage = Stage::Running;
        block.compact_params = label;
        block.note = note.unwrap_or_default();
        if let Some(text) = output {
            block.output.push_str(&text);
        }
        vec![updated(place, Stage::Running, None), changed(false)]
    }

    fn end_block(
        &mut self,
        call_id: &CallId,
        outcome: &ToolOutcome,
        duration_ms: u64,
    ) -> Vec<MessageFrame> {
        let Some((place, block)) = self.open_block(call_id) else { return Vec::new() };
        block.end(outcome, duration_ms);
        self.output_cleaners.remove(call_id);
        vec![updated(place, Stage::End, None), changed(true)]
    }

    /// The block of a call that has not ended. A call that was not announced gets no block, because
    /// its tool is not known.
    fn open_block(&mut self, call_id: &CallId) -> Option<((usize, usize), &mut ToolBlock)> {
        let place @ (message, block) = *self.places.get(call_id)?;
        let block = self.list.get_mut(message)?.tool_blocks.get_mut(block)?;
        (block.stage != Stage::End).then_some((place, block))
    }

    fn end_open_blocks(&mut self, message: usize, outcome: &ToolOutcome) -> Vec<MessageFrame> {
        let slot = self.list.get_mut(message);
        let blocks = slot.map_or(&mut [][..], |slot| &mut slot.tool_blocks).iter_mut().enumerate();
        let open = blocks
            .filter(|(_, block)| block.stage != Stage::End && !block.tool.kind.is_run_by_client());
        open.map(|(place, block)| {
            block.end(outcome, 0);
            updated((message, place), Stage::End, None)
        })
        .collect()
    }
}

impl Projection for Messages {
    type Frame = MessageFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<MessageFrame> {
        self.book.note(recorded);
        match &recorded.event {
            Event::RunQueued { request } => self.add_input(request),
            Event::TurnStarted { .. } => {
                self.current = None;
                Vec::new()
            }
            Event::TurnAbandoned { .. } => self.abandon_turn(),
            Event::TurnFinished { finish, .. } => self.close_message(match finish {
                Finish::Answered | Finish::CalledTools => MessageState::Complete,
                Finish::Length | Finish::ContentFilter | Finish::Interrupted => MessageState::Cut,
            }),
            Event::MessageStarted { item_id } => {
                let mut frames = Vec::new();
                self.open_message(item_id, &mut frames);
                self.content_cleaner.reset();
                frames
            }
            Event::TextAdded { item_id, text } | Event::RefusalAdded { item_id, text } => {
                self.add_content(item_id, text)
            }
            Event::ReasoningAdded { item_id, text } => self.add_reasoning(item_id, text),
            Event::MessageFinished { completeness, .. }
            | Event::ReasoningFinished { completeness, .. } => {
                self.note_completeness(*completeness)
            }
            Event::CallAnnounced { call_id, item_id, .. } => self.add_block(call_id, item_id),
            Event::ArgumentsAdded { call_id, text } => self.add_parameters(call_id, text),
            Event::ArgumentsFinished { call_id, arguments, completeness } => {
                let mut frames = self.close_parameters(call_id, arguments);
                frames.extend(self.note_completeness(*completeness));
                frames
            }
            any_event!(
                ApprovalRequested ToolStarted ToolPhase ToolProgressed ToolOutputAdded
                InputRequested InputResolved ToolStayedSilent ToolRetried; call_id
            ) => self.work_on_block(call_id, recorded),
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                self.end_block(call_id, outcome, *duration_ms)
            }
            Event::ApprovalResolved { call_id, arguments: Some(arguments), .. } => {
                self.close_parameters(call_id, arguments)
            }
            Event::RunFinished { outcome, .. } => self.finish(outcome),
            any_event!(
                RunStarted Unknown LogprobsAdded ToolTaskStarted RunTakenOver TurnRetried
                PartSkipped AnnotationAdded DiscoveryStarted ToolsDiscovered ApprovalResolved
            ) => Vec::new(),
        }
    }
}

/// Role and text of a message; `None` for other items.
fn spoken(item: &Item) -> Option<(Role, String)> {
    match item {
        Item::Message { role, content } => Some((*role, content.iter().map(words_of).collect())),
        Item::Reasoning { .. } | Item::Call { .. } | Item::CallResult { .. } => None,
    }
}

fn changed(structural: bool) -> MessageFrame {
    MessageFrame::MessagesChanged { structural }
}

fn updated(
    (message, block): (usize, usize),
    stage: Stage,
    parameters_chunk: Option<String>,
) -> MessageFrame {
    MessageFrame::ToolBlockUpdated { message, block, stage, parameters_chunk }
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
