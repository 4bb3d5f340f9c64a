//! The doors to the outside world. Adapters live in `turnwire-models`, `turnwire-tools` and
//! `turnwire-stores`; the engine brings an in-memory log and store of its own.
//!
//! Each trait lists the promises an implementation makes. For those that keep things, a
//! conformance suite in `turnwire-testkit` has one test per promise.

mod blob_store;
mod event_log;
mod filter;
mod indexing;
mod library;
mod model;
mod pins;
mod ranking;
mod run_store;
mod tool;
mod tool_servers;
mod workers;

pub use blob_store::{BlobError, BlobStore};
pub use event_log::{Ending, EventLog, EventStream, JournalHead, LogError};
pub use filter::{Comparison, Filter, FilterMistake};
pub use indexing::{
    IndexQueue, IndexTask, IndexWork, Indexed, MOST_CLAIMS, NewPassage, NoVectors, Reader, Vectors,
};
pub use library::{
    Attachment, BatchRecord, Chunking, CollectionNotes, CollectionRecord, CollectionUsage,
    ContentStream, FileCounts, FileRecord, FileUpload, Found, Indexing, Library, LibraryError,
    Passage, Query, Unreadable,
};
pub use model::{Finish, Model, ModelError, ModelPart, ModelStream, Prompt};
pub use pins::{Pinned, Pins};
pub use ranking::{RANKED, fused};
pub use run_store::{
    Allowed, ConversationRecord, Created, NewRun, RequestKey, RunRecord, RunStatus, RunStore,
    StoreError,
};
pub use tool::{CallLink, Question, Tool, ToolContext, ToolError, ToolNote, ToolRequest};
pub use tool_servers::{NoToolServers, ServerRef, ToolServers};
pub use workers::{Abandoned, Alone, Lease, LeftWish, Wish, Workers};
