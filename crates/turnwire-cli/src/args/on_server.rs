//! Commands against a server.

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Args, Subcommand};

use super::{ApprovalPolicy, ColorChoice, DisplayArguments, ToolsShown};
use crate::addresses::ServerAddress;

/// Which server is meant.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerArguments {
    /// Address of a Turnwire server [env: `TURNWIRE_SERVER`]
    #[arg(long, value_name = "URL", value_parser = ServerAddress::parse)]
    pub(crate) server: Option<ServerAddress>,
}

/// Shown after the options of commands against a server.
const SERVER_HELP: &str = "\
The server is --server, TURNWIRE_SERVER, the only one with a saved key, or http://127.0.0.1:7878.
The key is TURNWIRE_API_KEY, or the one that `turnwire login` saved for that server.

Exit codes: 0 done, 1 refused, 2 invalid usage or key, 4 the server cannot be reached.";

/// Shown after the options in `turnwire follow --help`.
const FOLLOW_HELP: &str = "\
Keys: Esc or Ctrl-C stops the run on the server, Ctrl-B detaches, a second Ctrl-C leaves at once,
o shows the last call in full, ? shows the keys.
After a lost connection or a restart of the server it continues where it was. On a terminal,
approvals and questions of tools are answered in place; elsewhere they are left to others.

The server is --server, TURNWIRE_SERVER, the only one with a saved key, or http://127.0.0.1:7878.
The key is TURNWIRE_API_KEY, or the one that `turnwire login` saved for that server.

Exit codes: 0 completed or detached, 1 failed, incomplete or stopped by others, 2 invalid usage or
key, 4 the server cannot be reached, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.";

#[derive(Debug, Args)]
#[command(after_help = FOLLOW_HELP)]
pub(crate) struct FollowArguments {
    /// ID of the run
    pub(crate) run_id: String,
    /// Which calls that need an approval are allowed without asking: none, those of tools that the
    /// server classes as pure, or all; `never` denies them
    #[arg(long, value_name = "WHICH", default_value = "ask")]
    pub(crate) approve: ApprovalPolicy,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(flatten)]
    pub(crate) display: DisplayArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List(RunsListArguments),
    /// Show the state of a run
    Show(RunsOneArguments),
    /// Cancel a run
    Cancel(RunsOneArguments),
    /// Approve or deny a call that waits for an approval
    Approve(ApproveArguments),
    /// Make, list or revoke read-only links to a run
    Share(ShareArguments),
    /// Print the journal of a run: every event so far, as one line of JSON
    Export(RunsOneArguments),
}

/// What all commands about runs have.
#[derive(Debug, Default, Args)]
pub(crate) struct RunsArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// Print the answer of the server as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Default, Args)]
#[command(after_help = SERVER_HELP)]
pub(crate) struct RunsListArguments {
    /// Only runs with one of these statuses, separated by commas: active, `needs_input`, stalled,
    /// completed, incomplete, failed, cancelled
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Only runs of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Only runs of this conversation
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,
    /// Only runs that called this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only runs whose question contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only runs created at this time or later, such as 2026-11-16T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) created_after: Option<String>,
    /// Only runs created before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) created_before: Option<String>,
    /// Start after this run
    #[arg(long, value_name = "RUN_ID")]
    pub(crate) after: Option<String>,
    /// Maximum number of runs, 1 to 100 [default: 20]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroU64>,
    /// Oldest first
    #[arg(long)]
    pub(crate) oldest_first: bool,
    #[command(flatten)]
    pub(crate) common: RunsArguments,
}

#[derive(Debug, Default, Args)]
#[command(after_help = SERVER_HELP)]
pub(crate) struct RunsOneArguments {
    /// ID of the run
    pub(crate) run_id: String,
    #[command(flatten)]
    pub(crate) common: RunsArguments,
}

#[derive(Debug, Default, Args)]
#[command(after_help = SERVER_HELP)]
pub(crate) struct ApproveArguments {
    /// ID of the run
    pub(crate) run_id: String,
    /// ID of the call [default: the only one that waits]
    pub(crate) call_id: Option<String>,
    /// Deny the call instead
    #[arg(long)]
    pub(crate) deny: bool,
    /// Why it is denied, for the model
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) reason: Option<String>,
    /// Also approve later calls of this tool in this conversation
    #[arg(long, conflicts_with = "deny")]
    pub(crate) remember: bool,
    #[command(flatten)]
    pub(crate) common: RunsArguments,
}

/// Shown after the options in `turnwire runs share --help`.
const SHARE_HELP: &str = "\
Examples:
  turnwire runs share run_… --redact --expires 2h
  turnwire runs share run_… --list
  turnwire runs share run_… --revoke share_…

Whoever has the link can read the run until the link expires, without a key.

Exit codes: 0 done, 1 refused, 2 invalid usage or key, 4 the server cannot be reached.";

#[derive(Debug, Default, Args)]
#[command(after_help = SHARE_HELP)]
pub(crate) struct ShareArguments {
    /// ID of the run
    pub(crate) run_id: String,
    /// Withhold all texts: only tools, times and outcomes are shown
    #[arg(long)]
    pub(crate) redact: bool,
    /// How long the link works: 90s, 30m, 12h or 7d; at most 30d [default: 1d]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<u64>,
    /// List the links of the run
    #[arg(long, conflicts_with_all = ["redact", "expires", "revoke"])]
    pub(crate) list: bool,
    /// Revoke a link
    #[arg(long, value_name = "SHARE_ID", conflicts_with_all = ["redact", "expires"])]
    pub(crate) revoke: Option<String>,
    #[command(flatten)]
    pub(crate) common: RunsArguments,
}

/// Parses a duration into seconds.
fn duration(text: &str) -> Result<u64, String> {
    let wrong = || "it should look like 90s, 30m, 12h or 7d".to_owned();
    let unit = match text.chars().next_back() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 60 * 60,
        Some('d') => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number = text.get(..text.len() - 1).and_then(|number| number.parse::<u64>().ok());
    number.and_then(|number| number.checked_mul(unit)).filter(|n| *n > 0).ok_or_else(wrong)
}

/// Shown after the options in `turnwire chat --help`.
const CHAT_HELP: &str = "\
Examples:
  turnwire chat --model scripted                     demo, needs no key
  OPENAI_BASE_URL=http://localhost:11434/v1 turnwire chat --model qwen3:8b
  turnwire chat --server http://127.0.0.1:7878 --resume

Without a server, the chat has the settings and the store of `turnwire serve`. Approvals and
questions of tools are answered in place. /help shows commands and keys.

Exit codes: 0 left, 1 failed, 2 invalid usage, settings or key, 4 the server cannot be reached,
143 stopped by SIGTERM.";

#[derive(Debug, Default, Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArguments {
    /// Continue a conversation; without an ID, the last one
    #[arg(long, value_name = "CONVERSATION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// A model from the settings, `scripted` for the demo, or a model name of the default provider
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// JSON file with `mcpServers`, in the format other MCP clients use; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Print one line per change, without a spinner and without formatting
    #[arg(long)]
    pub(crate) plain: bool,
    /// How much to show of tool calls: nothing, a line each, or also arguments and results
    #[arg(long, value_name = "HOW", default_value = "summary")]
    pub(crate) tools: ToolsShown,
    /// Which calls that need an approval are allowed without asking: none, those of tools that the
    /// settings class as pure, or all; `never` denies them
    #[arg(long, value_name = "WHICH", default_value = "ask")]
    pub(crate) approve: ApprovalPolicy,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// Shown after the options in `turnwire login --help`.
const LOGIN_HELP: &str = "\
The key is typed without echo, or read from standard input:
  turnwire login --server https://turnwire.example.com < key.txt

It is tried before it is saved, in ~/.config/turnwire/credentials.json, which only you can read.

Exit codes: 0 saved, 2 invalid usage or key, 4 the server cannot be reached.";

#[derive(Debug, Default, Args)]
#[command(after_help = LOGIN_HELP)]
pub(crate) struct LoginArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Default, Args)]
pub(crate) struct LogoutArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}
