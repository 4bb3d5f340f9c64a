//! The surface of AG-UI 1.0: a run as the events of the protocol.
//!
//! A run of ours is one or more runs of the protocol. The protocol has no channel into a running
//! run, so when only people are awaited, its run ends with interrupts (`pause`); what follows the
//! answers is its next run, over the same journal. A projection of the whole journal has them one
//! after the other, which is how the protocol replays a thread.
//!
//! Reading order: [`event`] has the events, `projection` makes them, with `speech` for texts and
//! reasoning, `tools` for calls and `activity` for their progress; `message_list` is what a
//! client has of the thread, for the snapshot after a withdrawn turn; `origin` is what the request
//! said, kept in the journal.
//!
//! What this surface guarantees, because clients fail otherwise:
//!
//! * no field is ever `null`; an absent value is left out;
//! * a run is not finished while a text, a reasoning, a call or a step is open;
//! * a client before 1.0 refuses two outcomes of 1.0, so it gets others ([`ProtocolVersion`]).

mod activity;
pub mod event;
mod message_list;
pub mod origin;
mod pause;
pub mod projection;
mod speech;
mod tools;

pub use event::{AgUiEvent, AgUiFrame, Interrupt, Outcome, ProtocolVersion};
pub use origin::Origin;
pub use pause::{InterruptId, InterruptTarget};
pub use projection::AgUi;

#[cfg(test)]
#[path = "ag_ui_tests.rs"]
mod tests;
