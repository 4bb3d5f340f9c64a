//! The audit log: who did what, in a form that shows if somebody changed it later.

use std::{str::FromStr, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Actor, Decision, TenantId, Timestamp, words};

use super::Result;

words! {
    /// What was done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    pub enum AuditAction {
        /// A run was started. The object is the run, the content the request.
        RunStarted = "run.started",
        /// A run was cancelled.
        RunCancelled = "run.cancelled",
        /// A run was deleted.
        RunDeleted = "run.deleted",
        /// A share link was made. The detail is its ID.
        RunShared = "run.shared",
        /// A share link was revoked. The detail is its ID.
        ShareRevoked = "share.revoked",
        /// A call was approved. The detail is the call, the content the answer.
        CallApproved = "call.approved",
        /// A call was denied.
        CallDenied = "call.denied",
        /// The question of a tool was answered.
        CallAnswered = "call.answered",
        /// A call was cancelled.
        CallCancelled = "call.cancelled",
        /// Something was read. The object is its path, the detail the route.
        Read = "read",
        /// A conversation, a file or a vector store was made, changed or deleted, a tool was tried,
        /// or a webhook was sent again. The object is its path, the detail the route.
        Changed = "changed",
        /// An API key was created. The object is its ID.
        KeyCreated = "key.created",
        /// An API key was rotated. The detail is the ID of the new one.
        KeyRotated = "key.rotated",
        /// An API key was revoked.
        KeyRevoked = "key.revoked",
        /// A server started. The object is its name among the workers, the content its settings
        /// file.
        ServerStarted = "server.started",
        /// The settings were read again. The object is the worker, the content the settings file.
        SettingsReloaded = "settings.reloaded",
    } else {
        /// Something that a later version records.
        Other = "other"
    }
}

impl AuditAction {
    /// Returns the action of somebody who decided about a call.
    pub fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Approved => Self::CallApproved,
            Decision::Denied { .. } => Self::CallDenied,
        }
    }
}

/// A text that names no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an action of the audit log")]
pub struct UnknownAction(pub String);

impl FromStr for AuditAction {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        let found = Self::ALL.into_iter().find(|action| action.as_str() == text);
        found.ok_or_else(|| UnknownAction(text.to_owned()))
    }
}

/// Who did what, when, and to what. Contents are not in it, only their hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// When it was done, by the clock of the server.
    pub at: Timestamp,
    /// Tenant whose data it was done to.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// Who did it. Absent: a server that needs no key, the reader of a share link, or the operator
    /// at the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Actor>)]
    pub actor: Option<Arc<Actor>>,
    /// What was done.
    pub action: AuditAction,
    /// What it was done to: an ID, or a path.
    pub object: String,
    /// More about it, such as the ID of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// SHA-256 of what was said, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Maximum length of an object and of a detail, in bytes.
const MAX_TEXT: usize = 500;

impl AuditRecord {
    /// Cuts texts that callers chose, so that every database can store and index them.
    pub fn bounded(mut self) -> Self {
        cut(&mut self.object);
        self.detail.iter_mut().for_each(cut);
        self
    }
}

fn cut(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{FFFD}");
    }
    if text.len() > MAX_TEXT {
        let n_bytes = text.len();
        text.truncate(text.floor_char_boundary(MAX_TEXT - 40));
        *text = format!("{text}… ({n_bytes} bytes)");
    }
}

/// A record in the log. Each process writes a chain of its own, in which the hash of an entry
/// depends on all before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The chain.
    pub chain: String,
    /// Number of the entry in its chain, from 1.
    pub seq: u64,
    /// The record.
    #[serde(flatten)]
    pub record: AuditRecord,
    /// SHA-256 of the entry and of the hash before it, in hexadecimal.
    pub hash: String,
}

/// Which entries to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only those of this tenant.
    pub tenant: Option<TenantId>,
    /// Only those with this action.
    pub action: Option<AuditAction>,
    /// Only those about this object.
    pub object: Option<String>,
    /// Only those before this entry, by its chain and number.
    pub before: Option<(String, u64)>,
    /// Maximum number of entries.
    pub limit: usize,
}

/// The last entry of a chain. Kept elsewhere, it shows later that the chain still leads there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEnd {
    /// The chain.
    pub chain: String,
    /// Number of the entry.
    pub seq: u64,
    /// Hash of the entry.
    pub hash: String,
}

/// What a check of the log found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Number of chains.
    pub n_chains: u64,
    /// Number of entries.
    pub n_entries: u64,
    /// The ends of all chains.
    pub ends: Vec<AuditEnd>,
    /// Signs that somebody changed the log. Empty if nobody did.
    pub faults: Vec<AuditFault>,
}

/// A sign that somebody changed the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFault {
    /// The chain.
    pub chain: String,
    /// Number of the entry where it shows.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

/// Stores the audit log.
///
/// Guarantees of an implementation:
///
/// * records are appended in their order, all or none, and stored when the call returns;
/// * an entry is never changed, and deleted only by age, oldest first;
/// * any other change of one entry, and the deletion of one, shows in [`verify`](Self::verify).
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends records to the chain of this process.
    async fn append(&self, records: Vec<AuditRecord>) -> Result<()>;

    /// Returns entries, newest first.
    async fn list(&self, query: AuditQuery) -> Result<Vec<AuditEntry>>;

    /// Checks all chains, and that they still lead to `kept`, which are ends of earlier reports.
    async fn verify(&self, kept: &[AuditEnd]) -> Result<AuditReport>;
}
