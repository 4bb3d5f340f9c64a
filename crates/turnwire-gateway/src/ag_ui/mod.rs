//! `/ag-ui`: runs for clients of AG-UI, the protocol of `CopilotKit` and others.
//!
//! A thread is a conversation, the same that other surfaces use. A run of the protocol is a run, or
//! a part of one: when only people are awaited, the run of the protocol ends with interrupts, and a
//! request with `resume` goes on. The protocol has no way to resume a stream or to cancel a run;
//! both are here.
//!
//! * [`input`] is the request, [`messages`] its messages and what is new in them,
//!   [`message_references`] how those are stored that the client gets back;
//! * [`run`] starts a run, [`answers`] answers interrupts, [`thread`] finds conversations and runs;
//! * [`stream`] sends the events, [`resume`] sends the rest of them.

mod answers;
mod input;
mod message_references;
mod messages;
mod resume;
mod run;
mod stream;
mod thread;

pub(crate) use self::input::AgentRequest;

module_routes! { [run::run_agent] [resume::resume] [resume::cancel] }
