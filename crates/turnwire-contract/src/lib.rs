//! What every part of Turnwire agrees on.
//!
//! Reading order: [`event`] is the vocabulary, the rest explains its words. [`ids`] and
//! [`time`] name and date things, [`item`] is what a conversation is made of, [`run`] is what
//! a run was asked to do, [`outcome`] is how things end, [`tool`] is what is known about a
//! tool, and [`ports`] are the doors to the outside world.
//!
//! This crate does no I/O, knows no runtime and no wire format, and depends on no other
//! crate of the workspace.

pub mod event;
pub mod ids;
pub mod item;
pub mod outcome;
pub mod ports;
pub mod run;
pub mod time;
pub mod tool;

pub use event::{Event, Recorded};
pub use ids::{BlobId, CallId, ConversationId, ItemId, RunId, Seq, TenantId};
pub use item::{Annotation, Completeness, Content, Item, Role};
pub use outcome::{Decision, DiscoveryOutcome, Failure, IncompleteReason, RunOutcome, ToolOutcome};
pub use ports::{
    BlobError, BlobStore, CallLink, EventLog, EventStream, Finish, LogError, Model, ModelError,
    ModelPart, ModelStream, NewRun, Prompt, RunRecord, RunStatus, RunStore, StoreError, Tool,
    ToolContext, ToolError, ToolNote, ToolRequest,
};
pub use run::{Generation, Limits, RunRequest, ToolChoice, Usage};
pub use time::Timestamp;
pub use tool::{Effect, Image, ToolKind, ToolOutput, ToolRef, ToolSpec};
