//! The doors to the outside world. Adapters live in `turnwire-models`, `turnwire-tools` and
//! `turnwire-stores`; the engine brings an in-memory log and store of its own.
//!
//! Each trait lists the promises an implementation makes. For those that keep things, a
//! conformance suite in `turnwire-testkit` has one test per promise.

mod blob_store;
mod event_log;
mod library;
mod model;
mod run_store;
mod tool;
mod tool_servers;
mod workers;

pub use blob_store::{BlobError, BlobStore};
pub use event_log::{Ending, EventLog, EventStream, LogError};
pub use library::{
    Attachment, CollectionRecord, Comparison, FileRecord, Filter, FilterMistake, Library,
    LibraryError, Passage, Query,
};
pub use model::{Finish, Model, ModelError, ModelPart, ModelStream, Prompt};
pub use run_store::{
    ConversationRecord, Created, NewRun, RequestKey, RunRecord, RunStatus, RunStore, StoreError,
};
pub use tool::{CallLink, Tool, ToolContext, ToolError, ToolNote, ToolRequest};
pub use tool_servers::{NoToolServers, ToolServers};
pub use workers::{Abandoned, Alone, Lease, LeftWish, Wish, Workers};
