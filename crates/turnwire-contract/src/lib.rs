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
pub mod seeded;
pub mod time;
pub mod tool;

pub use event::{Event, Recorded};
pub use ids::{BlobId, CallId, CollectionId, ConversationId, FileId, ItemId, RunId, Seq, TenantId};
pub use item::{Annotation, Completeness, Content, Entry, Item, Role};
pub use outcome::{Decision, DiscoveryOutcome, Failure, IncompleteReason, RunOutcome, ToolOutcome};
pub use ports::{
    Abandoned, Alone, Attachment, BlobError, BlobStore, CallLink, CollectionRecord, Comparison,
    ConversationRecord, Created, Ending, EventLog, EventStream, FileRecord, Filter, FilterMistake,
    Finish, Lease, LeftWish, Library, LibraryError, LogError, Model, ModelError, ModelPart,
    ModelStream, NewRun, NoToolServers, Passage, Prompt, Query, RequestKey, RunRecord, RunStatus,
    RunStore, StoreError, Tool, ToolContext, ToolError, ToolNote, ToolRequest, ToolServers, Wish,
    Workers,
};
pub use run::{
    Approvals, AskBefore, FirstCall, Generation, Limits, RunRequest, ServerUse, ToolChoice, Usage,
};
pub use time::Timestamp;
pub use tool::{Effect, Image, ToolKind, ToolOutput, ToolRef, ToolSpec};
