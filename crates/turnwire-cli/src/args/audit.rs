//! Commands about the audit log.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, Subcommand};
use turnwire_contract::AuditAction;

use super::StoreArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List who did what, newest first
    List(AuditListArguments),
    /// Check that nobody changed the log
    Verify(AuditVerifyArguments),
}

/// Shown after the options of the commands about the audit log.
const AUDIT_HELP: &str = "\
The log is in the store of the settings ([store], TURNWIRE_STORE_URL). [audit] says what servers
record, and for how long it is kept. Over HTTP: /v1/admin/audit.

Exit codes: 0 done, 1 the store cannot be used, or the log was changed, 2 invalid usage or settings.";

#[derive(Debug, Args)]
#[command(after_help = AUDIT_HELP)]
pub(crate) struct AuditListArguments {
    /// Only entries of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Only this action, such as run.started or call.approved
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<AuditAction>,
    /// Only entries about this object, such as the ID of a run
    #[arg(long, value_name = "ID")]
    pub(crate) object: Option<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value = "50")]
    pub(crate) limit: NonZeroUsize,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = AUDIT_HELP)]
pub(crate) struct AuditVerifyArguments {
    /// Output of an earlier `audit verify --json`: its chains must still lead where they did
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}
