//! Types and traits shared by all crates of Turnwire.
//!
//! Start with [`event`]. [`ids`] and [`time`] define IDs and timestamps, [`item`] the items of a
//! conversation, [`run`] the request that creates a run, [`generation`] the parameters of the
//! model, [`outcome`] how runs and calls end, [`tool`] the description of a tool, [`trace`] where a
//! run belongs in a distributed trace, and [`ports`] the interfaces to external systems.
//!
//! This crate does no I/O, uses no async runtime and no wire format, and depends on no other crate
//! of the workspace.
#![warn(missing_docs)]

mod actor;
mod budget;
pub mod event;
pub mod generation;
pub mod ids;
pub mod item;
mod json_size;
mod left_out;
mod library_address;
mod macros;
pub mod outcome;
pub mod ports;
pub mod run;
mod secrets;
pub mod statistics;
pub mod time;
pub mod tool;
pub mod trace;

pub use actor::Actor;
pub use budget::{BudgetScope, BudgetUse};
pub use event::{Event, RecordedEvent};
pub use generation::{Capabilities, CustomTools, Generation, Parameter};
pub use ids::{
    BatchId, BlobId, CallId, CollectionId, ConversationId, FileId, InputId, ItemId, RunId, Seq,
    TenantId,
};
pub use item::{Annotation, Completeness, Content, Entry, Item, Logprob, Role};
pub use json_size::{json_size, json_start};
pub use left_out::{LeftOut, LeftOutTool, WhyLeftOut};
pub use library_address::LibraryAddress;
pub use outcome::{
    ApprovalAnswer, Decision, DiscoveryOutcome, Failure, IncompleteReason, OUTCOME_UNKNOWN, Reply,
    RunOutcome, ToolOutcome,
};
pub use ports::{
    AbandonedRun, Allowed, ApiKey, ApiKeys, Attachment, Attachments, AuditAction, AuditEnd,
    AuditEntry, AuditFault, AuditLog, AuditQuery, AuditRecord, AuditReport, BatchRecord, BlobError,
    BlobStore, CallLink, Chunking, ClaimedDelivery, CollectionNotes, CollectionRecord,
    CollectionUsage, Collections, Commands, Comparison, ContentStream, ConversationRecord,
    Conversations, Created, DeliveryAttempt, DeliveryQuery, DeliveryStatus, EmbeddingError,
    Entries, EventStream, ExtractionFailure, FileCounts, FileRecord, FileUpload, Files, Filter,
    FilterMistake, Finish, FoundChunk, FreeReceiver, IdempotencyKey, IndexQueue, IndexTask,
    IndexWork, Indexed, Indexing, Journal, JournalError, JournalHead, Lease, Leases, Library,
    LibraryError, ListedStatus, MAX_API_KEYS, MAX_CLAIMS, MAX_SHARES, Model, ModelError, ModelPart,
    ModelStream, NewChunk, NewRun, NextAttempt, NoToolServers, ObservedRun, Observer,
    PendingCommand, PinnedTool, Pins, Prompt, Query, Question, RANKED, RunAccess, RunCommand,
    RunCounts, RunEnd, RunFilter, RunObserver, RunPage, RunProgress, RunQuery, RunRecord,
    RunRecords, RunStatus, RunStore, RunSummary, Scope, SealedSecret, SearchResults, SecretBox,
    SecretError, SecretOwner, ServerRef, ServerState, ServerStatus, ServerTransport, Share, Shares,
    SingleWorker, StoreError, TextAnalyzer, TokenError, TokenHolder, TokenVerifier, Tool,
    ToolContext, ToolError, ToolNote, ToolRequest, ToolServers, UnknownAction, UnknownScope,
    UnknownWebhookEvent, UsageAmounts, UsageCount, UsageCounters, UsageSpan, UsageSubject,
    UsageWindow, UseScope, Vectors, WebhookCounts, WebhookDelivery, WebhookEvent, WebhookOutbox,
    WebhookRoute, Workers, fused,
};
pub use run::{
    Approvals, AskBefore, FirstCall, Limits, RunRequest, ServerUse, ToolChoice, UnknownOutcomes,
    Usage,
};
pub use secrets::{SecretText, ServerSecrets};
pub use statistics::{
    DurationCounter, DurationCounts, MetricExportCounts, PoolUse, StoreStatistics,
};
pub use time::Timestamp;
pub use tool::{Effect, Image, InputFormat, ToolClaims, ToolKind, ToolOutput, ToolRef, ToolSpec};
pub use trace::{RunTrace, Sampler, SpanCounts, SpanId, TraceContext, TraceId};
