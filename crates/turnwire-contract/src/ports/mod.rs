//! Interfaces to external systems. Adapters are in `turnwire-models`, `turnwire-tools`,
//! `turnwire-stores` and `turnwire-oidc`; `turnwire-engine` has an in-memory journal and store.
//!
//! Each trait lists the guarantees of an implementation. For the storage traits, a conformance
//! suite in `turnwire-testkit` has one test per guarantee.

mod api_keys;
mod audit;
mod blob_store;
mod filter;
mod indexing;
mod journal;
mod library;
mod model;
mod observer;
mod pins;
mod ranking;
mod run_listing;
mod run_record;
mod run_store;
mod scope;
mod secret_box;
mod shares;
mod tokens;
mod tool;
mod tool_servers;
mod usage;
mod webhooks;
mod workers;

/// Result of a port. Most ports fail with a [`StoreError`].
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

pub use api_keys::{ApiKey, ApiKeys, MAX_API_KEYS};
pub use audit::{
    AuditAction, AuditEnd, AuditEntry, AuditFault, AuditLog, AuditQuery, AuditRecord, AuditReport,
    UnknownAction,
};
pub use blob_store::{BlobError, BlobStore};
pub use filter::{Comparison, Filter, FilterMistake};
pub use indexing::{
    EmbeddingError, IndexQueue, IndexTask, IndexWork, Indexed, MAX_CLAIMS, NewChunk, TextAnalyzer,
    Vectors,
};
pub use journal::{EventStream, Journal, JournalError, JournalHead, RunEnd};
pub use library::{
    Attachment, Attachments, BatchRecord, Chunking, CollectionNotes, CollectionRecord,
    CollectionUsage, Collections, ContentStream, ExtractionFailure, FileCounts, FileRecord,
    FileUpload, Files, FoundChunk, Indexing, Library, LibraryError, Query, SearchResults,
};
pub use model::{Finish, Model, ModelError, ModelPart, ModelStream, Prompt};
pub use observer::{ObservedRun, Observer, RunObserver};
pub use pins::{PinnedTool, Pins};
pub use ranking::{RANKED, fused};
pub use run_listing::{
    ListedStatus, RunCounts, RunFilter, RunPage, RunProgress, RunQuery, RunSummary,
};
pub use run_record::{RunRecord, RunStatus};
pub use run_store::{
    Allowed, ConversationRecord, Conversations, Created, Entries, IdempotencyKey, NewRun,
    RunRecords, RunStore, StoreError,
};
pub use scope::{Scope, UnknownScope, UseScope};
pub use secret_box::{SealedSecret, SecretBox, SecretError, SecretOwner};
pub use shares::{MAX_SHARES, Share, Shares};
pub use tokens::{TokenError, TokenHolder, TokenVerifier};
pub use tool::{CallLink, Question, Tool, ToolContext, ToolError, ToolNote, ToolRequest};
pub use tool_servers::{
    NoToolServers, RunAccess, ServerRef, ServerState, ServerStatus, ServerTransport, ToolServers,
};
pub use usage::{UsageAmounts, UsageCount, UsageCounters, UsageSpan, UsageSubject, UsageWindow};
pub use webhooks::{
    ClaimedDelivery, DeliveryAttempt, DeliveryQuery, DeliveryStatus, FreeReceiver, NextAttempt,
    UnknownWebhookEvent, WebhookCounts, WebhookDelivery, WebhookEvent, WebhookOutbox, WebhookRoute,
};
pub use workers::{
    AbandonedRun, Commands, Lease, Leases, PendingCommand, RunCommand, SingleWorker, Workers,
};
