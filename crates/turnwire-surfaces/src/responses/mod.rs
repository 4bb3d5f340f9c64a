//! The Responses surface: a run as `/v1/responses` shows it, to official clients unchanged.
//!
//! Every byte here is meant to be accepted by the official SDKs and by the Open Responses
//! schema, so the words in this folder are theirs. Reading order:
//!
//! * [`event`] has the frames of the stream, [`item`] what an answer is made of, and
//!   [`response`] the response object;
//! * [`projection`] turns events into frames. Messages and reasoning are told in `speech`,
//!   calls in `tools`, their ends in `endings`, questions for tools in `discovery`, and what
//!   came of a call is worded in `outcome`;
//! * [`input`] lists a conversation as items, [`ids`] renames runs and approval requests, and
//!   [`echo`] says what the gateway keeps of a request for the response object to repeat.
//!
//! There are two [`Profile`]s. The strict one has official event names only, because some
//! official clients throw at any other; the extended one adds events of ours and leaves out
//! nothing.

mod discovery;
pub mod echo;
mod endings;
pub mod event;
pub mod ids;
pub mod input;
pub mod item;
mod outcome;
pub mod projection;
pub mod response;
mod speech;
mod tools;

#[cfg(test)]
mod checks;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod stories;

pub use event::ResponseEvent;
pub use input::{InputItem, wire_items};
pub use item::OutputItem;
pub use projection::{Profile, Responses};
pub use response::Response;
