//! The surface of S2: a turn as the messages of a chat WebSocket.
//!
//! Text is sent as `token`s, a tool as a `tool_start` and then a `tool_complete`, or an `error`
//! with the code `TOOL_ERROR` if it failed. Every end of a tool has its start before it, with the
//! same `tool_call_id`, also for calls whose tool never started. Nothing comes after the end of a
//! call, and nothing after the end of a turn.
//!
//! How a turn ends:
//!
//! * **it has its answer**, complete or cut off by a limit: `complete`, once. A tool that failed
//!   during the turn does not change that.
//! * **it failed**: `error` with `LLM_ERROR` or `INTERNAL_ERROR`, and no `complete`, which always
//!   means that there is an answer.
//! * **it was cancelled**: `error` without a code, because there is no failure, and no `complete`.
//!
//! Such an `error` has `outcome`, so that a client need not know the codes to see that the turn has
//! ended. An `error` without it does not end the turn: a tool failed, the model request is retried,
//! or the answer starts again because its worker died. `fatal` is never set here: the socket
//! outlives every turn.
//!
//! The cursor of a message does not depend on the enabled messages: disabled ones are counted and
//! left out. So a client may resume with other options.

use turnwire_contract::{
    Completeness, ConversationId, Event, IncompleteReason, InputId, ItemId, RecordedEvent, RunId,
    RunOutcome, Timestamp, ToolOutcome, ToolOutput, any_event,
};

use crate::{
    BudgetQuestion, Projection,
    call_state::CallState,
    calls::{Call, CallBook, CallEvent},
    clean::{Cleaner, clean},
    cursor::{Cursor, FrameAt},
    preview::{WIRE_BYTES, result_ref, result_summary, sentence, wire_text},
    wire_json::{escaped, wire_json},
    words,
    ws_message::{
        ApprovalRequest, Complete, ErrorCode, FailedCall, InputRequest, Started, Token,
        ToolComplete, ToolOutputPiece, ToolProgress, ToolResultChunk, ToolResultEnd, ToolStart,
        TurnOutcome, WsError, WsMessage,
    },
    ws_request::WsOptions,
};

/// The projection of S2.
#[derive(Debug, Default)]
pub struct WsChat {
    options: WsOptions,
    book: CallBook,
    cleaner: Cleaner,
    run_id: Option<RunId>,
    /// Whether any text of the open turn was sent.
    turn_was_heard: bool,
    /// The last message of the open turn, which enters the conversation with the turn.
    said: Option<ItemId>,
    /// The last message that is in the conversation.
    kept: Option<ItemId>,
}

/// The messages of one event, with their cursors.
struct Out {
    cursor: Cursor,
    messages: Vec<FrameAt<WsMessage>>,
}

impl WsChat {
    /// Creates a projection with these optional messages.
    pub fn new(options: WsOptions) -> Self {
        Self { options, ..Self::default() }
    }

    fn token(&mut self, text: &str, out: &mut Out) {
        let text = self.cleaner.clean(text);
        if !text.is_empty() {
            self.turn_was_heard = true;
            out.send(WsMessage::Token(Token { content: text.into_owned() }));
        }
    }

    fn started(&self, recorded: &RecordedEvent, out: &mut Out) {
        out.send_if(self.options.resume, || {
            let (run_id, conversation_id) = (recorded.run_id.clone(), self.conversation_id());
            WsMessage::Started(Started { run_id, conversation_id })
        });
    }

    fn end_call(
        &self,
        call: &Call,
        outcome: &ToolOutcome,
        duration_ms: u64,
        at: Timestamp,
        out: &mut Out,
    ) {
        let ToolOutcome::Succeeded { output } = outcome else {
            return out.send(tool_error(call, outcome, duration_ms, at));
        };
        let text = clean(&output.text);
        let beginning = wire_text(&text, WIRE_BYTES);
        let is_cut = beginning.truncated || output.rest.is_some();
        let reference = self.result_ref(call);
        if is_cut {
            self.send_chunks(call, output, &text, &reference, out);
        }
        let is_empty = text.is_empty();
        let words = if is_empty { result_summary(outcome) } else { beginning.text.to_owned() };
        out.send(WsMessage::ToolComplete(ToolComplete {
            tool_call_id: call.call_id.clone(),
            tool_name: call.shown_name(),
            tool_result: words,
            timestamp: at,
            kind: call.tool.kind,
            server: call.tool.server.clone(),
            duration_ms,
            empty: is_empty && output.images.is_empty(),
            truncated: is_cut,
            result_bytes: is_cut.then(|| output.total_bytes()),
            result_ref: is_cut.then_some(reference),
        }));
    }

    /// Sends the part of a large result that the journal contains, in pieces.
    fn send_chunks(
        &self,
        call: &Call,
        output: &ToolOutput,
        text: &str,
        reference: &str,
        out: &mut Out,
    ) {
        let (mut rest, mut chunks) = (text, 0);
        while !rest.is_empty() {
            let piece = wire_text(rest, WIRE_BYTES).text;
            let index = chunks;
            out.send_if(self.options.chunks, || {
                let (tool_call_id, content) = (call.call_id.clone(), piece.to_owned());
                WsMessage::ToolResultChunk(ToolResultChunk { tool_call_id, index, content })
            });
            rest = rest.get(piece.len()..).unwrap_or_default();
            chunks += 1;
        }
        out.send_if(self.options.chunks, || {
            WsMessage::ToolResultEnd(ToolResultEnd {
                tool_call_id: call.call_id.clone(),
                chunks,
                bytes: text.len() as u64,
                result_bytes: output.total_bytes(),
                result_ref: reference.to_owned(),
            })
        });
    }

    /// Sends progress while the call is in progress. Reports after its end are dropped.
    fn tell_progress(&self, recorded: &RecordedEvent, out: &mut Out) {
        let call = recorded.event.call_id().and_then(|call_id| self.book.get(call_id));
        let Some(call) = call.filter(|call| !call.is_over) else { return };
        out.send_if(self.options.progress, || tool_progress(call, recorded));
    }

    fn end_turn(&self, outcome: &RunOutcome) -> WsMessage {
        match outcome {
            RunOutcome::Completed => self.complete(TurnOutcome::Completed, None),
            RunOutcome::Incomplete { reason } => {
                self.complete(TurnOutcome::Incomplete, Some(*reason))
            }
            RunOutcome::Failed { failure } => {
                let code = if failure.code.starts_with("model_") {
                    ErrorCode::LlmError
                } else {
                    ErrorCode::InternalError
                };
                WsMessage::Error(WsError {
                    outcome: Some(TurnOutcome::Failed),
                    failure: Some(failure.code.clone()),
                    ..WsError::new(code, sentence(&failure.message))
                })
            }
            RunOutcome::Cancelled => WsMessage::Error(WsError {
                code: None,
                outcome: Some(TurnOutcome::Cancelled),
                ..WsError::new(ErrorCode::InternalError, "cancelled")
            }),
        }
    }

    fn complete(&self, outcome: TurnOutcome, reason: Option<IncompleteReason>) -> WsMessage {
        let conversation_id = self.conversation_id();
        WsMessage::Complete(Complete {
            message_id: self.last_message_id(),
            conversation_id,
            outcome,
            reason,
        })
    }

    /// The model's last message, or the user's if the model generated none.
    fn last_message_id(&self) -> String {
        if let Some(item_id) = &self.kept {
            return item_id.to_string();
        }
        let asked = self.book.request().zip(self.run_id.as_ref());
        let last = asked.and_then(|(request, run_id)| request.entries(run_id).pop());
        last.map(|entry| entry.id.to_string()).unwrap_or_default()
    }

    /// Empty for a run outside of any conversation; the socket starts none.
    fn conversation_id(&self) -> ConversationId {
        let id = self.book.request().and_then(|request| request.conversation_id.clone());
        id.unwrap_or_else(|| ConversationId::new(""))
    }

    fn result_ref(&self, call: &Call) -> String {
        let run_id = self.run_id.as_ref().map(RunId::as_str).unwrap_or_default();
        result_ref(run_id, call.call_id.as_str())
    }
}

impl WsChat {
    #[expect(clippy::wildcard_enum_match_arm, reason = "`project` has matched every event")]
    fn project_call(&self, recorded: &RecordedEvent, change: CallEvent, out: &mut Out) {
        match &recorded.event {
            Event::ApprovalRequested { call_id, .. } => {
                if let Some(call) = self.book.get(call_id).filter(|call| !call.is_over) {
                    out.send_if(self.options.approvals, || approval_request(call, recorded));
                }
            }
            Event::InputRequested { call_id, .. } => {
                if let Some(call) = self.book.get(call_id).filter(|call| !call.is_over) {
                    out.send_if(self.options.inputs, || input_request(call, recorded));
                }
            }
            Event::ToolOutputAdded { call_id, text }
                if self.book.get(call_id).is_some_and(|call| !call.is_over) =>
            {
                out.send_if(self.options.output, || {
                    let (tool_call_id, content) = (call_id.clone(), sentence(text));
                    WsMessage::ToolOutput(ToolOutputPiece { tool_call_id, content })
                });
            }
            Event::ToolStarted { call_id, .. } => {
                if let Some(call) = self.book.get(call_id).filter(|_| change == CallEvent::Began) {
                    out.send(tool_start(call, recorded.at));
                }
            }
            any_event!(
                ToolPhase ToolProgressed ToolStayedSilent ToolRetried
            ) => self.tell_progress(recorded, out),
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                let Some(call) = self.book.get(call_id) else { return };
                if change == CallEvent::BeganAndEnded {
                    out.send(tool_start(call, recorded.at));
                }
                if change != CallEvent::Neither {
                    self.end_call(call, outcome, *duration_ms, recorded.at, out);
                }
            }
            _ => {}
        }
    }
}

impl Projection for WsChat {
    type Frame = FrameAt<WsMessage>;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<FrameAt<WsMessage>> {
        let change = self.book.note(recorded);
        let mut out = Out { cursor: Cursor::new(recorded.seq, 0), messages: Vec::new() };
        match &recorded.event {
            Event::RunQueued { .. } => {
                self.run_id = Some(recorded.run_id.clone());
                self.started(recorded, &mut out);
            }
            Event::TurnStarted { .. } => self.turn_was_heard = false,
            Event::TurnRetried { reason, .. } => {
                let message = format!("{}; trying again", reason.message);
                out.send(WsMessage::Error(WsError {
                    failure: Some(reason.code.clone()),
                    ..WsError::new(ErrorCode::LlmError, sentence(&message))
                }));
            }
            // The turn continues, so there is no `outcome` (S2-22).
            Event::PartSkipped { reason, .. } => {
                out.send(WsMessage::Error(WsError {
                    failure: Some(reason.code.clone()),
                    ..WsError::new(ErrorCode::LlmError, sentence(&reason.message))
                }));
            }
            Event::TurnAbandoned { .. } => {
                self.said = None;
                if std::mem::take(&mut self.turn_was_heard) {
                    let message = "the answer was interrupted and begins again";
                    out.send(WsMessage::refused(ErrorCode::InternalError, message));
                }
            }
            Event::TurnFinished { .. } => self.kept = self.said.take().or(self.kept.take()),
            Event::MessageStarted { .. } => self.cleaner.reset(),
            // A refusal is sent like any text, because the user has to see it.
            Event::TextAdded { text, .. } | Event::RefusalAdded { text, .. } => {
                self.token(text, &mut out);
            }
            Event::MessageFinished { item_id, text, refusal, completeness } => {
                let is_kept = *completeness != Completeness::Superseded;
                if is_kept && !(text.is_empty() && refusal.is_empty()) {
                    self.said = Some(item_id.clone());
                }
            }
            any_event!(
                ApprovalRequested InputRequested ToolOutputAdded ToolStarted ToolPhase
                ToolProgressed ToolStayedSilent ToolRetried ToolFinished
            ) => self.project_call(recorded, change, &mut out),
            Event::RunFinished { outcome, .. } => out.send(self.end_turn(outcome)),
            any_event!(
                RunStarted Unknown LogprobsAdded ToolTaskStarted RunTakenOver AnnotationAdded
                ReasoningAdded ReasoningFinished DiscoveryStarted ToolsDiscovered CallAnnounced
                ArgumentsAdded ArgumentsFinished ApprovalResolved InputResolved
            ) => {}
        }
        out.messages
    }
}

impl Out {
    fn send(&mut self, message: WsMessage) {
        self.send_if(true, || message);
    }

    /// Counts the message in any case, so that cursors do not depend on the options.
    fn send_if(&mut self, is_wanted: bool, message: impl FnOnce() -> WsMessage) {
        if is_wanted {
            self.messages.push(FrameAt { cursor: self.cursor, frame: message() });
        }
        self.cursor.index += 1;
    }
}

impl WsOptions {
    /// A message as JSON, with its `cursor` if the client enabled `resume`.
    pub fn wire_text(self, placed: &FrameAt<WsMessage>) -> String {
        #[derive(serde::Serialize)]
        struct WithCursor<'a> {
            #[serde(flatten)]
            message: &'a WsMessage,
            cursor: Cursor,
        }
        if self.resume {
            wire_json(&WithCursor { message: &placed.frame, cursor: placed.cursor })
        } else {
            wire_json(&placed.frame)
        }
    }
}

fn tool_start(call: &Call, at: Timestamp) -> WsMessage {
    WsMessage::ToolStart(ToolStart {
        tool_call_id: call.call_id.clone(),
        tool_name: call.shown_name(),
        tool_input: input(call),
        timestamp: at,
        kind: call.tool.kind,
        server: call.tool.server.clone(),
    })
}

fn approval_request(call: &Call, recorded: &RecordedEvent) -> WsMessage {
    let mut asked = ApprovalRequest {
        tool_call_id: call.call_id.clone(),
        tool_name: call.shown_name(),
        tool_input: input(call),
        timestamp: recorded.at,
        kind: call.tool.kind,
        server: call.tool.server.clone(),
        expires_at: None,
        changed: None,
        effect: None,
        server_claims: None,
        budget: None,
    };
    if let Event::ApprovalRequested { expires_at, changed, effect, server_claims, budget, .. } =
        &recorded.event
    {
        asked.expires_at = *expires_at;
        asked.changed = changed.as_deref().map(sentence);
        asked.effect = *effect;
        asked.server_claims = *server_claims;
        asked.budget = BudgetQuestion::of(budget.as_deref());
    }
    WsMessage::ApprovalRequest(asked)
}

fn input_request(call: &Call, recorded: &RecordedEvent) -> WsMessage {
    let (input_id, message, schema, expires_at) = if let Event::InputRequested {
        input_id,
        message,
        schema,
        expires_at,
        ..
    } = &recorded.event
    {
        (input_id.clone(), sentence(message), schema.clone(), *expires_at)
    } else {
        (InputId::new(""), String::new(), serde_json::Value::Null, None)
    };
    WsMessage::InputRequest(InputRequest {
        tool_call_id: call.call_id.clone(),
        input_id,
        tool_name: call.shown_name(),
        message,
        schema,
        timestamp: recorded.at,
        kind: call.tool.kind,
        server: call.tool.server.clone(),
        expires_at,
    })
}

fn tool_error(call: &Call, outcome: &ToolOutcome, duration_ms: u64, at: Timestamp) -> WsMessage {
    let tool_name = call.shown_name();
    let message = format!("{tool_name}: {}", outcome.problem().unwrap_or_default());
    WsMessage::Error(WsError {
        failure: outcome.failure().map(|failure| failure.code),
        call: Some(FailedCall {
            tool_call_id: call.call_id.clone(),
            tool_name,
            kind: call.tool.kind,
            server: call.tool.server.clone(),
            state: CallState::at_end(outcome),
            duration_ms,
            timestamp: at,
        }),
        ..WsError::new(ErrorCode::ToolError, sentence(&message))
    })
}

/// The tool's own progress, or else the note about the event.
fn tool_progress(call: &Call, recorded: &RecordedEvent) -> WsMessage {
    let (progress, total, message) =
        if let Event::ToolProgressed { progress, total, message, .. } = &recorded.event {
            (Some(*progress), *total, message.as_deref().map(sentence))
        } else {
            (None, None, words::tool_note(call, &recorded.event, recorded.at))
        };
    WsMessage::ToolProgress(ToolProgress {
        tool_call_id: call.call_id.clone(),
        tool_name: call.shown_name(),
        progress,
        total,
        message,
        timestamp: recorded.at,
        kind: call.tool.kind,
        server: call.tool.server.clone(),
    })
}

/// The arguments as the model generated them if they are a JSON object, else wrapped in one.
fn input(call: &Call) -> String {
    let raw = call.raw_arguments().unwrap_or_default().trim();
    let is_object = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(raw).is_ok();
    if is_object { escaped(raw).into_owned() } else { wire_json(&call.arguments()) }
}

#[cfg(test)]
#[path = "ws_chat_tests.rs"]
mod tests;
