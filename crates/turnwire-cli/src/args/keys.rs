//! Commands about API keys.

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Args, Subcommand};
use turnwire_contract::Scope;

use super::ColorChoice;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it, once
    Create(KeyCreateArguments),
    /// List keys, oldest first
    List(KeyListArguments),
    /// Replace a key by a new one with the same rights
    Rotate(KeyRotateArguments),
    /// Revoke a key; open streams of it end within a second
    Revoke(KeyRevokeArguments),
}

/// Shown after the options of the commands about keys.
const KEYS_HELP: &str = "\
The keys are in the store of the settings ([store], TURNWIRE_STORE_URL), and all servers on that
store accept them at once. As soon as a store has a key, its servers accept no request without one.
Over HTTP: /v1/admin/keys.

Exit codes: 0 done, 1 the store cannot be used or refuses, 2 invalid usage or settings.";

/// What all commands about a store have.
#[derive(Debug, Default, Args)]
pub(crate) struct StoreArguments {
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Args)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct KeyCreateArguments {
    /// Tenant whose data the key gives access to
    #[arg(long, value_name = "TENANT", default_value = "default")]
    pub(crate) tenant: String,
    /// Name by which people know the key
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Part of the tenant that uses the key; a label that is recorded with its runs
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// What the key allows: runs:read, runs:write, approve, files, metrics, admin, operator, and
    /// use:NAME for models and tools that name it; repeatable [default: runs:read, runs:write, approve, files]
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    pub(crate) scopes: Vec<Scope>,
    /// Days after which the key ends [default: never]
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires_days: Option<NonZeroU64>,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct KeyListArguments {
    /// Only keys of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct KeyRotateArguments {
    /// ID of the key: key_…
    pub(crate) key_id: String,
    /// Seconds that the old key stays valid
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    pub(crate) overlap: u64,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}

#[derive(Debug, Args)]
#[command(after_help = KEYS_HELP)]
pub(crate) struct KeyRevokeArguments {
    /// ID of the key: key_…
    pub(crate) key_id: String,
    #[command(flatten)]
    pub(crate) common: StoreArguments,
}
