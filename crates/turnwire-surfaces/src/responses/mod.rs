//! The Responses surface: a run as `/v1/responses` shows it, for unmodified official clients.
//!
//! Every byte must be accepted by the official SDKs and by the Open Responses schema, so this
//! folder uses their vocabulary. Reading order:
//!
//! * [`event`] has the frames of the stream, [`item`] the output items, and [`response`] the
//!   response object;
//! * [`projection`] turns events into frames. Messages and reasoning are in `speech`, calls in
//!   `tools`, their ends in `finished_calls`, tool listings in `discovery`, and outcomes of calls
//!   in `outcome`;
//! * [`input`] lists a conversation as items, [`ids`] translates the IDs of runs and approval
//!   requests, and [`surface_data`] has the fields of a request that the response object repeats.
//!
//! There are two [`Profile`]s. The strict one has official event types only, because some official
//! clients throw on any other; the extended one adds our own events and omits nothing.

mod discovery;
pub mod event;
mod finished_calls;
pub mod ids;
pub mod input;
pub mod item;
mod outcome;
mod own_event;
pub mod projection;
pub mod response;
mod shown_call;
mod speech;
pub mod surface_data;
mod tools;

#[cfg(test)]
mod checks;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod stories;

pub use event::{ResponseEvent, SequencedEvent};
pub use input::{InputItem, wire_items};
pub use item::OutputItem;
pub use projection::{Profile, Responses};
pub use response::Response;
