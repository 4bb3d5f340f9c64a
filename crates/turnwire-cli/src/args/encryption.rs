//! Commands about the keys that encrypt what is stored.

use clap::{Args, Subcommand};

use super::StoreArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum EncryptionCommand {
    /// Show which keys are in use
    Status(EncryptionArguments),
    /// Encrypt the keys of tenants with the first key of [encryption]
    Rewrap(EncryptionArguments),
    /// Give tenants a new key, for what is stored from now on
    Rotate(EncryptionRotateArguments),
}

/// Shown after the options of the commands about encryption.
const ENCRYPTION_HELP: &str = "\
The keys of tenants are in the store of the settings ([store], TURNWIRE_STORE_URL), encrypted with the
keys of [encryption]. Servers may be at work meanwhile; they use a new key of a tenant after a minute
at the latest.

Exit codes: 0 done, 1 the store cannot be used, or a key is missing, 2 invalid usage or settings.";

#[derive(Debug, Args)]
#[command(after_help = ENCRYPTION_HELP)]
pub(crate) struct EncryptionArguments {
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = ENCRYPTION_HELP)]
pub(crate) struct EncryptionRotateArguments {
    /// Only this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}
